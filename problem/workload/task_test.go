package workload

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func TestPaperSettings(t *testing.T) {
	want := []TaskSpec{
		{"d4_m16", 4, 4 * unit.GiB, 10, 60, 16},
		{"d4_m64", 4, 4 * unit.GiB, 10, 60, 64},
		{"d4_m128", 4, 4 * unit.GiB, 10, 60, 128},
		{"d8_m16", 8, 4 * unit.GiB, 20, 120, 16},
		{"d8_m64", 8, 4 * unit.GiB, 20, 120, 64},
		{"d8_m128", 8, 4 * unit.GiB, 20, 120, 128},
	}
	if got := PaperSettings(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Every drawn task is a valid problem that first-fit decreasing solves, and the
// numbers of tables and dims spread over what they are drawn from.
func TestDrawnTasks(t *testing.T) {
	const tasks = 60
	pool := Pool(1)
	profile := oneDevice(t).Profile
	for _, spec := range PaperSettings() {
		dims := map[int]int{}
		fewest, most, sum, drawn := math.MaxInt, 0, 0, 0
		for i := range tasks {
			task := must.Get(Draw(pool, spec, 1, i))(t)
			p := task.Problem(profile)
			if err := p.Validate(); err != nil {
				t.Fatalf("task %s: got an invalid problem, want a valid one: %v", task.Name, err)
			}
			if p.Batch != 65536 || p.Accounting != problem.CountWeights || p.Topology.Hosts() != 1 || p.ShardBudget(0)[problem.ForwardExchange] != 4*unit.GiB {
				t.Errorf("task %s: got batch %d, accounting %v, %d hosts, budget %v, want 65536, weights, 1, 4 GiB",
					task.Name, p.Batch, p.Accounting, p.Topology.Hosts(), p.ShardBudget(0))
			}
			if _, err := firstFit(&p); err != nil {
				t.Errorf("task %s: %v", task.Name, err)
			}
			n := len(task.Tables)
			fewest, most, sum = min(fewest, n), max(most, n), sum+n
			for k := range task.Tables {
				dims[task.Tables[k].Dim]++
				drawn++
			}
		}
		if fewest < spec.MinTables || most >= spec.MaxTables {
			t.Errorf("%s: got %d to %d tables, want %d <= T < %d", spec.Name, fewest, most, spec.MinTables, spec.MaxTables)
		}
		middle := float64(spec.MinTables+spec.MaxTables-1) / 2
		if mean := float64(sum) / tasks; math.Abs(mean/middle-1) > 0.2 {
			t.Errorf("%s: got %v tables on average, want about %v", spec.Name, mean, middle)
		}
		choices := dimChoices(spec.MaxDim)
		if len(dims) != choices {
			t.Errorf("%s: got dims %v, want %d of them", spec.Name, dims, choices)
		}
		for dim, n := range dims {
			// Redraws favour narrow tables: the shares are uniform only roughly.
			if share := float64(n) / float64(drawn) * float64(choices); dim < 4 || dim > spec.MaxDim || share < 0.6 || share > 1.5 {
				t.Errorf("%s: got dim %d %.2f times as often as uniform, want about once", spec.Name, dim, share)
			}
		}
	}
}

func TestDrawKeepsThePoolsTables(t *testing.T) {
	pool := Pool(2)
	task := must.Get(Draw(pool, PaperSettings()[1], 5, 3))(t)
	byName := map[string]problem.Table{}
	for _, table := range pool {
		byName[table.Name] = table
	}
	seen := map[string]bool{}
	for _, got := range task.Tables {
		base, _, _ := strings.Cut(got.Name, "#")
		want, ok := byName[base]
		if !ok || seen[got.Name] {
			t.Fatalf("got table name %q, want a unique one that starts with a pool table's", got.Name)
		}
		seen[got.Name] = true
		if got.Rows != want.Rows || got.Access != want.Access || got.PoolingFactor() != want.PoolingFactor() {
			t.Errorf("table %s: got rows, accesses or pooling factor of another table, want those of %s", got.Name, base)
		}
		if got.Features[0].Name == want.Features[0].Name {
			t.Errorf("table %s: got feature name %q, want it renamed", got.Name, got.Features[0].Name)
		}
	}
	if !reflect.DeepEqual(pool, Pool(2)) {
		t.Error("got a changed pool after a draw, want it as it was")
	}
}

func TestDrawIsAFunctionOfItsArguments(t *testing.T) {
	pool := Pool(1)
	spec := PaperSettings()[0]
	first := draws(t, pool, spec, 1, 0)
	if again := draws(t, pool, spec, 1, 0); !reflect.DeepEqual(first, again) {
		t.Error("got two different tasks from equal arguments, want one")
	}
	for _, other := range []Task{draws(t, pool, spec, 1, 1), draws(t, pool, spec, 2, 0)} {
		if reflect.DeepEqual(first.Tables, other.Tables) {
			t.Error("got the same tables from another seed or index, want others")
		}
	}
}

func draws(t *testing.T, pool []problem.Table, spec TaskSpec, seed uint64, index int) Task {
	t.Helper()
	return must.Get(Draw(pool, spec, seed, index))(t)
}

func TestDrawErrors(t *testing.T) {
	pool := Pool(1)
	good := PaperSettings()[0]
	change := func(f func(*TaskSpec)) TaskSpec { s := good; f(&s); return s }
	for _, c := range []struct {
		name string
		pool []problem.Table
		spec TaskSpec
		want []string
	}{
		{"no pool", nil, good, []string{"the pool has no tables"}},
		{"all at once", pool, TaskSpec{}, []string{"devices: 0", "memory: 0", "tables: [0, 0)", "max dim: 0"}},
		{"empty range", pool, change(func(s *TaskSpec) { s.MaxTables = s.MinTables }), []string{"tables: [10, 10)"}},
		{"narrow", pool, change(func(s *TaskSpec) { s.MaxDim = 2 }), []string{"max dim: 2"}},
		{"no room", pool[:1], change(func(s *TaskSpec) { s.Memory = unit.MiB }), []string{"none of 100000 draws", "more memory"}},
	} {
		_, err := Draw(c.pool, c.spec, 1, 0)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %v, want one with %q", c.name, err, want)
			}
		}
	}
}

