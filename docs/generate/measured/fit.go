package main

import (
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// constants are those of the simulated device that are fitted: the times of kernels that
// pool, the bytes that a row in memory with transfers of 64 bytes costs beside itself, and the factor on the coefficient
// of variation of bag lengths in relation to that of the simulated device.
type constants struct {
	hardware.KernelTimes
	overhead, lengths float64
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
	op.Tables = slices.Clone(op.Tables)
	for i := range op.Tables {
		op.Tables[i].LengthCV *= k.lengths
	}
	p := point{op: op}
	fitted := k.device(d)
	return p.simulated(&fitted, pass)
}

// shipped returns the constants of the simulated device.
func shipped(d simulate.Device) constants {
	return constants{d.Profile().KernelTimes(true), d.RowOverhead, 1}
}

// fitPoints returns the times of the lanes experiment without weights, alone and beside the
// wide table.
func (f *lanesFile) fitPoints() (points []point) {
	for i := range f.Lanes {
		if e := &f.Lanes[i]; !e.Weighted {
			points = append(points, e.alone(), e.both())
		}
	}
	return points
}

// fitData is the times of a fit: ours, and published ones of other GPUs. Each published time
// counts publishedWeight times, because there are few.
type fitData struct {
	device    simulate.Device
	points    []point
	published []published
	// cycles lets the times follow the clock: they are of the device, and those of another GPU are
	// longer by the ratio of the clocks.
	cycles bool
}

const publishedWeight = 9

// fitDataOf returns the data of a pass: beside ours, the published times of kernels that pool for the
// forward, and those of an H100 with all rows in HBM for the backward.
func fitDataOf(m *measurements, pass string) (fitData, error) {
	f := fitData{device: m.device, points: m.lanes.fitPoints()}
	all, err := publishedTimes()
	for _, p := range all {
		pools := p.Op.Pooling != problem.PoolingNone && p.Use == "fit" && p.Device.Profile().Warp() == 32
		if h100 := strings.Contains(p.Note, "rows in HBM"); p.Pass == pass && (pass == forwardPass && pools || pass == backwardPass && h100) {
			f.published = append(f.published, p)
		}
	}
	return f, err
}

// misfit returns the sum of the squared logarithms of predicted over measured times.
func (f *fitData) misfit(k *constants, pass string) float64 {
	sum := 0.0
	for _, p := range f.points {
		off := math.Log(k.predict(f.device, p.op, pass) / p.measured(pass))
		sum += off * off
	}
	for i := range f.published {
		p, on := &f.published[i], *k
		if f.cycles {
			slower := f.device.Profile().ClockGHz / p.Device.Profile().ClockGHz
			on.Row, on.Bag, on.Update, on.Prepare = slower*on.Row, slower*on.Bag, slower*on.Update, slower*on.Prepare
		}
		off := math.Log(1000 * on.predict(p.Device, p.Op, pass) / p.US)
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
func fitBoth(m *measurements) (constants, error) {
	k := constants{hardware.KernelTimes{
		Row: 10, Bag: 50, BagPower: .3, Update: 15, UpdatePower: .7, Prepare: 20,
	}, 100, 1}
	for _, pass := range passes() {
		f, err := fitDataOf(m, pass)
		if err != nil {
			return k, err
		}
		k = f.fit(k, pass)
	}
	return k, nil
}

// clockMisfits returns the misfits of the forward with fitted times, and with fitted cycles.
func clockMisfits(m *measurements) (times, cycles float64, err error) {
	f, err := fitDataOf(m, forwardPass)
	if err != nil {
		return 0, 0, err
	}
	start := shipped(m.device)
	k := f.fit(start, forwardPass)
	times = f.misfit(&k, forwardPass)
	f.cycles = true
	k = f.fit(start, forwardPass)
	return times, f.misfit(&k, forwardPass), nil
}
