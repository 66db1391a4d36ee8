package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// A spread is calibrated if the errors are drawn with it, and is not if the errors
// are twice as large.
func TestCalibrate(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	const n = 20_000
	made := func(factor, noise float64) *Calibration {
		results, points := make([]guess, n), make([]Point, n)
		for i := range points {
			actual := math.Exp(3 * draw.NormFloat64())
			sigma := actual * .01 * math.Exp(draw.NormFloat64())
			off := factor*sigma*draw.NormFloat64() + noise*actual*draw.NormFloat64()
			results[i].sigma = sigma
			points[i] = Point{Predicted: unit.Millis(actual + off), Actual: unit.Millis(actual)}
		}
		return calibrate(results, points, noise)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < .015 }
	c := made(1, 0)
	if !near(c.Within1, .683) || !near(c.Within2, .954) || c.WithNoise1 != 0 || c.WithNoise2 != 0 || !(c.KendallTau > .2) || math.Abs(c.MeanPercent-1.65) > .1 {
		t.Errorf("honest: got %+v", c)
	}
	if c := made(2, 0); !near(c.Within1, .383) || !near(c.Within2, .683) {
		t.Errorf("overconfident: got %+v", c)
	}
	if c := made(1, .05); !near(c.WithNoise1, .683) || !near(c.WithNoise2, .954) || !(c.Within1 < .4) || c.NoisePercent != 5 {
		t.Errorf("noisy: got %+v", c)
	}
}

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

// The bandwidth of copies follows from how the devices of one exchange differ,
// however long the exchange itself takes.
func TestCopyGBps(t *testing.T) {
	draw := rand.New(rand.NewPCG(4, 4))
	hw := hardware.Profile{HBMGBps: 77}
	made := func(gbps float64) []exchange {
		var all []exchange
		for range 200 {
			n := 2 + draw.IntN(6)
			e := exchange{cluster: cost.Cluster{Devices: n, PerHost: n}}
			base := 5 * math.Exp(draw.NormFloat64())
			for range n {
				bytes := 1e6 * (1 + 20*draw.Float64())
				e.packed = append(e.packed, bytes)
				time := base
				if gbps > 0 {
					time += bytes / (gbps * 1e6)
				}
				e.forward = append(e.forward, time*(1+.02*draw.NormFloat64()))
			}
			all = append(all, e)
		}
		return all
	}
	if got := copyGBps(made(5), hw); math.Abs(got/5-1) > .1 {
		t.Errorf("got %v GB/s, want 5", got)
	}
	if got := copyGBps(made(0), hw); !(got > 100) {
		t.Errorf("free copies: got %v GB/s, want far above what is seen", got)
	}
	alike := exchange{forward: []float64{1, 2}, packed: []float64{3, 3}}
	if got := copyGBps([]exchange{alike}, hw); got != 77 {
		t.Errorf("devices alike: got %v GB/s, want the device's 77", got)
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
