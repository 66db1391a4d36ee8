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

// Plan finds a plan for a published workload on its default cluster.
func ExamplePlan() {
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
	if err != nil {
		fmt.Println(err)
		return
	}
	p := w.Problem()
	result, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Baselines: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("tables:", len(result.Plan.Tables))
	fmt.Println("devices:", len(result.Plan.Devices))
	fmt.Println("valid:", result.Plan.Validate(&p) == nil)
	fmt.Println("search:", result.Status)
	best := true
	for _, b := range result.Baselines {
		best = best && (!b.Valid || result.Simulated.Cost < b.Simulated)
	}
	fmt.Println("better than every baseline:", best)
	// Output:
	// tables: 26
	// devices: 8
	// valid: true
	// search: complete
	// better than every baseline: true
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
