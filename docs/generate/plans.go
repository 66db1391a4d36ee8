package main

import (
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/simulate"
)

// ranPlan is a plan that ran: plans.json.
type ranPlan struct {
	Task, Method string
	// Measured is the cost with measured lookups in ms.
	Measured float64 `json:"measured_ms"`
	// A shard is the table's name, its first column, the column after its last, the device and the
	// operator.
	Shards [][5]any
}

// dcn is the task of the plans of DCNv2, on devices of the measured profile.
const (
	dcn        = "mlperf-dlrm-dcnv2"
	dcnDevices = 8
)

// problems returns what was planned, by task.
func problems() map[string]*problem.Problem {
	hw := must(hardware.ByName(profile))
	tasks := must(bench.PaperTasks(hw, 2, 1))
	all := map[string]*problem.Problem{}
	for i := range tasks {
		all[tasks[i].Name] = &tasks[i].Problem
	}
	w := must(workload.ByName(dcn))
	p := w.Problem()
	p.Topology = hardware.Topology{Profile: hw, Devices: dcnDevices, DevicesPerHost: dcnDevices}
	all[dcn] = &p
	return all
}

// placed returns the shards of the plan by device.
func (r *ranPlan) placed(p *problem.Problem) [][]problem.Shard {
	tables := map[string]int{}
	for i := range p.Tables {
		tables[p.Tables[i].Name] = i
	}
	devices := make([][]problem.Shard, p.Topology.Devices)
	for _, s := range r.Shards {
		var n [4]int
		for i := range n {
			n[i] = int(s[i+1].(float64))
		}
		shard := p.Whole(tables[s[0].(string)])
		shard.Columns.Start, shard.Columns.End, shard.Operator = int64(n[0]), int64(n[1]), problem.Operator(n[3])
		devices[n[2]] = append(devices[n[2]], shard)
	}
	return devices
}

// replay returns the costs of the plans that ran with FBGEMM's kernels, simulated and measured, by
// task.
func replay(folder string) (simulated, measured map[string][]float64) {
	plans := readJSON[[]ranPlan](filepath.Join(folder, fbgemm), "plans.json")
	all := problems()
	simulated, measured = map[string][]float64{}, map[string][]float64{}
	for i := range plans {
		r := &plans[i]
		p := all[r.Task]
		cost := must(simulate.NewPricer(p).Price(r.placed(p)))
		simulated[r.Task] = append(simulated[r.Task], float64(cost.Cost))
		measured[r.Task] = append(measured[r.Task], r.Measured)
	}
	return simulated, measured
}

// planRow returns the line of the plans: tau is the mean over the tasks.
func planRow(folder string) row {
	simulated, measured := replay(folder)
	var ratios, taus []float64
	for task, s := range simulated {
		for i := range s {
			ratios = append(ratios, measured[task][i]/s[i])
		}
		taus = append(taus, stats.Kendall(s, measured[task]))
	}
	return row{"costs of plans (tau: the mean of tasks)", "", "no", ratios, stat.Mean(taus, nil)}
}
