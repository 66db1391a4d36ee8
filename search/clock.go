package search

import (
	"context"
	"errors"
	"time"
)

// clocked is a context that ends when a clock other than the wall clock reaches a time
// (Options.Clock).
type clocked struct {
	context.Context
	clock func() time.Duration
	end   time.Duration
}

func (c *clocked) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.clock() >= c.end {
		return ErrOutOfTime
	}
	return nil
}

// withBudget returns a context that ends when the budget of time has passed.
func withBudget(ctx context.Context, o *Options) (context.Context, context.CancelFunc) {
	if o.Clock == nil {
		return context.WithTimeoutCause(ctx, o.Budget, ErrOutOfTime)
	}
	return &clocked{ctx, o.Clock, o.Clock() + o.Budget}, func() {}
}

// outOfTime reports whether the budget of time ended the context.
func outOfTime(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), ErrOutOfTime) || errors.Is(ctx.Err(), ErrOutOfTime)
}
