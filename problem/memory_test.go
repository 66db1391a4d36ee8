package problem_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

func ExampleProblem_ShardMemory() {
	p := problem.Problem{
		Tables: []problem.Table{{
			Name: "user_id", Rows: 1_000_000, Dim: 64, Optimizer: problem.RowwiseAdagrad,
			Features: []problem.Feature{{Name: "user_id", PoolingFactor: 1}, {Name: "friends", PoolingFactor: 20}},
		}},
		Batch: 1024, Pipeline: problem.BasePipeline, Topology: hardware.Topology{Devices: 2},
	}
	half := p.Whole(0)
	half.Columns.End = 32
	phase, m := p.ShardMemory(half).Peak()
	fmt.Println("fullest in the", phase.Words())
	fmt.Println("weights  ", int64(m.Weights))   // 1,000,000 rows of 32 columns of 4 bytes
	fmt.Println("optimizer", int64(m.Optimizer)) // 4 bytes a row
	fmt.Println("gradients", int64(m.Gradients)) // 1,024 samples of 2 features of 32 columns of 4 bytes
	fmt.Println("indices  ", int64(m.Indices))   // 21,504 lookups of 8 + 24 bytes, 2,049 offsets of 8
	fmt.Println("together ", m.Total())
	// Output:
	// fullest in the lookups backward
	// weights   128000000
	// optimizer 4000000
	// gradients 262144
	// indices   704520
	// together  127 MiB
}

