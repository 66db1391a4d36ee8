package prototype_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
)

// Parity with a reference run of the published prototype: see
// testdata/README.md.

// tolerance is the relative difference allowed to the prototype's numbers,
// which are float32.
const tolerance = 1e-4

var settings = []string{"d4_m16", "d4_m64"}

// methods are ours under the prototype's names.
var methods = map[string]search.Method{
	"random": search.Random, "size_greedy": search.Size, "dim_greedy": search.Dim,
	"lookup_greedy": search.Lookup, "size_lookup_greedy": search.SizeLookup, "neuroshard": search.Paper,
}

func open(t testing.TB, path ...string) *os.File {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(append([]string{"testdata"}, path...)...)))(t)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func file(t testing.TB, path ...string) prototype.File {
	return prototype.File{Name: path[len(path)-1], Reader: open(t, path...)}
}

func models(t testing.TB, ending string) *prototype.Models {
	t.Helper()
	return must.Get(prototype.Load(file(t, "models", "compute"+ending), file(t, "models", "comm_4_fw"+ending), file(t, "models", "comm_4_bw"+ending)))(t)
}

// pool reads the pool of tables, every one at dim 64 until a task says better.
func pool(t testing.TB) []problem.Table {
	t.Helper()
	z := must.Get(gzip.NewReader(open(t, "table_configs.json.gz")))(t)
	tables := must.Get(input.Tables("table_configs.json", z, input.Options{DefaultDim: 64}))(t)
	if len(tables.Tables) != 856 {
		t.Fatalf("got %d tables, want 856", len(tables.Tables))
	}
	return tables.Tables
}

// problems returns the problems of a setting, in the order of its tasks.
func problems(t testing.TB, tables []problem.Table, setting string) []*problem.Problem {
	t.Helper()
	tasks := must.Get(prototype.ReadTasks(setting, open(t, "tasks", setting+".txt")))(t)
	if len(tasks.Tasks) != 30 {
		t.Fatalf("%s: got %d tasks, want 30", setting, len(tasks.Tasks))
	}
	var list []*problem.Problem
	for i, task := range tasks.Tasks {
		p, err := task.Problem(tables, 4, 4*unit.GiB)
		if err != nil {
			t.Fatalf("%s: task %d: %v", setting, i, err)
		}
		list = append(list, p)
	}
	return list
}

func results(t testing.TB, setting, method string) []prototype.Result {
	t.Helper()
	name := setting + "_" + method + ".json.gz"
	list := must.Get(prototype.ReadResults(name, open(t, "results", name)))(t)
	if len(list) != 30 {
		t.Fatalf("%s: got %d results, want 30", name, len(list))
	}
	return list
}

func TestCheckpointsEqualJSON(t *testing.T) {
	if checkpoint, text := models(t, ".pt"), models(t, ".json.gz"); !reflect.DeepEqual(checkpoint, text) {
		t.Error("the nets of the checkpoints and of their JSON differ")
	}
}

// Every saved plan costs what the prototype says, part by part, also those that
// do not fit.
func TestCostsOfSavedPlans(t *testing.T) {
	m, tables := models(t, ".pt"), pool(t)
	worstPlain, worstFast, plans := 0.0, 0.0, 0
	for _, setting := range settings {
		tasks := problems(t, tables, setting)
		for method := range methods {
			for _, record := range some(results(t, setting, method)) {
				p := tasks[record.Task]
				shards, err := record.Placement(p)
				if err != nil {
					t.Fatalf("%s %s task %d: %v", setting, method, record.Task, err)
				}
				estimates := must.Get(m.NewEstimates(p))(t)
				plans++
				worstPlain = max(worstPlain, compareParts(t, &record, shards, m.PredictShards(p, shards)))
				worstFast = max(worstFast, compareParts(t, &record, shards, estimates.Price(shards)))
			}
		}
	}
	t.Logf("%d plans: largest relative difference of any part to the prototype's: %.2g in float64, %.2g by the fast path", plans, worstPlain, worstFast)
}

