package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// The race goes on from its winner with one slice more of the hottest table, if a slice alone takes nearly as long as the busiest
// device: its table sets the cost, and a small change that cuts it makes no placement cheaper until other tables have moved.
//
//	device      0    1    2    3
//	hot table   32   32             its slices fill devices 0 and 1
//	            24   24   16        better, but only if other tables have left device 2
//
// The slices have about equal widths. The other slices stay where they are, or all other tables are placed again. A short run begins
// at each of the two placements, and a longer run at the cheaper result if its cost is close to that of the best placement.

const (
	// A table is cut once more if one of its slices alone takes hottestShare of the longest compute.
	hottestShare = .9
	// The longer run takes place if the placement costs at most moreClose times the best one. The table is cut
	// again if the cost fell by the share moreGain.
	moreClose, moreGain = 1.02, .002
)

// slicedMore returns placements with the hottest table in one slice more than in the best placement. Only
// slices of columns in HBM count. If other slices of the table are in host memory, they come to HBM, too.
func slicedMore(a *annealing) []placement {
	parts := a.placement.parts
	columns := slices.DeleteFunc(slices.Clone(parts), func(p placed) bool { return a.r.formed([]placed{p}) })
	if len(columns) == 0 {
		return nil
	}
	a.scorer.Reset() // c.time needs empty devices
	hottest := slices.MaxFunc(columns, func(p, q placed) int { return cmp.Compare(a.c.time(p.piece), a.c.time(q.piece)) })
	alone, total := a.c.time(hottest.piece), 0.0
	a.reset(parts)
	k := &a.c.pieces[hottest.piece]
	if alone < hottestShare*slices.Max(a.compute) || len(k.members) > 1 || k.devices != nil || staysOnHost(a.c, k) {
		return nil
	}
	for _, t := range a.compute {
		total += t
	}
	table := k.members[0].table
	isTable := func(p placed) bool { return a.c.pieces[p.piece].members[0].table == table }
	cut := cutEvenly(a, table, parts, isTable)
	if cut == nil {
		return nil
	}
	var starts []placement
	all := append(slices.DeleteFunc(slices.Clone(parts), isTable), cut...)
	if a.reset(all); a.lack(false) == 0 {
		starts = append(starts, placement{parts: all, cost: a.scorer.Cost()})
	}
	pieces, fixed := unsplit(a.c, parts)
	others := slices.DeleteFunc(pieces, func(k int32) bool { return isTable(placed{piece: k}) })
	if built, ok := buildBeside(a.r, a.layout, others, append(fixed, cut...), total/float64(len(a.c.all)), shapeEvaluations); ok {
		starts = append(starts, placement{parts: built, cost: a.scorer.Cost()})
	}
	return starts
}

// cutEvenly returns a table in slices of about equal widths, on the devices that have slices of it and on one
// device more: the least busy without it. It returns nil if the table or the rules allow no such slices.
func cutEvenly(a *annealing, table int, parts []placed, isTable func(placed) bool) (cut []placed) {
	const g = problem.ColumnGranule
	var on []int32
	for _, p := range parts {
		if isTable(p) && !slices.Contains(on, p.device) {
			on = append(on, p.device)
		}
	}
	width, n := a.c.problem.Tables[table].Dim/g, len(on)+1
	if n > len(a.c.all) || width/n*g < a.c.least(table) || a.c.rules.EqualSlices && !evenInto(a.c, table, n) {
		return nil
	}
	a.reset(slices.DeleteFunc(slices.Clone(parts), isTable))
	byCompute := func(d, e int32) int { return cmp.Compare(a.compute[d], a.compute[e]) }
	slices.SortStableFunc(on, byCompute) // the first slices may be wider
	others := slices.DeleteFunc(slices.Clone(a.c.all), func(d int32) bool { return slices.Contains(on, d) })
	for i, d := range append(on, slices.MinFunc(others, byCompute)) {
		w := width / n
		if i < width%n {
			w++
		}
		cut = append(cut, placed{a.c.inForm(a.forms.whole[table], w*g, problem.Form{}), d})
	}
	return cut
}
