package neuroshard_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// mixedLanes draws 5 to 20 tables of all lane classes for one or two devices.
func mixedLanes(t *testing.T, seed uint64) *problem.Problem {
	random := rand.New(rand.NewPCG(seed, 30))
	one := func(of ...int) int { return of[random.IntN(len(of))] }
	profile := profileNamed(t, []string{"h200", "a100-80"}[random.IntN(2)])
	p := &problem.Problem{Batch: 32768, Topology: hardware.Topology{Profile: profile, Devices: 1 + int(seed%2)}}
	for i := range 5 + random.IntN(16) {
		table := problem.Table{Name: fmt.Sprint("t", i), Rows: int64(one(100_000, 1_000_000, 3_000_000))}
		table.Dim = one(4, 8, 16, 32)
		if random.IntN(10) < 3 {
			table.Dim = one(64, 128, 256)
		}
		table.Features = []problem.Feature{{Name: table.Name, PoolingFactor: float64(one(2, 20, 50))}}
		p.Tables = append(p.Tables, table)
	}
	return p
}

// searched returns the predicted cost of the cheapest placement found with some sharding
// types. Stage prefer has no say in it.
func searched(t *testing.T, p *problem.Problem, types []problem.ShardingType) float64 {
	t.Helper()
	prices, err := neuroshard.Pretrained().List(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := search.Run(context.Background(), p, prices.NewScorer, search.Options{ShardingTypes: types, Workers: 1, Brief: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Cost
}

// TestMoreShardingTypesCostNoMore compares the search among all sharding types with searches
// among fewer ones, on one device: there the restricted search is a part of the other one.
func TestMoreShardingTypesCostNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	moreShardingTypes(t, 4, 2, 0, .001)
}

// TestMoreShardingTypesCostNoMoreOnSeveralDevices compares the search among all sharding types with
// one among slices of columns, on several devices.
func TestMoreShardingTypesCostNoMoreOnSeveralDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	moreShardingTypesOnSeveralDevices(t, 19, 29)
}

func moreShardingTypesOnSeveralDevices(t *testing.T, seeds ...uint64) {
	for _, seed := range seeds {
		p := mixedLanes(t, seed)
		p.Topology.Devices = 3 + int(seed%4)
		all := searched(t, p, problem.ShardingTypes())
		if columns := searched(t, p, []problem.ShardingType{problem.TableWise, problem.ColumnWise}); all > columns*1.0002 {
			t.Errorf("seed %d, %d devices: got %.4f ms with all sharding types, want at most .02 %% above %.4f ms, that with slices of columns", seed, p.Topology.Devices, all, columns)
		}
	}
}

// TestFewTablesCostNoMoreWithMoreShardingTypes plans few tables whose cheapest plan replicates all of them.
// From slices of columns, no change of one table leads there. The 14 tables are replicated at less cost
// only with numbers of operators.
func TestFewTablesCostNoMoreWithMoreShardingTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it makes several searches")
	}
	for name, c := range map[string]struct {
		rows, dims []int64
		pooling    []float64
		devices    int
	}{
		"one table":  {rows: []int64{100_000}, dims: []int64{16}, pooling: []float64{10}, devices: 4},
		"two tables": {rows: []int64{1_000, 50_000}, dims: []int64{4, 64}, pooling: []float64{1, 20}, devices: 3},
		"14 tables": {
			rows:    []int64{98, 195, 170, 361, 93, 44_534, 199, 202, 33_450, 496, 1_323, 765, 63_403, 5_098},
			dims:    []int64{32, 32, 16, 16, 64, 8, 16, 128, 32, 4, 128, 64, 64, 16},
			pooling: []float64{4.7, 18.0, 8.3, 62.9, 22.4, 2.2, 14.2, 60.7, 2.7, 4.8, 6.5, 11.3, 26.1, 9.0},
			devices: 8,
		},
	} {
		p := &problem.Problem{
			Batch:    65536,
			Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: c.devices, Memory: 80 * unit.GiB},
		}
		for i, rows := range c.rows {
			table := fmt.Sprintf("t%d", i)
			p.Tables = append(p.Tables, problem.Table{
				Name: table, Rows: rows, Dim: int(c.dims[i]), Precision: problem.FP32, Optimizer: problem.SGD,
				Features: []problem.Feature{{Name: table, PoolingFactor: c.pooling[i]}}, Access: access.Distribution{Kind: access.Uniform},
			})
		}
		all := searched(t, p, problem.ShardingTypes())
		for _, types := range [][]problem.ShardingType{{problem.DataParallel}, {problem.DataParallel, problem.TableWise}, {problem.TableWise, problem.ColumnWise}} {
			if fewer := searched(t, p, types); all > fewer*1.005 {
				t.Errorf("%s: got %.4f ms with all sharding types, want at most .5 %% above %.4f ms, that with %v", name, all, fewer, types)
			}
		}
	}
}

