package hardware_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The pooled kernels cut a warp of 32 lanes for narrow rows, and no other warp.
func TestLanes(t *testing.T) {
	for _, c := range []struct{ warp, width, want int }{
		{32, 1, 8},
		{32, 32, 8},
		{32, 33, 16},
		{32, 64, 16},
		{32, 65, 32},
		{32, 4096, 32},
		{0, 32, 8},
		{0, 64, 16},
		{0, 65, 32},
		{64, 4, 64},
		{64, 64, 64},
		{64, 1028, 64},
	} {
		if got := (hardware.Profile{WarpLanes: c.warp}).Lanes(c.width); got != c.want {
			t.Errorf("warps of %d lanes, %d columns: got %d lanes, want %d", c.warp, c.width, got, c.want)
		}
	}
}

// A warp of 64 lanes issues one bag with one row in the published cycles, and divides them
// between row and bag as a warp of 32 lanes does.
func TestIssueCycles(t *testing.T) {
	row, bag := hardware.Profile{}.IssueCycles()
	if row32, bag32 := (hardware.Profile{WarpLanes: 32}).IssueCycles(); row32 != row || bag32 != bag || !(row > 0 && bag > 0) {
		t.Errorf("got %v and %v cycles for 32 lanes, %v and %v without a number of lanes, want the same, above 0", row32, bag32, row, bag)
	}
	row64, bag64 := hardware.Profile{WarpLanes: 64}.IssueCycles()
	if math.Abs(row64+bag64-289) > 1e-9 || math.Abs(bag64/row64-bag/row) > 1e-12 {
		t.Errorf("64 lanes: got %v and %v cycles, want a sum of 289 in the ratio %v : %v", row64, bag64, row, bag)
	}
}

// The longest of k normal draws of mean 1, by summing over a grid: its expectation is the
// integral of k x density cumulative^(k-1).
func TestLongestBagOfNormalLengths(t *testing.T) {
	const cv = 0.2
	for _, bags := range []int{1, 2, 4, 8} {
		want, cumulative := 0.0, 0.0
		const step = 1e-4
		for z := -8.0; z < 8; z += step {
			density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * step
			cumulative += density / 2
			want += float64(bags) * (1 + cv*z) * density * math.Pow(cumulative, float64(bags-1))
			cumulative += density / 2
		}
		if got := hardware.LongestBag(bags, cv); math.Abs(got-want) > 1e-4 {
			t.Errorf("%d bags: got %v, want %v", bags, got, want)
		}
	}
}

// For other lengths, the longest of k bags over the mean is known, too: 2k/(k+1) for uniform
// lengths from 0, and 1 + 1/2 + ... + 1/k for exponential ones.
func TestLongestBagOfOtherLengths(t *testing.T) {
	for _, c := range []struct {
		what     string
		bags     int
		cv, want float64
	}{
		{"uniform", 2, 1 / math.Sqrt(3), 4. / 3},
		{"uniform", 4, 1 / math.Sqrt(3), 8. / 5},
		{"exponential", 2, 1, 3. / 2},
		{"exponential", 4, 1, 25. / 12},
	} {
		if got := hardware.LongestBag(c.bags, c.cv); math.Abs(got/c.want-1) > .05 {
			t.Errorf("%d bags of %s lengths: got %v, want within 5 %% of %v", c.bags, c.what, got, c.want)
		}
	}
}

func TestLongestBagIsBounded(t *testing.T) {
	for bags := 0; bags <= 9; bags++ {
		last := 0.0
		for _, cv := range []float64{0, .1, 1, 10, 1000} {
			got := hardware.LongestBag(bags, cv)
			if got < max(1, last) || got > float64(max(1, bags)) || cv == 0 && got != 1 {
				t.Errorf("%d bags, lengths varying by %v: got %v, want 1 at 0, growing, and at most all bags", bags, cv, got)
			}
			last = got
		}
	}
}
