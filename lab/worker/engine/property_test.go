package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
)

func drawSpecs(t *rapid.T) []spec {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) spec {
		return spec{
			rows:     rapid.SampledFrom([]int64{1, 2, 3, 100, 1000, 5000}).Draw(t, "rows"),
			dim:      4 * rapid.IntRange(1, 40).Draw(t, "dim/4"),
			bags:     rapid.IntRange(0, 200).Draw(t, "bags"),
			pooling:  rapid.SampledFrom([]int{0, 1, 5, 40}).Draw(t, "pooling"),
			hot:      rapid.SampledFrom([]float64{0, .5, .99}).Draw(t, "hot"),
			weighted: rapid.Bool().Draw(t, "weighted"),
		}
	}), 0, 5).Draw(t, "shards")
}

func TestOpProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkOp(t, rapid.Uint64().Draw(t, "seed"), drawSpecs(t), Options{
			Optimizer: rapid.SampledFrom(allOptimizers).Draw(t, "optimizer"),
			Threads:   rapid.IntRange(1, 4).Draw(t, "threads"),
		})
	})
}

// run makes the shards up, runs two steps and returns the bytes of everything that
// an op computes.
func run(t failer, seed uint64, specs []spec, opt Options) []uint32 {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	shards := make([]Shard, len(specs))
	for i, s := range specs {
		shards[i], _ = shardOf(random, opt.Optimizer, s)
	}
	op := must.Get(NewOp(shards, opt))(t)
	defer op.Close()
	var all []uint32
	for range 2 {
		op.Forward()
		for i := range shards {
			all = append(all, floatBits(op.Output(i))...)
			for k := range op.Gradient(i) {
				op.Gradient(i)[k] = float32(random.NormFloat64())
			}
		}
		op.Backward()
		for i := range shards {
			all = append(append(all, floatBits(shards[i].Weights)...), floatBits(shards[i].State)...)
		}
	}
	return all
}

func floatBits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

// The bytes are the same for any number of threads, whether shards are cut or not,
// and from an arena that was used before.
func TestThreadsAgree(t *testing.T) {
	specs := []spec{
		{rows: 50_000, dim: 8, bags: 1000, pooling: 25, hot: .3},
		{rows: 100, dim: 68, bags: 300, pooling: 20, weighted: true},
		{rows: 3, dim: 16, bags: 800, pooling: 10},
		{rows: 4000, dim: 4, bags: 1000, pooling: 20, weighted: true, hot: .7},
		{rows: 10, dim: 12},
	}
	arena := new(Arena)
	for _, o := range allOptimizers {
		want := run(t, 5, specs, Options{Optimizer: o, Threads: 1})
		for _, threads := range []int{2, 8} {
			arena.Reset()
			got := run(t, 5, specs, Options{Optimizer: o, Threads: threads, Arena: arena})
			if !slices.Equal(got, want) {
				t.Errorf("%v: %d threads and one differ", o, threads)
			}
		}
	}
}

// runs of lengths around a block, each of one row, as one shard whose bags have one
// lookup each. Rows alternate as far as their lengths allow.
func runsOf(lengths []int, dim int) Shard {
	left := slices.Clone(lengths)
	bags := lookups.Bags{Offsets: []int64{0}}
	for more := true; more; {
		more = false
		for row := range left {
			if left[row] > 0 {
				left[row]--
				more = true
				bags.Indices = append(bags.Indices, int64(row))
				bags.Offsets = append(bags.Offsets, int64(len(bags.Indices)))
			}
		}
	}
	return Shard{Rows: int64(len(lengths)), Dim: dim, Weights: make([]float32, len(lengths)*dim), Bags: bags}
}

// Sums have the documented order, to the last bit: the bags in order within a block
// of 1024, then the blocks in order.
func TestOrderOfSums(t *testing.T) {
	lengths := []int{1, 1023, 1024, 1025, 2, 2047, 2048, 2049, 0, 5000, 1}
	for _, dim := range []int{4, 8, 76} {
		for _, threads := range []int{1, 3} {
			s := runsOf(lengths, dim)
			op := must.Get(NewOp([]Shard{s}, Options{Threads: threads, LearningRate: .5}))(t)
			random := rand.New(rand.NewPCG(6, 0))
			gradient := op.Gradient(0)
			for i := range gradient {
				gradient[i] = float32(random.NormFloat64())
			}
			want := make([]float32, len(s.Weights))
			for row := range lengths {
				for c := range dim {
					var sum, part float32
					n := 0
					for b, r := range s.Bags.Indices {
						if int(r) != row {
							continue
						}
						part += gradient[b*dim+c]
						if n++; n%1024 == 0 || n == lengths[row] {
							if n <= 1024 {
								sum = part
							} else {
								sum += part
							}
							part = 0
						}
					}
					want[row*dim+c] = -.5 * sum
				}
			}
			op.Backward()
			op.Close()
			for i, v := range s.Weights {
				if v != want[i] {
					t.Fatalf("dim %d, %d threads, run of %d, column %d: got %v, want %v", dim, threads, lengths[i/dim], i%dim, v, want[i])
				}
			}
		}
	}
}

