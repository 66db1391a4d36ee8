package simulate

import (
	"math"
	"math/bits"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// lanes.go says which share of a warp works on a bag, and counts the time that warps take of
// the multiprocessors. A warp has W lanes, and a bag G of them, so W/G bags share a warp:
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
// a group of lanes of its own, and an often used row whole blocks of warps. There, kappa does not
// apply; a bag costs the same time whatever its lanes, before indices are sorted.
//
// The wide kernel. If the widest table of an operator has more than 1,024 columns, another
// forward kernel runs under LanesByWidest, on GPUs with warps of 32 lanes. It gives each
// bag a whole warp. In an unweighted table of long bags, the lanes that a narrow row
// leaves idle read other rows of the bag, so row steps cost as if the table had lanes of
// its own.
//
// AMD's GPUs. The backward of row-wise Adagrad in operators of up to 128 columns updates
// often used rows with groups of 32 of the 64 lanes.

// HalvedColumns is the width of the widest table up to which AMD's kernel for often used
// rows takes half the lanes [read].
const HalvedColumns = 128

const (
	// halvedPower is the power of the share of lanes in that kernel's time [measured: the
	// median of eight published ratios].
	halvedPower = 0.76
)

// room returns the bytes of the cache for the rows of a table with the given dim: all
// tables whose bags are in flight at the same time share the cache.
func (w *work) room(dim int) float64 {
	profile := &w.device.profile
	bags := float64(profile.SMs) * warpsPerSM * float64(profile.Warp()/lanesOf(&w.device.profile, w.rule, w.lanes, dim, w.widest))
	inFlight := max(1, math.Ceil(bags/w.batch))
	return w.device.Cache / min(inFlight, float64(w.tables))
}

// issue returns the time of multiprocessors that a table with lookups takes, forward and backward,
// in ns of one of them. misses are the row reads that go to memory.
func (w *work) issue(t part, bags, misses float64) (forward, backward float64) {
	s := Warps{
		Dim: t.dim, Widest: w.widest, LaneRule: w.rule, Lanes: w.lanes, Optimizer: w.optimizer, Weighted: w.weighted, Half: w.weightBytes == 2,
		Pooling: w.pooling, Bags: bags, LengthCV: t.lengthCV, Misses: misses, Counts: &t.counts,
	}
	return s.Nanos(w.device)
}

// Warps holds what the time of the warps depends on, for a table, or a slice or block of one, in
// an operator.
type Warps struct {
	// Dim is the columns of the slice, and Widest those of the widest slice of its operator.
	Dim, Widest int
	// LaneRule and Lanes are as in Op.
	LaneRule problem.LaneRule
	Lanes    int
	// Optimizer, Weighted and Pooling are those of the operator, and Half says that elements of rows
	// take two bytes.
	Optimizer      problem.Optimizer
	Weighted, Half bool
	Pooling        problem.Pooling
	// Bags is the bags of a batch, and LengthCV the coefficient of variation of their
	// lengths.
	Bags, LengthCV float64
	// Misses are the row reads of the forward that go to memory.
	Misses float64
	// Counts are the accesses of a batch to the table. They must not change meanwhile.
	Counts *access.Counts
}

// lanesOf returns the number of lanes of each bag of a slice of dim columns, in an operator
// whose widest slice has widest columns: the given number, or that of the rule for 0.
func lanesOf(p *hardware.Profile, rule problem.LaneRule, lanes, dim, widest int) int {
	switch {
	case lanes > 0:
		return lanes
	case rule == problem.LanesByTable:
		return p.Lanes(dim)
	}
	return p.Lanes(widest)
}

// Nanos returns the time, forward and backward, that the warps take of the multiprocessors of a
// device, in ns of one of them.
func (s *Warps) Nanos(d *Device) (forward, backward float64) {
	n, warp, lanes := s.Counts.Lookups, d.profile.Warp(), lanesOf(&d.profile, s.LaneRule, s.Lanes, s.Dim, s.Widest)
	k := d.timesOf(s.Pooling)
	shared := bits.TrailingZeros(uint(warp / lanes))
	uses := n
	often, blocks := s.Counts.Often()
	if warp == 64 && s.Optimizer == problem.RowwiseAdagrad && s.Widest <= HalvedColumns && s.Lanes == 0 {
		uses -= often * (1 - halvedCost)
	}
	backward = k.Backward(uses, s.Counts.Unique, blocks, s.Optimizer != problem.SGD, s.Half) * rowSteps(s.Dim, lanes) * k.updateShares[shared]

	wide := s.Widest > WideColumns && s.LaneRule == problem.LanesByWidest && s.Lanes == 0 && warp == 32
	if !wide {
		kappa := hardware.LongestBag(warp/lanes, hardware.LengthFactor*s.LengthCV)
		return (k.Row*n*kappa+k.Miss*s.Misses)*rowSteps(s.Dim, lanes)*float64(lanes)/float64(warp) + k.Bag*s.Bags*k.bagShares[shared], backward
	}
	if !s.Weighted && n > LongBags*s.Bags {
		lanes = d.profile.Lanes(s.Dim)
	}
	return (k.Row*n+k.Miss*s.Misses)*rowSteps(s.Dim, lanes)*float64(lanes)/float64(warp) + k.Bag*s.Bags, backward
}

// kernelTimes is the times of a device's kernels, with the shares of them that parts of a warp take,
// by the logarithm of the number of parts.
type kernelTimes struct {
	hardware.KernelTimes
	bagShares, updateShares [7]float64
}

func newKernelTimes(t hardware.KernelTimes) kernelTimes {
	k := kernelTimes{KernelTimes: t}
	for i := range k.bagShares {
		part := math.Ldexp(1, -i)
		k.bagShares[i], k.updateShares[i] = math.Pow(part, t.BagPower), math.Pow(part, t.UpdatePower)
	}
	return k
}

// rowSteps returns the steps in which a number of lanes reads a row of dim columns.
func rowSteps(dim, lanes int) float64 {
	columns := FloatsPerLane * lanes
	return float64((dim + columns - 1) / columns)
}

// halvedCost is the time of half the lanes over that of all.
var halvedCost = math.Pow(.5, halvedPower)
