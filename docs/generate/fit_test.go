package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// constants are those of the simulated device that are fitted: the times of kernels that
// pool, and the bytes that a row in memory with transfers of 64 bytes costs beside itself.
type constants struct {
	hardware.KernelTimes
	overhead float64
}

// device returns a simulated device with the constants. The backward of kernels that do not pool
// has the times of the others.
func (k *constants) device(d simulate.Device) simulate.Device {
	apart := d.Profile().KernelTimes(false)
	apart.Update, apart.UpdatePower = k.Update, k.UpdatePower
	d = d.WithKernels(k.KernelTimes, apart)
	d.RowOverhead = k.overhead * float64(d.Profile().Granule) / 64
	return d
}

// predict returns the time of a pass of an operator, in ms.
func (k *constants) predict(d simulate.Device, op simulate.Op, pass string) float64 {
	p := point{op: op}
	fitted := k.device(d)
	return p.simulated(&fitted, pass)
}

// fitData is the times of a fit: ours, and published ones of other GPUs. Each published time
// counts publishedWeight times, because there are few.
type fitData struct {
	device    simulate.Device
	points    []point
	published []published
}

const publishedWeight = 9

// fitDataOf returns the data of a pass: beside ours, the published times of kernels that pool for the
// forward, and those of an H100 with all rows in HBM for the backward.
func fitDataOf(m *measurements, pass string) fitData {
	f := fitData{device: m.device, points: m.lanes.fitPoints()}
	for _, p := range publishedTimes() {
		pools := p.Op.Pooling != problem.PoolingNone && p.Use == "fit" && p.Device.Profile().Warp() == 32
		if h100 := strings.Contains(p.Note, "rows in HBM"); p.Pass == pass && (pass == forwardPass && pools || pass == backwardPass && h100) {
			f.published = append(f.published, p)
		}
	}
	return f
}

// misfit returns the sum of the squared logarithms of predicted over measured times.
func (f *fitData) misfit(k *constants, pass string) float64 {
	sum := 0.0
	for _, p := range f.points {
		off := math.Log(k.predict(f.device, p.op, pass) / p.measured(pass))
		sum += off * off
	}
	for i := range f.published {
		p := &f.published[i]
		off := math.Log(1000 * k.predict(p.Device, p.Op, pass) / p.US)
		sum += publishedWeight * off * off
	}
	return sum
}

// free returns the constants of a pass that are fitted.
func (k *constants) free(pass string) []*float64 {
	if pass == forwardPass {
		return []*float64{&k.Row, &k.Bag, &k.BagPower, &k.overhead}
	}
	return []*float64{&k.Update, &k.UpdatePower, &k.Prepare}
}

// fit multiplies and divides each constant of a pass by a factor, and moves the factor nearer to 1 if
// no change improves the fit.
func (f *fitData) fit(start constants, pass string) constants {
	best := start
	least := f.misfit(&best, pass)
	for step := .2; step > .001; {
		improved := false
		for i := range best.free(pass) {
			for _, factor := range []float64{math.Exp(step), math.Exp(-step)} {
				try := best
				*try.free(pass)[i] *= factor
				if off := f.misfit(&try, pass); off < least {
					best, least, improved = try, off, true
				}
			}
		}
		if !improved {
			step /= 2
		}
	}
	return best
}

// fitBoth returns the fitted constants of both passes. The backward takes the overhead of a row
// from the forward.
func fitBoth(m *measurements) constants {
	k := constants{hardware.KernelTimes{
		Row: 10, Bag: 50, BagPower: .3, Update: 15, UpdatePower: .7, Prepare: 20,
	}, 100}
	for _, pass := range passes() {
		f := fitDataOf(m, pass)
		k = f.fit(k, pass)
	}
	return k
}

// The constants of the simulated device are those of the fit, rounded. No constants near
// the fitted ones fit better.
func TestConstantsAreFitted(t *testing.T) {
	m := readAll(folder)
	found := fitBoth(m)
	rounded := func(x, to float64) float64 { return math.Round(x/to) * to }
	now := constants{m.device.Profile().KernelTimes(true), m.device.RowOverhead}
	for _, c := range []struct {
		name             string
		fitted, to, code float64
	}{
		{"row", found.Row, .1, now.Row},
		{"bag", found.Bag, 1, now.Bag},
		{"power of a bag", found.BagPower, .01, now.BagPower},
		{"overhead", found.overhead, 1, now.overhead},
		{"update", found.Update, .1, now.Update},
		{"power of an update", found.UpdatePower, .01, now.UpdatePower},
		{"prepare", found.Prepare, 1, now.Prepare},
	} {
		if got := rounded(c.fitted, c.to); math.Abs(got-c.code) > 1e-9 {
			t.Errorf("%s: the fit has %.4f, the code %v", c.name, c.fitted, c.code)
		}
	}
	if alone, beside := weightShares(&m.lanes); len(alone) != 96 || len(beside) != 96 || rounded(stats.Median(beside), .1) != rounded(simulate.WeightedShare, .1) {
		t.Errorf("weights: got a median of %.3f over %d pairs beside the wide table, the code has %v", stats.Median(beside), len(beside), simulate.WeightedShare)
	}
	for _, pass := range passes() {
		f := fitDataOf(m, pass)
		if want := map[string]int{forwardPass: 9, backwardPass: 2}[pass]; len(f.points) != 192 || len(f.published) != want {
			t.Fatalf("%s: got %d points and %d published ones, want 192 and %d", pass, len(f.points), len(f.published), want)
		}
		least := f.misfit(&found, pass)
		for i := range found.free(pass) {
			for _, factor := range []float64{.95, 1.05} {
				near := found
				*near.free(pass)[i] *= factor
				if off := f.misfit(&near, pass); off < least {
					t.Errorf("%s: constant %d times %v fits better: %v instead of %v", pass, i, factor, off, least)
				}
			}
		}
	}
}

// In some groups the most used row decides how long the update takes. What their measured backwards
// leave for it, beside the simulated rest, bounds the time of a step through the uses of a row.
func TestRunIsBounded(t *testing.T) {
	m := readAll(folder)
	const steps = simulate.MaxRun / simulate.RunWarps
	var left []float64
	for _, p := range ofAdam(m.groups[fbgemm], false) {
		k := m.device.Kernels(p.op)
		if update := 1000 * float64(k.Update); !p.op.Weighted && math.Abs(update-steps*simulate.GatherStepUS) < 1e-9 {
			left = append(left, (1000*(p.backward-p.simulated(&m.device, backwardPass))+update)/steps)
		}
	}
	slices.Sort(left)
	if len(left) != 10 || simulate.GatherStepUS > left[0] || simulate.GatherStepUS < left[0]/1.1 {
		t.Errorf("got %.2f us for a step of %d groups, want 10 groups and the code's %v us just below the least", left, len(left), simulate.GatherStepUS)
	}
	t.Logf("a step takes at most %.2f us, in the median %.2f", left, stats.Median(left))
}
