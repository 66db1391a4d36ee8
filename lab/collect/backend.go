package collect

import (
	"context"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Backend measures the times of fused operations and of all-to-alls. One goroutine
// at a time uses it.
type Backend interface {
	// Provenance states what measures the times: the dataset's provenance without the
	// fields that the design states (seed, design, tool).
	Provenance() dataset.Provenance
	// Compute runs the fused forward and backward of a group and returns its times.
	// The members of the group index tables. The tables of one collection do not
	// change.
	Compute(ctx context.Context, tables []problem.Table, g *dataset.Group) (Timing, error)
	// Comm runs the all-to-alls of an exchange, in the precision of the exchange, and
	// returns their times. On a single device, and for a precision that the backend cannot
	// send, it returns a *protocol.Error with CodeUnsupported.
	Comm(ctx context.Context, e *dataset.Exchange) (CommTiming, error)
	// Close ends the backend. The caller must call it once.
	Close() error
}

// Timing holds the times of one group: medians of the repeats, and their
// interquartile ranges.
type Timing struct {
	Forward, Backward             unit.Millis
	ForwardSpread, BackwardSpread unit.Millis
}

// CommTiming holds the times of one exchange, device by device. Forward contains
// the wait for the last device to be ready; the backward starts on all devices at
// the same time. Spread is the interquartile range of the slowest backward.
type CommTiming struct {
	Forward, Backward []unit.Millis
	Spread            unit.Millis
}
