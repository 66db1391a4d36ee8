package neuroshard

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// What an engine needs of a whole module, a search takes as given. So there is a search for each way,
// and the cheapest placement is the result:
//
//	tables of means      none is cut by rows (problem.MeanCuts), or all tables of their modules are
//	tables of sequences  all slices of columns have one width (problem.OneWidth), from the widest on
//
// The searches of widths end early after widthPatience widths that are not cheaper. With several such
// modules, each search first gives all modules the widths at the same place in their lists. Then
// each module tries its other widths, while the others keep theirs.

// widthPatience is the number of widths in a row, each without a cheaper placement, after which
// narrower slices are not tried. One is not enough: three slices of each table may cost more than
// two, and four less, because equal tables in four slices fill a number of devices evenly.
const widthPatience = 2

// ways are several searches that share the limits of one. The cheapest placement is the result.
type ways struct {
	ctx     context.Context
	opt     search.Options
	started time.Time
	// best is the cheapest placement; if there is none, err is the error of the last search.
	best search.Result
	err  error
	// found says that there is a placement, and optimal that the searches tried all placements.
	found, optimal bool
}

// ended reports whether the context or the limits of the options leave no further search.
func (w *ways) ended() bool {
	return w.ctx.Err() != nil || w.found &&
		(w.opt.Budget > 0 && time.Since(w.started) >= w.opt.Budget ||
			w.opt.MaxEvaluations > 0 && w.best.Stats.Evaluations >= w.opt.MaxEvaluations)
}

// try searches as the first of some searches that are left, with an equal part of what is left of the
// limits, and reports whether the placement is cheaper.
func (w *ways) try(left int, find func(search.Options) (search.Result, error)) bool {
	found, err := find(part(w.opt, left, time.Since(w.started), w.best.Stats.Evaluations))
	if err != nil {
		w.err, w.optimal = err, false
		return false
	}
	stats := together(w.best.Stats, found.Stats)
	cheaper := !w.found || found.Cost < w.best.Cost
	if cheaper {
		w.best, w.found = found, true
	}
	w.best.Stats, w.optimal = stats, w.optimal && found.Optimal
	return cheaper
}

// result returns the cheapest placement, or an error: the context's if it ended, or the last search's.
func (w *ways) result() (search.Result, error) {
	if !w.found {
		return search.Result{}, cmp.Or(w.ctx.Err(), w.err)
	}
	if w.best.Optimal = w.optimal; w.ctx.Err() != nil {
		w.best.Status = search.Interrupted
	}
	return w.best, nil
}

// inMeanCuts finds a placement whose tables of means are cut by rows as the engine needs that. A
// search from an old placement keeps the way of that placement.
func inMeanCuts(ctx context.Context, l *Planner, opt search.Options) (search.Result, error) {
	uncut, cut, err := problem.MeanCuts(l.problem, opt.ShardingTypes)
	if err != nil {
		return search.Result{}, err
	}
	among := func(p *problem.Problem, opt search.Options) (search.Result, error) {
		way := *l
		way.problem = p
		return inOneWidth(ctx, &way, opt)
	}
	switch {
	case opt.From != nil && uncut != cut && cutsMeans(l.problem, opt.From):
		return among(cut, opt)
	case opt.From != nil || uncut == cut:
		return among(uncut, opt)
	}
	w := ways{ctx: ctx, opt: opt, started: time.Now(), optimal: true}
	for i, p := range []*problem.Problem{uncut, cut} {
		w.try(2-i, func(opt search.Options) (search.Result, error) { return among(p, opt) })
	}
	return w.result()
}

// cutsMeans reports whether an old placement cuts a table of means by rows.
func cutsMeans(p *problem.Problem, from *search.From) bool {
	return slices.ContainsFunc(slices.Concat(from.Shards...), func(s problem.Shard) bool {
		return p.Tables[s.Table].Pooling == problem.MeanPooling && p.ByRows(s)
	})
}

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
	w := widthSearch{ways: ways{ctx: ctx, opt: opt, started: time.Now(), optimal: len(modules) == 1}, planner: l, modules: modules}
	levels := 0
	for i := range modules {
		w.limit(&modules[i])
		levels = max(levels, len(modules[i].Widths))
	}
	w.along(levels, func(choice []int, level int) {
		for i, m := range modules {
			choice[i] = min(level, len(m.Widths)-1)
		}
	})
	for i := range modules {
		if len(modules) > 1 && !w.ended() {
			w.along(len(modules[i].Widths), func(choice []int, k int) { choice[i] = k })
		}
	}
	return w.result()
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
	ways
	planner *Planner
	modules []problem.OneWidth
	// tried are the choices so far: for each module, the place of a width in its list. chosen is that
	// of the cheapest placement.
	tried  [][]int
	chosen []int
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

// along searches with n choices, which differ from that of the cheapest placement by a change, until
// widthPatience of them in a row are not cheaper.
func (w *widthSearch) along(n int, change func(choice []int, k int)) {
	worse, from := 0, w.chosen
	for k := range n {
		choice := make([]int, len(w.modules))
		copy(choice, from)
		change(choice, k)
		if slices.ContainsFunc(w.tried, func(other []int) bool { return slices.Equal(choice, other) }) {
			continue
		}
		if worse == widthPatience || w.ended() {
			w.optimal = false
			return
		}
		w.tried = append(w.tried, choice)
		p := w.planner.problem
		for i, m := range w.modules {
			p = problem.InSlicesOf(p, m.Widths[choice[i]], m.Tables)
		}
		cheaper := w.try(n-k, func(opt search.Options) (search.Result, error) { return w.planner.searchIn(w.ctx, p, opt) })
		switch {
		case cheaper:
			worse, w.chosen = 0, choice
		case w.found:
			worse++
		}
	}
}
