package problem

import (
	"fmt"
	"slices"
)

// An engine may run a table of MeanPooling that is cut by rows only if all tables of its module are
// cut by rows (EngineRules.MeansTogether):
//
//	right  | m: row_wise |   | s: row_wise   |      | m: table_wise |   | s: row_wise |
//	wrong  | m: row_wise |   | s: table_wise |      | m: grid       |
//
// A planner plans the module in both ways.

// MeanCuts returns the problem in two ways, which together allow what the engine runs of the given
// sharding types: in uncut, no table of MeanPooling is cut by rows; in cut, all tables of a module
// with such a table are. A module that constraints leave one way only has that way in both problems.
// Both are p itself if the engine has no such rule or no table is concerned. It returns an error if a
// module can be planned in neither way.
func MeanCuts(p *Problem, allowed []ShardingType) (uncut, cut *Problem, err error) {
	rules := p.Engine.Rules()
	var modules []string
	for i := range p.Tables {
		if t := &p.Tables[i]; t.Pooling == MeanPooling && !slices.Contains(modules, t.Module) {
			modules = append(modules, t.Module)
		}
	}
	if !rules.MeansTogether || len(modules) == 0 || !slices.ContainsFunc(allowed, ShardingType.ByRows) {
		return p, p, nil
	}
	ways := [2]Problem{*p, *p}
	for w := range ways {
		ways[w].Tables = slices.Clone(p.Tables)
	}
	for _, module := range modules {
		first, second, err := meanCuts(p, module, allowed)
		if err != nil {
			return nil, nil, err
		}
		for w, types := range [2]map[int][]ShardingType{first, second} {
			for i, list := range types {
				ways[w].Tables[i].Constraint.ShardingTypes = list
			}
		}
	}
	return &ways[0], &ways[1], nil
}

// meanCuts returns the sharding types of the tables of a module, by their numbers, in each way. Tables
// that a way does not restrict are left out.
func meanCuts(p *Problem, module string, allowed []ShardingType) (uncut, cut map[int][]ShardingType, err error) {
	uncut, cut = map[int][]ShardingType{}, map[int][]ShardingType{}
	stuck, whole := -1, -1 // a table of means that must be cut by rows, and one that cannot be
	for i := range p.Tables {
		t := &p.Tables[i]
		if t.Module != module {
			continue
		}
		for _, k := range allowed {
			if cutsInBlocks(p, t, k) {
				cut[i] = append(cut[i], k)
			}
			if t.Pooling == MeanPooling && !k.ByRows() && t.Permits(k) {
				uncut[i] = append(uncut[i], k)
			}
		}
		if len(cut[i]) == 0 {
			whole = i
		}
		if t.Pooling == MeanPooling && len(uncut[i]) == 0 {
			stuck = i
		}
	}
	switch {
	case stuck >= 0 && whole >= 0:
		return nil, nil, fmt.Errorf("table %q is pooled by means and may only be cut by rows, and table %q of its module may not be cut by rows: %s needs that all tables of the module are; let %q have row_wise, or %q table_wise",
			p.Tables[stuck].Name, p.Tables[whole].Name, p.Engine.Rules().Name, p.Tables[whole].Name, p.Tables[stuck].Name)
	case stuck >= 0:
		return cut, cut, nil
	case whole >= 0:
		return uncut, uncut, nil
	}
	return uncut, cut, nil
}

// cutsInBlocks reports whether a table may have a sharding type of blocks of rows with all columns.
func cutsInBlocks(p *Problem, t *Table, k ShardingType) bool {
	c := &t.Constraint
	if !t.Permits(k) || c.NoSplit || c.Colocation != "" || len(c.Devices) > 0 {
		return false
	}
	return k == RowWise && t.CutsByRows(p.Topology.Devices) || k == TableRowWise && t.CutsByRows(p.Topology.PerHost())
}