// A spec of any dim limit and devices works, not only the paper's.
func TestDrawOtherSpecs(t *testing.T) {
	spec := TaskSpec{Name: "one", Devices: 1, Memory: 8 * unit.GiB, MinTables: 1, MaxTables: 2, MaxDim: 7}
	task := draws(t, Pool(1), spec, 1, 0)
	if len(task.Tables) != 1 || task.Tables[0].Dim != 4 {
		t.Errorf("got %d tables, the first %d wide, want 1 of 4", len(task.Tables), task.Tables[0].Dim)
	}
	plain := []problem.Table{{Name: "a", Rows: 100, Dim: 8, Features: []problem.Feature{{PoolingFactor: 2}}, Access: access.Distribution{Kind: access.Uniform}}}
	if task := draws(t, plain, spec, 1, 0); task.Batch != 65536 {
		t.Errorf("got batch %d from a pool without histograms, want 65536", task.Batch)
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct{ tables, devices int }{{1000, 128}, {10_000, 1024}} {
		p, err := Scale(c.tables, c.devices, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Tables) != c.tables || p.Topology.Devices != c.devices || p.Topology.PerHost() != 8 {
			t.Errorf("got %d tables on %d devices, want %d on %d", len(p.Tables), p.Topology.Devices, c.tables, c.devices)
		}
		used, err := firstFit(&p)
		if err != nil {
			t.Errorf("%d x %d: %v", c.tables, c.devices, err)
		}
		share := float64(used) / float64(p.ShardBudget(0)[problem.ForwardExchange]) / float64(c.devices)
		t.Logf("%d x %d: %v, %.1f %% of the budget", c.tables, c.devices, used, 100*share)
		if share < 0.02 || share > 0.2 {
			t.Errorf("%d x %d: got %.3f of the memory filled, want 0.02 to 0.2", c.tables, c.devices, share)
		}
	}
}

func TestScaleErrors(t *testing.T) {
	for _, c := range []struct {
		tables, devices int
		want            string
	}{
		{0, 8, "0 tables"}, {-1, 8, "0 tables"}, {10, 0, "devices: 0"}, {10, hardware.MaxDevices + 1, "devices: 65537"},
	} {
		if _, err := Scale(c.tables, c.devices, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Scale(%d, %d): got error %v, want one with %q", c.tables, c.devices, err, c.want)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	pool := Pool(1)
	specs := PaperSettings()
	for i := 0; b.Loop(); i++ {
		must.Get(Draw(pool, specs[i%len(specs)], 1, i))(b)
	}
}
