package f32

import "math"

// generic.go holds the plain loops, which define the results of all kernels. The
// conversions float32(x*y) keep the compiler from fusing a product into a sum, so
// that element-wise kernels give the same bytes on every processor.

// gemmGeneric adds op(A) op(B) to C, where op transposes if asked.
func gemmGeneric(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	for i := range m {
		for p := range k {
			x := at(a, lda, transA, i, p)
			for j := range n {
				c[i*ldc+j] += float32(x * at(b, ldb, transB, p, j))
			}
		}
	}
}

// at is element (i, j) of a matrix, or of its transpose.
func at(a []float32, ld int, trans bool, i, j int) float32 {
	if trans {
		i, j = j, i
	}
	return a[i*ld+j]
}

func axpyGeneric(alpha float32, x, y []float32) {
	for i, v := range x {
		y[i] += float32(alpha * v)
	}
}

func dotGeneric(x, y []float32) float32 {
	var sum float32
	for i, v := range x {
		sum += float32(v * y[i])
	}
	return sum
}

func addGeneric(dst, src []float32) {
	for i, v := range src {
		dst[i] += v
	}
}

func reluGeneric(x []float32) {
	for i, v := range x {
		if v < 0 {
			x[i] = 0
		}
	}
}

func maskGeneric(grad, act []float32) {
	for i, v := range act {
		if !(v > 0) {
			grad[i] = 0
		}
	}
}

func scaleMaskGeneric(dst []float32, alpha float32, x, act []float32) {
	for i, v := range act {
		dst[i] = 0
		if v > 0 {
			dst[i] = float32(alpha * x[i])
		}
	}
}

func adamGeneric(w, grad, m, v []float32, c *AdamStep) {
	for i, g := range grad {
		m[i] = float32(c.Beta1*m[i]) + float32(c.Rest1*g)
		v[i] = float32(c.Beta2*v[i]) + float32(float32(c.Rest2*g)*g)
		root := float32(math.Sqrt(float64(v[i])))
		w[i] -= float32(c.Step*m[i]) / (float32(root*c.RootScale) + c.Eps)
	}
}

func adagradGeneric(w, grad, state []float32, rate, eps float32) {
	for i, g := range grad {
		state[i] += float32(g * g)
		root := float32(math.Sqrt(float64(state[i])))
		w[i] -= float32(rate*g) / (root + eps)
	}
}

func gatherGeneric(g *Gather, offsets []int64, dst []float32) {
	for r, end := range offsets[1:] {
		sum := dst[r*g.Dim:][:g.Dim]
		clear(sum)
		for i := offsets[r]; i < end; i++ {
			row := int(g.Picks[i]&g.Mask) * g.Dim
			if g.Weights == nil {
				addGeneric(sum, g.Table[row:row+g.Dim])
			} else {
				axpyGeneric(g.Weights[i], g.Table[row:row+g.Dim], sum)
			}
		}
	}
}
