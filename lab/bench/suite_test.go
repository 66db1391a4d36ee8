package bench

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/unit"
)

// TestSuites is the conformance of drawn suites: tasks are valid, have names of their own, follow
// from the seed, and the first of a setting do not depend on the number of tasks.
func TestSuites(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	for name, c := range map[string]struct {
		draw     func(each int, seed uint64) ([]Task, error)
		settings int
	}{
		"paper":    {func(n int, seed uint64) ([]Task, error) { return PaperTasks(hw, n, seed) }, len(workload.PaperSettings())},
		"transfer": {func(n int, seed uint64) ([]Task, error) { return TransferTasks(hw, n, seed) }, 3},
		"stress":   {func(n int, seed uint64) ([]Task, error) { return StressTasks(hw, n, seed) }, len(stressFamilies)},
		"own":      {func(n int, seed uint64) ([]Task, error) { return OwnTasks(hw, modelfile.Domain{}, 4, n, seed) }, 2},
	} {
		draw := func(each int, seed uint64) []Task {
			tasks, err := c.draw(each, seed)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return tasks
		}
		tasks, fewer := draw(3, 1), draw(1, 1)
		if _, err := index(tasks); err != nil || len(tasks) != 3*c.settings {
			t.Errorf("%s: got %d tasks and error %v, want %d of different names", name, len(tasks), err, 3*c.settings)
		}
		for i, task := range tasks {
			if err := task.Problem.Validate(); err != nil || task.Problem.Topology.Profile != hw {
				t.Errorf("%s: task %s on %s: %v", name, task.Name, task.Problem.Topology.Profile.Name, err)
			}
			if i%3 == 0 && !reflect.DeepEqual(task, fewer[i/3]) {
				t.Errorf("%s: the first task of setting %s depends on their number", name, task.Setting)
			}
		}
		if reflect.DeepEqual(fewer, draw(1, 2)) {
			t.Errorf("%s: got the same tasks from two seeds", name)
		}
	}
}

// TestOwnTasksStayWithinTheModel: tables, batch and lookups are those that a model has seen.
func TestOwnTasksStayWithinTheModel(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(6, 16).Draw(t, "log least batch")
		seen := modelfile.Domain{
			MinBatch: 1 << low, MaxBatch: 1 << rapid.IntRange(low, 17).Draw(t, "log largest batch"),
			MaxDim: 4 * rapid.IntRange(1, 64).Draw(t, "max dim / 4"), MaxRows: rapid.Int64Range(1, 1e8).Draw(t, "max rows"),
			MaxPoolingFactor: rapid.Float64Range(1, 400).Draw(t, "max pooling factor"), MaxShards: 40,
			Optimizers: rapid.SliceOfDistinct(rapid.SampledFrom([]string{"sgd", "rowwise_adagrad", "adagrad", "adam"}), rapid.ID[string]).Draw(t, "optimizers"),
			Precisions: rapid.SliceOfDistinct(rapid.SampledFrom([]string{"fp32", "fp16", "bf16", "int4"}), rapid.ID[string]).Draw(t, "precisions"),
		}
		devices := rapid.IntRange(1, 16).Draw(t, "devices")
		tasks := must.Get(OwnTasks(hw, seen, devices, 1, rapid.Uint64().Draw(t, "seed")))(t)
		known := slices.DeleteFunc(slices.Clone(seen.Precisions), func(s string) bool { return s == "int4" })
		room := float64(devices) * design.CPU().MaxLookupBytes / 2 * math.Max(1, float64(seen.MaxBatch)/4096)
		for _, task := range tasks {
			p, looks := &task.Problem, 0.0
			for i := range p.Tables {
				b := &p.Tables[i]
				looks += b.PoolingFactor() * float64(p.Batch) * float64(b.Dim) * 4
				if b.Dim > seen.MaxDim || b.Rows > seen.MaxRows || b.PoolingFactor() > seen.MaxPoolingFactor*(1+1e-9) ||
					len(seen.Optimizers) > 0 && !slices.Contains(seen.Optimizers, b.Optimizer.String()) ||
					len(known) > 0 && !slices.Contains(known, b.Precision.String()) {
					t.Errorf("task %s: table %+v is beyond what was seen, %+v", task.Name, b, seen)
				}
			}
			if p.Batch < seen.MinBatch || p.Batch > seen.MaxBatch || len(p.Tables) < 12 || looks > room*(1+1e-9) {
				t.Errorf("task %s: got %d tables, batch %d and %v bytes of lookups", task.Name, len(p.Tables), p.Batch, looks)
			}
		}
	})
}

