package search

import (
	"slices"
)

// The starts of the race, each a placement of all tables:
//
//	built      slices of columns under guides: shapes of placement, with and without numbers by lane class (shapes.go)
//	dealt      slices of columns by sums, if the problem is large (deal.go)
//	swept      from the cheapest of these: tables in a set of forms where that pays, or the first ones in the order of what it
//	           costs (switch.go); once with all slices where they lie, and once with all slices built again under the best guides
//	wholly     all tables in a form

const (
	// The tables of the cheapest sweptBases starts take other forms, or those of the cheapest one if the problem is large.
	sweptBases = 2
	// The slices of the cheapest rebuiltStarts starts, and of each set of forms, are built again under bestGuides guides, and
	// those of largeRebuilt ones if the problem is large. The cheapest rebuiltKept of these builds are starts.
	rebuiltStarts, bestGuides, largeRebuilt, rebuiltKept = 6, 10, 2, 2
)

// guide says how a builder places tables.
type guide struct {
	shape
	// widest says that a table is cut into the fewest slices that find room, and numbers that its number is its lane class.
	widest, numbers bool
}

// anywhere are the quarters of a shape without limits.
var anywhere = [6]int{0, 0, 0, 0, 0, 4}

// builtTargets are the longest computes that builds anywhere aim at, relative to the mean.
var builtTargets = []float64{.9, .7, .45, 1.1}

// guidesOf returns the guides of a problem, without numbers or with both kinds.
func guidesOf(numbers bool) (all []guide) {
	for _, s := range shapes() {
		all = append(all, guide{shape: s})
	}
	for _, target := range builtTargets {
		all = append(all, guide{shape: shape{anywhere, false, target}, widest: true})
		for i := 0; numbers && i < 4; i++ {
			all = append(all, guide{shape{anywhere, i%2 > 0, target}, i < 2, true})
		}
	}
	return all
}

// starts returns the starts in the forms of a race, the cheapest first. first are those of the first race.
func (c *course) starts(first []racer) []racer {
	w := switcher{newAnnealing(c.r, c.base, c.forms)}
	all := slices.Clone(first)
	if first == nil {
		all = c.first(w)
	}
	slices.SortStableFunc(all, cheapestRacer)
	if c.forms.any() {
		all = c.rebuilt(w, c.swept(all))
		all = c.wholly(w, all)
	}
	c.r.stats.Evaluations += w.evaluations
	slices.SortStableFunc(all, cheapestRacer)
	return all
}

// first returns the starts that are built or dealt.
func (c *course) first(w switcher) []racer {
	r := c.r
	all := c.add(nil, racer{c.base, false})
	pieces, fixed := unsplit(r.catalog, c.base.parts)
	if c.large {
		all = c.dealt(w, all, fixed)
	}
	c.guides = guidesOf(c.numbers && len(partitions(r.catalog, c.base.parts)) > 1)
	if c.large {
		c.guides = []guide{{shape: shape{quarters: anywhere, target: builtTargets[0]}}}
	}
	if !c.large || len(all) == 1 {
		built := c.built(w, pieces, fixed)
		c.guides = c.guides[:0]
		for _, b := range built {
			all = c.add(all, b.racer)
			c.guides = append(c.guides, b.guide)
		}
		c.guides = c.guides[:min(len(c.guides), bestGuides)]
	}
	return all
}

// add adds a start to the list, unless it is not valid or costs the same as another one, and offers it as the best placement.
func (c *course) add(all []racer, t racer) []racer {
	t.placement = c.valid(t.placement)
	known := func(o racer) bool { return o.cost == t.cost && o.numbers == t.numbers }
	if t.parts == nil || slices.ContainsFunc(all, known) {
		return all
	}
	c.best = c.r.offer(c.best, t.parts)
	return append(all, t)
}

// valid returns a start with a part of a table on each device, if the engine needs that; one without parts if there is none, or
// if it breaks another rule.
func (c *course) valid(s placement) placement {
	used, err := occupy(c.r, s)
	if err != nil || breaks(c.r.catalog, used.parts) {
		return placement{}
	}
	return used
}

// dealt adds the starts that are dealt. Fixed parts cannot lie beside them.
func (c *course) dealt(w switcher, all []racer, fixed []placed) []racer {
	cat := c.r.catalog
	pieces, failed := forced(cat)
	if len(fixed) > 0 || failed != none {
		return all
	}
	for _, d := range dealings {
		if c.over() {
			break
		}
		cut := d.cut(cat, pieces)
		if !c.numbers {
			for i, k := range cut {
				cut[i] = cat.numbered(k, 0)
			}
		}
		if parts := deal(cat, cut); parts != nil {
			if w.reset(parts); w.lack(false) == 0 {
				all = c.add(all, racer{placement{parts: parts, cost: w.scorer.Cost()}, c.numbers})
			}
		}
	}
	return all
}

