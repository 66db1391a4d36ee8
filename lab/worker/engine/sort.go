package engine

import "math/bits"

// The backward sorts a shard's lookups by row, each as one number: the row above,
// and below it the bag (in weighted shards the lookup).
//
//	lookups   7/0 3/0 7/1 3/2 5/2        row/bag, bag by bag
//	sorted    3/0 3/2 5/2 7/0 7/1        runs of one row, in the order of the bags
//
// The sort is a radix sort from the lowest digit up. It is stable, so the result
// does not depend on how lookups are divided into segments. It sorts only by the
// digits that the shard's rows have: O(lookups * ceil(bits of rows / digit)).
//
// Shards are sorted one by one; GPUs sort the group as a whole. A shard has fewer
// bits, and usually fits into the cache of one core. A shard that is too large a
// part of the group for one thread is divided into segments, and threads count and
// move their lookups in parallel.

// maxDigit is the most bits of a digit: with more bits, the places that a pass
// writes to do not fit into the first two caches.
const (
	maxDigit = 11
	maxValue = 1<<maxDigit - 1
)

// sorter sorts one shard.
type sorter struct {
	digit, passes int
	// from and to hold the lookups; every pass moves them from one to the other.
	from, to []uint64
	segments []segment
}

// segment is a range of the lookups, counted and moved by one thread at a time.
type segment struct {
	lo, hi int64
	// bag is the first bag that has a lookup in the segment.
	bag int
	// counts has one entry for each value of a digit: first the number of lookups with
	// that value, then the place of the next one. The constant size of the array, and
	// shifts below 64, let the compiler remove bounds checks from the loops.
	counts *[maxValue + 1]uint32
}

// digits chooses the bits of a digit for lookups whose row has the given bits: a
// pass costs the lookups plus its counts.
func digits(lookups int64, rowBits int) (digit, passes int) {
	if rowBits == 0 {
		return 0, 0
	}
	const perLookup = 4 // counting and moving one, in touches of a count
	best := int64(-1)
	for d := 1; d <= maxDigit; d++ {
		n := (rowBits + d - 1) / d
		if cost := int64(n) * (perLookup*lookups + 1<<d); best < 0 || cost < best {
			best, digit, passes = cost, d, n
		}
	}
	return digit, passes
}

func rowBits(rows int64) int { return bits.Len64(uint64(rows - 1)) }

func (s *sorter) shift(pass int) uint { return uint(32 + pass*s.digit) }

func (s *sorter) mask() uint64 { return 1<<s.digit - 1 }

// takeCounts takes the memory of a segment's counts.
func takeCounts(a *Arena) *[maxValue + 1]uint32 {
	return (*[maxValue + 1]uint32)(take[uint32](a, maxValue+1))
}

// count counts the values of a pass' digit in a segment.
func (s *sorter) count(segment, pass int) {
	g := &s.segments[segment]
	counts, shift, mask := g.counts, s.shift(pass), s.mask()
	clear(counts[:mask+1])
	for _, pair := range s.from[g.lo:g.hi] {
		counts[pair>>(shift&63)&mask&maxValue]++
	}
}

// place turns counts into places: smaller values first, and among equal values
// those of earlier segments.
func (s *sorter) place() {
	at := uint32(0)
	for value := range 1 << s.digit {
		for g := range s.segments {
			counts := s.segments[g].counts
			counts[value], at = at, at+counts[value]
		}
	}
}

// move moves a segment's lookups to their places.
func (s *sorter) move(segment, pass int) {
	g := &s.segments[segment]
	counts, shift, mask, to := g.counts, s.shift(pass), s.mask(), s.to
	for _, pair := range s.from[g.lo:g.hi] {
		place := &counts[pair>>(shift&63)&mask&maxValue]
		to[*place] = pair
		*place++
	}
}

// swap ends a pass by exchanging from and to.
func (s *sorter) swap() { s.from, s.to = s.to, s.from }

// sort runs all passes on one thread; there is one segment.
func (s *sorter) sort() {
	for pass := range s.passes {
		s.count(0, pass)
		s.place()
		s.move(0, pass)
		s.swap()
	}
}
