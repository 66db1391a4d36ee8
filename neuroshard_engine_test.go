package neuroshard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// exports are the functions that write a plan for an engine.
var exports = map[problem.Engine]func(io.Writer, *plan.Plan, export.Options) error{
	problem.TorchRec: export.TorchRec,
	problem.HugeCTR:  export.HugeCTR,
}

// runs plans the problem, which validates the plan, and checks that the export of the
// problem's engine accepts the plan. It returns nil if the tables do not fit, leave devices
// empty, or have no allowed sharding type.
func runs(t *testing.T, p *problem.Problem, opt neuroshard.Options) (found *neuroshard.Result) {
	t.Helper()
	var infeasible *search.Infeasible
	var idle *search.Idle
	var noType *search.NoShardingType
	result, err := neuroshard.Plan(context.Background(), p, opt)
	switch {
	case errors.As(err, &infeasible) || errors.As(err, &idle) || errors.As(err, &noType):
		return nil
	case err != nil:
		t.Errorf("%s: %v", p.Engine, err)
		return nil
	}
	module := "m"
	if p.Engine == "" {
		return result
	}
	if err := exports[p.Engine](io.Discard, result.Plan, export.Options{Module: &module}); err != nil {
		t.Errorf("%s: export refuses the plan: %v", p.Engine, err)
	}
	return result
}

// engineProblem draws a small problem: few tables, some larger than a device, on one or
// two hosts.
func engineProblem(seed uint64) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 0x656e67696e65))
	pick := func(list ...int) int { return list[draw.IntN(len(list))] }
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: pick(1, 2, 3, 4, 6, 8), Memory: unit.Bytes(pick(1, 2, 8)) * unit.GiB},
		Batch:    pick(256, 4096),
	}
	if p.Topology.Devices%2 == 0 && draw.IntN(2) == 0 {
		p.Topology.DevicesPerHost = p.Topology.Devices / 2
	}
	if draw.IntN(3) == 0 {
		p.Topology.HostMemory = 64 * unit.GiB
	}
	for i := range 1 + draw.IntN(10) {
		table := problem.Table{
			Name: fmt.Sprint("t", i), Rows: int64(pick(3, 1000, 100_000, 2_000_000)), Dim: pick(4, 12, 20, 64, 96, 128),
			Features: []problem.Feature{{PoolingFactor: float64(pick(1, 5, 40))}},
		}
		c := &table.Constraint
		switch draw.IntN(8) {
		case 0:
			c.NoSplit = true
		case 1:
			c.MinWidth = table.Dim / 4 / 2 * 4
		case 2:
			c.Devices = []int{draw.IntN(p.Topology.Devices)}
		case 3, 4:
			all := problem.ShardingTypes()
			c.ShardingTypes = all[draw.IntN(len(all)):]
			c.ShardingTypes = c.ShardingTypes[:1+draw.IntN(len(c.ShardingTypes))]
		}
		p.Tables = append(p.Tables, table)
	}
	return p
}

// TestPlansForEngines: the plans that are made for an engine keep to its rules, so its
// export accepts all of them; and each table has a sharding type that its constraints
// allow.
func TestPlansForEngines(t *testing.T) { plansForEngines(t, 2, 8, 10) }

// plansForEngines plans the problems of n seeds, and wants at least the given number of
// plans.
func plansForEngines(t *testing.T, from, n uint64, want int) {
	found := 0
	for seed := from; seed < from+n; seed++ {
		for _, engine := range append(problem.Engines(), "") {
			p := engineProblem(seed)
			if p.Engine = problem.Engine(engine); p.Engine.Rules().OnlyHBM {
				p.Topology.HostMemory = 0
			}
			opt := neuroshard.Options{Search: search.Options{MaxEvaluations: 10_000}}
			if seed%3 > 0 {
				opt.Search.ShardingTypes = problem.ShardingTypes()
			}
			if runs(t, p, opt) != nil {
				found++
			}
		}
	}
	if found < want {
		t.Errorf("got %d plans, want at least %d", found, want)
	}
}
