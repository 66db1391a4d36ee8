package neuroshard_test

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// With sharding groups, a plan that averages its replicas often spreads the bytes over the devices
// more evenly than one that averages them rarely, and each takes the shorter step at its own
// interval.
func TestPlanSpreadsTheBytesOfReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans or trains for long, on few threads")
	}
	t.Parallel()
	pool := workload.Pool(1)[:8]
	of := func(every int) *neuroshard.Result {
		p := &problem.Problem{Tables: pool, Batch: 8192, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 4, Replicas: 2, ReplicasPerHost: 2, ReplicasPerDomain: 2, SyncEvery: every}}
		return must.Get(neuroshard.Plan(context.Background(), p, neuroshard.Options{}))(t)
	}
	step := func(r *neuroshard.Result, every int) unit.Millis {
		return r.Predicted.Cost + r.Plan.Sync.Time/unit.Millis(every)
	}
	const rare = hardware.MaxSyncEvery
	often, seldom := of(1), of(rare)
	if often.Plan.Sync.Bytes >= seldom.Plan.Sync.Bytes {
		t.Errorf("averaged in each step, the fullest device has %v, want less than %v", often.Plan.Sync.Bytes, seldom.Plan.Sync.Bytes)
	}
	if a, b := step(often, 1), step(seldom, 1); a >= b {
		t.Errorf("averaged in each step, the plan takes %v, want less than the %v of the plan for rare averages", a, b)
	}
	if a, b := step(seldom, rare), step(often, rare); a > b {
		t.Errorf("averaged rarely, the plan takes %v, want at most the %v of the plan for averages in each step", a, b)
	}
}

// TestPlanReplicas: the number of sharding groups with the shortest step is taken, whatever the order of
// the problems. Tried says which groups have no plan.
func TestPlanReplicas(t *testing.T) {
	var problems []*problem.Problem
	for _, groups := range []int{4, 1, 2} {
		p := &problem.Problem{Tables: workload.Pool(1)[:8], Batch: 8192, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 4}}
		var wrong string
		if p.Topology, wrong = p.Topology.Replicated(groups); wrong != "" {
			t.Fatal(wrong)
		}
		p.Batch /= groups
		problems = append(problems, p)
	}
	opt := neuroshard.Options{Search: search.Options{MaxEvaluations: 2_000}}
	r, err := neuroshard.PlanReplicas(t.Context(), problems, opt)
	if err != nil || len(r.Tried) != 3 {
		t.Fatalf("got %+v and error %v, want three numbers of groups", r, err)
	}
	for i, one := range r.Tried {
		if one.Replicas != 1<<i || !one.Fits || one.Step < r.Predicted.Cost+r.Plan.SyncCost() {
			t.Errorf("got %+v beside a step of %v, want %d groups and no shorter step", one, r.Predicted.Cost+r.Plan.SyncCost(), 1<<i)
		}
	}
	if _, err := neuroshard.PlanReplicas(t.Context(), nil, opt); err == nil {
		t.Error("no problems: got no error")
	}
}
