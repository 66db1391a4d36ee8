package neuroshard

import (
	"context"
	"runtime"

	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
)

// The lower bound of a certificate does not depend on what the search finds. So Plan
// computes the bound beside the search:
//
//	problem --> search --> plan --> simulated cost --> gap
//	       \--> lower bound ------------------------->/
//
// After the search Plan waits for the bound, also if the search was interrupted. A search
// on one thread, or for a given time, is not disturbed: then the bound comes after it.

// certificate is a lower bound that a goroutine computes.
type certificate struct {
	allowed bound.Allowed
	cancel  context.CancelFunc
	// done is closed when bound and err are set.
	done  chan struct{}
	bound bound.Bound
	err   error
}

// certify begins to compute the bound of the line's problem, or returns nil if the bound is
// to come after the search.
func certify(ctx context.Context, l *line) *certificate {
	if !l.certified() || !parallel(l.opt.Search) {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &certificate{allowed: l.allowed(nil), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.bound, c.err = bound.Simulated(ctx, l.priced, c.allowed)
	}()
	return c
}

// parallel reports whether work that does not depend on a search may run at the same time as the
// search: if the search has several threads and no limit of its time.
func parallel(opt search.Options) bool {
	threads := opt.Workers
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	return threads > 1 && opt.Budget == 0
}

// stop ends the work on the bound and waits for the goroutine.
func (c *certificate) stop() {
	if c != nil {
		c.cancel()
		<-c.done
	}
}

// wait returns the bound of the line's problem when it is computed. If c is nil, or if the
// bound is not for the placements allowed, wait computes the bound itself.
func (c *certificate) wait(ctx context.Context, l *line, allowed bound.Allowed) (bound.Bound, error) {
	if c == nil || c.allowed.Operators != allowed.Operators {
		return bound.Simulated(ctx, l.priced, allowed)
	}
	<-c.done
	return c.bound, c.err
}
