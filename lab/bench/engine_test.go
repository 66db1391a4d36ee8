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

// nets reads the prototype's nets, .pt or .json.gz.
func nets(t testing.TB, ending string) Prototype {
	t.Helper()
	file := func(name string) prototype.File {
		return prototype.File{Name: name, Reader: open(t, "models", name+ending)}
	}
	m, err := prototype.Load(file("compute"), file("comm_4_fw"), file("comm_4_bw"))
	if err != nil {
		t.Fatal(err)
	}
	return Prototype{m}
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
		if p.Topology.Devices != 4 || p.Topology.Profile.Name != "a100-80" || p.ShardBudget() != 4*unit.GiB {
			t.Errorf("task %d: got %d devices of %s with %v for tables, want 4 of a100-80 with 4 GiB", i, p.Topology.Devices, p.Topology.Profile.Name, p.ShardBudget())
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

// Both engines: what Plan found is proven, and Score prices it alike.
func TestEngines(t *testing.T) {
	model, err := neuroshard.Options{}.CostModel(profile(t, "a100-80"))
	if err != nil {
		t.Fatal(err)
	}
	tasks := suite(t, "d4_m64", 4, 2)
	for _, c := range []struct {
		name    string
		engine  Engine
		id      string
		judged  bool
		devices int
	}{
		{"embedded", Models{}, "embedded", true, 4},
		{"given", Models{Model: model}, model.Manifest().ID, true, 4},
		{"prototype", nets(t, ".pt"), nets(t, ".json.gz").ID(), false, 4},
	} {
		if got := c.engine.ID(); got != c.id {
			t.Errorf("%s: got id %q, want %q", c.name, got, c.id)
		}
		if err := c.engine.Check(tasks); err != nil {
			t.Errorf("%s: got error %v, want none", c.name, err)
		}
		for _, method := range []search.Method{search.Default, search.Paper, search.Size} {
			p := &tasks[1].Problem
			got, err := c.engine.Plan(context.Background(), p, search.Options{Method: method, Workers: 1})
			if err != nil {
				t.Fatalf("%s: %s: %v", c.name, method, err)
			}
			if (got.Simulated != nil) != c.judged || got.Status == "" || got.Status == search.Interrupted {
				t.Errorf("%s: %s: got simulated cost %v and status %q, want one: %v", c.name, method, got.Simulated, got.Status, c.judged)
			}
			checkDevices(t, p, got)
			again, err := c.engine.Score(p, got.Shards)
			if err != nil {
				t.Fatalf("%s: %s: %v", c.name, method, err)
			}
			again.Status = got.Status
			if !reflect.DeepEqual(again, got) {
				t.Errorf("%s: %s: scored: got %+v, want %+v", c.name, method, again, got)
			}
		}
	}
	if other := nets(t, ".pt"); other.ID() == changed(other).ID() {
		t.Errorf("other nets: got the same id %q", other.ID())
	}
}

// changed returns the nets with one bias changed.
func changed(e Prototype) Prototype {
	m, compute := *e.Models, *e.Models.Compute
	compute.Head[1].Bias = []float32{compute.Head[1].Bias[0] + 1e-6}
	m.Compute = &compute
	return Prototype{&m}
}

// checkDevices holds an outcome's devices against its shards.
func checkDevices(t *testing.T, p *problem.Problem, got *Outcome) {
	t.Helper()
	slowest := 0.0
	for d, held := range got.Shards {
		want := Device{Shards: len(held)}
		for _, s := range held {
			want.DimSum += s.Dim()
			want.Bytes += int64(p.ShardMemory(s).Tables())
		}
		device := got.Devices[d]
		if device.Shards != want.Shards || device.DimSum != want.DimSum || device.Bytes != want.Bytes || device.Bytes > int64(p.ShardBudget()) {
			t.Errorf("device %d: got %+v, want %+v, within %v", d, device, want, p.ShardBudget())
		}
		if sum := device.ComputeMS + device.BackwardCommMS + device.ForwardCommMS; math.Abs(sum-device.TotalMS) > 1e-9*sum {
			t.Errorf("device %d: got a total of %v ms, want the sum %v", d, device.TotalMS, sum)
		}
		slowest = max(slowest, device.TotalMS)
	}
	if math.Abs(slowest-float64(got.Predicted)) > 1e-9*slowest {
		t.Errorf("got cost %v, want that of the slowest device, %v", got.Predicted, slowest)
	}
}

func TestEnginesRefuse(t *testing.T) {
	prototype := nets(t, ".pt")
	eight := suite(t, "d4_m16", 8, 2)
	if err := prototype.Check(eight); err == nil || !strings.Contains(err.Error(), "d4_m16/0: 8 devices, but the comm nets are for 4") {
		t.Errorf("8 devices: got error %v, want one of the number of devices", err)
	}
	if _, err := prototype.Plan(context.Background(), &eight[0].Problem, search.Options{}); err == nil {
		t.Error("8 devices: got a plan, want an error")
	}
	if _, err := prototype.Score(&eight[0].Problem, nil); err == nil {
		t.Error("8 devices: got a price, want an error")
	}
	file, err := pretrained.File("h200")
	if err != nil {
		t.Fatal(err)
	}
	if (Models{}).Check(eight) != nil {
		t.Error("embedded models: got an error, want none")
	}
	model, err := neuroshard.Options{}.CostModel(profile(t, "h200"))
	if err != nil {
		t.Fatal(err)
	}
	if err := (Models{Model: model}).Check(eight); err == nil || !strings.Contains(err.Error(), file.Manifest.ID) {
		t.Errorf("a model of h200: got error %v, want one that names it", err)
	}
	// A placement that leaves tables out, or is too large, has no price.
	for name, engine := range map[string]Engine{"models": Models{}, "prototype": prototype} {
		task := suite(t, "d4_m16", 4, 1)[0]
		all := make([][]problem.Shard, 4)
		if _, err := engine.Score(&task.Problem, all); err == nil {
			t.Errorf("%s: an empty plan: got a price, want an error", name)
		}
		for i := range task.Problem.Tables {
			all[0] = append(all[0], task.Problem.Whole(i))
		}
		task.Problem.Topology.Memory = 1 << 20
		if _, err := engine.Score(&task.Problem, all); err == nil {
			t.Errorf("%s: all tables on a device of 1 MiB: got a price, want an error", name)
		}
	}
}
