package simulate

import (
	"fmt"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

func a100(t testing.TB) hardware.Profile { return profile(t, "a100-80") }

func profile(t testing.TB, name string) hardware.Profile {
	t.Helper()
	p, err := hardware.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ExampleDevice_Compute() {
	profile, _ := hardware.ByName("a100-80")
	batch := 65536
	table := Table{
		Rows: 10_000_000, Dim: 64,
		Counts: access.Distribution{Kind: access.Zipf, Exponent: 1.05}.At(10_000_000, 20, batch),
	}
	forward, backward := NewDevice(profile).Compute(Op{Batch: batch, Tables: []Table{table}})
	fmt.Println(forward, backward, Source)
	// Output:
	// 0.165 ms 0.451 ms simulated
}

func ExamplePricer_Price() {
	profile, _ := hardware.ByName("a100-80")
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profile, Devices: 2}}
	for i, dim := range []int{64, 128, 64} {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("t", i), Rows: 1_000_000, Dim: dim,
			Features: []problem.Feature{{Name: fmt.Sprint("f", i), PoolingFactor: 10}},
		})
	}
	cost, err := NewPricer(p).Price([][]problem.Shard{{p.Whole(0), p.Whole(2)}, {p.Whole(1)}})
	if err != nil {
		panic(err)
	}
	fmt.Println(cost.Cost, Source, "on", profile.Name)
	// Output:
	// 0.898 ms simulated on a100-80
}

// bisected is misses by the definition: bisection on tau and an exponential for
// every class.
func bisected(c access.Counts, room float64) float64 {
	if room >= c.Unique {
		return c.Unique
	}
	s := c.MeanUse()
	low, high := 0.0, 1000*c.Lookups
	count := func(j int) float64 { return access.ClassMean(j) * c.Lookups / (c.Unique * s) }
	for range 200 {
		mid, held := (low+high)/2, 0.0
		for j, share := range c.Reuse {
			held -= c.Unique * share * math.Expm1(-count(j)*mid/c.Lookups)
		}
		if held < room {
			low = mid
		} else {
			high = mid
		}
	}
	misses := c.Unique
	for j, share := range c.Reuse {
		misses += c.Unique * share * math.Max(0, count(j)-1) * math.Exp(-count(j)*low/c.Lookups)
	}
	return misses
}

func TestMissesEqualBisection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCounts(t, int64(math.Exp(rapid.Float64Range(0, 25).Draw(t, "ln rows"))), 65536)
		room := c.Unique * math.Exp(rapid.Float64Range(-25, 0.1).Draw(t, "ln room"))
		u := newUsage(c)
		got, want := u.misses(room), bisected(c, room)
		// If nearly all rows fit, the rest is rounding, times all uses of the rows.
		if math.Abs(got-want) > 1e-11*want+1e-15*c.Lookups {
			t.Fatalf("misses with room for %v of %+v: got %v, want %v", room, c, got, want)
		}
	})
}

// drawCounts draws accesses of all distributions. Some histograms have a single class,
// and some have shares that do not add up to 1.
func drawCounts(t *rapid.T, rows int64, batch int) access.Counts {
	d := access.Distribution{Kind: access.Kind(rapid.IntRange(1, 3).Draw(t, "kind")), Batch: batch}
	d.Exponent = rapid.Float64Range(.3, 3).Draw(t, "exponent")
	sum := 0.0
	for j := range d.Reuse {
		d.Reuse[j] = math.Max(0, rapid.Float64Range(-1, 1).Draw(t, "share"))
		sum += d.Reuse[j]
	}
	if sum < 1e-9 { // which a division would not survive
		d.Reuse = [access.Classes]float64{}
		sum, d.Reuse[rapid.IntRange(0, access.Classes-1).Draw(t, "class")] = 1, 1
	}
	for j := range d.Reuse {
		d.Reuse[j] *= rapid.SampledFrom([]float64{1, 1.000003, .999996}).Draw(t, "rounding") / sum
	}
	pooling := math.Exp(rapid.Float64Range(-5, 6).Draw(t, "ln pooling"))
	return d.At(rows, pooling, batch)
}

func drawTable(t *rapid.T, batch int) Table {
	rows := int64(math.Exp(rapid.Float64Range(0, 25).Draw(t, "ln rows")))
	return Table{
		Rows: rows, Dim: 4 * rapid.IntRange(1, rapid.SampledFrom([]int{16, 64, 256}).Draw(t, "most dim/4")).Draw(t, "dim/4"),
		Bags:     rapid.SampledFrom([]float64{1, 2, 3, .25, 2.5}).Draw(t, "bags"),
		Counts:   drawCounts(t, rows, batch),
		LengthCV: max(0, rapid.Float64Range(-1, 3).Draw(t, "length cv")),
	}
}

