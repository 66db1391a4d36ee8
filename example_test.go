package neuroshard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// Two tables on four GPUs.
func ExamplePlan() {
	gpu, _ := hardware.ByName("a100-80") // a profile that ships with the program
	p := problem.Problem{
		Topology: hardware.Topology{Profile: gpu, Devices: 4},
		Batch:    65536,
		Tables: []problem.Table{
			{Name: "user", Rows: 50_000_000, Dim: 128, Optimizer: problem.RowwiseAdagrad, Features: []problem.Feature{{PoolingFactor: 1}}},
			{Name: "clicks", Rows: 2_000_000, Dim: 64, Optimizer: problem.RowwiseAdagrad, Features: []problem.Feature{{PoolingFactor: 80}}},
		},
	}
	result, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, table := range result.Plan.Tables {
		fmt.Println(table.Name, table.ShardingType)
	}
	// Output:
	// user column_wise
	// clicks row_wise
}

// A Planner compares a plan with those of other methods, and bounds the cost of every plan.
func ExamplePlanner() {
	w, err := workload.ByName("criteo-kaggle")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, ctx := w.Problem(), context.Background()
	planner, err := neuroshard.NewPlanner(ctx, &p, neuroshard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := planner.Plan(ctx)
	if err == nil {
		err = errors.Join(planner.Baselines(ctx, result), planner.Certify(ctx, result))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	best := true
	for _, b := range result.Baselines {
		best = best && (!b.Valid || result.Simulated.Cost < b.Simulated)
	}
	gap, _ := result.Gap()
	fmt.Println("better than every baseline:", best)
	fmt.Println("at most a quarter above the best possible:", gap < .25)
	// Output:
	// better than every baseline: true
	// at most a quarter above the best possible: true
}
