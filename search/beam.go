package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// The outer search chooses which tables are split. From each of the K best
// states of a step, it splits one candidate piece in halves in every way that
// the candidates allow, runs the inner search on each child, and goes on with
// the K best of those. Candidates are the N largest pieces and the N dearest.
//
//	step 0            {A B C}
//	                /    |    \
//	step 1   {a a B C} {A b b C} {A B c c}        priced by the inner search
//	             |         |         x            the K best go on (here K = 2)
//	step 2   {a a b b C} ...
//
// At most L * K * 2N inner searches are run, each on a grid of M thresholds.
//
// Method Paper is exactly this. Method NeuroShard repairs it:
//
//   - A state that is a permutation of one seen before ({a a b b C} above is
//     reached twice) is not searched again.
//   - States that do not fit are ranked by the bytes they lack, not all alike.
//   - Pieces that cannot be split take no candidate's place.
//   - The inner search also goes without a cap, tries both rules, and falls
//     back on memory-driven orders (greedy.go).
//   - Where first fit needs finer pieces to fit, the search starts from those
//     (the ladder of fit.go).
//   - Ten halvings change nothing among thousands of tables. So further starting
//     states have everything split whose cost exceeds tau times the mean load
//     of a device, for a grid of tau; the beam sets out from the best of them.
//   - First fit's and the baselines' placements compete too.
//
// The work is limited by a budget of evaluations, not of time, so that the
// result does not depend on the machine: where one inner search is dear, fewer
// children are tried, and on fewer thresholds.

// taus is the grid of pre-splits: shares of the mean load of a device.
var taus = []float64{1, 0.7, 0.5, 0.35, 0.25}

// The default budget of method NeuroShard: evaluations for any problem, and
// inner searches' worth of them on top.
const (
	baseBudget  = 300_000
	searchesFor = 250
)

// searcher is one run of a method.
type searcher struct {
	ctx     context.Context
	opt     Options
	catalog *catalog
	workers []*worker
	// best is the cheapest placement so far; its state is nil while there is none.
	best placement
	// seen holds the hashes of the states tried.
	seen map[uint64]bool
	// limit is the budget of evaluations, 0 for none.
	limit  int64
	status Status
	stats  Stats
	event  Event
}

func newSearcher(ctx context.Context, p *problem.Problem, newScorer Factory, opt Options) *searcher {
	scorer := newScorer()
	s := &searcher{
		ctx: ctx, opt: opt,
		catalog: newCatalog(p, scorer),
		best:    placement{cost: math.Inf(1)},
		seen:    map[uint64]bool{},
		limit:   opt.MaxEvaluations,
		status:  Complete,
		event:   Event{Phase: "start", Levels: opt.Steps},
	}
	s.workers = append(s.workers, newWorker(s.catalog, scorer))
	if opt.Method == NeuroShard || opt.Method == Paper {
		for len(s.workers) < opt.Workers {
			s.workers = append(s.workers, newWorker(s.catalog, newScorer()))
		}
	}
	return s
}

// baseline runs one of the baselines.
func (s *searcher) baseline() error {
	c := s.catalog
	kinds, err := s.forced()
	if err != nil {
		return err
	}
	devices, failed := c.baseline(s.opt.Method, kinds, s.opt.Seed)
	if failed != none {
		return c.infeasible(s.opt.Method, kinds, devices, failed)
	}
	s.offer(c.newState(kinds), devices)
	return nil
}

// paper runs the published search.
func (s *searcher) paper() error {
	kinds, err := s.forced()
	if err != nil {
		return err
	}
	g := grid{rules: []rule{leastSoFar}, thresholds: thresholds(s.opt.Grid)}
	s.beam([]job{{s.catalog.newState(kinds), g}}, func(beam []outcome, _ int) (jobs []job) {
		for _, parent := range beam {
			for _, at := range s.catalog.published(parent.state, s.opt.Candidates) {
				jobs = append(jobs, job{s.catalog.split(parent.state, at), g})
			}
		}
		return jobs
	})
	return s.found(kinds)
}

