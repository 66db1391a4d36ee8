package bench

import (
	"context"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// ownSettings are the numbers of tables of a setting's tasks.
var ownSettings = map[string][2]int{"d4_t24": {12, 24}, "d4_t40": {25, 40}}

// Without a stated domain tasks are the small machine's, at its largest batch.
func TestOwnTasks(t *testing.T) {
	hw := profile(t, "a100-80")
	domain := design.CPU()
	tasks, err := OwnTasks(hw, modelfile.Domain{}, 4, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) != 40 || tasks[0].Name != "d4_t24/0" || tasks[39].Name != "d4_t40/19" {
		t.Fatalf("got %d tasks, %q to %q, want 40, d4_t24/0 to d4_t40/19", len(tasks), tasks[0].Name, tasks[len(tasks)-1].Name)
	}
	dims, optimizers := map[int]bool{}, map[problem.Optimizer]bool{}
	for _, task := range tasks {
		p := &task.Problem
		if err := p.Validate(); err != nil {
			t.Errorf("task %s: %v", task.Name, err)
		}
		if n, want := len(p.Tables), ownSettings[task.Setting]; n < want[0] || n > want[1] {
			t.Errorf("task %s: got %d tables, want %d to %d", task.Name, n, want[0], want[1])
		}
		if p.Topology.Profile != hw || p.Topology.Devices != 4 || p.Topology.Memory != domain.MaxBytes || p.Batch != 4096 {
			t.Errorf("task %s: got %+v, batch %d, want 4 devices of the profile with %v, batch 4096", task.Name, p.Topology, p.Batch, domain.MaxBytes)
		}
		for i := range p.Tables {
			dims[p.Tables[i].Dim], optimizers[p.Tables[i].Optimizer] = true, true
		}
		// A step must be long, but no device may have more than was measured.
		if got := looks(p); got > 2*domain.MaxLookupBytes || got < domain.MaxLookupBytes/2 {
			t.Errorf("task %s: looks up %.0f MB, want between 40 and 160", task.Name, got/1e6)
		}
	}
	if len(dims) != 4 || !dims[16] || !dims[128] || len(optimizers) != 2 {
		t.Errorf("got dims %v and optimizers %v, want 16, 32, 64 and 128, and both", dims, optimizers)
	}
	again, err := OwnTasks(hw, modelfile.Domain{}, 4, 20, 1)
	if err != nil || !reflect.DeepEqual(tasks, again) {
		t.Errorf("same seed: got other tasks, error %v", err)
	}
	fewer, err := OwnTasks(hw, modelfile.Domain{}, 4, 1, 1)
	if err != nil || !reflect.DeepEqual(fewer, []Task{tasks[0], tasks[20]}) {
		t.Errorf("1 of each: got other tasks than the first of 20, error %v", err)
	}
	other, err := OwnTasks(hw, modelfile.Domain{}, 4, 20, 2)
	if err != nil || reflect.DeepEqual(tasks[0].Problem, other[0].Problem) {
		t.Errorf("another seed: got the same task, error %v", err)
	}
	// They are not over the tables that a design of the same seed is drawn over.
	set, err := domain.Compute(1, 40, 10)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for i := range set.Tables {
		for j := range tasks[20].Problem.Tables {
			a, b := &set.Tables[i], &tasks[20].Problem.Tables[j]
			if a.Rows == b.Rows && a.PoolingFactor() == b.PoolingFactor() {
				same++
			}
		}
	}
	if same > 3 { // small tables that are read once may be alike by chance
		t.Errorf("%d tables of the design are among the %d of a task", same, len(tasks[20].Problem.Tables))
	}
}

// looks returns the bytes that a batch looks up.
func looks(p *problem.Problem) float64 {
	sum := 0.0
	for i := range p.Tables {
		sum += p.Tables[i].PoolingFactor() * float64(p.Batch) * float64(p.Tables[i].Dim) * 4
	}
	return sum
}

// Tasks stay within what a model has seen. In a batch of a few samples some tables
// are not looked up once, so there are no such batches.
func TestOwnTasksStayWithinTheModel(t *testing.T) {
	hw := profile(t, "a100-80")
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
		tasks, err := OwnTasks(hw, seen, devices, 1, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		room := float64(devices) * design.CPU().MaxLookupBytes / 2 * math.Max(1, float64(seen.MaxBatch)/4096)
		for _, task := range tasks {
			p := &task.Problem
			if err := p.Validate(); err != nil {
				t.Errorf("task %s: %v", task.Name, err)
			}
			if p.Batch < seen.MinBatch || p.Batch > seen.MaxBatch || len(p.Tables) == 0 {
				t.Errorf("task %s: got %d tables and batch %d, want %d to %d", task.Name, len(p.Tables), p.Batch, seen.MinBatch, seen.MaxBatch)
			}
			if got := looks(p); got > room*(1+1e-9) && len(p.Tables) > 1 {
				t.Errorf("task %s: looks up %v bytes, want at most %v", task.Name, got, room)
			}
			for i := range p.Tables {
				b := &p.Tables[i]
				if b.Dim > seen.MaxDim || b.Rows > seen.MaxRows || b.PoolingFactor() > seen.MaxPoolingFactor*(1+1e-9) {
					t.Errorf("task %s: table %+v is beyond what was seen, %+v", task.Name, b, seen)
				}
				if bits.OnesCount(uint(b.Dim)) != 1 && b.Dim != seen.MaxDim {
					t.Errorf("task %s: got dim %d, want a power of two or the largest", task.Name, b.Dim)
				}
				if len(seen.Optimizers) > 0 && !slices.Contains(seen.Optimizers, b.Optimizer.String()) {
					t.Errorf("task %s: got optimizer %v, want one of %q", task.Name, b.Optimizer, seen.Optimizers)
				}
				known := slices.DeleteFunc(slices.Clone(seen.Precisions), func(s string) bool { return s == "int4" })
				if len(known) > 0 && !slices.Contains(known, b.Precision.String()) {
					t.Errorf("task %s: got precision %v, want one of %q", task.Name, b.Precision, known)
				}
			}
		}
	})
}