// Every line by hand, without a pipeline. B = 1000, n = 3.
func TestMemoryByHand(t *testing.T) {
	p := problem.Problem{
		Batch: 1000, Pipeline: problem.BasePipeline,
		Topology: hardware.Topology{Profile: hardware.Profile{Name: "test", Memory: 1 << 30}, Devices: 3, ReserveShare: 0.25, ReserveFixed: 11, Numbers: hardware.Numbers{Activations: 5000}},
		Tables: []problem.Table{
			{Name: "sgd", Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 1.5}}},
			{Name: "row", Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 1.5}}, Optimizer: problem.RowwiseAdagrad},
			{Name: "ada", Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 1.5}}, Optimizer: problem.Adagrad, Precision: problem.FP16},
			{Name: "adam", Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 1.5}}, Optimizer: problem.Adam, Precision: problem.BF16},
			{Name: "weighted", Rows: 7, Dim: 12, Features: []problem.Feature{{PoolingFactor: 0.25}, {PoolingFactor: 0.0001}}, Weighted: true},
			{Name: "unread", Rows: 7, Dim: 4, Features: []problem.Feature{{PoolingFactor: 0}}},
			{Name: "bags", Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 1.5, Bags: 2.25}, {}}},
			{Name: "sequence", Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 1.25}, {PoolingFactor: .0001}}, Pooling: problem.PoolingNone},
		},
	}
	type lines struct {
		static                           problem.Memory
		vectors, lookups, lengths, value unit.Bytes
	}
	for i, of := range []lines{
		{problem.Memory{Weights: 1600}, 1000 * 8 * 4, 1500, 1000, 8}, // B F D * 4, ceil(B L), B F
		{problem.Memory{Weights: 1600, Optimizer: 200}, 1000 * 8 * 4, 1500, 1000, 8},
		{problem.Memory{Weights: 800, Optimizer: 1600}, 1000 * 8 * 4, 1500, 1000, 8},
		{problem.Memory{Weights: 800, Optimizer: 3200}, 1000 * 8 * 4, 1500, 1000, 8},
		{problem.Memory{Weights: 336}, 96000, 251, 2000, 12}, // ceil(1000 * 0.2501) = 251
		{problem.Memory{Weights: 112}, 16000, 0, 1000, 8},
		{problem.Memory{Weights: 1600}, 3250 * 8 * 4, 1500, 3250, 8},
		{problem.Memory{Weights: 1600}, 1251 * 8 * 4, 1251, 2000, 8},
	} {
		name, got := p.Tables[i].Name, p.ShardMemory(p.Whole(i))
		values, offsets := of.value*of.lookups, 8*of.lengths+8
		returned := of.vectors
		if name == "sequence" {
			returned, offsets = 2*returned, 3*8*of.lengths+8
		}
		for f, want := range []problem.Memory{
			problem.ForwardExchange:  of.static.Add(problem.Memory{Outputs: 2 * of.vectors, Indices: values + 8*of.lengths + offsets}),
			problem.DenseForward:     of.static.Add(problem.Memory{Indices: values + offsets}),
			problem.LossBackward:     of.static.Add(problem.Memory{Indices: values + offsets}),
			problem.BackwardExchange: of.static.Add(problem.Memory{Gradients: returned, Indices: values + offsets}),
			problem.LookupsBackward:  of.static.Add(problem.Memory{Gradients: of.vectors, Indices: values + offsets + 24*of.lookups}),
		} {
			if got[f] != want {
				t.Errorf("table %q, %v: got %+v, want %+v", name, problem.Phase(f), got[f], want)
			}
		}
	}
	// Of ceil(1000/3) samples: 501 lookups of each table of 1.5, 84, 0, 418; and the lengths of 4 + 2 + 1 + 2 lists a
	// sample and of ceil(334 * 3.25) bags.
	const raw = 501*5*8 + 84*12 + 418*8 + (334*9+1086)*8
	// 334 * (4 * 8 + 2 * 12 + 4) columns and ceil(334 * 3.25) bags, and ceil(334 * 1.2501) lookups, of 8 columns, * 4 bytes.
	// And two copies of a vector of each feature, 4 * 8 + 2 * 12 + 4 + 2 * 8 columns, because one of them has 2.25 bags.
	const pooled, sequence, copies = (334*60 + 1086*8) * 4, 418 * 8 * 4, 2 * 334 * 76 * 4
	reserve := unit.Bytes(1<<28 + 11)
	want := problem.StepMemory{
		problem.ForwardExchange:  {Inputs: raw, Received: pooled + sequence, Reserve: reserve},
		problem.DenseForward:     {Inputs: raw, Received: pooled + sequence + copies, Activations: 5000, Reserve: reserve},
		problem.LossBackward:     {Received: copies, Gradients: 2*pooled + 2*sequence, Reserve: reserve},
		problem.BackwardExchange: {Gradients: pooled, Reserve: reserve},
		problem.LookupsBackward:  {Reserve: reserve},
	}
	if diff := cmp.Diff(want, p.DeviceMemory(0)); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
	if got, want := p.ShardBudget(0)[problem.ForwardExchange], 1<<30-reserve-raw-pooled-sequence; got != want {
		t.Errorf("got a budget of %d for shards, want %d", got, want)
	}
	// Every device sends gradients of 334 samples of 8 columns to a table on one device, and none of a replica.
	sent := problem.Memory{Gradients: 334 * 8 * 4}
	if got := p.SharedMemory(p.Whole(0)); got != (problem.StepMemory{problem.LossBackward: sent, problem.BackwardExchange: sent}) {
		t.Errorf("got %+v of a whole table on every device", got)
	}
	replica := p.Whole(0)
	if replica.ShardingType = problem.DataParallel; p.SharedMemory(replica) != (problem.StepMemory{}) {
		t.Errorf("got %+v of a replica on every device, want nothing", p.SharedMemory(replica))
	}
}

