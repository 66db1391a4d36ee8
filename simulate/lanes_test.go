package simulate

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

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