// swept adds starts with tables in other forms to the sorted starts, and returns all of them, sorted.
func (c *course) swept(all []racer) []racer {
	bases := sweptBases
	if c.large {
		bases = 1
	}
	for _, from := range slices.Clone(all[:min(bases, len(all))]) {
		c.r.scorer().Reset()
		w := switcher{newAnnealing(c.r, placement{}, c.forms)}
		for _, s := range w.starts(from.parts) {
			all = c.add(all, racer{s, from.numbers})
		}
		c.r.stats.Evaluations += w.evaluations
	}
	slices.SortStableFunc(all, cheapestRacer)
	return all
}

// rebuilt adds the cheapest of the sorted starts with all slices built again under the best guides.
func (c *course) rebuilt(w switcher, all []racer) []racer {
	from := c.eachSet(all, rebuiltStarts)
	if c.large {
		from = from[:min(len(from), largeRebuilt)]
	}
	for _, t := range from {
		w.reset(t.parts)
		pieces, fixed := unsplit(c.r.catalog, t.parts)
		built := c.built(w, pieces, fixed)
		for _, b := range built[:min(len(built), rebuiltKept)] {
			all = c.add(all, b.racer)
		}
	}
	return all
}

// wholly adds starts with all tables in one form, without numbers and with the best ones by lane class.
func (c *course) wholly(w switcher, all []racer) []racer {
	for _, form := range c.forms.others() {
		if c.over() {
			break
		}
		w.reset(c.base.parts)
		w.switchFirst(form, len(w.tables))
		if w.lack(false) > 0 {
			continue
		}
		var lines [2]racer // without and with numbers
		parts := w.all()
		for _, p := range partitions(c.r.catalog, parts) {
			if p != (partition{}) && !c.numbers {
				break
			}
			numbered := p.numbered(c.r.catalog, parts)
			w.reset(numbered)
			t := racer{placement{parts: numbered, cost: w.scorer.Cost()}, p != partition{}}
			if least := &lines[line(t)]; least.parts == nil || t.cost < least.cost {
				*least = t
			}
		}
		all = c.add(c.add(all, lines[0]), lines[1])
	}
	return all
}

// build is a start, and the guide that it was built under.
type build struct {
	racer
	guide guide
}

// built places pieces beside fixed parts under the guides, and returns the placements, the cheapest first. The layout of w must
// hold nothing else than those.
func (c *course) built(w switcher, pieces []int32, fixed []placed) (all []build) {
	r := c.r
	w.reset(fixed)
	mean := 0.0
	for _, t := range w.compute {
		mean += t / float64(len(w.compute))
	}
	r.scorer().Reset() // times are those of pieces on empty devices
	mean += r.catalog.meanTime(pieces)
	builders := [2]*builder{}
	for _, g := range c.guides {
		if c.over() || len(all) > 0 && r.stats.Evaluations > r.end()/4 { // few evaluations are left for other forms
			break
		}
		b := &builders[line(racer{numbers: g.numbers})]
		if *b == nil {
			ks, fs := slices.Clone(pieces), fixed
			if g.numbers {
				parts := slices.Clone(fixed)
				for _, k := range pieces {
					parts = append(parts, placed{k, none})
				}
				all := partitions(r.catalog, parts)
				parts = all[len(all)-1].numbered(r.catalog, parts)
				fs = parts[:len(fixed)]
				for i, p := range parts[len(fixed):] {
					ks[i] = p.piece
				}
			}
			*b = newBuilder(newLayout(r.catalog, r.scorer(), c.forms), ks, fs, mean)
		}
		(*b).target, (*b).widest = g.target*mean, g.widest
		if (*b).build(g.shape) && (*b).lack(false) == 0 {
			all = append(all, build{racer{placement{parts: (*b).all(), cost: (*b).scorer.Cost()}, g.numbers}, g})
		}
		r.stats.Evaluations += (*b).evaluations
		(*b).evaluations = 0
	}
	slices.SortStableFunc(all, func(x, y build) int { return cheapestRacer(x.racer, y.racer) })
	return all
}

// eachSet returns the first racers of a sorted list, and the cheapest one of each set of forms.
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
