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

// The forms that tables may take are data: a list for each table. In a search among
// slices of columns in HBM, all lists are empty.

// forms lists the forms that tables may take, with the pieces that such forms are made
// from.
type forms struct {
	// columns says that slices of columns in HBM, the zero form, are allowed at all.
	columns bool
	// choices are the other forms allowed, by table; nil for a table that has none.
	choices [][]problem.Form
	// whole is the piece of the unsplit table, in the zero form.
	whole []int32
	// sliced says whether a table that is cut by rows may be cut by columns, too (grid).
	sliced []bool
	// barred says which tables may not take the zero form: their slices lie on several devices
	// together, or in host memory.
	barred []bool
	// chosen says which tables may be in blocks of rows on chosen devices (problem.Form.Blocks). The annealing alone cuts
	// tables so, so such forms are no choices.
	chosen []bool
}

// cacheShares are the cache shares that are tried for a table in host memory; 0 stands
// for no cache.
var cacheShares = []float64{.02, .05, .1, .2, .4, 0}

// searched are the sharding types that the search places tables by. A sharding type joins
// the list when choicesOf offers a form of it.
var searched = []problem.ShardingType{
	problem.TableWise, problem.ColumnWise, problem.RowWise, problem.TableRowWise, problem.Grid, problem.DataParallel,
}

// onlyColumns returns the forms of a search among slices of columns in HBM.
func onlyColumns(c *catalog) forms {
	n := len(c.problem.Tables)
	f := forms{columns: true, choices: make([][]problem.Form, n), whole: make([]int32, n), sliced: make([]bool, n), barred: make([]bool, n), chosen: make([]bool, n)}
	for _, k := range c.whole() {
		for _, m := range c.pieces[k].members {
			f.whole[m.table] = k
		}
	}
	return f
}

// newForms returns the forms that the options allow for the catalog's tables. If there
// is one host, table_row_wise places the same blocks as row_wise, and is tried only if
// row_wise is not allowed.
func newForms(c *catalog, opt Options) forms {
	f := onlyColumns(c)
	f.columns = opt.ColumnsOnly || len(opt.ShardingTypes) == 0 || onDevices(func(k problem.ShardingType) bool { return slices.Contains(opt.ShardingTypes, k) })
	for i := range c.problem.Tables {
		t := &c.problem.Tables[i]
		onDevices := f.columns && onDevices(t.Permits)
		f.barred[i] = !onDevices || !t.Constraint.PermitsTier(problem.HBM)
		allowed := func(k problem.ShardingType) bool {
			return !opt.ColumnsOnly && slices.Contains(opt.ShardingTypes, k) && t.Permits(k) && t.Constraint.PermitsTier(problem.HBM)
		}
		f.sliced[i] = allowed(problem.Grid)
		f.chosen[i] = opt.Chooses(c.problem) && f.dealsRows(c, i) && allowed(problem.RowWise)
		f.choices[i] = f.choicesOf(c, i, allowed)
		if hosted := !opt.ColumnsOnly && onDevices && c.hostBudget > 0; hosted && f.choosable(c, i) {
			f.choices[i] = append(f.choices[i], hostForms(c.problem, i)...)
		}
	}
	return f
}

// onDevices reports whether a table may lie whole or in slices on single devices.
func onDevices(allowed func(problem.ShardingType) bool) bool {
	return allowed(problem.TableWise) || allowed(problem.ColumnWise)
}

// none returns forms without choices: only slices of columns in HBM are left.
func (f forms) none() forms {
	f.columns, f.choices, f.barred, f.chosen = true, make([][]problem.Form, len(f.choices)), make([]bool, len(f.barred)), make([]bool, len(f.chosen))
	return f
}

// nested returns the forms of the races of a search, each with those of the one before it: slices of columns in HBM, those in host
// memory as well, and all forms.
func (f forms) nested() []forms {
	alone := f
	alone.choices = make([][]problem.Form, len(f.choices))
	for i, choices := range f.choices {
		alone.choices[i] = slices.DeleteFunc(slices.Clone(choices), func(form problem.Form) bool { return spanOf(form) != oneDevice })
	}
	alone.chosen = make([]bool, len(f.chosen))
	return slices.CompactFunc([]forms{f.none(), alone, f}, func(a, b forms) bool { return a.count() == b.count() })
}

// allow reports whether all pieces are in forms of the zero form or of the choices, whatever their operators, or in blocks on
// chosen devices.
func (f forms) allow(c *catalog, all []placed) bool {
	return !slices.ContainsFunc(all, func(p placed) bool {
		k := &c.pieces[p.piece]
		form := *k.form
		form.Operator = 0
		if form.Blocks > 0 {
			return !f.chosen[k.table]
		}
		return form != (problem.Form{}) && !slices.Contains(f.choices[k.members[0].table], form)
	})
}

