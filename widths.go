package neuroshard

import (
	"context"
	"slices"
	"time"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// An engine may run a module only if all its slices of columns have one width
// (problem.OneWidth). A search takes the width as given. So there is a search for each width,
// from the widest, and the cheapest placement is the result:
//
//	dim 128, 8 devices    64 --> search    32 --> search    16 --> search
//
// The searches end early after widthPatience widths that are not cheaper. With several such
// modules, each search first gives all modules the widths at the same place in their lists. Then
// each module tries its other widths, while the others keep theirs.

// widthPatience is the number of widths in a row, each without a cheaper placement, after which
// narrower slices are not tried. One is not enough: three slices of each table may cost more than
// two, and four less, because equal tables in four slices fill a number of devices evenly.
const widthPatience = 2

// inOneWidth finds a placement whose modules have slices of one width, where the engine needs that.
// A search from an old placement keeps the width of modules that are cut in it, and gives other
// modules the widest slices.
func inOneWidth(ctx context.Context, l *Planner, opt search.Options) (search.Result, error) {
	modules := problem.OneWidths(l.problem)
	if len(modules) == 0 {
		return l.searchIn(ctx, l.problem, opt)
	}
	if opt.From != nil {
		return l.searchIn(ctx, inHeldWidths(l.problem, modules, opt.From), opt)
	}
	w := widthSearch{planner: l, ctx: ctx, opt: opt, modules: modules, started: time.Now(), optimal: len(modules) == 1}
	for i := range modules {
		w.limit(&modules[i])
	}
	w.level()
	for i := range modules {
		if len(modules) > 1 && !w.ended() {
			w.apart(i)
		}
	}
	if !w.found {
		return search.Result{}, w.err
	}
	w.best.Optimal = w.optimal
	if ctx.Err() != nil {
		w.best.Status = search.Interrupted
	}
	return w.best, nil
}

// inPlannedWidths returns the problem with the widths of the modules that a plan cuts.
func inPlannedWidths(pl *plan.Plan, p *problem.Problem) *problem.Problem {
	narrowed := p
	for _, m := range problem.OneWidths(p) {
		for _, i := range m.Tables {
			if t := &pl.Tables[i]; t.ShardingType == plan.ColumnWise && len(t.Shards) > 1 {
				narrowed = problem.InSlicesOf(narrowed, int(t.Shards[0].Columns.Len()), m.Tables)
				break
			}
		}
	}
	return narrowed
}

// inHeldWidths returns the problem with the widths of an old placement, and the widest slices in
// modules that it does not cut.
func inHeldWidths(p *problem.Problem, modules []problem.OneWidth, from *search.From) *problem.Problem {
	held := slices.Concat(from.Shards...)
	narrowed := p
	for _, m := range modules {
		width := m.Widths[0]
		cut := func(s problem.Shard) bool {
			return slices.Contains(m.Tables, s.Table) && slices.Contains(m.Widths, int(s.Columns.Len()))
		}
		if k := slices.IndexFunc(held, cut); k >= 0 {
			width = int(held[k].Columns.Len())
		}
		narrowed = problem.InSlicesOf(narrowed, width, m.Tables)
	}
	return narrowed
}

// widthSearch is a search for each of several widths.
type widthSearch struct {
	planner *Planner
	ctx     context.Context
	opt     search.Options
	started time.Time
	modules []problem.OneWidth
	// tried are the choices so far: for each module, the place of a width in its list.
	tried [][]int
	// best is the cheapest placement, and chosen its widths. found says that there is one, and
	// err is the error of the last search if there is none.
	best   search.Result
	chosen []int
	found  bool
	err    error
	// optimal says that the searches tried all placements.
	optimal bool
}

// limit takes the widths of more slices than the cluster has devices out of a module's list, but
// leaves the widest.
func (w *widthSearch) limit(m *problem.OneWidth) {
	p := w.planner.problem
	dim := p.Tables[m.Tables[0]].Dim
	if k := slices.IndexFunc(m.Widths, func(width int) bool { return dim > width*p.Topology.Devices }); k >= 0 {
		m.Widths, w.optimal = m.Widths[:max(1, k)], w.optimal && k == 0 && len(m.Widths) == 1
	}
}

// level searches with the widths at the same place in the lists of all modules, or the last
// widths of shorter lists.
func (w *widthSearch) level() {
	levels, worse := 0, 0
	for _, m := range w.modules {
		levels = max(levels, len(m.Widths))
	}
	for level := 0; level < levels && worse < widthPatience && !w.ended(); level++ {
		choice := make([]int, len(w.modules))
		for i, m := range w.modules {
			choice[i] = min(level, len(m.Widths)-1)
		}
		if w.try(choice, levels-level) {
			worse = 0
		} else if w.found {
			worse++
		}
		w.optimal = w.optimal && (level == levels-1 || worse < widthPatience)
	}
}

// apart searches with the other widths of a module. The other modules have those of the best
// placement.
func (w *widthSearch) apart(module int) {
	worse := 0
	for k := range w.modules[module].Widths {
		choice := slices.Clone(w.chosen)
		choice[module] = k
		if slices.ContainsFunc(w.tried, func(other []int) bool { return slices.Equal(choice, other) }) {
			continue
		}
		if w.ended() || worse == widthPatience {
			return
		}
		worse++
		if w.try(choice, len(w.modules[module].Widths)-k) {
			worse = 0
		}
	}
}

// ended reports whether the context or the limits of the options leave no further search.
func (w *widthSearch) ended() bool {
	return w.ctx.Err() != nil || w.found &&
		(w.opt.Budget > 0 && time.Since(w.started) >= w.opt.Budget ||
			w.opt.MaxEvaluations > 0 && w.best.Stats.Evaluations >= w.opt.MaxEvaluations)
}

// share returns the options of the next search: it gets an equal part of what is left of the
// limits, if that number of searches is left.
func (w *widthSearch) share(searches int) search.Options {
	opt := w.opt
	if opt.Budget > 0 {
		opt.Budget = max(time.Nanosecond, (opt.Budget-time.Since(w.started))/time.Duration(searches))
	}
	if opt.MaxEvaluations > 0 {
		opt.MaxEvaluations = max(1, (opt.MaxEvaluations-w.best.Stats.Evaluations)/int64(searches))
	}
	return opt
}

// try searches with a choice of widths, as the first of some searches that are left, and reports
// whether it found a cheaper placement.
func (w *widthSearch) try(choice []int, left int) bool {
	p := w.planner.problem
	for i, m := range w.modules {
		p = problem.InSlicesOf(p, m.Widths[choice[i]], m.Tables)
	}
	w.tried = append(w.tried, choice)
	found, err := w.planner.searchIn(w.ctx, p, w.share(left))
	if err != nil {
		w.err, w.optimal = err, false
		return false
	}
	stats := together(w.best.Stats, found.Stats)
	cheaper := !w.found || found.Cost < w.best.Cost
	if cheaper {
		w.best, w.chosen, w.found = found, choice, true
	}
	w.best.Stats, w.optimal = stats, w.optimal && found.Optimal
	return cheaper
}
