package design_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

func ExampleExperiment_Draw() {
	design := design.Experiment{Domain: design.CPU(), Samples: 1000, CommSamples: 100, Tasks: 40, Seed: 1}
	set, err := design.Draw(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d groups over %d tables and %d all-to-alls to measure\n", len(set.Compute.Samples), len(set.Compute.Tables), len(set.Comm.Samples))
	// Output: 1000 groups over 3000 tables and 100 all-to-alls to measure
}

func drawExperiment(t must.T, d design.Experiment) dataset.Dataset {
	set := must.Get(d.Draw(context.Background()))(t)
	return set
}

// lookLike identifies groups by all fields but their numbers.
func lookLike(g *dataset.Group) string {
	return fmt.Sprint(g.Split, g.Operation, g.Members)
}

// checkDesign reports the faults of a design's groups: their number, ids, splits,
// tables, times and bounds.
func checkDesign(t interface{ Errorf(string, ...any) }, d design.Experiment, set *dataset.Compute) {
	if len(set.Samples) != d.Samples {
		t.Errorf("got %d samples, want %d", len(set.Samples), d.Samples)
	}
	for i := range set.Samples {
		g := &set.Samples[i]
		if g.ID != i || g.Split != design.SplitOf(i) || g.Forward != 0 || g.Backward != 0 || g.Quarantined {
			t.Errorf("sample %d: got id %d of split %v, times %v and %v, want split %v and no times", i, g.ID, g.Split, g.Forward, g.Backward, design.SplitOf(i))
		}
		first, end := design.TablesOf(g.Split, len(set.Tables))
		for _, m := range g.Members {
			if int(m.Table) < first || int(m.Table) >= end {
				t.Errorf("sample %d: table %d is not one of its split", i, m.Table)
			}
		}
		if !d.Domain.Allows(set.Tables, g) {
			t.Errorf("sample %d is beyond the domain's bounds", i)
		}
	}
}

// The first nine tenths are the domain's draws. The others are groups of plans of
// all tasks, in the splits of the samples that they replace.
func TestExperiment(t *testing.T) {
	d := design.Experiment{Domain: design.CPU(), Samples: 300, CommSamples: 20, PoolTables: 100, Tasks: 20, Seed: 5}
	set := drawExperiment(t, d)
	checkDesign(t, d, set.Compute)
	if len(set.Compute.Tables) != 100 {
		t.Errorf("got %d tables, want 100", len(set.Compute.Tables))
	}
	plain := must.Get(d.Domain.Compute(d.Seed, 100, 300))(t)
	if !reflect.DeepEqual(set.Compute.Samples[:270], plain.Samples[:270]) || !reflect.DeepEqual(set.Compute.Tables, plain.Tables) {
		t.Error("the first 270 samples or the tables are not as the domain draws them")
	}
	kept := map[string]bool{}
	for i := range plain.Samples {
		kept[lookLike(&plain.Samples[i])] = true
	}
	for i := 270; i < 300; i++ {
		if g := &set.Compute.Samples[i]; kept[lookLike(g)] {
			t.Errorf("sample %d is not a group of a plan", i)
		}
	}
	comm := must.Get(d.Domain.Comm(d.Seed, 20))(t)
	if !reflect.DeepEqual(set.Comm, comm) {
		t.Error("the all-to-alls are not as the domain draws them")
	}

	if again := drawExperiment(t, d); !reflect.DeepEqual(again, set) {
		t.Error("the same design gave another dataset")
	}
	other := d
	other.Seed++
	if again := drawExperiment(t, other); reflect.DeepEqual(again.Compute.Samples, set.Compute.Samples) || reflect.DeepEqual(again.Comm.Samples, set.Comm.Samples) {
		t.Error("another seed gave the same samples")
	}
	// The hardware does not change the plans of greedy methods.
	other = d
	other.Hardware = must.Get(hardware.ByName("h100-80"))(t)
	if again := drawExperiment(t, other); !reflect.DeepEqual(again.Compute.Tables, set.Compute.Tables) {
		t.Error("another device gave other tables")
	}
}

// All asked samples are in the dataset, numbered from 0.
func TestExperimentSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := design.Experiment{
			Domain: design.CPU(), Samples: rapid.IntRange(0, 60).Draw(t, "samples"), CommSamples: rapid.IntRange(0, 20).Draw(t, "comm samples"),
			PoolTables: rapid.IntRange(10, 40).Draw(t, "tables"), Tasks: rapid.IntRange(0, 3).Draw(t, "tasks"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		d.Domain.MaxLookupBytes = rapid.SampledFrom([]float64{2e6, 80e6}).Draw(t, "max lookup bytes")
		set := drawExperiment(t, d)
		if (set.Compute == nil) != (d.Samples == 0) || (set.Comm == nil) != (d.CommSamples == 0) {
			t.Fatalf("got groups %v, all-to-alls %v, want them where some are asked for", set.Compute != nil, set.Comm != nil)
		}
		if set.Compute != nil {
			checkDesign(t, d, set.Compute)
		}
		if set.Comm != nil {
			if len(set.Comm.Samples) != d.CommSamples {
				t.Errorf("got %d all-to-alls, want %d", len(set.Comm.Samples), d.CommSamples)
			}
			for i := range set.Comm.Samples {
				if set.Comm.Samples[i].ID != i {
					t.Errorf("all-to-all %d: got id %d", i, set.Comm.Samples[i].ID)
				}
			}
		}
	})
}

