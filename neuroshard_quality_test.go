package neuroshard_test

import (
	"context"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
)

// TestPlansStayAsGood notices changes that weaken the search. It plans 6 tasks drawn as in
// the paper. The geometric mean of their predicted costs must be at most what it was under the
// same models when this test was written, plus half a percent, because builds without assembly
// may break ties in another way. With the build tag long, TestManyPlansStayAsGood and
// TestLargePlansStayAsGood plan more tasks and large ones.
func TestPlansStayAsGood(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	plansStayAsGood(t, paperTasks(t, 1), nil, 3.0590)
}

// paperTasks draws n tasks of each of the paper's settings.
func paperTasks(t *testing.T, n int) []bench.Task {
	tasks, err := bench.PaperTasks(profileNamed(t, "a100-80"), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// workloadTasks returns the workloads on their default clusters.
func workloadTasks(t *testing.T, names ...string) []bench.Task {
	tasks, err := bench.WorkloadTasks(names, []string{bench.DefaultCluster})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// The costs that comments of this file give for other searches were found with version 3 of the
// simulated device; the pinned ones are of the version that ships.

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

// TestWideTablesInOperatorsOfTheirOwn plans a task whose best plans known keep most wide tables
// whole, in operators of their own, and cost 6.50 ms. When numbers of operators were annealed in
// three short rounds only, plans with ten seeds cost 6.75 to 7.04 ms.
func TestWideTablesInOperatorsOfTheirOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it pins the cost of a plan")
	}
	wide := paperTasks(t, 1)[5:] // the first task with dims up to 128 on 8 devices
	plansStayAsGood(t, wide, []problem.ShardingType{problem.TableWise, problem.ColumnWise}, 6.6603)
}

// TestWideTablesFromNoNumbers plans a task whose good plans without numbers of operators become 4 %
// cheaper if several tables take numbers and slices move as well. Without cool runs from the placement
// without numbers, plans with twelve seeds cost 5.33 to 5.38 ms.
func TestWideTablesFromNoNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it pins the cost of a plan")
	}
	wide := paperTasks(t, 2)[11:] // the second task with dims up to 128 on 8 devices
	plansStayAsGood(t, wide, []problem.ShardingType{problem.TableWise, problem.ColumnWise}, 4.9763)
}

// TestHotTableInOneSliceMore plans a task whose hottest table costs less in three slices than in two: its time
// sets the cost. Without runs that begin with one slice more, plans with eight seeds cost 3.047 to 3.048 ms.
func TestHotTableInOneSliceMore(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it pins the cost of a plan")
	}
	drawn, err := workload.Draw(workload.Pool(1), workload.PaperSettings()[4], 6, 2)
	if err != nil {
		t.Fatal(err)
	}
	tasks := []bench.Task{{Name: "d8_m64", Problem: drawn.Problem(profileNamed(t, "a100-80"))}}
	plansStayAsGood(t, tasks, []problem.ShardingType{problem.TableWise, problem.ColumnWise}, 2.7511)
}

// TestColumnsAreBalanced plans a workload whose exchanges take most of the time: the plan is cheaper if
// every device sends 208 columns. Without runs that balance columns, two devices sent 212, and plans with
// eight seeds cost 3.496 to 3.505 ms.
func TestColumnsAreBalanced(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it pins the cost of a plan")
	}
	plansStayAsGood(t, workloadTasks(t, "criteo-1tb-uncapped"), []problem.ShardingType{problem.TableWise, problem.ColumnWise}, 3.6265)
}

// TestLargeTablesChangeTheirForm plans a task that needs a large table in another form. Among the
// changes of one table, that of a small table costs least, but that of the large one costs least
// for its time. Without changes of the second kind the plan costs 2.33 ms.
func TestLargeTablesChangeTheirForm(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it pins the cost of a plan")
	}
	drawn, err := workload.Draw(workload.Pool(1), workload.PaperSettings()[4], 77, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := drawn.Problem(profileNamed(t, "a100-80"))
	p.Accounting, p.Topology.Memory = problem.CountAll, p.Topology.Profile.Memory
	plansStayAsGood(t, []bench.Task{{Name: "d8_m64", Problem: p}}, problem.ShardingTypes(), 2.2206)
}
