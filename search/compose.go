package search

import "errors"

// Stages that are made of stages.

// columnSlices applies stages that place slices of columns in HBM, if these are
// allowed. If tables may take other forms as well, the stages have half of the
// evaluations, and column slices that do not fit are no error yet.
type columnSlices struct{ stages []stage }

func (c columnSlices) apply(r *run, s state) (state, error) {
	if !r.forms.columns {
		return s, r.forms.possible(r.catalog)
	}
	if !r.forms.any() {
		s, err := r.apply(c.stages, s)
		return s, r.placed(s, err)
	}
	all := r.most
	r.most = (all + 1) / 2
	r.limit = r.most
	s, err := r.apply(c.stages, s)
	err = r.placed(s, err)
	r.most, r.limit = all, all
	if r.status == OutOfBudget {
		r.status = Complete // the other forms have the other half
	}
	s.complete = false
	if errors.As(err, &s.infeasible) {
		return s, nil
	}
	return s, err
}

// otherForms applies stages that place tables in other forms than slices of columns in
// HBM, if tables may take other forms.
type otherForms struct{ stages []stage }

func (o otherForms) apply(r *run, s state) (state, error) {
	if !r.forms.any() {
		return s, nil
	}
	r.event.Phase = "forms"
	r.scorer().Reset()
	for t, choices := range r.forms.choices {
		if len(choices) > 0 {
			r.catalog.time(r.forms.whole[t])
		}
	}
	s, err := r.apply(o.stages, s)
	r.scorer().Reset()
	return s, err
}
