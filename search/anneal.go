package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Stage anneal improves the best placement by small changes (moves.go), under simulated
// annealing: a change that raises the goal (goal.go) is accepted with a chance that
// falls as a run goes on. The cheapest placement met on the way is kept.
//
// The first runs are short and begin at several placements (shapes.go). The annealing
// goes on from the best result. A run has a fixed number of evaluations, and runs that begin at
// placements known before take place at the same time (parallel.go). By default two long runs
// follow the short runs, both from the best placement; if the caller set a budget of evaluations,
// further runs follow, each twice as long as the one before, until it is used up. So the result
// depends on the seed and on where the budget ends, and not on the number of workers.

const (
	// The first long run makes annealEvaluations evaluations, or evaluationsASlice for
	// each slice, whichever is more. After short runs from all shapes (allShapes),
	// shapedEvaluations take the place of annealEvaluations.
	annealEvaluations, shapedEvaluations, evaluationsASlice = 60_000, 30_000, 30
	// hot sets the temperature at the start of a run. Of warmDraws changes that raise the
	// goal, the share low raises it by less than some amount; the run starts at hot times
	// that amount, since the effect of a change depends on the number of devices. The run
	// ends at cold times its first temperature. A run that found nothing is followed by
	// one that is cooler by a factor.
	hot, cold = .5, .02
	cooler    = .3
	// formHot is hot for the short runs among all forms, and coarseHot for runs from the coarse
	// placements of a large problem. The long run of a large problem makes coarseLonger times
	// the evaluations.
	formHot, coarseHot = .15, .1
	coarseLonger       = 5
	low                = .2
	warmDraws          = 200
	// With n tables, at most fewTables, a run makes the share (n/fewShare)^2 of the evaluations,
	// and fewEvaluations at least (docs/evidence/SEARCH.md).
	fewTables, fewShare, fewEvaluations = 2, 8, 200
	// balanceColumns makes a run of balanceEvaluations from each of balanceHeats, if no device computes for
	// more than the share sentShare of the cost.
	balanceEvaluations, sentShare = 20_000, .6
	// lookEvery is the number of changes tried between two looks at the clock, and
	// rescaleEvery the number between two settings of the scales of the soft maxima.
	lookEvery    = 64
	rescaleEvery = 1024
	// The scorer is asked for the cost of a placement only if its goal is at most (1 +
	// near) times the best goal so far.
	near = .002
)

// longHeats are the heats of the long runs among slices of columns, in lists of runs from one
// placement, and longFormHeats those of the long runs among all forms. The latter begin hotter,
// because two good placements in different forms may have only expensive ones between them.
var longHeats, longFormHeats = [][]float64{{hot, hot}}, [][]float64{{1, 1}, {1, .2}, {.2, .05}}

// balanceHeats are the heats of the runs that balance columns (balanceColumns).
var balanceHeats = []float64{.02, .05}

// annealer anneals a layout.
type annealer struct {
	mover
	// heat is the temperature at the start of a run, relative to the rise that only the
	// share low of the drawn changes stays below.
	heat float64
	// near is constant near, or a larger number.
	near float64
	// alone says that the layout has a subcluster, whose cost is the goal (subclusters.go).
	alone bool
}

func newAnnealer(c *catalog, scorer Scorer, seed uint64, f forms) *annealer {
	return &annealer{mover: mover{layout: newLayout(c, scorer, f), draw: rand.New(rand.NewPCG(seed, 0x726566696e65))}, heat: hot, near: near}
}

// anneal tries changes until it has used the evaluations or ended reports true. It
// returns the parts of the cheapest placement, or nil if no placement is cheaper than
// the first one; early says that ended stopped the run. Field best of the layout is the
// cost of the cheapest placement.
func (a *annealer) anneal(evaluations int64, ended func() bool) (best []placed, early bool) {
	goal := a.goal()
	least := goal
	warmth := a.warmth(goal)
	// unsaved says that the current placement is the cheapest and not copied yet.
	unsaved := false
	save := func() {
		best = best[:0]
		for _, slot := range a.live {
			best = append(best, a.parts[slot])
		}
		unsaved = false
	}
	temperature := warmth
	// Changes that cannot be made count too, so that a run ends even if no change can be
	// made.
	for tried := 0; a.evaluations < evaluations && !early; tried++ {
		if tried%lookEvery == 0 {
			early, temperature = ended(), warmth*math.Pow(cold, float64(a.evaluations)/float64(evaluations))
		}
		if a.mixed && tried%rescaleEvery == 0 {
			a.scale()
			goal = a.goal()
		}
		a.evaluations++
		if !a.propose() {
			continue
		}
		before := a.softSums
		// The rise that is accepted is drawn first, so that most changes need not be estimated to their end.
		if !a.tryWithin(goal + temperature*a.draw.ExpFloat64()) {
			a.undo(before)
			continue
		}
		goal = a.goal()
		cheaper := a.cheaper(goal, &least)
		if unsaved && !cheaper {
			save()
		}
		a.accept()
		unsaved = unsaved || cheaper
	}
	if unsaved {
		save()
	}
	return best, early
}

