package search

import (
	"math"
	"slices"
)

// What counts in the end is the longest compute and the most columns on a device. Under
// these alone, all but a few changes would be neither better nor worse, so the annealing
// goes by soft maxima, power means over all devices:
//
//	goal = C * pm(compute / C) + column * D * pm(columns / D) + a little of the mean + shared
//
// pm is the power mean, C and D are the largest compute and columns at the start, column
// is the time of an all-to-all for each column of the device that has most. The sums of
// powers are kept, so a change of two devices takes a few multiplications.

const (
	// meanWeight is the weight of the mean compute in the goal: it tells apart
	// placements whose slowest device is the same.
	meanWeight = .05
	// sharpness is that of the soft maxima: the mean of the 2^sharpness-th powers, to
	// the power of one over that.
	sharpness = 5
	// leastScale is the least compute that soft maxima are relative to, as a share of
	// the cost.
	leastScale = .02
)

// softSums are sums over the devices: of computes and columns, and of the powers of
// soft maxima. alike is the time that all devices spend alike.
type softSums struct{ computeSum, dimSum, computePower, dimPower, alike float64 }

// scales are constants of the goal while an annealing runs.
type scales struct {
	// computeScale and dimScale are the largest compute and columns at the start.
	computeScale, dimScale float64
	// column is the time of all-to-alls for a column of the device with the most.
	// opening is their fixed time; it is 0 if every placement has them anyway.
	column, opening float64
}

// begin readies the layout for changes from the parts that are in it.
func (l *layout) begin() {
	for d := range l.compute {
		l.compute[d] = l.scorer.Compute(d)
	}
	l.best = l.scorer.Cost()
	l.scale()
	l.column, l.opening = 0, 0
	if l.mixed {
		l.probe()
	} else if most := slices.Max(l.dims); most > 0 {
		l.column = max(0, l.best-slices.Max(l.compute)-l.alike) / float64(most)
	}
	l.findSlowest()
}

// scale sets the sums and what they are relative to.
func (l *layout) scale() {
	l.softSums = softSums{}
	l.computeScale, l.dimScale = slices.Max(l.compute), float64(slices.Max(l.dims))
	if l.mixed {
		l.alike = l.scorer.Shared()
		// A placement of which little is on single devices may get more there.
		l.computeScale, l.dimScale = max(l.computeScale, leastScale*l.best), max(l.dimScale, 1)
	}
	for d := range l.compute {
		l.sum(int32(d), 1)
	}
}

// sum adds what device d takes to the sums, or takes it out.
func (l *layout) sum(d int32, sign float64) {
	l.computeSum += sign * l.compute[d]
	l.dimSum += sign * float64(l.dims[d])
	l.computePower += sign * powered(l.compute[d], l.computeScale)
	l.dimPower += sign * powered(float64(l.dims[d]), l.dimScale)
}

// powered returns (x/scale)^(2^sharpness), and 0 where the scale is 0.
func powered(x, scale float64) float64 {
	if scale == 0 {
		return 0
	}
	x /= scale
	for range sharpness {
		x *= x
	}
	return x
}

// unpowered is the inverse of powered at scale 1.
func unpowered(x float64) float64 {
	x = max(0, x) // sums that are taken apart end a little below 0
	for range sharpness {
		x = math.Sqrt(x)
	}
	return x
}

// goal is what is minimised.
func (l *layout) goal() float64 {
	n := float64(len(l.compute))
	goal := l.computeScale*unpowered(l.computePower/n) + l.column*l.dimScale*unpowered(l.dimPower/n) + meanWeight*l.computeSum/n + l.alike
	if l.dimSum > 0 {
		goal += l.opening
	}
	return goal
}

// worth is what counts when tables are switched to other forms: the goal, and what it
// would be if all devices took the mean.
func (l *layout) worth() float64 {
	n := float64(len(l.compute))
	return l.goal() + l.computeSum/n + l.column*l.dimSum/n + l.alike
}

// probe finds what a column of the device with the most takes of the all-to-alls, and
// their fixed time: by two slices that are put there and taken off again.
func (l *layout) probe() {
	i := slices.IndexFunc(l.forms.whole, func(k int32) bool { return l.c.pieces[k].dims > 0 && len(l.c.pieces[k].members) == 1 })
	if i < 0 {
		return
	}
	probe := &l.c.pieces[l.forms.whole[i]]
	l.c.register(probe)
	device := 0
	for d, columns := range l.dims {
		if columns > l.dims[device] {
			device = d
		}
	}
	item, columns := probe.members[0].item, float64(probe.dims)
	var exchange [2]float64
	for i := range exchange {
		l.scorer.Add(device, item)
		longest := l.scorer.Compute(device)
		for d, t := range l.compute {
			if d != device {
				longest = max(longest, t)
			}
		}
		exchange[i] = l.scorer.Cost() - longest - l.scorer.Shared()
	}
	l.scorer.Remove(device, item)
	l.scorer.Remove(device, item)
	l.column = max(0, (exchange[1]-exchange[0])/columns)
	l.opening = max(0, exchange[0]-l.column*(float64(l.dims[device])+columns))
}
