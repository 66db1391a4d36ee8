package search

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Which forms the tables may take is data: a list for each table. A search among slices
// of columns in HBM is one whose lists are empty.

// forms is what the tables may be in, and what such pieces are made of.
type forms struct {
	// columns says that slices of columns in HBM, the zero form, are allowed at all.
	columns bool
	// choices are the other forms allowed, by table; nil for a table that has none.
	choices [][]problem.Form
	// whole is the piece of the unsplit table, in the zero form.
	whole []int32
	// sliced says whether a table that is cut by rows may be cut by columns, too (grid).
	sliced bool
}

// cacheShares are the shares of a table's rows in host memory that are tried as its
// cache; 0 stands for no cache.
var cacheShares = []float64{.02, .05, .1, .2, .4, 0}

// onlyColumns returns the forms of a search among slices of columns in HBM.
func onlyColumns(c *catalog) forms {
	n := len(c.problem.Tables)
	f := forms{columns: true, choices: make([][]problem.Form, n), whole: make([]int32, n)}
	for _, k := range c.whole() {
		for _, m := range c.pieces[k].members {
			f.whole[m.table] = k
		}
	}
	return f
}

// newForms returns the forms that the options allow for the catalog's tables. On one
// host, blocks for a host are those for all devices, and are tried only in their place.
func newForms(c *catalog, opt Options) forms {
	f := onlyColumns(c)
	if opt.ColumnsOnly || len(opt.ShardingTypes) == 0 && c.problem.Topology.HostMemory == 0 {
		return f
	}
	allowed := func(k problem.ShardingType) bool { return slices.Contains(opt.ShardingTypes, k) }
	f.columns = len(opt.ShardingTypes) == 0 || allowed(problem.TableWise) || allowed(problem.ColumnWise)
	f.sliced = allowed(problem.Grid)
	for i := range c.problem.Tables {
		f.choices[i] = f.choicesOf(c, i, allowed)
	}
	return f
}

// none returns the forms without choices: slices of columns in HBM are all that is left.
func (f forms) none() forms {
	f.columns, f.choices = true, make([][]problem.Form, len(f.choices))
	return f
}

// choicesOf returns the forms other than the zero one that a table may take.
func (f *forms) choicesOf(c *catalog, table int, allowed func(problem.ShardingType) bool) (choices []problem.Form) {
	t := &c.problem.Tables[table]
	if t.Constraint.Group != "" || c.problem.Accounting != problem.CountAll {
		return nil
	}
	if len(t.Constraint.Devices) == 0 && len(c.all) > 1 {
		if !t.Constraint.NoSplit {
			choices = byRows(c, t, allowed)
		}
		if allowed(problem.DataParallel) {
			choices = append(choices, problem.Form{ShardingType: problem.DataParallel})
		}
	}
	if f.columns && c.problem.Topology.HostBudget() > 0 {
		choices = append(choices, hostForms()...)
	}
	return choices
}

// byRows returns the forms by rows that a table may take.
func byRows(c *catalog, t *problem.Table, allowed func(problem.ShardingType) bool) (choices []problem.Form) {
	topology := c.problem.Topology
	if allowed(problem.RowWise) && t.CutsByRows(len(c.all)) {
		choices = append(choices, problem.Form{ShardingType: problem.RowWise})
	}
	hosts := topology.Hosts() > 1 || !allowed(problem.RowWise)
	if hosts && (allowed(problem.TableRowWise) || allowed(problem.Grid)) && t.CutsByRows(topology.PerHost()) {
		choices = append(choices, problem.Form{ShardingType: problem.TableRowWise})
	}
	return choices
}

// hostForms returns the forms in host memory.
func hostForms() (choices []problem.Form) {
	for _, share := range cacheShares {
		form := problem.Form{Tier: problem.HostCached, Cache: share}
		if share == 0 {
			form = problem.Form{Tier: problem.Host}
		}
		choices = append(choices, form)
	}
	return choices
}

// any reports whether a table may take another form than the zero one, or must.
func (f *forms) any() bool {
	return !f.columns || slices.ContainsFunc(f.choices, func(choices []problem.Form) bool { return len(choices) > 0 })
}

