// Package groups remembers what groups of items cost. A search asks for the
// same groups over and over, built in different orders:
//
//	{a b} + c  -->  {a b c}  <--  {c} + b + a
//
// So a group has a Key that does not depend on the order: the sum of random
// numbers that stand for its items. Adding an item is an addition, taking one
// out a subtraction, and a Memo finds what is known of the result in one probe,
// without touching the items.
//
// A Memo can change no result: the caller prices a group that is not known, and
// must price alike however the group came about.
package groups

import "slices"

// Key stands for a multiset of items. It has 128 bits, and a Memo compares 96 of
// them. Two of n groups share these 96 bits by chance with a probability below
// n^2 / 2^97: MSet-Add-Hash of Clarke et al., "Incremental Multiset Hash
// Functions" (2003). The zero Key is the empty group.
type Key struct{ a, b uint64 }

// KeyOf returns the key of the group of one item; the number tells the item
// from others.
func KeyOf(item int) Key {
	x := 2 * uint64(item)
	return Key{mix(x), mix(x + 1)}
}

// Plus returns the key of both groups together.
func (k Key) Plus(l Key) Key { return Key{k.a + l.a, k.b + l.b} }

// Minus returns the key of group k without the items of group l.
func (k Key) Minus(l Key) Key { return Key{k.a - l.a, k.b - l.b} }

// mix spreads a number over 64 bits: an output of SplitMix64 (Steele et al.,
// "Fast splittable pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	z := (x + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Memo keeps a number for each of the groups asked for lately: a table of lines,
// one cache line each, so that a question touches one place in the memory.
//
//	line 0   [ {a b} 3.1 | {c} 0.7   | {b d} 2.0 | -         ]
//	line 1   [ {c d} 1.9 | -         | -         | -         ]
//	line 2   ...           newest first; the fifth pushes the oldest out
//
// It starts small and doubles until it is as large as a processor's cache of the
// second level. Where groups hardly recur, it stops looking for a while: a vain
// question is wasted time. The zero Memo is empty and ready. It serves one
// goroutine.
type Memo struct {
	lines []line
	// added counts the groups put in since the memo grew.
	added int
	// asked and found count since the last judgement; idle is how many questions
	// go by until the next.
	asked, found, idle int
	unused             float32
}

type line [4]slot

// slot is a group by 96 bits of its key, and its number; empty where the key is
// zero.
type slot struct {
	a     uint64
	b     uint32
	value float32
}

const (
	leastLines = 1 << 8
	mostLines  = 1 << 13 // 512 KiB
	// window is how many questions are asked between judgements. If fewer than
	// one in rare is answered, the next rest questions are not looked up.
	window, rare, rest = 1 << 13, 8, 1 << 17
)

// At returns where the number of a group is kept, and whether it is known. If
// it is not, the caller sets it before the next call. The group is not empty.
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

// grow doubles the number of lines. What is in a line goes to one of two.
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
