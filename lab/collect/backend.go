package collect

import (
	"context"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Backend takes the times of fused operations and of all-to-alls. It is used by
// one goroutine at a time.
type Backend interface {
	// Provenance says what takes the times: the dataset's provenance except for the
	// fields that the design states (seed, design, tool).
	Provenance() dataset.Provenance
	// Compute runs the fused forward and backward of a group, whose members index
	// tables, and returns its times. The tables of one collection do not change.
	Compute(ctx context.Context, tables []problem.Table, g *dataset.Group) (Timing, error)
	// Comm runs the all-to-alls of an exchange and returns their times. It is not
	// available on a single device: the error is a *protocol.Error with
	// CodeUnsupported.
	Comm(ctx context.Context, e *dataset.Exchange) (CommTiming, error)
	// Close ends the backend. It must be called once.
	Close() error
}

// Timing is the times of one group: medians of the repeats, and their
// interquartile ranges.
type Timing struct {
	Forward, Backward             unit.Millis
	ForwardSpread, BackwardSpread unit.Millis
}

// CommTiming is the times of one exchange, device by device. Forward contains
// the wait for the last device to be ready; the backward starts aligned. Spread
// is the interquartile range of the slowest backward.
type CommTiming struct {
	Forward, Backward []unit.Millis
	Spread            unit.Millis
}
