package search

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// The published search is the beam search as the paper describes it. It chooses which tables
// are split. From each of the K best divisions of a step, it splits each candidate piece in
// halves, one candidate for each child, runs the inner search on each child (inner.go), and goes on with
// the K best of those. Candidates are the N largest pieces and the N most expensive.
//
//	step 0            {A B C}
//	                /    |    \
//	step 1   {a a B C} {A b b C} {A B c c}        timed by the inner search
//	             |         |         x            the K best go on (here K = 2)
//	step 2   {a a b b C} ...
//
// At most L * K * 2N inner searches are run, each on a grid of M thresholds. A division that is a
// permutation of one seen before ({a a b b C} above is reached twice) is a division of its own.

// division is a set of column splits: the pieces that the tables are cut into.
type division struct {
	// pieces are in the order in which they came about, as in the prototype: a split leaves the left half at the
	// index of its piece, and the right half comes last.
	pieces []int32
	// order are the indices of the pieces in placement order: the most expensive piece first. Of pieces with equal
	// times, the last one comes first.
	order []int32
}

// divide estimates the time of each piece and returns the division of the pieces. The catalog's scorer must hold nothing.
func divide(c *catalog, pieces []int32) *division {
	d := &division{pieces, inOrder(len(pieces))}
	for _, k := range pieces {
		c.time(k)
	}
	slices.SortFunc(d.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(c.pieces[pieces[b]].alone, c.pieces[pieces[a]].alone), cmp.Compare(b, a))
	})
	return d
}

// split returns d with the piece at an index cut in halves, and with it all slices of its table if slices must be equal.
func (d *division) split(c *catalog, at int32) *division {
	child, cut := slices.Clone(d.pieces), d.pieces[at]
	parts := c.parts(cut)
	for i, k := range d.pieces {
		if int32(i) == at || c.rules.EqualSlices && k == cut {
			child[i] = parts[0]
			child = append(child, parts[1:]...)
		}
	}
	return divide(c, child)
}

// halvable returns the indices of the pieces that the published search splits: the n largest and the n most expensive
// pieces that have exact halves.
func (d *division) halvable(c *catalog, n int) []int32 {
	n = min(n, len(d.pieces))
	largest := inOrder(len(d.pieces))
	slices.SortStableFunc(largest, func(a, b int32) int {
		return cmp.Compare(c.bytes(d.pieces[b]), c.bytes(d.pieces[a]))
	})
	both := append(largest[:n:n], d.order[:n]...)
	slices.Sort(both)
	return slices.DeleteFunc(slices.Compact(both), func(i int32) bool {
		left, right, ok := c.cut(d.pieces[i])
		return !ok || left != right
	})
}

// published is the published search.
func published(r *run) (s state, err error) {
	if s.forced, err = r.forced(); err != nil {
		return s, err
	}
	b := &beam{r: r, known: map[string]*outcome{}}
	b.search(divide(r.catalog, s.forced))
	s.best = b.best
	return s, nil
}

// beam is a beam search.
type beam struct {
	r       *run
	workers []*worker
	// known are the outcomes of divisions, by their pieces in placement order: permutations of them count as work, but
	// need no second search.
	known map[string]*outcome
	// best is the cheapest placement.
	best placement
}

// search runs the steps from the first division.
func (b *beam) search(first *division) {
	r := b.r
	outcomes := b.evaluate([]*division{first})
	r.event.Phase = "beam"
	for level := 1; level <= r.opt.Steps && !r.ended(); level++ {
		if r.most > 0 && r.stats.Evaluations >= r.most {
			r.exhausted()
			return
		}
		slices.SortStableFunc(outcomes, func(a, b outcome) int { return cmp.Compare(a.cost, b.cost) })
		var children []*division
		for _, parent := range outcomes[:min(r.opt.Beam, len(outcomes))] {
			for _, at := range parent.division.halvable(r.catalog, r.opt.Candidates) {
				children = append(children, parent.division.split(r.catalog, at))
			}
		}
		if len(children) == 0 {
			return
		}
		r.event.Level, r.stats.Levels = level, level
		outcomes = b.evaluate(children)
	}
	if r.ended() {
		r.cutShort()
	}
}

// evaluate runs inner searches on the divisions, on all threads, and returns their outcomes.
func (b *beam) evaluate(divisions []*division) []outcome {
	r := b.r
	var all, fresh []*outcome
	for _, d := range divisions {
		var key []byte
		for _, at := range d.order {
			key = binary.NativeEndian.AppendUint32(key, uint32(d.pieces[at]))
		}
		if b.known[string(key)] == nil {
			b.known[string(key)] = &outcome{division: d}
			fresh = append(fresh, b.known[string(key)])
		}
		all = append(all, b.known[string(key)])
	}
	for len(b.workers) < min(r.opt.Workers, len(fresh)) {
		b.workers = append(b.workers, &worker{catalog: r.catalog, scorer: r.newScorer(), load: make([]float64, len(r.catalog.all)), dims: make([]int64, len(r.catalog.all))})
	}
	var group sync.WaitGroup
	for first, w := range b.workers {
		group.Go(func() {
			for i := first; i < len(fresh); i += len(b.workers) {
				*fresh[i] = w.evaluate(r.ctx, fresh[i].division, thresholds(r.opt.Grid))
			}
		})
	}
	group.Wait()
	outcomes := make([]outcome, len(divisions))
	for i := range outcomes {
		o := *all[i]
		o.division = divisions[i]
		outcomes[i] = o
		r.stats.States++
		r.stats.Placements += o.runs
		r.stats.Evaluations += o.evaluations
		if o.parts != nil && !breaks(r.catalog, o.parts) {
			b.best = consider(r, b.best, placement{parts: o.parts, cost: o.cost})
		}
		r.tell(b.best)
	}
	return outcomes
}