// TestPipelines: each kind of pipeline and each option holds the batches that phases.go says.
func TestPipelines(t *testing.T) {
	p := problem.Problem{Batch: 100, Topology: hardware.Topology{Devices: 2, ReserveShare: hardware.NoReserve}, Tables: []problem.Table{
		{Name: "t", Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 3}}},
	}}
	const raw, values, lengths = 50 * (3 + 1) * 8, 300 * 8, 100 * 8
	const x, f = values + lengths, lengths + 8
	for pipeline, want := range map[problem.Pipeline][3]problem.Memory{
		"base":        {{Inputs: raw, Indices: x + f}, {Inputs: raw, Indices: values + f}, {Indices: values + f}},
		"":            {{Inputs: 3 * raw, Permuted: 2 * raw, Indices: 2*x + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}},
		"sparse-dist": {{Inputs: 3 * raw, Permuted: 2 * raw, Indices: 2*x + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}},
		"sparse-dist+enqueue_batch_after_forward": {{Inputs: 2 * raw, Permuted: 2 * raw, Indices: 2*x + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}},
		"sparse-dist+free_features_storage_early": {{Inputs: raw, Permuted: 2 * raw, Indices: 2*x + f}, {Inputs: raw, Permuted: raw, Indices: x + values + f}, {Inputs: raw, Permuted: raw, Indices: x + values + f}},
		"sparse-dist+clear_data_dist_inputs":      {{Inputs: 3 * raw, Permuted: raw, Indices: 2*x + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}, {Inputs: 3 * raw, Permuted: raw, Indices: x + values + f}},
		"prefetch":                                {{Inputs: 3 * raw, Permuted: raw, Indices: 2*x + f}, {Inputs: 3 * raw, Permuted: raw, Indices: 2*x + f}, {Inputs: 3 * raw, Indices: x + values + f}},
		"semi-sync":                               {{Inputs: 3 * raw, Permuted: 3 * raw, Indices: 3*x + 2*(values+f)}, {Inputs: 3 * raw, Permuted: 3 * raw, Indices: 3*x + 2*(values+f)}, {Inputs: 3 * raw, Permuted: 3 * raw, Indices: 3*x + 2*(values+f)}},
	} {
		p.Pipeline = pipeline
		all := p.ShardMemory(p.Whole(0)).Add(p.SharedMemory(p.Whole(0))).Add(p.DeviceMemory(0))
		for i, phase := range []problem.Phase{problem.ForwardExchange, problem.DenseForward, problem.LossBackward} {
			if got := (problem.Memory{Inputs: all[phase].Inputs, Permuted: all[phase].Permuted, Indices: all[phase].Indices}); got != want[i] {
				t.Errorf("%q, %v: got %+v, want %+v", pipeline, phase, got, want[i])
			}
		}
	}
}

// TestAllocatorOverhead: the allocator takes its share of the buffers of each shard and each device, rounded up, if
// all bytes count, and of no weights.
func TestAllocatorOverhead(t *testing.T) {
	p := problem.Problem{Batch: 100, Topology: hardware.Topology{Devices: 2, HostMemory: unit.GiB, Profile: hardware.Profile{Memory: unit.GiB}}, Tables: []problem.Table{
		{Name: "t", Rows: 53, Dim: 8, Features: []problem.Feature{{PoolingFactor: 3.3}}, Optimizer: problem.Adam},
		{Name: "s", Rows: 53, Dim: 4, Features: []problem.Feature{{PoolingFactor: 3.3}}, Pooling: problem.PoolingNone},
	}}
	with := p
	with.Topology.AllocatorOverhead = 0.13
	rows, cached := p.Whole(0), p.Whole(0)
	rows.ShardingType, rows.Rows.End = problem.RowWise, 27
	cached.Tier, cached.Cache = problem.HostCached, 0.5
	for _, s := range []problem.Shard{p.Whole(0), p.Whole(1), rows, cached} {
		for i, of := range []func(p *problem.Problem) problem.StepMemory{
			func(p *problem.Problem) problem.StepMemory { return p.ShardMemory(s) },
			func(p *problem.Problem) problem.StepMemory { return p.SharedMemory(s) },
			func(p *problem.Problem) problem.StepMemory { return p.DeviceMemory(1) },
		} {
			want, got := of(&p), of(&with)
			for f := range want {
				buffers := want[f].Used() - want[f].Weights - want[f].Optimizer - want[f].Cache
				want[f].Allocator = (13*buffers + 99) / 100
			}
			if diff := cmp.Diff(want, got); diff != "" || i != 1 && got[problem.ForwardExchange].Allocator == 0 {
				t.Errorf("shard %+v, function %d (-want +got):\n%s", s, i, diff)
			}
			if got[problem.ForwardExchange].Used() != want[problem.ForwardExchange].Used() {
				t.Error("got the allocator's bytes not used")
			}
		}
	}
	for _, a := range []problem.Accounting{problem.CountWeights, problem.CountTorchRec(problem.TorchRecReleases()[0])} {
		p.Accounting, with.Accounting = a, a
		if p.ShardMemory(rows) != with.ShardMemory(rows) || p.SharedMemory(rows) != with.SharedMemory(rows) || p.DeviceMemory(0) != with.DeviceMemory(0) {
			t.Errorf("%v: got other bytes with an overhead", a)
		}
	}
}