// TestFewTablesUseAllDevicesByRows plans two tables for HugeCTR, which needs a part of a table on every device.
// Slices of columns use four devices only if they are narrow; blocks of rows take half of the time.
func TestFewTablesUseAllDevicesByRows(t *testing.T) {
	p := &problem.Problem{
		Batch: 8192, Engine: problem.HugeCTR,
		Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: 4, DevicesPerHost: 2},
		Tables: []problem.Table{
			{Name: "t0", Rows: 42_876, Dim: 4, Features: []problem.Feature{{Name: "t0", PoolingFactor: 5}}},
			{Name: "t1", Rows: 16_753, Dim: 8, Features: []problem.Feature{{Name: "t1", PoolingFactor: .5}}},
		},
	}
	for i := range p.Tables {
		p.Tables[i].Precision, p.Tables[i].Optimizer = problem.FP32, problem.SGD
		p.Tables[i].Access = access.Distribution{Kind: access.Zipf, Exponent: 1.05}
	}
	rows, all := searched(t, p, []problem.ShardingType{problem.RowWise}), searched(t, p, problem.ShardingTypes())
	if all > rows*1.005 {
		t.Errorf("got %.4f ms with all sharding types, want at most .5 %% above %.4f ms, that by rows", all, rows)
	}
}

// TestRowsAndHostMemory compares the search among all sharding types with one among slices of columns where
// tables do not fit in HBM. t7 fits by rows, or in slices of columns in host memory; the second placement
// costs 5 % less.
func TestRowsAndHostMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it makes two long searches")
	}
	const small, large = 1975 << 20, 3950 << 20
	p := &problem.Problem{
		Batch: 32768,
		Tables: []problem.Table{
			{
				Name: "t4", Rows: 37, Dim: 32, Pooling: problem.PoolingNone, Precision: problem.FP32,
				Features: []problem.Feature{{Name: "t4", PoolingFactor: 132.41}}, Access: access.Distribution{Kind: access.Uniform},
				Constraint: problem.Constraint{Devices: []int{0, 1, 2, 3, 4, 5, 6, 7}},
			},
			{
				Name: "t6", Rows: 14030, Dim: 400, Precision: problem.FP32, Optimizer: problem.Adagrad,
				Features: []problem.Feature{{Name: "t6", PoolingFactor: 1.68}}, Access: access.Distribution{Kind: access.Zipf, Exponent: .7},
				Constraint: problem.Constraint{Devices: []int{3, 5, 7}, NoSplit: true},
			},
			{
				Name: "t7", Rows: 22185116, Dim: 64, Precision: problem.FP32, Optimizer: problem.Adagrad,
				Features: []problem.Feature{{Name: "t7", PoolingFactor: 7.23}}, Access: access.Distribution{Kind: access.Zipf, Exponent: .7},
				Constraint: problem.Constraint{OneHost: true},
			},
		},
		Topology: hardware.Topology{
			Profile: profileNamed(t, "h100-80"), Devices: 8, DevicesPerHost: 4, HostMemory: 16 << 30, ReserveShare: .05,
			DeviceMemories: []unit.Bytes{large, large, small, small, small, small, large, small},
		},
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	p.Topology.ReserveFixed = p.BackwardRoom()
	all := searched(t, p, problem.ShardingTypes())
	if columns := searched(t, p, []problem.ShardingType{problem.TableWise, problem.ColumnWise}); all > columns*1.001 {
		t.Errorf("got %.4f ms with all sharding types, want at most .1 %% above %.4f ms, that with slices of columns", all, columns)
	}
}