// choice returns the first form that an unsplit piece may have and that suits.
func (f *forms) choice(c *catalog, k int32, suits func(problem.Form) bool) (problem.Form, bool) {
	members := c.pieces[k].members
	if len(members) != 1 {
		return problem.Form{}, false
	}
	choices := f.choices[members[0].table]
	if i := slices.IndexFunc(choices, suits); i >= 0 {
		return choices[i], true
	}
	return problem.Form{}, false
}

// sets returns the sets of forms that tables are switched to, one set after the other:
// each form of HBM alone, those of host memory, and all together.
func (f *forms) sets() [][]problem.Form {
	var hbm, host []problem.Form
	for _, choices := range f.choices {
		for _, form := range choices {
			list := &hbm
			if form.Tier.OnHost() {
				list = &host
			}
			if !slices.Contains(*list, form) {
				*list = append(*list, form)
			}
		}
	}
	var sets [][]problem.Form
	for _, form := range hbm {
		sets = append(sets, []problem.Form{form})
	}
	if len(host) > 0 {
		sets = append(sets, host)
	}
	if len(sets) > 1 {
		sets = append(sets, append(hbm, host...))
	}
	return sets
}

// narrowed returns the problem with the cuts by columns that the sharding types allow:
// none where tables on single devices stay whole.
func narrowed(p *problem.Problem, shardingTypes []problem.ShardingType) *problem.Problem {
	if slices.Contains(shardingTypes, problem.ColumnWise) || !slices.Contains(shardingTypes, problem.TableWise) {
		return p
	}
	whole := *p
	whole.Tables = slices.Clone(p.Tables)
	for i := range whole.Tables {
		whole.Tables[i].Constraint.MinWidth = whole.Tables[i].Dim
	}
	return &whole
}

// NoShardingType is the error of a search whose sharding types, none of which places tables on
// single devices, cannot place some tables, or place them and do not fit.
type NoShardingType struct {
	// Tables are the names of those that no sharding type can place, in the problem's
	// order: their rows are fewer than devices, or their constraints forbid it. Where all
	// can be placed and do not fit, it is the one that takes most.
	Tables []string
	// ShardingTypes are the sharding types tried, where tables do not fit. Need is what Tables
	// takes of a device, Sum what all tables take of each, or of those of a host, in the
	// sharding type that takes least, and Have what there is.
	ShardingTypes   []string
	Need, Sum, Have unit.Bytes
}

// Error names the first of the tables, or the one that takes most.
func (e *NoShardingType) Error() string {
	if len(e.ShardingTypes) > 0 {
		return fmt.Sprintf("the tables do not fit in %s: each in the sharding type that takes least, they take %v of a device that has %v for them; %q takes most, %v",
			strings.Join(e.ShardingTypes, ", "), e.Sum, e.Have, e.Tables[0], e.Need)
	}
	return fmt.Sprintf("none of the sharding types allowed can place %s: they have fewer rows than there are devices, or constraints against it", words.Quoted(e.Tables, 5))
}

// possible returns nil, or a *NoShardingType with the tables that can take no form.
func (f *forms) possible(c *catalog) error {
	e := &NoShardingType{}
	for i := range c.problem.Tables {
		if len(f.choices[i]) == 0 {
			e.Tables = append(e.Tables, c.problem.Tables[i].Name)
		}
	}
	if len(e.Tables) == 0 {
		return nil
	}
	return e
}

// InHostMemory is what Infeasible.Tried calls the tiers of host memory.
const InHostMemory = "host memory"

// tried lists the sharding types and host memory, as far as any table may take them.
func (f *forms) tried() []string {
	var names []string
	for _, choices := range f.choices {
		for _, form := range choices {
			name := string(form.ShardingType)
			if form.Tier.OnHost() {
				name = InHostMemory
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// noRoom is the error of a search without column slices that found no placement: of the
// table that takes most of a device in the form that takes least.
func (f *forms) noRoom(c *catalog) *NoShardingType {
	e := &NoShardingType{ShardingTypes: f.tried(), Have: unit.Bytes(c.budget)}
	for i, choices := range f.choices {
		m := c.pieces[f.whole[i]].members[0]
		least := int64(math.MaxInt64)
		for _, form := range choices {
			least = min(least, c.pieces[c.inForm(f.whole[i], m.width, form)].bytes)
		}
		e.Sum += unit.Bytes(least)
		if need := unit.Bytes(least); need > e.Need {
			e.Need, e.Tables = need, []string{c.problem.Tables[i].Name}
		}
	}
	return e
}
