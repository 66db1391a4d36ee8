package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// First fit takes the pieces by falling bytes and puts each on the first device with
// room, which leaves few gaps. It costs O(P D) for P pieces on D devices.

// forced returns the pieces after forced splits. If halving a table does not lead to
// slices that are narrow enough, because MinWidth stops it, the table is cut into even
// slices. failed is the piece that lacks most bytes at its narrowest, or none if all
// fit a device.
func forced(c *catalog) (pieces []int32, failed int32) {
	for _, k := range c.whole() {
		halves := c.halved([]int32{k}, c.exceeds)
		if slices.ContainsFunc(halves, c.exceeds) {
			if slices := fewest(c, k); slices != nil {
				halves = slices
			}
		}
		pieces = append(pieces, halves...)
	}
	failed = none
	for _, k := range pieces {
		if c.exceeds(k) && (failed == none || c.bytes(k) > c.bytes(failed)) {
			failed = k
		}
	}
	return pieces, failed
}

// fewest returns the fewest even slices of an unsplit piece that fit a device each; nil if even the narrowest slices
// do not fit.
func fewest(c *catalog, k int32) []int32 {
	m := c.pieces[k].members[0]
	if len(c.pieces[k].members) > 1 || c.problem.Tables[m.table].Constraint.NoSplit {
		return nil
	}
	for n := 2; n*c.least(m.table) <= m.width; n++ {
		if c.rules.EqualSlices && (m.width%n != 0 || !slices.Contains(c.equalWidths[m.table], m.width/n)) {
			continue
		}
		if parts := even(c, k, n); !slices.ContainsFunc(parts, c.exceeds) {
			return parts
		}
	}
	return nil
}

// even returns n slices of a piece whose widths differ by at most one granule, the narrowest first.
func even(c *catalog, k int32, n int) []int32 {
	pieces := make([]int32, n)
	for i := range pieces {
		pieces[i] = c.slice(k, (c.pieces[k].members[0].width/problem.ColumnGranule+i)/n*problem.ColumnGranule)
	}
	return pieces
}

// firstFit places the pieces by falling bytes, each on the first allowed device with room. It returns the device of each
// piece and none, or the index of the first piece that found no room.
func firstFit(c *catalog, pieces []int32) (devices []int32, failed int32) {
	order := inOrder(len(pieces))
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(c.bytes(pieces[b]), c.bytes(pieces[a])) })
	return placeInOrder(c, pieces, order, func(_ int32, _ *ledger, room []int32) int32 { return room[0] })
}

// inOrder returns the numbers from 0 to n-1.
func inOrder(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}

// placeInOrder places the pieces in the given order. choose picks the device of a piece, given by its index, from the
// devices with room, or none; l has the bytes of each. It returns the device of each piece by index, and
// stops at the first piece without a device: failed is its index, or none.
func placeInOrder(c *catalog, pieces, order []int32, choose func(index int32, l *ledger, room []int32) int32) (devices []int32, failed int32) {
	devices = slices.Repeat([]int32{none}, len(pieces))
	l := newLedger(c)
	free := func(d int32) (left perPhase) {
		for f := range left {
			left[f] = l.free(d, f)
		}
		return left
	}
	held, room := newHolders(c, c.rules.OneSlice), make([]int32, 0, len(c.all))
	for _, i := range order {
		k := &c.pieces[pieces[i]]
		open := c.allowed(k)
		if held.needed() {
			open = held.open(k, open, room, free)
		}
		room = room[:0]
		for _, d := range open {
			if l.beyond(d, &k.own) <= 0 {
				room = append(room, d)
			}
		}
		d := int32(none)
		if len(room) > 0 {
			d = choose(i, &l, room)
		}
		if d == none {
			return devices, i
		}
		devices[i] = d
		l.count(k, d, 1)
		held.put(k, d)
	}
	return devices, none
}

// lighter reports whether device a has less load than b, or the same load and fewer bytes in the catalog's phase.
func (c *catalog) lighter(load []float64, l *ledger, a, b int32) bool {
	return load[a] < load[b] || load[a] == load[b] && l.own[a][c.phase] < l.own[b][c.phase]
}
