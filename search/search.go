// Package search finds the cheapest placement of a problem's tables that fits: how
// tables are cut, in which form each slice is held, and which devices hold it. Times
// come from a Scorer (scorer.go), implemented by package cost; bytes from package
// problem, exactly. The entry point is Run. A file uses only files above it in these lists:
//
//	options     methods, options, events and results (options.go)
//	old         an old placement that the search begins from, and the bytes that move (from.go)
//	pieces      what is placed: pieces (catalog.go), in the forms that are allowed
//	            (forms.go), and placements (placement.go)
//	bytes       what fits: a ledger (ledger.go), first fit (firstfit.go), the forms of each table
//	            (variants.go) by trying all placements (walk.go) or by the packing (pack.go), or why
//	            nothing fits (infeasible.go)
//	run         what the parts of a search share (run.go), tasks on several threads (parallel.go), budgets of
//	            time by any clock (clock.go), the rules of engines (engine.go), and tables that stay
//	            on one host (onehost.go)
//
// Method NeuroShard, in the order of the data:
//
//	fitted      a placement that fits, by bytes alone: slices of columns, or other forms where these do not fit
//	            (fit.go); all placements of a tiny problem (exhaustive.go); a part of a table on every device, if the
//	            engine needs that (engine.go)
//	race        starts (starts.go) under shapes of placement (shapes.go), dealt by sums (deal.go), with tables in other
//	            forms (switch.go) and with numbers of operators (operators.go); runs of annealing (anneal.go)
//	            from all of them, and longer ones from the best, also with the hottest table in one
//	            slice more (slicemore.go): race.go. A run makes small changes (moves.go, recut.go) of a
//	            layout (layout.go) under soft maxima (goal.go)
//	prefer      the better one by a second estimate, of nearly equal costs (prefer.go)
//
// The other methods have a file each:
//
//	published   the published search (published.go), with the inner search (inner.go)
//	baseline    placements by one number for each table (baseline.go)
//	hugectr     the planner of HugeCTR's submissions (hugectr.go)
//	rollout     placements by a learned policy (rollout.go)
//	scratch     one annealing of a simple placement, to compare the race with (scratch.go)
//
// A search that begins from an old placement makes another one only if it must:
//
//	onward      the old placement in pieces (resume.go), places for the pieces that have none (insert.go),
//	            and small changes that move few bytes (onward.go)
//
// At the end, tables without lookups are spread by bytes (unread.go), and an engine that runs no empty device gets a
// table on each (engine.go).
//
// The published search is NeuroShard's (Zha et al., MLSys 2023). The baselines of its evaluation are
// here too, and its predecessors.
package search

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// methods lists all methods, the default first.
var methods = []Method{NeuroShard, Paper, Size, Dim, Lookup, SizeLookup, Random, HugeCTR, DreamShard, AutoShard}

// Methods returns all methods, the default first. The slice is the caller's.
func Methods() []Method { return slices.Clone(methods) }

// searchBy searches by a method.
func searchBy(r *run, m Method) (state, error) {
	switch m {
	case NeuroShard:
		return neuroshard(r)
	case Paper:
		return published(r)
	case HugeCTR:
		return hugectr(r)
	case DreamShard, AutoShard:
		return rollout(r)
	}
	return baseline(r, m)
}

// asAsked searches as the options say.
func asAsked(r *run) (state, error) {
	switch {
	case r.opt.From != nil:
		return onward(r)
	case r.opt.FromScratch:
		return scratch(r)
	}
	return searchBy(r, r.opt.Method)
}

// neuroshard is the default search.
func neuroshard(r *run) (state, error) {
	s, err := fitted(r, true)
	if err != nil {
		return s, err
	}
	optimum := s
	if optimum.best = (placement{}); r.most == 0 && r.forms.any() && !r.forms.hosted() {
		tryAll(r, &optimum, &r.forms, false)
	}
	s.complete = optimum.complete
	if r.catalog.rules.NoIdle { // the placements before it are no finalists
		r.finalists = nil
	}
	if s.best, err = occupy(r, s.best); err != nil {
		return s, err
	}
	if s.best.cost > 0 || r.opt.From != nil { // else no placement costs less
		s.best = race(r, s, optimum.best)
	}
	s.best = prefer(r, s)
	return s, nil
}

// Run searches for the cheapest placement of p, which must be valid and is not
// modified. It fails with *Infeasible if the method finds no placement, with *Idle if a
// device stays empty and the problem's engine does not run that, and with *NoShardingType
// if no type of Options.ShardingTypes can place some table, or if the search does not place
// tables by one of them. If ctx or Options.Budget ends before there is a placement, Run returns
// the context's error or ErrOutOfTime; if they end later, Run returns the best placement so far,
// with status Interrupted or OutOfTime.
func Run(ctx context.Context, p *problem.Problem, newScorer Factory, opt Options) (Result, error) {
	opt, err := opt.withDefaults()
	if err == nil && !slices.Contains(methods, opt.Method) {
		err = fmt.Errorf("search method %q is unknown: choose one of %v", opt.Method, Methods())
	}
	if err == nil {
		err = opt.checkPolicy()
	}
	if err == nil {
		err = searchable(opt.ShardingTypes)
	}
	if err == nil {
		err = opt.From.check(p, opt.Method)
	}
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if opt.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = withBudget(ctx, &opt)
		defer cancel()
	}
	r := newRun(ctx, narrowed(problem.Deduplicated(p), opt.ShardingTypes), newScorer, opt)
	if opt.Method != NeuroShard {
		// The other methods place slices of columns, whatever the sharding types.
		r.forms = newForms(r.catalog, Options{ColumnsOnly: true})
		if err := r.forms.possible(r.catalog, nil); err != nil {
			return Result{}, err
		}
	}
	s, err := asAsked(r)
	if err = r.placed(s, err); err == nil {
		s.best, err = occupy(r, unreadByBytes(r, s.best))
	}
	if err != nil {
		if e := (*Infeasible)(nil); errors.As(err, &e) {
			e.OtherTypes = cutsFurther(r)
		}
		return Result{}, err
	}
	found := Result{
		Shards: r.catalog.shards(s.best.parts), Cost: s.best.cost, Status: r.status,
		Optimal: s.complete, Stats: r.stats,
	}
	if opt.From != nil {
		found.Moved = r.catalog.former.movedShards(found.Shards)
	}
	return found, nil
}