// Plans under a model are made by the default method, for the model's device.
func TestExperimentWithModel(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems, one after another")
	}
	m := model(t, "h100-80")
	d := design.Experiment{Domain: design.CPU(), Samples: 100, PoolTables: 60, Tasks: 3, Seed: 3, Model: m, Hardware: must.Get(hardware.ByName("a100-80"))(t)}
	set := drawExperiment(t, d)
	checkDesign(t, d, set.Compute)
	d.Model = nil
	if greedy := drawExperiment(t, d); reflect.DeepEqual(greedy.Compute.Samples[90:], set.Compute.Samples[90:]) {
		t.Error("greedy methods made the same plans as the model")
	}
}

// The tables of a domain are the tables that are measured.
func TestExperimentOverGivenTables(t *testing.T) {
	d := design.Experiment{Domain: design.CPU(), Samples: 100, PoolTables: 500, Tasks: 10, Seed: 4}
	for i, table := range workload.Pool(1)[:40] {
		table.Name, table.Rows = fmt.Sprint("given ", i), min(table.Rows, 1e5)
		d.Domain.Tables = append(d.Domain.Tables, table)
	}
	set := drawExperiment(t, d)
	checkDesign(t, d, set.Compute)
	if len(set.Compute.Tables) != 40 {
		t.Fatalf("got %d tables, want the 40 given", len(set.Compute.Tables))
	}
	given := map[string]problem.Table{}
	for _, table := range d.Domain.Tables {
		given[table.Name] = table
	}
	for _, table := range set.Compute.Tables {
		if !reflect.DeepEqual(given[table.Name], table) {
			t.Errorf("got table %+v, want the given %+v", table, given[table.Name])
		}
		delete(given, table.Name)
	}
	plain := must.Get(d.Domain.Compute(d.Seed, 0, 100))(t)
	if !reflect.DeepEqual(plain.Samples[:90], set.Compute.Samples[:90]) || reflect.DeepEqual(plain.Samples[90:], set.Compute.Samples[90:]) {
		t.Error("want 90 samples as the domain draws them, and 10 that are not")
	}
}

func TestExperimentErrors(t *testing.T) {
	good := design.Experiment{Domain: design.CPU(), Samples: 100, CommSamples: 10, PoolTables: 50, Tasks: 10}
	for _, c := range []struct {
		name   string
		change func(*design.Experiment)
		want   string
	}{
		{"few tables", func(d *design.Experiment) { d.PoolTables = 9 }, "9 are too few"},
		{"a batch of 0", func(d *design.Experiment) { d.Domain.Batches = []int{0} }, "batches: 0 is not between"},
		{"one device", func(d *design.Experiment) { d.Samples, d.Domain.Devices = 0, []int{1} }, "devices: 1 is not between"},
		{"a wrong device", func(d *design.Experiment) { d.Hardware = hardware.Profile{Name: "x"} }, "the tasks are not valid"},
	} {
		d := good
		c.change(&d)
		if _, err := d.Draw(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := good.Draw(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got error %v, want %v", err, context.Canceled)
	}
}
