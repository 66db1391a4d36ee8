package search

// Stage singly searches once more, among the forms in which one device holds a slice: in HBM or in
// host memory. If HBM is short, many placements are local optima, and a search that also cuts tables by
// rows and copies them may end at a more expensive one than a search that does not. If tables have room
// in HBM, stage switch compares with slices of columns itself (switch.go).
//
// The search has the draws that it would have if the caller had allowed only these forms. It takes about as
// long as the stages before, so it is left out for a large problem, if times add up, and under a
// budget of evaluations.
type singly struct{ search stage }

// ampleHBM is the share of all HBM up to which whole tables have room there.
const ampleHBM = .8

func (o singly) apply(r *run, s state) (state, error) {
	if r.catalog.hostBudget == 0 || r.opt.From != nil || r.most > 0 || r.status != Complete || !fewSlices(s.best) || addsUp(r.scorer()) {
		return s, nil
	}
	f := r.forms.singly()
	short := float64(r.catalog.total(r.catalog.whole())) > ampleHBM*float64(r.catalog.room())
	if !short || !r.forms.shared() || f.possible(r.catalog) != nil {
		return s, nil
	}
	s.best = cheaper(s.best, searchAgain(r, o.search, r.opt.Seed, f, s.best))
	return s, nil
}
