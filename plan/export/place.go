package export

import (
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
)

// place.go turns a file into a plan: for the tables of a problem, or for tables that are
// known only by their shapes.

// Shapes returns the file's tables as tables of a problem. A ShardingPlan states only
// their shapes and IndexDedup, so each table gets one feature with one lookup per sample, and all other
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
		pooling := problem.SumPooling
		if t.IndexDedup {
			pooling = problem.PoolingNone // TorchRec deduplicates no others
		}
		all = append(all, problem.Table{
			Name: t.Name, Module: t.Module, Rows: t.Rows, Dim: t.Dim, Pooling: pooling, IndexDedup: t.IndexDedup,
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
// of p: see ReadHugeCTR. The error is nil or an *input.Errors.
//
// The plan covers each of its tables once (ReadTorchRec, ReadHugeCTR). Plan.Validate says which tables
// of p it lacks or has in another shape or module, and which constraints of p it breaks.
func (f *File) Place(p *problem.Problem) (*plan.Plan, error) {
	var errs faults
	if f.dealt != nil {
		f = f.shaped(p, &errs)
	}
	f.fits(p.Topology, &errs)
	tables := f.match(p, &errs)
	if err := errs.err(); err != nil {
		return nil, err
	}
	return plan.Of(p, tables), nil
}

// fits compares the ranks with a cluster.
func (f *File) fits(t hardware.Topology, errs *faults) {
	add := func(hint, format string, args ...any) {
		errs.list = append(errs.list, input.Error{File: f.Name, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	highest := -1
	for i := range f.Tables {
		for _, s := range f.Tables[i].Shards {
			highest = max(highest, s.Device)
		}
	}
	switch {
	case f.World > 0 && f.World != t.Devices:
		add(fmt.Sprintf("it goes with --gpus %d", f.World), "the plan is for %d ranks, the cluster has %d devices", f.World, t.Devices)
	case highest >= t.Devices:
		add("", "the plan places tables on rank %d, the cluster has %d devices, numbered from 0", highest, t.Devices)
	}
	// A Local that was derived from the numbers of devices may be too large.
	fewer := f.numbered > 0 && f.Local%t.PerHost() == 0 && t.PerHost() >= f.numbered
	if f.Local > 0 && f.Local != t.PerHost() && !fewer {
		add(fmt.Sprintf("it goes with --set devices_per_host=%d", f.Local), "the plan is for hosts of %d ranks, the cluster has %d devices a host", f.Local, t.PerHost())
	}
}

// shaped returns a table of a file under the problem's name, with the problem's shape if the file states none. It
// reports a table whose indices only the file deduplicates.
func shaped(t plan.Table, want *problem.Table, errs *faults) plan.Table {
	if t.IndexDedup && !want.ChooseDedup && !want.IndexDedup {
		errs.add(want.Name, -1, "state index_dedup or choose_dedup for the table", "the file deduplicates its indices, but the table states neither index_dedup nor choose_dedup")
	}
	t.Name, t.Shards = want.Name, slices.Clone(t.Shards)
	if t.ShardingType == plan.DataParallel && t.Rows == 0 && t.Dim == 0 {
		t.Rows, t.Dim = want.Rows, want.Dim
		t.Shards[0].Rows.End, t.Shards[0].Columns.End = want.Rows, int64(want.Dim)
	}
	return t
}

// match returns the file's tables: those of the problem by its names and in its order, then the others.
// A table that is in no module of its name is the only one of its name in the other modules.
func (f *File) match(p *problem.Problem, errs *faults) []plan.Table {
	exact, byName, byLocal := map[[2]string]int{}, map[string]int{}, map[string]int{}
	for i := range f.Tables {
		local := f.local[i]
		exact[[2]string{f.Tables[i].Module, local}], byName[f.Tables[i].Name] = i, i
		if _, twice := byLocal[local]; twice {
			byLocal[local] = -1
		} else {
			byLocal[local] = i
		}
	}
	taken := make([]bool, len(f.Tables))
	var tables []plan.Table
	for k := range p.Tables {
		want := &p.Tables[k]
		local := problem.LocalName(want.Module, want.Name)
		i, ok := byName[want.Name]
		if want.Module != "" {
			i, ok = exact[[2]string{want.Module, local}]
			if other, known := byLocal[local]; !ok && known && other >= 0 && !taken[other] {
				i, ok = other, true
			}
		}
		if !ok {
			continue
		}
		if taken[i] {
			errs.add(want.Name, -1, "rename one of them", "another of the tables is called %s in module %s, too", quote(local), quote(want.Module))
			continue
		}
		taken[i] = true
		tables = append(tables, shaped(f.Tables[i], want, errs))
	}
	for i, t := range f.Tables {
		if !taken[i] {
			t.Shards = slices.Clone(t.Shards)
			tables = append(tables, t)
		}
	}
	return tables
}
