package neuroshard_test

import (
	"context"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/bench"
)

// TestPlansStayAsGood notices changes that weaken the search. It plans 6 tasks drawn as in
// the paper. The geometric mean of their predicted costs must be at most what it was under the
// same models when this test was written, plus half a percent, because builds without assembly
// may break ties in another way. The ruler (package search/ruler) plans many more problems.
func TestPlansStayAsGood(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	const want = 3.0590
	tasks, err := bench.PaperTasks(profileNamed(t, "a100-80"), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i := range tasks {
		r, err := neuroshard.Plan(context.Background(), &tasks[i].Problem, neuroshard.Options{})
		if err != nil {
			t.Fatalf("%s: %v", tasks[i].Name, err)
		}
		sum += math.Log(float64(r.Predicted.Cost))
	}
	if got := math.Exp(sum / float64(len(tasks))); got > 1.005*want {
		t.Errorf("%d tasks: got a mean cost of %.4f ms, want at most %.4f", len(tasks), got, 1.005*want)
	}
}