// TestVectorsOfSemiSync: the vectors of two batches, by hand. V is 50 samples of 8 columns of 4 bytes, and O twice that.
func TestVectorsOfSemiSync(t *testing.T) {
	features := []problem.Feature{{PoolingFactor: 3}}
	p := problem.Problem{Batch: 100, Pipeline: problem.SemiSyncPipeline, Topology: hardware.Topology{Devices: 2, ReserveShare: hardware.NoReserve}}
	for _, test := range []struct {
		table   problem.Table
		columns int
		want    [problem.Phases - 1]unit.Bytes // in V, without the backward of lookups
	}{
		{problem.Table{Features: features}, 8, [...]unit.Bytes{2*2 + 2, 2*2 + 2, 2 + 5, 2*2 + 4}},
		{problem.Table{Features: features}, 4, [...]unit.Bytes{2*2 + 2, 2*2 + 2, 2 + 6, 2*2 + 5}},
		{problem.Table{Features: features, Pooling: problem.PoolingNone}, 8, [...]unit.Bytes{3 * (2*2 + 3), 3 * (2*2 + 3), 3 * (2 + 5), 3 * (3*2 + 3)}},
	} {
		test.table.Rows, test.table.Dim = 50, 8
		p.Tables = []problem.Table{test.table}
		all := p.DeviceMemory(0)
		for first := 0; first < 8; first += test.columns {
			s := p.Whole(0)
			s.Columns = problem.Range{Start: int64(first), End: int64(first + test.columns)}
			all = all.Add(p.ShardMemory(s)).Add(p.SharedMemory(s))
		}
		for f, want := range test.want {
			if got := all[f].Outputs + all[f].Received + all[f].Gradients; got != want*50*8*4 {
				t.Errorf("%v by %d columns, %v: got %d bytes of vectors, want %d", test.table.Pooling, test.columns, problem.Phase(f), got, want*50*8*4)
			}
		}
	}
}

// TestPropertyOfPipelines: a longer pipeline, more lookups and more skew never count less, in any phase.
func TestPropertyOfPipelines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem.Problem{
			Tables: []problem.Table{drawTable(t)}, Batch: rapid.IntRange(1, 1<<17).Draw(t, "batch"),
			Topology: hardware.Topology{Devices: rapid.IntRange(1, 64).Draw(t, "devices")}, Pipeline: problem.BasePipeline,
		}
		table := &p.Tables[0]
		table.Access = access.Distribution{Kind: access.Zipf, Exponent: rapid.Float64Range(.1, 2).Draw(t, "zipf")}
		shard := p.Whole(0)
		if table.CutsByRows(p.Topology.Devices) && rapid.Bool().Draw(t, "by rows") {
			shard.ShardingType, shard.Rows.End = problem.RowWise, table.BlockRows(p.Topology.Devices)
		}
		bytes := func(p problem.Problem) [problem.Phases]unit.Bytes {
			return p.ShardMemory(shard).Add(p.SharedMemory(shard)).Add(p.DeviceMemory(0)).Used()
		}
		was := bytes(p)
		more := p
		more.Tables = []problem.Table{*table}
		switch what := rapid.SampledFrom([]string{"pipeline", "lookups", "skew"}).Draw(t, "more"); what {
		case "pipeline":
			more.Pipeline = rapid.SampledFrom([]problem.Pipeline{problem.SparseDistPipeline, problem.PrefetchPipeline, problem.SemiSyncPipeline}).Draw(t, "pipeline")
		case "lookups":
			more.Tables[0].Features = append([]problem.Feature{{PoolingFactor: 2 * table.Features[0].PoolingFactor}}, table.Features[1:]...)
		case "skew":
			more.Tables[0].Access.Exponent *= 1.5
		}
		for f, now := range bytes(more) {
			if float64(now) < float64(was[f])*(1-1e-9) {
				t.Fatalf("%v: got %d bytes, and %d with more", problem.Phase(f), was[f], now)
			}
		}
	})
}

