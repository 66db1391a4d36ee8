package f32

import "fmt"

// Axpy adds alpha*x to y. The lengths must match.
func Axpy(alpha float32, x, y []float32) {
	same("Axpy", len(x), len(y))
	axpy(alpha, x, y)
}

// Dot is the sum of x[i]*y[i]. The lengths must match.
func Dot(x, y []float32) float32 {
	same("Dot", len(x), len(y))
	return dot(x, y)
}

// Add adds src to dst. The lengths must match.
func Add(dst, src []float32) {
	same("Add", len(dst), len(src))
	add(dst, src)
}

// FillRows sets every row of dst to row: a layer's biases, to which a product
// is then added. len(dst) must be a multiple of len(row).
func FillRows(dst, row []float32) {
	whole("FillRows", len(dst), len(row))
	for i := 0; i < len(dst); i += len(row) {
		copy(dst[i:i+len(row)], row)
	}
}

// SumRows adds every row of src to dst: the gradient of a layer's biases.
// len(src) must be a multiple of len(dst).
func SumRows(dst, src []float32) {
	whole("SumRows", len(src), len(dst))
	sumRows(dst, src)
}

// ReLU replaces the negative elements of x with zero. NaN stays NaN, so that a
// training run that diverges is seen.
func ReLU(x []float32) {
	relu(x)
}

// Mask zeroes grad where act is not above zero: the backward of a ReLU whose
// output was act. The lengths must match.
func Mask(grad, act []float32) {
	same("Mask", len(grad), len(act))
	mask(grad, act)
}

// ScaleMask sets dst to alpha*x where act is above zero, and to zero
// elsewhere. The lengths must match.
func ScaleMask(dst []float32, alpha float32, x, act []float32) {
	same("ScaleMask", len(dst), len(x))
	same("ScaleMask", len(dst), len(act))
	scaleMask(dst, alpha, x, act)
}

// AdamStep holds the factors of one step of Adam (Kingma and Ba,
// arXiv:1412.6980, algorithm 1), which are the same for every weight.
type AdamStep struct {
	Beta1, Rest1 float32 // decay of the first moment, and 1 minus it
	Beta2, Rest2 float32 // decay of the second moment, and 1 minus it
	Step         float32 // learning rate / (1 - beta1^t)
	RootScale    float32 // 1 / sqrt(1 - beta2^t)
	Eps          float32 // added to the root
}

// Apply moves the weights w against the gradient and updates both moments:
//
//	m = Beta1 m + Rest1 g;  v = Beta2 v + Rest2 g g
//	w = w - Step m / (RootScale sqrt(v) + Eps)
//
// The lengths must match.
func (c AdamStep) Apply(w, grad, m, v []float32) {
	same("AdamStep", len(w), len(grad))
	same("AdamStep", len(w), len(m))
	same("AdamStep", len(w), len(v))
	adam(w, grad, m, v, &c)
}

func same(name string, a, b int) {
	if a != b {
		panic(fmt.Sprintf("f32: %s: lengths do not match: %d and %d", name, a, b))
	}
}

func whole(name string, total, row int) {
	if row == 0 && total != 0 || row != 0 && total%row != 0 {
		panic(fmt.Sprintf("f32: %s: length %d is not a multiple of the row's %d", name, total, row))
	}
}
