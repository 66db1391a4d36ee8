package search

import (
	"errors"
	"slices"
)

// Stages that are made of stages.

// columnSlices applies stages that place slices of columns in HBM, if all tables may be such
// slices. If tables may take other forms as well, column slices that do not fit are no error yet.
type columnSlices struct{ stages []stage }

func (c columnSlices) apply(r *run, s state) (state, error) {
	if err := r.forms.possible(r.catalog, nil); err != nil || !r.forms.columns {
		return s, err
	}
	if !r.forms.any() {
		s, err := r.apply(c.stages, s)
		return s, r.placed(s, err)
	}
	if slices.Contains(r.forms.barred, true) {
		return s, nil // stage fill goes on
	}
	s, err := r.apply(c.stages, s)
	s.complete = false
	if err = r.placed(s, err); errors.As(err, &s.infeasible) {
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
	timeChoices(r)
	s, err := r.apply(o.stages, s)
	r.scorer().Reset()
	return s, err
}

// timeChoices estimates the time of each whole table that may take other forms.
func timeChoices(r *run) {
	r.scorer().Reset()
	for t, choices := range r.forms.choices {
		if len(choices) > 0 {
			r.catalog.time(r.forms.whole[t])
		}
	}
}
