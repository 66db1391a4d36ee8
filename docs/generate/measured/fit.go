package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/rank"
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

// version3 returns the constants of version 3 of the simulated device. It counted cycles, of the
// clock of the profile.
func version3(clock float64) constants {
	const row, bag = 27.3, 4.8
	return constants{hardware.KernelTimes{
		Row: row / clock, Bag: bag / clock, BagPower: 1, Update: row / clock, UpdatePower: .8,
	}, 0, 1 / hardware.LengthFactor}
}

// version4 returns the constants of the simulated device.
func version4(d simulate.Device) constants {
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
	f := fitData{device: m.device, points: m.fbgemm.lanes.fitPoints()}
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

// fittedTable has the constants of version 3, those that fit and those of the simulated device,
// and the errors of the first and the last: on the points of the fit, and on the anchors and
// groups, which are in no fit.
func fittedTable(m *measurements) (string, error) {
	found, err := fitBoth(m)
	if err != nil {
		return "", err
	}
	old, now := version3(m.device.Profile().ClockGHz), version4(m.device)
	var b strings.Builder
	fmt.Fprint(&b, "| constants | forward: row, ns | bag, ns | power of the lanes | overhead of a row, bytes | backward: row, ns | power of the lanes | bag, ns |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, k := range []struct {
		name string
		of   constants
	}{{"version 3, at the clock of `h200`", old}, {"fitted", found}, {"version 4", now}} {
		fmt.Fprintf(&b, "| %s | %.2f | %.1f | %.3f | %.0f | %.1f | %.3f | %.1f |\n", k.name, k.of.Row, k.of.Bag, k.of.BagPower, k.of.overhead, k.of.Update, k.of.UpdatePower, k.of.Prepare)
	}
	times, cycles, err := clockMisfits(m)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "\nThe sum of squared logarithms of predicted over measured forwards is %.1f, and %.1f at best if the times follow the clock.\n", times, cycles)
	fmt.Fprint(&b, "\n| pass | times | number | in the fit | simulated over measured, version 3 | version 4 | Kendall's tau, version 3 | version 4 |\n|---|---|--:|---|--:|--:|--:|--:|\n")
	sets, err := fitSets(m)
	if err != nil {
		return "", err
	}
	for _, pass := range passes() {
		for _, set := range sets {
			fmt.Fprintf(&b, "| %s | %s | %d | %s |", pass, set.name, len(set.points), set.used)
			var taus [2]float64
			for i, k := range []constants{old, now} {
				var ratios []float64
				ratios, taus[i] = set.errors(&k, m.device, pass)
				fmt.Fprintf(&b, " %.2f (%.2f-%.2f) |", median(ratios), quantile(ratios, .05), quantile(ratios, .95))
			}
			fmt.Fprintf(&b, " %.3f | %.3f |\n", taus[0], taus[1])
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// clockMisfits returns the misfits of the forward with fitted times, and with fitted cycles.
func clockMisfits(m *measurements) (times, cycles float64, err error) {
	f, err := fitDataOf(m, forwardPass)
	if err != nil {
		return 0, 0, err
	}
	start := version4(m.device)
	k := f.fit(start, forwardPass)
	times = f.misfit(&k, forwardPass)
	f.cycles = true
	k = f.fit(start, forwardPass)
	return times, f.misfit(&k, forwardPass), nil
}

// A fitSet is points with a name for the table. used is yes if they are in the fit.
type fitSet struct {
	name, used string
	points     []point
}

// fitSets returns the points of FBGEMM's kernels without weights, by what they measure.
func fitSets(m *measurements) ([]fitSet, error) {
	samples, err := samplePoints(filepath.Join(m.folder, fbgemm, "samples"))
	if err != nil {
		return nil, err
	}
	samples = slices.DeleteFunc(samples, func(p point) bool { return p.op.Weighted })
	var anchors []point
	for _, mode := range modes() {
		if !mode.weighted {
			anchors = append(anchors, m.fbgemm.anchors.points(mode)...)
		}
	}
	return []fitSet{
		{"eight tables, alone and beside the wide one", "yes", m.fbgemm.lanes.fitPoints()},
		{"one table", "no", anchors},
		{"groups without Adam", "no", ofAdam(samples, false)},
		{"groups of Adam", "no", ofAdam(samples, true)},
	}, nil
}

// errors returns the predicted over the measured times, and Kendall's tau of both.
func (s *fitSet) errors(k *constants, d simulate.Device, pass string) (ratios []float64, tau float64) {
	var predicted, measured []float64
	for _, p := range s.points {
		t := k.predict(d, p.op, pass)
		ratios, predicted, measured = append(ratios, t/p.measured(pass)), append(predicted, t), append(measured, p.measured(pass))
	}
	return ratios, rank.Kendall(predicted, measured)
}

// ofAdam returns the points of operators with Adam, or those of all others.
func ofAdam(points []point, adam bool) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return (p.op.Optimizer == problem.Adam) != adam })
}
