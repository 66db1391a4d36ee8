package neuroshard

import (
	"context"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// For a problem with an engine, Plan also plans without the engine's rules (Options.FreeSlices).
// The second search does not depend on the first one, so both run at the same time:
//
//	problem --> search ----------------> plan
//	       \--> search of free slices --> comparison
//
// If the first search has only one thread, or a limit of its time, the second search runs after it
// and takes no time from it.

// freeSlices is the search without the engine's rules.
type freeSlices struct {
	// rules is the line with the engine's rules, and line the one without.
	rules *line
	line  line
	// cancel and done are nil before begin starts a goroutine, which closes done when found and
	// err are set.
	cancel context.CancelFunc
	done   chan struct{}
	found  search.Result
	err    error
}

// freeOf returns the search of free slices for a line, or nil if there is to be none.
func freeOf(ctx context.Context, l *line) (*freeSlices, error) {
	few := l.problem.Engine == problem.TorchRec && len(l.problem.Tables) < ComparedTables
	if !l.opt.FreeSlices || l.problem.Engine == "" || few {
		return nil, nil
	}
	f := &freeSlices{rules: l, line: *l}
	anyEngine := *l.problem
	anyEngine.Engine = ""
	f.line.problem = &anyEngine
	f.line.opt.Search.OnEvent, f.line.opt.Search.Brief = nil, true
	// A PriceList serves one search at a time, so each of the two searches has its own.
	var err error
	if f.line.prices, err = l.opt.list(ctx, l.priced); err == nil {
		f.line.opt.Search.Beside, err = f.line.beside(ctx)
	}
	return f, err
}

// begin starts the search if it may run at the same time as the first one.
func (f *freeSlices) begin(ctx context.Context) {
	if f == nil || !parallel(f.rules.opt.Search) {
		return
	}
	ctx, f.cancel = context.WithCancel(ctx)
	f.done = make(chan struct{})
	go func() {
		defer close(f.done)
		f.found, f.err = f.line.search(ctx, f.line.opt.Search)
	}()
}

// stop ends the search and waits for its goroutine.
func (f *freeSlices) stop() {
	if f != nil && f.cancel != nil {
		f.cancel()
		<-f.done
	}
}

// compare returns what the search of free slices found, nil if it found nothing. It replaces found,
// the placement found under the rules, if that of free slices keeps to the rules as well and is
// cheaper.
func (f *freeSlices) compare(ctx context.Context, found *search.Result) (*Baseline, error) {
	if f == nil || found.Status == search.Interrupted {
		return nil, nil
	}
	l := f.rules
	l.begin("free slices")
	if f.done != nil {
		<-f.done
	} else {
		f.found, f.err = f.line.search(ctx, f.line.opt.Search)
	}
	other, err := f.found, f.err
	if ctx.Err() != nil || refused(err) {
		return nil, nil // nothing to compare with
	}
	if err != nil {
		return nil, err
	}
	if other.Cost < found.Cost && len(plan.New(l.problem, other.Shards).CheckEngine(l.problem.Engine.Rules())) == 0 {
		*found = other
	}
	if other.Cost > found.Cost {
		other = *found
	}
	one, err := l.baseline(l.opt.Search.Method, other)
	return &one, err
}
