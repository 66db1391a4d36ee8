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

// objective is what a layout minimises, with what it depends on.
type objective struct {
	// By device: the predicted compute, and the pooled columns.
	compute []float64
	dims    []int64
	// slowest is the device with the longest compute.
	slowest int32
	softSums
	scales
}

// rescale sets the sums and what they are relative to. Neither scale is below the given
// least one: a placement that has little on single devices may get more there.
func (o *objective) rescale(alike, leastCompute, leastDims float64) {
	o.softSums = softSums{alike: alike}
	o.computeScale, o.dimScale = max(slices.Max(o.compute), leastCompute), max(float64(slices.Max(o.dims)), leastDims)
	for d := range o.compute {
		o.sum(int32(d), 1)
	}
}

// sum adds what device d takes to the sums, or takes it out.
func (o *objective) sum(d int32, sign float64) {
	o.computeSum += sign * o.compute[d]
	o.dimSum += sign * float64(o.dims[d])
	o.computePower += sign * powered(o.compute[d], o.computeScale)
	o.dimPower += sign * powered(float64(o.dims[d]), o.dimScale)
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
func (o *objective) goal() float64 {
	n := float64(len(o.compute))
	goal := o.computeScale*unpowered(o.computePower/n) + o.column*o.dimScale*unpowered(o.dimPower/n) + meanWeight*o.computeSum/n + o.alike
	if o.dimSum > 0 {
		goal += o.opening
	}
	return goal
}

// worth is what counts when tables are switched to other forms: the goal, and what it
// would be if all devices took the mean.
func (o *objective) worth() float64 {
	n := float64(len(o.compute))
	return o.goal() + o.computeSum/n + o.column*o.dimSum/n + o.alike
}

// findSlowest finds the device with the longest compute.
func (o *objective) findSlowest() {
	o.slowest = 0
	for d, t := range o.compute {
		if t > o.compute[o.slowest] {
			o.slowest = int32(d)
		}
	}
}
