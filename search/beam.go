package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/problem"
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
//     (the ladder of fit.go), or else from slices cut to the room there is
//     (pack.go).
//   - The best placement is refined by annealing (refine.go); tiny problems are tried
//     exhaustively instead (exact.go).
//   - A fused kernel runs as wide as its widest shard. So further starts have
//     everything split that is wider than 64, 32 or 16 columns. On paper-like
//     tasks of dims up to 128 on 8 devices they lowered the simulated cost by
//     18 % (a100-80, 12 tasks, priced by the simulated device itself).
//   - Ten halvings change nothing among thousands of tables. So from the best of
//     these starts, all is split that costs more than tau times the mean load of
//     a device, for a grid of tau; the beam sets out from the best of them all.
//   - First fit's and the baselines' placements compete too, and on problems of
//     up to publishedPieces pieces the published search's own.
//
// The work is limited by a budget of evaluations, not of time, so that the
// result does not depend on the machine: where one inner search is dear, fewer
// children are tried, and on fewer thresholds.

// taus is the grid of pre-splits: shares of the mean load of a device.
var taus = []float64{1, 0.7, 0.5, 0.35, 0.25}

// narrowest is the least width class, 16 columns, that everything is split to.
const narrowest = 4

// The default budget of method NeuroShard: evaluations for any problem, and
// inner searches' worth of them on top.
const (
	baseBudget  = 250_000
	searchesFor = 200
)

// publishedPieces is the largest number of pieces for which method NeuroShard
// runs the published search as well.
const publishedPieces = 900

// searcher is one run of a method.
type run struct {
	ctx     context.Context
	opt     Options
	catalog *catalog
	workers []*worker
	// best is the cheapest placement so far; its state is nil while there is none.
	best placement
	// seen holds the hashes of the states tried.
	seen map[uint64]bool
	// permuted says that the published search is on, which tries permutations;
	// first holds its outcomes by the order of their pieces.
	permuted bool
	first    map[uint64]*outcome
	// limit is the budget of evaluations, 0 for none.
	limit  int64
	status Status
	// optimal says that all placements were tried.
	optimal bool
	// forms are what tables may be besides slices in HBM; nil where that is all.
	forms *forms
	stats Stats
	event Event
}

