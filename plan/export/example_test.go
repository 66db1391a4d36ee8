package export_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// twoTables returns a problem and a plan for it: one table whole, one in slices.
func twoTables() (*problem.Problem, *plan.Plan) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		log.Fatal(err)
	}
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: profile, Devices: 2, ReserveShare: hardware.NoReserve}, Batch: 1024,
		Tables: []problem.Table{
			{Name: "user", Module: "sparse.ebc", Rows: 1000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 1}}},
			{Name: "item", Module: "sparse.ebc", Rows: 2000, Dim: 32, Features: []problem.Feature{{PoolingFactor: 9}}},
		},
	}
	half := func(columns problem.Range) problem.Shard {
		return problem.Shard{Table: 1, Rows: problem.Range{End: 2000}, Columns: columns}
	}
	pl := plan.New(p, [][]problem.Shard{
		{p.Whole(0), half(problem.Range{Start: 0, End: 16})},
		{half(problem.Range{Start: 16, End: 32})},
	})
	pl.Provenance = plan.Provenance{Tool: "hand", Version: "1", Method: "taste", ModelSource: plan.Unpriced, Input: "two tables"}
	return p, pl
}

func ExampleTorchRec() {
	_, pl := twoTables()
	var out bytes.Buffer
	if err := export.TorchRec(&out, pl, export.Options{Accelerator: export.CPU}); err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "sharding_type") {
			fmt.Println(strings.TrimSpace(line)[:61])
		}
	}
	// Output:
	// "user": {"sharding_type":"table_wise","compute_kernel":"fused
	// "item": {"sharding_type":"column_wise","compute_kernel":"fuse
}

func ExampleHugeCTR() {
	_, pl := twoTables()
	if err := export.HugeCTR(os.Stdout, pl, export.Options{Python: true}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// # The sharding of 2 tables over 2 GPUs, for ebc_config.shard(shard_matrix=shard_matrix, shard_strategy=shard_strategy).
	// # Written by neuroshard convert; made by "hand 1, method taste, input two tables". No model priced it.
	// shard_matrix = [
	//     ["user", "item"],
	//     ["item"],
	// ]
	// shard_strategy = [
	//     ("mp", ["user", ("item", 2)]),
	// ]
}

func ExampleReadTorchRec() {
	p, pl := twoTables()
	var out bytes.Buffer
	if err := export.TorchRec(&out, pl, export.Options{}); err != nil {
		log.Fatal(err)
	}
	file, err := export.ReadTorchRec("plan.json", &out)
	if err != nil {
		log.Fatal(err)
	}
	back, err := file.Place(p)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range back.Tables {
		fmt.Println(t.Name, t.Module, t.ShardingType, len(t.Shards))
	}
	// Output:
	// user sparse.ebc table_wise 1
	// item sparse.ebc column_wise 2
}