// TestMemoryOfSequenceBlock: a block of rows of a sequence has a vector for each of its own
// lookups; a block of another table has one for each bag.
func TestMemoryOfSequenceBlock(t *testing.T) {
	uniform := access.Distribution{Kind: access.Uniform}
	p := problem.Problem{Batch: 1000, Pipeline: problem.BasePipeline, Tables: []problem.Table{
		{Rows: 100, Dim: 8, Features: []problem.Feature{{PoolingFactor: 20}}, Pooling: problem.PoolingNone, Access: uniform},
		{Rows: 100, Dim: 8, Features: []problem.Feature{{PoolingFactor: 20, Bags: 4}}, Access: uniform},
	}}
	for i, vectors := range []unit.Bytes{2600, 4000} {
		lengths, copies := []unit.Bytes{3 * 1000, 4000}[i], []unit.Bytes{2, 1}[i]
		block := p.Whole(i)
		block.Rows.End = 13
		block.ShardingType = problem.RowWise
		all, n := p.ShardMemory(block), unit.Bytes(2600) // 13 of 100 rows
		if m := all[problem.ForwardExchange]; m.Outputs != copies*vectors*8*4 {
			t.Errorf("table %d: got %+v, want %d copies of %d vectors", i, m, copies, vectors)
		}
		if m := all[problem.LookupsBackward]; m.Gradients != vectors*8*4 || m.Indices != n*(8+24)+lengths*8+8 {
			t.Errorf("table %d: got %+v, want %d vectors of %d lookups", i, m, vectors, n)
		}
	}
}

// TestMemoryOfBatchesOfTheirOwn: if a feature of a module has a batch of its own, every device
// gives each of its samples a copy of each vector of the module, and puts the copies in order.
func TestMemoryOfBatchesOfTheirOwn(t *testing.T) {
	one, quarter := []problem.Feature{{PoolingFactor: 3}}, []problem.Feature{{PoolingFactor: 3}, {PoolingFactor: 3, Bags: .25}}
	tables := []problem.Table{
		{Rows: 100, Dim: 8, Module: "own", Features: one},
		{Rows: 100, Dim: 4, Module: "own", Features: quarter},
		{Rows: 100, Dim: 16, Module: "plain", Features: one},
		{Rows: 100, Dim: 32, Module: "own", Features: one, Pooling: problem.PoolingNone},
	}
	for devices, received := range map[int]unit.Bytes{1: 0, 4: 100 * 4 * (8 + 5 + 16 + 96)} {
		p := problem.Problem{Batch: 100 * devices, Tables: tables, Topology: hardware.Topology{Devices: devices}}
		got := p.DeviceMemory(0)
		if got := got[problem.ForwardExchange].Received; got != received {
			t.Errorf("%d devices: got %d bytes received, want %d", devices, got, received)
		}
		if got, want := got[problem.LossBackward].Received, unit.Bytes(2*100*4*(8+2*4)); got != want {
			t.Errorf("%d devices: got copies of %d bytes, want %d", devices, got, want)
		}
	}
}

// TestTooManyBags: Validate refuses tables whose vectors alone could overflow a sum of bytes.
func TestTooManyBags(t *testing.T) {
	var features, sequences []problem.Feature
	for range problem.MaxFeatures {
		features = append(features, problem.Feature{Bags: problem.MaxBags})
		sequences = append(sequences, problem.Feature{PoolingFactor: problem.MaxPoolingFactor})
	}
	for _, table := range []problem.Table{{Features: features}, {Features: sequences, Pooling: problem.PoolingNone}} {
		p := sample()
		p.Batch = problem.MaxBatch
		table.Name, table.Rows, table.Dim = "t", 10, problem.MaxDim
		p.Tables = []problem.Table{table}
		checkFaults(t, table.Pooling.String(), p.Validate(), []string{
			"the tables and their buffers add up to 4.72e+21 bytes: more than the 1.15e+18 that can be planned",
		})
	}
}

