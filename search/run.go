package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// state is what a method found.
type state struct {
	// best is the cheapest placement so far; the zero placement while there is none.
	best placement
	// forced are the pieces after forced splits; nil before these.
	forced []int32
	// complete says that all placements were tried, with undivided operators.
	complete bool
	// proven says that it is proven that slices of columns do not fit.
	proven bool
	// infeasible says why slices of columns alone do not fit; nil if they fit.
	infeasible *Infeasible
}

// ErrOutOfTime is the error of a search that Options.Budget ended before there was a placement.
// It is a context.DeadlineExceeded.
var ErrOutOfTime error = timeError{}

type timeError struct{}

func (timeError) Error() string { return "the budget of time ended before there was a placement" }

func (timeError) Unwrap() error { return context.DeadlineExceeded }

// run is what the parts of a search share: the problem's pieces, the Scorers, the budget and the count of the work.
type run struct {
	ctx     context.Context
	opt     Options
	catalog *catalog
	// forms are the forms that tables may take.
	forms     forms
	newScorer Factory
	// own is the Scorer of the caller's goroutine.
	own Scorer
	// finalists are the placements that prefer chooses from.
	finalists finalists
	// twins are runs of the same search on other threads (parallel.go). Copies of the run share
	// the list.
	twins *[]*run
	// most is the caller's budget of evaluations; 0 means no budget.
	most   int64
	status Status
	stats  Stats
	event  Event
}

func newRun(ctx context.Context, p *problem.Problem, newScorer Factory, opt Options) *run {
	scorer := newScorer()
	r := &run{
		ctx: ctx, opt: opt, newScorer: newScorer, own: scorer,
		catalog: newCatalog(p, scorer),
		twins:   &[]*run{},
		most:    opt.MaxEvaluations,
		status:  Complete,
		event:   Event{Phase: "start", Levels: opt.Steps, Best: math.Inf(1)},
	}
	r.catalog.brief = opt.Brief
	r.forms = newForms(r.catalog, opt)
	return r
}

// placed returns err or, if there is no placement, the reason.
func (r *run) placed(s state, err error) error {
	if err != nil || s.best.parts != nil {
		return err
	}
	err = r.lacking(s.forced)
	if e := (*Infeasible)(nil); errors.As(err, &e) {
		e.Proven = s.proven
	}
	return err
}

// scorer returns the Scorer of the caller's goroutine.
func (r *run) scorer() Scorer { return r.own }

// end returns the number of evaluations at which a search stops that has no default of
// its own.
func (r *run) end() int64 {
	if r.most > 0 {
		return r.most
	}
	return math.MaxInt64
}

// exhausted records that the caller's budget of evaluations limits the search.
func (r *run) exhausted() { r.status = OutOfBudget }

// ended reports whether the context ended. A budget of time ends the context, too.
func (r *run) ended() bool { return r.ctx.Err() != nil }

// unfinished returns the error of a run whose context ended before there was a placement. It says
// so, and not that no device has room, because further work might have found room.
func (r *run) unfinished() error {
	if outOfTime(r.ctx) {
		return fmt.Errorf("method %q: %w", r.opt.Method, ErrOutOfTime)
	}
	return r.ctx.Err()
}

// cutShort records why the context ended.
func (r *run) cutShort() {
	r.status = Interrupted
	if outOfTime(r.ctx) {
		r.status = OutOfTime
	}
}

// offer estimates the cost of placed pieces and returns the cheaper placement of them and
// best; or best if they break a rule of the engine or exceed the memory.
func (r *run) offer(best placement, parts []placed) placement {
	c, scorer := r.catalog, r.scorer()
	if breaks(c, parts) || !c.holds(parts) {
		return best
	}
	scorer.Reset()
	offered := placement{parts: c.expensiveFirst(parts)}
	for _, p := range parts {
		c.put(scorer, p, 1)
	}
	offered.cost = scorer.Cost()
	if f := c.former; f != nil {
		offered.toll = f.priced(c.movedBytes(offered.parts))
	}
	best = consider(r, best, offered)
	r.stats.Placements++
	r.stats.Evaluations += int64(len(parts))
	scorer.Reset()
	r.tell(best)
	return best
}

// cheaper returns the cheaper placement, or best if both cost the same.
func cheaper(best, other placement) placement {
	if best.parts == nil || other.parts != nil && other.cost+other.toll < best.cost+best.toll {
		return other
	}
	return best
}

// tell sends an event. A part of the search may tell the best of its own placements only, so the best cost of all events
// before counts, too.
func (r *run) tell(best placement) {
	if r.opt.OnEvent != nil {
		r.event.Evaluations, r.event.Limit = r.stats.Evaluations, r.most
		if best.parts != nil {
			r.event.Best = min(r.event.Best, best.cost)
		}
		r.opt.OnEvent(r.event)
	}
}

// forced returns the pieces after forced splits, or an error if a piece fits no device.
func (r *run) forced() ([]int32, error) {
	pieces, failed := forced(r.catalog)
	if failed == none {
		return pieces, nil
	}
	i := int32(slices.Index(pieces, failed))
	e := infeasible(r.catalog, r.opt.Method, pieces, nil, i)
	e.Proven = r.catalog.bytes(failed) > r.catalog.budget[r.catalog.phase]
	return nil, e
}

// lacking returns the error of a method that found no placement of the pieces. The
// error names the piece for which first fit finds no room. If bytes are not the
// obstacle, it names the piece with the most columns, which caps exclude first.
func (r *run) lacking(pieces []int32) error {
	if r.ended() {
		return r.unfinished()
	}
	devices, failed := firstFit(r.catalog, pieces)
	if failed == none {
		devices, failed = nil, 0
		for i, k := range pieces {
			if r.catalog.pieces[k].dims > r.catalog.pieces[pieces[failed]].dims {
				failed = int32(i)
			}
		}
	}
	return infeasible(r.catalog, r.opt.Method, pieces, devices, failed)
}

// formed reports whether some piece is in a form other than the zero form, whatever its
// operator.
func (r *run) formed(all []placed) bool {
	return slices.ContainsFunc(all, func(p placed) bool {
		form := *r.catalog.pieces[p.piece].form
		form.Operator = 0
		return form != problem.Form{}
	})
}
