package problem_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

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
		Batch: 1024,
	}
	half := p.Whole(0)
	half.Columns.End = 32
	m := p.ShardMemory(half)
	fmt.Println("weights  ", int64(m.Weights))   // 1,000,000 rows of 32 columns of 4 bytes
	fmt.Println("optimizer", int64(m.Optimizer)) // 4 bytes a row
	fmt.Println("outputs  ", int64(m.Outputs))   // 1,024 samples of 2 features of 32 columns of 4 bytes
	fmt.Println("gradients", int64(m.Gradients))
	fmt.Println("indices  ", int64(m.Indices)) // 21,504 lookups of 8 + 24 bytes, 2,049 offsets of 8
	fmt.Println("together ", m.Total())
	// Output:
	// weights   128000000
	// optimizer 4000000
	// outputs   262144
	// gradients 262144
	// indices   704520
	// together  127 MiB
}

// Every line by hand. B = 1000, n = 3.
func TestMemoryByHand(t *testing.T) {
	p := problem.Problem{
		Batch:    1000,
		Topology: hardware.Topology{Profile: hardware.Profile{Name: "test", Memory: 1 << 30}, Devices: 3, ReserveShare: 0.25, ReserveFixed: 11},
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
	const vectors = 1000 * 1 * 8 * 4       // B F D * 4
	const indices = 1500*(8+24) + 1001*8   // ceil(B L) * 32 + (B F + 1) * 8
	const weighted = 251*(8+24+4) + 2001*8 // ceil(1000 * 0.2501) = 251
	for i, want := range []problem.Memory{
		{Weights: 1600, Optimizer: 0, Outputs: vectors, Gradients: vectors, Indices: indices},
		{Weights: 1600, Optimizer: 200, Outputs: vectors, Gradients: vectors, Indices: indices},
		{Weights: 800, Optimizer: 1600, Outputs: vectors, Gradients: vectors, Indices: indices},
		{Weights: 800, Optimizer: 3200, Outputs: vectors, Gradients: vectors, Indices: indices},
		{Weights: 336, Optimizer: 0, Outputs: 96000, Gradients: 96000, Indices: weighted},
		{Weights: 112, Optimizer: 0, Outputs: 16000, Gradients: 16000, Indices: 8008},
		{Weights: 1600, Outputs: 3250 * 8 * 4, Gradients: 3250 * 8 * 4, Indices: 1500*(8+24) + 3251*8},
		{Weights: 1600, Outputs: 1251 * 8 * 4, Gradients: 1251 * 8 * 4, Indices: 1251*(8+24) + 1252*8},
	} {
		if got := p.ShardMemory(p.Whole(i)); got != want {
			t.Errorf("table %q: got %+v, want %+v", p.Tables[i].Name, got, want)
		}
	}
	// ceil(1000/3) samples * (4 * 8 + 2 * 12 + 4) columns, ceil(334 * 3.25) bags and
	// ceil(334 * 1.2501) lookups of 8 columns, * 4 bytes. And two copies of a vector of each feature,
	// 4 * 8 + 2 * 12 + 4 + 2 * 8 columns, because one of them has 2.25 bags.
	const received = (334*60 + 1086*8 + 418*8 + 2*334*76) * 4
	want := problem.Memory{Received: received, Reserve: 1<<28 + 11}
	if got := p.DeviceMemory(0); got != want {
		t.Errorf("device: got %+v, want %+v", got, want)
	}
	if got, want := p.ShardBudget(0), unit.Bytes(1<<30-1<<28-11-received); got != want {
		t.Errorf("got a budget of %d for shards, want %d", got, want)
	}
}

// TestMemoryOfSequenceBlock: a block of rows of a sequence has a vector for each of its own
// lookups; a block of another table has one for each bag.
func TestMemoryOfSequenceBlock(t *testing.T) {
	uniform := access.Distribution{Kind: access.Uniform}
	p := problem.Problem{Batch: 1000, Tables: []problem.Table{
		{Rows: 100, Dim: 8, Features: []problem.Feature{{PoolingFactor: 20}}, Pooling: problem.PoolingNone, Access: uniform},
		{Rows: 100, Dim: 8, Features: []problem.Feature{{PoolingFactor: 20, Bags: 4}}, Access: uniform},
	}}
	for i, vectors := range []unit.Bytes{2600, 4000} {
		block := p.Whole(i)
		block.Rows.End = 13
		block.ShardingType = problem.RowWise
		m, n := p.ShardMemory(block), unit.Bytes(2600) // 13 of 100 rows
		if m.Outputs != vectors*8*4 || m.Gradients != vectors*8*4 || m.Indices != n*(8+24)+(vectors+1)*8 {
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
		if got, want := p.DeviceMemory(0).Received, received+2*100*4*(8+2*4); got != want {
			t.Errorf("%d devices: got %d bytes received, want %d", devices, got, want)
		}
		if got := p.BackwardRoom(); got != received {
			t.Errorf("%d devices: got room of %d bytes, want %d", devices, got, received)
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

func TestMemoryOfOneDevice(t *testing.T) {
	p := sample()
	p.Topology.Devices = 1
	if got := p.DeviceMemory(0); got.Received != 0 {
		t.Errorf("one device: got %d bytes received, want 0", got.Received)
	}
	p.Topology.Devices = 2
	if got := p.DeviceMemory(0); got.Received == 0 {
		t.Error("two devices: got nothing received, want a share of all pooled vectors")
	}
}

// A device whose reserve and received vectors exceed its memory has a negative
// budget: nothing fits, and by how much is known.
func TestShardBudgetMayBeNegative(t *testing.T) {
	p := sample()
	p.Topology.Memory, p.Topology.ReserveShare, p.Topology.ReserveFixed = 100, hardware.NoReserve, 0
	if got, want := p.ShardBudget(0), 100-p.DeviceMemory(0).Received; got != want || got >= 0 {
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
		if got := p.ShardMemory(p.Whole(i)); got != want {
			t.Errorf("table %q: got %+v, want %+v", table.Name, got, want)
		}
	}
	if got, want := p.DeviceMemory(0), (problem.Memory{Reserve: p.Topology.Reserve(0)}); got != want {
		t.Errorf("device: got %+v, want %+v", got, want)
	}
}

func TestMemorySums(t *testing.T) {
	m := problem.Memory{Weights: 1, Optimizer: 20, Outputs: 300, Gradients: 4000, Indices: 50_000, Received: 600_000, Reserve: 7_000_000}
	if got, want := m.Tables(), unit.Bytes(54_321); got != want {
		t.Errorf("got %d bytes of tables, want %d", got, want)
	}
	if got, want := m.Total(), unit.Bytes(7_654_321); got != want {
		t.Errorf("got %d bytes in total, want %d", got, want)
	}
	want := problem.Memory{Weights: 2, Optimizer: 40, Outputs: 600, Gradients: 8000, Indices: 100_000, Received: 1_200_000, Reserve: 14_000_000}
	if got := m.Add(m); got != want {
		t.Errorf("got the sum %+v, want %+v", got, want)
	}
}

// Cutting a table by columns shares out its weights, vectors and state, but for
// row-wise Adagrad, whose slices keep a state each. Index buffers are repeated.
func TestColumnCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem.Problem{Tables: []problem.Table{drawTable(t)}, Batch: rapid.IntRange(1, 1<<17).Draw(t, "batch")}
		p.Tables[0].Dim = 4 * rapid.IntRange(2, 256).Draw(t, "columns/4")
		left, right := p.Whole(0), p.Whole(0)
		left.Columns.End = int64(4 * rapid.IntRange(1, p.Tables[0].Dim/4-1).Draw(t, "cut/4"))
		right.Columns.Start = left.Columns.End
		whole, l, r := p.ShardMemory(p.Whole(0)), p.ShardMemory(left), p.ShardMemory(right)
		for _, line := range []struct {
			name              string
			left, right, want unit.Bytes
		}{
			{"weights", l.Weights, r.Weights, whole.Weights},
			{"outputs", l.Outputs, r.Outputs, whole.Outputs},
			{"gradients", l.Gradients, r.Gradients, whole.Gradients},
			{"indices", l.Indices, r.Indices, 2 * whole.Indices},
		} {
			if got := line.left + line.right; got != line.want {
				t.Fatalf("%s: got %d + %d, want %d", line.name, line.left, line.right, line.want)
			}
		}
		want := whole.Optimizer
		if p.Tables[0].Optimizer == problem.RowwiseAdagrad {
			want = 2 * whole.Optimizer
		}
		if got := l.Optimizer + r.Optimizer; got != want {
			t.Fatalf("optimizer %v: got %d + %d, want %d", p.Tables[0].Optimizer, l.Optimizer, r.Optimizer, want)
		}
		if l.Indices != whole.Indices {
			t.Fatalf("indices of a slice: got %d, want all %d", l.Indices, whole.Indices)
		}
		if got := p.DimSum(left) + p.DimSum(right); got != p.DimSum(p.Whole(0)) {
			t.Fatalf("dim sums: got %d, want %d", got, p.DimSum(p.Whole(0)))
		}
	})
}

// Cutting by rows shares out what belongs to rows; each part still pools whole
// vectors.
func TestRowCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem.Problem{Tables: []problem.Table{drawTable(t)}, Batch: rapid.IntRange(1, 1<<17).Draw(t, "batch")}
		p.Tables[0].Rows++
		top, bottom := p.Whole(0), p.Whole(0)
		top.Rows.End = rapid.Int64Range(1, p.Tables[0].Rows-1).Draw(t, "cut")
		bottom.Rows.Start = top.Rows.End
		whole, a, b := p.ShardMemory(p.Whole(0)), p.ShardMemory(top), p.ShardMemory(bottom)
		if a.Weights+b.Weights != whole.Weights || a.Optimizer+b.Optimizer != whole.Optimizer {
			t.Fatalf("weights and optimizer: got %+v and %+v, want them to add up to %+v", a, b, whole)
		}
		if a.Outputs != whole.Outputs || b.Gradients != whole.Gradients {
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
		got := p.ShardMemory(p.Whole(0))
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
			{"outputs", got.Outputs, product(problem.MaxBatch, problem.MaxFeatures, problem.MaxDim, 4)},
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
		m := p.ShardMemory(p.Whole(i))
		optimizer := float64(m.Optimizer)
		if table.Optimizer == problem.RowwiseAdagrad {
			optimizer *= slices
		}
		sum += float64(m.Weights) + optimizer + float64(m.Outputs+m.Gradients) + slices*float64(m.Indices)
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

// TestLeavesBackwardRoom: a device needs as much of the room as its own outputs leave it to need.
func TestLeavesBackwardRoom(t *testing.T) {
	p := problem.Problem{Batch: 1024, Topology: hardware.Topology{Devices: 2, Memory: unit.MiB, ReserveShare: hardware.NoReserve}}
	for i, dim := range []int{64, 32, 16} {
		name := string(rune('a' + i))
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 10, Dim: dim, Features: []problem.Feature{{Name: name, PoolingFactor: 1}}})
	}
	// A device receives 512 samples of 112 columns; the first sends 64 columns, more than half of that for both.
	received := unit.Bytes(512 * 112 * 4)
	shards := [][]problem.Shard{{p.Whole(0), p.Whole(2)}, {p.Whole(1)}}
	for device, need := range []unit.Bytes{0, 2 * (received - 1024*32*4)} {
		taken := p.DeviceMemory(device)
		for _, s := range shards[device] {
			taken = taken.Add(p.ShardMemory(s))
		}
		alone := [][]problem.Shard{nil, nil}
		alone[device] = shards[device]
		for _, spare := range []unit.Bytes{need - 1, need} {
			q := p
			q.Topology.DeviceMemories = []unit.Bytes{unit.GiB, unit.GiB}
			q.Topology.DeviceMemories[device] = taken.Total() + spare
			if got, want := q.LeavesBackwardRoom(alone), spare >= need; got != want {
				t.Errorf("device %d, %d bytes to spare: got %v, want %v", device, spare, got, want)
			}
		}
	}
}
