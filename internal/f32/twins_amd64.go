//go:build amd64 && !noasm

package f32

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// fast says that this processor, and the operating system, can run the
// assembly twins.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// kernel adds rows rows of A (1, 2, 4 or 6, depth elements each) times a packed panel
// to 16 columns of C.
func kernel(rows, depth int, a *float32, strideRow, strideK int, b, c *float32, ldc int) {
	switch rows {
	case 6:
		kernel6(depth, a, strideRow, strideK, b, c, ldc)
	case 4:
		kernel4(depth, a, strideRow, strideK, b, c, ldc)
	case 2:
		kernel2(depth, a, strideRow, strideK, b, c, ldc)
	default:
		kernel1(depth, a, strideRow, strideK, b, c, ldc)
	}
}

// outer adds the product of 1, 4 or 6 columns of A and of 16 of B, depth elements each, to C.
func outer(rows, depth int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int) {
	switch rows {
	case 6:
		outer6(depth, a, lda, b, ldb, c, ldc)
	case 4:
		outer4(depth, a, lda, b, ldb, c, ldc)
	default:
		outer1(depth, a, lda, b, ldb, c, ldc)
	}
}

func sumRowsFast(columns, rows int, src []float32, ld int, dst []float32) {
	if columns == 32 {
		sumRows32(rows, &src[0], ld, &dst[0])
	} else {
		sumRows16(rows, &src[0], ld, &dst[0])
	}
}

func pickSums(columns int, offsets, picks []int32, src []float32, lds int, dst []float32, ldd int) {
	if columns == 32 {
		sumPicked32(len(offsets)-1, &offsets[0], &picks[0], &src[0], lds, &dst[0], ldd)
	} else {
		sumPicked16(len(offsets)-1, &offsets[0], &picks[0], &src[0], lds, &dst[0], ldd)
	}
}

func axpy(alpha float32, x, y []float32) {
	if fast {
		axpyAVX2(alpha, x, y)
		return
	}
	axpyGeneric(alpha, x, y)
}

func dot(x, y []float32) float32 {
	if fast {
		return dotAVX2(x, y)
	}
	return dotGeneric(x, y)
}

func add(dst, src []float32) {
	if fast {
		addAVX2(dst, src)
		return
	}
	addGeneric(dst, src)
}

func relu(x []float32) {
	if fast {
		reluAVX2(x)
		return
	}
	reluGeneric(x)
}

func mask(grad, act []float32) {
	if fast {
		maskAVX2(grad, act)
		return
	}
	maskGeneric(grad, act)
}

func scaleMask(dst []float32, alpha float32, x, act []float32) {
	if fast {
		scaleMaskAVX2(dst, alpha, x, act)
		return
	}
	scaleMaskGeneric(dst, alpha, x, act)
}

func adam(w, grad, m, v []float32, c *AdamStep) {
	if fast {
		adamAVX2(w, grad, m, v, (*[7]float32)(unsafe.Pointer(c)))
		return
	}
	adamGeneric(w, grad, m, v, c)
}

func addInts(dst, src []int32) {
	if fast {
		addIntsAVX2(dst, src)
		return
	}
	addIntsGeneric(dst, src)
}

func subInts(dst, src []int32) {
	if fast {
		subIntsAVX2(dst, src)
		return
	}
	subIntsGeneric(dst, src)
}

func foldedHead(sums, extra []int32, quantum float32, scalars *[3]float32, w *FoldedWeights, out []float32) float32 {
	if fast {
		return foldedHeadAVX2(sums, extra, quantum, scalars, &w.Scalars[0][0], &w.Scalars[1][0], &w.Scalars[2][0], &out[0])
	}
	return foldedHeadGeneric(sums, extra, quantum, scalars, w, out)
}

func rectifiedHead(sums []int32, weights []float32) float32 {
	if fast {
		return rectifiedHeadAVX2(sums, &weights[0])
	}
	return rectifiedHeadGeneric(sums, weights)
}

func rectifiedHeads(sums, rows, extra []int32, weights, out []float32) {
	if !fast {
		rectifiedHeadsGeneric(sums, rows, extra, weights, out)
		return
	}
	if len(rows) > 0 {
		rectifiedHeadsAVX2(&sums[0], rows, &extra[0], len(extra), &weights[0], &out[0])
	}
}

func runStack(s *Stack) {
	if !fast {
		stackGeneric(s)
		return
	}
	stackAVX2((*[8]uint64)(unsafe.Pointer(&s.steps[0])), len(s.steps))
}

// listStep lists the elements of a long vector.
func listStep(v *vector) stackStep {
	return stackStep{
		kernel: 8, count: &v.count, list: &v.list[0], x: &v.values[0], n: int32(v.n),
		weights: (*float32)(unsafe.Pointer(&activeLanes[0])),
	}
}

func adagrad(w, grad, state []float32, rate, eps float32) {
	if fast {
		adagradAVX2(w, grad, state, rate, eps)
		return
	}
	adagradGeneric(w, grad, state, rate, eps)
}