// A device whose reserve and received vectors exceed its memory has a negative
// budget: nothing fits, and by how much is known.
func TestShardBudgetMayBeNegative(t *testing.T) {
	p := sample()
	p.Topology.Memory, p.Topology.ReserveShare, p.Topology.ReserveFixed = 100, hardware.NoReserve, 0
	if got, want := p.ShardBudget(0)[problem.ForwardExchange], 100-p.DeviceMemory(0)[problem.ForwardExchange].Used(); got != want || got >= 0 {
		t.Errorf("got a budget of %d bytes, want %d, below 0", got, want)
	}
}

func TestCountWeights(t *testing.T) {
	p := sample()
	p.Accounting = problem.CountWeights
	for i := range p.Tables {
		table := &p.Tables[i]
		// fp32 whatever the table's precision, as the prototype counts.
		want := problem.Memory{Weights: unit.Bytes(table.Rows * int64(table.Dim) * 4)}
		for f, got := range p.ShardMemory(p.Whole(i)) {
			if got != want {
				t.Errorf("table %q, %v: got %+v, want %+v", table.Name, problem.Phase(f), got, want)
			}
		}
	}
	for f, got := range p.DeviceMemory(0) {
		if want := (problem.Memory{Reserve: p.Topology.Reserve(0)}); got != want {
			t.Errorf("device, %v: got %+v, want %+v", problem.Phase(f), got, want)
		}
	}
}

func TestMemorySums(t *testing.T) {
	m := problem.Memory{
		Weights: 1, Optimizer: 20, Outputs: 300, Gradients: 4000, Indices: 50_000, Received: 600_000, Inputs: 7_000_000, Permuted: 80_000_000,
		Cache: 900_000_000, Activations: 1e10, Reserve: 2e10, Host: 2e12,
	}
	if got, want := m.Used(), unit.Bytes(10_987_654_321); got != want {
		t.Errorf("got %d bytes of lines, want %d", got, want)
	}
	if got, want := m.Total(), unit.Bytes(30_987_654_321); got != want {
		t.Errorf("got %d bytes in total, want %d", got, want)
	}
	twice := m.Add(m)
	if twice.Used() != 2*m.Used() || twice.Total() != 2*m.Total() || twice.Host != 2*m.Host {
		t.Errorf("got the sum %+v, want each line twice", twice)
	}
	all := problem.StepMemory{problem.BackwardExchange: m, problem.LookupsBackward: m}
	if phase, peak := all.Peak(); phase != problem.BackwardExchange || peak != m {
		t.Errorf("got the peak %+v in %v, want the first of two equal ones", peak, phase)
	}
}

// TestPools: each pool counts as it is at its fullest, by hand. What sorts lookups, 90, takes the place of gradients.
func TestPools(t *testing.T) {
	all := problem.StepMemory{
		problem.ForwardExchange:  {Weights: 1, Optimizer: 2, Cache: 4, Inputs: 100, Permuted: 2000, Indices: 30_000, Outputs: 4e5, Received: 5e6, Reserve: 1e12},
		problem.DenseForward:     {Weights: 1, Optimizer: 2, Cache: 4, Indices: 10, Received: 5e6, Activations: 6e7, Reserve: 1e12},
		problem.LossBackward:     {Weights: 1, Optimizer: 2, Cache: 4, Indices: 10, Gradients: 7e7, Reserve: 1e12},
		problem.BackwardExchange: {Weights: 1, Optimizer: 2, Cache: 4, Indices: 10, Gradients: 7e7 - 10, Reserve: 1e12},
		problem.LookupsBackward:  {Weights: 1, Optimizer: 2, Cache: 4, Indices: 100, Gradients: 7e7 - 10, Reserve: 1e12},
	}
	if got, want := all.Pools(), unit.Bytes(7+100+2000+30_000+4e5+5e6+7e7-10+90); got != want {
		t.Errorf("got %d bytes of pools, want %d", got, want)
	}
}

