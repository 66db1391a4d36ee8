package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// memory.go counts the memory of TorchRec's train pipeline benchmark, in the plan that ran, beside what was measured.

// publishedMemory is a run: the count of its fullest device, and the published peaks, in bytes.
type publishedMemory struct {
	set, pipeline                string
	phase                        problem.Phase
	counted, pools               unit.Bytes
	allocated, reserved, planner float64
}

// publishedGB is a "GB" of the benchmark, 1,000 MiB.
const publishedGB = 1000 * float64(unit.MiB)

// publishedMemories returns all runs, in the order of the file.
func publishedMemories() (all []publishedMemory) {
	for _, f := range readFacts("memory.csv") {
		p, shards := benchmark(problem.Pipeline(f.text("pipeline")))
		dense := step.Dense{Bottom: []int{100}, Interaction: step.Cat, Precision: step.FP32}
		values := 0 // of activations: the hidden layers of the bottom, and three of each layer of the top
		for _, width := range strings.Fields(f.text("bottom")) {
			dense.Bottom = append(dense.Bottom, must(strconv.Atoi(width)))
			values += dense.Bottom[len(dense.Bottom)-1]
		}
		dense.Bottom = append(dense.Bottom, 128)
		for range f.count("top_layers") {
			dense.Top = append(dense.Top, f.count("top_width"))
			values += 3 * f.count("top_width")
		}
		dense = dense.Of(&p)
		dense.ActivationBytes = 4 * float64(values+dense.Columns+128)
		p.Topology.ReserveFixed, p.Topology.Activations = dense.Memory(p.Topology.Devices, p.Batch)
		m := publishedMemory{
			set: f.text("set"), pipeline: f.text("pipeline"),
			allocated: f.number("allocated_gb") * publishedGB, reserved: f.number("reserved_gb") * publishedGB, planner: f.number("planner_gb") * publishedGB,
		}
		for d, own := range shards {
			all := p.DeviceMemory(d)
			for _, s := range own {
				all = all.Add(p.ShardMemory(s))
			}
			for _, others := range shards {
				for _, s := range others {
					all = all.Add(p.SharedMemory(s))
				}
			}
			if phase, peak := all.Peak(); peak.Total() > m.counted {
				m.phase, m.counted, m.pools = phase, peak.Total(), all.Pools()+peak.Reserve
			}
		}
		all = append(all, m)
	}
	return all
}

// benchmark returns the tables of the benchmark and the shards of each of its two ranks: whole tables in turn, and one in 16
// slices of columns.
func benchmark(pipeline problem.Pipeline) (p problem.Problem, shards [][]problem.Shard) {
	p = problem.Problem{
		Batch: 2 * 32768, Pipeline: pipeline,
		Topology: hardware.Topology{Profile: must(hardware.ByName("a100-80")), Devices: 2, ReserveShare: hardware.NoReserve},
	}
	// Lengths are drawn evenly from 0 to 59.
	table := problem.Table{Module: "sparse.ebc", Rows: 100_000, Dim: 256, Features: []problem.Feature{{PoolingFactor: 29.5}}}
	var parts []held
	add := func(t problem.Table, slices int) {
		t.Name = fmt.Sprint(len(p.Tables))
		p.Tables = append(p.Tables, t)
		for _, h := range slicesOf(&p, len(p.Tables)-1, slices) {
			h.device = len(parts) % p.Topology.Devices
			parts = append(parts, h)
		}
	}
	for range 90 {
		add(table, 1)
	}
	half, large, weighted := table, table, table
	half.Dim, half.Precision = 512, problem.FP16
	add(half, 1)
	large.Rows, large.Dim = 1_000_000, 2048
	add(large, 16)
	weighted.Module, weighted.Weighted = "sparse.weighted_ebc", true
	for range 80 {
		add(weighted, 1)
	}
	return p, byDevice(&p, parts)
}

// memoryTable returns the table in Markdown.
func memoryTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| set | pipeline | fullest in the | allocated GB: counted | measured | error | TorchRec's planner | reserved GB: counted | measured | error |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|")
	for _, m := range publishedMemories() {
		total, reserved, planner := float64(m.counted), float64(m.pools), "-"
		if m.planner > 0 {
			planner = fmt.Sprintf("%.2f", m.planner/publishedGB)
		}
		fmt.Fprintf(&b, "\n| %s | %s | %s | %.2f | %.2f | %s %% | %s | %.1f | %.1f | %s %% |", strings.TrimPrefix(m.set, "sparse_data_dist_"), m.pipeline, m.phase.Words(),
			total/publishedGB, m.allocated/publishedGB, signed(total/m.allocated-1), planner, reserved/publishedGB, m.reserved/publishedGB, signed(reserved/m.reserved-1))
	}
	return b.String()
}
