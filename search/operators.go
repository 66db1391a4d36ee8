package search

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The search may decide which tables of a device share an operator. All tables of an
// operator run in the lanes of the widest one, so narrow tables beside a wide one are slow.
// Apart from it they are fast, and the device pays for one more kernel launch and one more
// sort:
//
//	device 0   wide 128, narrow 8, narrow 8      one operator of 32 lanes
//	numbered   wide 128 | narrow 8, narrow 8     operator 0 of 32 lanes, operator 1 of 8
//
// The number belongs to the table (problem.Operator), so a table that is cut over several
// devices ties the operators of these devices together. What can pay is to keep lane classes
// apart, so some starts of the race have a number for each lane class, and runs of annealing give tables other numbers on
// the way. After the race, a device whose numbers make nothing faster takes number 0.

// wideColumns is the widest slice of operators whose kernels give all tables the lanes of
// the widest one, in columns. Kernels of wider operators are of a class of their own.
const wideColumns = 1024

// mayNumber reports whether the search may give tables numbers of operators, and whether
// that can pay at all: it cannot where each table has the lanes of its own width.
func mayNumber(r *run) bool {
	n, ok := r.scorer().(Numbered)
	return r.opt.Divides(r.catalog.problem) && ok && n.Numbered()
}

// tidied returns a placement without the numbers that gain nothing: number 0 for the tables of each device whose numbers make neither
// the plan cheaper nor the device faster. The lower numbers have more tables.
func tidied(r *run, best placement) placement {
	m := &mover{layout: newLayout(r.catalog, r.scorer(), r.forms)}
	m.reset(best.parts)
	least := m.scorer.Cost()
	for _, on := range sharingOperators(r.catalog, best.parts) {
		m.gone, m.come = m.gone[:0], m.come[:0]
		for _, table := range on.tables {
			for _, slot := range slotsOf(m.layout, table, on.device) {
				if m.formAt(slot).Operator > 0 && !slices.Contains(m.gone, slot) {
					m.number(slot, 0)
				}
			}
		}
		compute, before := m.compute[on.device], m.softSums
		m.fits(false)
		m.try()
		if cost := m.scorer.Cost(); cost <= least && m.compute[on.device] <= compute {
			least = cost
			m.accept()
		} else {
			m.undo(before)
		}
	}
	r.stats.Evaluations += m.evaluations
	r.scorer().Reset()
	if tidy := r.offer(placement{}, relabelled(r.catalog, m.all())); tidy.cost <= best.cost*(1+sameCost) {
		return tidy
	}
	return best
}

// slotsOf returns the slots of a table, or of the co-location on a device whose first table it is.
func slotsOf(l *layout, table, device int32) []int32 {
	if slots := l.tables[table]; len(slots) > 0 {
		return slots
	}
	i := slices.IndexFunc(l.held[device], func(slot int32) bool { return l.c.pieces[l.parts[slot].piece].table == table })
	return l.held[device][i : i+1]
}

// sharing are the first tables of the pieces of a device that could share an operator.
type sharing struct {
	device int32
	key    problem.OperatorKey
	tables []int32
}

// sharingOperators returns the tables that could share an operator, of each device and operator.
func sharingOperators(c *catalog, parts []placed) (all []sharing) {
	at := map[int32][]int{} // of each device, in all
	for _, p := range parts {
		k, key := &c.pieces[p.piece], c.operator(p.piece)
		if key.Operator = 0; k.span == everywhere {
			continue
		}
		c.eachOf(k.span, p.device, func(d int32) {
			j := slices.IndexFunc(at[d], func(j int) bool { return all[j].key == key })
			if j < 0 {
				j = len(at[d])
				at[d] = append(at[d], len(all))
				all = append(all, sharing{device: d, key: key})
			}
			s := &all[at[d][j]]
			s.tables = append(s.tables, k.table)
		})
	}
	return all
}

// relabelled returns parts whose numbers are exchanged so that lower numbers have more tables.
func relabelled(c *catalog, parts []placed) []placed {
	var tables [problem.Operators]map[int32]bool
	for i := range tables {
		tables[i] = map[int32]bool{}
	}
	for _, p := range parts {
		k := &c.pieces[p.piece]
		tables[k.form.Operator][k.table] = true
	}
	order := inOrder(len(tables))
	slices.SortStableFunc(order, func(a, b int32) int { return len(tables[b]) - len(tables[a]) })
	for i, p := range parts {
		number := slices.Index(order, int32(c.pieces[p.piece].form.Operator))
		parts[i].piece = c.numbered(p.piece, problem.Operator(number))
	}
	return parts
}

// laneClass returns the lane class of a slice of the width, from 0 on; laneClasses is the
// number of classes.
func laneClass(profile *hardware.Profile, width int) uint8 {
	switch lanes := profile.Lanes(width); {
	case width > wideColumns:
		return 3
	case lanes <= 8:
		return 0
	case lanes <= 16:
		return 1
	}
	return 2
}

const laneClasses = 4

// partition holds the number of each lane class.
type partition [laneClasses]problem.Operator

// classOf returns the lane class of a piece's widest member. ok is false if the piece is in
// no operator, because its tables are never looked up.
func classOf(c *catalog, k int32) (class uint8, ok bool) {
	for _, m := range c.pieces[k].members {
		class = max(class, laneClass(&c.problem.Topology.Profile, m.width))
		ok = ok || c.problem.Tables[m.table].PoolingFactor() > 0
	}
	return class, ok
}

// partitions returns the partitions of the lane classes that some parts have, each once: first the zero partition, last the one
// that keeps all classes apart. If there are more classes than numbers, the lowest classes share one there.
func partitions(c *catalog, parts []placed) []partition {
	var present [laneClasses]bool
	for _, p := range parts {
		class, ok := classOf(c, p.piece)
		present[class] = present[class] || ok
	}
	all, first := []partition{{}}, true // the first class has number 0
	for class := laneClasses - 1; class >= 0; class-- {
		if !present[class] || first {
			first = first && !present[class]
			continue
		}
		var finer []partition
		for _, p := range all {
			for number := range min(slices.Max(p[:])+2, problem.Operators) {
				p[class] = number
				finer = append(finer, p)
			}
		}
		all = finer
	}
	return all
}

// numbered returns parts with the numbers of their lane classes.
func (p partition) numbered(c *catalog, parts []placed) []placed {
	all := slices.Clone(parts)
	for i, x := range parts {
		class, _ := classOf(c, x.piece)
		all[i].piece = c.numbered(x.piece, p[class])
	}
	return all
}
