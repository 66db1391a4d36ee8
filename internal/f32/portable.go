package f32

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Assembly reports whether the assembly twins do the work, in this build and on this
// processor. If not, products and everything computed from them, such as models, differ
// by rounding from those of other builds.
func Assembly() bool { return fast }

// gemmPortable is the product on processors without an assembly twin: gonum's Sgemm,
// which measured faster than the plain loop.
func gemmPortable(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if m == 0 || n == 0 || k == 0 {
		return // gonum wants leading dimensions of at least 1
	}
	gonum.Implementation{}.Sgemm(transpose(transA), transpose(transB), m, n, k, 1, a, lda, b, ldb, 1, c, ldc)
}

func transpose(yes bool) blas.Transpose {
	if yes {
		return blas.Trans
	}
	return blas.NoTrans
}
