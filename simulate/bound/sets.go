package bound

import (
	"context"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// sets.go divides the work over the sets of operator classes that plans may use. The least
// bound of all sets holds for all plans. So the work goes to the set with the least bound,
// until the work on that set has ended:
//
//	columns                    2.71 -> 2.87                       ms
//	columns, replicas          2.31 -------> 2.63 -------> 2.66   ended
//	columns, blocks, replicas  2.55 ---------------> 2.67
//
// The sets with higher bounds need no more work.

// setBound is the work on the bound of a set of classes.
type setBound struct {
	// tree works on the set in which all tables are whole or cut by columns in HBM. For any
	// other set tree is nil, and ways has a bound for each way in which exchanges count.
	tree *tree
	ways []way
	// least is the highest bound of the ways that were dropped from ways, in ms.
	least float64
	// others restores the times of the tables that tree works with.
	others *otherClasses
	// ended is true if no more work is done on the set.
	ended bool
}

// way is the work on the bound of a set of classes if exchanges count in one way (wires).
type way struct {
	// fixed is the fixed time of the classes without what is hidden, in ms.
	fixed float64
	mixed *mixed
}

// bound returns the bound of the way so far, in ms.
func (w *way) bound() float64 { return w.fixed + w.mixed.u }

// bound returns the bound of the set so far, in ms.
func (b *setBound) bound() float64 {
	if b.tree != nil {
		return float64(b.tree.bound().Total)
	}
	highest := b.least
	for i := range b.ways {
		highest = max(highest, b.ways[i].bound())
	}
	return highest
}

// raise works on the bound until the bound reaches the limit, in ms, or until the work or ctx
// ends.
func (b *setBound) raise(ctx context.Context, limit float64) {
	if b.tree != nil {
		b.others.restore(b.tree.relaxation)
		b.ended = b.tree.raise(ctx, limit)
		return
	}
	if len(b.ways) > 1 && !b.choose(ctx, limit) {
		return
	}
	w := &b.ways[0]
	b.ended = w.mixed.raise(ctx, limit-w.fixed)
}

// choose does a little work on each way and keeps the way with the highest bound. It reports
// whether that work is done: it stops where the bound of a way reaches the limit, in ms, and
// where ctx ends.
func (b *setBound) choose(ctx context.Context, limit float64) bool {
	highest := 0
	for i := range b.ways {
		w := &b.ways[i]
		w.mixed.rounds = firstRounds
		if !w.mixed.raise(ctx, limit-w.fixed) {
			return false
		}
		if w.bound() > b.ways[highest].bound() {
			highest = i
		}
	}
	b.least = b.bound()
	b.ways = b.ways[highest : highest+1]
	b.ways[0].mixed.rounds = mixedRounds
	return true
}

// leastOf returns the least bound of all sets of the classes allowed, in ms; +Inf if no plan can be
// valid.
func leastOf(ctx context.Context, p *problem.Problem, allowed Allowed) (float64, error) {
	sets, err := setsOf(p, allowed)
	if err != nil || len(sets) == 0 {
		return 0, err
	}
	bounds := make([]float64, len(sets))
	for i, s := range sets {
		bounds[i] = s.bound()
	}
	for {
		at, limit := 0, math.Inf(1) // limit is the least bound of the other sets
		for i, b := range bounds[1:] {
			if b < bounds[at] {
				at, limit = i+1, bounds[at]
			} else {
				limit = min(limit, b)
			}
		}
		if sets[at].ended || math.IsInf(bounds[at], 1) {
			return bounds[at], nil
		}
		if sets[at].raise(ctx, limit); ctx.Err() != nil {
			return 0, ctx.Err()
		}
		bounds[at] = sets[at].bound()
	}
}

// setsOf returns all sets of the classes allowed that the constraints of the tables allow, too, before
// any work on their bounds. There are none if no table is looked up.
func setsOf(p *problem.Problem, allowed Allowed) (sets []*setBound, err error) {
	all, err := everyWires(p, allowed.Hidden)
	if err != nil {
		return nil, err
	}
	counts := simulate.NewPricer(p)
	r := newRelaxation(p, counts, p.Topology.Devices, allowed)
	if len(r.tables) == 0 {
		return nil, nil
	}
	var others []*otherClasses // by way
	for _, w := range all {
		others = append(others, newOtherClasses(p, w, r, counts, allowed.ShardingTypes))
	}
	allRead := true // tables without lookups may be in any class
	for i := range p.Tables {
		allRead = allRead && counts.Counts(i).Lookups > 0
	}
	in, columns, may := allowed.classes(), only(problem.ClassColumns), mayBe(r.tables, false)
	if possible(may, columns) {
		comm, err := newExchange(p, allowed)
		if err != nil {
			return nil, err
		}
		sets = append(sets, &setBound{tree: newTree(r, comm, memoriesOf(p, everyDevice(p))), others: others[0]})
	}
	add := func(r *relaxation, may []set, wanted func(used set) bool) {
		for used := in; used > 0; used = (used - 1) & in {
			if !wanted(used) || !possible(may, used) {
				continue
			}
			s := &setBound{}
			for _, o := range others {
				s.ways = append(s.ways, way{fixed: o.of(used) - o.less, mixed: newMixed(r, o, used, may, p.Topology)})
			}
			sets = append(sets, s)
		}
	}
	add(r, may, func(used set) bool { return used != columns || !allRead })
	if slices.ContainsFunc(r.tables, func(t table) bool { return t.forms.hosts }) {
		add(tieredOf(r), mayBe(r.tables, true), func(used set) bool { return used.has(problem.ClassColumns) })
	}
	if len(sets) == 0 { // some table has no class
		sets = append(sets, &setBound{least: math.Inf(1), ended: true})
	}
	return sets, nil
}