// TestVectorsThatAreEncoded: the vectors of an exchange in two bytes a number, by hand, of all shards of a table on one of two
// devices. V is 50 samples of 8 columns of 4 bytes, and O twice that, or, of sequences, six times it and three times V.
func TestVectorsThatAreEncoded(t *testing.T) {
	p := problem.Problem{
		Batch: 100, CommPrecision: problem.BF16, Topology: hardware.Topology{Devices: 2, ReserveShare: hardware.NoReserve},
		Tables: []problem.Table{{Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 3}}}},
	}
	for _, test := range []struct {
		pooling problem.Pooling
		rows    int64
		want    [problem.Phases]float64 // in V
	}{
		{problem.SumPooling, 50, [...]float64{2.5 * 2, 1, 3.5, 1.5 + 1.5*2, 2}},
		{problem.SumPooling, 25, [...]float64{2.5 * 2, 1, 3, 1.5 + 1.5*2, 2}},
		{problem.PoolingNone, 50, [...]float64{3.5 * 6, 3, 2.5 * 3, 2.5 * 6, 6}},
	} {
		p.Tables[0].Pooling = test.pooling
		s := p.Whole(0)
		if s.Rows.End = test.rows; test.rows < 50 {
			s.ShardingType = problem.RowWise
		}
		all := p.DeviceMemory(0).Add(p.ShardMemory(s)).Add(p.SharedMemory(s))
		for f, want := range test.want {
			if got := all[f].Outputs + all[f].Received + all[f].Gradients; got != unit.Bytes(want*50*8*4) {
				t.Errorf("%v, %d rows, %v: got %d bytes of vectors, want %v V", test.pooling, test.rows, problem.Phase(f), got, want)
			}
		}
	}
}

// TestVectorsOfModules: the backward of the loss holds another V of the module with the most, if there are two.
func TestVectorsOfModules(t *testing.T) {
	p := problem.Problem{Batch: 100, Topology: hardware.Topology{Devices: 2, ReserveShare: hardware.NoReserve}}
	for i, module := range []string{"a", "b", "b", "c"} {
		p.Tables = append(p.Tables, problem.Table{Module: module, Rows: 50, Dim: 8, Features: []problem.Feature{{PoolingFactor: 3}}})
		if i == 3 {
			p.Tables[i].Pooling = problem.PoolingNone
		}
		const v = 50 * 8 * 4
		want := []unit.Bytes{2 * v, 4*v + v, 6*v + 2*v, 6*v + 2*v + 6*v}[i]
		if got := p.DeviceMemory(0)[problem.LossBackward].Gradients; got != want {
			t.Errorf("%d tables: got %d bytes, want %d", i+1, got, want)
		}
	}
	p.Topology.Devices = 1
	if got := p.DeviceMemory(0)[problem.LossBackward].Gradients; got != 0 {
		t.Errorf("one device: got %d bytes, want none", got)
	}
}

// inAll returns the sum over all phases.
func inAll(all problem.StepMemory) (sum problem.Memory) {
	for _, m := range all {
		sum = sum.Add(m)
	}
	return sum
}

// Cutting by rows shares out what belongs to rows; each part still pools whole
// vectors, which are sent as they are.
func TestRowCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem.Problem{Tables: []problem.Table{drawTable(t)}, Batch: rapid.IntRange(1, 1<<17).Draw(t, "batch")}
		p.Tables[0].Rows++
		top, bottom := p.Whole(0), p.Whole(0)
		top.Rows.End = rapid.Int64Range(1, p.Tables[0].Rows-1).Draw(t, "cut")
		bottom.Rows.Start = top.Rows.End
		whole, a, b := inAll(p.ShardMemory(p.Whole(0))), inAll(p.ShardMemory(top)), inAll(p.ShardMemory(bottom))
		if a.Weights+b.Weights != whole.Weights || a.Optimizer+b.Optimizer != whole.Optimizer {
			t.Fatalf("weights and optimizer: got %+v and %+v, want them to add up to %+v", a, b, whole)
		}
		if 2*a.Outputs != whole.Outputs || 2*b.Outputs != whole.Outputs {
			t.Fatalf("pooled vectors: got %+v and %+v, want each as large as %+v", a, b, whole)
		}
	})
}