// cheaper reports whether the placement is the cheapest of the run. It asks the scorer
// for the cost only if the goal is near the least goal so far.
func (a *annealer) cheaper(goal float64, least *float64) bool {
	if goal >= *least*(1+a.near) {
		return false
	}
	*least = min(*least, goal)
	cost := a.cost()
	if cost >= a.best {
		return false
	}
	a.best = cost
	return true
}

// cost returns the cost of the placement, with the price of moved bytes, or that of a subcluster.
func (a *annealer) cost() float64 {
	if a.alone {
		return a.goal()
	}
	return a.priced(a.scorer.Cost())
}

// warmth returns the temperature at which a run begins, above 0. It draws changes,
// takes their rises of the goal, and undoes the changes.
func (a *annealer) warmth(goal float64) float64 {
	var rises []float64
	for tried := 0; tried < 4*warmDraws && len(rises) < warmDraws; tried++ {
		a.evaluations++
		if !a.propose() {
			continue
		}
		before := a.softSums
		a.try()
		if rise := a.goal() - goal; rise > 0 && !math.IsInf(rise, 1) {
			rises = append(rises, rise)
		}
		a.undo(before)
	}
	if len(rises) == 0 {
		return math.SmallestNonzeroFloat64 // no rise is accepted
	}
	slices.Sort(rises)
	return a.heat * rises[int(low*float64(len(rises)))]
}

// annealing is a sequence of runs of annealing. They share the budget of one run of a
// method. Its own annealer has the settings of the runs, and makes and compares starts; each
// run has an annealer of its own.
type annealing struct {
	*annealer
	r *run
	// placement is the cheapest so far.
	placement placement
	// shaped says that there were short runs from all shapes (allShapes).
	shaped bool
	// drawn counts the runs: each has draws of its own.
	drawn uint64
}

func newAnnealing(r *run, best placement, f forms) *annealing {
	a := &annealing{annealer: newAnnealer(r.catalog, r.scorer(), r.opt.Seed, f), r: r, placement: best}
	a.trades = r.forms.any()
	return a
}

// on returns an annealer with the same settings for a run of annealing on another run of the
// method.
func (a *annealing) on(r *run, number uint64, heat float64) *annealer {
	f := r.forms
	if !a.forms.any() {
		f = f.none()
	}
	b := newAnnealer(r.catalog, r.scorer(), r.opt.Seed, f)
	if number > 0 {
		b.draw = rand.New(rand.NewPCG(r.opt.Seed, mix(int32(number))))
	}
	b.heat, b.near, b.mixed, b.exact = heat, a.near, a.mixed, a.exact
	b.trades, b.renumbers, b.uncut, b.focus, b.sameForms = a.trades, a.renumbers, a.uncut, a.focus, a.sameForms
	return b
}

// from anneals from a placement for a number of evaluations and offers the cheapest
// placement found as the best. It returns that placement, whose parts are nil if none is
// cheaper than the first one.
func (a *annealing) from(parts []placed, evaluations int64) start {
	starts := []start{{parts: parts}}
	if !a.fromEach(starts, evaluations, a.heat)[0] {
		return start{}
	}
	return starts[0]
}

// fromEach anneals from each of some starts for a number of evaluations, at the same time on the
// threads of the search. It offers the cheapest placement of each run as the best, and replaces
// the start by it if it is cheaper than the start. It reports which starts it replaced.
func (a *annealing) fromEach(starts []start, evaluations int64, heats ...float64) []bool {
	a.r.stats.Evaluations += a.evaluations
	a.evaluations = 0
	inputs, cheapest := describeStarts(a.c, starts), make([]describedStart, len(starts))
	first := a.drawn
	a.drawn += uint64(len(starts))
	inParallel(a.r, len(starts), func(on *run, i int) {
		b := a.on(on, first+uint64(i), heats[i%len(heats)])
		b.reset(find(on, inputs[i].parts))
		best, ended := b.anneal(a.enough(min(evaluations, on.end())), on.ended)
		if best != nil {
			cheapest[i] = describedStart{describe(on.catalog, best), b.best}
		}
		if ended {
			on.cutShort()
		}
		on.stats.Evaluations += b.evaluations
	})
	replaced := make([]bool, len(starts))
	for i, s := range cheapest {
		if replaced[i] = s.parts != nil; replaced[i] {
			starts[i] = start{find(a.r, s.parts), s.cost}
			a.placement = a.r.offerPlaced(a.placement, starts[i].parts)
		}
		a.r.tell(a.placement)
	}
	return replaced
}