// TestStressFamilies: the tasks of a family are as its description says.
func TestStressFamilies(t *testing.T) {
	tasks := must.Get(StressTasks(must.Get(hardware.ByName("a100-80"))(t), 30, 1))(t)
	count := map[string]int{}
	for _, task := range tasks {
		p, setting, n := &task.Problem, task.Setting, len(task.Problem.Tables)
		if setting == "fewer" && n >= p.Topology.Devices || setting == "equal" && n%p.Topology.Devices == 0 {
			t.Errorf("%s: got %d tables on %d devices", task.Name, n, p.Topology.Devices)
		}
		total, room := 0.0, float64(p.ShardBudget(0)[problem.ForwardExchange])*float64(p.Topology.Devices)
		for i := range p.Tables {
			c, bytes := p.Tables[i].Constraint, p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used()
			total += float64(bytes)
			for what, is := range map[string]bool{
				"larger than a device": bytes > p.ShardBudget(0)[problem.ForwardExchange], "in a group": c.Colocation != "", "bound to devices": len(c.Devices) > 0,
				"wide slices": c.MinWidth > problem.ColumnGranule, "split": setting == "packed-whole" && !c.NoSplit,
			} {
				if is {
					count[setting+", "+what]++
				}
			}
		}
		// Slices of a packed table repeat bytes that it takes once when whole.
		if total > .991*room || total < .5*room {
			t.Errorf("%s: the tables take %.1f %% of the memory, want at most 99 and not much less", task.Name, 100*total/room)
		}
	}
	for _, want := range []string{
		"huge, larger than a device", "huge, wide slices", "fewer, larger than a device", "dust, larger than a device",
		"bound, in a group", "bound, bound to devices", "packed-cut, larger than a device", "packed-cut, wide slices",
		"packed-bound, in a group", "packed-bound, bound to devices",
	} {
		if count[want] == 0 {
			t.Errorf("got no tables that are %s, want some", want)
		}
	}
	if count["packed-whole, split"] > 0 {
		t.Error("tables of packed-whole may be split")
	}
}

// TestWorkloadTasks: each published workload is on two different clusters that hold its tables, the
// other as stated: no smaller one of half, once, twice, ... the devices would do.
func TestWorkloadTasks(t *testing.T) {
	tasks, err := WorkloadTasks(workload.Names(), []string{DefaultCluster, OtherCluster})
	if err != nil || len(tasks) != 2*len(workload.Names()) {
		t.Fatalf("got %d tasks and error %v, want two of each workload", len(tasks), err)
	}
	for i, name := range workload.Names() {
		own, other := &tasks[2*i], &tasks[2*i+1]
		if err := other.Problem.Validate(); err != nil || own.Setting != name || other.Setting != name {
			t.Errorf("%s: %v", other.Name, err)
		}
		topology, half := &other.Problem.Topology, own.Problem.Topology.Devices/2
		if topology.Profile.Name == own.Problem.Topology.Profile.Name || topology.PerHost() > devicesPerHost || topology.ReserveShare != own.Problem.Topology.ReserveShare {
			t.Errorf("%s: got %+v beside %+v, want other devices, eight a host, with the same reserve", other.Name, *topology, own.Problem.Topology)
		}
		if got := fullness(&other.Problem); got > fullest || topology.Devices%half != 0 {
			t.Errorf("%s: the tables take %.2f of it, want at most %.2f on a multiple of %d devices", other.Name, got, fullest, half)
		}
		if topology.Devices > half {
			if topology.Devices /= 2; fullness(&other.Problem) <= fullest {
				t.Errorf("%s: half the devices would do", other.Name)
			}
		}
	}
}

