package export

import (
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
)

// place.go turns a file into a plan: for the tables of a problem, or for tables that are
// known only by their shapes.

// Shapes returns the file's tables as tables of a problem. A ShardingPlan states only
// their shapes, so each table gets one feature with one lookup per sample, and all other
// fields are zero. The slice is the caller's. The error names the tables whose shape the
// file does not state.
func (f *File) Shapes() ([]problem.Table, error) {
	if f.dealt != nil {
		return nil, f.fault("add --tables: tables that state them", "a plan of HugeCTR does not say how many rows and columns its tables have")
	}
	var all []problem.Table
	var unknown []string
	for i := range f.Tables {
		t := &f.Tables[i]
		if t.Rows == 0 || t.Dim == 0 {
			unknown = append(unknown, t.Name)
		}
		all = append(all, problem.Table{
			Name: t.Name, Module: t.Module, Rows: t.Rows, Dim: t.Dim,
			Features: []problem.Feature{{Name: t.Name, PoolingFactor: input.DefaultPoolingFactor}},
		})
	}
	if len(unknown) > 0 {
		return nil, f.fault("add --tables: tables that state them", "the file does not say how many rows and columns %s: %s", have(len(unknown)), names(unknown))
	}
	return all, nil
}

func have(n int) string {
	if n == 1 {
		return "1 data_parallel table has"
	}
	return fmt.Sprintf("%d data_parallel tables have", n)
}

func (f *File) fault(hint, format string, args ...any) error {
	return &input.Errors{List: []input.Error{{File: f.Name, Message: fmt.Sprintf(format, args...), Hint: hint}}}
}

// Place returns a plan that places p's tables as the file does, without predictions and
// provenance. Tables are matched by module and name, or by name alone if p states no
// module. The tables of a file of HugeCTR are matched by name, and their rows and columns are those
// of p: see ReadHugeCTR. The error is nil or an *input.Errors with every difference.
//
// The plan covers each table once (ReadTorchRec, ReadHugeCTR). It may break constraints of p or not
// fit: Plan.Validate checks that.
func (f *File) Place(p *problem.Problem) (*plan.Plan, error) {
	m := &matcher{file: f, problem: p}
	if f.dealt != nil {
		m.file = m.shaped()
	}
	m.cluster()
	tables := m.match()
	if err := m.faults.err(); err != nil {
		return nil, err
	}
	return plan.Of(p, tables), nil
}

// matcher finds the problem's tables in the file.
type matcher struct {
	file    *File
	problem *problem.Problem
	faults  faults
}

