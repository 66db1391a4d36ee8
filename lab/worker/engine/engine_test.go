package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
)

const guard = 9e9 // what lies around every slice, and must stay

// failer is a test, or a try of one by rapid.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// guarded returns n random numbers with guards on both sides, and a check that the
// guards are untouched.
func guarded(random *rand.Rand, n int) (values []float32, check func(t failer, what string)) {
	const border = 16
	all := make([]float32, n+2*border)
	for i := range all {
		all[i] = guard
	}
	values = all[border : border+n : border+n]
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	return values, func(t failer, what string) {
		t.Helper()
		for i, v := range all {
			if (i < border || i >= border+n) && v != guard {
				t.Fatalf("%s: wrote %v at %d of %d", what, v, i-border, n)
			}
		}
	}
}

// spec says what shard to make up.
type spec struct {
	rows     int64
	dim      int
	bags     int
	pooling  int // a bag has 0 to 2*pooling lookups
	hot      float64
	weighted bool
}

// shardOf makes up a shard. The share hot of the lookups reads the last row.
func shardOf(random *rand.Rand, o problem.Optimizer, s spec) (Shard, func(t failer)) {
	bags := lookups.Bags{Offsets: []int64{0}}
	for range s.bags {
		for range random.IntN(2*s.pooling + 1) {
			row := random.Int64N(s.rows)
			if random.Float64() < s.hot {
				row = s.rows - 1
			}
			bags.Indices = append(bags.Indices, row)
		}
		bags.Offsets = append(bags.Offsets, int64(len(bags.Indices)))
	}
	weights, checkWeights := guarded(random, int(s.rows)*s.dim)
	state, checkState := guarded(random, int(o.StateBytes(s.rows, s.dim)/4))
	for i, v := range state {
		state[i] = v * v // second moments are not negative
	}
	shard := Shard{Rows: s.rows, Dim: s.dim, Weights: weights, State: state, Bags: bags}
	checkPer := func(failer, string) {}
	if s.weighted {
		shard.PerSample, checkPer = guarded(random, len(bags.Indices))
	}
	return shard, func(t failer) {
		t.Helper()
		checkWeights(t, "weights")
		checkState(t, "state")
		checkPer(t, "per-sample weights")
	}
}

// reference is the op in float64, row by row.
type reference struct {
	weights, state []float64
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func scaleOf(s *Shard, lookup int64) float64 {
	if s.PerSample == nil {
		return 1
	}
	return float64(s.PerSample[lookup])
}

func (r *reference) forward(s *Shard) []float64 {
	out := make([]float64, (len(s.Bags.Offsets)-1)*s.Dim)
	for b := range len(s.Bags.Offsets) - 1 {
		for i := s.Bags.Offsets[b]; i < s.Bags.Offsets[b+1]; i++ {
			for c := range s.Dim {
				out[b*s.Dim+c] += scaleOf(s, i) * r.weights[int(s.Bags.Indices[i])*s.Dim+c]
			}
		}
	}
	return out
}

func (r *reference) backward(s *Shard, gradient []float32, opt Options, step int) {
	sums := map[int64][]float64{}
	for b := range len(s.Bags.Offsets) - 1 {
		for i := s.Bags.Offsets[b]; i < s.Bags.Offsets[b+1]; i++ {
			row := s.Bags.Indices[i]
			if sums[row] == nil {
				sums[row] = make([]float64, s.Dim)
			}
			for c := range s.Dim {
				sums[row][c] += scaleOf(s, i) * float64(gradient[b*s.Dim+c])
			}
		}
	}
	rate, eps := float64(opt.LearningRate), float64(epsilon)
	beta1, beta2 := float64(beta1), float64(beta2)
	for row, g := range sums {
		w := r.weights[int(row)*s.Dim:][:s.Dim]
		square := 0.0
		for _, v := range g {
			square += v * v
		}
		if opt.Optimizer == problem.RowwiseAdagrad {
			r.state[row] += square / float64(s.Dim)
		}
		for c, v := range g {
			switch opt.Optimizer {
			case problem.SGD:
				w[c] -= rate * v
			case problem.RowwiseAdagrad:
				w[c] -= rate * v / (math.Sqrt(r.state[row]) + eps)
			case problem.Adagrad:
				at := int(row)*s.Dim + c
				r.state[at] += v * v
				w[c] -= rate * v / (math.Sqrt(r.state[at]) + eps)
			case problem.Adam:
				first, second := int(row)*2*s.Dim+c, int(row)*2*s.Dim+s.Dim+c
				r.state[first] = beta1*r.state[first] + (1-beta1)*v
				r.state[second] = beta2*r.state[second] + (1-beta2)*v*v
				m := r.state[first] / (1 - math.Pow(beta1, float64(step)))
				u := r.state[second] / (1 - math.Pow(beta2, float64(step)))
				w[c] -= rate * m / (math.Sqrt(u) + eps)
			}
		}
	}
}

// near compares with a tolerance relative to the largest of what is compared: a sum
// of n numbers of size 1 has lost at most n of its last bits.
func near(t failer, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d numbers, want %d", what, len(got), len(want))
	}
	largest := 1.0
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	for i, v := range got {
		if d := math.Abs(float64(v) - want[i]); !(d <= tolerance*largest) {
			t.Fatalf("%s: number %d: got %v, want %v", what, i, v, want[i])
		}
	}
}

