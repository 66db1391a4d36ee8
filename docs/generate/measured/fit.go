package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/rank"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// A kernelFit is constants of the formulas of one pass in the place of those of the simulated
// device. Cycles are of a whole warp, and a bag of G of its W lanes takes (G/W)^power of them.
// The simulated device has a power of 1 forward and of 0.8 backward.
type kernelFit struct {
	row, rowPower, bag, bagPower float64
	// stream is a factor of the memory's bandwidth; lengthCV is the coefficient of variation
	// that stands for exponential lengths, which have 1; eachBag is added for each bag, in ns.
	stream, lengthCV, eachBag float64
}

// device returns the simulated device with the constants, for operators of lanes a bag. power
// is that of the simulated device.
func (k *kernelFit) device(d simulate.Device, lanes int, power float64) simulate.Device {
	share := float64(lanes) / 32
	d.RowCycles = k.row * math.Pow(share, k.rowPower-power)
	d.BagCycles = k.bag * math.Pow(share, k.bagPower-1)
	d.Stream *= k.stream
	return d
}

// predict returns the time of a pass of an operator, in ms. All its bags have the same lanes.
func (k *kernelFit) predict(d *simulate.Device, op simulate.Op, pass string) float64 {
	widest := 0
	for i := range op.Tables {
		widest = max(widest, op.Tables[i].Dim)
	}
	lanes := d.Profile().Lanes(widest)
	op.Tables = slices.Clone(op.Tables)
	for i := range op.Tables {
		op.Tables[i].LengthCV *= k.lengthCV
	}
	power := 1.0
	if pass == backwardPass {
		power = simulate.BackwardLanesPower
	}
	fitted := k.device(*d, lanes, power)
	p := point{op: op}
	return p.simulated(&fitted, pass) + k.added(op)
}

// added returns the time that is added to that of the formulas, in ms.
func (k *kernelFit) added(op simulate.Op) float64 {
	bags := 0.0
	for i := range op.Tables {
		bags += float64(op.Batch) * cmp.Or(op.Tables[i].Bags, 1)
	}
	return k.eachBag * bags / 1e6
}

// version3 are the constants of the simulated device.
func version3(pass string, row, bag float64) kernelFit {
	k := kernelFit{row: row, rowPower: 1, bag: bag, bagPower: 1, stream: 1, lengthCV: 1}
	if pass == backwardPass {
		k.rowPower = simulate.BackwardLanesPower
	}
	return k
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

// misfit returns the sum of the squared logarithms of predicted over measured times.
func (k *kernelFit) misfit(d *simulate.Device, points []point, pass string) float64 {
	sum := 0.0
	for _, p := range points {
		off := math.Log(k.predict(d, p.op, pass) / p.measured(pass))
		sum += off * off
	}
	return sum
}

// free returns the constants of a pass that are fitted.
func (k *kernelFit) free(pass string) []*float64 {
	if pass == forwardPass {
		return []*float64{&k.row, &k.rowPower, &k.bag, &k.bagPower, &k.stream, &k.lengthCV}
	}
	return []*float64{&k.row, &k.rowPower, &k.eachBag}
}

// fitKernels searches constants for a pass by factors of each, which come nearer to 1 where
// none is an improvement.
func fitKernels(d *simulate.Device, points []point, pass string, start kernelFit) kernelFit {
	best := start
	least := best.misfit(d, points, pass)
	for step := .5; step > .004; {
		improved := false
		for i := range best.free(pass) {
			for _, factor := range []float64{math.Exp(step), math.Exp(-step)} {
				try := best
				*try.free(pass)[i] *= factor
				if off := try.misfit(d, points, pass); off < least {
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

// fittedTable has constants that fit the lanes experiment with FBGEMM's kernels, and the
// errors of the simulated device's and the fitted constants: on the points of the fit, and on
// the anchors and groups, which are in no fit.
func fittedTable(m *measurements) (string, error) {
	row, bag := m.device.Profile().IssueCycles()
	var constants, errors strings.Builder
	fmt.Fprint(&constants, "| pass | constants | row, cycles | power of the lanes | bag, cycles | power of the lanes | bandwidth of memory | variation of exponential lengths | each bag, ns |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	fmt.Fprint(&errors, "| pass | times | number | in the fit | simulated over measured, version 3 | fitted | Kendall's tau, version 3 | fitted |\n|---|---|--:|---|--:|--:|--:|--:|\n")
	points := m.fbgemm.lanes.fitPoints()
	samples, err := samplePoints(filepath.Join(m.folder, fbgemm, "samples"))
	if err != nil {
		return "", err
	}
	samples = slices.DeleteFunc(samples, func(p point) bool { return p.op.Weighted })
	var anchors []point
	for _, mode := range modes() {
		if !mode.weighted {
			anchors = append(anchors, m.fbgemm.anchors.points(mode)...)
		}
	}
	for _, pass := range passes() {
		old := version3(pass, row, bag)
		start := old
		start.bag = 60
		if pass == backwardPass {
			start.eachBag = .1
		}
		found := fitKernels(&m.device, points, pass, start)
		for _, k := range []struct {
			name string
			of   kernelFit
		}{{"version 3", old}, {"fitted", found}} {
			bags, stream, cv, each := " | ", "", "", fmt.Sprintf("%.2f", k.of.eachBag) // of the backward
			if pass == forwardPass {
				bags = fmt.Sprintf("%.1f | %.2f", k.of.bag, k.of.bagPower)
				stream, cv, each = fmt.Sprintf("%.2f", k.of.stream), fmt.Sprintf("%.2f", k.of.lengthCV), ""
			}
			fmt.Fprintf(&constants, "| %s | %s | %.1f | %.2f | %s | %s | %s | %s |\n", pass, k.name, k.of.row, k.of.rowPower, bags, stream, cv, each)
		}
		for _, set := range []struct {
			name, used string
			points     []point
		}{{"eight tables, alone and beside the wide one", "yes", points}, {"one table", "no", anchors}, {"groups without Adam", "no", ofAdam(samples, false)}, {"groups of Adam", "no", ofAdam(samples, true)}} {
			fmt.Fprintf(&errors, "| %s | %s | %d | %s |", pass, set.name, len(set.points), set.used)
			var taus [2]float64
			for i, k := range []kernelFit{old, found} {
				var ratios, predicted, measured []float64
				for _, p := range set.points {
					t := k.predict(&m.device, p.op, pass)
					ratios, predicted, measured = append(ratios, t/p.measured(pass)), append(predicted, t), append(measured, p.measured(pass))
				}
				taus[i] = rank.Kendall(predicted, measured)
				fmt.Fprintf(&errors, " %.2f (%.2f-%.2f) |", median(ratios), quantile(ratios, .05), quantile(ratios, .95))
			}
			fmt.Fprintf(&errors, " %.3f | %.3f |\n", taus[0], taus[1])
		}
	}
	return constants.String() + "\n" + strings.TrimSpace(errors.String()), nil
}

// ofAdam returns the points of operators with Adam, or those of all others.
func ofAdam(points []point, adam bool) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return (p.op.Optimizer == problem.Adam) != adam })
}
