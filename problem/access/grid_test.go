package access

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// idsIn returns the counts of n ids, all of class j, and the numbers of ids used more often than
// the bounds.
func idsIn(j int, n float64) (ids Counts, above [Classes]float64) {
	ids.Unique, ids.Reuse[j] = n, 1
	for k := range j + 1 {
		above[k] = n
	}
	return ids, above
}

// TestSurvivorsFollowThePowerLaw: between the bounds of a class, the numbers of ids fall as a power
// of their uses, and to none, evenly on a logarithmic scale, in the highest class that has ids.
func TestSurvivorsFollowThePowerLaw(t *testing.T) {
	const n, a = 1e6, 1.3
	above := [Classes]float64{n}
	for j := 1; j < Classes; j++ {
		above[j] = n * math.Pow(bounds[j].m, -a)
	}
	for _, x := range []float64{0, .5, 1, 1.5, 2, 3, 100, 127, 128, 30_000, bounds[Classes-1].m} {
		want := n * math.Pow(max(1, x), -a)
		if got := survivors(&above, x); math.Abs(got/want-1) > 1e-12 {
			t.Errorf("got %v ids used more than %v times, want %v", got, x, want)
		}
	}
	_, above = idsIn(4, 100) // 9 to 16 uses
	for x, want := range map[float64]float64{8: 100, 8 * math.Sqrt2: 50, 16: 0, 20: 0} {
		if got := survivors(&above, x); math.Abs(got-want) > 1e-9 {
			t.Errorf("of 100 ids of 9 to 16 uses: got %v used more than %v times, want %v", got, x, want)
		}
	}
}

// TestGridKeepsIdsAndUses: ids below half a step count as fewer ids of one step with the same uses,
// ids from half a step to one step as ids of one step, and no id is lost.
func TestGridKeepsIdsAndUses(t *testing.T) {
	const n = 1000
	for _, c := range []struct {
		class int
		step  float64
		one   float64 // of the grid's ids, those of one step
	}{
		{0, 64, n / 64.},
		{1, 64, 2 * n / 64.},
		{4, 64, classMeans[4] * n / 64},
		{2, 4, n},  // 3 and 4 uses
		{5, 32, n}, // 17 to 32 uses
		{0, 1, n},
	} {
		ids, above := idsIn(c.class, n)
		g := newGrid(&ids, &above, c.step, 1e6, 1e-6)
		if math.Abs(g.own[1]-c.one) > 1e-9 {
			t.Errorf("ids of class %d in steps of %v: got %v of one step, want %v", c.class, c.step, g.own[1], c.one)
		}
		sum := 0.0
		for _, in := range g.own {
			sum += in
		}
		if math.Abs(sum-n) > 1e-9 {
			t.Errorf("ids of class %d in steps of %v: got %v ids, want %v", c.class, c.step, sum, n)
		}
	}
}

// TestGridIsADistribution: the probabilities that other ids bring a row more than k steps do not
// rise, and lie from 0 to 1. The first one keeps its digits where few ids own a row.
func TestGridIsADistribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Distribution{Kind: Zipf, Exponent: rapid.Float64Range(.3, 2).Draw(t, "exponent")}
		ids := d.At(1<<rapid.IntRange(1, 30).Draw(t, "rows"), 1, rapid.IntRange(1, 1<<17).Draw(t, "batch"))
		var above [Classes]float64
		sum := 0.0
		for j := Classes - 1; j >= 0; j-- {
			sum += ids.Reuse[j] * ids.Unique
			above[j] = sum
		}
		step := math.Ldexp(1, 2*rapid.IntRange(0, 4).Draw(t, "step"))
		share := math.Pow(10, rapid.Float64Range(-20, 2).Draw(t, "share")) / ids.Unique
		g := newGrid(&ids, &above, step, 1e6, share)
		before := 1.0
		for k, more := range g.more {
			if !(more >= 0 && more <= before+1e-12) {
				t.Fatalf("more than %d steps: got probability %v after %v", k, more, before)
			}
			before = more
		}
		owners := 0.0
		for _, in := range g.own[1:] {
			owners += in
		}
		owners += survivors(&above, gridSteps*step)
		if want := share * owners; want < 1e-9 && math.Abs(g.more[0]-want) > 1e-6*want {
			t.Fatalf("got probability %v of an owner, want %v", g.more[0], want)
		}
	})
}

// TestOwnedRowsAreInOneClass: the shares of the classes add up to 1, although each bound is counted
// on a grid of its own.
func TestOwnedRowsAreInOneClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Distribution{Kind: Zipf, Exponent: rapid.Float64Range(0, 2).Draw(t, "exponent"), Law: MultiHot}
		c := d.At(rapid.Int64Range(1, 1<<24).Draw(t, "rows"), rapid.Float64Range(1, 100).Draw(t, "rows an id"), rapid.IntRange(1, 1<<17).Draw(t, "batch"))
		sum := 0.0
		for _, share := range c.Reuse {
			sum += share
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("got shares with sum %v", sum)
		}
	})
}
