package neuroshard_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// readRows returns the lines of a file of facts below its head.
func readRows(t *testing.T, name string) [][]string {
	t.Helper()
	file, err := os.Open("docs/generate/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %d lines, %v", name, len(rows), err)
	}
	return rows[1:]
}

// numbered returns the number that a field of a file of facts holds.
func numbered(t *testing.T, field string) int {
	t.Helper()
	n, err := strconv.Atoi(field)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// matrixOf writes the devices of each table, as mlperf_plans.csv lists them, as HugeCTR's shard
// matrix and strategy.
func matrixOf(t *testing.T, devices []string, p *problem.Problem) string {
	t.Helper()
	matrix := make([][]string, p.Topology.Devices)
	strategy := map[string][]string{}
	for i, list := range devices {
		name, kind := p.Tables[i].Name, "mp"
		if list == "all" {
			list, kind = "0-"+strconv.Itoa(len(matrix)-1), "dp"
		}
		strategy[kind] = append(strategy[kind], name)
		for part := range strings.FieldsSeq(list) {
			from, to, ranged := strings.Cut(part, "-")
			if !ranged {
				to = from
			}
			for gpu := numbered(t, from); gpu <= numbered(t, to); gpu++ {
				matrix[gpu] = append(matrix[gpu], name)
			}
		}
	}
	strategies := [][]any{{"mp", strategy["mp"]}}
	if strategy["dp"] != nil {
		strategies = append(strategies, []any{"dp", strategy["dp"]})
	}
	text, err := json.Marshal(map[string]any{"shard_matrix": matrix, "shard_strategy": strategies})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPlansOfMLPerf reads each plan that MLPerf's systems ran DLRM-DCNv2 with under HugeCTR, as a
// shard matrix, on the first of its systems. Each is valid, and the model's estimate is near the simulated cost.
func TestPlansOfMLPerf(t *testing.T) {
	plans := map[string][]string{}
	for _, row := range readRows(t, "mlperf_plans.csv") {
		plans[row[0]] = append(plans[row[0]], row[2])
	}
	seen := map[string]bool{}
	chosen := 0
	for _, row := range readRows(t, "mlperf.csv") {
		profile, number := row[1], row[7]
		if seen[number] {
			continue
		}
		seen[number] = true
		if !hardware.Known(profile) {
			profile = "h100-80"
		}
		p := workloadNamed(t, "mlperf-dlrm-dcnv2")
		var err error
		if p.Topology.Profile, err = hardware.ByName(profile); err != nil {
			t.Fatal(err)
		}
		p.Topology.Devices, p.Topology.DevicesPerHost, p.Batch = numbered(t, row[2]), numbered(t, row[3]), numbered(t, row[4])
		p.CommPrecision, p.Engine = problem.FP16, problem.HugeCTR
		file, err := export.ReadHugeCTR("matrix.json", strings.NewReader(matrixOf(t, plans[number], &p)))
		if err != nil {
			t.Fatal(err)
		}
		pl, err := file.Place(&p)
		if err != nil {
			t.Fatal(err)
		}
		chosen += pl.Chosen()
		r, err := neuroshard.Evaluate(t.Context(), &p, pl.ByDevice(), neuroshard.Options{})
		if err != nil {
			t.Errorf("plan %s on %d x %s: %v", number, p.Topology.Devices, profile, err)
			continue
		}
		if off := float64(r.Predicted.Cost/r.Simulated.Cost) - 1; off < -.06 || off > .06 {
			t.Errorf("plan %s on %d x %s: got an estimate of %v, want about the %v of the simulated device", number, p.Topology.Devices, profile, r.Predicted.Cost, r.Simulated.Cost)
		}
	}
	if len(seen) != len(plans) || chosen == 0 {
		t.Errorf("got %d plans with %d tables on chosen devices, want all %d and some", len(seen), chosen, len(plans))
	}
}
