package search

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

const (
	// A run of the first round makes leastRun evaluations, formsRun more for each pair of forms, or sliceRun for each slice.
	// Fewer than fewTables tables have few placements: of n tables, a run makes (n/fewTables)^2 of these, and fewRun at least.
	leastRun, formsRun, sliceRun, fewTables, fewRun = 2_000, 150, 20, 8, 500
	// keptStarts race, and the cheapest start of each set of forms. If there are fewer than fewStarts, each races several
	// times, by other draws.
	keptStarts, fewStarts = 16, 6
	// raceHeat is the heat of the runs of a round. Half of the starts stay for the next one.
	raceHeat = .3
	// When a run begins, bytes beyond HBM that equal the memory of a device raise the goal by the share crowdedShare of the cost.
	crowdedShare = .3
	// A long run is longRun times as long as a run of the first round.
	longRun = 16
	// Beside the winner, a placement makes the first long run if it costs less than otherLine times the winner.
	otherLine = 1.1
	// winSteps is the most rounds and long runs together.
	winSteps = 7
	// idleGain is the share by which a run must make a placement cheaper so that another one follows.
	idleGain = .001
	// On more than largePairs tables times devices, runs are shorter for each slice, few starts race, and
	// all runs are cold: the starts are near the best placement, and there are few evaluations for each slice.
	largePairs, largeLeast, largeSlice, largeStarts = 10_000, 4_000, 4, 3
	// The runs from a neighbour have heat neighbourHeat. They are short at first; nextNeighbours make long runs.
	neighbourHeat, nextNeighbours = .05, 4
)

// longHeats are the heats of the long runs, and largeHeats those of a large problem.
var longHeats, largeHeats = []float64{1, .1, .05, .03}, []float64{.05, .02, .01, .01}

// The race is the search: it makes starts, anneals from all of them for a short time, then from fewer of them for longer, and
// goes on from the best one.
//
//	starts        placements of all tables (starts.go)             40 to 80, the cheapest 16 race
//	rounds        1 x each from 16 starts | 2 x from 8 | 4 x from 4 ...  hot runs
//	long runs     16 x each from the winner, ever colder                 until one saves nothing
//	beside these  the hottest table in one slice more; one table more or fewer in a form
//
// A race among all forms follows races among slices of columns in HBM, and in host memory too: those of a search among these
// alone. The winner of each is one start more of the next. Runs with numbers of operators and without race beside each other,
// because numbers that pay at the end may not pay at first.
//
// Another race with the same starts, other draws and runs twice as long follows as long as the caller's budget of time
// or evaluations lasts.
//
// optimum is the cheapest placement in the forms, if all were tried: the zero placement if they were not.
func race(r *run, s state, optimum placement) placement {
	best := cheaper(s.best, optimum)
	if s.best.parts == nil || r.status != Complete || s.complete && !mayNumber(r) && !slices.Contains(r.forms.chosen, true) {
		return best
	}
	c := &course{r: r, base: s.best, best: best, optimum: optimum, numbers: mayNumber(r), large: len(r.catalog.whole())*len(r.catalog.all) > largePairs}
	nested := r.forms.nested()
	nested = nested[slices.IndexFunc(nested, func(f forms) bool { return f.allow(r.catalog, s.best.parts) }):]
	r.event.Phase, r.event.Levels = "anneal", winSteps*len(nested)
	starts := make([][]racer, len(nested))
	for i, f := range nested {
		c.forms = f
		starts[i] = c.starts(starts[0])
	}
	for longer := int64(1); longer == 1 || (r.opt.Budget > 0 || r.most > 0) && !c.over(); longer *= 2 {
		c.run(starts, nested, longer)
	}
	if c.numbers {
		c.best = tidied(r, c.best)
	}
	c.noteEnd()
	r.scorer().Reset()
	return c.best
}

// noteEnd records what ended the search, if it is not complete.
func (c *course) noteEnd() {
	switch r := c.r; {
	case r.status != Complete:
	case r.ended():
		r.cutShort()
	case r.most > 0 && r.stats.Evaluations >= r.most:
		r.exhausted()
	}
}

// shortest returns the evaluations of a run of the first round of the first race, for a number of other forms.
func (c *course) shortest(others int) int64 {
	if c.large {
		return max(largeLeast, largeSlice*int64(len(c.base.parts)))
	}
	forms, tables := int64(others), int64(min(len(c.r.catalog.problem.Tables), fewTables))
	least := leastRun + formsRun*forms*forms
	return max(least*tables*tables/(fewTables*fewTables), fewRun, sliceRun*int64(len(c.base.parts)))
}

