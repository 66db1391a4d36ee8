package search

import (
	"math"
	"slices"
)

// Ranks find, among hundreds of devices, the lightest device of each width class that
// has room for a piece. A class is a list in order of load, cut into blocks:
//
//	class 5   [ d3 d17 d8 .. ] [ d4 d9 .. ] [ .. ]
//	           bytes >= 3 GiB   bytes >= 5 GiB      each block knows the least
//	           dims  >= 384     dims  >= 256        that its devices hold
//
// A device is put in or taken out by two binary searches and a short move: O(log
// D + blockSize). The search for room passes a block whose devices all hold too
// much without looking at them. (A heap would lose: devices without room for one
// piece would have to be put back for the next.)

// blockSize is the most devices of a block.
const blockSize = 64

// classes is the number of width classes: empty, and up to 2^i columns.
const classes = 16

// holding is what a device of a worker holds: the predicted compute, the bytes, the dim
// sum and the width class.
type holding struct {
	load       float64
	used, dims int64
	class      uint8
}

// deviceOrder keeps all devices in order of load, each in its width class.
type deviceOrder struct {
	classes [classes]ranking
	spare   []*block
	sorted  [classes][]ranked // scratch
}

// ranking is the list of blocks of one class. No block is empty.
type ranking []*block

type block struct {
	n int
	// used and dims are lower limits of the bytes and the dim sum of every device in the
	// block.
	used, dims int64
	devices    [blockSize]ranked
}

// ranked is a device and what it held when it was inserted.
type ranked struct {
	load       float64
	used, dims int64
	device     int32
}

// before orders devices by their cost so far, then by bytes, then by number.
func (a *ranked) before(b *ranked) bool {
	if a.load != b.load {
		return a.load < b.load
	}
	return a.used < b.used || a.used == b.used && a.device < b.device
}

// fill replaces the contents by the given devices, in O(D log D).
func (r *deviceOrder) fill(devices []holding) {
	for c := range r.sorted {
		r.sorted[c] = r.sorted[c][:0]
	}
	for d, h := range devices {
		r.sorted[h.class] = append(r.sorted[h.class], ranked{h.load, h.used, h.dims, int32(d)})
	}
	for c, members := range r.sorted {
		r.spare = append(r.spare, r.classes[c]...)
		r.classes[c] = r.classes[c][:0]
		slices.SortFunc(members, func(a, b ranked) int {
			if a.before(&b) {
				return -1
			}
			return 1
		})
		for placed := range slices.Chunk(members, blockSize/2) {
			b := r.block()
			b.n = copy(b.devices[:], placed)
			b.tighten()
			r.classes[c] = append(r.classes[c], b)
		}
	}
}

// block returns an empty block.
func (r *deviceOrder) block() *block {
	if n := len(r.spare); n > 0 {
		b := r.spare[n-1]
		r.spare = r.spare[:n-1]
		b.n = 0
		return b
	}
	return new(block)
}

// first returns the lightest device of the class that holds at most the given bytes and
// columns, or none, and the number of lighter devices that hold more than that.
func (r *deviceOrder) first(class int, used, dims int64) (device int32, passed int) {
	for _, b := range r.classes[class] {
		if b.used <= used && b.dims <= dims {
			for i := range b.devices[:b.n] {
				if d := &b.devices[i]; d.used <= used && d.dims <= dims {
					return d.device, passed + i
				}
			}
			b.tighten()
		}
		passed += b.n
	}
	return none, passed
}

// insert inserts device d, which holds h.
func (r *deviceOrder) insert(d int32, h holding) {
	e := ranked{h.load, h.used, h.dims, d}
	class := &r.classes[h.class]
	if len(*class) == 0 {
		b := r.block()
		b.devices[0], b.n = e, 1
		b.tighten()
		*class = append(*class, b)
		return
	}
	at := min(class.find(&e), len(*class)-1)
	b := (*class)[at]
	if b.n == blockSize {
		upper := r.block()
		upper.n = copy(upper.devices[:], b.devices[blockSize/2:])
		upper.used, upper.dims = b.used, b.dims
		b.n = blockSize / 2
		*class = slices.Insert(*class, at+1, upper)
		if b.devices[b.n-1].before(&e) {
			b = upper
		}
	}
	i := b.find(&e)
	copy(b.devices[i+1:b.n+1], b.devices[i:b.n])
	b.devices[i] = e
	b.n++
	b.used, b.dims = min(b.used, e.used), min(b.dims, e.dims)
}

// remove removes device d, which was inserted with h.
func (r *deviceOrder) remove(d int32, h holding) {
	e := ranked{h.load, h.used, h.dims, d}
	class := &r.classes[h.class]
	at := class.find(&e)
	b := (*class)[at]
	i := b.find(&e)
	copy(b.devices[i:], b.devices[i+1:b.n])
	if b.n--; b.n == 0 {
		r.spare = append(r.spare, b)
		*class = slices.Delete(*class, at, at+1)
	}
}

// find returns the index of the first block whose last device is e or comes after e.
func (r ranking) find(e *ranked) int {
	low, high := 0, len(r)
	for low < high {
		middle := (low + high) / 2
		if b := r[middle]; b.devices[b.n-1].before(e) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// find returns the index of the first device that is e or comes after e.
func (b *block) find(e *ranked) int {
	low, high := 0, b.n
	for low < high {
		middle := (low + high) / 2
		if b.devices[middle].before(e) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// tighten sets used and dims to the least bytes and the least dim sum of the block's
// devices.
func (b *block) tighten() {
	b.used, b.dims = math.MaxInt64, math.MaxInt64
	for i := range b.devices[:b.n] {
		b.used, b.dims = min(b.used, b.devices[i].used), min(b.dims, b.devices[i].dims)
	}
}
