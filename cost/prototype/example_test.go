package prototype_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"os"

	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// The first reference task, planned by the published search under the
// prototype's own nets.
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 59 tables cost 14.62 ms on 4 devices
}

func example() error {
	var files [5]*os.File
	for i, name := range []string{"table_configs.json.gz", "tasks/d4_m16.txt", "models/compute.pt", "models/comm_4_fw.pt", "models/comm_4_bw.pt"} {
		f, err := os.Open("testdata/" + name)
		if err != nil {
			return err
		}
		defer f.Close()
		files[i] = f
	}
	unzipped, err := gzip.NewReader(files[0])
	if err != nil {
		return err
	}
	tables, err := input.Tables("table_configs.json", unzipped, input.Options{DefaultDim: 64})
	if err != nil {
		return err
	}
	tasks, err := prototype.ReadTasks("d4_m16.txt", files[1])
	if err != nil {
		return err
	}
	models, err := prototype.Load(
		prototype.File{Name: "compute.pt", Reader: files[2]},
		prototype.File{Name: "comm_4_fw.pt", Reader: files[3]},
		prototype.File{Name: "comm_4_bw.pt", Reader: files[4]})
	if err != nil {
		return err
	}
	p, err := tasks.Tasks[0].Problem(tables.Tables, 4, 4*unit.GiB)
	if err != nil {
		return err
	}
	estimates, err := models.NewEstimates(p)
	if err != nil {
		return err
	}
	found, err := search.Run(context.Background(), p, func() search.Scorer { return estimates.NewScorer() }, search.Options{Method: search.Paper, ColumnsOnly: true})
	if err != nil {
		return err
	}
	fmt.Printf("%d tables cost %.2f ms on %d devices\n", len(p.Tables), estimates.Price(found.Shards).Cost, models.Devices())
	return nil
}
