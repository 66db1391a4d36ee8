//go:build !amd64 || noasm

package f32

const fast = false

// These are only called where fast is true.

func kernel(rows, depth int, a *float32, strideRow, strideK int, b, c *float32, ldc int) {
	panic(noTwin)
}

func forward(panels, depth int, a *float32, lda int, b, bias, c *float32, ldc int) { panic(noTwin) }

func back(panels, depth int, a *float32, lda int, b, act, c *float32, ldc int) { panic(noTwin) }

func outer(rows, depth int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int) {
	panic(noTwin)
}

func sumRowsFast(columns, rows int, src []float32, ld int, dst []float32) { panic(noTwin) }

func pickSums(columns int, offsets, picks []int32, src []float32, lds int, dst []float32, ldd int) {
	panic(noTwin)
}

const noTwin = "f32: no assembly in this build"

func axpy(alpha float32, x, y []float32) { axpyGeneric(alpha, x, y) }

func dot(x, y []float32) float32 { return dotGeneric(x, y) }

func add(dst, src []float32) { addGeneric(dst, src) }

func relu(x []float32) { reluGeneric(x) }

func mask(grad, act []float32) { maskGeneric(grad, act) }

func scaleMask(dst []float32, alpha float32, x, act []float32) {
	scaleMaskGeneric(dst, alpha, x, act)
}

func adam(w, grad, m, v []float32, c *AdamStep) { adamGeneric(w, grad, m, v, c) }

func addInts(dst, src []int32) { addIntsGeneric(dst, src) }

func subInts(dst, src []int32) { subIntsGeneric(dst, src) }

func foldedHead(sums, extra []int32, quantum float32, scalars *[3]float32, w *FoldedWeights, out []float32) float32 {
	return foldedHeadGeneric(sums, extra, quantum, scalars, w, out)
}

func rectifiedHead(sums []int32, weights []float32) float32 {
	return rectifiedHeadGeneric(sums, weights)
}

func rectifiedHeads(sums, rows, extra []int32, weights, out []float32) {
	rectifiedHeadsGeneric(sums, rows, extra, weights, out)
}

func runStack(s *Stack) { stackGeneric(s) }

// listStep is only read by the twin.
func listStep(*vector) stackStep { return stackStep{} }

func adagrad(w, grad, state []float32, rate, eps float32) {
	adagradGeneric(w, grad, state, rate, eps)
}

func gather(g *Gather, offsets []int64, dst []float32) { gatherGeneric(g, offsets, dst) }

func prefetch([]float32) {}
