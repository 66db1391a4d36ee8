package bench

import (
	"compress/gzip"
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// reference is where the reference run of the prototype is kept.
const reference = "../../cost/prototype/testdata"

func open(t testing.TB, path ...string) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join(append([]string{reference}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// nets returns the prices of the prototype's nets, .pt or .json.gz.
func nets(t testing.TB, ending string) neuroshard.Prices {
	t.Helper()
	return neuroshard.Prototype(models(t, ending))
}

// models reads the prototype's nets.
func models(t testing.TB, ending string) *prototype.Models {
	t.Helper()
	file := func(name string) prototype.File {
		return prototype.File{Name: name, Reader: open(t, "models", name+ending)}
	}
	m, err := prototype.Load(file("compute"), file("comm_4_fw"), file("comm_4_bw"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pool reads the reference's tables.
func pool(t testing.TB) []problem.Table {
	t.Helper()
	z, err := gzip.NewReader(open(t, "table_configs.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := input.Tables("table_configs.json", z, input.Options{DefaultDim: workload.PoolDim})
	if err != nil {
		t.Fatal(err)
	}
	return tables.Tables
}

// suite returns the first tasks of one of the reference's settings.
func suite(t testing.TB, setting string, devices, count int) []Task {
	t.Helper()
	file, err := prototype.ReadTasks(setting, open(t, "tasks", setting+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	file.Tasks = file.Tasks[:count]
	tasks, err := FileTasks(setting, file, pool(t), profile(t, "a100-80"), devices, 4*unit.GiB)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func TestFileTasks(t *testing.T) {
	tasks := suite(t, "d4_m64", 4, 3)
	for i, name := range []string{"d4_m64/0", "d4_m64/1", "d4_m64/2"} {
		p := &tasks[i].Problem
		if tasks[i].Name != name || tasks[i].Setting != "d4_m64" {
			t.Errorf("got task %q of %q, want %q of d4_m64", tasks[i].Name, tasks[i].Setting, name)
		}
		if p.Topology.Devices != 4 || p.Topology.Profile.Name != "a100-80" || p.ShardBudget(0) != 4*unit.GiB {
			t.Errorf("task %d: got %d devices of %s with %v for tables, want 4 of a100-80 with 4 GiB", i, p.Topology.Devices, p.Topology.Profile.Name, p.ShardBudget(0))
		}
		shard := p.Whole(0)
		if got, want := p.ShardMemory(shard).Tables(), unit.Bytes(4*p.Tables[0].Rows*int64(p.Tables[0].Dim)); got != want {
			t.Errorf("task %d: table 0 takes %v, want its fp32 weights, %v", i, got, want)
		}
	}
	file := &prototype.TaskFile{Tasks: []prototype.Task{{TableIDs: []int{1}, Dims: []int{8}}, {TableIDs: []int{856}, Dims: []int{8}}}}
	if _, err := FileTasks("s", file, pool(t), profile(t, "a100-80"), 4, 4*unit.GiB); err == nil || !strings.Contains(err.Error(), "task 1") {
		t.Errorf("a table outside the pool: got error %v, want one of task 1", err)
	}
}

// embedded returns a profile's model.
func embedded(t testing.TB, name string) *cost.Model {
	t.Helper()
	file, err := pretrained.File(name)
	if err != nil {
		t.Fatal(err)
	}
	model, err := cost.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// All prices: what Run found is valid, and Score estimates it alike.
func TestPrices(t *testing.T) {
	model := embedded(t, "a100-80")
	tasks := suite(t, "d4_m64", 4, 2)
	for _, c := range []struct {
		name   string
		prices neuroshard.Prices
		id     string
		judged bool
	}{
		{"embedded", neuroshard.Pretrained(), "embedded", true},
		{"given", neuroshard.Trained(model, 0), model.Manifest().ID, true},
		{"formulas", neuroshard.TorchRec(), "torchrec-1.9.2", true},
		{"prototype", nets(t, ".pt"), nets(t, ".json.gz").String(), false},
	} {
		if got := c.prices.String(); got != c.id {
			t.Errorf("%s: got id %q, want %q", c.name, got, c.id)
		}
		if err := Check(tasks, c.prices); err != nil {
			t.Errorf("%s: got error %v, want none", c.name, err)
		}
		for _, method := range []search.Method{search.Default, search.Paper, search.Size} {
			p := &tasks[1].Problem
			got, err := neuroshard.Plan(context.Background(), p, neuroshard.Options{Prices: c.prices, Search: search.Options{Method: method, Workers: 1, ShardingTypes: search.Columns()}})
			if err != nil {
				t.Fatalf("%s: %s: %v", c.name, method, err)
			}
			if got.Judged() != c.judged || got.Status == "" || got.Status == search.Interrupted {
				t.Errorf("%s: %s: got simulated cost %v and status %q, want one: %v", c.name, method, got.Simulated, got.Status, c.judged)
			}
			checkDevices(t, p, got)
			again, err := neuroshard.Evaluate(t.Context(), p, got.Shards, neuroshard.Options{Prices: c.prices, Search: search.Options{Method: method}})
			if err != nil {
				t.Fatalf("%s: %s: %v", c.name, method, err)
			}
			again.Status, again.Stats, again.Optimal, again.Plan.Provenance.Status = got.Status, got.Stats, got.Optimal, got.Plan.Provenance.Status
			if !reflect.DeepEqual(again, got) {
				t.Errorf("%s: %s: evaluated: got %+v, want %+v", c.name, method, again, got)
			}
		}
	}
	if got := neuroshard.Trained(model, 1.5).String(); got != model.Manifest().ID+", risk penalty 1.5" {
		t.Errorf("risk penalty: got id %q", got)
	}
	if other := models(t, ".pt"); neuroshard.Prototype(other).String() == neuroshard.Prototype(changed(other)).String() {
		t.Errorf("other nets: got the same id %v", neuroshard.Prototype(other))
	}
}

// changed returns the nets with one bias changed.
func changed(models *prototype.Models) *prototype.Models {
	m, compute := *models, *models.Compute
	compute.Head[1].Bias = []float32{compute.Head[1].Bias[0] + 1e-6}
	m.Compute = &compute
	return &m
}

// checkDevices holds a record's devices against the shards.
func checkDevices(t *testing.T, p *problem.Problem, got *neuroshard.Result) {
	t.Helper()
	slowest, devices := 0.0, devicesOf(p, got.Shards, got.Predicted)
	for d, held := range got.Shards {
		want := Device{Shards: len(held)}
		for _, s := range held {
			want.DimSum += s.Dim()
			want.Bytes += int64(p.ShardMemory(s).Tables())
		}
		device := devices[d]
		if device.Shards != want.Shards || device.DimSum != want.DimSum || device.Bytes != want.Bytes || device.Bytes > int64(p.ShardBudget(0)) {
			t.Errorf("device %d: got %+v, want %+v, within %v", d, device, want, p.ShardBudget(0))
		}
		if sum := device.ComputeMS + device.BackwardCommMS + device.ForwardCommMS; math.Abs(sum-device.TotalMS) > 1e-9*sum {
			t.Errorf("device %d: got a total of %v ms, want the sum %v", d, device.TotalMS, sum)
		}
		slowest = max(slowest, device.TotalMS)
	}
	if math.Abs(slowest-float64(got.Predicted.Cost)) > 1e-9*slowest {
		t.Errorf("got cost %v, want that of the slowest device, %v", got.Predicted.Cost, slowest)
	}
}

func TestPricesRefuse(t *testing.T) {
	prototype := nets(t, ".pt")
	eight := suite(t, "d4_m16", 8, 2)
	if err := Check(eight, prototype); err == nil || !strings.Contains(err.Error(), "d4_m16/0: 8 devices, but the comm nets are for 4") {
		t.Errorf("8 devices: got error %v, want one of the number of devices", err)
	}
	if _, err := neuroshard.Plan(context.Background(), &eight[0].Problem, neuroshard.Options{Prices: prototype}); err == nil {
		t.Error("8 devices: got a plan, want an error")
	}
	if _, err := neuroshard.Evaluate(t.Context(), &eight[0].Problem, nil, neuroshard.Options{Prices: prototype}); err == nil {
		t.Error("8 devices: got a price, want an error")
	}
	if Check(eight, neuroshard.Pretrained()) != nil {
		t.Error("embedded models: got an error, want none")
	}
	model := embedded(t, "h200")
	if err := Check(eight, neuroshard.Trained(model, 0)); err == nil || !strings.Contains(err.Error(), model.Manifest().ID) {
		t.Errorf("a model of h200: got error %v, want one that names it", err)
	}
	// A placement that leaves tables out, or is too large, has no estimate.
	for _, prices := range []neuroshard.Prices{nil, prototype} {
		task := suite(t, "d4_m16", 4, 1)[0]
		all := make([][]problem.Shard, 4)
		if _, err := neuroshard.Evaluate(t.Context(), &task.Problem, all, neuroshard.Options{Prices: prices}); err == nil {
			t.Errorf("%v: an empty plan: got a price, want an error", prices)
		}
		for i := range task.Problem.Tables {
			all[0] = append(all[0], task.Problem.Whole(i))
		}
		task.Problem.Topology.Memory = 1 << 20
		if _, err := neuroshard.Evaluate(t.Context(), &task.Problem, all, neuroshard.Options{Prices: prices}); err == nil {
			t.Errorf("%v: all tables on a device of 1 MiB: got a price, want an error", prices)
		}
	}
}

// TestEstimable keeps the tasks with the nets' number of devices, or all if there are none.
func TestEstimable(t *testing.T) {
	drawn, err := PaperTasks(profile(t, "a100-80"), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		tasks  []Task
		prices neuroshard.Prices
		want   string
	}{
		{"nets for 4 devices", drawn, nets(t, ".pt"), "d4_m16/0 d4_m64/0 d4_m128/0"},
		{"no task for the nets", drawn[3:], nets(t, ".pt"), "d8_m16/0 d8_m64/0 d8_m128/0"},
		{"models for any number", drawn[2:4], neuroshard.Pretrained(), "d4_m128/0 d8_m16/0"},
	} {
		var names []string
		for _, task := range Estimable(tt.tasks, tt.prices) {
			names = append(names, task.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
