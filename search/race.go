package search

import (
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Stage race makes starts, anneals all of them for a short time, then fewer for longer, and goes on from the best:
//
//	builds     all tables on single devices, under shapes (shapes.go), with and without numbers by lane class
//	sweeps     from the cheapest builds, tables switched to a set of forms, and all slices built again around them
//	race       all starts; the cheapest third for twice as long; ...; the best one
//	long       runs from the best one, ever colder, until two of them gain nothing

var (
	raceLeast, raceEach   = int64(knob("least", 2_000)), int64(knob("each", 20))
	raceHeat              = knob("heat", .3)
	raceKept              = int(knob("kept", 16))
	raceShare, raceLonger = knob("share", 2.7), int64(knob("longer", 2))
	idleGain              = knob("idle", .001)
	rebuildShapes         = int(knob("rb", 6))
	longTimes             = int64(knob("long", 16))
	raceRepeated          = int(knob("repeat", 6))
	largeRace             = int(knob("large", 10_000))
	largeEach             = int64(knob("largeEach", 4))
	largeTimes            = int64(knob("largeTimes", 8))
)

var longRaceHeats = []float64{knob("h1", 1), knob("h2", .1), knob("h3", .05), knob("h4", .03)}

type race struct{}

func (race) apply(r *run, s state) (state, error) {
	if s.best.division == nil || r.status != Complete || s.complete && !mayNumber(r) {
		return s, nil
	}
	r.event.Phase = "anneal"
	c := &course{r: r, best: s.best}
	c.numbers = mayNumber(r)
	c.kept = raceKept
	if c.large = len(r.catalog.whole())*len(r.catalog.all) > largeRace; c.large {
		c.kept = int(knob("largeKept", 3))
	}
	starts := c.starts()
	debugf("starts: %d evals %d\n", len(starts), r.stats.Evaluations)
	for _, t := range starts {
		debugf("   %s %.4f %s\n", t.name, t.cost, c.formsOf(t.parts))
	}
	each := max(raceLeast+int64(knob("perSet", 400))*int64(len(r.forms.sets())), raceEach*int64(len(s.best.devices)))
	times, pureTimes := longTimes, pureTimes
	if c.large {
		each = max(4_000, largeEach*int64(len(s.best.devices)))
		times, pureTimes = largeTimes, largeTimes/2
	}
	if r.forms.any() {
		pure := slices.DeleteFunc(slices.Clone(starts), func(t racer) bool { return r.formed(t.parts) })
		if len(pure) > 0 {
			c.pure = true
			won := c.win(pure, each, pureTimes)
			c.pure = false
			starts = append(starts, won)
			slices.SortStableFunc(starts, cheapestRacer)
		}
	}
	c.win(starts, each, times)
	s.best = c.best
	debugf("best %.4f\n", s.best.cost)
	if c.numbers {
		if n := newNumbering(r, s.best.placed()); n.mixed() {
			n.limit = min(r.end(), r.stats.Evaluations+max(leastNumbering, r.stats.Evaluations/numberingShare))
			s.best = n.improve(s.best)
		}
		s.best = tidied(r, s.best)
	}
	if r.ended() && r.status == Complete {
		r.cutShort()
	}
	r.scorer().Reset()
	return s, nil
}

var pureTimes = int64(knob("pure", 8))

// win makes a race of the starts and the long runs from its winner, and returns the cheapest placement.
func (c *course) win(starts []racer, each, times int64) racer {
	r := c.r
	starts = c.eachSet(starts, c.kept)
	for i := 0; len(starts) < min(c.kept, raceRepeated); i++ { // few starts have few ways to go: other draws find others
		starts = append(starts, starts[i])
	}
	long := each * times
	var lines [2]racer
	for len(starts) > 1 {
		c.anneal(starts, each, raceHeat, false)
		slices.SortStableFunc(starts, cheapestRacer)
		debugf("round: %d evals %d\n", len(starts), r.stats.Evaluations)
		for _, t := range starts {
			debugf("   %s %.4f %s\n", t.name, t.cost, c.formsOf(t.parts))
			if line := &lines[btoi(t.numbers)]; line.parts == nil || t.cost < line.cost {
				*line = t
			}
		}
		starts = slices.CompactFunc(starts[:max(1, int(float64(len(starts))/raceShare))], func(a, b racer) bool { return a.cost == b.cost })
		each *= raceLonger
	}
	winner := starts[0]
	each = long
	idle := 0
	heats := longRaceHeats
	if c.large {
		heats = []float64{knob("l1", .05), knob("l2", .02), knob("l3", .01), knob("l4", .01)}
	}
	for i, heat := range heats {
		before := winner.cost
		from := []racer{winner}
		if c.numbers && (i == 0 || knob("both", 0) > 0) {
			other := winner
			other.numbers = !winner.numbers
			from = append(from, other)
		}
		if i == 0 && c.numbers {
			if t := lines[1-btoi(winner.numbers)]; t.parts != nil && t.cost < 1.1*winner.cost {
				from = append(from, t)
			}
		}
		c.anneal(from, each, heat, false)
		slices.SortStableFunc(from, cheapestRacer)
		if from[0].cost < winner.cost {
			winner = from[0]
		}
		debugf("long %.2f: %.4f evals %d\n", heat, winner.cost, r.stats.Evaluations)
		if i == 0 {
			if more := c.sliceMore(winner, each); more.cost < winner.cost {
				winner = more
			}
			debugf("more: %.4f evals %d\n", winner.cost, r.stats.Evaluations)
			if !c.pure && r.forms.any() && knob("nb", 1) > 0 {
				winner = c.neighbours(winner, each/int64(knob("nbDiv", 8)))
				debugf("neighbours: %.4f evals %d\n", winner.cost, r.stats.Evaluations)
			}
		}
		if idle++; winner.cost < before*(1-idleGain) {
			idle = 0
		}
		if i > 0 && idle >= int(knob("idles", 1)) {
			break
		}
	}
	if debugging {
		b := newAnnealer(r.catalog, r.scorer(), 0, r.forms)
		b.reset(winner.parts)
		d, e := b.slowest, int32(0)
		for x := range b.dims {
			if b.dims[x] > b.dims[e] {
				e = int32(x)
			}
			if b.compute[x] > b.compute[d] {
				d = int32(x)
			}
		}
		debugf("compute max %.4f mean %.4f; columns max %d mean %.1f of device %d; column %.6f alike %.4f parts %d\n", b.compute[d], b.computeSum/float64(len(b.compute)), b.dims[e], b.dimSum/float64(len(b.dims)), e, b.column, b.alike, len(winner.parts))
		for _, slot := range b.held[d] {
			p := b.parts[slot]
			k := &r.catalog.pieces[p.piece]
			debugf("  %d cols of %d rows %d time %.4f op %d\n", k.dims, k.members[0].table, r.catalog.rows(p.piece), k.alone, k.form.Operator)
		}
	}
	c.best = r.offerPlaced(c.best, winner.parts)
	return winner
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// racer is a start of the race. numbers says that its runs renumber tables.
type racer struct {
	start
	name    string
	shape   shape
	numbers bool
}

func cheapestRacer(a, b racer) int { return cheapestFirst(a.start, b.start) }

// course is a race.
type course struct {
	r       *run
	best    placement
	numbers bool
	drawn   uint64
	shapes  []shape
	// kept is the number of starts of a race, and large says that the problem is large: fewer starts are made and kept.
	kept  int
	large bool
	// pure says that the runs keep to slices of columns.
	pure bool
}

// anneal anneals from each racer for a number of evaluations, on the threads of the search.
func (c *course) anneal(racers []racer, evaluations int64, heat float64, sameForms bool) {
	c.annealUncut(racers, evaluations, heat, sameForms, false)
}

func (c *course) annealUncut(racers []racer, evaluations int64, heat float64, sameForms, uncut bool) {
	r := c.r
	starts := make([]start, len(racers))
	for i := range racers {
		starts[i] = racers[i].start
	}
	inputs, found := describeStarts(r.catalog, starts), make([]describedStart, len(racers))
	first := c.drawn
	c.drawn += uint64(len(racers))
	inParallel(r, len(racers), func(on *run, i int) {
		f := on.forms
		if c.pure {
			f = f.none()
		}
		b := newAnnealer(on.catalog, on.scorer(), r.opt.Seed, f)
		b.draw = rand.New(rand.NewPCG(r.opt.Seed, mix(int32(first)+int32(i))))
		b.heat, b.trades, b.renumbers, b.sameForms = heat, true, racers[i].numbers, sameForms
		b.uncut = uncut
		b.reset(find(on, inputs[i].parts))
		best, ended := b.anneal(min(evaluations, on.end()), on.ended)
		if best != nil {
			found[i] = describedStart{describe(on.catalog, best), b.best}
		}
		if ended {
			on.cutShort()
		}
		on.stats.Evaluations += b.evaluations
	})
	for i, s := range found {
		if s.parts == nil || s.cost >= racers[i].cost {
			continue
		}
		if found := (start{find(r, s.parts), s.cost}); !breaks(r.catalog, found.parts) {
			racers[i].start = found
			c.best = r.offerPlaced(c.best, racers[i].parts)
		}
		r.tell(c.best)
	}
}

// neighbours returns the cheapest placement with one table more or fewer in some form, if it is cheaper.
func (c *course) neighbours(from racer, evaluations int64) racer {
	r := c.r
	for again := true; again; {
		pieces, devices := apart(from.parts)
		r.scorer().Reset()
		w := switcher{newAnnealing(r, placement{division: r.catalog.divide(pieces), devices: devices, cost: from.cost}, r.forms)}
		var starts []start
		for _, forms := range r.forms.sets() {
			if form := forms[0]; len(forms) == 1 && spanOf(form) != oneDevice {
				starts = append(starts, w.neighbour(problem.Form{}, form)...)
				starts = append(starts, w.neighbour(form, problem.Form{})...)
			}
		}
		starts = append(starts, w.onOtherHosts()...)
		r.stats.Evaluations += w.evaluations
		var racers []racer
		for _, s := range starts {
			if !breaks(r.catalog, s.parts) {
				racers = append(racers, racer{s, "neighbour", shape{}, from.numbers})
			}
		}
		if len(racers) == 0 {
			break
		}
		before := from.cost
		c.anneal(racers, evaluations, knob("nbHeat", .05), true)
		slices.SortStableFunc(racers, cheapestRacer)
		racers = racers[:min(len(racers), 4)]
		c.anneal(racers, 4*evaluations, knob("nbHeat2", .05), true)
		slices.SortStableFunc(racers, cheapestRacer)
		if racers[0].cost < from.cost {
			from = racers[0]
		}
		again = from.cost < before*(1-idleGain)
	}
	return from
}

// sliceMore returns the cheapest placement with the hottest table in one slice more, if one table sets the cost.
func (c *course) sliceMore(from racer, evaluations int64) racer {
	best := from
	for again := true; again; {
		a := newAnnealing(c.r, placement{}, c.r.forms)
		pieces, devices := apart(best.parts)
		c.r.scorer().Reset()
		a.placement = placement{division: c.r.catalog.divide(pieces), devices: devices, cost: best.cost}
		var racers []racer
		for _, s := range slicedMore(a) {
			for _, numbers := range []bool{false, true} {
				if !numbers || c.numbers {
					racers = append(racers, racer{s, "more", shape{}, numbers})
				}
			}
		}
		c.r.stats.Evaluations += a.evaluations
		if len(racers) == 0 {
			break
		}
		before := best.cost
		c.annealUncut(racers, evaluations/int64(knob("moreDiv", 4)), knob("moreHeat", raceHeat), false, knob("uncut", 1) > 0)
		slices.SortStableFunc(racers, cheapestRacer)
		debugf("  more %.4f of %.4f\n", racers[0].cost, before)
		if racers[0].cost < knob("close", moreClose)*before {
			c.anneal(racers[:1], evaluations/2, .1, false)
		}
		if racers[0].cost < best.cost {
			best = racers[0]
		}
		again = best.cost < before*(1-moreGain)
	}
	return best
}

// starts returns the starts of the race, the cheapest first.
func (c *course) starts() (all []racer) {
	r := c.r
	add := func(name string, parts []placed, cost float64, numbers bool) {
		if parts == nil || breaks(r.catalog, parts) || slices.ContainsFunc(all, func(t racer) bool { return t.cost == cost && t.numbers == numbers }) {
			return
		}
		all = append(all, racer{start{parts, cost}, name, shape{}, numbers})
		c.best = r.offerPlaced(c.best, parts)
	}
	base := c.best.placed()
	add("base", base, c.best.cost, false)
	w := switcher{newAnnealing(r, c.best, r.forms)}
	w.trades = true
	w.reset(base)
	pieces, fixed := unsplit(r.catalog, base)
	c.shapes = shapesTried
	if c.large {
		c.shapes = []shape{{quarters: [6]int{0, 0, 0, 0, 0, 4}, target: chosenTarget}, {quarters: [6]int{0, 0, 0, 0, 0, 4}, target: evenTarget}}
		for i, d := range dealings {
			for _, numbers := range []bool{false, true} {
				if numbers && !c.numbers || len(fixed) > 0 {
					continue
				}
				forced, _ := forced(r.catalog)
				cut := d.cut(r.catalog, forced)
				if !numbers {
					for i, k := range cut {
						cut[i] = r.catalog.numbered(k, 0)
					}
				}
				if parts := deal(r.catalog, cut); parts != nil {
					w.reset(parts)
					if w.lack(false) == 0 {
						add("deal"+string(rune('0'+i)), parts, w.scorer.Cost(), numbers)
					}
				}
			}
		}
	}
	var first []racer
	if !c.large || len(all) < 2 || knob("largeBuilds", 0) > 0 {
		first = c.builds(w, pieces, fixed, len(shapesTried), c.large && len(all) > 1)
	}
	slices.SortStableFunc(first, cheapestRacer)
	c.shapes = nil
	for _, s := range first {
		add(s.name, s.parts, s.cost, s.numbers)
		if !s.numbers && s.name[0] == 'b' {
			c.shapes = append(c.shapes, s.shape)
		}
	}
	slices.SortStableFunc(all, cheapestRacer)
	if r.forms.any() {
		for _, from := range slices.Clone(all[:min(int(knob("bases", 2))>>btoi(c.large), len(all))]) {
			w := switcher{newAnnealing(r, placement{}, r.forms)}
			for _, t := range w.starts(from.parts) {
				add(from.name+"+", t.parts, t.cost, from.numbers)
			}
			r.stats.Evaluations += w.evaluations
		}
		slices.SortStableFunc(all, cheapestRacer)
		for i, from := range c.eachSet(slices.Clone(all), int(knob("rebuilt", 6))) {
			if c.large && i >= 2 {
				break
			}
			w.reset(from.parts)
			pieces, fixed := unsplit(r.catalog, from.parts)
			built := c.builds(w, pieces, fixed, rebuildShapes, c.large)
			slices.SortStableFunc(built, cheapestRacer)
			for _, s := range built[:min(2, len(built))] {
				add(from.name+string(rune('a'+i))+"/"+s.name, s.parts, s.cost, s.numbers)
			}
		}
		for _, set := range r.forms.sets() {
			w.reset(base)
			w.allIn(set)
			parts := w.all()
			if w.lack(false) > 0 {
				continue
			}
			add("all", parts, w.scorer.Cost(), false)
			if n := newNumbering(r, parts); c.numbers && n.several() {
				n.limit = r.stats.Evaluations + leastNumbering
				n.start()
				if numbers := n.uniform(n.numbers()); numbers != nil {
					n.assign(numbers)
					add("all#", slices.Clone(n.parts), n.cost, true)
				}
				n.scorer.Reset()
				w.reset(parts)
			}
		}
	}
	r.stats.Evaluations += w.evaluations
	slices.SortStableFunc(all, cheapestRacer)
	return all
}

// builds places pieces beside fixed parts under shapes.
func (c *course) builds(w switcher, pieces []int32, fixed []placed, most int, few bool) (all []racer) {
	r := c.r
	w.reset(fixed)
	sum := 0.0
	for _, k := range pieces {
		r.catalog.scorer.Reset()
		_ = k
	}
	for _, t := range w.compute {
		sum += t
	}
	r.scorer().Reset()
	mean := (sum + float64(len(r.catalog.all))*r.catalog.meanTime(pieces)) / float64(len(r.catalog.all))
	place := func(b *builder, sh shape, name string, numbers bool) {
		b.target = sh.target * mean
		if !r.ended() && b.build(sh) && b.lack(false) == 0 {
			all = append(all, racer{start{b.all(), b.scorer.Cost()}, name, sh, numbers})
		}
	}
	b := newBuilder(newLayout(r.catalog, r.scorer(), r.forms), slices.Clone(pieces), fixed, mean)
	for i, s := range c.shapes[:min(most, len(c.shapes))] {
		place(b, s, "b"+string(rune('A'+i)), false)
		if few {
			break
		}
	}
	b.widest = true
	for i, t := range widestTargets {
		if few || most < len(shapesTried) && i > 0 {
			break
		}
		place(b, shape{quarters: [6]int{0, 0, 0, 0, 0, 4}, target: t}, "w"+string(rune('A'+i)), false)
	}
	r.stats.Evaluations += b.evaluations
	if !c.numbers || len(w.classes(pieces)) < 2 {
		return all
	}
	ks, fs := c.numbered(pieces, fixed)
	b = newBuilder(newLayout(r.catalog, r.scorer(), r.forms), ks, fs, mean)
	for i, t := range numberedTargets {
		for _, widest := range []bool{true, false} {
			for _, wideFirst := range []bool{false, true} {
				if most < len(shapesTried) && (wideFirst || i > 1) || few && (i != 3 || widest || wideFirst) {
					continue
				}
				b.widest = widest
				place(b, shape{quarters: [6]int{0, 0, 0, 0, 0, 4}, target: t, wideFirst: wideFirst}, "n"+string(rune('A'+i)), true)
			}
		}
	}
	r.stats.Evaluations += b.evaluations
	return all
}

var widestTargets = []float64{.9, .7, .45}

var numberedTargets = []float64{.9, .7, .45, 1.1}

func (w switcher) classes(pieces []int32) (list []uint8) {
	for class, ok := range classesOf(w.c, pieces) {
		if ok {
			list = append(list, uint8(class))
		}
	}
	return list
}

func (c *course) numbered(pieces []int32, fixed []placed) ([]int32, []placed) {
	cat := c.r.catalog
	pieces, fixed = slices.Clone(pieces), slices.Clone(fixed)
	present := classesOf(cat, pieces)
	for _, p := range fixed {
		if class, ok := classOf(cat, p.piece); ok {
			present[class] = true
		}
	}
	numbers := eachApart(present)
	number := func(k int32) int32 {
		class, _ := classOf(cat, k)
		return cat.numbered(k, numbers[class])
	}
	for i, k := range pieces {
		pieces[i] = number(k)
	}
	for i, p := range fixed {
		fixed[i].piece = number(p.piece)
	}
	return pieces, fixed
}

// eachSet returns the cheapest racers, and the cheapest one of each set of forms.
func (c *course) eachSet(sorted []racer, most int) (chosen []racer) {
	seen := map[uint64]bool{}
	for i, t := range sorted {
		set := uint64(0)
		for _, p := range t.parts {
			form := *c.r.catalog.pieces[p.piece].form
			form.Operator = 0
			for j, f := range c.r.catalog.forms {
				if *f == form {
					set |= 1 << min(j, 63)
				}
			}
		}
		if i < most || !seen[set] {
			chosen = append(chosen, t)
		}
		seen[set] = true
	}
	return chosen
}
