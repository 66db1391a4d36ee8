package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Hundreds of tables are too many for shapes (shapes.go): to place them under one shape takes the
// evaluations of a long run of annealing. So the race also begins from tables that are dealt to
// the devices by sums alone, and that have numbers by rows:
//
//	number 1   the tables with the fewest rows, which all devices together can sort in three passes
//	number 0   the others
//
// An operator sorts the indices of all of its tables in one more pass once these have more than
// fewRows rows, so a device with both kinds is faster with two operators. Every device gets about the
// same time, columns and bytes, as if times added up.

const (
	// dealtBytes is the largest share of a device's memory that a dealt slice takes.
	dealtBytes = .25
	// dealtWidth is the width of the slices that wider tables are cut into in some starts, in columns.
	dealtWidth = 64
)

// dealing says which tables are cut into slices of dealtWidth columns.
type dealing struct {
	few, many bool
	target    float64
}

var dealings = []dealing{
	{target: 1.5},
	{few: true, target: 1.5},
	{many: true, target: 1.5},
	{few: true, many: true, target: 1.5},
	{target: .9},
	{few: true, target: .9},
	{many: true, target: .9},
	{few: true, many: true, target: .9},
}

// cut returns the pieces with numbers by rows, and cut into slices as the dealing says.
func (d dealing) cut(c *catalog, pieces []int32) (cut []int32) {
	c.scorer.Reset() // times are those of pieces on empty devices
	mean := c.meanTime(pieces)
	order := slices.Clone(c.whole())
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(c.rows(a), c.rows(b)) })
	few, room := map[int]bool{}, fewFilled*fewRows*float64(len(c.all))
	for _, k := range order {
		if room -= float64(c.rows(k)); room < 0 {
			break
		}
		few[c.pieces[k].members[0].table] = true
	}
	for _, k := range pieces {
		table := c.pieces[k].members[0].table
		number, cuts := problem.Operator(0), d.many
		if few[table] {
			number, cuts = 1, d.few
		}
		width, least := c.pieces[k].members[0].width, c.least(table)
		if len(c.pieces[k].members) > 1 {
			cut = append(cut, c.numbered(k, number))
			continue
		}
		n := max(1, int(math.Ceil(c.time(k)/(d.target*mean))), int(math.Ceil(float64(c.bytes(k))/(dealtBytes*float64(c.budget[c.phase])))))
		if cuts {
			n = max(n, (width+dealtWidth-1)/dealtWidth)
		}
		n = min(n, width/max(least, problem.ColumnGranule), len(c.all))
		for _, part := range even(c, k, n) {
			cut = append(cut, c.numbered(part, number))
		}
	}
	return cut
}

// load is the share of a device's mean time, columns and bytes that it holds.
type load struct{ time, columns, bytes float64 }

func (l load) plus(o load) load {
	return load{l.time + o.time, l.columns + o.columns, l.bytes + o.bytes}
}

// fill returns a sum of powers: the largest share decides.
func (l load) fill() float64 {
	return eighth(l.time) + eighth(l.columns) + eighth(l.bytes)
}

// deal deals the pieces to the devices, the largest first, each to the device with room whose fill
// rises least. It returns nil if a piece finds no room.
func deal(c *catalog, pieces []int32) []placed {
	c.scorer.Reset() // times are those of pieces on empty devices
	var all load
	for _, k := range pieces {
		c.time(k)
		p := &c.pieces[k]
		c.register(p)
		all = all.plus(load{p.alone, float64(p.dims), float64(p.own[c.phase])})
	}
	devices := float64(len(c.all))
	loads, fills, used := make([]load, len(c.all)), make([]float64, len(c.all)), make([]int64, len(c.all))
	share := func(k int32) load {
		p := &c.pieces[k]
		return load{p.alone * devices / all.time, float64(p.dims) * devices / all.columns, float64(p.own[c.phase]) * devices / all.bytes}
	}
	order := slices.Clone(pieces)
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := share(a), share(b)
		return cmp.Compare(max(y.time, y.bytes), max(x.time, x.bytes))
	})
	parts := make([]placed, 0, len(order))
	for _, k := range order {
		p, more := &c.pieces[k], share(k)
		best, least := int32(none), math.Inf(1)
		for _, d := range c.allowed(p) {
			if used[d]+p.own[c.phase] > c.budget[c.phase]-c.short[d] {
				continue
			}
			if rise := loads[d].plus(more).fill() - fills[d]; rise < least {
				best, least = d, rise
			}
		}
		if best == none {
			return nil
		}
		loads[best], used[best] = loads[best].plus(more), used[best]+p.own[c.phase]
		fills[best] = loads[best].fill()
		parts = append(parts, placed{k, best})
	}
	return parts
}
