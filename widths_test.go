package neuroshard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// sequences returns a problem for TorchRec: a module of n tables of sequences, the first ones hot.
func sequences(t *testing.T, devices, n, dim, hot int) *problem.Problem {
	p := &problem.Problem{Engine: problem.TorchRec, Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: devices}, Batch: 8192}
	for i := range n {
		lookups := float64(10 + i)
		if i < hot {
			lookups = 100
		}
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("s", i), Module: "ec", Rows: []int64{2_000_000, 500_000, 100_000, 1_000_000}[i%4], Dim: dim,
			Pooling: problem.PoolingNone, Features: []problem.Feature{{PoolingFactor: lookups}},
			Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05}, Optimizer: problem.RowwiseAdagrad,
		})
	}
	return p
}

// widthsIn returns the widths of the slices of columns in each module of sequences.
func widthsIn(pl *plan.Plan) map[string]map[int64]bool {
	found := map[string]map[int64]bool{}
	for i := range pl.Tables {
		t := &pl.Tables[i]
		if !t.Sequence || t.ShardingType != plan.ColumnWise {
			continue
		}
		if found[t.Module] == nil {
			found[t.Module] = map[int64]bool{}
		}
		for _, s := range t.Shards {
			found[t.Module][s.Columns.Len()] = true
		}
	}
	return found
}

// TestSequencesInMoreThanHalves: a module of sequences is cut into more than two slices where that
// is cheaper than the best plan of halves.
func TestSequencesInMoreThanHalves(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans or trains for long, on few threads")
	}
	for _, c := range []struct{ devices, tables, dim, hot, slices int }{
		{8, 8, 128, 1, 4}, {3, 2, 96, 1, 3},
	} {
		p := sequences(t, c.devices, c.tables, c.dim, c.hot)
		opt := neuroshard.Options{Search: search.Options{ShardingTypes: problem.ShardingTypes()}}
		free := planned(t, p, opt)
		for i := range p.Tables {
			p.Tables[i].Constraint.MinWidth = c.dim / 2
		}
		halves := planned(t, p, opt)
		widths := widthsIn(free.Plan)["ec"]
		if len(widths) != 1 || !widths[int64(c.dim/c.slices)] {
			t.Errorf("%d devices, dim %d: the slices have the widths %v, want %d", c.devices, c.dim, widths, c.dim/c.slices)
		}
		if share := free.Predicted.Cost / halves.Predicted.Cost; share > .95 {
			t.Errorf("%d devices, dim %d: %v, and %v in halves", c.devices, c.dim, free.Predicted.Cost, halves.Predicted.Cost)
		}
	}
}

// sequenceProblem draws a problem with modules of sequences, some tables larger than a device.
func sequenceProblem(t *testing.T, seed uint64) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 0x776964746873))
	pick := func(list ...int) int { return list[draw.IntN(len(list))] }
	p := sequences(t, pick(1, 2, 3, 4, 8), 2+draw.IntN(6), pick(24, 64, 96, 128), draw.IntN(3))
	p.Topology.Memory = unit.Bytes(pick(2, 4, 8)) * unit.GiB
	p.Batch = pick(512, 4096)
	modules := pick(1, 1, 2)
	for i := range p.Tables {
		table := &p.Tables[i]
		table.Module = fmt.Sprint("ec", i%modules)
		switch draw.IntN(6) {
		case 0:
			table.Constraint.NoSplit = true
		case 1:
			table.Constraint.MinWidth = table.Dim / 4 / 3 * 4
		case 2:
			table.Rows = 8_000_000
		}
	}
	return p
}

// TestSequencesInOneWidth: whatever the tables, the methods and the limits, all slices of a module of
// sequences have one width. The same plan is found again from an old plan.
func TestSequencesInOneWidth(t *testing.T) {
	cut, plans := 0, 0
	for seed := range uint64(8) {
		p := sequenceProblem(t, seed)
		opt := neuroshard.Options{Search: search.Options{MaxEvaluations: 5_000}}
		if seed%2 > 0 {
			opt.Search.ShardingTypes = problem.ShardingTypes()
		}
		if seed%4 == 3 {
			opt.Search.Method = search.HugeCTR
		}
		r := runs(t, p, opt)
		if r == nil {
			continue
		}
		plans++
		check := func(name string, pl *plan.Plan) {
			for module, widths := range widthsIn(pl) {
				if cut++; len(widths) != 1 {
					t.Errorf("seed %d: %s: slices of %v in module %s", seed, name, widths, module)
				}
			}
		}
		check("plan", r.Plan)
		opt.Search.Method = ""
		p.Batch *= 2
		again, err := replan.Plan(context.Background(), p, r.Plan, replan.Options{Options: opt})
		if infeasible := (*search.Infeasible)(nil); errors.As(err, &infeasible) {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		check("re-plan", again.Result.Plan)
	}
	if plans < 4 || cut < 4 {
		t.Errorf("got %d plans with %d modules cut, want at least 4", plans, cut)
	}
}

// TestTwoWidthsOfSequences: TorchRec runs no plan with slices of two widths in a module of sequences,
// and runs them in two modules, and in a module of sums.
func TestTwoWidthsOfSequences(t *testing.T) {
	place := func(p *problem.Problem) error {
		shards := make([][]problem.Shard, 4)
		for i, n := range []int{4, 2} {
			for k := range n {
				s := p.Whole(i)
				width := s.Columns.End / int64(n)
				s.Columns = problem.Range{Start: int64(k) * width, End: int64(k+1) * width}
				shards[k] = append(shards[k], s)
			}
		}
		_, err := neuroshard.Evaluate(t.Context(), p, shards, neuroshard.Options{})
		return err
	}
	p := sequences(t, 4, 2, 128, 0)
	if err := place(p); err == nil || !strings.Contains(err.Error(), `it has 64 columns and the slices of "s0" have 32: TorchRec runs slices of one width in a module of sequences`) {
		t.Errorf("got %v, want an error about the width of s1", err)
	}
	p.Tables[1].Module = "other"
	if err := place(p); err != nil {
		t.Errorf("two modules: %v", err)
	}
	p = sequences(t, 4, 2, 128, 0)
	for i := range p.Tables {
		p.Tables[i].Pooling = problem.SumPooling
	}
	if err := place(p); err != nil {
		t.Errorf("sums: %v", err)
	}
}

// TestWidthsShareTheLimits: the searches with several widths make no more evaluations together than
// one search may, up to a first placement each.
func TestWidthsShareTheLimits(t *testing.T) {
	p := sequences(t, 16, 8, 128, 3)
	const most = 200_000
	r := planned(t, p, neuroshard.Options{Search: search.Options{MaxEvaluations: most}})
	if n := r.Stats.Evaluations; n < most/4 || n > most*11/10 {
		t.Errorf("got %d evaluations, want about %d", n, most)
	}
}

// TestOtherPlacesKeepTheWidth: the cheapest other place of a table of sequences has slices as wide
// as those of the other tables.
func TestOtherPlacesKeepTheWidth(t *testing.T) {
	p := sequences(t, 8, 8, 128, 1)
	r := planned(t, p, neuroshard.Options{})
	_, all, err := neuroshard.Alternatives(t.Context(), r.Plan, p, neuroshard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for i, a := range all {
		for _, s := range a.Shards {
			if width := s.Columns.Len(); width < 128 {
				cut++
				if width != 32 {
					t.Errorf("table %d: another place has slices of %d columns, and the plan slices of 32", i, width)
				}
			}
		}
	}
	if cut == 0 {
		t.Error("no table has another place in slices")
	}
}
