package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A run of annealing improves a placement by small changes (moves.go), under simulated
// annealing: a change that raises the goal (goal.go) is accepted with a chance that
// falls as the run goes on. The cheapest placement met on the way is kept. A run has a fixed
// number of evaluations, so its result does not depend on the machine.
//
// Where HBM is nearly full, few changes fit, and none may lead from a placement to a cheaper one. So a
// run of the race may exceed the HBM of devices on its way, at a price for each byte that rises as the run cools. So may it
// leave devices empty, if the engine needs a part of a table on each.

const (
	// hot sets the temperature at the start of a run. Of warmDraws changes that raise the
	// goal, the share low raises it by less than some amount; the run starts at hot times
	// that amount, since the effect of a change depends on the number of devices. The run
	// ends at cold times its first temperature. A run that found nothing is followed by
	// one that is cooler by a factor.
	hot, cold = .5, .02
	cooler    = .3
	low       = .2
	warmDraws = 200
	// lookEvery is the number of changes tried between two looks at the clock, and
	// rescaleEvery the number between two settings of the scales of the soft maxima.
	lookEvery    = 64
	rescaleEvery = 1024
	// The scorer is asked for the cost of a placement only if its goal is at most (1 +
	// near) times the best goal so far.
	near = .002
)

// annealer anneals a layout.
type annealer struct {
	mover
	// heat is the temperature at the start of a run, relative to the rise that only the
	// share low of the drawn changes stays below.
	heat float64
	// firstCrowding is the price of a byte beyond a device's HBM at the start of a run, in ms. The price rises as the
	// temperature falls, and the run returns a placement that fits. If firstCrowding is 0, the caller sets the price, if any.
	firstCrowding float64
}

func newAnnealer(c *catalog, scorer Scorer, seed uint64, f forms) *annealer {
	return &annealer{mover: mover{layout: newLayout(c, scorer, f), draw: rand.New(rand.NewPCG(seed, 0x726566696e65))}, heat: hot}
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
			cooled := math.Pow(cold, float64(a.evaluations)/float64(evaluations))
			if early, temperature = ended(), warmth*cooled; a.firstCrowding > 0 {
				a.crowding = a.firstCrowding / cooled
				goal = a.goal()
			}
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
	if goal >= *least*(1+near) || a.firstCrowding > 0 && a.over > 0 {
		return false
	}
	*least = min(*least, goal)
	cost := a.priced(a.scorer.Cost())
	if cost >= a.best {
		return false
	}
	a.best = cost
	return true
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
	// drawn counts the runs: each has draws of its own.
	drawn uint64
}

func newAnnealing(r *run, best placement, f forms) *annealing {
	return &annealing{annealer: newAnnealer(r.catalog, r.scorer(), r.opt.Seed, f), r: r, placement: best}
}

// from anneals from a placement for a number of evaluations, as far as the caller's budget leaves
// them, and offers the cheapest placement found as the best. It reports whether that placement is
// cheaper than the first one.
func (a *annealing) from(parts []placed, evaluations int64) bool {
	r := a.r
	r.stats.Evaluations += a.evaluations
	a.evaluations = 0
	b := newAnnealer(r.catalog, r.scorer(), r.opt.Seed, r.forms)
	if a.drawn > 0 {
		b.draw = rand.New(rand.NewPCG(r.opt.Seed, mix(int32(a.drawn))))
	}
	a.drawn++
	if evaluations = min(evaluations, a.left()); evaluations == 0 {
		r.tell(a.placement)
		return false
	}
	b.heat, b.exact, b.renumbers, b.focus = a.heat, a.exact, a.renumbers, a.focus
	b.reset(parts)
	best, ended := b.anneal(evaluations, r.ended)
	if ended {
		r.cutShort()
	}
	r.stats.Evaluations += b.evaluations
	if best != nil {
		a.placement = r.offer(a.placement, best)
	}
	r.tell(a.placement)
	return best != nil
}

// left returns the number of evaluations that the caller's budget leaves, 0 if the
// search has ended.
func (a *annealing) left() int64 {
	if a.r.status != Complete {
		return 0
	}
	return max(0, a.r.end()-a.r.stats.Evaluations)
}

// again anneals from the best placement. After a run that finds nothing, the next one is
// cooler.
func (a *annealing) again(evaluations int64) {
	if a.left() > 0 && !a.from(a.placement.parts, evaluations) {
		a.heat *= cooler
	}
}

func cheapestFirst(a, b placement) int { return cmp.Compare(a.cost, b.cost) }

// mix spreads a piece's number over 64 bits (the finaliser of SplitMix64, Steele
// et al. 2014).
func mix(k int32) uint64 {
	z := (uint64(k) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
