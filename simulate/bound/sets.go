package bound

import (
	"context"
	"math"

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
	// fixed is the fixed time of the classes, in ms.
	fixed float64
	// tree has the placements if all tables are whole or cut by columns in HBM, and mixed has
	// them for any other set.
	tree  *tree
	mixed *mixed
	// others restores the tables for tree.
	others *otherClasses
	// ended is true if no more work is done on the set.
	ended bool
}

// bound returns the bound of the set so far, in ms.
func (b *setBound) bound() float64 {
	if b.tree != nil {
		return float64(b.tree.bound().Total)
	}
	return b.fixed + b.mixed.u
}

// raise works on the bound until the bound reaches the limit, in ms, or the work or
// ctx ends.
func (b *setBound) raise(ctx context.Context, limit float64) {
	if b.tree != nil {
		b.others.restore(b.tree.relaxation)
		b.ended = b.tree.raise(ctx, limit)
		return
	}
	b.ended = b.mixed.raise(ctx, limit-b.fixed)
}

// leastOf returns the least bound of all sets of classes in the set in, in ms; +Inf if no
// plan can be valid. A device has at most the number divided of operators for each
// operation. Slices may be in host memory if onHosts is true.
func leastOf(ctx context.Context, p *problem.Problem, in set, divided int, onHosts bool) (float64, error) {
	sets, err := setsOf(p, in, divided, onHosts)
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

// setsOf returns all sets of classes in the set in, before any work on their bounds. There
// are none if no table is looked up.
func setsOf(p *problem.Problem, in set, divided int, onHosts bool) (sets []*setBound, err error) {
	w, err := newWires(p)
	if err != nil {
		return nil, err
	}
	counts := simulate.NewPricer(p)
	r := newRelaxation(p, counts, divided)
	if len(r.tables) == 0 {
		return nil, nil
	}
	others := newOtherClasses(p, w, r, counts)
	allRead := true // tables without lookups may be in any class
	for i := range p.Tables {
		allRead = allRead && counts.Counts(i).Lookups > 0
	}
	columns := only(problem.ClassColumns)
	if in.has(problem.ClassColumns) {
		comm, err := newExchange(p)
		if err != nil {
			return nil, err
		}
		sets = append(sets, &setBound{tree: newTree(r, comm), others: others})
	}
	add := func(r *relaxation, used set) {
		sets = append(sets, &setBound{fixed: others.of(used), mixed: newMixed(r, others, used, p.Topology)})
	}
	for used := in; used > 0; used = (used - 1) & in {
		if used != columns || !allRead {
			add(r, used)
		}
	}
	if !onHosts {
		return sets, nil
	}
	unlimited := r.unlimited()
	for used := in; used > 0; used = (used - 1) & in {
		if used.has(problem.ClassColumns) {
			add(unlimited, used)
		}
	}
	return sets, nil
}
