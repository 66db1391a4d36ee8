package f32

import "unsafe"

// Gather sums rows of a table that is far larger than the caches. The processor's
// own prefetcher cannot predict the rows, so Gather prefetches the rows of later
// picks while it sums earlier ones.
//
// Gather does not check the picks: the caller must make sure that every picked row
// is in the table. A check here would read all picks once more in every call.
type Gather struct {
	// Table is row-major, of rows of Dim columns: Dim is a multiple of 4.
	Table []float32
	Dim   int
	// Picks name the rows: those bits of a pick that are set in Mask. Rows of picks
	// after the lists are asked for too, as other lists will come to them. Weights,
	// where not nil, has one factor for each pick.
	Picks   []uint64
	Mask    uint64
	Weights []float32
	// Ahead is the number of picks by which rows are prefetched early; 0 means about
	// 8 KiB of rows.
	Ahead int
}

// aheadBytes is the bytes of rows that are prefetched early. Fewer bytes
// make the sums wait for memory, and more gain nothing.
const aheadBytes = 8192

// Sum sets row r of dst, of Dim columns, to the sum of the rows picked by
// Picks[offsets[r]:offsets[r+1]], in their order, each times its weight where there
// are weights. Offsets rise. Wrong lengths panic.
func (g *Gather) Sum(offsets []int64, dst []float32) {
	lists := len(offsets) - 1
	if lists <= 0 {
		return
	}
	if g.Dim <= 0 || g.Dim%4 != 0 {
		panic("f32: Gather: the dim is not a multiple of 4")
	}
	same("Gather: dst", len(dst), lists*g.Dim)
	if g.Weights != nil {
		same("Gather: weights", len(g.Weights), len(g.Picks))
	}
	if offsets[0] < 0 || offsets[lists] > int64(len(g.Picks)) {
		panic("f32: Gather: the lists do not lie in the picks")
	}
	if offsets[0] == offsets[lists] {
		clear(dst)
		return
	}
	gather(g, offsets, dst)
}

// Rows is row numbers as picks; Mask is then all ones.
func Rows(rows []int64) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(rows))), len(rows))
}

// Prefetch loads the memory of x, which is needed soon, into the cache, without
// waiting for it. In plain builds it does nothing.
func Prefetch(x []float32) { prefetch(x) }

// Adagrad adds the squares of the gradient to state, and moves the weights w
// against it:
//
//	state = state + grad grad;  w = w - rate grad / (sqrt(state) + eps)
//
// The lengths must match.
func Adagrad(w, grad, state []float32, rate, eps float32) {
	same("Adagrad", len(w), len(grad))
	same("Adagrad", len(w), len(state))
	adagrad(w, grad, state, rate, eps)
}