// neuroshard runs the repaired search.
func (s *searcher) neuroshard() error {
	c := s.catalog
	kinds, err := s.forced()
	if err != nil {
		return err
	}
	devices, failed := c.firstFit(kinds)
	room := unit.Bytes(c.budget) * unit.Bytes(len(c.all))
	if failed != none && c.total(kinds) > room {
		return c.infeasible(s.opt.Method, kinds, devices, failed) // splits only add bytes
	}
	root := kinds
	fits := c.ladder(kinds, func(finer []int32) bool {
		root = finer
		devices, failed = c.firstFit(finer)
		return failed == none
	})
	if fits {
		s.offer(c.newState(root), devices)
	}
	base := c.newState(kinds)
	for _, m := range Baselines() {
		if devices, failed := c.baseline(m, kinds, s.opt.Seed); failed == none {
			s.offer(base, devices)
		}
	}

	// An inner search's work, about.
	perRun := int64(len(root)) * int64(1+min(len(c.all), shortlist)+len(c.all)/scansPerEvaluation)
	if s.limit == 0 {
		s.limit = baseBudget + searchesFor*perRun
	}
	full := grid{rules: []rule{leastAfter, leastSoFar}, thresholds: append([]float64{uncapped}, thresholds(s.opt.Grid)...), rescue: true}
	var starts []job
	start := func(state *state) {
		if s.fresh(state) && int64(len(starts)) <= s.limit/(perRun*int64(len(full.thresholds))) {
			starts = append(starts, job{state, full})
		}
	}
	start(base)
	start(c.newState(root))
	mean := 0.0
	for _, k := range root {
		mean += c.price(k) / float64(len(c.all))
	}
	for _, tau := range taus {
		start(c.newState(c.refine(root, func(k int32) bool { return c.price(k) > tau*mean })))
	}
	if c.total(root) > room/4*3 {
		for parts := int64(2); parts <= 8; parts *= 2 {
			start(c.newState(c.above(root, c.budget/parts)))
		}
	}
	s.beam(starts, func(beam []outcome, levels int) []job { return s.children(beam, levels, full) })
	return s.found(kinds)
}

// children returns the states to try next, each once, as many as the budget
// allows with so many levels to go, the likeliest first.
func (s *searcher) children(beam []outcome, levels int, full grid) (jobs []job) {
	perRun := max(1, s.stats.Evaluations/int64(s.stats.Placements))
	runs := (s.limit - s.stats.Evaluations) / int64(levels) / perRun
	perState := int64(s.stats.Placements / max(1, s.stats.States))
	thin := runs < perState*int64(s.opt.Beam*s.opt.Candidates)
	if thin {
		s.status = OutOfBudget
		perState = 1
	}
	candidates := make([][]int, len(beam))
	longest := 0
	for i, parent := range beam {
		candidates[i] = s.catalog.candidates(parent.state, s.opt.Candidates)
		longest = max(longest, len(candidates[i]))
	}
	for rank := range longest {
		for i, parent := range beam {
			if rank >= len(candidates[i]) || int64(len(jobs)+1)*perState > runs {
				continue
			}
			child := s.catalog.split(parent.state, candidates[i][rank])
			if !s.fresh(child) {
				continue
			}
			g := full
			if thin {
				g = parent.again()
			}
			jobs = append(jobs, job{child, g})
		}
	}
	return jobs
}

// again returns the grid of the one inner search that was best.
func (o *outcome) again() grid {
	if o.lack > 0 {
		return grid{rules: []rule{leastAfter}, thresholds: []float64{uncapped}, rescue: true}
	}
	return grid{rules: []rule{o.rule}, thresholds: []float64{o.threshold}}
}

// fresh reports whether no permutation of the state was tried before, and
// notes it.
func (s *searcher) fresh(state *state) bool {
	if s.seen[state.hash] {
		s.stats.Duplicates++
		return false
	}
	s.seen[state.hash] = true
	return true
}

// beam runs the outer search from the given starts. expand returns the children
// of the surviving states, given how many levels remain.
func (s *searcher) beam(starts []job, expand func(beam []outcome, levels int) []job) {
	jobs := starts
	for level := 0; ; level++ {
		s.stats.Levels, s.event.Level = level, level
		outcomes := s.evaluate(jobs)
		if s.ctx.Err() != nil {
			s.status = Interrupted
			return
		}
		if level == s.opt.Steps {
			return
		}
		if s.limit > 0 && s.stats.Evaluations >= s.limit {
			s.status = OutOfBudget
			return
		}
		slices.SortStableFunc(outcomes, compareOutcomes)
		s.event.Phase = "beam"
		jobs = expand(outcomes[:min(s.opt.Beam, len(outcomes))], s.opt.Steps-level)
		if len(jobs) == 0 {
			return
		}
	}
}