// compareParts checks a price against a record, and returns the largest
// relative difference found: of a part to its device's total.
func compareParts(t *testing.T, record *prototype.Result, shards [][]problem.Shard, got plan.Breakdown) float64 {
	t.Helper()
	worst := 0.0
	check := func(what string, d int, got unit.Millis, want, size float64) {
		difference := math.Abs(float64(got)-want) / size
		worst = max(worst, difference)
		if !(difference <= tolerance) {
			t.Errorf("%s %s task %d: %s of device %d: got %v, want %v", record.Setting, record.Method, record.Task, what, d, got, want)
		}
	}
	cost := 0.0
	for d, device := range got.Devices {
		total := record.Parts.Total[d]
		cost = max(cost, total)
		check("compute", d, device.Forward, record.Parts.Compute[d], total)
		check("backward comm", d, device.BackwardComm, record.Parts.BackwardComm[d], total)
		check("forward comm", d, device.ForwardComm, record.Parts.ForwardComm[d], total)
		check("total", d, device.Total(), total, total)
		dims := 0
		for _, s := range shards[d] {
			dims += s.Dim()
		}
		if dims != record.Parts.Dims[d] {
			t.Errorf("%s %s task %d: dim sum of device %d: got %d, want %d", record.Setting, record.Method, record.Task, d, dims, record.Parts.Dims[d])
		}
	}
	check("cost", got.Critical, got.Cost, cost, cost)
	if record.Valid {
		check("saved cost", got.Critical, got.Cost, *record.Cost, *record.Cost)
	}
	return worst
}

func TestScorerConforms(t *testing.T) {
	m, tables := models(t, ".pt"), pool(t)
	tasks := map[string]*problem.Problem{}
	for _, setting := range settings {
		for i, p := range problems(t, tables, setting)[:4] {
			tasks[fmt.Sprintf("%s task %d", setting, i)] = p
		}
	}
	shapes := 0
	for _, c := range searchtest.Cases(hardware.Profiles()[0]) {
		if c.Problem.Topology.Devices != m.Devices() {
			continue // the nets are for one number of devices
		}
		for i := range c.Problem.Tables { // and for tables that one feature reads
			c.Problem.Tables[i].Features = c.Problem.Tables[i].Features[:1]
		}
		// The nets know one pooled vector a sample.
		c.Problem.Tables = slices.DeleteFunc(c.Problem.Tables, func(t problem.Table) bool { return !t.OneBag() })
		tasks[c.Name] = c.Problem
		shapes++
	}
	if shapes == 0 {
		t.Errorf("no case has %d devices", m.Devices())
	}
	for name, p := range tasks {
		t.Run(name, func(t *testing.T) {
			estimates := must.Get(m.NewEstimates(p))(t)
			searchtest.Conform(t, p, func() search.Scorer { return estimates.NewScorer() }, nil)
		})
	}
}

// find runs a search; ok is false where it finds no plan that fits.
func find(t testing.TB, m *prototype.Models, p *problem.Problem, method search.Method, workers int) (result search.Result, ok bool) {
	t.Helper()
	estimates, err := m.NewEstimates(p)
	if err != nil {
		t.Fatal(err)
	}
	result, err = search.Run(context.Background(), p, func() search.Scorer { return estimates.NewScorer() }, search.Options{Method: method, Workers: workers, ColumnsOnly: true})
	var none *search.Infeasible
	if errors.As(err, &none) {
		return result, false
	}
	if err != nil {
		t.Fatal(err)
	}
	// What was found is priced again, plainly, and fits.
	if again := float64(m.PredictShards(p, result.Shards).Cost); math.Abs(again-result.Cost) > tolerance*again {
		t.Errorf("%s: cost: got %v, want %v in float64", method, result.Cost, again)
	}
	for d, held := range result.Shards {
		var bytes unit.Bytes
		for _, s := range held {
			bytes += p.ShardMemory(s)[problem.ForwardExchange].Used()
		}
		if bytes > p.ShardBudget(0)[problem.ForwardExchange] {
			t.Errorf("%s: device %d: got %v, want at most %v", method, d, bytes, p.ShardBudget(0)[problem.ForwardExchange])
		}
	}
	return result, true
}

