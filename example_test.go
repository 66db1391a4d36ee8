package neuroshard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
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
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
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

// If the tables do not fit the cluster, the error says how many devices would be enough.
func ExamplePlan_infeasible() {
	profile, err := hardware.ByName("a100-40")
	if err != nil {
		fmt.Println(err)
		return
	}
	p := problem.Problem{
		Tables: []problem.Table{{
			Name: "user_id", Rows: 200_000_000, Dim: 128,
			Features:  []problem.Feature{{Name: "user", PoolingFactor: 1}},
			Access:    access.Distribution{Kind: access.Zipf, Exponent: 1.05},
			Optimizer: problem.SGD,
		}},
		Topology: hardware.Topology{Profile: profile, Devices: 2},
		Batch:    4096,
	}
	_, err = neuroshard.Plan(context.Background(), &p, neuroshard.Options{})
	var no *search.Infeasible
	if !errors.As(err, &no) {
		fmt.Println("unexpected:", err)
		return
	}
	fmt.Printf("table %q does not fit %d devices; %d would be enough\n", no.Table, p.Topology.Devices, no.DevicesNeeded)
	p.Topology.Devices = no.DevicesNeeded
	result, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid:", result.Plan.Validate(&p) == nil)
	// Output:
	// table "user_id" does not fit 2 devices; 3 would be enough
	// valid: true
}