func (m *matcher) add(hint, format string, args ...any) {
	m.faults.list = append(m.faults.list, input.Error{File: m.file.Name, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// cluster compares the ranks.
func (m *matcher) cluster() {
	t := m.problem.Topology
	highest := -1
	for i := range m.file.Tables {
		for _, s := range m.file.Tables[i].Shards {
			highest = max(highest, s.Device)
		}
	}
	switch {
	case m.file.World > 0 && m.file.World != t.Devices:
		m.add(fmt.Sprintf("it goes with --gpus %d", m.file.World), "the plan is for %d ranks, the cluster has %d devices", m.file.World, t.Devices)
	case highest >= t.Devices:
		m.add("", "the plan places tables on rank %d, the cluster has %d devices, numbered from 0", highest, t.Devices)
	}
	// A Local that was derived from the numbers of devices may be too large.
	fewer := m.file.numbered > 0 && m.file.Local%t.PerHost() == 0 && t.PerHost() >= m.file.numbered
	if m.file.Local > 0 && m.file.Local != t.PerHost() && !fewer {
		m.add(fmt.Sprintf("it goes with --set devices_per_host=%d", m.file.Local), "the plan is for hosts of %d ranks, the cluster has %d devices a host", m.file.Local, t.PerHost())
	}
}

// match returns the placed tables in the problem's order, and reports tables without a
// counterpart.
func (m *matcher) match() []plan.Table {
	at := m.index()
	taken := make([]bool, len(m.file.Tables))
	var missing, extra, shapes []string
	var renamed renames
	tables := make([]plan.Table, len(m.problem.Tables))
	for k := range m.problem.Tables {
		want := &m.problem.Tables[k]
		local := problem.LocalName(want.Module, want.Name)
		i, ok := at.exactly(want)
		if !ok {
			if i, ok = at.byLocal[local]; want.Module == "" || !ok || i < 0 || taken[i] {
				missing = append(missing, want.Name)
				continue
			}
			renamed.add(m.file.Tables[i].Module, want)
		}
		if taken[i] {
			m.faults.add(want.Name, -1, "rename one of them", "another of the tables is called %s in module %s, too", quote(local), quote(want.Module))
			continue
		}
		taken[i] = true
		t := placed(m.file.Tables[i], want)
		if t.Rows != want.Rows || t.Dim != want.Dim {
			shapes = append(shapes, fmt.Sprintf("%s of %d x %d instead of %d x %d", quote(want.Name), t.Rows, t.Dim, want.Rows, want.Dim))
		}
		tables[k] = t
	}
	for i, t := range m.file.Tables {
		if !taken[i] {
			extra = append(extra, t.Name)
		}
	}
	m.unmatched(&renamed, missing, extra, shapes)
	return tables
}

// placed returns a table of the file as the problem's table want. A data-parallel
// table whose file states no shape has that of the problem.
func placed(t plan.Table, want *problem.Table) plan.Table {
	t.Name, t.Shards = want.Name, slices.Clone(t.Shards)
	if t.ShardingType == plan.DataParallel && t.Rows == 0 && t.Dim == 0 {
		t.Rows, t.Dim = want.Rows, want.Dim
		t.Shards[0].Rows.End, t.Shards[0].Columns.End = want.Rows, int64(want.Dim)
	}
	return t
}

// unmatched reports the tables that have no counterpart, or one of another module
// or shape.
func (m *matcher) unmatched(renamed *renames, missing, extra, shapes []string) {
	for _, r := range renamed.order {
		m.add("a model that is wrapped in another has longer paths: write the same in both", "module %s of the plan is %s for the tables: %s", quote(r[0]), quote(r[1]), names(renamed.tables[r]))
	}
	if len(missing) > 0 {
		hint := "TorchRec leaves out of a plan what has none; give the tables of the model that was planned"
		if m.file.dealt != nil {
			hint = "give the tables of the model that was planned"
		}
		m.add(hint, "the plan lacks %d of the %d tables: %s", len(missing), len(m.problem.Tables), names(missing))
	}
	if len(extra) > 0 {
		m.add("give the tables of the model that was planned", "the tables lack %d of the plan's %d: %s", len(extra), len(m.file.Tables), names(extra))
	}
	if len(shapes) > 0 {
		m.add("give the tables of the model that was planned", "the plan has %s in another shape (rows x columns): %s", words.Plural(len(shapes), "table"), words.List(shapes, mostNames))
	}
}

// tableIndex finds the tables of a file: by module and the name in it, by name over
// all modules, and by the name in a module alone, -1 where several modules have it.
type tableIndex struct {
	exact           map[[2]string]int
	byName, byLocal map[string]int
}

func (m *matcher) index() tableIndex {
	at := tableIndex{map[[2]string]int{}, map[string]int{}, map[string]int{}}
	for i := range m.file.Tables {
		t, local := &m.file.Tables[i], m.file.local[i]
		at.exact[[2]string{t.Module, local}] = i
		at.byName[t.Name] = i
		if _, twice := at.byLocal[local]; twice {
			at.byLocal[local] = -1
		} else {
			at.byLocal[local] = i
		}
	}
	return at
}

// exactly returns the table of the file that has the name of want.
func (at tableIndex) exactly(want *problem.Table) (int, bool) {
	if want.Module == "" {
		i, ok := at.byName[want.Name]
		return i, ok
	}
	i, ok := at.exact[[2]string{want.Module, problem.LocalName(want.Module, want.Name)}]
	return i, ok
}

// renames collects the tables whose module has another name in the plan, by both names of
// the module.
type renames struct {
	tables map[[2]string][]string
	order  [][2]string
}

func (r *renames) add(module string, want *problem.Table) {
	key := [2]string{module, want.Module}
	if r.tables == nil {
		r.tables = map[[2]string][]string{}
	}
	if r.tables[key] == nil {
		r.order = append(r.order, key)
	}
	r.tables[key] = append(r.tables[key], want.Name)
}
