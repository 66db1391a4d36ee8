package export

import (
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
)

// place.go makes a plan of a file: for the tables of a problem, or for tables of
// which nothing is known but their shapes.

// Shapes returns the file's tables as a problem's, of which no more is known than a
// ShardingPlan says: one feature with one lookup a sample reads each, and the rest
// is zero. The error names the tables whose shape the file does not state.
func (f *File) Shapes() ([]problem.Table, error) {
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

// Place returns the plan that places p's tables as the file does, without
// predictions and provenance. Tables are matched by module and name; where p states
// no module, by name alone. The error is nil or an *input.Errors with everything
// that does not match.
//
// The plan covers each table once (ReadTorchRec). That it breaks no constraint of p
// and fits is for Plan.Validate to say.
func (f *File) Place(p *problem.Problem) (*plan.Plan, error) {
	m := &matcher{file: f, problem: p}
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
		m.add(fmt.Sprintf("it goes with --devices %d", m.file.World), "the plan is for %d ranks, the cluster has %d devices", m.file.World, t.Devices)
	case highest >= t.Devices:
		m.add("", "the plan places tables on rank %d, the cluster has %d devices, numbered from 0", highest, t.Devices)
	}
	// What is read off the numbers of devices goes with fewer of them on a host, too.
	fewer := m.file.numbered > 0 && m.file.Local%t.PerHost() == 0 && t.PerHost() >= m.file.numbered
	if m.file.Local > 0 && m.file.Local != t.PerHost() && !fewer {
		m.add(fmt.Sprintf("it goes with --devices-per-host %d", m.file.Local), "the plan is for hosts of %d ranks, the cluster has %d devices a host", m.file.Local, t.PerHost())
	}
}

// match returns the placed tables in the problem's order, and reports what has no
// counterpart.
func (m *matcher) match() []plan.Table {
	type key struct{ module, table string }
	exact := map[key]int{}
	byName, byLocal := map[string]int{}, map[string]int{}
	for i := range m.file.Tables {
		t := &m.file.Tables[i]
		exact[key{t.Module, m.file.local[i]}] = i
		byName[t.Name] = i
		if _, twice := byLocal[m.file.local[i]]; twice {
			byLocal[m.file.local[i]] = -1
		} else {
			byLocal[m.file.local[i]] = i
		}
	}
	taken := make([]bool, len(m.file.Tables))
	var missing, shapes []string
	renamed := map[[2]string][]string{}
	var renames [][2]string
	tables := make([]plan.Table, len(m.problem.Tables))
	for k := range m.problem.Tables {
		want := &m.problem.Tables[k]
		local := problem.LocalName(want.Module, want.Name)
		i, ok := exact[key{want.Module, local}]
		if want.Module == "" {
			i, ok = byName[want.Name]
		}
		if !ok {
			other, found := byLocal[local]
			if want.Module == "" || !found || other < 0 || taken[other] {
				missing = append(missing, want.Name)
				continue
			}
			i = other
			r := [2]string{m.file.Tables[i].Module, want.Module}
			if renamed[r] == nil {
				renames = append(renames, r)
			}
			renamed[r] = append(renamed[r], want.Name)
		}
		if taken[i] {
			m.faults.add(want.Name, -1, "rename one of them", "another of the tables is called %s in module %s, too", quote(local), quote(want.Module))
			continue
		}
		taken[i] = true
		t := m.file.Tables[i]
		t.Name, t.Shards = want.Name, slices.Clone(t.Shards)
		if t.Kind == plan.DataParallel && t.Rows == 0 && t.Dim == 0 {
			t.Rows, t.Dim = want.Rows, want.Dim
			t.Shards[0].Rows.End, t.Shards[0].Columns.End = want.Rows, int64(want.Dim)
		}
		if t.Rows != want.Rows || t.Dim != want.Dim {
			shapes = append(shapes, fmt.Sprintf("%s of %d x %d instead of %d x %d", quote(want.Name), t.Rows, t.Dim, want.Rows, want.Dim))
		}
		tables[k] = t
	}
	var extra []string
	for i, t := range m.file.Tables {
		if !taken[i] {
			extra = append(extra, t.Name)
		}
	}
	for _, r := range renames {
		m.add("a model that is wrapped in another has longer paths: write the same in both", "module %s of the plan is %s for the tables: %s", quote(r[0]), quote(r[1]), names(renamed[r]))
	}
	if len(missing) > 0 {
		m.add("TorchRec leaves out of a plan what has none; give the tables of the model that was planned", "%d of the %d tables are not in the plan: %s", len(missing), len(tables), names(missing))
	}
	if len(extra) > 0 {
		m.add("give the tables of the model that was planned", "%d of the plan's %d tables are not among the tables: %s", len(extra), len(m.file.Tables), names(extra))
	}
	if len(shapes) > 0 {
		m.add("give the tables of the model that was planned", "%d tables have another shape in the plan (rows x columns): %s", len(shapes), words.List(shapes, mostNames))
	}
	return tables
}
