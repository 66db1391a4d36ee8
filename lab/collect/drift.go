package collect

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/unit"
)

// drift.go detects a device that changes its speed, by a sample that is measured
// again and again: the anchor.
//
//	anchor  s s s ... s  anchor  s s s ... s  anchor
//	   '---- a block ------'  '---- a block -----'
//
// A block is steady if the two anchors around it differ by at most the limit, and
// each of them differs from the median of all anchors by at most the limit. Because
// of the median, one bad anchor affects only the blocks next to it. While a run
// measures, the median of the anchors so far decides which blocks are measured
// again. When all samples are measured, the median of all anchors decides which
// blocks are quarantined. So if a device changes to another speed for good, the
// blocks at the rarer speed are quarantined, whichever came first.

// anchorTries is the number of measurements of an anchor if one is not enough: for
// the first anchor, and for an anchor beyond the limit. The median counts, so that
// one slow measurement of the anchor is not taken for drift.
const anchorTries = 3

// anchor is one anchor with its final times.
type anchor struct {
	after int
	tries []times
	cost  unit.Millis
}

func newAnchor(after int, tries []times) anchor {
	return anchor{after, tries, middle(tries)}
}

// middle returns the median of the costs.
func middle(tries []times) unit.Millis {
	costs := make([]unit.Millis, len(tries))
	for i := range tries {
		costs[i] = tries[i].cost()
	}
	return stats.Median(costs)
}

// cost is the number that shows drift: for a group the sum of forward and backward; for an
// exchange the slowest backward, because the forward contains a wait.
func (t *times) cost() unit.Millis {
	if len(t.Backward) > 1 {
		return slices.Max(t.Backward)
	}
	return t.Forward[0] + t.Backward[0]
}

// block holds the indices of the two anchors around some samples.
type block struct{ opening, closing int }

// steady reports whether a block's anchors are within the limit of each other and
// of a reference.
func steady(opening, closing, reference unit.Millis, limit float64) bool {
	return !apart(opening, closing, limit) && !apart(opening, reference, limit) && !apart(closing, reference, limit)
}

// apart reports whether two times differ by more than a share of the second.
func apart(a, b unit.Millis, limit float64) bool {
	return math.Abs(float64(a-b)) > limit*float64(b)
}

// reference returns the median of anchors.
func reference(anchors []anchor) unit.Millis {
	costs := make([]unit.Millis, len(anchors))
	for i := range anchors {
		costs[i] = anchors[i].cost
	}
	return stats.Median(costs)
}
