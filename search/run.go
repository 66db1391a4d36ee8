package search

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/problem"
)

// A method is a list of stages. Each stage takes the state that the stages before it
// left and returns a state whose placement is not more expensive:
//
//	state{}  -> fit -> greedy -> beam -> anneal ->  state{best: ...}
//
// A run is what the stages share: the problem's pieces, the Scorers, the budget and
// the count of the work. Only Run composes stages.

// stage is one step of a method.
type stage interface {
	// apply returns the state after the stage. It returns early, with the best placement
	// so far, where the run's budget is used up or its context ended; and an error where
	// no placement is possible. A stage that has nothing to do returns the state that it
	// was given.
	apply(r *run, s state) (state, error)
}

// state is what one stage hands to the next. It is a value: a stage changes its own
// copy.
type state struct {
	// best is the cheapest placement so far; its division is nil while there is none.
	best placement
	// forced is the division after forced splits; nil before stage fit.
	forced *division
	// fitting is the coarsest division that first fit or the packing places, the finest
	// tried if they place none; nil before stage fit.
	fitting *division
	// starts are the outcomes of the divisions that a beam sets out from.
	starts []outcome
	// further are placements to anneal from, found along other ways than best.
	further [][]placed
	// complete says that all placements of slices of columns were tried.
	complete bool
	// infeasible says why slices of columns alone do not fit; nil where they do.
	infeasible *Infeasible
}

// errOutOfTime is the cause of a context that Options.Budget ended.
var errOutOfTime = errors.New("the budget of time is used up")

// run is one run of a method.
type run struct {
	ctx     context.Context
	opt     Options
	catalog *catalog
	// forms are those that tables may take.
	forms     forms
	newScorer Factory
	workers   []*worker
	// seen holds the hashes of the divisions tried.
	seen map[uint64]bool
	// most is the caller's budget of evaluations, or the part of it that the stages on
	// may use; 0 for none.
	most int64
	// limit is most, or a budget that follows from the size of the problem; 0 for none.
	limit  int64
	status Status
	stats  Stats
	event  Event
}

func newRun(ctx context.Context, p *problem.Problem, newScorer Factory, opt Options) *run {
	scorer := newScorer()
	r := &run{
		ctx: ctx, opt: opt, newScorer: newScorer,
		catalog: newCatalog(p, scorer),
		seen:    map[uint64]bool{},
		most:    opt.MaxEvaluations, limit: opt.MaxEvaluations,
		status: Complete,
		event:  Event{Phase: "start", Levels: opt.Steps},
	}
	r.catalog.brief = opt.Brief
	r.forms = newForms(r.catalog, opt)
	r.workers = append(r.workers, newWorker(r.catalog, scorer))
	return r
}

