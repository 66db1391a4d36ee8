package search

import (
	"math"
	"slices"
)

// The cost of a plan depends on the longest compute and the most columns of any device.
// Measured by these maxima alone, almost every change would be neither better nor
// worse, so the annealing uses soft maxima instead, power means over all devices:
//
//	goal = C * pm(compute / C) + column * D * pm(columns / D) + a little of the mean + shared
//
// If a part of the all-to-alls is hidden, only the rest of the second term counts in full, for
// each of the two all-to-alls.
//
// A hierarchical exchange adds a term for the columns of hosts, of the same form as the second
// term, and counts both terms in each direction.
//
// pm is the power mean, C and D are the largest compute and the largest number of
// columns at the start, and column is the time that all-to-alls take for each column of
// the device with the most columns. The sums of powers are kept, so a change of two
// devices takes a few multiplications.

const (
	// meanWeight is the weight of the mean compute in the goal: it tells placements apart
	// whose slowest devices cost the same.
	meanWeight = .05
	// sharpness sets how close the soft maxima are to maxima: a soft maximum is the power
	// mean with exponent 2^sharpness.
	sharpness = 5
	// hiddenColumnWeight is the weight of hidden all-to-alls in the goal if all slices are on
	// single devices. Their columns cost nothing, but a placement with balanced columns is a
	// better one to go on from: with all of them hidden, plans of five workloads cost 0.1 %
	// less than plans made with nothing hidden, and 0.6 % more with a weight of 0. Where
	// tables may take other forms, the weight is 0, because columns then compete with forms
	// that have none.
	hiddenColumnWeight = .5
	// leastScale is a lower limit of the scale of computes, as a share of the cost.
	leastScale = .02
)

// softSums are sums over the devices: of computes and columns, and of their powers for
// the soft maxima. alike is the time that every device spends on what all devices
// share, and hidden what is hidden of each all-to-all (Hiding).
type softSums struct {
	computeSum, dimSum, computePower, dimPower, alike float64
	hidden                                            [2]float64
	// moved is the number of bytes that move, if devices held tables before (from.go).
	moved int64
	// over is the number of bytes by which devices exceed their HBM, if these have a price.
	over int64
	// hostSum and hostPower are sums over the hosts of a hierarchical exchange: of their
	// columns, and of the powers of these.
	hostSum, hostPower float64
}

// scales are constants of the goal during an annealing.
type scales struct {
	// computeScale and dimScale are the largest compute and columns at the start.
	computeScale, dimScale float64
	// column is the time of all-to-alls for a column of the device with the most.
	// opening is their fixed time; it is 0 if every placement has them anyway.
	column, opening float64
	// hides is true if a part of the all-to-alls is hidden. Then columns and openings are the
	// times of the forward and of the backward all-to-all; column is the time of a column
	// that is not hidden at the start, and opening is not used.
	hides             bool
	columns, openings [2]float64
	// hiddenWeight is the weight of what is hidden.
	hiddenWeight float64
	// hostScale is the most columns of a host at the start, and hostColumn the time of a
	// column of the host with the most, in each direction; 0 if exchanges are flat.
	hostScale, hostColumn float64
}

// objective is what a layout minimises, with the values that it depends on.
type objective struct {
	// By device: the predicted compute, and the pooled columns.
	compute []float64
	dims    []int64
	// hostDims are the pooled columns by host, if the exchange is hierarchical; otherwise nil.
	hostDims []int64
	// slowest is the device with the longest compute, and mostColumns the device that sends
	// the most columns.
	slowest, mostColumns int32
	softSums
	scales
}

// rescale sets the sums and the scales. A scale is at least the given least value,
// because a placement that has little on single devices may get more there.
func (o *objective) rescale(alike, leastCompute, leastDims float64) {
	o.softSums = softSums{alike: alike, moved: o.moved, over: o.over}
	o.computeScale, o.dimScale = max(slices.Max(o.compute), leastCompute), max(float64(slices.Max(o.dims)), leastDims)
	for d := range o.compute {
		o.sum(int32(d), 1)
	}
	if o.hostDims != nil {
		o.hostScale = max(float64(slices.Max(o.hostDims)), leastDims)
	}
	for h := range o.hostDims {
		o.sumHost(int32(h), 1)
	}
}

// sumHost adds host h's share to the sums if sign is 1, and takes it out if sign is -1.
func (o *objective) sumHost(h int32, sign float64) {
	o.hostSum += sign * float64(o.hostDims[h])
	o.hostPower += sign * powered(float64(o.hostDims[h]), o.hostScale)
}

// hosts returns the soft maximum of the hosts' columns and their mean; both are 0 if exchanges are flat.
func (o *objective) hosts() (most, mean float64) {
	if n := float64(len(o.hostDims)); n > 0 {
		most, mean = o.hostScale*unpowered(o.hostPower/n), o.hostSum/n
	}
	return most, mean
}

// sum adds device d's share to the sums if sign is 1, and takes it out if sign is -1.
func (o *objective) sum(d int32, sign float64) {
	o.sumCompute(d, sign)
	o.sumColumns(d, sign)
}

func (o *objective) sumCompute(d int32, sign float64) {
	o.computeSum += sign * o.compute[d]
	o.computePower += sign * powered(o.compute[d], o.computeScale)
}

func (o *objective) sumColumns(d int32, sign float64) {
	o.dimSum += sign * float64(o.dims[d])
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
	x = max(0, x) // after values are added and taken away, sums of 0 end a little below 0
	for range sharpness {
		x = math.Sqrt(x)
	}
	return x
}

// goal returns the value that the annealing minimises.
func (o *objective) goal() float64 {
	n := float64(len(o.compute))
	if o.hides {
		most, _ := o.hosts()
		return o.computeScale*unpowered(o.computePower/n) + o.exposed(o.dimScale*unpowered(o.dimPower/n), most) + meanWeight*o.computeSum/n + o.alike
	}
	goal := o.computeScale*unpowered(o.computePower/n) + o.column*o.dimScale*unpowered(o.dimPower/n) + meanWeight*o.computeSum/n + o.alike
	if o.dimSum > 0 {
		goal += o.opening
	}
	return goal
}

// worth is the value that decides which tables are switched to other forms: the goal,
// and the goal if all devices had the mean compute and columns.
func (o *objective) worth() float64 {
	n := float64(len(o.compute))
	if o.hides {
		_, mean := o.hosts()
		return o.goal() + o.computeSum/n + o.exposed(o.dimSum/n, mean) + o.alike
	}
	return o.goal() + o.computeSum/n + o.column*o.dimSum/n + o.alike
}

// exposed returns what is not hidden of both all-to-alls, and a part of what is hidden, if the
// device with the most columns and the host with the most have the given numbers.
func (o *objective) exposed(columns, hostColumns float64) (left float64) {
	for i, hidden := range o.hidden {
		time := o.columns[i]*columns + o.hostColumn*hostColumns
		if o.dimSum > 0 {
			time += o.openings[i]
		}
		left += max(0, time-hidden) + o.hiddenWeight*min(time, hidden)
	}
	return left
}

// busiest returns the device with the largest value after the values of some devices
// changed. was is that device before the change.
func busiest[T float64 | int64](was int32, touched []int32, values []T) int32 {
	if slices.Contains(touched, was) {
		return first(values)
	}
	for _, d := range touched {
		if values[d] > values[was] {
			was = d
		}
	}
	return was
}

// first returns the first device with the largest value.
func first[T float64 | int64](values []T) (most int32) {
	for d, v := range values {
		if v > values[most] {
			most = int32(d)
		}
	}
	return most
}
