package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// Compare returns what changes from plan before to plan after. No plan may list a table twice.
func Compare(before, after *plan.Plan) *Changes {
	found := plan.Diff(before, after)
	c := &Changes{Headline: headline(found), Summary: report.DiffLines(found), Tables: []TableChange{}, In: []unit.Bytes{}, Out: []unit.Bytes{}}
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

// headline says which plan is faster.
func headline(c plan.Changes) string {
	before, after := c.Cost.Before, c.Cost.After
	if before == nil || after == nil || !(*before > 0) {
		return "It is not known which plan is faster."
	}
	share := 100 * float64(*after / *before - 1)
	switch {
	case math.Abs(share) < 0.05:
		return fmt.Sprintf("Both plans take %v.", *after)
	case share < 0:
		return fmt.Sprintf("The second plan takes %.1f %% less time: %v in place of %v.", -share, *after, *before)
	}
	return fmt.Sprintf("The second plan takes %.1f %% more time: %v in place of %v.", share, *after, *before)
}
