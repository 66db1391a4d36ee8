package simulate

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

// warpsOf describes a table of 8 columns and 16,000 lookups in 1,000 bags.
func warpsOf(widest int) Warps {
	c := access.Counts{Lookups: 16_000, Unique: 500}
	c.Reuse[5] = 1
	return Warps{Dim: 8, Widest: widest, Bags: 1000, Counts: &c}
}

// TestNanosByHand follows the lanes of a narrow table by hand, for every kernel.
func TestNanosByHand(t *testing.T) {
	nvidia, amd := NewDevice(a100(t)), NewDevice(profile(t, "mi300x"))
	row, bag, update := 7.9, 55., 16.2
	narrow, half := 55*math.Pow(.25, .24), 55*math.Pow(.5, .24)
	const scale = 289 / 2.1 / (7.9 + 55)
	rowAMD, bagAMD, updateAMD := scale*row, scale*bag, scale*update
	const n, bags, updates = 16_000, 1000, 16_000 + 2*500
	for _, test := range []struct {
		what              string
		device            Device
		change            func(*Warps)
		widest            int
		forward, backward float64
	}{
		{"alone", nvidia, nil, 8, n*row/4 + bags*narrow, update * updates * math.Pow(.25, .74)},
		{"beside 64 columns", nvidia, nil, 64, n*row/2 + bags*half, update * updates * math.Pow(.5, .74)},
		{"beside 128 columns", nvidia, nil, 128, n*row + bags*bag, update * updates},
		{"own lanes beside 128 columns", nvidia, func(w *Warps) { w.LaneRule = problem.LanesByTable }, 128, n*row/4 + bags*narrow, update * updates * math.Pow(.25, .74)},
		{"weighted", nvidia, func(w *Warps) { w.Weighted = true }, 8, n*row/4 + bags*narrow, update * updates * math.Pow(.25, .74)},
		{"bags of unequal length", nvidia, func(w *Warps) { w.LengthCV = .5 }, 8, n*row*(1+1.0294*2.9*.5)/4 + bags*narrow, update * updates * math.Pow(.25, .74)},
		{"unequal bags in pairs", nvidia, func(w *Warps) { w.LengthCV = .5 }, 64, n*row*(1+.5642*2.9*.5)/2 + bags*half, update * updates * math.Pow(.5, .74)},
		{"very unequal bags", nvidia, func(w *Warps) { w.LengthCV = 100 }, 8, n*row + bags*narrow, update * updates * math.Pow(.25, .74)},
		{"unequal bags beside 128 columns", nvidia, func(w *Warps) { w.LengthCV = 3 }, 128, n*row + bags*bag, update * updates},
		{"the last width of the usual kernel", nvidia, nil, 1024, n*row + bags*bag, update * updates},
		{"the wide kernel", nvidia, func(w *Warps) { w.LengthCV = 3 }, 1028, n*row/4 + bags*bag, update * updates},
		{"the wide kernel, weighted", nvidia, func(w *Warps) { w.Weighted = true }, 1028, n*row + bags*bag, update * updates},
		{"the wide kernel, short bags", nvidia, func(w *Warps) { w.Bags = 2000 }, 1028, n*row + 2000*bag, update * updates},
		{"own lanes know no wide kernel", nvidia, func(w *Warps) { w.LaneRule = problem.LanesByTable }, 1028, n*row/4 + bags*narrow, update * updates * math.Pow(.25, .74)},
		{"given lanes", nvidia, func(w *Warps) { w.Lanes = 32 }, 8, n*row + bags*bag, update * updates},
		{"lookups apart", nvidia, func(w *Warps) { w.Pooling, w.Bags = problem.PoolingNone, n }, 8, n * (row + 25) / 4, update * updates * math.Pow(.25, .74)},
		{"lookups apart beside 128 columns", nvidia, func(w *Warps) { w.Pooling, w.Bags = problem.PoolingNone, n }, 128, n * (row + 25), update * updates},
		{"AMD", amd, func(w *Warps) { w.LengthCV = 3 }, 8, n*rowAMD + bags*bagAMD, updateAMD * updates},
		{"AMD, own lanes", amd, func(w *Warps) { w.LaneRule = problem.LanesByTable }, 1028, n*rowAMD + bags*bagAMD, updateAMD * updates},
		{"AMD, rows used 17 to 32 times", amd, func(w *Warps) { w.Optimizer = problem.RowwiseAdagrad }, 8, n*rowAMD + bags*bagAMD, updateAMD * updates},
		{"AMD, rows used 33 to 64 times", amd, oftenUsedRows, 128, n*rowAMD + bags*bagAMD, updateAMD * (n*math.Pow(.5, .76) + 2*500)},
		{"AMD, rows used 33 to 64 times, wide", amd, oftenUsedRows, 132, n*rowAMD + bags*bagAMD, updateAMD * updates},
	} {
		w := warpsOf(test.widest)
		if test.change != nil {
			test.change(&w)
		}
		forward, backward := w.Nanos(&test.device)
		near(t, test.what+": forward", unit.Millis(forward), unit.Millis(test.forward))
		near(t, test.what+": backward", unit.Millis(backward), unit.Millis(test.backward))
	}
}