func drawOp(t *rapid.T) (Device, Op) {
	op := Op{
		Batch:       rapid.SampledFrom([]int{1, 512, 8192, 32768, 65536}).Draw(t, "batch"),
		WeightBytes: rapid.SampledFrom([]int{2, 4}).Draw(t, "weight bytes"),
		Optimizer:   problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
		Weighted:    rapid.Bool().Draw(t, "weighted"),
		LaneRule:    problem.LaneRule(rapid.IntRange(0, 1).Draw(t, "lane rule")),
		Launch:      LaunchMode(rapid.IntRange(0, 1).Draw(t, "launch")),
	}
	for range rapid.IntRange(0, 12).Draw(t, "tables") {
		op.Tables = append(op.Tables, drawTable(t, op.Batch))
	}
	return NewDevice(rapid.SampledFrom(hardware.Profiles()).Draw(t, "profile")), op
}

// TestAnotherTableNeverCostsLess is no theorem: a wide table lowers the number
// of tables in flight, and so leaves more cache to the others. In every group drawn, the
// lanes that the wide table idles cost more than that saves. No table drawn is wide enough
// for the wide kernel, which may make others quicker (TestNanosByHand).
func TestAnotherTableNeverCostsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, op := drawOp(t)
		forward, backward := d.Compute(op)
		op.Tables = append(op.Tables, drawTable(t, op.Batch))
		more, moreBack := d.Compute(op)
		// A part in 1e12 is the rounding of the cache model.
		if more < forward*(1-1e-12) || moreBack < backward*(1-1e-12) {
			t.Fatalf("with one more table: got %v and %v, want at least %v and %v", more, moreBack, forward, backward)
		}
		if !(more > 0 && moreBack > 0) || math.IsInf(float64(more+moreBack), 0) {
			t.Fatalf("times: got %v and %v, want finite ones above 0", more, moreBack)
		}
	})
}

func TestTablesWithoutLookupsAreDropped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, op := drawOp(t)
		forward, backward := d.Compute(op)
		op.Tables = append(op.Tables, Table{Rows: 1 << 40, Dim: 1024})
		again, againBack := d.Compute(op)
		if again != forward || againBack != backward {
			t.Fatalf("with an idle table: got %v and %v, want %v and %v", again, againBack, forward, backward)
		}
	})
}

func TestEmptyGroupCostsNothing(t *testing.T) {
	d := NewDevice(a100(t))
	for _, op := range []Op{{Batch: 512}, {Batch: 512, Launch: Eager, Tables: []Table{{Rows: 5, Dim: 4}}}} {
		if forward, backward := d.Compute(op); forward != 0 || backward != 0 {
			t.Errorf("an empty operator: got %v and %v, want 0", forward, backward)
		}
	}
}

func TestComputeGrowsWithBatch(t *testing.T) {
	for _, kind := range []access.Kind{access.Unstated, access.Uniform} {
		d := NewDevice(a100(t))
		var last, lastBack unit.Millis
		for batch := 64; batch <= 1<<20; batch += batch/8 + 1 {
			op := Op{Batch: batch}
			for _, rows := range []int64{100, 1e5, 1e8} {
				op.Tables = append(op.Tables, Table{Rows: rows, Dim: 32, Counts: access.Distribution{Kind: kind}.At(rows, 10, batch)})
			}
			forward, backward := d.Compute(op)
			if forward < last || backward < lastBack {
				t.Fatalf("%v, batch %d: got %v and %v, below %v and %v of a smaller batch", kind, batch, forward, backward, last, lastBack)
			}
			last, lastBack = forward, backward
		}
	}
}

// TestWideTableIdlesLanes shows the rule that makes mixed widths expensive.
func TestWideTableIdlesLanes(t *testing.T) {
	d := NewDevice(a100(t))
	counts := access.Distribution{Kind: access.Unstated}.At(10_000, 100, 65536)
	var narrow []Table
	for range 8 {
		narrow = append(narrow, Table{Rows: 10_000, Dim: 4, Counts: counts})
	}
	wide := Table{Rows: 10_000, Dim: 128, Counts: access.Distribution{}.At(10_000, 1, 65536)}
	compute := func(tables ...Table) unit.Millis {
		forward, _ := d.Compute(Op{Batch: 65536, Tables: tables})
		return forward
	}
	apart := compute(narrow...) + compute(wide)
	if together := compute(append(narrow, wide)...); together < 1.5*apart {
		t.Errorf("a wide table among narrow ones: got %v, want far above the %v of both apart", together, apart)
	}
	equal := Table{Rows: 10_000, Dim: 4, Counts: counts}
	if together, single := compute(equal, equal), compute(equal); together >= 2*single {
		t.Errorf("two tables of equal width: got %v together, want below twice %v", together, single)
	}
}