// apply runs the stages one after the other, until all placements were tried.
func (r *run) apply(stages []stage, s state) (state, error) {
	for _, next := range stages {
		if s.complete {
			break
		}
		var err error
		if s, err = next.apply(r, s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// placed returns err, or why there is no placement after the stages of columns.
func (r *run) placed(s state, err error) error {
	if err != nil || s.best.division != nil {
		return err
	}
	return r.lacking(s.forced.pieces())
}

// scorer returns the Scorer of the caller's goroutine.
func (r *run) scorer() Scorer { return r.workers[0].scorer }

// annealsOnce reports whether the annealing among all forms is enough: it is where the
// times of slices add up, since the steps before it look for slices that fuse well.
func (r *run) annealsOnce() bool { return r.forms.any() && addsUp(r.scorer()) }

// end returns the number of evaluations at which stages stop that know no default.
func (r *run) end() int64 {
	if r.most > 0 {
		return r.most
	}
	return noLimit
}

// afford returns the first of the jobs, as far as the budget allows them at each
// evaluations a job; but one job if there is no placement yet.
func (r *run) afford(jobs []job, best placement, each int64) []job {
	n := int(max(0, r.limit-r.stats.Evaluations) / each)
	if best.division == nil || r.stats.States == 0 {
		n = max(1, n)
	}
	if n >= len(jobs) {
		return jobs
	}
	r.exhausted()
	return jobs[:n]
}

// exhausted notes that the caller's budget limits the search. The default one is part
// of the method, and says nothing.
func (r *run) exhausted() {
	if r.most > 0 {
		r.status = OutOfBudget
	}
}

// ended reports whether the context ended, by which a budget of time ends, too.
func (r *run) ended() bool { return r.ctx.Err() != nil }

// cutShort notes why the context ended.
func (r *run) cutShort() {
	r.status = Interrupted
	if errors.Is(context.Cause(r.ctx), errOutOfTime) {
		r.status = OutOfTime
	}
}

// fresh appends the job of the division and grid, unless a permutation of the division
// was tried before.
func (r *run) fresh(jobs []job, d *division, g grid) []job {
	if r.seen[d.hash] {
		r.stats.Duplicates++
		return jobs
	}
	r.seen[d.hash] = true
	return append(jobs, job{d, g})
}

// job is a division to evaluate and the inner searches to run on it.
type job struct {
	division *division
	grid     grid
}

// permutations are the outcomes of divisions by the order of their pieces. They are nil
// for a search that tries no permutations.
type permutations map[uint64]*outcome

// evaluate runs the jobs on all workers and takes in their outcomes in order. It
// returns them and the cheapest placement among them and best. The caller's goroutine
// is the first worker. It takes in what has been done between its own jobs.
func (r *run) evaluate(jobs []job, best placement, known permutations) ([]outcome, placement) {
	outcomes := make([]outcome, len(jobs))
	twins := known.twins(jobs, outcomes)
	done := make([]atomic.Bool, len(jobs))
	var next atomic.Int64
	work := func(w *worker, after func()) {
		for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
			if twins[i] == nil {
				outcomes[i] = w.evaluate(r.ctx, jobs[i].division, jobs[i].grid)
			}
			done[i].Store(true)
			after()
		}
	}
	taken := 0
	take := func() {
		for ; taken < len(jobs) && done[taken].Load(); taken++ {
			o := &outcomes[taken]
			if twin := twins[taken]; twin != nil {
				*o = twin.as(jobs[taken].division)
			}
			r.stats.States++
			r.stats.Placements += o.runs
			r.stats.Evaluations += o.evaluations
			if o.lack == 0 {
				best = cheaper(best, o.placement)
			}
			r.tell(best)
		}
	}
	for len(r.workers) < min(r.opt.Workers, len(jobs)) {
		r.workers = append(r.workers, newWorker(r.catalog, r.newScorer()))
	}
	var group sync.WaitGroup
	for _, w := range r.workers[1:max(1, min(len(r.workers), len(jobs)))] {
		group.Go(func() { work(w, func() {}) })
	}
	work(r.workers[0], take)
	group.Wait()
	take()
	r.scorer().Reset()
	return outcomes, best
}

// twins returns, for each job, an outcome to copy: that of an earlier division with the
// same pieces in the same order, which is placed in the same way; nil where there is
// none. The published search tries such permutations; they take places in its beam
// and count as work, but need not be searched again. outcomes are where those of the
// jobs will be.
func (known permutations) twins(jobs []job, outcomes []outcome) []*outcome {
	twins := make([]*outcome, len(jobs))
	if known == nil {
		return twins
	}
	for i, j := range jobs {
		order := j.division.order()
		first, ok := known[order]
		if !ok {
			known[order] = &outcomes[i]
			outcomes[i].division = j.division
		} else if first.division.alike(j.division) {
			twins[i] = first
		}
	}
	return twins
}

// as returns the outcome of a division that is alike.
func (o *outcome) as(d *division) outcome {
	twin := *o
	twin.division, twin.devices = d, make([]int32, len(o.devices))
	if len(o.devices) > 0 {
		for at, p := range d.entries {
			twin.devices[p.index] = o.devices[o.division.entries[at].index]
		}
	}
	return twin
}

// offer estimates the cost of a placement found otherwise, and returns the cheaper one
// of it and best.
func (r *run) offer(best placement, d *division, devices []int32) placement {
	w := r.workers[0]
	w.assign(d, devices)
	best = cheaper(best, placement{d, devices, w.scorer.Cost()})
	r.stats.Placements++
	r.stats.Evaluations += int64(len(devices))
	w.scorer.Reset()
	r.tell(best)
	return best
}

// offerPlaced is offer for placed pieces.
func (r *run) offerPlaced(best placement, all []placed) placement {
	pieces, devices := apart(all)
	r.scorer().Reset()
	return r.offer(best, r.catalog.divide(pieces), devices)
}

// cheaper returns the cheaper placement, best where both cost the same.
func cheaper(best, other placement) placement {
	if best.division == nil || other.cost < best.cost {
		return other
	}
	return best
}

// tell sends an event.
func (r *run) tell(best placement) {
	if r.opt.OnEvent != nil {
		r.event.Evaluations, r.event.Limit, r.event.Best = r.stats.Evaluations, r.limit, best.cost
		if best.division == nil {
			r.event.Best = math.Inf(1)
		}
		r.opt.OnEvent(r.event)
	}
}

// forced returns the pieces after forced splits, or why they do not fit.
func (r *run) forced() ([]int32, error) {
	pieces, failed := forced(r.catalog)
	if failed == none {
		return pieces, nil
	}
	i := int32(slices.Index(pieces, failed))
	return nil, infeasible(r.catalog, r.opt.Method, pieces, nil, i)
}

// lacking returns the error of a method that found no placement of the pieces: of the
// piece that first fit finds no room for; or, where bytes are not the obstacle, of the
// one with the most columns, which caps exclude first.
func (r *run) lacking(pieces []int32) error {
	if err := r.ctx.Err(); err != nil {
		return err
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

// formed reports whether pieces are placed in other forms than the zero one.
func (r *run) formed(all []placed) bool {
	return slices.ContainsFunc(all, func(p placed) bool { return r.catalog.pieces[p.piece].form != (problem.Form{}) })
}

// publishedPieces is the largest number of pieces for which method NeuroShard runs the
// published search as well: that is some six hundred divisions.
const publishedPieces = 900

// alsoPublished reports whether method NeuroShard runs the published search.
func alsoPublished(forced *division) bool { return len(forced.entries) <= publishedPieces }
