package search

import (
	"errors"
	"slices"
)

// Stages that are made of stages.

// columnSlices applies stages that place slices of columns in HBM, if these are
// allowed. If tables may take other forms as well, column slices that do not fit are no error yet.
type columnSlices struct{ stages []stage }

func (c columnSlices) apply(r *run, s state) (state, error) {
	if err := r.forms.possible(r.catalog); err != nil || !r.forms.columns {
		return s, err
	}
	if !r.forms.any() {
		s, err := r.apply(c.stages, s)
		return s, r.placed(s, err)
	}
	s, err := c.beside(r, s)
	s.complete = false
	if errors.As(err, &s.infeasible) {
		return s, nil
	}
	return s, err
}

// beside applies the stages to the tables that may take the zero form. Each other table first takes
// the first form that it may take.
func (c columnSlices) beside(r *run, s state) (state, error) {
	whole, budget := r.catalog.whole(), r.catalog.budget
	room := newLedger(r.catalog)
	var others []placed
	var hosted []int32
	rest := slices.DeleteFunc(slices.Clone(whole), func(k int32) bool {
		m := r.catalog.pieces[k].members[0]
		switch {
		case r.forms.hostedAlone(m.table):
			hosted = append(hosted, r.catalog.inForm(k, m.width, r.forms.choices[m.table][0]))
		case r.forms.barred[m.table]:
			others = append(others, onSeveral(r.catalog, &r.forms, &room, k, r.forms.choices[m.table][0])...)
		}
		return r.forms.barred[m.table]
	})
	if len(rest) == len(whole) {
		s, err := r.apply(c.stages, s)
		return s, r.placed(s, err)
	}
	others, ok := level(r.catalog, &room, others, hosted)
	if !ok {
		return s, nil // stage fill goes on
	}
	most := int64(0)
	for d, bytes := range room.own {
		most = max(most, bytes-room.start[d])
	}
	left := budget - room.everywhere - most
	if len(room.onHost) > 0 {
		left -= slices.Max(room.onHost)
	}
	if len(rest) == 0 || left <= 0 {
		return s, nil // stage fill goes on
	}
	r.catalog.unsplit, r.catalog.budget = rest, left
	s, err := r.apply(c.stages, s)
	err = r.placed(s, err)
	r.catalog.unsplit, r.catalog.budget = whole, budget
	r.finalists = nil // they lack the other tables
	if err == nil {
		s.best = r.offerPlaced(placement{}, append(s.best.placed(), others...))
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