// enough returns the number of evaluations of a run. Problems of few tables have few placements, so
// their runs make a share of the given evaluations, and fewEvaluations at least. A run
// from an old placement makes all evaluations, because the best placement within a limit of moved
// bytes is harder to find.
func (a *annealing) enough(evaluations int64) int64 {
	n := int64(len(a.r.catalog.problem.Tables))
	if n > fewTables || a.r.opt.From != nil {
		return evaluations
	}
	return min(evaluations, max(fewEvaluations, evaluations*n*n/(fewShare*fewShare)))
}

// left returns the number of evaluations that the caller's budget leaves, 0 if the
// search has ended.
func (a *annealing) left() int64 {
	if a.r.status != Complete {
		return 0
	}
	return max(0, a.r.end()-a.r.stats.Evaluations)
}

// long anneals from the best placement so far, once for each list of heats: the runs of a list
// begin at the same placement and make the evaluations together. A single run of a large problem
// takes place in subclusters. If useUp is true and the caller set a budget of evaluations, longer
// runs follow, each twice as long as the one before, until the budget is used up. A budget of time
// is used up by stage longer.
func (a *annealing) long(evaluations int64, heats [][]float64, useUp bool) {
	for _, heats := range heats {
		if a.heat = heats[0]; len(heats) == 1 && a.divides() {
			a.inSubclusters(evaluations)
			continue
		}
		starts := make([]start, len(heats))
		for i := range starts {
			starts[i].parts = a.placement.placed()
		}
		a.fromEach(starts, evaluations/int64(len(heats)), heats...)
	}
	a.heat = hot
	if a.mixed {
		a.heat = formHot
	}
	for useUp && a.left() > 0 && a.r.most > 0 {
		evaluations *= 2
		a.again(evaluations)
	}
	if a.r.stats.Evaluations >= a.r.end() && a.r.status == Complete {
		a.r.exhausted()
	}
}

// again anneals from the best placement. After a run that finds nothing, the next one is
// cooler.
func (a *annealing) again(evaluations int64) {
	if a.left() > 0 && a.from(a.placement.placed(), evaluations).parts == nil {
		a.heat *= cooler
	}
}

// longRun returns the number of evaluations of the first long run.
func (a *annealing) longRun() int64 {
	least := int64(annealEvaluations)
	if a.shaped {
		least = shapedEvaluations
	}
	return max(least, evaluationsASlice*int64(len(a.placement.division.entries)))
}

// round is a round of annealing: the number of starts, and the evaluations for each start.
type round struct {
	keep        int
	evaluations int64
}

// shapeRounds are the rounds of annealing from all shapes, chosenRounds those from the chosen
// shapes alone, and coarseRounds those from coarse placements, with evaluations for each slice.
var (
	shapeRounds  = []round{{8, 2_000}, {3, 8_000}}
	chosenRounds = []round{{8, 6_000}, {3, 20_000}}
	coarseRounds = []round{{4, 6}, {2, 6}}
)

// start is a placement to anneal from, and its cost.
type start struct {
	parts []placed
	cost  float64
}

func cheapestFirst(a, b start) int { return cmp.Compare(a.cost, b.cost) }

// known reports whether a start of that cost is in the list.
func known(starts []start, cost float64) bool {
	return slices.ContainsFunc(starts, func(s start) bool { return s.cost == cost })
}

// annealShapes makes short runs from the best placement and from the placements of the
// shapes.
func annealShapes(a *annealing) {
	if starts := shapeStarts(a); len(starts) > 1 {
		rounds := chosenRounds
		if a.shaped = allShapes(a.c); a.shaped {
			rounds = shapeRounds
		}
		annealRounds(a, starts, rounds, 1)
	}
}

// annealCoarse makes short runs from the best placement and from the coarse placements of a
// large problem.
func annealCoarse(a *annealing, coarse [][]placed) {
	starts := []start{{a.placement.placed(), a.placement.cost}}
	for _, parts := range coarse {
		if a.reset(parts); !known(starts, a.best) {
			starts = append(starts, start{parts, a.best})
		}
	}
	a.heat = coarseHot
	annealRounds(a, starts, coarseRounds, int64(len(a.placement.division.entries)))
	a.heat = hot
}

