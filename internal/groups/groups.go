// Package groups remembers what groups of items cost. A search asks for the
// same groups again and again, built in different orders:
//
//	{a b} + c  -->  {a b c}  <--  {c} + b + a
//
// So a group has a Key that does not depend on the order: each item has a random
// number, and the Key is the sum of the numbers of the group's items. An addition
// adds an item, a subtraction removes one, and a Memo looks up the cost of the
// resulting group in one step, without reading the items.
//
// A Memo never changes a result: the caller computes the cost of a group that is
// not known. The cost of a group must not depend on the order in which the group
// was built.
package groups

import (
	"slices"
)

// Key stands for a multiset of items. It has 128 bits, and a Memo compares 96 of
// them. Two of n groups share these 96 bits by chance with a probability below
// n^2 / 2^97: MSet-Add-Hash of Clarke et al., "Incremental Multiset Hash
// Functions" (2003). The zero Key is the empty group.
type Key struct{ a, b uint64 }

// KeyOf returns the key of the group of one item. Different items have different
// numbers.
func KeyOf(item int) Key {
	x := 2 * uint64(item)
	return Key{mix(x), mix(x + 1)}
}

// Plus returns the key of both groups together.
func (k Key) Plus(l Key) Key { return Key{k.a + l.a, k.b + l.b} }

// Minus returns the key of group k without the items of group l.
func (k Key) Minus(l Key) Key { return Key{k.a - l.a, k.b - l.b} }

// Factor returns the factor of part i of a whole: see Times. Different parts have different
// factors.
func Factor(i int) Key {
	k := KeyOf(-1 - i)
	return Key{k.a | 1, k.b | 1}
}

// Times returns the key of group k as one part of a whole. The sum of the keys of all parts, each
// with the Factor of its part, is a key of the whole.
func (k Key) Times(factor Key) Key { return Key{k.a * factor.a, k.b * factor.b} }

// mix spreads a number over 64 bits: an output of SplitMix64 (Steele et al.,
// "Fast splittable pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	z := (x + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Memo keeps a number for each of the groups that were asked for recently. It is a
// table of lines. A line is one cache line, so a lookup reads one place in memory.
//
//	line 0   [ {a b} 3.1 | {c} 0.7   | {b d} 2.0 | -         ]
//	line 1   [ {c d} 1.9 | -         | -         | -         ]
//	line 2   ...           newest first; the fifth pushes the oldest out
//
// It starts small and doubles until it is as large as a processor's second-level
// cache. If few groups occur again, lookups waste time, so the Memo skips a number
// of them. The zero Memo is empty and ready to use. Only one goroutine may use it.
type Memo struct {
	lines []line
	// added counts the groups put in since the memo grew.
	added int
	// asked and found count the lookups, and those that found a group, since the last
	// call of judge. idle is the number of lookups that are still skipped.
	asked, found, idle int
	unused             float32
}

type line [4]slot

// slot is 96 bits of a group's key, and the group's number. A slot whose key is zero
// is empty.
type slot struct {
	a     uint64
	b     uint32
	value float32
}

const (
	leastLines = 1 << 8
	mostLines  = 1 << 13 // 512 KiB
	// judge is called after each window lookups. If fewer than one in rare of them
	// found a group, the next rest lookups are skipped.
	window, rare, rest = 1 << 13, 8, 1 << 17
)

// At returns the place of a group's number, and whether the number is known. If it
// is not known, the caller sets it before the next call. The group must not be
// empty.
func (m *Memo) At(k Key) (value *float32, known bool) {
	if m.idle > 0 {
		m.idle--
		return &m.unused, false
	}
	if m.asked == window {
		m.judge()
	}
	if 2*m.added >= len(line{})*len(m.lines) && len(m.lines) < mostLines {
		m.grow()
	}
	m.asked++
	l := &m.lines[k.a&uint64(len(m.lines)-1)]
	for i := range l {
		if s := &l[i]; s.a == k.a && s.b == uint32(k.b) {
			m.found++
			return &s.value, true
		}
	}
	m.added++
	copy(l[1:], l[:])
	l[0] = slot{a: k.a, b: uint32(k.b)}
	return &l[0].value, false
}

func (m *Memo) judge() {
	if m.found < window/rare {
		m.idle = rest
	}
	m.asked, m.found = 0, 0
}

// grow doubles the number of lines. The groups of an old line go to two new lines.
func (m *Memo) grow() {
	old := m.lines
	m.lines = make([]line, max(leastLines, 2*len(old)))
	m.added = 0
	for i := range old {
		for _, s := range slices.Backward(old[i][:]) {
			if s != (slot{}) {
				l := &m.lines[s.a&uint64(len(m.lines)-1)]
				copy(l[1:], l[:])
				l[0] = s
			}
		}
	}
}
