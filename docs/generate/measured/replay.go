package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/internal/rank"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/simulate"
)

// ranPlan is a plan that ran: plans.json.
type ranPlan struct {
	Task, Method string
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
func problems() (map[string]*problem.Problem, error) {
	hw, err := hardware.ByName(profile)
	if err != nil {
		return nil, err
	}
	tasks, err := bench.PaperTasks(hw, 2, 1)
	if err != nil {
		return nil, err
	}
	all := map[string]*problem.Problem{}
	for i := range tasks {
		all[tasks[i].Name] = &tasks[i].Problem
	}
	w, err := workload.ByName(dcn)
	if err != nil {
		return nil, err
	}
	p := w.Problem()
	p.Topology = hardware.Topology{Profile: hw, Devices: dcnDevices, DevicesPerHost: dcnDevices}
	all[dcn] = &p
	return all, nil
}

// placed returns the shards of the plan by device.
func (r *ranPlan) placed(p *problem.Problem) ([][]problem.Shard, error) {
	tables := map[string]int{}
	for i := range p.Tables {
		tables[p.Tables[i].Name] = i
	}
	devices := make([][]problem.Shard, p.Topology.Devices)
	for _, s := range r.Shards {
		name, _ := s[0].(string)
		var n [4]int
		for i := range n {
			v, ok := s[i+1].(float64)
			if !ok {
				return nil, fmt.Errorf("%s, %s: a shard of table %q has no number at place %d", r.Task, r.Method, name, i+1)
			}
			n[i] = int(v)
		}
		table, ok := tables[name]
		if !ok || n[2] < 0 || n[2] >= len(devices) {
			return nil, fmt.Errorf("%s, %s: no table %q, or no device %d", r.Task, r.Method, name, n[2])
		}
		shard := p.Whole(table)
		shard.Columns.Start, shard.Columns.End, shard.Operator = int64(n[0]), int64(n[1]), problem.Operator(n[3])
		devices[n[2]] = append(devices[n[2]], shard)
	}
	return devices, nil
}

// replayed are the costs of one plan that ran, in ms.
type replayed struct {
	task, method                string
	before, simulated, measured float64
}

// replay returns the costs of the plans that ran with FBGEMM's kernels: simulated by version 3 (of
// DCNv2: predicted by its model), simulated now, and measured.
func replay(m *measurements) ([]replayed, error) {
	var plans []ranPlan
	if err := readJSON(filepath.Join(m.folder, fbgemm, "plans.json"), &plans); err != nil {
		return nil, err
	}
	all, err := problems()
	if err != nil {
		return nil, err
	}
	_, costs := byTask(m.fbgemm.plans)
	var list []replayed
	for i := range plans {
		r := &plans[i]
		p := all[r.Task]
		if p == nil {
			return nil, fmt.Errorf("plans.json: task %q is unknown", r.Task)
		}
		shards, err := r.placed(p)
		if err != nil {
			return nil, err
		}
		cost, err := simulate.NewPricer(p).Price(shards)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", r.Task, r.Method, err)
		}
		one := replayed{task: r.Task, method: r.Method, simulated: float64(cost.Cost)}
		if row, ok := costs[r.Task][r.Method]; ok {
			one.before, one.measured = row.simulated, row.measured
		} else {
			var v verified
			if err := readJSON(filepath.Join(m.folder, fbgemm, "dcnv2-"+r.Method+".json"), &v); err != nil {
				return nil, err
			}
			one.before, one.measured = v.Predicted, v.Measured
		}
		list = append(list, one)
	}
	return list, nil
}

// replayTable has the measured over the simulated costs of the plans that ran, by method, for
// version 3 of the simulated device and for this one.
func replayTable(m *measurements) (string, error) {
	list, err := replay(m)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprint(&b, "| plans of | number | measured over simulated, version 3: median | range | version 4: median | range |\n|---|--:|--:|--:|--:|--:|\n")
	for _, name := range append(slices.Clone(methods), "all") {
		var before, now []float64
		for _, r := range list {
			if name == "all" || r.method == name {
				before, now = append(before, r.measured/r.before), append(now, r.measured/r.simulated)
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.2f-%.2f | %.2f | %.2f-%.2f |\n", codeName(name), len(now),
			median(before), slices.Min(before), slices.Max(before), median(now), slices.Min(now), slices.Max(now))
	}
	before, now := withinTasks(list)
	fmt.Fprintf(&b, "\nKendall's tau of simulated and measured costs within a task, in the mean: %.2f with version 3, %.2f with version 4.", before, now)
	return b.String(), nil
}

// codeName returns the name of a method in the marks of code.
func codeName(name string) string {
	if name == "all" {
		return name
	}
	return "`" + name + "`"
}

// withinTasks returns the mean over the tasks of Kendall's tau of simulated and measured costs, by
// version 3 and now.
func withinTasks(list []replayed) (before, now float64) {
	byTask := map[string][]replayed{}
	var tasks []string
	for _, r := range list {
		if byTask[r.task] == nil {
			tasks = append(tasks, r.task)
		}
		byTask[r.task] = append(byTask[r.task], r)
	}
	var taus [2][]float64
	for _, t := range tasks {
		var old, new, measured []float64
		for _, r := range byTask[t] {
			old, new, measured = append(old, r.before), append(new, r.simulated), append(measured, r.measured)
		}
		taus[0], taus[1] = append(taus[0], rank.Kendall(old, measured)), append(taus[1], rank.Kendall(new, measured))
	}
	return stat.Mean(taus[0], nil), stat.Mean(taus[1], nil)
}
