package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// robustLaunch finds the fixed cost although the smallest group takes several times
// as long, with noise and outliers. The fixed cost is at least 0 and at most the
// shortest time.
func TestRobustLaunch(t *testing.T) {
	draw := rand.New(rand.NewPCG(2, 2))
	made := func(fixed, least float64) *prepared {
		p := &prepared{}
		p.sets.Offsets = []int32{0}
		for i := range 2000 {
			scale := least * math.Exp(4*draw.Float64())
			p.sets.Scale = append(p.sets.Scale, float32(scale/2), float32(scale/2))
			p.sets.Offsets = append(p.sets.Offsets, int32(2*i+2))
			outlier := 1.
			if draw.IntN(20) == 0 {
				outlier = 3
			}
			y := (fixed + 2*scale*(1+.1*draw.NormFloat64())) * math.Exp(.03*draw.NormFloat64()) * outlier
			p.times = append(p.times, [2]float32{float32(y), float32(3 * y)})
		}
		return p
	}
	for _, c := range []struct{ fixed, least, low, high float64 }{
		{.1, .02, .09, .11}, {.1, .1, .07, .13}, {.1, .3, .01, .2}, {0, .1, 0, .03},
	} {
		p := made(c.fixed, c.least)
		got, shortest := p.robustLaunch(), p.launch()
		if !(got[0] >= c.low && got[0] <= c.high) || math.Abs(got[1]-3*got[0]) > .2*got[0]+.01 {
			t.Errorf("%+v: got %v, want between %v and %v, and three times that", c, got, c.low, c.high)
		}
		if got[0] > shortest[0] || got[0] < 0 {
			t.Errorf("%+v: got %v, want from 0 to the shortest time %v", c, got, shortest)
		}
	}
	alike := &prepared{times: [][2]float32{{1, 2}, {1.1, 2}}}
	alike.sets.Offsets, alike.sets.Scale = []int32{0, 1, 2}, []float32{3, 3}
	if got := alike.robustLaunch(); got != [2]float64{} {
		t.Errorf("groups of the same work: got %v, want nothing known", got)
	}
}

// Times that are only noise leave every constant finite, whatever a fit makes of them.
func TestConstantsOfNoiseAreFinite(t *testing.T) {
	hw := hardware.Profile{AllToAllLatencyUS: 40, IntraGBps: 300, HBMGBps: 2000}
	for seed := range uint64(20) {
		draw := rand.New(rand.NewPCG(seed, 1))
		var all []exchange
		for range 8 {
			dims := 4 << draw.IntN(8)
			time := math.Exp(2 * draw.NormFloat64())
			all = append(all, exchange{
				cluster: cost.Cluster{Devices: 2, PerHost: 2, Batch: 64}, load: cost.CommLoad{Max: dims, Min: dims, Sum: 2 * dims},
				packed: []float64{1e3, 1e3}, early: math.Exp(4*draw.NormFloat64()) - .1,
				forward: []float64{time, time}, backward: math.Exp(2 * draw.NormFloat64()), last: true,
			})
		}
		k := fitConstants(all, hw, recipe{robust: true})
		for _, v := range []float64{k.AlphaMS, k.IntraGBps, k.CopyGBps, k.OverlapRest, k.OverlapRate} {
			if !(v >= 0) || math.IsInf(v, 1) {
				t.Errorf("seed %d: got constants %+v, want finite ones", seed, k)
			}
		}
	}
}
