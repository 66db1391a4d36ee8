package search

import (
	"cmp"
	"slices"
)

// The search chooses, at the end, between placements whose costs differ too little to matter: of the cheapest ones that were offered,
// the finalists, it takes the one with the least sum of the cost and a second estimate (Options.Beside).
//
//	cost            least      + 0.5 %
//	finalists         a   b   c   |   d
//	second estimate   5   4   6   |   1      the search takes b

const (
	// nearly is the share by which the chosen placement may cost more than the cheapest one:
	// about the mean error of the shipped models (docs/RESULTS.md).
	nearly = .005
	// finalistsKept is the number of placements kept for the choice.
	finalistsKept = 8
)

// finalists are the cheapest placements that were offered, the cheapest first. No two
// are the same.
type finalists []placement

// consider returns the cheaper placement of best and p. If there is a second estimate, it
// keeps p for the choice.
func consider(r *run, best, p placement) placement {
	if r.opt.Beside != nil {
		at, _ := slices.BinarySearchFunc(r.finalists, p.cost, func(q placement, cost float64) int { return cmp.Compare(q.cost, cost) })
		known := func(q placement) bool { return q.cost == p.cost && slices.Equal(q.parts, p.parts) }
		if at < finalistsKept && !slices.ContainsFunc(r.finalists[at:], known) {
			r.finalists = slices.Insert(r.finalists[:min(len(r.finalists), finalistsKept-1)], at, p)
		}
	}
	return cheaper(best, p)
}

// prefer chooses by the second estimate, if there is one and neither a budget nor all placements decide.
func prefer(r *run, s state) placement {
	if r.opt.Beside == nil || s.complete || s.best.parts == nil || r.status != Complete || r.ended() {
		return s.best
	}
	second := r.opt.Beside()
	best, least := s.best, s.best.cost+secondCost(r, second, s.best)
	for _, p := range r.finalists {
		if p.cost > (1+nearly)*s.best.cost {
			break
		}
		if sum := p.cost + secondCost(r, second, p); sum < least {
			best, least = p, sum
		}
	}
	return best
}

// secondCost returns the cost of a placement by the second estimate.
func secondCost(r *run, second Scorer, p placement) float64 {
	second.Reset()
	for _, part := range p.parts {
		k := &r.catalog.pieces[part.piece]
		for _, m := range k.members { // the items of another Scorer have other numbers
			second.Add(int(part.device), second.Item(m.table, m.width, *k.form))
		}
	}
	r.stats.Placements++
	r.stats.Evaluations += int64(len(p.parts))
	return second.Cost()
}
