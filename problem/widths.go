package problem

import "slices"

// An engine may run a module whose tables have PoolingNone only if the slices of all tables
// that are cut by columns have one width (EngineRules.OneWidth):
//
//	right  | s0: 32 | 32 | 32 | 32 |   | s1: 32 | 32 | 32 | 32 |   | s2: 128, table_wise |
//	wrong  | s0: 32 | 32 | 32 | 32 |   | s1:   64    |   64    |
//
// A planner finds the width by planning once for each: OneWidths says which widths
// there are, and InSlicesOf is the problem with one of them.

// OneWidth is a module whose slices of columns must have one width.
type OneWidth struct {
	// Tables are the numbers of the module's tables that may be cut by columns, at least two,
	// ascending.
	Tables []int
	// Widths are the widths that the slices may have, each narrower than some table and
	// allowed by its constraint. The widths fall.
	Widths []int
}

// OneWidths returns the modules whose slices must have one width, in the order of their first
// tables. Tables without a module are taken for those of one module.
func OneWidths(p *Problem) []OneWidth {
	if !p.Engine.Rules().OneWidth {
		return nil
	}
	var all []OneWidth
	at := map[string]int{}
	for i := range p.Tables {
		t := &p.Tables[i]
		widths := t.EqualWidths()
		if t.Pooling != PoolingNone || !t.Permits(ColumnWise) || len(widths) < 2 {
			continue
		}
		k, ok := at[t.Module]
		if !ok {
			k = len(all)
			at[t.Module], all = k, append(all, OneWidth{})
		}
		all[k].Tables = append(all[k].Tables, i)
		all[k].Widths = append(all[k].Widths, widths[1:]...)
	}
	all = slices.DeleteFunc(all, func(w OneWidth) bool { return len(w.Tables) < 2 })
	for k := range all {
		slices.Sort(all[k].Widths)
		all[k].Widths = slices.Compact(all[k].Widths)
		slices.Reverse(all[k].Widths)
	}
	return all
}

// InSlicesOf returns the problem with tables that are whole or in slices of exactly the given
// width, if they are cut by columns. A table that cannot be cut into such slices stays whole.
func InSlicesOf(p *Problem, width int, tables []int) *Problem {
	narrowed := *p
	narrowed.Tables = slices.Clone(p.Tables)
	for _, i := range tables {
		narrowed.Tables[i].OnlyWidth = width
	}
	return &narrowed
}
