package cost

// The pooled columns that the corrections of exchanges take the samples to have.
const (
	TypicalColumns  = typicalColumns
	MostEvenColumns = mostEvenColumns
	MostColumns     = mostColumns
)
