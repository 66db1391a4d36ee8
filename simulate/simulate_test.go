package simulate

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func a100(t testing.TB) hardware.Profile { return must.Get(hardware.ByName("a100-80"))(t) }

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
	// 0.175 ms 0.532 ms simulated
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
	// 0.974 ms simulated on a100-80
}

func TestMissesEqualBisection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCounts(t, int64(math.Exp(rapid.Float64Range(0, 25).Draw(t, "ln rows"))), 65536)
		room := c.Unique * math.Exp(rapid.Float64Range(-25, 0.1).Draw(t, "ln room"))
		u := NewUsage(c)
		got, want := u.Misses(room), refMisses(refTable{lookups: c.Lookups, unique: c.Unique, reuse: c.Reuse}, room)
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

func TestCommErrors(t *testing.T) {
	alone := NewDevice(must.Get(hardware.ByName("rtx2080ti"))(t))
	if _, err := alone.InputComm(InputComm{Batch: 512, PerHost: 2, Bags: make([]float64, 3), Lookups: make([]float64, 3)}); err == nil {
		t.Error("input exchange over two hosts without a network: got no error")
	}
	for _, c := range []Comm{
		{Batch: 512, PerHost: 2, DimSums: []int{4, 4, 4}}, // two hosts without a network
		{Batch: 512, DimSums: []int{4, 4}, Start: make([]unit.Millis, 3)},
		{Batch: 512, RowWise: 32}, // no ranks
		{Batch: 512, DimSums: make([]int, 3), PerHost: 1, ByHost: []int{4, 4}},
	} {
		if _, _, err := alone.Comm(c); err == nil {
			t.Errorf("%+v: got no error", c)
		}
	}
	one := Comm{Batch: 512, DimSums: []int{4}, Start: []unit.Millis{7}, RowWise: 32, ByHost: []int{8}, Replicated: 1e9}
	if forward, backward, err := alone.Comm(one); err != nil || forward[0] != 0 || backward[0] != 0 {
		t.Errorf("one rank: got %v, %v, %v, want zeros", forward, backward, err)
	}
}
