package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// First fit takes the pieces by falling bytes and puts each on the first device with
// room, which leaves few gaps. It costs O(P log D) for P pieces on D devices: firstFit keeps a tree of the
// most room left.

// forced returns the pieces after forced splits. If halving a table does not lead to
// slices that are narrow enough, because MinWidth stops it, the table is cut into even
// slices. failed is the piece that lacks most bytes at its narrowest, or none if all
// fit a device.
func forced(c *catalog) (pieces []int32, failed int32) {
	large := func(k int32) bool { return c.pieces[k].bytes > c.budget }
	whole := c.whole()
	pieces = c.above(whole, c.budget)
	if slices.ContainsFunc(pieces, large) {
		pieces = pieces[:0]
		for _, k := range whole {
			halves := c.above([]int32{k}, c.budget)
			if slices.ContainsFunc(halves, large) {
				if n := fewestSlices(c, k); n > 0 {
					halves = even(c, k, n)
				}
			}
			pieces = append(pieces, halves...)
		}
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

// even returns n slices of an unsplit piece whose widths differ by at most one granule.
func even(c *catalog, k int32, n int) []int32 {
	pieces := make([]int32, n)
	for i := range pieces {
		pieces[i] = c.slice(k, (c.pieces[k].members[0].width/problem.ColumnGranule+i)/n*problem.ColumnGranule)
	}
	return pieces
}

// firstFit places the pieces by falling bytes, each on the first allowed device with
// room. If that fails, it tries once more with the most constrained pieces first. It
// returns the device of each piece and none, or the index of the first piece that found
// no room in the first attempt.
func firstFit(c *catalog, pieces []int32) (devices []int32, failed int32) {
	order := make([]entry, len(pieces))
	constrained := false
	for i, k := range pieces {
		order[i] = c.entry(k, int32(i))
		constrained = constrained || c.pieces[k].devices != nil || staysOnHost(c, &c.pieces[k])
	}
	slices.SortFunc(order, c.largestFirst)
	devices, failed = fitInOrder(c, order)
	if failed != none && constrained {
		slices.SortStableFunc(order, func(a, b entry) int {
			return cmp.Compare(reach(c, a.piece), reach(c, b.piece))
		})
		if second, f := fitInOrder(c, order); f == none {
			return second, none
		}
	}
	return devices, failed
}

// reach returns the number of devices that a piece may lie on. For a slice whose table must stay on
// one host, that is at most the number of devices of a host.
func reach(c *catalog, k int32) int {
	n := len(c.allowed(&c.pieces[k]))
	if staysOnHost(c, &c.pieces[k]) {
		n = min(n, c.devicesOf(oneHost))
	}
	return n
}

// fitInOrder is first fit over the pieces in the given order. It stops at the first
// piece without a device and returns the index of that piece.
func fitInOrder(c *catalog, order []entry) (devices []int32, failed int32) {
	devices = make([]int32, len(order))
	for i := range devices {
		devices[i] = none
	}
	// Without constraints, first fit uses no more equal devices than there are pieces.
	usable := len(order)
	if c.problem.Topology.Uneven() || c.onHost != nil {
		usable = len(c.all)
	}
	for _, p := range order {
		if d := c.pieces[p.piece].devices; d != nil {
			usable = max(usable, len(order)+int(d[len(d)-1])+1)
		}
	}
	free := newRoom(c, min(usable, len(c.all)))
	held, scratch := newHolders(c), make([]int32, 0, len(c.all))
	for _, p := range order {
		k := &c.pieces[p.piece]
		d := none
		if k.devices == nil && !p.bound {
			d = free.first(k.bytes)
		} else {
			open := held.open(k, c.allowed(k), scratch, free.of)
			if i := slices.IndexFunc(open, func(d int32) bool { return free.has(d, k.bytes) }); i >= 0 {
				d = int(open[i])
			}
		}
		if d == none {
			return devices, p.index
		}
		held.put(k, int32(d))
		free.take(d, k.bytes)
		devices[p.index] = int32(d)
	}
	return devices, none
}

// room is a tournament tree of the bytes free on each device. The devices are its
// leaves; node i holds the larger value of nodes 2i and 2i+1.
type room struct {
	tree   []int64
	leaves int
}

// newRoom returns the first devices, empty.
func newRoom(c *catalog, devices int) *room {
	leaves := 1
	for leaves < devices {
		leaves *= 2
	}
	r := &room{make([]int64, 2*leaves), leaves}
	for i := range r.tree {
		r.tree[i] = math.MinInt64
	}
	for d := range devices {
		for i := leaves + d; i > 0; i /= 2 {
			r.tree[i] = max(r.tree[i], c.free(int32(d)))
		}
	}
	return r
}

// has reports whether a device, which may be beyond the tree, has that many bytes free.
func (r *room) has(device int32, bytes int64) bool {
	return int(device) < r.leaves && r.tree[r.leaves+int(device)] >= bytes
}

// of returns the bytes that a device has free; none if the device is beyond the tree.
func (r *room) of(device int32) int64 {
	if int(device) >= r.leaves {
		return 0
	}
	return max(0, r.tree[r.leaves+int(device)])
}

// first returns the first device with that many bytes free, or none.
func (r *room) first(bytes int64) int {
	if r.tree[1] < bytes {
		return none
	}
	i := 1
	for i < r.leaves {
		i *= 2
		if r.tree[i] < bytes {
			i++
		}
	}
	return i - r.leaves
}

func (r *room) take(device int, bytes int64) {
	i := r.leaves + device
	r.tree[i] -= bytes
	for i /= 2; i > 0; i /= 2 {
		r.tree[i] = max(r.tree[2*i], r.tree[2*i+1])
	}
}
