package neuroshard

import (
	"context"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// On an H200 neither lane rule holds exactly (problem.LaneRule, docs/RESULTS.md). So Plan prices
// its plan under both rules (Result.Lanes). The search goes by LanesByWidest, which the code
// of FBGEMM's kernels says, and takes from plans of nearly equal cost one that is cheap
// under LanesByTable, too (search.Options.Beside):
//
//	problem, LanesByWidest -> price list -> search -> plan -> simulated cost
//	problem, LanesByTable  -> price list ---^              \-> simulated cost
//
// A problem that states LanesByTable says that the rule is known, and has one price list.

// beside returns the Scorers of the problem under LanesByTable. It returns nil if the
// problem states that rule, if the rule cannot matter, if the prices know no lanes, or with
// Options.OneLaneRule.
func (l *line) beside(ctx context.Context) (search.Factory, error) {
	if l.opt.OneLaneRule || l.opt.Search.Method != search.NeuroShard || l.problem.LaneRule != problem.LanesByWidest ||
		l.prices.Estimator().ModelSource != plan.Simulated || !mixesLanes(l.problem) {
		return nil, nil
	}
	own := *l.priced
	own.LaneRule = problem.LanesByTable
	prices, err := l.opt.list(ctx, &own)
	if err != nil {
		return nil, err
	}
	return prices.NewScorer, nil
}

// mixesLanes reports whether two tables that are looked up would have different lanes, each
// alone.
func mixesLanes(p *problem.Problem) bool {
	first := 0
	for i := range p.Tables {
		t := &p.Tables[i]
		if t.PoolingFactor() == 0 {
			continue
		}
		lanes := p.Topology.Profile.Lanes(t.Dim)
		if first == 0 {
			first = lanes
		}
		if lanes != first {
			return true
		}
	}
	return false
}

// lanes sets the costs of the result's plan under each lane rule.
func (l *line) lanes(r *Result) error {
	r.Lanes = Lanes{Widest: r.Simulated.Cost, Own: r.Simulated.Cost}
	other, cost := problem.LanesByTable, &r.Lanes.Own
	if l.problem.LaneRule == other {
		other, cost = problem.LanesByWidest, &r.Lanes.Widest
	}
	simulated, err := l.judge.Under(other).Price(r.Shards)
	*cost = simulated.Cost
	return err
}