var allOptimizers = []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad, problem.Adagrad, problem.Adam}

// checkOp runs two steps and compares each with the reference.
func checkOp(t failer, seed uint64, specs []spec, opt Options) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	shards := make([]Shard, len(specs))
	checks := make([]func(failer), len(specs))
	references := make([]reference, len(specs))
	for i, s := range specs {
		shards[i], checks[i] = shardOf(random, opt.Optimizer, s)
		references[i] = reference{widen(shards[i].Weights), widen(shards[i].State)}
	}
	op := must.Get(NewOp(shards, opt))(t)
	defer op.Close()
	opt = op.opt // with the defaults
	for step := 1; step <= 2; step++ {
		op.Forward()
		for i := range shards {
			s := &shards[i]
			what := fmt.Sprintf("%+v, %v, step %d: ", specs[i], opt.Optimizer, step)
			near(t, what+"output", op.Output(i), references[i].forward(s), 1e-5)
			gradient := op.Gradient(i)
			for k := range gradient {
				gradient[k] = float32(random.NormFloat64())
			}
			references[i].backward(s, gradient, opt, step)
		}
		op.Backward()
		for i := range shards {
			what := fmt.Sprintf("%+v, %v, step %d: ", specs[i], opt.Optimizer, step)
			near(t, what+"weights", shards[i].Weights, references[i].weights, 1e-4)
			near(t, what+"state", shards[i].State, references[i].state, 1e-4)
			checks[i](t)
		}
	}
}

func TestOp(t *testing.T) {
	for _, o := range allOptimizers {
		for _, threads := range []int{1, 3} {
			var specs []spec
			for i, dim := range []int{4, 8, 12, 16, 20, 32, 64, 72, 128, 256} {
				specs = append(specs, spec{
					rows: int64(1 + 37*i), dim: dim, bags: 50, pooling: 1 + i, weighted: i%3 == 1, hot: float64(i%4) / 4,
				})
			}
			specs = append(specs,
				spec{rows: 9, dim: 8},                                         // no bags
				spec{rows: 9, dim: 8, bags: 3},                                // empty bags
				spec{rows: 1, dim: 4, bags: 2000, pooling: 1, weighted: true}, // one row
				spec{rows: 3, dim: 16, bags: 3000, pooling: 2, hot: .9},
				spec{rows: 70_000, dim: 4, bags: 600, pooling: 30, hot: .2}, // cut, with two passes
				spec{rows: 1, dim: 8, bags: 600, pooling: 30},               // cut, with none
				spec{rows: 2000, dim: 8, bags: 600, pooling: 30, weighted: true, hot: .3},
			)
			checkOp(t, uint64(threads), specs, Options{Optimizer: o, Threads: threads})
		}
	}
}
