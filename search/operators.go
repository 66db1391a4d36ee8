package search

import (
	"maps"
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

// tidied returns a placement without the numbers that gain nothing. The lower numbers have more tables.
func tidied(r *run, best placement) placement {
	n := newNumbering(r, best.parts)
	n.clean()
	n.relabel()
	r.scorer().Reset()
	if tidy := r.offer(placement{}, n.parts); tidy.cost <= best.cost*(1+sameCost) {
		return tidy
	}
	return best
}

// numbering is a placement whose tables take other numbers of operators.
type numbering struct {
	r     *run
	parts []placed
	// of are the parts of each table, or of a co-location by its first table.
	of map[int][]int
	// sharing are the tables of a device that could share an operator.
	sharing []sharing
}

type sharing struct {
	device int32
	key    problem.OperatorKey
	tables []int
}

func newNumbering(r *run, parts []placed) *numbering {
	n := &numbering{r: r, parts: slices.Clone(parts), of: map[int][]int{}}
	at := map[int32][]int{} // of each device, in sharing
	for i, p := range parts {
		table, key := r.catalog.pieces[p.piece].members[0].table, r.catalog.operator(p.piece)
		key.Operator = 0
		n.of[table] = append(n.of[table], i)
		r.catalog.put(r.scorer(), p, 1)
		if r.catalog.pieces[p.piece].span == everywhere {
			continue
		}
		r.catalog.eachOf(r.catalog.pieces[p.piece].span, p.device, func(_ int, d int32) {
			j := slices.IndexFunc(at[d], func(j int) bool { return n.sharing[j].key == key })
			if j < 0 {
				j = len(at[d])
				at[d] = append(at[d], len(n.sharing))
				n.sharing = append(n.sharing, sharing{device: d, key: key})
			}
			s := &n.sharing[at[d][j]]
			s.tables = append(s.tables, table)
		})
	}
	r.stats.Evaluations += int64(len(parts))
	return n
}

// number returns the number of a table, and set changes it, in the Scorer too.
func (n *numbering) number(table int) problem.Operator {
	return n.r.catalog.pieces[n.parts[n.of[table][0]].piece].form.Operator
}

func (n *numbering) set(table int, number problem.Operator) {
	if n.number(table) == number {
		return
	}
	for _, i := range n.of[table] {
		n.r.catalog.put(n.r.scorer(), n.parts[i], -1)
		n.parts[i].piece = n.r.catalog.numbered(n.parts[i].piece, number)
		n.r.catalog.put(n.r.scorer(), n.parts[i], 1)
	}
	n.r.stats.Evaluations += int64(len(n.of[table]))
}

// clean gives number 0 to the tables of each device whose numbers make neither the plan
// cheaper nor the device faster.
func (n *numbering) clean() {
	s := n.r.scorer()
	least := s.Cost()
	for _, on := range n.sharing {
		before, compute := make([]problem.Operator, len(on.tables)), s.Compute(int(on.device))
		for i, t := range on.tables {
			before[i] = n.number(t)
		}
		for _, t := range on.tables {
			n.set(t, 0)
		}
		if cost := s.Cost(); cost <= least && s.Compute(int(on.device)) <= compute {
			least = cost
			continue
		}
		for i, t := range on.tables {
			n.set(t, before[i])
		}
	}
}

// relabel exchanges the numbers so that lower numbers have more tables.
func (n *numbering) relabel() {
	var tables [problem.Operators][]int
	for _, t := range slices.Sorted(maps.Keys(n.of)) {
		tables[n.number(t)] = append(tables[n.number(t)], t)
	}
	slices.SortStableFunc(tables[:], func(a, b []int) int { return len(b) - len(a) })
	for number, list := range tables {
		for _, t := range list {
			n.set(t, problem.Operator(number))
		}
	}
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
