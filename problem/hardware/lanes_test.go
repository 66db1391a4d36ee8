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

// A warp of 64 lanes takes the published time for a bag with one row, and its times have the
// ratios of a warp of 32 lanes.
func TestKernelTimes(t *testing.T) {
	for _, pooled := range []bool{true, false} {
		nvidia := hardware.Profile{}.KernelTimes(pooled)
		if same := (hardware.Profile{WarpLanes: 32}).KernelTimes(pooled); same != nvidia || !(nvidia.Row > 0 && nvidia.Bag > 0 && nvidia.Update > 0) {
			t.Errorf("pooled %v: got %+v for 32 lanes, %+v without a number of lanes, want the same, above 0", pooled, same, nvidia)
		}
		amd := hardware.Profile{WarpLanes: 64}.KernelTimes(pooled)
		scale := amd.Row / nvidia.Row
		for _, c := range [][2]float64{
			{amd.Miss, nvidia.Miss},
			{amd.Bag, nvidia.Bag},
			{amd.Use, nvidia.Use},
			{amd.Update, nvidia.Update},
			{amd.State, nvidia.State},
			{amd.Rounding, nvidia.Rounding},
			{amd.Block, nvidia.Block},
			{amd.Prepare, nvidia.Prepare},
		} {
			if math.Abs(c[0]-scale*c[1]) > 1e-12*c[0] {
				t.Errorf("pooled %v: got %v of 64 lanes for %v of 32, want a ratio of %v", pooled, c[0], c[1], scale)
			}
		}
		if amd.BagPower != 1 || amd.UpdatePower != nvidia.UpdatePower {
			t.Errorf("pooled %v, 64 lanes: got powers %v and %v of a part of a warp, want 1 and %v", pooled, amd.BagPower, amd.UpdatePower, nvidia.UpdatePower)
		}
		if one := amd.Row + amd.Miss + amd.Bag; pooled && math.Abs(one-289/2.1) > 1e-9 {
			t.Errorf("64 lanes: got %v ns for a bag with one row, want 289 cycles of 2.1 GHz", one)
		}
	}
	if got := [2]float64{(hardware.Profile{Granule: 64}).RowOverhead(), (hardware.Profile{Granule: 32}).RowOverhead()}; got[0] != 2*got[1] || got[0] <= 64 {
		t.Errorf("got overheads of %v bytes for transfers of 64 and 32, want the first above 64, and the second half of it", got)
	}
	pooled, apart := hardware.Profile{}.KernelTimes(true), hardware.Profile{}.KernelTimes(false)
	if apart.Row+apart.Bag >= pooled.Row+pooled.Bag || apart.Prepare != 0 || pooled.Prepare == 0 {
		t.Errorf("got %+v apart and %+v pooled, want less for a lookup, and no bags to prepare", apart, pooled)
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