// annealRounds makes short runs from the starts, and goes on with the best in each round. A
// run makes the round's evaluations times each.
func annealRounds(a *annealing, starts []start, rounds []round, each int64) {
	for _, round := range rounds {
		slices.SortStableFunc(starts, cheapestFirst)
		starts = starts[:min(len(starts), round.keep)]
		a.fromEach(starts, round.evaluations*each, a.heat)
	}
}

// shapesATask is the number of shapes that one task builds.
const shapesATask = 5

// shapeStarts returns the best placement and the placements of the shapes that could be
// built, until the budget is used up.
func shapeStarts(a *annealing) []start {
	starts := []start{{a.placement.placed(), a.placement.cost}}
	a.reset(starts[0].parts)
	busiest := slices.Max(a.compute)
	shapes := chosenShapes
	if allShapes(a.c) {
		shapes = shapesTried
	}
	each := int64(len(a.c.whole())) * int64(len(a.c.all)) * eachShape
	shapes = shapes[:min(len(shapes), int(shapeEvaluations/each))]
	tasks := slices.Collect(slices.Chunk(shapes, shapesATask))
	found := make([][]describedStart, len(tasks))
	inParallel(a.r, len(tasks), func(on *run, i int) {
		b := newBuilder(newLayout(on.catalog, on.scorer(), on.forms.none()), on.catalog.whole(), nil, chosenTarget*busiest)
		for _, shape := range tasks[i] {
			b.target = shape.target * busiest
			if on.ended() || b.evaluations >= on.end() {
				break
			}
			if b.build(shape) {
				found[i] = append(found[i], describedStart{describe(on.catalog, b.all()), b.scorer.Cost()})
			}
		}
		on.stats.Evaluations += b.evaluations
	})
	for _, s := range slices.Concat(found...) {
		if !known(starts, s.cost) {
			starts = append(starts, start{find(a.r, s.parts), s.cost})
			a.placement = a.r.offerPlaced(a.placement, starts[len(starts)-1].parts)
		}
	}
	return starts
}

// anneal is the stage that anneals slices of columns. If tables may take other forms as
// well, stage switch decides whether that pays.
type anneal struct{}

func (anneal) apply(r *run, s state) (state, error) {
	if s.best.division == nil || r.forms.any() {
		return s, nil
	}
	r.event.Phase = "anneal"
	s.best = annealColumns(r, s.best, s.coarse, true)
	return s, nil
}

// fewSlices reports whether a run among all forms is not longer than one of few slices.
func fewSlices(best placement) bool {
	return evaluationsASlice*len(best.devices) <= annealEvaluations
}

// annealColumns anneals slices of columns from a placement of them, and from the coarse
// placements of a large problem. alone says that no run among all forms follows. It does not
// affect the draws, so the slices that a search among all forms finds here should cost no more than
// those of a search among slices of columns.
func annealColumns(r *run, best placement, coarse [][]placed, alone bool) placement {
	one := len(r.catalog.all) == 1 // then slices can only be cut and joined where they lie
	if one && addsUp(r.scorer()) || !alone && r.annealsOnce() {
		return best
	}
	a := newAnnealing(r, best, r.forms.none())
	a.trades = false // a search among all forms draws the same changes here as one among slices
	heats, longer := longHeats, int64(1)
	switch {
	case len(coarse) > 0:
		annealCoarse(a, coarse)
		heats, longer = [][]float64{{coarseHot}}, coarseLonger
	case !one && !addsUp(a.scorer):
		annealShapes(a)
	}
	// If a run among all forms is long anyway, it needs no run among slices of columns
	// first.
	if alone || fewSlices(best) {
		a.long(longer*a.longRun(), heats, alone)
		if !one && fewSlices(a.placement) && !addsUp(a.scorer) {
			oneSliceMore(a, hot)
			balanceColumns(a)
		}
	}
	a.scorer.Reset()
	return a.placement
}

// balanceColumns trades slices and balances columns in two last cool runs, if exchanges take a large
// share of the cost. Exchanges take as long as the device that sends the most columns. Without these
// changes, two devices that share no table seldom come to send the same number of columns.
func balanceColumns(a *annealing) {
	if a.c.rules.EqualSlices {
		return // columns do not move
	}
	parts := a.placement.placed()
	if a.reset(parts); slices.Max(a.compute) > sentShare*a.placement.cost {
		return
	}
	a.trades = true
	a.fromEach([]start{{parts: parts}, {parts: parts}}, balanceEvaluations, balanceHeats...)
	a.trades = false
}