// job is a state to evaluate and the inner searches to run on it.
type job struct {
	state *state
	grid  grid
}

// evaluate runs the jobs on all workers and takes in their outcomes in order.
func (s *searcher) evaluate(jobs []job) []outcome {
	outcomes := make([]outcome, len(jobs))
	done := make([]chan struct{}, len(jobs))
	for i := range done {
		done[i] = make(chan struct{})
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for _, w := range s.workers[:min(len(s.workers), len(jobs))] {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				outcomes[i] = w.evaluate(s.ctx, jobs[i].state, jobs[i].grid)
				close(done[i])
			}
		})
	}
	for i := range outcomes {
		<-done[i]
		o := &outcomes[i]
		s.stats.States++
		s.stats.Placements += o.runs
		s.stats.Evaluations += o.evaluations
		if o.lack == 0 {
			s.take(o.placement)
		}
		s.tell()
	}
	group.Wait()
	s.catalog.scorer.Reset()
	return outcomes
}

// offer prices a placement found otherwise.
func (s *searcher) offer(state *state, devices []int32) {
	w := s.workers[0]
	w.assign(state, devices)
	s.take(placement{state, devices, w.scorer.Cost()})
	s.stats.Placements++
	s.stats.Evaluations += int64(len(devices))
	w.scorer.Reset()
	s.tell()
}

// take keeps the placement if it is the cheapest so far.
func (s *searcher) take(p placement) {
	if s.best.state == nil || p.cost < s.best.cost {
		s.best = p
	}
}

func (s *searcher) tell() {
	if s.opt.OnEvent != nil {
		s.event.Evaluations, s.event.Limit, s.event.Best = s.stats.Evaluations, s.limit, s.best.cost
		s.opt.OnEvent(s.event)
	}
}

// forced returns the pieces after forced splits, or why they do not fit.
func (s *searcher) forced() ([]int32, error) {
	kinds, failed := s.catalog.forced()
	if failed == none {
		return kinds, nil
	}
	i := int32(slices.Index(kinds, failed))
	return nil, s.catalog.infeasible(s.opt.Method, kinds, nil, i)
}

// found returns nil if the search has a placement. Else the error describes
// the first piece that first fit finds no place for, of those given.
func (s *searcher) found(kinds []int32) error {
	if s.best.state != nil {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	devices, failed := s.catalog.firstFit(kinds)
	return s.catalog.infeasible(s.opt.Method, kinds, devices, max(0, failed))
}

// published returns the positions in s of the pieces that the published search
// splits, in the order of their index: the n largest and the n dearest, as far
// as they have exact halves.
func (c *catalog) published(s *state, n int) []int {
	positions := make([]int, len(s.pieces))
	for i := range positions {
		positions[i] = i
	}
	positions = slices.DeleteFunc(c.union(s, positions, n), func(at int) bool {
		left, right, ok := c.cut(s.pieces[at].kind)
		return !ok || left != right
	})
	slices.SortFunc(positions, func(a, b int) int { return cmp.Compare(s.pieces[a].index, s.pieces[b].index) })
	return positions
}

// candidates returns the positions of the n dearest and the n largest kinds in
// s that can be split, by turns.
func (c *catalog) candidates(s *state, n int) []int {
	var positions []int
	taken := make(map[int32]bool, len(s.pieces))
	for i, p := range s.pieces {
		if _, _, ok := c.cut(p.kind); ok && !taken[p.kind] {
			taken[p.kind] = true
			positions = append(positions, i)
		}
	}
	return c.union(s, positions, n)
}

// union returns the first n of the positions and the n of most bytes, by
// turns, each once.
func (c *catalog) union(s *state, positions []int, n int) []int {
	n = min(n, len(positions))
	largest := slices.Clone(positions)
	slices.SortFunc(largest, func(a, b int) int { return c.largestFirst(s.pieces[a], s.pieces[b]) })
	var both []int
	for i := range n {
		for _, at := range []int{positions[i], largest[i]} {
			if !slices.Contains(both, at) {
				both = append(both, at)
			}
		}
	}
	return both
}
