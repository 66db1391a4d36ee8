package bound

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// A device with two slices takes at least the time that together says, in one operator and in two.
func TestTogetherIsBelowTwoSlices(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		p := hotProblem(random, 4)
		judge := simulate.NewPricer(p)
		r := newRelaxation(p, judge, 4, Allowed{Operators: true})
		for range 40 {
			a, b := &r.tables[random.IntN(len(r.tables))], &r.tables[random.IntN(len(r.tables))]
			least := together(r, a, b) + fixedMS
			x, y := p.Whole(a.index), p.Whole(b.index)
			x.Columns.End = 4 * (1 + random.Int64N(int64(a.granules)))
			y.Columns.End = 4 * (1 + random.Int64N(int64(b.granules)))
			y.Operator = problem.Operator(random.IntN(2))
			forward, backward := judge.GroupCost([]problem.Shard{x, y})
			if got := float64(forward + backward); got < least*(1-rounding) {
				t.Fatalf("slices %v and %v: got %v ms on a device, want at least %v", x, y, got, least)
			}
		}
	}
}

// The cheapest cut into a number of slices is that of all such cuts.
func TestCutIn(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	for range 200 {
		var r relaxation
		g := &table{granules: 1 + random.IntN(10), least: 1 + random.IntN(3), guest: random.IntN(2), count: 1}
		g.pieces = 1 + random.IntN(4)
		g.slices = make([]slice, g.granules)
		for w := range r.price {
			if r.price[w] = math.Inf(1); w >= g.least {
				r.price[w] = random.Float64() * float64(1+w)
			}
		}
		want := math.Inf(1)
		var cut func(left, slices int, price float64)
		cut = func(left, slices int, price float64) {
			if left == 0 && (slices == g.pieces || slices > g.pieces && g.guest == 0) {
				want = min(want, price)
			}
			for w := g.least; w <= left; w++ {
				cut(left-w, slices+1, price+r.price[w])
			}
		}
		cut(g.granules, 0, 0)
		got := r.cuts.least(g, r.price[:])
		if !(math.Abs(got-want) < 1e-12 || math.IsInf(got, 1) && math.IsInf(want, 1)) {
			t.Fatalf("%d granules in %d slices of %d or more, guest %d: got a price of %v, want %v", g.granules, g.pieces, g.least, g.guest, got, want)
		}
		if math.IsInf(got, 1) {
			continue
		}
		sum, slices, width := 0.0, 0, 0
		r.cuts.each(g, func(w int) { sum, slices, width = sum+r.price[w], slices+1, width+w })
		if math.Abs(sum-want) > 1e-12 || width != g.granules || slices != g.pieces && (g.guest > 0 || slices < g.pieces) {
			t.Fatalf("%d granules in %d slices: got %d slices of %d granules for %v", g.granules, g.pieces, slices, width, sum)
		}
	}
}

// The number of slices of hot tables sharpens the bound.
func TestGuestsSharpenTheBound(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	sum, count := 0.0, 4
	for range count {
		p := hotProblem(random, 4)
		allowed := Allowed{Operators: true}
		comm := must.Get(newExchange(p, allowed))(t)
		tree := newTree(newRelaxation(p, simulate.NewPricer(p), 4, allowed), comm, nil)
		tree.raise(context.Background(), math.Inf(1))
		before := tree.own().Total
		after := byGuests(context.Background(), tree).Total
		if after < before {
			t.Errorf("got a bound of %v, below %v without guests", after, before)
		}
		sum += float64(after/before) - 1
	}
	t.Logf("bounds are %.1f %% higher in the mean", 100*sum/float64(count))
	if sum/float64(count) < 0.01 {
		t.Errorf("got bounds %.2f %% higher in the mean, want at least 1 %%", 100*sum/float64(count))
	}
}