// course is what the races of a search share.
type course struct {
	r *run
	// base is the placement that the search began with, best the cheapest one, and optimum that of race.
	base, best, optimum placement
	// numbers says that tables may have numbers of operators, and large that the problem is large.
	numbers, large bool
	// forms are those of the race that runs, and steps is the number of steps after it.
	forms forms
	steps int
	// drawn counts the runs: each has draws of its own.
	drawn uint64
	// guides are the guides of the builds, the best ones first.
	guides []guide
}

// racer is a start of the race. numbers says that its runs give tables other numbers.
type racer struct {
	placement
	numbers bool
}

func cheapestRacer(a, b racer) int { return cheapestFirst(a.placement, b.placement) }

// over reports whether the search has ended or the caller's evaluations are used up.
func (c *course) over() bool {
	return c.r.ended() || c.r.status != Complete || c.r.stats.Evaluations >= c.r.end()
}

// run is one race after the other, each among more forms: the winner of one is a start of the next. Beside that winner, a race has
// the same starts and draws as if there were no further forms, so more forms never cost more. starts are those in each of the forms.
// longer is the factor of the lengths of all runs.
func (c *course) run(starts [][]racer, nested []forms, longer int64) {
	var winners []racer
	if c.optimum.parts != nil {
		winners = append(winners, racer{c.optimum, false})
	}
	for i, f := range nested {
		c.forms, c.steps = f, (i+1)*winSteps
		others := func(t racer) bool { return !f.allow(c.r.catalog, t.parts) }
		in := slices.DeleteFunc(slices.Concat(starts[i], winners), others)
		slices.SortStableFunc(in, cheapestRacer)
		winners = append(winners, c.win(in, longer*c.shortest(f.count())))
	}
}

// win makes the rounds from the sorted starts and the long runs from their winner, and returns the cheapest placement.
func (c *course) win(starts []racer, each int64) racer {
	kept, heats := keptStarts, longHeats
	if c.large {
		kept, heats = largeStarts, largeHeats
	}
	starts = c.eachSet(starts, kept)
	for i := 0; len(starts) < min(kept, fewStarts); i++ {
		starts = append(starts, starts[i])
	}
	winner, others := c.rounds(starts, each)
	each *= longRun
	for i, heat := range heats {
		before, from := winner.cost, []racer{winner}
		if i == 0 {
			from = append(from, others...)
		}
		c.anneal(from, each, heat, mover{})
		c.step(1)
		winner = cheapestOf(winner, from)
		if i == 0 {
			winner = c.neighbours(c.sliceMore(winner, each), each/longRun*2)
		} else if winner.cost > before*(1-idleGain) {
			break
		}
	}
	c.best = c.r.offer(c.best, winner.parts)
	c.step(winSteps) // it may take fewer steps
	return winner
}

// rounds makes the rounds, and returns the winner and the others that make the first long run beside it: the winner with numbers if
// it has none and without them otherwise, the cheapest placement of that line, and the cheapest one of the last round with other
// tables in some form, as runs seldom lead from one to the other.
func (c *course) rounds(starts []racer, each int64) (winner racer, others []racer) {
	var lines [2]racer // without and with numbers
	var second racer
	for ; len(starts) > 1; each *= 2 {
		c.anneal(starts, each, raceHeat, mover{})
		c.step(1)
		slices.SortStableFunc(starts, cheapestRacer)
		for _, t := range starts {
			if line := &lines[line(t)]; line.parts == nil || t.cost < line.cost {
				*line = t
			}
		}
		if next := slices.IndexFunc(starts, func(t racer) bool { return c.other(t, starts[0]) }); next > 0 {
			second = starts[next]
		}
		starts = starts[:len(starts)/2]
		starts = slices.CompactFunc(starts, func(a, b racer) bool { return a.cost == b.cost })
	}
	winner = starts[0]
	close := func(t racer) bool { return t.parts != nil && t.cost < otherLine*winner.cost }
	if c.numbers {
		others = append(others, racer{winner.placement, !winner.numbers})
		if other := lines[1-line(winner)]; close(other) {
			others = append(others, other)
		}
	}
	if close(second) {
		others = append(others, second)
	}
	return winner, others
}

// step counts steps of the search, at most those up to the end of this race.
func (c *course) step(n int) { c.r.event.Level = min(c.steps, c.r.event.Level+n) }

// other reports whether another number of tables is in some form that several devices hold.
func (c *course) other(t, than racer) bool {
	count := func(t racer) map[problem.Form]int {
		counts := map[problem.Form]int{}
		for _, p := range t.parts {
			if k := &c.r.catalog.pieces[p.piece]; k.span != oneDevice {
				form := *k.form
				form.Operator = 0
				counts[form]++
			}
		}
		return counts
	}
	return !maps.Equal(count(t), count(than))
}

// line returns 1 if the racer's runs give tables numbers, and 0 otherwise.
func line(t racer) int {
	if t.numbers {
		return 1
	}
	return 0
}