// The largest valid table keeps every line inside an int64, so that Validate
// can refuse the sum.
func TestExtremeTablesDoNotOverflow(t *testing.T) {
	for o := problem.SGD; o <= problem.Adam; o++ {
		features := make([]problem.Feature, problem.MaxFeatures)
		for i := range features {
			features[i].PoolingFactor = problem.MaxPoolingFactor
		}
		p := sample()
		p.Batch = problem.MaxBatch
		p.Tables = []problem.Table{{Name: "huge", Rows: problem.MaxRows, Dim: problem.MaxDim, Features: features, Optimizer: o, Weighted: true}}
		p.Pipeline = problem.BasePipeline
		all := p.ShardMemory(p.Whole(0))
		got := all[problem.LookupsBackward]
		got.Outputs = all[problem.ForwardExchange].Outputs
		lookups := product(problem.MaxBatch, problem.MaxPoolingFactor, problem.MaxFeatures)
		bags := product(problem.MaxBatch, problem.MaxFeatures)
		indices := new(big.Int).Mul(lookups, big.NewInt(8+24+4))
		indices.Add(indices, new(big.Int).Mul(bags, big.NewInt(8)))
		indices.Add(indices, big.NewInt(8))
		state := map[problem.Optimizer]*big.Int{
			problem.SGD:            new(big.Int),
			problem.RowwiseAdagrad: product(problem.MaxRows, 4),
			problem.Adagrad:        product(problem.MaxRows, problem.MaxDim, 4),
			problem.Adam:           product(problem.MaxRows, problem.MaxDim, 8),
		}[o]
		for _, line := range []struct {
			name string
			got  unit.Bytes
			want *big.Int
		}{
			{"weights", got.Weights, product(problem.MaxRows, problem.MaxDim, 4)},
			{"optimizer", got.Optimizer, state},
			{"outputs", got.Outputs, product(problem.MaxBatch, problem.MaxFeatures, problem.MaxDim, 8)},
			{"gradients", got.Gradients, product(problem.MaxBatch, problem.MaxFeatures, problem.MaxDim, 4)},
			{"indices", got.Indices, indices},
		} {
			if big.NewInt(int64(line.got)).Cmp(line.want) != 0 {
				t.Errorf("%v, %s: got %d, want %v", o, line.name, line.got, line.want)
			}
		}
		checkFaults(t, "huge "+o.String(), p.Validate(), []string{totalFault(t, p)})
	}
}

// totalFault returns the message that Validate has for the problem's total,
// counted apart from it.
func totalFault(t *testing.T, p problem.Problem) string {
	sum := 0.0
	for i := range p.Tables {
		table := &p.Tables[i]
		slices := float64(table.Dim) / 4
		_, m := p.ShardMemory(p.Whole(i)).Peak()
		_, sent := p.SharedMemory(p.Whole(i)).Peak()
		optimizer := float64(m.Optimizer)
		if table.Optimizer == problem.RowwiseAdagrad {
			optimizer *= slices
		}
		sum += float64(m.Weights) + optimizer + float64(m.Outputs+m.Gradients) + slices*float64(m.Indices+sent.Permuted)
	}
	if !(sum > math.Ldexp(1, 60)) {
		t.Fatalf("the tables add up to %g bytes, want more than 2^60", sum)
	}
	return fmt.Sprintf("the tables and their buffers add up to %.3g bytes: more than the 1.15e+18 that can be planned", sum)
}

func product(factors ...int64) *big.Int {
	p := big.NewInt(1)
	for _, f := range factors {
		p.Mul(p, big.NewInt(f))
	}
	return p
}

func drawTable(t *rapid.T) problem.Table {
	features := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) problem.Feature {
		return problem.Feature{PoolingFactor: rapid.Float64Range(0, 300).Draw(t, "pooling")}
	}), 1, 4).Draw(t, "features")
	return problem.Table{
		Name: "t", Rows: rapid.Int64Range(1, 1<<36).Draw(t, "rows"), Dim: 4 * rapid.IntRange(1, 256).Draw(t, "dim/4"),
		Features: features, Weighted: rapid.Bool().Draw(t, "weighted"),
		Precision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision")),
		Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
	}
}