// some returns some of the results: each everyTask-th.
func some(list []prototype.Result) []prototype.Result {
	var few []prototype.Result
	for i := 0; i < len(list); i += everyTask {
		few = append(few, list[i])
	}
	return few
}

// Method paper solves the tasks that the prototype solved, at no higher mean cost. The
// default solves the tasks that paper solves, and costs at least 1 % less in the mean. It costs more on few tasks, and not much
// more: over 12 seeds, it did so in 4 of 720 searches, by at most 1.04 %.
func TestSearchAgainstPrototype(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems, one after another")
	}
	m, tables := models(t, ".pt"), pool(t)
	for _, setting := range settings {
		tasks := problems(t, tables, setting)
		saved := some(results(t, setting, "neuroshard"))
		solved, wanted, above, n := 0, 0, 0, float64(len(saved))
		var ours, theirs, best float64
		for i, record := range saved {
			paper, ok := find(t, m, tasks[record.Task], search.Paper, 1)
			byDefault, okDefault := find(t, m, tasks[record.Task], search.Default, 1)
			if record.Valid {
				wanted++
			}
			if ok {
				solved++
			}
			if ok && (!okDefault || byDefault.Cost > paper.Cost*1.02) {
				t.Errorf("%s task %d: the default: got %v (found %v), want at most 2 %% above paper's %v", setting, i, byDefault.Cost, okDefault, paper.Cost)
			}
			if ok && byDefault.Cost > paper.Cost*(1+1e-9) {
				above++
			}
			if ok && record.Valid {
				ours, theirs, best = ours+paper.Cost, theirs+*record.Cost, best+byDefault.Cost
			}
		}
		if solved < wanted {
			t.Errorf("%s: paper solved %d tasks, want at least %d", setting, solved, wanted)
		}
		if ours > theirs*1.001 {
			t.Errorf("%s: mean cost of paper: got %.4f ms, want at most 0.1 %% above %.4f", setting, ours/n, theirs/n)
		}
		if above*20 > len(saved) || best > ours*.99 {
			t.Errorf("%s: the default: got %d of %d tasks above paper and a mean of %.4f ms, want at most one in twenty, and 1 %% below %.4f", setting, above, len(saved), best/n, ours/n)
		}
		t.Logf("%s: %d of %d solved; mean ms: prototype %.4f, paper %.4f (%+.3f %%), default %.4f (%+.3f %%)", setting, solved, len(saved),
			theirs/n, ours/n, 100*(ours/theirs-1), best/n, 100*(best/theirs-1))
	}
}

// Baselines give the prototype's costs. Where a table fits nowhere the
// prototype puts it on the last device, and its plan is then too large.
func TestBaselinesAgainstPrototype(t *testing.T) {
	m, tables := models(t, ".pt"), pool(t)
	for _, setting := range settings {
		tasks := problems(t, tables, setting)
		for name, method := range methods {
			if method == search.Random || method == search.Paper {
				continue // drawn from another generator; and searched
			}
			for _, record := range some(results(t, setting, name)) {
				result, ok := find(t, m, tasks[record.Task], method, 1)
				if record.Valid != ok {
					// A table too large for any device is split first, which the prototype
					// does not do.
					if record.Valid || !hasTooLarge(tasks[record.Task]) {
						t.Errorf("%s %s task %d: found a plan: got %v, want %v", setting, name, record.Task, ok, record.Valid)
					}
					continue
				}
				if ok && math.Abs(result.Cost-*record.Cost) > tolerance**record.Cost {
					t.Errorf("%s %s task %d: got %v, want %v", setting, name, record.Task, result.Cost, *record.Cost)
				}
			}
		}
	}
}

