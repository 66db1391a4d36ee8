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