// choosable reports whether a table may take other forms than the zero form at all.
func (f *forms) choosable(c *catalog, table int) bool {
	return c.problem.Tables[table].Constraint.Colocation == "" && c.problem.Accounting != problem.CountWeights
}

// dealsRows reports whether blocks of rows of a table may lie on chosen devices, which add up their vectors.
func (f *forms) dealsRows(c *catalog, table int) bool {
	return f.cutsRows(c, table) && !c.problem.Tables[table].Apart()
}

// cutsRows reports whether blocks of rows of a table may lie on different devices.
func (f *forms) cutsRows(c *catalog, table int) bool {
	t := &c.problem.Tables[table].Constraint
	return f.choosable(c, table) && len(t.Devices) == 0 && !t.NoSplit
}

// choicesOf returns the forms in which several devices hold a table together.
func (f *forms) choicesOf(c *catalog, table int, allowed func(problem.ShardingType) bool) (choices []problem.Form) {
	t := &c.problem.Tables[table]
	if !f.choosable(c, table) || len(t.Constraint.Devices) > 0 {
		return nil
	}
	if !t.Constraint.NoSplit && len(c.all) > 1 {
		choices = byRows(c, t, allowed)
	}
	if allowed(problem.DataParallel) {
		choices = append(choices, problem.Form{ShardingType: problem.DataParallel})
	}
	return choices
}

// byRows returns the forms with blocks of rows that a table may take.
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

// hostForms returns the forms in host memory that a table may take.
func hostForms(p *problem.Problem, table int) (choices []problem.Form) {
	shares := cacheShares
	if share := p.Tables[table].Constraint.CacheShare; share > 0 {
		shares = []float64{share, 0}
	}
	for _, share := range shares {
		form := problem.Form{Tier: problem.HostCached, Cache: share}
		if share == 0 {
			form = problem.Form{Tier: problem.Host}
		}
		if p.PermitsTier(table, form.Tier) {
			choices = append(choices, form)
		}
	}
	return choices
}

// hosted reports whether some table may lie in host memory.
func (f *forms) hosted() bool {
	return slices.ContainsFunc(f.others(), func(form problem.Form) bool { return form.Tier.OnHost() })
}

// any reports whether some table may or must take another form than the zero form.
func (f *forms) any() bool {
	return !f.columns || slices.Contains(f.chosen, true) || slices.ContainsFunc(f.choices, func(choices []problem.Form) bool { return len(choices) > 0 })
}

// others returns the forms that any table may take, but slices of columns in HBM.
func (f *forms) others() []problem.Form {
	sets := f.sets()
	if len(sets) == 0 {
		return nil
	}
	return sets[len(sets)-1] // all forms together
}

// count returns the number of others, with all blocks on chosen devices as one form.
func (f *forms) count() int {
	n := len(f.others())
	if slices.Contains(f.chosen, true) {
		n++
	}
	return n
}

// sets returns the sets of forms that the tables are switched to, one set after the
// other: first each form in HBM alone, then the forms in host memory, then all forms
// together.
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

// narrowed returns the problem with only those cuts by columns that the sharding types and
// the constraints allow: without column_wise, a table on a single device stays whole.
func narrowed(p *problem.Problem, shardingTypes []problem.ShardingType) *problem.Problem {
	cuts := func(list []problem.ShardingType) bool {
		return slices.Contains(list, problem.ColumnWise) || !slices.Contains(list, problem.TableWise)
	}
	all := cuts(shardingTypes)
	if all && !slices.ContainsFunc(p.Tables, func(t problem.Table) bool { return !cuts(t.Constraint.ShardingTypes) }) {
		return p
	}
	whole := *p
	whole.Tables = slices.Clone(p.Tables)
	for i := range whole.Tables {
		if c := &whole.Tables[i].Constraint; !all || !cuts(c.ShardingTypes) {
			c.MinWidth = whole.Tables[i].Dim
		}
	}
	return &whole
}

// NoShardingType is the error of a search whose sharding types do not include
// table_wise or column_wise, if the other types cannot place some tables, or can place
// all tables but the tables do not fit.
type NoShardingType struct {
	// Tables are the names of the tables that no allowed sharding type can place, in the
	// problem's order: they have too few rows for a block on each device, or their
	// constraints, their pooling or the rules of the engine forbid it. If every table can be placed but they do not fit, Tables
	// holds the one table that takes most bytes.
	Tables []string
	// NotSearched are sharding types that were asked for, and that the search places no
	// table by. If there are some, no other field is set.
	NotSearched []string
	// OutsideHBM says that the constraints of all Tables do not allow HBM, and that this search can
	// place tables in HBM only, because of its method, its Scorers or the problem's accounting.
	OutsideHBM bool
	// NoSlices says that the constraints of all Tables do not allow HBM, and that no sharding type
	// allowed places them whole or in slices of columns, as tables lie in host memory.
	NoSlices bool
	// ShardingTypes are the sharding types tried; they are set only if the tables do not
	// fit. Each table is then counted in the sharding type that takes fewest bytes: Need
	// is the bytes that the table in Tables takes of one device, Sum the bytes that all
	// tables take of all devices together, and Have the bytes that these have. Proven says
	// that no placement fits; otherwise the search did not try all placements.
	ShardingTypes   []string
	Need, Sum, Have unit.Bytes
	Proven          bool
}

