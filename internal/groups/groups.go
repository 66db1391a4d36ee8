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

// Key stands for a multiset of items, 128 bits. Two of n groups share one by
// chance with a probability below n^2 / 2^129: MSet-Add-Hash of Clarke et al.,
// "Incremental Multiset Hash Functions" (2003). The zero Key is the empty group.
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

// Memo keeps a number for each group, up to a limit; beyond that it starts
// afresh. Where groups hardly recur, as with a thousand devices, it stops
// looking for a while: a vain search of a large table costs as much as a price.
// The zero Memo is empty and ready. It serves one goroutine.
type Memo struct {
	slots []slot
	count int
	// asked and found count since the last judgement; idle is how many questions
	// go by until the next.
	asked, found, idle int
	unused             float64
}

// slot is a group and its number, empty where the key is zero.
type slot struct {
	key   Key
	value float64
}

const (
	leastSlots = 1 << 10
	mostSlots  = 1 << 17 // 3 MiB
	// window is how many questions are asked between judgements. If fewer than
	// one in rare is answered, the next rest questions are not looked up.
	window, rare, rest = 1 << 13, 8, 1 << 17
)

// At returns where the number of a group is kept, and whether it is known. If
// it is not, the caller sets it before the next call.
func (m *Memo) At(k Key) (value *float64, known bool) {
	if m.idle > 0 {
		m.idle--
		return &m.unused, false
	}
	if m.asked == window {
		m.judge()
	}
	if m.count >= len(m.slots)/4*3 {
		m.grow()
	}
	m.asked++
	s := m.find(k)
	if s.key == k {
		m.found++
		return &s.value, true
	}
	s.key = k
	m.count++
	return &s.value, false
}

func (m *Memo) judge() {
	if m.found < window/rare {
		m.idle = rest
	}
	m.asked, m.found = 0, 0
}

// find returns the slot of the key, or the empty one where it belongs.
func (m *Memo) find(k Key) *slot {
	mask := uint64(len(m.slots) - 1)
	for i := k.a; ; i++ {
		if s := &m.slots[i&mask]; s.key == k || s.key == (Key{}) {
			return s
		}
	}
}

// grow makes room: twice the slots, or the same, emptied.
func (m *Memo) grow() {
	if len(m.slots) == mostSlots {
		clear(m.slots)
		m.count = 0
		return
	}
	old := m.slots
	m.slots = make([]slot, max(leastSlots, 2*len(old)))
	for _, s := range old {
		if s.key != (Key{}) {
			*m.find(s.key) = s
		}
	}
}