func hasTooLarge(p *problem.Problem) bool {
	for i := range p.Tables {
		if p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used() > p.ShardBudget(0)[problem.ForwardExchange] {
			return true
		}
	}
	return false
}

// The table-wise optimum of tiny tasks, found by trying every placement. The
// searches may split columns and go below it.
func TestTinyOptimum(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans or trains for long, on few threads")
	}
	m, tables := models(t, ".pt"), pool(t)
	var list struct {
		Tasks []struct {
			prototype.Task
			Devices    int     `json:"devices"`
			MemoryGiB  float64 `json:"max_mem_gib"`
			Optimum    float64 `json:"optimum_ms"`
			Worst      float64 `json:"worst_ms"`
			Assignment []int   `json:"optimum_assignment"`
		} `json:"tasks"`
	}
	data := must.Get(io.ReadAll(open(t, "tiny_optimum.json")))(t)
	must.Do(t, json.Unmarshal(data, &list))
	list.Tasks = list.Tasks[:len(list.Tasks)/min(everyTask, 3)]
	reached := map[search.Method]int{}
	below := map[search.Method]int{}
	gap := map[search.Method]float64{}
	for i, task := range list.Tasks {
		p := must.Get(task.Problem(tables, task.Devices, unit.Bytes(task.MemoryGiB*float64(unit.GiB))))(t)
		shards := make([][]problem.Shard, task.Devices)
		for table, d := range task.Assignment {
			shards[d] = append(shards[d], p.Whole(table))
		}
		if cost := float64(m.PredictShards(p, shards).Cost); math.Abs(cost-task.Optimum) > tolerance*task.Optimum {
			t.Errorf("task %d: cost of the optimum: got %v, want %v", i, cost, task.Optimum)
		}
		for _, method := range []search.Method{search.Paper, search.Default} {
			result, ok := find(t, m, p, method, 1)
			if !ok || result.Cost > task.Worst {
				t.Errorf("task %d: %s: got %v (found %v), want at most the worst placement's %v", i, method, result.Cost, ok, task.Worst)
				continue
			}
			if result.Cost <= task.Optimum*(1+tolerance) {
				reached[method]++
			}
			if result.Cost < task.Optimum*(1-tolerance) {
				below[method]++
			}
			gap[method] = max(gap[method], result.Cost/task.Optimum-1)
		}
	}
	for _, method := range []search.Method{search.Paper, search.Default} {
		t.Logf("%s: at most the table-wise optimum on %d of %d tasks, below it on %d; at worst %.2f %% above", method, reached[method], len(list.Tasks), below[method], 100*gap[method])
		if gap[method] > .25 {
			t.Errorf("%s: at worst %.1f %% above the table-wise optimum, want at most 25", method, 100*gap[method])
		}
	}
	if reached[search.Default] < len(list.Tasks)/2 {
		t.Errorf("the default reached the table-wise optimum on %d of %d tasks, want half at least", reached[search.Default], len(list.Tasks))
	}
}

func TestEstimatesRefuse(t *testing.T) {
	m, tables := models(t, ".pt"), pool(t)
	task := prototype.Task{TableIDs: []int{1, 2}, Dims: []int{16, 16}}
	p := must.Get(task.Problem(tables, 8, 4*unit.GiB))(t)
	if _, err := m.NewEstimates(p); err == nil || !strings.Contains(err.Error(), "4 devices, the problem has 8") {
		t.Errorf("8 devices: got %v, want an error of the number of devices", err)
	}
	p, _ = task.Problem(tables, 4, 4*unit.GiB)
	p.Tables[1].Features = append(p.Tables[1].Features, problem.Feature{Name: "more"}, problem.Feature{Name: "yet more"})
	if _, err := m.NewEstimates(p); err == nil || !strings.Contains(err.Error(), "3 features") {
		t.Errorf("3 features: got %v, want an error of the features", err)
	}
}
