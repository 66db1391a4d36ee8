package simulate

import (
	"math"
	"math/bits"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// lanes.go says which share of a warp works on a bag, and counts the cycles that warps
// issue. A warp has W lanes, and a bag G of them, so W/G bags share a warp:
//
//	G = 8     bag0 bag1 bag2 bag3    up to 32 columns in a step
//	G = 16    bag0 ---- bag1 ----    up to 64
//	G = 32    bag0 --------------    up to 128
//
// Under LanesByWidest, the widest table of the operator decides on G for all its tables. So
// a wide table leaves most lanes idle in every narrow table of the operator. Under
// LanesByTable, each table has the G of its own width. Warps of 64 lanes are never shared.
// (hardware.Profile.Lanes states both.)
//
// Bags that share a warp end together, with the longest of them: a row step counts kappa
// times, which is the longest length over the mean. In the backward, each distinct row has
// a group of lanes of its own. There, kappa and the cost of a bag do not apply.
//
// The wide kernel. If the widest table of an operator has more than 1,024 columns, another
// forward kernel runs under LanesByWidest, on GPUs with warps of 32 lanes. It gives each
// bag a whole warp. In an unweighted table of long bags, the lanes that a narrow row
// leaves idle read other rows of the bag, so row steps cost as if the table had lanes of
// its own.
//
// AMD's GPUs. The backward of row-wise Adagrad in operators of up to 128 columns updates
// often used rows with groups of 32 of the 64 lanes.

const (
	// halvedColumns is the width of the widest table up to which AMD's kernel for often
	// used rows takes half the lanes, and halvedFrom the first use class of such rows
	// [read].
	halvedColumns, halvedFrom = 128, 6
	// halvedPower is the power of the share of lanes in that kernel's time [measured: the
	// median of eight published ratios].
	halvedPower = 0.76
)

// lanesOf returns the number of lanes of each bag of a table with the given dim.
func (w *work) lanesOf(dim int) int {
	switch {
	case w.lanes > 0:
		return w.lanes
	case w.rule == problem.LanesByTable:
		return w.device.profile.Lanes(dim)
	}
	return w.device.profile.Lanes(w.widest)
}

// room returns the bytes of the cache for the rows of a table with the given dim: all
// tables whose bags are in flight at the same time share the cache.
func (w *work) room(dim int) float64 {
	profile := &w.device.profile
	bags := float64(profile.SMs) * warpsPerSM * float64(profile.Warp()/w.lanesOf(dim))
	inFlight := max(1, math.Ceil(bags/w.batch))
	return w.device.Cache / min(inFlight, float64(w.tables))
}

// wide reports whether the wide kernel serves the forward of the operator.
func (w *work) wide() bool {
	return w.widest > WideColumns && w.rule == problem.LanesByWidest && w.lanes == 0 && w.device.profile.Warp() == 32
}

// issue returns the cycles that a table with lookups takes, forward and backward.
func (w *work) issue(t part, bags float64) (forward, backward float64) {
	d, n := w.device, t.counts.Lookups
	warp, lanes := d.profile.Warp(), w.lanesOf(t.dim)
	share := float64(lanes) / float64(warp)
	uses := n
	if warp == 64 && w.optimizer == problem.RowwiseAdagrad && w.widest <= halvedColumns && w.lanes == 0 {
		uses -= t.oftenUsed() * (1 - halvedCost)
	}
	backward = d.RowCycles * (uses + 2*t.counts.Unique) * rowSteps(t.dim, lanes) * backwardCosts[bits.TrailingZeros(uint(warp/lanes))]

	if !w.wide() {
		kappa := hardware.LongestBag(warp/lanes, t.lengthCV)
		return (d.RowCycles*n*rowSteps(t.dim, lanes)*kappa + d.BagCycles*bags) * share, backward
	}
	if !w.weighted && n > LongBags*bags {
		lanes = d.profile.Lanes(t.dim)
	}
	return d.RowCycles*n*rowSteps(t.dim, lanes)*float64(lanes)/float64(warp) + d.BagCycles*bags, backward
}

// rowSteps returns the steps in which a number of lanes reads a row of dim columns.
func rowSteps(dim, lanes int) float64 {
	columns := FloatsPerLane * lanes
	return float64((dim + columns - 1) / columns)
}

// halvedCost is the cycles of half the lanes over those of all.
var halvedCost = math.Pow(.5, halvedPower)

// backwardCosts are the cycles of a row in the backward over those of a whole warp, by the
// logarithm of the number of rows that share a warp.
var backwardCosts = func() (costs [7]float64) {
	for k := range costs {
		costs[k] = math.Pow(math.Ldexp(1, -k), BackwardLanesPower)
	}
	return costs
}()

// oftenUsed returns the lookups of rows in the use classes from halvedFrom on.
func (u *usage) oftenUsed() float64 {
	sum, often := 0.0, 0.0
	for j, share := range &u.counts.Reuse {
		uses := share * means[j]
		sum += uses
		if j >= halvedFrom {
			often += uses
		}
	}
	if sum == 0 {
		return 0
	}
	return u.counts.Lookups * often / sum
}
