package design_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

func profile(t testing.TB, name string) hardware.Profile {
	t.Helper()
	hw, err := hardware.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return hw
}

func model(t testing.TB, name string) *cost.Model {
	t.Helper()
	file, err := pretrained.File(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := cost.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func draw(t interface{ Fatal(...any) }, d design.Domain, seed uint64, samples int) *dataset.Compute {
	set, err := d.Compute(seed, 100, samples)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func ExampleAddPlanned() {
	domain := design.CPU()
	set, err := domain.Compute(1, 100, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	hw, err := hardware.ByName("a100-80")
	if err != nil {
		fmt.Println(err)
		return
	}
	// Without a model, the baselines plan.
	added, err := design.AddPlanned(context.Background(), set, hw, nil, design.TaskOptions{Domain: domain, Tasks: 20, Memory: unit.GiB, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d samples, %d of them the device groups of %d plans\n", len(set.Samples), added.Groups, added.Plans)
	// Output:
	// 1336 samples, 336 of them the device groups of 100 plans
}

// For all options, the old samples stay. The new samples are within the domain,
// over the tables of their split, numbered from the last id on, and the same for
// any number of workers.
func TestAddedGroupsAreInTheDomain(t *testing.T) {
	hw := profile(t, "a100-80")
	large := 0
	rapid.Check(t, func(t *rapid.T) {
		d := design.CPU()
		d.MaxLookupBytes = rapid.SampledFrom([]float64{2e6, 80e6}).Draw(t, "max lookup bytes")
		d.WeightedShare = rapid.SampledFrom([]float64{0, .5}).Draw(t, "weighted share")
		seed := rapid.Uint64().Draw(t, "seed")
		set := draw(t, d, seed, 50)
		before := slices.Clone(set.Samples)
		tables := slices.Clone(set.Tables)
		opt := design.TaskOptions{
			Domain: d, Seed: seed, Memory: unit.GiB, Workers: 1,
			Tasks: rapid.IntRange(1, 12).Draw(t, "tasks"), MinTables: rapid.IntRange(1, 30).Draw(t, "min tables"),
			Neighbours: rapid.IntRange(0, 2).Draw(t, "neighbours"),
			Methods:    rapid.SliceOfNDistinct(rapid.SampledFrom(search.Baselines()), 0, 3, rapid.ID[search.Method]).Draw(t, "methods"),
		}
		opt.MaxTables = opt.MinTables + rapid.IntRange(0, 20).Draw(t, "more tables")
		added, err := design.AddPlanned(context.Background(), set, hw, nil, opt)
		if err != nil {
			t.Fatal(err)
		}
		large += added.TooLarge
		if !reflect.DeepEqual(set.Samples[:50], before) || !reflect.DeepEqual(set.Tables, tables) {
			t.Fatal("the samples or tables that were there changed")
		}
		if len(set.Samples) != 50+added.Groups {
			t.Errorf("got %d samples, want 50 and %d", len(set.Samples), added.Groups)
		}
		methods := len(opt.Methods)
		if methods == 0 {
			methods = len(search.Baselines())
		}
		if added.Tasks != opt.Tasks || added.Plans+added.NoPlan != opt.Tasks*methods {
			t.Errorf("got %+v, want %d tasks with %d methods", added, opt.Tasks, methods)
		}
		for i := 50; i < len(set.Samples); i++ {
			g := &set.Samples[i]
			if g.ID != i || g.Forward != 0 || g.Backward != 0 {
				t.Errorf("sample %d: got id %d, times %v and %v, want no times", i, g.ID, g.Forward, g.Backward)
			}
			if !d.Allows(set.Tables, g) {
				t.Errorf("sample %d: %v and %g bytes looked up are beyond the domain", i, design.GroupBytes(set.Tables, g), design.LookupBytes(set.Tables, g))
			}
			op := g.Operation
			if !slices.Contains(d.Batches, op.Batch) || !slices.Contains(d.Optimizers, op.Optimizer) || op.Precision != problem.FP32 || op.Weighted && d.WeightedShare == 0 {
				t.Errorf("sample %d: got %+v, want an operation of the domain", i, op)
			}
			first, end := design.TablesOf(g.Split, len(set.Tables))
			for _, m := range g.Members {
				if int(m.Table) < first || int(m.Table) >= end || m.Dim < 4 || m.Dim > 128 || m.Dim%4 != 0 {
					t.Errorf("sample %d: got member %+v, want a table of split %d and a dim of 4 to 128", i, m, g.Split)
				}
			}
		}
		again := draw(t, d, seed, 50)
		opt.Workers = 4
		if _, err := design.AddPlanned(context.Background(), again, hw, nil, opt); err != nil || !reflect.DeepEqual(again, set) {
			t.Errorf("4 workers (error %v) add other groups than 1", err)
		}
	})
	if large == 0 && !testing.Short() {
		t.Error("no group was beyond the limits, want some left out")
	}
}

// The groups of one plan hold each of its tables once, whole.
func TestGroupsOfAPlanCoverItsTables(t *testing.T) {
	d := design.Domain{Batches: []int{1024}, Devices: []int{4}, Optimizers: []problem.Optimizer{problem.SGD}, Precisions: []problem.Precision{problem.FP32}, MaxDim: 64, MaxRows: 1e6}
	set := draw(t, d, 3, 0)
	for seed := range uint64(20) {
		set.Samples = nil
		opt := design.TaskOptions{Domain: d, Tasks: 1, MinTables: 30, MaxTables: 30, Seed: seed, Methods: []search.Method{search.Dim}}
		added, err := design.AddPlanned(context.Background(), set, profile(t, "a100-80"), nil, opt)
		if err != nil {
			t.Fatal(err)
		}
		if want := (design.Added{Groups: 4, Plans: 1, Tasks: 1}); added != want {
			t.Fatalf("seed %d: got %+v, want %+v", seed, added, want)
		}
		members, most, least := 0, 0, 1<<30
		for _, g := range set.Samples {
			members += len(g.Members)
			sum := 0
			for _, m := range g.Members {
				sum += int(m.Dim)
			}
			most, least = max(most, sum), min(least, sum)
		}
		if members != 30 {
			t.Errorf("seed %d: got %d shards, want 30 tables whole", seed, members)
		}
		// The method balances dims.
		if most > least+64 {
			t.Errorf("seed %d: got devices of %d to %d columns, want them balanced", seed, least, most)
		}
	}
}

// Under a model the default method plans, and it splits tables.
func TestAddUnderAModel(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems, one after another")
	}
	d := design.CPU()
	d.Devices = []int{4}
	plain, planned := draw(t, d, 5, 100), draw(t, d, 5, 100)
	opt := design.TaskOptions{Domain: d, Tasks: 10, MaxTables: 20, Seed: 2, Memory: 4 * unit.GiB}
	added, err := design.AddPlanned(context.Background(), planned, profile(t, "a100-80"), model(t, "a100-80"), opt)
	if err != nil {
		t.Fatal(err)
	}
	if added.Tasks != 10 || added.Plans != 10 || added.Groups < 20 {
		t.Errorf("got %+v, want 10 plans and most of their 40 groups", added)
	}
	splits := map[dataset.Split]int{}
	for _, g := range planned.Samples[100:] {
		splits[g.Split]++
	}
	if splits[dataset.Validation] == 0 || splits[dataset.Test] == 0 || splits[dataset.Train] < splits[dataset.Validation]+splits[dataset.Test] {
		t.Errorf("got groups by split %v, want most for training and some for each other", splits)
	}
	if _, err := design.AddPlanned(context.Background(), plain, profile(t, "a100-80"), nil, opt); err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(plain, planned) {
		t.Error("the model makes no difference")
	}
	// Without a model, any method can plan.
	opt.Methods = []search.Method{search.NeuroShard}
	opt.Neighbours = 3
	set := draw(t, d, 5, 0)
	near, err := design.AddPlanned(context.Background(), set, profile(t, "a100-80"), nil, opt)
	if err != nil {
		t.Fatal(err)
	}
	if near.Plans != 10 || near.Groups+near.TooLarge < 2*added.Groups {
		t.Errorf("got %+v with 3 neighbours of each plan, want many more groups than %d", near, added.Groups)
	}
}

func TestAddErrors(t *testing.T) {
	d := design.CPU()
	hw := profile(t, "a100-80")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	other, err := hardware.ByName("h100-80")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		ctx   context.Context
		hw    hardware.Profile
		model *cost.Model
		opt   design.TaskOptions
		spoil func(*dataset.Compute)
		want  string
	}{
		{"cancelled", ended, hw, nil, design.TaskOptions{Domain: d}, nil, context.Canceled.Error()},
		{"options", context.Background(), hw, nil, design.TaskOptions{
			Tasks: -1, MinTables: 5, MaxTables: 4, Memory: -1, Neighbours: -1,
			Methods: []search.Method{"magic"}, Domain: design.Domain{MaxDim: 6},
		}, nil, "the tasks are not valid:\nmax dim: 6 is not a multiple of 4 from 4 to 16384\ntasks: -1 is negative\ntables: 5 to 4 is not a range of at least 1\nmemory: -1 bytes are negative\nneighbours: -1 is negative\nmethod \"magic\" is unknown"},
		{"profile", context.Background(), hardware.Profile{}, nil, design.TaskOptions{Domain: d}, nil, "the tasks are not valid:\nname"},
		{"another device's model", context.Background(), other, model(t, "a100-80"), design.TaskOptions{Domain: d}, nil, "h100-80"},
		{"splits", context.Background(), hw, nil, design.TaskOptions{Domain: d}, func(set *dataset.Compute) {
			set.Samples[8].Members[0].Table = 3
		}, "sample 8: table 3 is not among the 80 to 89 of its split"},
		{"few tables", context.Background(), hw, nil, design.TaskOptions{Domain: d}, func(set *dataset.Compute) {
			set.Tables, set.Samples = set.Tables[:5], nil
		}, "5 tables are too few: each split needs one of its own"},
		{"wrong tables", context.Background(), hw, nil, design.TaskOptions{Domain: d}, func(set *dataset.Compute) {
			for i := range set.Tables {
				set.Tables[i].Access.Exponent, set.Tables[i].Access.Kind = -1, 2
			}
		}, "zipf exponent: -1"},
	} {
		set := draw(t, d, 1, 20)
		if c.spoil != nil {
			c.spoil(set)
		}
		before := slices.Clone(set.Samples)
		added, err := design.AddPlanned(c.ctx, set, c.hw, c.model, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
		if c.name == "cancelled" && !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		if !reflect.DeepEqual(set.Samples, before) || added != (design.Added{}) {
			t.Errorf("%s: %+v was added though it failed", c.name, added)
		}
	}
}

// A task without a plan, or without a table that fits, is counted.
func TestNoPlan(t *testing.T) {
	d := design.CPU()
	set := draw(t, d, 1, 0)
	added, err := design.AddPlanned(context.Background(), set, profile(t, "a100-80"), nil, design.TaskOptions{Domain: d, Memory: unit.KiB, Tasks: 3})
	if err != nil {
		t.Fatal(err)
	}
	if want := (design.Added{NoPlan: 3 * len(search.Baselines())}); added != want || len(set.Samples) != 0 {
		t.Errorf("devices of 1 KiB: got %+v, %d samples, want %+v", added, len(set.Samples), want)
	}
	// The weights fit, but not together with the vectors and indices of the batch.
	d.Batches = []int{4096}
	added, err = design.AddPlanned(context.Background(), set, profile(t, "a100-80"), nil, design.TaskOptions{Domain: d, Memory: 200 * unit.KiB, Tasks: 3})
	if err != nil {
		t.Fatal(err)
	}
	if added.Tasks != 3 || added.NoPlan != 3*len(search.Baselines()) || added.Plans != 0 {
		t.Errorf("devices of 200 KiB: got %+v, want 3 tasks without plans", added)
	}
}
