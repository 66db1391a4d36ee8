package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/optimize"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// constants are those of the simulated device that are fitted: the times of kernels that
// pool, the bytes that a row in memory with transfers of 64 bytes costs beside itself, the shares of
// the stream, and the fixed times of an operator in us.
type constants struct {
	hardware.KernelTimes
	overhead, gather, update, sort, forward, backward float64
}

// constantsOf returns the constants of the code.
func constantsOf(d simulate.Device) constants {
	return constants{
		d.Profile().KernelTimes(true), d.RowOverhead, d.Gather / d.Stream, d.Update / d.Stream, d.Sort / d.Stream,
		simulate.ForwardFixedUS, simulate.BackwardFixedUS,
	}
}

// predict returns the time of a pass of an operator on a device with the constants, in ms. The
// backward of kernels that do not pool has the times of the others.
func (k *constants) predict(d simulate.Device, op simulate.Op, pass string) float64 {
	bag, prepare := d.Profile().KernelTimes(false).Bag, d.Profile().KernelTimes(false).Prepare
	apart := k.KernelTimes
	apart.Bag, apart.BagPower, apart.Prepare = bag, 1, prepare
	d = d.WithKernels(k.KernelTimes, apart)
	d.RowOverhead = k.overhead * float64(d.Profile().Granule) / 64
	d.Gather, d.Update, d.Sort = k.gather*d.Stream, k.update*d.Stream, k.sort*d.Stream
	p, fixed := point{op: op}, k.forward-simulate.ForwardFixedUS
	if pass == backwardPass {
		fixed = k.backward - simulate.BackwardFixedUS
	}
	return p.simulated(&d, pass) + fixed/1000
}

// fitData is the times of a fit: ours, and published ones of other GPUs. Each published time
// counts publishedWeight times, because there are few.
type fitData struct {
	device    simulate.Device
	points    []point
	published []published
}

const publishedWeight = 14

// fitDataOf returns the data of a pass: equal tables, one table, and in the backward every second group,
// because only groups have rows that are used often; beside ours, published times of an H100 with all
// rows in HBM and, for the forward, of kernels that pool.
func fitDataOf(m *measurements, pass string) fitData {
	f := fitData{device: m.device, points: slices.Concat(m.lanes.fitPoints(), m.single())}
	if pass == backwardPass {
		fitted, _ := m.fitGroups()
		f.points = append(f.points, fitted...)
	}
	for _, p := range publishedTimes() {
		pools := p.Op.Pooling != problem.PoolingNone && p.Use == "fit" && p.Device.Profile().Warp() == 32
		if h100 := strings.Contains(p.Note, "rows in HBM"); p.Pass == pass && (pass == forwardPass && pools || h100) {
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

// free returns the constants of a pass that are fitted, with the steps that the code rounds them to.
func (k *constants) free(pass string) ([]*float64, []float64) {
	if pass == forwardPass {
		return []*float64{&k.Row, &k.Miss, &k.Bag, &k.BagPower, &k.overhead, &k.gather, &k.forward}, []float64{.1, .1, 1, .01, 1, .01, 1}
	}
	return []*float64{&k.Use, &k.Update, &k.State, &k.Rounding, &k.Block, &k.UpdatePower, &k.Prepare, &k.update, &k.sort, &k.backward},
		[]float64{.1, .1, .1, .1, 10, .01, .1, .01, .01, 1}
}

// fit returns the constants of a pass with the least misfit: it searches factors on those of start.
func (f *fitData) fit(start constants, pass string) constants {
	with := func(logs []float64) constants {
		k := start
		values, _ := k.free(pass)
		for i, log := range logs {
			*values[i] *= math.Exp(log)
		}
		return k
	}
	misfit := func(logs []float64) float64 { k := with(logs); return f.misfit(&k, pass) }
	values, _ := start.free(pass)
	found := must(optimize.Minimize(optimize.Problem{
		Func: misfit, Grad: func(to, at []float64) { fd.Gradient(to, misfit, at, &fd.Settings{Formula: fd.Central}) },
	}, make([]float64, len(values)), &optimize.Settings{GradientThreshold: 1e-6}, &optimize.BFGS{}))
	return with(found.X)
}

// fitBoth returns the fitted constants of both passes. The backward takes the overhead of a row
// from the forward.
func fitBoth(m *measurements) constants {
	k := constants{hardware.KernelTimes{
		Row: 10, Miss: 5, Bag: 50, BagPower: .3, Use: 5, Update: 40, State: 30, Rounding: 20, Block: 3000, UpdatePower: .7, Prepare: 20,
	}, 100, .8, .6, .6, 10, 70}
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
	found, now := fitBoth(m), constantsOf(m.device)
	for _, pass := range passes() {
		fitted, steps := found.free(pass)
		code, _ := now.free(pass)
		for i, step := range steps {
			if got := math.Round(*fitted[i]/step) * step; math.Abs(got-*code[i]) > 1e-9 {
				t.Errorf("%s: constant %d: the fit has %.4f, the code %v", pass, i, *fitted[i], *code[i])
			}
		}
		f := fitDataOf(m, pass)
		want := map[string][2]int{forwardPass: {210, 11}, backwardPass: {246, 2}}[pass]
		if got := [2]int{len(f.points), len(f.published)}; got != want {
			t.Fatalf("%s: got %d points and published ones, want %d", pass, got, want)
		}
		least := f.misfit(&found, pass)
		for i := range fitted {
			for _, factor := range []float64{.95, 1.05} {
				near := found
				values, _ := near.free(pass)
				*values[i] *= factor
				if off := f.misfit(&near, pass); off < least {
					t.Errorf("%s: constant %d times %v fits better: %v instead of %v", pass, i, factor, off, least)
				}
			}
		}
	}
	alone, beside := weightShares(&m.lanes)
	if len(alone) != 96 || len(beside) != 96 || math.Abs(stats.Median(beside)-simulate.WeightedShare) > .05 {
		t.Errorf("weights: got a median of %.3f over %d pairs beside the wide table, the code has %v", stats.Median(beside), len(beside), simulate.WeightedShare)
	}
}
