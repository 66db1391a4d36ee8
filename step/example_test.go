package step_test

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// The whole step of MLPerf's DLRM-DCNv2 on eight H100, its tables dealt out one by one.
func ExamplePrice() {
	w, _ := workload.ByName("mlperf-dlrm-dcnv2")
	p := w.Problem()
	p.Topology.Profile, _ = hardware.ByName("h100-80")
	p.Topology.Devices, p.Topology.DevicesPerHost, p.Batch = 8, 8, 55296
	shards := make([][]problem.Shard, 8)
	for i := range p.Tables {
		whole := p.Whole(i)
		if i != 20 {
			shards[i%8] = append(shards[i%8], whole)
			continue
		}
		whole.ShardingType = problem.RowWise // the table with the most lookups, in blocks of rows on all devices
		for d := range shards {
			block, rows := whole, p.Tables[i].BlockRows(8)
			block.Rows = problem.Range{Start: int64(d) * rows, End: min(int64(d+1)*rows, p.Tables[i].Rows)}
			shards[d] = append(shards[d], block)
		}
	}
	dense, _ := step.DenseByName("mlperf-dlrm-dcnv2")
	stack, _ := step.StackByName("hugectr")

	t, err := step.Price(step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("step %.1f ms: embeddings %.1f, dense %.1f, all-reduce %.1f (SIMULATED, within %.0f %%)\n",
		float64(t.Step), float64(t.Embedding), float64(t.Dense), float64(t.AllReduce), t.ErrorPercent)
	fmt.Printf("%.0f M samples/s, bound by %s\n", t.SamplesPerSecond/1e6, t.Bound)
	// Output:
	// step 4.4 ms: embeddings 2.0, dense 2.3, all-reduce 0.1 (SIMULATED, within 10 %)
	// 13 M samples/s, bound by dense
}

// The dense part of a preset, in numbers.
func ExampleDenseByName() {
	d, _ := step.DenseByName("mlperf-dlrm-dcnv2")
	fmt.Printf("%.0f parameters, %.1f MFLOP a sample and step\n", d.Parameters(), 3*d.FLOPs()/1e6)
	// Output: 16044545 parameters, 96.2 MFLOP a sample and step
}
