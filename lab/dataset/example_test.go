package dataset_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// Two machines measured a half of one design each.
func Example() {
	half := func(id int, split dataset.Split, table int32) dataset.Dataset {
		users := problem.Table{Name: "user", Rows: 1_000_000, Dim: 64, Features: []problem.Feature{{Name: "user", PoolingFactor: 1}}}
		items := users
		items.Name, items.Access = "item", access.Distribution{Kind: access.Uniform}
		return dataset.Dataset{Compute: &dataset.Compute{
			Provenance: dataset.Provenance{Source: dataset.Measured, Profile: "h200", Backend: "worker", Design: "2f9d", Device: "NVIDIA H200"},
			Tables:     []problem.Table{users, items},
			Samples: []dataset.Group{{
				ID: id, Split: split, Operation: problem.Operation{Batch: 65536},
				Members: []dataset.Member{{Table: table, Dim: 64}}, Forward: .5, Backward: 1.25,
			}},
		}}
	}
	whole, err := dataset.Merge(half(1, dataset.Test, 1), half(0, dataset.Train, 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	base, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(base) }()
	folder := filepath.Join(base, "samples")
	if err := dataset.Write(folder, whole); err != nil {
		fmt.Println(err)
		return
	}
	back, err := dataset.Read(folder)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range back.Compute.Samples {
		fmt.Println(g.ID, g.Split, back.Compute.Tables[g.Members[0].Table].Name, g.Forward, g.Backward)
	}
	manifest, err := dataset.ReadManifest(folder)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range manifest.Files {
		fmt.Println(f.Name, f.Rows)
	}
	// Parts of different devices are not of one dataset.
	other := half(2, dataset.Train, 0)
	other.Compute.Provenance.Device = "NVIDIA A100"
	_, err = dataset.Merge(back, other)
	fmt.Println(err)
	// Output:
	// 0 train user 0.500 ms 1.25 ms
	// 1 test item 0.500 ms 1.25 ms
	// tables.parquet 2
	// compute.parquet 2
	// fused lookups: mixed provenance: device is "NVIDIA H200" in part 1 and "NVIDIA A100" in part 2
}