// TestCommByHand works one all-to-all of two hosts from the formulas.
func TestCommByHand(t *testing.T) {
	p := a100(t)
	start := []unit.Millis{0, 1, 2, 5}
	forward, backward, err := NewDevice(p).Comm(Comm{PerHost: 2, Batch: 1000, DimSums: []int{10, 20, 30, 40}, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	// The largest transfer is the last rank's sending: 3/4 of 1000 samples of 40
	// columns; two thirds of it leave the host.
	most := .75 * 1000 * 40 * 4
	collective := .020 + .020*2 + most*2/3/(.80*23.5e6)
	for r, dims := range []float64{10, 20, 30, 40} {
		want := float64(5-start[r]) + collective + 2*1000*dims*4/(2039e6*.894)
		if got := float64(forward[r]); math.Abs(got-want) > 1e-12*want {
			t.Errorf("forward of rank %d: got %v, want %v", r, got, want)
		}
		want = collective + 2*250*100*4/(2039e6*.894)
		if got := float64(backward[r]); math.Abs(got-want) > 1e-12*want {
			t.Errorf("backward of rank %d: got %v, want %v", r, got, want)
		}
	}
}

func TestCommErrors(t *testing.T) {
	d := NewDevice(profile(t, "rtx2080ti"))
	if _, _, err := d.Comm(Comm{Batch: 512, PerHost: 2, DimSums: []int{4, 4, 4}}); err == nil {
		t.Error("two hosts without a network: got no error")
	}
	if _, err := d.InputComm(InputComm{Batch: 512, PerHost: 2, Bags: make([]float64, 3), Lookups: make([]float64, 3)}); err == nil {
		t.Error("input exchange over two hosts without a network: got no error")
	}
	if _, _, err := d.Comm(Comm{Batch: 512, DimSums: []int{4, 4}, Start: make([]unit.Millis, 3)}); err == nil {
		t.Error("three starts for two ranks: got no error")
	}
	if _, _, err := d.Comm(Comm{Batch: 512}); err == nil {
		t.Error("no ranks: got no error")
	}
	if forward, backward, err := d.Comm(Comm{Batch: 512, DimSums: []int{4}, Start: []unit.Millis{7}}); err != nil || forward[0] != 0 || backward[0] != 0 {
		t.Errorf("one rank: got %v, %v, %v, want zeros", forward, backward, err)
	}
}

func TestEqualDimSumsAreQuickest(t *testing.T) {
	d := NewDevice(a100(t))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 16).Draw(t, "ranks")
		mean := rapid.IntRange(1, 4096).Draw(t, "mean")
		dims, equal := make([]int, n), make([]int, n)
		for r := range dims {
			dims[r], equal[r] = mean, mean
		}
		for range rapid.IntRange(1, 20).Draw(t, "moves") {
			from, to := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")
			moved := rapid.IntRange(0, dims[from]).Draw(t, "moved")
			dims[from] -= moved
			dims[to] += moved
		}
		_, got, _ := d.Comm(Comm{Batch: 4096, PerHost: 8, DimSums: dims})
		_, least, _ := d.Comm(Comm{Batch: 4096, PerHost: 8, DimSums: equal})
		if got[0] < least[0] {
			t.Fatalf("dim sums %v: got %v, want at least the %v of equal ones", dims, got[0], least[0])
		}
	})
}

// TestInputExchangeRunsTheOtherWay: with pooled vectors the holder of a table sends,
// with the input it receives. The bytes are the same.
func TestInputExchangeRunsTheOtherWay(t *testing.T) {
	n, err := NewDevice(a100(t)).Network(Cluster{Devices: 4, Batch: 100})
	if err != nil {
		t.Fatal(err)
	}
	// One rank of four owns everything.
	if got := n.Transfer(8, 0, 8); got != .75*100*8*4 {
		t.Errorf("pooled vectors of the only owner: got %v bytes, want 2400", got)
	}
	// One rank of four owns nothing, and receives more than the others send.
	if got := n.Transfer(8, 0, 24); got != 25*24*4 {
		t.Errorf("pooled vectors of the only rank without tables: got %v bytes, want 2400", got)
	}
	input, err := NewDevice(a100(t)).InputComm(InputComm{Batch: 100, Bags: make([]float64, 4), Lookups: []float64{8, 0, 0, 0}, IndexBytes: 4})
	if want := .060 + 3*.045 + 2400/230e6; err != nil || math.Abs(float64(input)-want) > 1e-12 {
		t.Errorf("input of the only owner: got %v ms, %v, want %v ms", float64(input), err, want)
	}
}

func TestInputCommByHand(t *testing.T) {
	got, err := NewDevice(a100(t)).InputComm(InputComm{Batch: 1000, Bags: []float64{3, 1}, Lookups: []float64{30, 50}})
	if err != nil {
		t.Fatal(err)
	}
	// Half the batch's 3 bags and 50 lookups a sample are the largest transfers.
	want := .060 + 3*.045 + 500*3*4/230e6 + 500*50*8/230e6
	if math.Abs(float64(got)-want) > 1e-12 {
		t.Errorf("got %v ms, want %v ms", float64(got), want)
	}
}
