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
// the paper and two large problems. The geometric mean of their predicted costs must be at
// most that under these models when this test was written, plus half a percent, because
// builds without assembly may break ties in another way.
func TestPlansStayAsGood(t *testing.T) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := bench.PaperTasks(profile, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	large, err := bench.WorkloadTasks([]string{"dlrm-datasets-300x32", "dlrm-datasets-1000x128"}, []string{bench.DefaultCluster})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		tasks []bench.Task
		types []problem.ShardingType
		want  float64
	}{
		{"paper-like", tasks, nil, 3.2232},
		{"large", large, nil, 11.5330},
		{"large, in slices of columns", large[1:], []problem.ShardingType{problem.TableWise, problem.ColumnWise}, 12.3642},
	} {
		sum := 0.0
		for i := range c.tasks {
			r, err := neuroshard.Plan(context.Background(), &c.tasks[i].Problem, neuroshard.Options{Search: search.Options{ShardingTypes: c.types}})
			if err != nil {
				t.Fatalf("%s: %v", c.tasks[i].Name, err)
			}
			sum += math.Log(float64(r.Predicted.Cost))
		}
		if got := math.Exp(sum / float64(len(c.tasks))); got > 1.005*c.want {
			t.Errorf("%s: got a mean cost of %.4f ms, want at most %.4f", c.name, got, 1.005*c.want)
		}
	}
}
