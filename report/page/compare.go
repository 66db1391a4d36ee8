package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// Compare returns what changes from plan before to plan after. No plan may list a table twice.
func Compare(before, after *plan.Plan) *Changes {
	found := plan.Diff(before, after)
	c := &Changes{Headline: report.DiffHeadline(before, after, found), Facts: report.DiffFacts(found), Tables: []TableChange{}, In: []unit.Bytes{}, Out: []unit.Bytes{}}
	if t := found.Transfer; t != nil {
		for _, d := range t.Devices {
			c.In, c.Out = append(c.In, d.In), append(c.Out, d.Out)
		}
	}
	for _, t := range found.Tables {
		was, is := report.TableStates(t)
		what := was + " -> " + is
		if was == is { // the same devices hold other parts
			what = fmt.Sprintf("%s, cut or placed differently", is)
		}
		c.Tables = append(c.Tables, TableChange{Name: t.Name, What: what, Moved: t.Bytes})
	}
	for _, name := range found.OnlyBefore {
		c.Tables = append(c.Tables, TableChange{Name: name, What: "removed"})
	}
	for _, name := range found.OnlyAfter {
		c.Tables = append(c.Tables, TableChange{Name: name, What: "added"})
	}
	slices.SortStableFunc(c.Tables, func(a, b TableChange) int { return cmp.Compare(a.Name, b.Name) })
	return c
}