// cheapestOf returns the cheapest racer of the given ones, the first one of those that cost the same.
func cheapestOf(first racer, others []racer) racer {
	return slices.MinFunc(append([]racer{first}, others...), cheapestRacer)
}

// anneal anneals from each racer for a number of evaluations, at the same time on the threads of the search, and puts the
// placements that it finds in the places of the racers. with says which changes the runs draw.
func (c *course) anneal(racers []racer, evaluations int64, heat float64, with mover) {
	r := c.r
	bases := make([][]placed, len(racers))
	for i := range racers {
		bases[i] = racers[i].parts
	}
	first := c.drawn
	c.drawn += uint64(len(racers))
	found := inParallel(r, bases, func(on *run, i int, base []placed) []placement {
		b := newAnnealer(on.catalog, on.scorer(), r.opt.Seed, c.forms)
		b.draw = rand.New(rand.NewPCG(r.opt.Seed, mix(int32(first)+int32(i))))
		b.heat, b.renumbers, b.sameForms, b.uncut = heat, racers[i].numbers, with.sameForms, with.uncut
		j, ok := b.scorer.(Joint)
		b.exact = heat < raceHeat && ok && j.Joint()
		b.reset(base)
		b.firstCrowding = crowdedShare * b.best / float64(on.catalog.budget[on.catalog.phase])
		b.crowding = b.firstCrowding
		best, ended := b.anneal(min(evaluations, on.end()), on.ended)
		if ended {
			on.cutShort()
		}
		on.stats.Evaluations += b.evaluations
		return []placement{{parts: best, cost: b.best}}
	})
	for i, list := range found {
		for _, s := range list {
			if len(s.parts) > 0 && s.cost < racers[i].cost && !breaks(r.catalog, s.parts) {
				racers[i].placement = s
				c.best = r.offer(c.best, s.parts)
			}
		}
		r.tell(c.best)
	}
}

// annealing returns an annealing of a racer's placement.
func (c *course) annealing(t racer) *annealing {
	c.r.scorer().Reset()
	return newAnnealing(c.r, placement{parts: c.r.catalog.expensiveFirst(t.parts), cost: t.cost}, c.forms)
}

// neighbours returns the cheapest placement with one table more or fewer in each form of a placement in which several devices hold
// a table, again as long as that makes the placement cheaper. A run seldom finds such a placement: a table that
// leaves a few devices makes their load uneven, and the placement becomes cheaper only after the other slices have changed
// places. So the runs keep the form of each table.
func (c *course) neighbours(best racer, evaluations int64) racer {
	for again := c.forms.any(); again && !c.over(); {
		w := switcher{c.annealing(best)}
		var starts []placement
		for _, forms := range c.forms.sets() {
			if form := forms[0]; len(forms) == 1 && spanOf(form) != oneDevice {
				starts = append(starts, w.neighbour(problem.Form{}, form)...)
				starts = append(starts, w.neighbour(form, problem.Form{})...)
			}
		}
		c.r.stats.Evaluations += w.evaluations
		before := best.cost
		best = c.next(best, c.racers(starts, best.numbers), evaluations)
		again = best.cost < before*(1-idleGain)
	}
	return best
}

// next anneals from the neighbours of a placement, and longer from the cheapest of them, and returns the cheapest placement.
func (c *course) next(best racer, neighbours []racer, evaluations int64) racer {
	keep := mover{sameForms: true}
	c.anneal(neighbours, evaluations, neighbourHeat, keep)
	slices.SortStableFunc(neighbours, cheapestRacer)
	neighbours = neighbours[:min(len(neighbours), nextNeighbours)]
	c.anneal(neighbours, 4*evaluations, neighbourHeat, keep)
	return cheapestOf(best, neighbours)
}

// racers returns racers from those starts that are valid.
func (c *course) racers(starts []placement, numbers bool) (all []racer) {
	for _, s := range starts {
		if s = c.valid(s); s.parts != nil {
			all = append(all, racer{s, numbers})
		}
	}
	return all
}

// sliceMore returns the cheapest placement with the hottest table in one slice more, again as long as that makes the placement
// cheaper (slicemore.go).
func (c *course) sliceMore(best racer, evaluations int64) racer {
	for again := true; again && !c.over(); {
		a := c.annealing(best)
		starts := slicedMore(a)
		c.r.stats.Evaluations += a.evaluations
		racers := c.racers(starts, best.numbers)
		if c.numbers {
			racers = append(racers, c.racers(starts, !best.numbers)...)
		}
		if len(racers) == 0 {
			break
		}
		before := best.cost
		c.anneal(racers, evaluations/4, raceHeat, mover{uncut: true})
		slices.SortStableFunc(racers, cheapestRacer)
		if racers[0].cost < moreClose*before {
			c.anneal(racers[:1], evaluations/2, .1, mover{})
		}
		best = cheapestOf(best, racers[:1])
		again = best.cost < before*(1-moreGain)
	}
	return best
}
