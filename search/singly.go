package search

import "slices"

// Stage singly searches once more, among the forms in which each slice lies on one device, in HBM or in
// host memory. If HBM is short, the search has many local optima, and a search that also cuts tables by
// rows and copies them may end at a more expensive one than a search that does not. HBM is short if whole
// tables take more than a share of it, or if the best placement has rows in host memory: constraints
// may keep a table on devices that are full while others have room. If HBM is not short, stage switch
// compares with slices of columns itself (switch.go).
//
// The search has the draws that it would have if the caller had allowed only these forms. It takes about as
// long as the stages before, so it is left out for a large problem and under a budget of evaluations. It
// is also left out if no allowed form lies on several devices, if times add up, from an old placement, and
// if the search has ended.
type singly struct{ search stage }

// ampleHBM is the share of all HBM that whole tables take at most if HBM is not short.
const ampleHBM = .8

// shortHBM reports whether HBM is short, judged by the whole tables and the best placement.
func shortHBM(c *catalog, best placement) bool {
	hosted := func(p placed) bool { return c.pieces[p.piece].hostBytes > 0 }
	return float64(c.total(c.whole())) > ampleHBM*float64(c.room()) || slices.ContainsFunc(best.placed(), hosted)
}

func (o singly) apply(r *run, s state) (state, error) {
	if r.catalog.hostBudget == 0 || r.opt.From != nil || r.most > 0 || r.status != Complete || !fewSlices(s.best) || addsUp(r.scorer()) {
		return s, nil
	}
	f := r.forms.singly()
	if !shortHBM(r.catalog, s.best) || !r.forms.shared() || f.possible(r.catalog) != nil {
		return s, nil
	}
	s.best = cheaper(s.best, searchAgain(r, o.search, r.opt.Seed, f, s.best))
	return s, nil
}

// searchAgain runs the stages of a search once more, with a seed and among some forms, and returns the placement
// that they find. Its division is nil if they find none before the run ends. best is the cheapest
// placement so far.
func searchAgain(r *run, search stage, seed uint64, among forms, best placement) placement {
	other := *r
	other.forms = among
	other.opt.Seed, other.opt.Budget, other.opt.OnEvent = seed, 0, nil
	other.seen, other.stats, other.event = map[uint64]bool{}, Stats{}, Event{Levels: r.opt.Steps}
	if r.most > 0 {
		other.most = r.most - r.stats.Evaluations
	}
	other.limit = other.most
	if r.opt.OnEvent != nil {
		other.opt.OnEvent = func(e Event) {
			e.Phase, e.Level, e.Levels = r.event.Phase, r.event.Level, r.event.Levels
			e.Evaluations, e.Limit, e.Best = r.stats.Evaluations+e.Evaluations, r.limit, min(e.Best, best.cost)
			r.opt.OnEvent(e)
		}
	}
	s, err := search.apply(&other, state{})
	r.workers, r.finalists, r.status = other.workers, other.finalists, other.status
	r.stats.add(other.stats)
	if r.ended() && r.status == Complete {
		r.cutShort()
	}
	if err != nil {
		return placement{}
	}
	return s.best
}