// The buffers of an op lie side by side: who writes past one of them changes
// another.
func TestBuffersStay(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 0))
	var shards []Shard
	for i, dim := range []int{4, 20, 64, 132} {
		s, _ := shardOf(random, problem.SGD, spec{rows: 40, dim: dim, bags: 33, pooling: 3 + 40*i, weighted: i%2 == 1})
		shards = append(shards, s)
	}
	arena := new(Arena)
	before := guardsIn(arena)
	op := must.Get(NewOp(shards, Options{Threads: 2, Arena: arena}))(t)
	defer op.Close()
	after := guardsIn(arena)
	fill := func(x []float32) {
		for i := range x {
			x[i] = guard
		}
	}
	same := func(what string, x []float32) {
		t.Helper()
		for i, v := range x {
			if v != guard {
				t.Fatalf("%s: number %d changed to %v", what, i, v)
			}
		}
	}
	for i := range shards {
		fill(op.Gradient(i))
	}
	op.Forward()
	for i := range shards {
		same(fmt.Sprintf("forward, gradient %d", i), op.Gradient(i))
		fill(op.Output(i))
	}
	op.Backward()
	for i := range shards {
		same(fmt.Sprintf("backward, gradient %d", i), op.Gradient(i))
		same(fmt.Sprintf("backward, output %d", i), op.Output(i))
	}
	same("memory before the op's", before)
	same("memory after the op's", after)
}

// guardsIn takes memory of an arena and fills it with guards.
func guardsIn(a *Arena) []float32 {
	x := a.Floats(16)
	for i := range x {
		x[i] = guard
	}
	return x
}

func TestNothingAllocated(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 0))
	for _, o := range allOptimizers {
		for _, threads := range []int{1, 2} {
			a, _ := shardOf(random, o, spec{rows: 20_000, dim: 8, bags: 1000, pooling: 20, hot: .3})
			b, _ := shardOf(random, o, spec{rows: 500, dim: 68, bags: 100, pooling: 5, weighted: true})
			op := must.Get(NewOp([]Shard{a, b}, Options{Optimizer: o, Threads: threads}))(t)
			clear(op.Gradient(0))
			clear(op.Gradient(1))
			if n := testing.AllocsPerRun(5, func() { op.Forward(); op.Backward() }); n != 0 {
				t.Errorf("%v, %d threads: got %v allocations, want none", o, threads, n)
			}
			op.Close()
		}
	}
}

// sorted holds a sort against the library's, for rows of any number of bits.
func TestSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SampledFrom([]int64{1, 2, 3, 255, 256, 1 << 11, 1<<20 + 1, 1 << 32}).Draw(t, "rows")
		n := int64(rapid.IntRange(1, 3000).Draw(t, "lookups"))
		segments := int64(rapid.IntRange(1, 5).Draw(t, "segments"))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 9))
		s := sorter{from: make([]uint64, n), to: make([]uint64, n)}
		s.digit, s.passes = digits(n, rowBits(rows))
		if s.digit > maxDigit || s.digit*s.passes < rowBits(rows) {
			t.Fatalf("%d rows: %d digits of %d bits", rows, s.passes, s.digit)
		}
		for k := range segments {
			s.segments = append(s.segments, segment{lo: n * k / segments, hi: n * (k + 1) / segments, counts: takeCounts(new(Arena))})
		}
		for i := range s.from {
			s.from[i] = uint64(random.Int64N(rows))<<32 | uint64(i)
		}
		want := slices.Clone(s.from)
		slices.Sort(want) // the lookups below are in order already
		for pass := range s.passes {
			for k := range s.segments {
				s.count(k, pass)
			}
			s.place()
			for k := range s.segments {
				s.move(k, pass)
			}
			s.swap()
		}
		if !slices.Equal(s.from, want) {
			t.Fatalf("%d rows, %d lookups: not sorted", rows, n)
		}
	})
}