func oftenUsedRows(w *Warps) {
	w.Optimizer = problem.RowwiseAdagrad
	w.Counts.Reuse[5], w.Counts.Reuse[6] = 0, 1
}

// TestOwnLanesNeverCostMore: lanes by each table's own width take at most the cycles of lanes
// by the widest table, and the same time if all tables are of one lane class or warps have
// 64 lanes. The wide kernel is left out, because it gains more from long bags.
func TestOwnLanesNeverCostMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := 4 * rapid.IntRange(1, 256).Draw(t, "dim/4")
		w := Warps{
			Dim: dim, Widest: 4 * rapid.IntRange(dim/4, 256).Draw(t, "widest/4"),
			Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
			Bags:      1000, LengthCV: rapid.Float64Range(0, 5).Draw(t, "length cv"),
		}
		c := drawCounts(t, 1_000_000, 1000)
		w.Counts = &c
		d := NewDevice(rapid.SampledFrom(hardware.Profiles()).Draw(t, "profile"))
		forward, backward := w.Nanos(&d)
		w.LaneRule = problem.LanesByTable
		own, ownBack := w.Nanos(&d)
		if own > forward*(1+1e-12) || ownBack > backward*(1+1e-12) {
			t.Fatalf("own lanes: got %v and %v ns, want at most %v and %v", own, ownBack, forward, backward)
		}
		p := d.Profile()
		if p.Lanes(w.Dim) == p.Lanes(w.Widest) && (own != forward || ownBack != backward) {
			t.Fatalf("one lane class: got %v and %v ns of own lanes, want %v and %v", own, ownBack, forward, backward)
		}
	})
}

// TestPriceFollowsTheLaneRule: a narrow table beside a wide one costs less under own lanes,
// and the same if the plan keeps it in an operator of its own, but for the fixed times of
// one more operator.
func TestPriceFollowsTheLaneRule(t *testing.T) {
	p := on(t, "h100-80", 1, 0, tableOf("narrow", 1_000_000, 8, 64, false), tableOf("wide", 100_000, 128, 1, false))
	mixed, apart := place(p).on(0, 0).on(1, 0), place(p).on(0, 0).on(1, 0)
	apart.shards[0][1].Operator = 1
	alone, other := place(p).on(0, 0), place(p).on(1, 0)
	want := alone.price(t).Cost + other.price(t).Cost
	near(t, "apart", apart.price(t).Cost, want)
	widest := mixed.price(t).Cost
	p.LaneRule = problem.LanesByTable
	if own := mixed.price(t).Cost; own >= widest || own >= apart.price(t).Cost {
		t.Errorf("got %v with own lanes, %v with those of the widest table and %v apart, want less than both", own, widest, apart.price(t).Cost)
	}
	near(t, "apart, own lanes", apart.price(t).Cost, want)
	if want >= widest {
		t.Errorf("got %v apart and %v in one operator, want less apart", want, widest)
	}
}

// TestUnequalBagsCostMore: bags of more unequal length never make an operator cheaper, and do
// not change an operator of whole warps. The lengths here are below those where bags that share a
// warp take as long as one after the other.
func TestUnequalBagsCostMore(t *testing.T) {
	for _, dim := range []int{8, 64, 128} {
		last := unit.Millis(0)
		for _, cv := range []float64{0, .1, .3, .6} {
			table := tableOf("t", 10_000, dim, 40, false)
			table.Features[0].LengthCV = cv
			got := place(on(t, "a100-80", 1, 0, table)).on(0, 0).price(t).Devices[0].Forward
			if dim < 128 && got <= last || dim == 128 && last > 0 && got != last {
				t.Errorf("%d columns, lengths varying by %v: got %v after %v", dim, cv, got, last)
			}
			last = got
		}
	}
}
