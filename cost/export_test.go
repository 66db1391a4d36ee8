package cost

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// The pooled columns that the corrections of exchanges take the samples to have.
const (
	TypicalColumns  = typicalColumns
	MostEvenColumns = mostEvenColumns
	MostColumns     = mostColumns
)

// NetworkFor returns the network of a problem, as a model has it.
func NetworkFor(m *Model, p *problem.Problem) simulate.Network { return networkFor(m, p) }

// Known counts the groups of a placement whose times the Scorer remembers.
func (s *Scorer) Known() (known int) {
	count := func(o *operators) {
		for _, groups := range o.groups {
			for i := range groups {
				if g := &groups[i]; len(g.items) > 0 {
					if _, ok := o.memo.At(g.key); ok {
						known++
					}
				}
			}
		}
	}
	count(&s.columns)
	if s.others != nil {
		for _, o := range s.others.classes {
			if o != nil {
				count(o)
			}
		}
	}
	return known
}
