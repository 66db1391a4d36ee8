package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
)

// Scale is a change of the tables: what a larger or a smaller model would take. The zero value,
// and factors of 1, change nothing.
//
//	rows     the rows of each table times Rows. A table with a reuse histogram keeps it, so its
//	         batches read the same number of distinct rows; other tables draw from all rows
//	dims     the columns of each table times Dims, rounded to a multiple of 4, at least 4
//	pooling  the pooling factors times Pooling
//	tables   the number of tables times Tables. A copy of a table has its lookups and reads
//	         features of its own; below 1, tables are left out evenly
type Scale struct {
	// The factors; 0 stands for 1.
	Rows, Dims, Pooling, Tables float64
}

// Unscaled is the text of a Scale that changes nothing.
const Unscaled = "none"

// MaxFactor is the largest factor of a Scale; the least one is 1 / MaxFactor.
const MaxFactor = 1e6

type factor struct {
	name  string
	value *float64
}

// factors returns the factors by name.
func (s *Scale) factors() []factor {
	return []factor{{"rows", &s.Rows}, {"dims", &s.Dims}, {"pooling", &s.Pooling}, {"tables", &s.Tables}}
}

// String returns the scale as ParseScale reads it: "rows=2,dims=1.5", or Unscaled.
func (s Scale) String() string {
	var words []string
	for _, f := range s.factors() {
		if *f.value != 0 && *f.value != 1 {
			words = append(words, f.name+"="+strconv.FormatFloat(*f.value, 'g', -1, 64))
		}
	}
	if len(words) == 0 {
		return Unscaled
	}
	return strings.Join(words, ",")
}

// ParseScale reads a scale: "rows=2,dims=1.5", or Unscaled. It fails if a factor is unknown, is
// given twice, or is no number between 1 / MaxFactor and MaxFactor.
func ParseScale(text string) (Scale, error) {
	var s Scale
	if text == Unscaled {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(strings.TrimSpace(part), "=")
		factors := s.factors()
		i := slices.IndexFunc(factors, func(f factor) bool { return f.name == name })
		if !ok || i < 0 {
			return Scale{}, fmt.Errorf("scale %q is not of the form rows=2,dims=1.5,pooling=2,tables=1.25, and not %s", text, Unscaled)
		}
		if *factors[i].value != 0 {
			return Scale{}, fmt.Errorf("scale %q gives %s twice", text, name)
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || !(v >= 1/MaxFactor && v <= MaxFactor) {
			return Scale{}, fmt.Errorf("scale %q: %s is not a number between %v and %v", text, part, 1/MaxFactor, float64(MaxFactor))
		}
		*factors[i].value = v
	}
	return s, nil
}

// times returns a value times a factor, where 0 stands for 1.
func times(value, factor float64) float64 {
	if factor == 0 {
		return value
	}
	return value * factor
}

// Of returns the scaled tables. The given ones stay as they are. It fails with *input.Errors if the
// result would have more than problem.MaxTables tables, or more than problem.MaxRows rows or problem.MaxDim
// columns in a table.
func (s Scale) Of(tables []problem.Table) ([]problem.Table, error) {
	n := math.Round(times(float64(len(tables)), s.Tables))
	if n > problem.MaxTables {
		return nil, s.tooLarge("%.0f tables, but a problem has %d at most", n, problem.MaxTables)
	}
	scaled := make([]problem.Table, max(1, int(n)))
	copies := make([]int, len(tables))
	for i := range scaled {
		from := i * len(tables) / len(scaled)
		copies[from]++
		t := tables[from]
		if err := s.table(&t); err != nil {
			return nil, err
		}
		if copies[from] > 1 {
			rename(&t, "#"+strconv.Itoa(copies[from]))
		}
		scaled[i] = t
	}
	return scaled, nil
}

// tooLarge is the error of a scale that makes a problem too large.
func (s Scale) tooLarge(format string, args ...any) error {
	return &input.Errors{List: []input.Error{{Message: fmt.Sprintf("scale %v: ", s) + fmt.Sprintf(format, args...), Hint: "give smaller factors to scale"}}}
}

// table scales one table.
func (s Scale) table(t *problem.Table) error {
	rows := math.Max(1, math.Round(times(float64(t.Rows), s.Rows)))
	if rows > problem.MaxRows {
		return s.tooLarge("table %q would have %.0f rows, and the most are %d", t.Name, rows, int64(problem.MaxRows))
	}
	const granule = problem.ColumnGranule
	dim := math.Max(granule, granule*math.Round(times(float64(t.Dim), s.Dims)/granule))
	if dim > problem.MaxDim {
		return s.tooLarge("table %q would have %.0f columns, and the most are %d", t.Name, dim, problem.MaxDim)
	}
	t.Rows, t.Dim = int64(rows), int(dim)
	t.Constraint.MinWidth = min(t.Constraint.MinWidth, t.Dim)
	t.Features = slices.Clone(t.Features)
	for i := range t.Features {
		t.Features[i].PoolingFactor = times(t.Features[i].PoolingFactor, s.Pooling)
	}
	return nil
}

// rename gives a copy of a table names of its own. Copies of tables that are placed together
// are placed together.
func rename(t *problem.Table, suffix string) {
	t.Name += suffix
	for i := range t.Features {
		t.Features[i].Name += suffix
	}
	if t.Constraint.Colocation != "" {
		t.Constraint.Colocation += suffix
	}
}