// TestWorkloadClusters: clusters by name, each different one once; no other name is trouble.
func TestWorkloadClusters(t *testing.T) {
	tasks := must.Get(WorkloadTasks([]string{"criteo-kaggle", "paper-d4_m64-0"}, []string{"16xh100-80", DefaultCluster, "8xv100-16", OtherCluster}))(t)
	var names []string
	for _, task := range tasks {
		names = append(names, task.Name)
	}
	want := []string{
		"criteo-kaggle/16xh100-80", "criteo-kaggle/8xv100-16", "criteo-kaggle/4xh200",
		"paper-d4_m64-0/16xh100-80", "paper-d4_m64-0/4xa100-80", "paper-d4_m64-0/8xv100-16", "paper-d4_m64-0/2xh200",
	}
	if !slices.Equal(names, want) || tasks[0].Problem.Topology.Hosts() != 2 {
		t.Errorf("got %v, the first on %d hosts, want %v, on 2", names, tasks[0].Problem.Topology.Hosts(), want)
	}
	for _, c := range []struct{ name, cluster, want string }{
		{"none", DefaultCluster, `"none"`},
		{"criteo-kaggle", "8", `want "default"`},
		{"criteo-kaggle", "8x", "is unknown"},
		{"criteo-kaggle", "99999999xh200", "not between"},
		{"criteo-kaggle", "16xrtx2080ti", "network"},
	} {
		if _, err := WorkloadTasks([]string{c.name}, []string{c.cluster}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %q: got error %v, want one with %q", c.name, c.cluster, err, c.want)
		}
	}
	if _, err := WorkloadTasks([]string{"criteo-kaggle"}, nil); err == nil {
		t.Error("no clusters: got no error")
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[0-9]{1,5}x(h200|a100-80|rtx2080ti)`), rapid.String()).Draw(t, "name")
		if tasks, err := WorkloadTasks([]string{"criteo-kaggle"}, []string{name}); err == nil && tasks[0].Problem.Validate() != nil {
			t.Fatalf("got a problem that is not valid")
		}
	})
}

func TestReadTasks(t *testing.T) {
	bins := `"bin_0": 1`
	for i := range 16 {
		bins += fmt.Sprintf(`, "bin_%d": 0`, i+1)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(`[{"row": 1000, "pooling_factor": 2, ` + bins + `}]`))
	_ = z.Close()
	pool, err := ReadPool(prototype.File{Name: "tables.json.gz", Reader: &zipped})
	if err != nil || len(pool) != 1 {
		t.Fatalf("got %d tables and error %v, want one", len(pool), err)
	}
	for _, c := range []struct {
		name    string
		files   map[string]string
		opt     FileOptions
		devices int
		memory  unit.Bytes
		err     string
	}{
		{"defaults", map[string]string{"a/s.txt": "0 16\n"}, FileOptions{}, 4, 4 * unit.GiB, ""},
		{"stated", map[string]string{"s.txt": "0 16\n"}, FileOptions{Devices: 2, Memory: unit.GiB}, 2, unit.GiB, ""},
		{"a table that is not in the pool", map[string]string{"s.txt": "9 16\n"}, FileOptions{}, 0, 0, "s.txt: task 0: "},
		{"two files of one setting", map[string]string{"a/s.txt": "0 16\n", "b/s.txt": "0 16\n"}, FileOptions{}, 0, 0, `both the setting "s"`},
		{"not tasks", map[string]string{"s.txt": "x\n"}, FileOptions{}, 0, 0, "s.txt:1"},
	} {
		var files []prototype.File
		for name, text := range c.files {
			files = append(files, prototype.File{Name: name, Reader: strings.NewReader(text)})
		}
		c.opt.Profile = hardware.Profiles()[0]
		tasks, err := ReadTasks(files, pool, c.opt)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got error %v, want one with %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%s: got %d tasks and error %v, want one", c.name, len(tasks), err)
		}
		p := &tasks[0].Problem
		if tasks[0].Name != "s/0" || p.Topology.Devices != c.devices || p.Topology.Memory != c.memory || p.ShardBudget(0)[problem.ForwardExchange] != c.memory {
			t.Errorf("%s: got %s on %d devices of %v, want s/0 on %d of %v, all of it for tables", c.name, tasks[0].Name, p.Topology.Devices, p.Topology.Memory, c.devices, c.memory)
		}
		if got, want := p.ShardMemory(p.Whole(0))[problem.ForwardExchange].Used(), unit.Bytes(4*1000*16); got != want {
			t.Errorf("%s: table 0 takes %v, want its fp32 weights, %v", c.name, got, want)
		}
	}
}
