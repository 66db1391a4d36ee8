package neuroshard_test

import (
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// operatorCosts returns what estimates the operators of a device, by name: each is the time
// of shards of device 0, without exchanges.
func operatorCosts(t *testing.T, p *problem.Problem) map[string]func(shards []problem.Shard) float64 {
	t.Helper()
	estimates := must.Get(cost.NewEstimates(t.Context(), shipped(t, p.Topology.Profile.Name), p))(t)
	judge := simulate.NewPricer(p)
	return map[string]func(shards []problem.Shard) float64{
		"cost.Scorer": func(shards []problem.Shard) float64 {
			s := estimates.NewScorer(0)
			for _, shard := range shards {
				s.Add(0, s.Item(shard.Table, shard.Dim(), p.Form(shard)))
			}
			b := s.Breakdown().Devices[0]
			return float64(b.Forward + b.Backward)
		},
		"simulate.Pricer": func(shards []problem.Shard) float64 {
			forward, backward := judge.GroupCost(shards)
			return float64(forward + backward)
		},
	}
}

// TestWhatSharesAnOperator puts two slices on a device, for each engine: in each cost model
// their times add up if and only if problem.OperatorKey says that they do not share an
// operator. An operator less is a kernel launch less.
func TestWhatSharesAnOperator(t *testing.T) {
	table := func(name string, dim int, change func(*problem.Table)) problem.Table {
		made := problem.Table{Name: name, Module: "m", Rows: 100_000, Dim: dim, Features: []problem.Feature{{PoolingFactor: 10}}}
		change(&made)
		return made
	}
	p := &problem.Problem{
		Batch:    4096,
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 4, DevicesPerHost: 2, HostMemory: 1 << 40},
		Tables: []problem.Table{
			table("a", 64, func(*problem.Table) {}),
			table("b", 64, func(*problem.Table) {}),
			table("other module", 64, func(t *problem.Table) { t.Module = "n" }),
			table("mean", 64, func(t *problem.Table) { t.Pooling = problem.MeanPooling }),
			table("adam", 64, func(t *problem.Table) { t.Optimizer = problem.Adam }),
			table("half", 64, func(t *problem.Table) { t.Precision = problem.FP16 }),
			table("weighted", 64, func(t *problem.Table) { t.Weighted = true }),
			table("prefetched", 64, func(t *problem.Table) { t.Prefetch = true }),
			table("prefetched, too", 64, func(t *problem.Table) { t.Prefetch = true }),
			table("settings", 64, func(t *problem.Table) { t.KernelSettings = "checks indices" }),
		},
	}
	forms := []problem.Form{
		{},
		{ShardingType: problem.RowWise},
		{ShardingType: problem.TableRowWise},
		{ShardingType: problem.DataParallel},
		{Tier: problem.Host},
		{Tier: problem.HostCached, Cache: .1},
	}
	shardOf := func(table int, width int64, form problem.Form) problem.Shard {
		s := p.Whole(table)
		s.Columns.End = width
		s.ShardingType, s.Tier, s.Cache, s.Operator = form.ShardingType, form.Tier, form.Cache, form.Operator
		switch form.ShardingType {
		case problem.RowWise:
			s.Rows.End = p.Tables[table].BlockRows(p.Topology.Devices)
		case problem.TableRowWise:
			s.Rows.End = p.Tables[table].BlockRows(p.Topology.PerHost())
			if width < int64(p.Tables[table].Dim) {
				s.ShardingType = problem.Grid
			}
		}
		return s
	}
	apart := map[problem.Engine]int{}
	for _, p.Engine = range []problem.Engine{"", problem.TorchRec, problem.HugeCTR} {
		for name, time := range operatorCosts(t, p) {
			check := func(x, y problem.Shard) {
				t.Helper()
				want := p.OperatorKey(x.Table, x.Dim(), p.Form(x)) == p.OperatorKey(y.Table, y.Dim(), p.Form(y))
				sum := time([]problem.Shard{x}) + time([]problem.Shard{y})
				if got := sum-time([]problem.Shard{x, y}) > 1e-3; got != want {
					t.Errorf("engine %q, %s: %s and %s: got one operator %v, want %v", p.Engine, name, text(p, x), text(p, y), got, want)
				}
				if !want {
					apart[p.Engine]++
				}
			}
			for _, form := range forms {
				whole := shardOf(0, 64, form)
				for other := 1; other < len(p.Tables); other++ {
					check(whole, shardOf(other, 64, form))
				}
				numbered := form
				numbered.Operator = 1
				check(whole, shardOf(1, 64, numbered))
				if class := problem.ClassOf(form); class != problem.ClassBlocks && class != problem.ClassReplicas {
					check(whole, shardOf(1, 32, form))
					check(shardOf(0, 32, form), shardOf(1, 16, form))
				}
			}
			const first = 7 // of the prefetched tables
			for _, form := range []problem.Form{forms[0], forms[4], forms[5]} {
				for _, width := range []int64{64, 32, 24} { // 24 is no width of equal slices
					check(shardOf(first, 64, form), shardOf(first+1, width, form))
					check(shardOf(first, 32, form), shardOf(first+1, width, form))
					check(shardOf(first, 24, form), shardOf(first+1, width, form))
				}
				check(shardOf(first, 64, form), shardOf(first+1, 20, form))
				check(shardOf(first, 24, form), shardOf(first+1, 20, form))
			}
			check(shardOf(0, 64, forms[0]), shardOf(1, 64, forms[4]))
			check(shardOf(0, 64, forms[4]), shardOf(1, 64, forms[5]))
		}
	}
	if !(apart[problem.TorchRec] > apart[""] && apart[""] == apart[problem.HugeCTR]) {
		t.Errorf("got pairs apart by engine %v, want most under TorchRec", apart)
	}
}

func text(p *problem.Problem, s problem.Shard) string {
	return fmt.Sprintf("%d columns of %q in %+v", s.Dim(), p.Tables[s.Table].Name, p.Form(s))
}
