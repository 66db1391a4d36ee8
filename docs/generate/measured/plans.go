package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/internal/rank"
)

// planRow is the cost of one plan in ms: as the search's cost model predicts it, as version 3 of
// the simulated device has it, and with measured lookups.
type planRow struct {
	task, method                   string
	predicted, simulated, measured float64
}

// The columns of plans.csv that are read: names, and costs in ms.
const (
	taskColumn, methodColumn                         = 1, 2
	predictedColumn, simulatedColumn, measuredColumn = 3, 4, 5
)

func readPlans(path string) ([]planRow, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var rows []planRow
	for i, r := range records {
		if i == 0 {
			continue
		}
		row := planRow{task: r[taskColumn], method: r[methodColumn]}
		for _, c := range []struct {
			into *float64
			at   int
		}{{&row.predicted, predictedColumn}, {&row.simulated, simulatedColumn}, {&row.measured, measuredColumn}} {
			if *c.into, err = strconv.ParseFloat(r[c.at], 64); err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", path, i+1, err)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// methods are the methods whose plans ran; the others are compared with the first.
var methods = []string{"neuroshard", "paper", "size-lookup"}

// byTask returns the tasks that all methods planned, in the order of the file, and the plans of
// all tasks by method.
func byTask(rows []planRow) (tasks []string, plans map[string]map[string]planRow) {
	plans = make(map[string]map[string]planRow)
	for _, r := range rows {
		if plans[r.task] == nil {
			plans[r.task] = make(map[string]planRow)
			tasks = append(tasks, r.task)
		}
		plans[r.task][r.method] = r
	}
	tasks = slices.DeleteFunc(tasks, func(t string) bool { return len(plans[t]) < len(methods) })
	return tasks, plans
}

// planTable has the measured costs of the tasks' plans with FBGEMM's kernels, and the mean
// ratios of both backends.
func planTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| task |")
	for _, name := range methods {
		fmt.Fprintf(&b, " `%s`, predicted | measured |", name)
	}
	fmt.Fprint(&b, " `neuroshard` / `paper`, measured | `neuroshard` / `size-lookup`, measured |\n|---|"+strings.Repeat("--:|", 2*len(methods)+2)+"\n")
	tasks, plans := byTask(m.fbgemm.plans)
	for _, t := range tasks {
		fmt.Fprintf(&b, "| %s |", t)
		for _, name := range methods {
			r := plans[t][name]
			fmt.Fprintf(&b, " %.3f | %.3f |", r.predicted, r.measured)
		}
		for _, name := range methods[1:] {
			fmt.Fprintf(&b, " %.3f |", plans[t][methods[0]].measured/plans[t][name].measured)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprint(&b, "\n| kernels | tasks | other method | mean ratio of costs, `neuroshard` over the other, measured | predicted | faster on | slower on |\n|---|--:|---|--:|--:|--:|--:|\n")
	for _, k := range m.backends() {
		tasks, plans := byTask(k.plans)
		for _, name := range methods[1:] {
			var measured, predicted []float64
			faster, slower := 0, 0
			for _, t := range tasks {
				own, other := plans[t][methods[0]], plans[t][name]
				measured = append(measured, own.measured/other.measured)
				predicted = append(predicted, own.predicted/other.predicted)
				if own.measured < other.measured {
					faster++
				} else {
					slower++
				}
			}
			fmt.Fprintf(&b, "| %s | %d | `%s` | %.3f | %.3f | %d | %d |\n",
				k.name, len(tasks), name, stat.GeometricMean(measured, nil), stat.GeometricMean(predicted, nil), faster, slower)
		}
	}
	fmt.Fprint(&b, "\n| kernels | measured over predicted cost: `neuroshard` | `paper` | `size-lookup` | all | Kendall's tau within a task |\n|---|--:|--:|--:|--:|--:|\n")
	for _, k := range m.backends() {
		tasks, plans := byTask(k.plans)
		var all []float64
		fmt.Fprintf(&b, "| %s |", k.name)
		for _, name := range methods {
			var over []float64
			for _, t := range tasks {
				over = append(over, plans[t][name].measured/plans[t][name].predicted)
			}
			all = append(all, over...)
			fmt.Fprintf(&b, " %.2f (%.2f-%.2f) |", median(over), slices.Min(over), slices.Max(over))
		}
		fmt.Fprintf(&b, " %.2f (%.2f-%.2f) | %.2f |\n", median(all), slices.Min(all), slices.Max(all), tau(tasks, plans))
	}
	return strings.TrimSpace(b.String()), nil
}

// tau returns the mean over the tasks of Kendall's tau of predicted and measured costs.
func tau(tasks []string, plans map[string]map[string]planRow) float64 {
	var taus []float64
	for _, t := range tasks {
		var predicted, measured []float64
		for _, name := range methods {
			predicted, measured = append(predicted, plans[t][name].predicted), append(measured, plans[t][name].measured)
		}
		taus = append(taus, rank.Kendall(predicted, measured))
	}
	return stat.Mean(taus, nil)
}

// verified is the part of the output of neuroshard verify --json that the table shows.
type verified struct {
	Predicted float64 `json:"predicted_cost_ms"`
	Measured  float64 `json:"measured_cost_ms"`
	Runs      float64 `json:"spread_ms"`
	Devices   []struct {
		Predicted, Measured struct {
			Forward  float64 `json:"forward_ms"`
			Backward float64 `json:"backward_ms"`
		}
	}
}

// dcnTable has the plans of DCNv2 on eight GPUs.
func dcnTable(m *measurements) (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| method | predicted, ms | measured, ms | range of the runs, ms | longest lookups, predicted | measured | lookups of all devices, measured over predicted: forward | backward |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, name := range methods {
		var v verified
		if err := readJSON(filepath.Join(m.folder, fbgemm, "dcnv2-"+name+".json"), &v); err != nil {
			return "", err
		}
		var longest, longestMeasured float64
		var forward, backward [2]float64
		for _, d := range v.Devices {
			longest = max(longest, d.Predicted.Forward+d.Predicted.Backward)
			longestMeasured = max(longestMeasured, d.Measured.Forward+d.Measured.Backward)
			forward[0] += d.Predicted.Forward
			forward[1] += d.Measured.Forward
			backward[0] += d.Predicted.Backward
			backward[1] += d.Measured.Backward
		}
		fmt.Fprintf(&b, "| `%s` | %.3f | %.3f | %.3f | %.3f | %.3f | %.2f | %.2f |\n",
			name, v.Predicted, v.Measured, v.Runs, longest, longestMeasured, forward[1]/forward[0], backward[1]/backward[0])
	}
	return strings.TrimSpace(b.String()), nil
}
