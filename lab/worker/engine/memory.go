package engine

import (
	"unsafe"

	"github.com/neuroshard/neuroshard/unit"
)

// cacheLine is the alignment of buffers, in bytes.
const cacheLine = 64

// Arena is memory that is reused: ops take their buffers from it, and Reset takes
// all of them back at once. A caller that times thousands of groups therefore uses
// the same pages again, and the system does not clear new ones.
//
// Large arenas ask the system for huge pages; with normal pages, each random row
// costs a page walk. So tables that are looked up should be in an arena too
// (Floats).
//
// The zero value is an empty arena. Only one goroutine at a time may use an arena.
type Arena struct {
	slabs [][]uint64
	used  int // bytes of the last slab
	held  int64
}

// NewArena returns an arena that holds size bytes from the start. It grows if that
// is not enough.
func NewArena(size unit.Bytes) *Arena {
	a := new(Arena)
	if size > 0 {
		a.grow(int64(size))
	}
	return a
}

// Floats takes n numbers from the arena. Their values are undefined: they may be
// those of an earlier user.
func (a *Arena) Floats(n int64) []float32 { return take[float32](a, n) }

// Bytes returns the size of the arena's memory, used or not.
func (a *Arena) Bytes() unit.Bytes { return unit.Bytes(a.held) }

// Reset takes all memory back. Ops made from the arena, and slices taken from it,
// must not be used after it. If the arena has grown, Reset makes it one piece, so
// that the next users of the same size fit without growing it.
func (a *Arena) Reset() {
	if len(a.slabs) > 1 {
		size := a.held
		a.slabs, a.held = nil, 0
		a.grow(size)
	}
	a.used = 0
}

// grow adds a slab of at least size bytes.
func (a *Arena) grow(size int64) {
	words := (size + cacheLine + 7) / 8
	slab := make([]uint64, words)
	advise(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(slab))), 8*len(slab)))
	a.slabs = append(a.slabs, slab)
	a.held += 8 * words
	a.used = 0
}

// number is the element type of buffers: a type without pointers, which the garbage
// collector need not scan.
type number interface {
	~float32 | ~uint32 | ~int32 | ~uint64 | ~int64
}

// take returns n numbers of the arena, aligned to a cache line.
func take[T number](a *Arena, n int64) []T {
	if n == 0 {
		return nil
	}
	var one T
	size := n * int64(unsafe.Sizeof(one))
	size = (size + cacheLine - 1) / cacheLine * cacheLine
	at, ok := a.room(size)
	if !ok {
		// Doubling keeps the number of slabs small, and with it the unused rests of
		// slabs.
		a.grow(max(size, a.held))
		at, _ = a.room(size)
	}
	a.used = at + int(size)
	last := a.slabs[len(a.slabs)-1]
	return unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(last)), at)), n)
}

// room returns where size bytes begin in the last slab, if it has space for them.
func (a *Arena) room(size int64) (at int, ok bool) {
	if len(a.slabs) == 0 {
		return 0, false
	}
	last := a.slabs[len(a.slabs)-1]
	base := uintptr(unsafe.Pointer(unsafe.SliceData(last)))
	at = a.used + int(-(base+uintptr(a.used))&(cacheLine-1))
	return at, int64(at)+size <= 8*int64(len(last))
}