// Error names the first of the tables that cannot be placed, or the table that takes
// most bytes.
func (e *NoShardingType) Error() string {
	if len(e.NotSearched) > 0 {
		return fmt.Sprintf("the search does not place tables by sharding type %s: choose among %s",
			words.Quoted(e.NotSearched, 5), words.Quoted(namesOf(searched), len(searched)))
	}
	if len(e.ShardingTypes) > 0 {
		return fmt.Sprintf("%s: if each table has the sharding type that takes the fewest bytes, all tables take %v, and all devices together have %v for them; the largest table is %q, which takes %v of each device",
			noPlacement(e.ShardingTypes, "", e.Proven), e.Sum, max(0, e.Have), e.Tables[0], e.Need)
	}
	if e.OutsideHBM {
		return fmt.Sprintf("the tiers of %s leave hbm out, and this search places tables in hbm only", words.Quoted(e.Tables, 5))
	}
	if e.NoSlices {
		return fmt.Sprintf("the tiers of %s leave hbm out, and the allowed sharding types leave out table_wise and column_wise, the only ones in host memory", words.Quoted(e.Tables, 5))
	}
	return fmt.Sprintf("none of the allowed sharding types can place %s: the tables have too few rows for a block on each device, or their constraints or pooling, or the rules of the engine, forbid it",
		words.Quoted(e.Tables, 5))
}

// noPlacement says that tables do not fit with the given sharding types, or that the
// search found no placement. too is " either" if other types were tried before.
func noPlacement(types []string, too string, proven bool) string {
	with := strings.Join(types, ", ") + too
	if proven {
		return "the tables do not fit with " + with
	}
	return "the search found no placement with " + with + ", but did not try all"
}

func namesOf(types []problem.ShardingType) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return names
}

// searchable returns nil, or a *NoShardingType with the types that the search places no
// table by. All of problem.ShardingTypes together ask for the types that it places.
func searchable(types []problem.ShardingType) error {
	all := !slices.ContainsFunc(problem.ShardingTypes(), func(t problem.ShardingType) bool { return !slices.Contains(types, t) })
	e := &NoShardingType{}
	for _, t := range types {
		if !slices.Contains(searched, t) && !(all && t.Known()) {
			e.NotSearched = append(e.NotSearched, string(t))
		}
	}
	if len(e.NotSearched) == 0 {
		return nil
	}
	return e
}

// possible returns nil, or a *NoShardingType with the tables that can take no allowed
// form. stays are parts of an old placement that stay, in whatever form.
func (f *forms) possible(c *catalog, stays []placed) error {
	e := &NoShardingType{OutsideHBM: true, NoSlices: true}
	for i := range c.problem.Tables {
		if t := &c.problem.Tables[i]; f.barred[i] && len(f.choices[i]) == 0 && !slices.ContainsFunc(stays, func(p placed) bool { return int(c.pieces[p.piece].table) == i }) {
			e.Tables = append(e.Tables, t.Name)
			outside, sliced := !t.Constraint.PermitsTier(problem.HBM), f.columns && onDevices(t.Permits)
			e.OutsideHBM = e.OutsideHBM && outside && sliced
			e.NoSlices = e.NoSlices && outside && !sliced
		}
	}
	if len(e.Tables) == 0 {
		return nil
	}
	return e
}

// InHostMemory stands for the tiers host and host_cached in Infeasible.Tried.
const InHostMemory = "host memory"

// tried lists the sharding types, and host memory, that some table may take.
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

// noRoom is the error of a search without slices of columns that found no placement. It
// names the table that takes most bytes of a device, each table counted in the form
// that takes fewest.
func (f *forms) noRoom(c *catalog, proven bool) *NoShardingType {
	e := &NoShardingType{ShardingTypes: f.tried(), Have: c.room(), Proven: proven}
	for i, choices := range f.choices {
		m := c.pieces[f.whole[i]].members[0]
		least, each := int64(math.MaxInt64), int64(0)
		if !f.barred[i] {
			least = c.bytes(f.whole[i])
			each = least
		}
		for _, form := range choices {
			bytes := c.bytes(c.inForm(f.whole[i], m.width, form))
			if all := bytes * int64(c.devicesOf(spanOf(form))); all < least {
				least, each = all, bytes
			}
		}
		e.Sum += unit.Bytes(least)
		if need := unit.Bytes(each); need > e.Need {
			e.Need, e.Tables = need, []string{c.problem.Tables[i].Name}
		}
	}
	return e
}
