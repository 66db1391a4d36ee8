package step

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// The expected largest of n standard normal draws, as tables of order statistics have it.
func TestLargestOf(t *testing.T) {
	for n, want := range map[int]float64{2: 1 / math.Sqrt(math.Pi), 3: 1.5 / math.Sqrt(math.Pi), 8: 1.4236, 32: 2.0697, 100: 2.5076, 1000: 3.2414} {
		if got := largestOf(n); math.Abs(got-want) > 1e-4 {
			t.Errorf("got %v of %d draws, want %v", got, n, want)
		}
	}
}

// sequences returns a step of MLPerf's sequences, each table whole on one device.
func sequences(t testing.TB, devices, each int, cv float64) Input {
	w := must.Get(workload.ByName("mlperf-dlrmv4"))(t)
	p := w.Problem()
	p.Topology = hardware.Topology{Profile: p.Topology.Profile, Devices: devices, DevicesPerHost: 8}
	p.Batch = devices * each
	dense := must.Get(DenseByName("mlperf-dlrmv4"))(t)
	stack := must.Get(StackByName("torchrec-base"))(t)
	in := Input{Problem: &p, Dense: &dense, Stack: stack, LengthCV: cv, Shards: make([][]problem.Shard, devices)}
	for i := range p.Tables {
		in.Shards[i%devices] = append(in.Shards[i%devices], problem.Shard{Table: i, Rows: problem.Range{End: p.Tables[i].Rows}, Columns: problem.Range{End: int64(p.Tables[i].Dim)}})
	}
	return in
}

// By hand: eight ranks of 1,024 samples that vary by 0.64 of their mean wait for a rank with
// 1 + 0.64/32 * 1.4236 = 1.02847 times the mean length.
func TestUnequalLengths(t *testing.T) {
	even := must.Get(Price(sequences(t, 8, 1024, 0)))(t)
	got := must.Get(Price(sequences(t, 8, 1024, .64)))(t)
	const longest = 1.028472
	for name, pair := range map[string][2]float64{
		"products":    {float64(got.Terms.GEMM), longest * float64(even.Terms.GEMM)},
		"activations": {float64(got.Terms.Activations), longest * float64(even.Terms.Activations)},
		"exchange":    {float64(got.Terms.ExchangeForward), longest * float64(even.Terms.ExchangeForward)},
		"lookups":     {float64(got.Terms.LookupForward), float64(even.Terms.LookupForward)},
		"backward":    {float64(got.Terms.ExchangeBackward), longest * float64(even.Terms.ExchangeBackward)},
		"all-reduce":  {float64(got.Terms.AllReduce), float64(even.Terms.AllReduce)},
	} {
		near(t, name, pair[0], pair[1], 1e-5)
	}
}

// Pooled tables, one of them replicated, under a bottom MLP: every term of a rank's own samples is longer by 1.02847, and
// the exchange of pooled vectors is not.
func TestUnequalLengthsOfBags(t *testing.T) {
	priceAt := func(cv float64) Terms {
		in := mlperf(t, "hugectr", "h100-80", 8, 8, 8192)
		in.LengthCV, in.Stack.Overlaps.Input = cv, false
		for d := range in.Shards {
			in.Shards[d] = slices.DeleteFunc(slices.Clone(in.Shards[d]), func(s problem.Shard) bool { return s.Table == 5 })
			replica := in.Problem.Whole(5)
			replica.ShardingType = problem.DataParallel
			in.Shards[d] = append(in.Shards[d], replica)
		}
		return priced(t, in).Terms
	}
	got, even := priceAt(.64), priceAt(0)
	for name, pair := range map[string][3]float64{
		"products":    {float64(got.GEMM), float64(even.GEMM), 1},
		"activations": {float64(got.Activations), float64(even.Activations), 1},
		"bottom":      {float64(got.Bottom), float64(even.Bottom), 1},
		"replicas":    {float64(got.Replicas), float64(even.Replicas), 1},
		"input":       {float64(got.Input), float64(even.Input), 1},
		"exchange":    {float64(got.ExchangeForward), float64(even.ExchangeForward), 0},
		"backward":    {float64(got.ExchangeBackward), float64(even.ExchangeBackward), 0},
		"lookups":     {float64(got.LookupBackward), float64(even.LookupBackward), 0},
		"optimizer":   {float64(got.Optimizer), float64(even.Optimizer), 0},
	} {
		if !(pair[1] > 0) {
			t.Errorf("%s: got %v, want a term to lengthen", name, pair[1])
		}
		near(t, name, pair[0], pair[1]*(1+pair[2]*.028472), 1e-5)
	}
}

// No variation of lengths changes nothing, and more never costs less.
func TestMoreVariationNeverCostsLess(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		devices, each := rapid.SampledFrom([]int{1, 2, 8, 16}).Draw(r, "devices"), rapid.IntRange(1, 2000).Draw(r, "samples")
		stack := rapid.SampledFrom(StackNames()).Draw(r, "stack")
		before := 0.0
		cv := 0.0
		for range 3 {
			in := sequences(t, devices, each, cv)
			var err error
			if in.Stack, err = StackByName(stack); err != nil {
				r.Fatal(err)
			}
			got, err := Price(in)
			if err != nil {
				r.Skip(err)
			}
			if float64(got.Step) < before*(1-1e-12) {
				r.Fatalf("a variation of %v takes %v ms, less than the %v of a smaller one", cv, float64(got.Step), before)
			}
			if devices == 1 && cv > 0 && float64(got.Step) != before {
				r.Fatalf("one rank waits for none: got %v ms, want %v", float64(got.Step), before)
			}
			before = float64(got.Step)
			cv += rapid.Float64Range(0, 5).Draw(r, "more variation")
		}
	})
}
