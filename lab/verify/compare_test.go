package verify_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/unit"
)

func ExampleCompare() {
	c, err := verify.Compare([]verify.Outcome{
		{Task: "0", Method: "neuroshard", Predicted: 9, Measured: 10},
		{Task: "0", Method: "size", Predicted: 15, Measured: 20},
		{Task: "1", Method: "neuroshard", Predicted: 33, Measured: 30},
		{Task: "1", Method: "size", Predicted: 36, Measured: 40},
	}, "neuroshard")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d plans: tau %.2f, mean error %.0f %%\n", c.Plans, c.Tau, 100*c.MeanError)
	fmt.Printf("neuroshard takes %.1f %% of the best other's time, cheaper on %d of %d tasks\n", 100*c.Best.Ratio, c.Best.Wins, c.Best.Tasks)
	// Output:
	// 4 plans: tau 1.00, mean error 14 %
	// neuroshard takes 62.5 % of the best other's time, cheaper on 2 of 2 tasks
}

func TestCompareByHand(t *testing.T) {
	outcome := func(task, method string, predicted, measured, spread unit.Millis) verify.Outcome {
		return verify.Outcome{Task: task, Method: method, Predicted: predicted, Measured: measured, Spread: spread}
	}
	got, err := verify.Compare([]verify.Outcome{
		outcome("x", "dim", 12, 10, 1),
		outcome("x", "ours", 8, 8, 0),
		outcome("x", "size", 10, 16, 0),
		outcome("y", "ours", 30, 40, 2),
		outcome("y", "size", 20, 32, 0),
		outcome("z", "ours", 5, 5, 0), // no method placed it but ours
	}, "ours")
	if err != nil {
		t.Fatal(err)
	}
	want := &verify.Comparison{
		Plans: 6, Tasks: 3, Method: "ours",
		// Of 15 pairs of plans, only the pair of dim and size in x is in the wrong order.
		Tau:     (14. - 1) / 15,
		TaskTau: (1./3 + 1) / 2,
		// 2/10, 0, 6/16, 10/40, 12/32, 0
		MeanError: (.2 + .375 + .25 + .375) / 6, P95Error: .375,
		Noise: (.1 + .05) / 6,
		Methods: []verify.MethodCost{
			{Method: "ours", Tasks: 3, Mean: 53. / 3, Ratio: 1, PValue: 1},
			{Method: "dim", Tasks: 1, Mean: 10, Ratio: .8, Wins: 1, PValue: .5},
			{Method: "size", Tasks: 2, Mean: 24, Ratio: (.5 + 1.25) / 2, Wins: 1, Losses: 1, PValue: .5},
		},
		Best: verify.MethodCost{Tasks: 2, Mean: 21, Ratio: (.8 + 1.25) / 2, Wins: 1, Losses: 1, PValue: .75},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCompareErrors(t *testing.T) {
	ok := verify.Outcome{Task: "x", Method: "ours", Predicted: 1, Measured: 1}
	other := verify.Outcome{Task: "x", Method: "size", Predicted: 1, Measured: 1}
	elsewhere := other
	elsewhere.Task = "y"
	broken := other
	broken.Measured = unit.Millis(math.NaN())
	zero := other
	zero.Measured = 0
	for _, c := range []struct {
		name     string
		outcomes []verify.Outcome
		want     string
	}{
		{"none", nil, `there is no plan of method "ours" to compare with others: there are plans of []`},
		{"others only", []verify.Outcome{other}, `there is no plan of method "ours" to compare with others: there are plans of ["size"]`},
		{"alone", []verify.Outcome{ok}, `no task has a plan of method "ours" and one of another method to compare it with`},
		{"other tasks", []verify.Outcome{ok, elsewhere}, `no task has a plan of method "ours" and one of another method to compare it with`},
		{"twice", []verify.Outcome{ok, other, ok}, `task "x" has two plans of method "ours"`},
		{"no number", []verify.Outcome{ok, broken}, `task "x", method "size": a measured cost of NaN`},
		{"no time", []verify.Outcome{ok, zero}, `task "x", method "size": a measured cost of 0`},
	} {
		if _, err := verify.Compare(c.outcomes, "ours"); err == nil || err.Error() != c.want {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
}
