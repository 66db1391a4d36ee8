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
	large := func(k int32) bool { return c.pieces[k].bytes > c.budget }
	for _, k := range c.whole() {
		halves := c.above([]int32{k}, c.budget)
		if slices.ContainsFunc(halves, large) {
			if n := fewestSlices(c, k); n > 0 {
				halves = even(c, k, n)
			}
		}
		pieces = append(pieces, halves...)
	}
	failed = none
	for _, k := range pieces {
		if large(k) && (failed == none || c.pieces[k].bytes > c.pieces[failed].bytes) {
			failed = k
		}
	}
	return pieces, failed
}

// fewestSlices returns the smallest number of slices into which an unsplit piece must be cut so that
// each slice fits a device, or 0 if even the narrowest slices do not fit.
func fewestSlices(c *catalog, k int32) int {
	least := 0
	for _, v := range variantsIn(c, &forms{}, k, problem.Form{}) {
		n := int(v.slices)
		if c.rules.EqualSlices {
			n = int(v.width)
		}
		if v.slices > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
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
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(c.pieces[pieces[b]].bytes, c.pieces[pieces[a]].bytes) })
	return placeInOrder(c, pieces, order, func(_ int32, _ []int64, room []int32) int32 { return room[0] })
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
// devices with room, or none; used are the bytes of each device. It returns the device of each piece by index, and
// stops at the first piece without a device: failed is its index, or none.
func placeInOrder(c *catalog, pieces, order []int32, choose func(index int32, used []int64, room []int32) int32) (devices []int32, failed int32) {
	devices = slices.Repeat([]int32{none}, len(pieces))
	used := slices.Clone(c.short)
	free := func(d int32) int64 { return c.budget - used[d] }
	held, room := newHolders(c, c.rules.OneSlice), make([]int32, 0, len(c.all))
	for _, i := range order {
		k := &c.pieces[pieces[i]]
		open := c.allowed(k)
		if held.needed() {
			open = held.open(k, open, room, free)
		}
		room = room[:0]
		for _, d := range open {
			if used[d]+k.bytes <= c.budget {
				room = append(room, d)
			}
		}
		d := int32(none)
		if len(room) > 0 {
			d = choose(i, used, room)
		}
		if d == none {
			return devices, i
		}
		devices[i] = d
		used[d] += k.bytes
		held.put(k, d)
	}
	return devices, none
}

// lighter reports whether device a has less load than b, or the same load and fewer bytes.
func lighter(load []float64, used []int64, a, b int32) bool {
	return load[a] < load[b] || load[a] == load[b] && used[a] < used[b]
}
