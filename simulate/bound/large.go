package bound

import (
	"math"
	"slices"
)

// large.go counts large slices. The relaxation of node.go spreads a slice over several devices, so it fills all
// devices with parts of slices. In a placement, a slice of 0.6 of the room of a device (rooms.go) leaves 0.4
// of the room, and another slice of 0.6 does not fit.
//
// Each of five limits gives a slice a share by its size, which is its time divided by the room. For
// slices that together have at most the room, the shares of a limit add up to at most 1:
//
//	size above    1/7   1/4   2/7   1/3  0.42   3/7   1/2   4/7  0.58   2/3   5/7   3/4   6/7
//	halves         0     0     0     0     0     0     1     1     1     1     1     1     1
//	thirds         0     0     0    1/2   1/2   1/2   1/2   1/2   1/2    1     1     1     1
//	quarters       0    1/3   1/3   1/3   1/3   1/3   2/3   2/3   2/3   2/3   2/3    1     1
//	sevenths      1/6   1/6   2/6   2/6   2/6   3/6   3/6   4/6   4/6   4/6   5/6   5/6    1
//	pairs          0     0     0     0    1/2   1/2   1/2   1/2    1     1     1     1     1
//
// In a limit of n-ths, a slice has the share k/(n-1), where k is the largest number with a size above k/n. If
// shares add up to more than 1, the numbers k of the slices add up to n at least, so the slices take more than n/n
// of the room. In the limit of pairs, three slices of the share 1/2 take more than 3 times 0.42 of the room, and
// slices of the shares 1/2 and 1 take more than 0.42 + 0.58 of it.

// The limits of large slices, and a step of the limit of pairs.
const (
	largeLimits = 5
	pairStep    = 0.42
)

// largeParts are the numbers n of all limits but that of pairs.
var largeParts = [largeLimits - 1]int{2, 3, 4, 7}

// largeSteps are the sizes at which a limit has a higher share, ascending. A slice is in class c if its size is
// above the first c of them.
var largeSteps = stepsOf()

// largeShares are the shares of the limits, by limit and class.
var largeShares = [largeLimits][]float64(sharesOfClasses())

// stepsOf returns the steps of all limits.
func stepsOf() (steps []float64) {
	for _, n := range largeParts {
		for k := 1; k < n; k++ {
			steps = append(steps, float64(k)/float64(n))
		}
	}
	steps = append(steps, pairStep, 1-pairStep)
	slices.Sort(steps)
	return slices.Compact(steps)
}

// sharesOfClasses returns the shares of each limit, by class.
func sharesOfClasses() (shares [][]float64) {
	of := func(share func(step float64) float64) {
		all := make([]float64, len(largeSteps)+1)
		for c, step := range largeSteps {
			all[c+1] = share(step)
		}
		shares = append(shares, all)
	}
	for _, n := range largeParts {
		// Rounding errors of the product must not make it smaller.
		of(func(step float64) float64 { return math.Floor(step*float64(n)*(1+rounding)) / float64(n-1) })
	}
	of(func(step float64) float64 {
		switch {
		case step >= 1-pairStep:
			return 1
		case step >= pairStep:
			return 0.5
		}
		return 0
	})
	return shares
}

// largeClassOf returns the class of a slice that takes the given time of the room of a device.
func largeClassOf(time, room float64) (class int) {
	room *= 1 + 2*rounding
	for class < len(largeSteps) && time > largeSteps[class]*room {
		class++
	}
	return class
}

// priceOfClass returns the price of the shares of a large slice, at the prices p.
func priceOfClass(p *load, class int) float64 {
	v := 0.0
	for i := range largeShares {
		v += p[large+i] * largeShares[i][class]
	}
	return v
}
