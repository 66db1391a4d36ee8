package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// lanes.go counts the time in which warps issue, by lane class. The classes of an operation
// depend on the lanes of a warp and on the lane rule:
//
//	32 lanes, LanesByWidest   8, 16 and 32 lanes; and operators with a slice of more than
//	                          1,024 columns
//	32 lanes, LanesByTable    one class: each slice has the lanes of its own width
//	64 lanes                  one class; with row-wise Adagrad, operators of at most 128
//	                          columns are another
//
// A class says how wide its widest slice may be. A narrower slice may be in any class,
// beside wider slices.

// laneClasses is the largest number of lane classes of an operation.
const laneClasses = 4

// laneClass is a lane class of the operators of an operation.
type laneClass struct {
	// widest is the widest slice that the class may have, in granules.
	widest int
	// columns stands for the columns of the widest slice: operators of the class take the
	// same time with any widest slice.
	columns int
	// forwards is how often the norm of the forward counts: once, and again in the
	// backward of weighted operators.
	forwards float64
}

// laneClassesOf returns the lane classes of an operation whose widest table has the given
// granules.
func laneClassesOf(p hardware.Profile, o problem.Operation, granules int) []laneClass {
	var most []int // the most columns of each class but the last
	switch {
	case p.Warp() == 32 && o.LaneRule == problem.LanesByWidest:
		for columns := problem.ColumnGranule; columns < simulate.WideColumns; columns += problem.ColumnGranule {
			if p.Lanes(columns) != p.Lanes(columns+problem.ColumnGranule) {
				most = append(most, columns)
			}
		}
		most = append(most, simulate.WideColumns)
	case p.Warp() == 64 && o.Optimizer == problem.RowwiseAdagrad:
		most = append(most, simulate.HalvedColumns)
	}
	forwards := 1.0
	if o.Weighted {
		forwards += simulate.WeightedShare
	}
	var list []laneClass
	before := 0
	for _, columns := range append(most, math.MaxInt) {
		if granules > before {
			list = append(list, laneClass{columns / problem.ColumnGranule, columns, forwards})
		}
		before = columns / problem.ColumnGranule
	}
	return list
}

// issuing counts the time in which warps issue for slices of one table.
type issuing struct {
	*simulate.Device
	warps simulate.Warps
}

func newIssuing(d *simulate.Device, p *problem.Problem, i int, c access.Counts) issuing {
	t, o := &p.Tables[i], p.Operation(i)
	return issuing{d, simulate.Warps{
		LaneRule: o.LaneRule, Optimizer: o.Optimizer, Weighted: o.Weighted, Half: o.Precision.Bytes() == 2, Pooling: t.Pooling,
		Bags: float64(p.Batch) * t.Bags(), LengthCV: t.LengthCV(), Counts: &c,
	}}
}

// slice returns the times, in ms, forward and backward, of a slice of the given columns in
// an operator of lane class c, with the given misses.
func (u *issuing) slice(c *laneClass, columns int, misses float64) (forward, backward float64) {
	u.warps.Dim, u.warps.Widest, u.warps.Misses = columns, c.columns, misses
	forward, backward = u.warps.Nanos(u.Device)
	return forward / u.Issue, backward / u.Issue
}

// wide returns the times of a slice of the given columns, so wide that a whole warp works
// on a bag, as if a row took the same share of a step for each column.
func (u *issuing) wide(c *laneClass, columns int, misses float64) (forward, backward float64) {
	step := u.Profile().Warp() * simulate.FloatsPerLane // the columns of a step
	forward, backward = u.slice(c, step, misses)
	two, twoBack := u.slice(c, 2*step, misses)
	more := float64(columns-step) / float64(step)
	return forward + more*(two-forward), backward + more*(twoBack-backward)
}
