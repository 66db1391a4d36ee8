// Package search finds the cheapest placement of a problem's tables that fits: how
// tables are cut, in which form each slice is held, and which devices hold it. Times
// come from a Scorer (scorer.go), implemented by package cost; bytes from package
// problem, exactly. The entry point is Run, which applies the stages of a method one
// after the other. A file uses only files above it in these lists:
//
//	options     methods, options, events and results (options.go)
//	old         an old placement that the search begins from, and the bytes that move (from.go)
//	pieces      what is placed: pieces (catalog.go), in the forms that are allowed
//	            (forms.go), and placements (placement.go)
//	bytes       what fits: a ledger (ledger.go), first fit (firstfit.go), the forms of each table
//	            (variants.go) by trying all placements (room.go) or by the packing (pack.go), or why
//	            nothing fits (infeasible.go)
//	run         what the stages share (run.go), tasks on several threads (parallel.go), budgets of
//	            time by any clock (clock.go), the rules of engines (engine.go), and tables that stay
//	            on one host (onehost.go)
//
// The stages, in the order of method NeuroShard:
//
//	fit         slices of columns that fit, by bytes alone (fit.go)
//	exhaustive  all placements of a tiny problem (exhaustive.go)
//	fill        other forms where slices of columns do not fit (fit.go)
//	occupied    a part of a table on every device, if the engine needs that (engine.go)
//	race        starts (starts.go) under shapes of placement (shapes.go), dealt by sums (deal.go), with tables in other
//	            forms (switch.go) and with numbers of operators (operators.go); runs of annealing (anneal.go)
//	            from all of them, and longer ones from the best, also with the hottest table in one
//	            slice more (slicemore.go): race.go. A run makes small changes (moves.go, recut.go) of a
//	            layout (layout.go) under soft maxima (goal.go)
//	prefer      the better one by a second estimate, of nearly equal costs (prefer.go)
//	compose     stages that are made of stages (compose.go)
//
// The other methods have a stage each:
//
//	published   the published search (published.go), with the inner search (inner.go)
//	baseline    placements by one number for each table (baseline.go)
//	hugectr     the planner of HugeCTR's submissions (hugectr.go)
//	rollout     placements by a learned policy (rollout.go)
//	scratch     one annealing of a simple placement, in the place of the stages of method NeuroShard, to
//	            compare with (scratch.go)
//
// A search that begins from an old placement has one stage instead, which uses the others only
// if it must:
//
//	onward      the old placement in pieces (resume.go), places for the pieces that have none (insert.go),
//	            and small changes that move few bytes (onward.go)
//
// After the stages, tables without lookups are spread by bytes (unread.go).
//
// The published search is NeuroShard's (Zha et al., MLSys 2023). The baselines of its evaluation are
// here too, and its predecessors.
package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
)

// defaultSearch are the stages of the default method.
var defaultSearch = []stage{
	columnSlices{[]stage{fit{}, exhaustive{}}},
	otherForms{[]stage{fill{}}},
	occupied{},
	race{},
	prefer{},
}

// methods lists the stages of each method, the default method first.
var methods = []struct {
	name   Method
	stages []stage
}{
	{NeuroShard, defaultSearch},
	{Paper, []stage{published{}}},
	{Size, []stage{baseline{Size}}},
	{Dim, []stage{baseline{Dim}}},
	{Lookup, []stage{baseline{Lookup}}},
	{SizeLookup, []stage{baseline{SizeLookup}}},
	{Random, []stage{baseline{Random}}},
	{HugeCTR, []stage{hugectr{}}},
	{DreamShard, []stage{rollout{}}},
	{AutoShard, []stage{rollout{}}},
}

// Methods returns all methods, the default first. The slice is the caller's.
func Methods() []Method {
	var all []Method
	for _, m := range methods {
		all = append(all, m.name)
	}
	return all
}

// stagesOf returns the stages of a method.
func stagesOf(name Method) []stage {
	for _, m := range methods {
		if m.name == name {
			return m.stages
		}
	}
	return nil
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
	if err == nil && stagesOf(opt.Method) == nil {
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
	s, err := r.apply(opt.stages(), state{})
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
		return found, nil
	}
	return found, nil
}