// TestMoreShardingTypesCostNoMoreWithHostMemory compares the search among all sharding types with one among
// slices of columns, where HBM has room for 40 to 115 % of the tables' bytes and hosts have much memory.
func TestMoreShardingTypesCostNoMoreWithHostMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	for _, seed := range []uint64{63, 80} {
		p := hostedTables(t, seed)
		all := searched(t, p, problem.ShardingTypes())
		if columns := searched(t, p, []problem.ShardingType{problem.TableWise, problem.ColumnWise}); all > columns {
			t.Errorf("seed %d, %d devices: got %.4f ms with all sharding types, want at most %.4f ms, that with slices of columns", seed, p.Topology.Devices, all, columns)
		}
	}
}

// hostedTables draws 3 to 10 tables for 2 to 8 devices whose HBM takes 40 to 115 % of the tables' bytes.
func hostedTables(t *testing.T, seed uint64) *problem.Problem {
	random := rand.New(rand.NewPCG(seed, 31))
	p := &problem.Problem{
		Batch: []int{4096, 65536}[random.IntN(2)],
		Topology: hardware.Topology{
			Profile: profileNamed(t, "a100-80"), Devices: 2 + random.IntN(7), HostMemory: 1 << 40, ReserveShare: hardware.NoReserve,
		},
	}
	for i := range 3 + random.IntN(8) {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("t", i), Rows: int64(math.Exp(5 + 12*random.Float64())), Dim: 16 << random.IntN(4),
			Features: []problem.Feature{{Name: fmt.Sprint("f", i), PoolingFactor: math.Exp(4 * random.Float64())}},
		})
	}
	bytes := unit.Bytes(0)
	for i := range p.Tables {
		bytes += p.ShardMemory(p.Whole(i)).Total()
	}
	share := .4 + .75*random.Float64()
	p.Topology.Memory = p.DeviceMemory(0).Total() + unit.Bytes(share*float64(bytes)/float64(p.Topology.Devices))
	return p
}

// moreShardingTypes plans problems drawn with every step-th seed. At most some of them may
// cost more than .1 % above the cheapest restricted plan, and none more than most above it.
func moreShardingTypes(t *testing.T, problems, step, some int, most float64) {
	above := 0
	for i := range problems {
		seed := uint64(i * step)
		p := mixedLanes(t, seed)
		all := searched(t, p, problem.ShardingTypes())
		for _, types := range [][]problem.ShardingType{{problem.TableWise}, {problem.TableWise, problem.ColumnWise}} {
			over := all/searched(t, p, types) - 1
			if over > most {
				t.Errorf("seed %d, %d devices: got %.4f ms with all sharding types, %.2f %% above %v; want at most %.1f %%", seed, p.Topology.Devices, all, 100*over, types, 100*most)
			}
			if over > .001 {
				above++
				t.Logf("seed %d, %d devices: %.4f ms, %.2f %% above %v", seed, p.Topology.Devices, all, 100*over, types)
			}
		}
	}
	if above > some {
		t.Errorf("got %d plans that cost more than .1 %% above a restricted plan, want at most %d", above, some)
	}
}

// TestProgressAmongAllShardingTypes wants evaluations that only grow and a best cost that only falls,
// and work within a budget of evaluations.
func TestProgressAmongAllShardingTypes(t *testing.T) {
	for _, most := range []int64{0, 50_000, 200_000} {
		p := mixedLanes(t, 1)
		p.Topology.Devices = 4
		prices, err := neuroshard.Pretrained().List(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var last search.Event
		last.Best = math.Inf(1)
		options := search.Options{ShardingTypes: problem.ShardingTypes(), Workers: 1, Brief: true, MaxEvaluations: most}
		options.OnEvent = func(e search.Event) {
			if e.Evaluations < last.Evaluations || e.Best > last.Best {
				t.Errorf("most %d: got %d evaluations and %v ms after %d and %v", most, e.Evaluations, e.Best, last.Evaluations, last.Best)
			}
			last = e
		}
		r, err := search.Run(context.Background(), p, prices.NewScorer, options)
		if err != nil {
			t.Fatal(err)
		}
		if limit := most + 2_000; most > 0 && r.Stats.Evaluations > limit { // a step that has begun is completed
			t.Errorf("got %d evaluations, want at most %d", r.Stats.Evaluations, limit)
		}
	}
}
