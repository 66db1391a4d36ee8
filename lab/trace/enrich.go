package trace

import (
	"errors"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// enrich.go gives existing tables the accesses of a trace: the pooling factors of their
// features and the spread of the lengths of their bags, the distinct rows and the reuse of
// a batch. Everything else of the tables stays as it is.

// Known are existing tables, which get the accesses of a trace.
type Known []problem.Table

// Rows returns the numbers of rows by table, for Options and TableOptions.
func (k Known) Rows() map[string]int64 {
	rows := map[string]int64{}
	for i := range k {
		rows[k[i].Name] = k[i].Rows
	}
	return rows
}

// TableOf returns the tables of the features, for Options. A name that features of
// several tables have is left out.
func (k Known) TableOf() map[string]string {
	tables, twice := map[string]string{}, map[string]bool{}
	for i := range k {
		for _, f := range k[i].Features {
			_, known := tables[f.Name]
			twice[f.Name] = twice[f.Name] || known
			tables[f.Name] = k[i].Name
		}
	}
	for name := range twice {
		if twice[name] {
			delete(tables, name)
		}
	}
	return tables
}

// Enrich returns the tables with the accesses that were found in a trace, with warnings:
// those of the trace, and one about the tables that are not in the trace, which stay as
// they are. It fails if the trace has a table that is not known, or other features of a
// table than are known.
func (k Known) Enrich(found Tables) ([]problem.Table, []string, error) {
	tables, at := slices.Clone(k), map[string]int{}
	var names, absent []string
	for i := range tables {
		at[tables[i].Name] = i
		names = append(names, tables[i].Name)
	}
	var unknown []string
	var wrong error
	seen := map[string]bool{}
	for i := range found.List {
		from := &found.List[i]
		place, ok := at[from.Name]
		if !ok {
			unknown = append(unknown, from.Name)
			continue
		}
		seen[from.Name] = true
		features, err := enriched(tables[place].Features, from)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("table %q: %w", from.Name, err))
			continue
		}
		tables[place].Features = features
		if from.Access != (problem.Table{}).Access {
			tables[place].Access = from.Access
		}
	}
	if len(unknown) > 0 {
		wrong = errors.Join(fmt.Errorf("the trace has the tables %s, which are not among those to enrich, %s%s",
			words.Quoted(unknown, 5), words.Quoted(names, 5), meant(unknown[0], names)), wrong)
	}
	if wrong != nil {
		return nil, nil, wrong
	}
	for _, name := range names {
		if !seen[name] {
			absent = append(absent, name)
		}
	}
	warnings := slices.Clone(found.Warnings)
	if len(absent) > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d tables (%s) are not in the trace: their accesses stay as they were", len(absent), len(names), words.Quoted(absent, 3)))
	}
	return tables, warnings, nil
}

// enriched returns the features of a table with the pooling factors, and the spread of the
// bags' lengths, of the same table in a trace.
func enriched(features []problem.Feature, from *problem.Table) ([]problem.Feature, error) {
	features = slices.Clone(features)
	take := func(to *problem.Feature, from problem.Feature) {
		to.PoolingFactor, to.LengthCV = from.PoolingFactor, from.LengthCV
	}
	if len(features) == 1 && len(from.Features) == 1 {
		take(&features[0], from.Features[0])
		return features, nil
	}
	name := func(f problem.Feature) string { return f.Name }
	has, want := mapped(from.Features, name), mapped(features, name)
	for i := range features {
		at := slices.Index(has, features[i].Name)
		if at < 0 || len(has) != len(want) {
			return nil, fmt.Errorf("the trace has the features %s, and the table %s", words.Quoted(has, 5), words.Quoted(want, 5))
		}
		take(&features[i], from.Features[at])
	}
	return features, nil
}

func mapped[T, U any](list []T, to func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = to(v)
	}
	return out
}
