package neuroshard

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Replication is a number of sharding groups that PlanReplicas tried.
type Replication struct {
	// Replicas is the number of sharding groups, and Devices the number of devices in each.
	Replicas, Devices int
	// Fits is false if the search found no plan that fits; the times are then 0.
	Fits bool
	// Predicted is the cost of the plan, and Sync the share of the replicas' all-reduce that
	// falls on one step; Sync is SIMULATED.
	Predicted, Sync unit.Millis
	// Step is the time by which the numbers of sharding groups are compared: Predicted and Sync together, or
	// the whole step if Options.Step states one.
	Step unit.Millis
}

// Untried is a number of sharding groups for which there is no problem, and why not.
type Untried struct {
	Replicas int
	Reason   string
}

// PlanReplicas plans the same tables for several numbers of sharding groups (2D parallelism) and
// returns the plan of the shortest step, as Plan returns it, with Result.Tried. Each problem
// describes one group of the same whole cluster with the same whole batch
// (hardware.Topology.Replicated). Among equally short steps it takes that of the fewest groups. It fails with
// the error of the problem with the fewest groups if no problem has a plan.
func PlanReplicas(ctx context.Context, problems []*problem.Problem, opt Options) (*Result, error) {
	if len(problems) == 0 {
		return nil, errors.New("neuroshard: there is no problem to plan")
	}
	ordered := slices.SortedStableFunc(slices.Values(problems), func(a, b *problem.Problem) int {
		return cmp.Compare(a.Topology.ReplicaCount(), b.Topology.ReplicaCount())
	})
	var tried []Replication
	var first error
	var best *Result
	at := 0
	for i, p := range ordered {
		one := Replication{Replicas: p.Topology.ReplicaCount(), Devices: p.Topology.Devices}
		result, err := Plan(ctx, p, opt)
		if err == nil {
			one.measure(result)
		} else if ctx.Err() == nil && !refused(err) || ctx.Err() != nil && best == nil {
			return nil, cmp.Or(ctx.Err(), err)
		} else if i == 0 {
			first = err
		}
		tried = append(tried, one)
		if one.Fits && (best == nil || one.Step < tried[at].Step) {
			best, at = result, i
		}
	}
	if best == nil {
		return nil, first
	}
	best.Tried = tried
	return best, nil
}

// measure sets the times of a number of groups for which there is a plan.
func (r *Replication) measure(result *Result) {
	r.Fits, r.Predicted, r.Sync = true, result.Predicted.Cost, result.Plan.SyncCost()
	if r.Step = r.Predicted + r.Sync; result.Step != nil {
		r.Step = result.Step.Times.Step
	}
}
