package collect

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/unit"
)

// drift.go tells a device that changes from one that stays the same, by a sample
// that is measured again and again: the anchor.
//
//	anchor  s s s ... s  anchor  s s s ... s  anchor
//	   '---- a block ------'  '---- a block -----'
//
// A block is steady where the two anchors around it differ by no more than the
// limit, and neither is further than the limit from the median of all anchors. The
// median makes one bad anchor cost the blocks beside it and no more. While
// measuring, the median is that of the anchors so far and decides what is
// measured again; when all is done it is that of all anchors, and decides what is
// quarantined. So a device that settles on another speed gets those blocks
// quarantined that are in the minority, whichever came first.

// anchorTries is how often an anchor is measured where one measurement is not
// enough: the first of all, and one that is off. That of middling time counts, so
// that a hiccup during the anchor itself is not taken for drift.
const anchorTries = 3

// anchor is one settled anchor.
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
	return median(costs)
}

// cost is the one number that drift is told by: of a group its forward and
// backward, of an exchange the slowest backward, which unlike the forward has no
// wait in it.
func (t *times) cost() unit.Millis {
	if len(t.Backward) > 1 {
		return slices.Max(t.Backward)
	}
	return t.Forward[0] + t.Backward[0]
}

// block is the samples between two anchors, given by index.
type block struct{ opening, closing int }

// steady reports whether a block's anchors are within the limit of one another
// and of a reference.
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
	return median(costs)
}

// median returns the median, the mean of the two in the middle of an even number.
// It sorts the values, of which there is at least one.
func median(values []unit.Millis) unit.Millis {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