func newRun(ctx context.Context, p *problem.Problem, newScorer Factory, opt Options) *run {
	scorer := newScorer()
	s := &run{
		ctx: ctx, opt: opt,
		catalog: newCatalog(p, scorer),
		best:    placement{cost: math.Inf(1)},
		seen:    map[uint64]bool{},
		first:   map[uint64]*outcome{},
		limit:   opt.MaxEvaluations,
		status:  Complete,
		event:   Event{Phase: "start", Levels: opt.Steps},
	}
	s.catalog.brief = opt.Brief
	if !opt.ColumnsOnly && opt.Method == NeuroShard && (len(opt.Kinds) > 0 || p.Topology.HostMemory > 0) {
		s.forms = newForms(s.catalog, opt)
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
func (s *run) baseline() error {
	c := s.catalog
	pieces, err := s.forced()
	if err != nil {
		return err
	}
	devices, failed := c.baseline(s.opt.Method, pieces, s.opt.Seed)
	if failed != none {
		return c.infeasible(s.opt.Method, pieces, devices, failed)
	}
	s.offer(c.newDivision(pieces), devices)
	return nil
}

// paper runs the published search.
func (s *run) paper() error {
	pieces, err := s.forced()
	if err != nil {
		return err
	}
	s.published(s.catalog.newDivision(pieces))
	return s.found(pieces)
}

// published runs the published beam search from a state.
func (s *run) published(start *division) {
	s.permuted = true
	g := grid{rules: []rule{leastSoFar}, thresholds: thresholds(s.opt.Grid)}
	s.beam(s.evaluate([]job{{start, g}}), func(beam []outcome, _ int) (jobs []job) {
		for _, parent := range beam {
			for _, at := range s.catalog.published(parent.division, s.opt.Candidates) {
				jobs = append(jobs, job{s.catalog.split(parent.division, at), g})
			}
		}
		return jobs
	})
}

// neuroshard runs the repaired search, and then that among all pieces.
func (s *run) neuroshard() error {
	if s.forms == nil {
		return s.columns()
	}
	return s.pieces()
}

// columns is the search among placements of slices of columns in HBM.
func (s *run) columns() error {
	c := s.catalog
	pieces, err := s.forced()
	if err != nil {
		return err
	}
	base := c.newDivision(pieces)
	// The refinement among all pieces is enough where nothing fuses.
	among := s.forms != nil && addsUp(s.workers[0].scorer)
	if alsoPublished(base) && !among {
		s.event.Levels *= 2
	}
	root, err := s.known(base)
	if err != nil {
		return err
	}
	if s.opt.MaxEvaluations == 0 && s.exact() {
		s.optimal = s.best.division != nil
		return s.found(pieces)
	}
	// The first limit is a guess at the work of an inner search.
	perRun := int64(len(root.entries)) * int64(2+min(len(c.all), shortlist)/2)
	if s.limit == 0 {
		s.limit = baseBudget + searchesFor*perRun
	}
	g := grid{rules: []rule{leastAfter, leastSoFar}, thresholds: append([]float64{uncapped}, thresholds(s.opt.Grid)...), rescue: true}
	perGrid := perRun * int64(len(g.rules)*len(g.thresholds))
	starts := s.evaluate(s.afford(s.starts(base, root, g), perGrid))
	slices.SortStableFunc(starts, compareOutcomes)
	starts = append(starts, s.evaluate(s.afford(s.presplit(starts[0].division, g), perGrid))...)
	e := expansion{
		grid:     g,
		perRun:   max(1, s.stats.Evaluations/int64(max(1, s.stats.Placements))),
		perState: max(1, s.stats.Evaluations/int64(max(1, s.stats.States))),
	}
	if !among {
		s.beam(starts, func(beam []outcome, steps int) []job { return s.children(beam, steps, e) })
		s.alsoPublished(base)
	}
	if err := s.found(pieces); err != nil {
		return err
	}
	s.join()
	if !among {
		s.refine()
	}
	return nil
}

// alsoPublished runs the published search, too, where the problem is small enough
// that its work, some six hundred states, is no matter. Now and then a slow path
// of single splits from the whole tables ends lower than all wider starts, and
// nobody should lose by the repairs.
func (s *run) alsoPublished(base *division) {
	if !alsoPublished(base) || s.status != Complete {
		return
	}
	if s.opt.MaxEvaluations == 0 {
		s.limit = 0 // the number of pieces is limit enough
	}
	s.published(base)
}

// alsoPublished reports whether the published search is run besides.
func alsoPublished(base *division) bool { return len(base.entries) <= publishedPieces }

// known offers the placements of first fit and of the baselines, or of the packing
// where first fit has none. It returns the coarsest state that first fit or else the
// packing places, or the finest if they place none; the error says that all devices
// together lack room.
func (s *run) known(base *division) (root *division, err error) {
	c, pieces := s.catalog, base.pieces()
	devices, failed := c.firstFit(pieces)
	var loads []load
	if failed != none {
		loads = c.loads(pieces)
		if bytes, _ := c.fewest(loads); bytes > c.room() {
			return nil, c.infeasible(s.opt.Method, pieces, devices, failed)
		}
	}
	finest := pieces
	fits := c.ladder(pieces, func(finer []int32) bool {
		finest = finer
		devices, failed = c.firstFit(finer)
		return failed == none
	})
	if !fits {
		if packed, on, ok := c.pack(loads, s.ended); ok {
			finest, devices, fits = packed, on, true
		}
	}
	root = c.newDivision(finest)
	if fits {
		s.offer(root, devices)
	}
	for _, m := range Baselines() {
		if devices, failed := c.baseline(m, pieces, s.opt.Seed); failed == none {
			s.offer(base, devices)
		}
	}
	return root, nil
}

// afford returns the first of the jobs, as far as the budget allows them at so
// many evaluations each; but one if there is no placement yet.
func (s *run) afford(jobs []job, each int64) []job {
	n := int(max(0, s.limit-s.stats.Evaluations) / each)
	if s.best.division == nil || s.stats.States == 0 {
		n = max(1, n)
	}
	if n >= len(jobs) {
		return jobs
	}
	s.exhausted()
	return jobs[:n]
}

// exhausted notes that the caller's budget limits the search. The default one
// is part of the method, and says nothing.
func (s *run) exhausted() {
	if s.opt.MaxEvaluations > 0 {
		s.status = OutOfBudget
	}
}

// starts returns the starting states: the pieces as they are, what first fit
// needs, everything split to some width, and, where memory is tight, to small
// shares of a device.
func (s *run) starts(base, root *division, g grid) (jobs []job) {
	c, pieces := s.catalog, root.pieces()
	jobs = s.fresh(jobs, base, g)
	jobs = s.fresh(jobs, root, g)
	for class := c.widest(pieces) - 1; class >= narrowest; class-- {
		jobs = s.fresh(jobs, c.newDivision(c.refine(pieces, func(k int32) bool { return c.pieces[k].class > class })), g)
	}
	if c.total(pieces) > c.room()/4*3 {
		for parts := int64(2); parts <= 8; parts *= 2 {
			jobs = s.fresh(jobs, c.newDivision(c.above(pieces, c.budget/parts)), g)
		}
	}
	return jobs
}

// presplit returns states in which all is split that costs more than tau times
// the mean load of a device.
func (s *run) presplit(from *division, g grid) (jobs []job) {
	c, pieces := s.catalog, from.pieces()
	mean := 0.0
	for _, k := range pieces {
		mean += c.pieces[k].cost / float64(len(c.all))
	}
	for _, tau := range taus {
		jobs = s.fresh(jobs, c.newDivision(c.refine(pieces, func(k int32) bool { return c.price(k) > tau*mean })), g)
	}
	return jobs
}

// expansion is how method NeuroShard tries children, and what that costs.
type expansion struct {
	grid grid
	// perRun and perState are the evaluations of one inner search and of a whole
	// grid of them, about.
	perRun, perState int64
}

// children returns the states to try next, each once, as many as the budget
// allows with so many steps to go, the likeliest first. Where it does not allow
// whole grids, a child gets the inner search alone that suited its parent.
func (s *run) children(beam []outcome, steps int, e expansion) (jobs []job) {
	allowance, each := (s.limit-s.stats.Evaluations)/int64(steps), e.perState
	thin := allowance < each*int64(s.opt.Beam*s.opt.Candidates)
	if thin {
		s.exhausted()
		each = e.perRun
	}
	candidates := make([][]int, len(beam))
	longest := 0
	for i, parent := range beam {
		candidates[i] = s.catalog.candidates(parent.division, s.opt.Candidates)
		longest = max(longest, len(candidates[i]))
	}
	for rank := range longest {
		for i, parent := range beam {
			if rank >= len(candidates[i]) || int64(len(jobs)+1)*each > allowance {
				continue
			}
			g := e.grid
			if thin {
				g = parent.again()
			}
			jobs = s.fresh(jobs, s.catalog.split(parent.division, candidates[i][rank]), g)
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

// fresh appends the job of the state and grid, unless a permutation of the state
// was tried before.
func (s *run) fresh(jobs []job, division *division, g grid) []job {
	if s.seen[division.hash] {
		s.stats.Duplicates++
		return jobs
	}
	s.seen[division.hash] = true
	return append(jobs, job{division, g})
}

// beam runs the outer search from the outcomes of the starting states. expand
// returns the children of the surviving states, given how many steps remain.
func (s *run) beam(outcomes []outcome, expand func(beam []outcome, steps int) []job) {
	s.event.Phase = "beam"
	before := s.event.Level
	for level := 1; level <= s.opt.Steps; level++ {
		if s.ctx.Err() != nil {
			break
		}
		if s.limit > 0 && s.stats.Evaluations >= s.limit {
			s.exhausted()
			return
		}
		slices.SortStableFunc(outcomes, compareOutcomes)
		jobs := expand(outcomes[:min(s.opt.Beam, len(outcomes))], s.opt.Steps-level+1)
		if len(jobs) == 0 {
			return
		}
		s.event.Level = before + level
		s.stats.Levels = s.event.Level
		outcomes = s.evaluate(jobs)
	}
	if s.ctx.Err() != nil {
		s.cutShort()
	}
}

// widest returns the highest width class of the pieces.
func (c *catalog) widest(pieces []int32) uint8 {
	widest := uint8(narrowest)
	for _, k := range pieces {
		widest = max(widest, c.pieces[k].class)
	}
	return widest
}

// job is a state to evaluate and the inner searches to run on it.
type job struct {
	division *division
	grid     grid
}

// evaluate runs the jobs on all workers and takes in their outcomes in order.
// The caller's goroutine is the first worker. It takes in what has been done
// between its own jobs.
func (s *run) evaluate(jobs []job) []outcome {
	outcomes := make([]outcome, len(jobs))
	twins := s.twins(jobs, outcomes)
	done := make([]atomic.Bool, len(jobs))
	var next atomic.Int64
	work := func(w *worker, after func()) {
		for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
			if twins[i] == nil {
				outcomes[i] = w.evaluate(s.ctx, jobs[i].division, jobs[i].grid)
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
			s.stats.States++
			s.stats.Placements += o.runs
			s.stats.Evaluations += o.evaluations
			if o.lack == 0 {
				s.take(o.placement)
			}
			s.tell()
		}
	}
	var group sync.WaitGroup
	for _, w := range s.workers[1:max(1, min(len(s.workers), len(jobs)))] {
		group.Go(func() { work(w, func() {}) })
	}
	work(s.workers[0], take)
	group.Wait()
	take()
	s.catalog.scorer.Reset()
	return outcomes
}

// twins returns, for each of the published search's jobs, an outcome to copy: that
// of an earlier state with the same pieces in the same order, which is placed in
// the same way; nil where there is none. The published search tries such
// permutations; they take places in its beam and count as work, but need not be
// searched again. outcomes are where those of the jobs will be.
func (s *run) twins(jobs []job, outcomes []outcome) []*outcome {
	twins := make([]*outcome, len(jobs))
	if !s.permuted {
		return twins
	}
	for i, j := range jobs {
		order := j.division.order()
		first, ok := s.first[order]
		if !ok {
			s.first[order] = &outcomes[i]
			outcomes[i].division = j.division
		} else if first.division.alike(j.division) {
			twins[i] = first
		}
	}
	return twins
}

// order returns a hash of the pieces in their order.
func (s *division) order() (hash uint64) {
	for _, p := range s.entries {
		hash = hash*0x9e3779b97f4a7c15 + mix(p.piece)
	}
	return hash
}

// alike reports whether the states have the same pieces in the same order.
func (s *division) alike(t *division) bool {
	return slices.EqualFunc(s.entries, t.entries, func(a, b entry) bool { return a.piece == b.piece })
}

// as returns the outcome of a state that is alike.
func (o *outcome) as(s *division) outcome {
	twin := *o
	twin.division, twin.devices = s, make([]int32, len(o.devices))
	if len(o.devices) > 0 {
		for at, p := range s.entries {
			twin.devices[p.index] = o.devices[o.division.entries[at].index]
		}
	}
	return twin
}

// offer prices a placement found otherwise.
func (s *run) offer(division *division, devices []int32) {
	w := s.workers[0]
	w.assign(division, devices)
	s.take(placement{division, devices, w.scorer.Cost()})
	s.stats.Placements++
	s.stats.Evaluations += int64(len(devices))
	w.scorer.Reset()
	s.tell()
}

// take keeps the placement if it is the cheapest so far.
func (s *run) take(p placement) {
	if s.best.division == nil || p.cost < s.best.cost {
		s.best = p
	}
}

func (s *run) tell() {
	if s.opt.OnEvent != nil {
		s.event.Evaluations, s.event.Limit, s.event.Best = s.stats.Evaluations, s.limit, s.best.cost
		s.opt.OnEvent(s.event)
	}
}

// forced returns the pieces after forced splits, or why they do not fit.
func (s *run) forced() ([]int32, error) {
	pieces, failed := s.catalog.forced()
	if failed == none {
		return pieces, nil
	}
	i := int32(slices.Index(pieces, failed))
	return nil, s.catalog.infeasible(s.opt.Method, pieces, nil, i)
}

// found returns nil if the search has a placement. Else the error describes
// the piece, of those given, that first fit finds no room for; or, where bytes
// are not the obstacle, the one with the most columns, which caps exclude first.
func (s *run) found(pieces []int32) error {
	if s.best.division != nil {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	devices, failed := s.catalog.firstFit(pieces)
	if failed == none {
		devices, failed = nil, 0
		for i, k := range pieces {
			if s.catalog.pieces[k].dims > s.catalog.pieces[pieces[failed]].dims {
				failed = int32(i)
			}
		}
	}
	return s.catalog.infeasible(s.opt.Method, pieces, devices, failed)
}

// published returns the positions in s of the pieces that the published search
// splits, in the order of their index: the n largest and the n dearest, as far
// as they have exact halves.
func (c *catalog) published(s *division, n int) []int {
	positions := make([]int, len(s.entries))
	for i := range positions {
		positions[i] = i
	}
	positions = slices.DeleteFunc(c.union(s, positions, n), func(at int) bool {
		left, right, ok := c.cut(s.entries[at].piece)
		return !ok || left != right
	})
	slices.SortFunc(positions, func(a, b int) int { return cmp.Compare(s.entries[a].index, s.entries[b].index) })
	return positions
}

// candidates returns the positions of the n dearest and the n largest pieces in
// s that can be split, by turns.
func (c *catalog) candidates(s *division, n int) []int {
	var positions []int
	taken := make(map[int32]bool, len(s.entries))
	for i, p := range s.entries {
		if _, _, ok := c.cut(p.piece); ok && !taken[p.piece] {
			taken[p.piece] = true
			positions = append(positions, i)
		}
	}
	return c.union(s, positions, n)
}

// union returns the first n of the positions and the n of most bytes, by
// turns, each once.
func (c *catalog) union(s *division, positions []int, n int) []int {
	n = min(n, len(positions))
	largest := slices.Clone(positions)
	slices.SortFunc(largest, func(a, b int) int { return c.largestFirst(s.entries[a], s.entries[b]) })
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
