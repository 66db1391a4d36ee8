package neuroshard_test

import (
	"context"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// TestPlansStayAsGood notices changes that weaken the search. It plans 18 tasks drawn as in
// the paper and a large problem. The geometric mean of their predicted costs must be at
// most that under these models when this test was written, plus half a percent, because
// builds without assembly may break ties in another way.
func TestPlansStayAsGood(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := bench.PaperTasks(profile, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	plansStayAsGood(t, tasks, nil, 3.2232)
	plansStayAsGood(t, workloadTasks(t, "dlrm-datasets-300x32"), nil, 10.7577)
}

// workloadTasks returns the workloads on their default clusters.
func workloadTasks(t *testing.T, names ...string) []bench.Task {
	tasks, err := bench.WorkloadTasks(names, []string{bench.DefaultCluster})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// plansStayAsGood compares the geometric mean of the predicted costs of the tasks' plans, with
// the given sharding types, with what it was, in ms.
func plansStayAsGood(t *testing.T, tasks []bench.Task, types []problem.ShardingType, want float64) {
	sum := 0.0
	for i := range tasks {
		r, err := neuroshard.Plan(context.Background(), &tasks[i].Problem, neuroshard.Options{Search: search.Options{ShardingTypes: types}})
		if err != nil {
			t.Fatalf("%s: %v", tasks[i].Name, err)
		}
		sum += math.Log(float64(r.Predicted.Cost))
	}
	if got := math.Exp(sum / float64(len(tasks))); got > 1.005*want {
		t.Errorf("%d tasks with sharding types %v: got a mean cost of %.4f ms, want at most %.4f", len(tasks), types, got, 1.005*want)
	}
}