func TestOwnTasksErrors(t *testing.T) {
	tasks, err := OwnTasks(profile(t, "a100-80"), modelfile.Domain{}, 0, 1, 1)
	if err == nil || len(tasks) > 0 {
		t.Errorf("no devices: got %d tasks and error %v, want an error", len(tasks), err)
	}
}

// There is a plan for each, and memory does not decide all: methods differ.
func TestOwnTasksCanBePlanned(t *testing.T) {
	tasks, err := OwnTasks(profile(t, "a100-80"), modelfile.Domain{}, 4, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	records, err := Run(context.Background(), tasks, Options{Methods: []search.Method{search.Size, search.Dim, search.Lookup}})
	if err != nil {
		t.Fatal(err)
	}
	most := map[string]float64{}
	least := map[string]float64{}
	for _, r := range records {
		if !r.Valid {
			t.Errorf("task %s: %s found no plan", r.Task, r.Method)
			continue
		}
		for _, d := range r.Devices {
			if unit.Bytes(d.Bytes) > design.CPU().MaxBytes {
				t.Errorf("task %s by %s: a device holds %v", r.Task, r.Method, unit.Bytes(d.Bytes))
			}
		}
		most[r.Task] = max(most[r.Task], *r.CostMS)
		if l, ok := least[r.Task]; !ok || *r.CostMS < l {
			least[r.Task] = *r.CostMS
		}
	}
	for task := range most {
		if !(most[task] > 1.02*least[task]) {
			t.Errorf("task %s: got costs of %v to %v ms, want some that differ", task, least[task], most[task])
		}
	}
}

func TestTransferTasks(t *testing.T) {
	tasks, err := TransferTasks(profile(t, "a100-80"), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name            string
		devices, tables int
	}{{"d4_t50/0", 4, 50}, {"d8_t100/0", 8, 100}, {"d16_t200/0", 16, 200}} {
		p := &tasks[i].Problem
		if tasks[i].Name != want.name || p.Topology.Devices != want.devices || len(p.Tables) != want.tables {
			t.Errorf("got %s: %d tables on %d devices, want %+v", tasks[i].Name, len(p.Tables), p.Topology.Devices, want)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", tasks[i].Name, err)
		}
	}
}
