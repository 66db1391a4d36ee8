package f32

// IntLanes divides the length of every []int32 of this package.
const IntLanes = 8

// AddInts adds src to dst, element by element. Their equal length is a multiple
// of IntLanes.
func AddInts(dst, src []int32) {
	checkInts(dst, src)
	addInts(dst, src)
}

// SubInts subtracts src from dst, as AddInts adds.
func SubInts(dst, src []int32) {
	checkInts(dst, src)
	subInts(dst, src)
}

// FoldedWeights are the weights of a hidden layer for three scalars: Scalars[k][i]
// is the weight of unit i for scalar k.
type FoldedWeights struct{ Scalars [3][]float32 }

// FoldedHead evaluates one hidden layer of rectified units and one output whose
// input was folded into integers before: the sum over units i of
//
//	out[i] * max(0, (sums[i] + extra[i]) * quantum + sum over k of scalars[k] * w.Scalars[k][i])
//
// All slices have one length, a multiple of IntLanes, at least one. The twin
// fuses multiplications with additions and sums in another order: with n units
// it is within (n + 6) * 2^-24 of the sum of the absolute terms.
func FoldedHead(sums, extra []int32, quantum float32, scalars *[3]float32, w *FoldedWeights, out []float32) float32 {
	checkInts(sums, extra)
	n := len(sums)
	if n == 0 {
		panic("f32: a folded head has no units")
	}
	same("scalar weights", len(w.Scalars[0]), n)
	same("scalar weights", len(w.Scalars[1]), n)
	same("scalar weights", len(w.Scalars[2]), n)
	same("output weights", len(out), n)
	return foldedHead(sums, extra, quantum, scalars, w, out)
}

func checkInts(a, b []int32) {
	if len(a) != len(b) || len(a)%IntLanes != 0 {
		panic("f32: integer vectors differ in length, or it is not a multiple of 8")
	}
}

func addIntsGeneric(dst, src []int32) {
	for i, v := range src {
		dst[i] += v
	}
}

func subIntsGeneric(dst, src []int32) {
	for i, v := range src {
		dst[i] -= v
	}
}

func foldedHeadGeneric(sums, extra []int32, quantum float32, scalars *[3]float32, w *FoldedWeights, out []float32) float32 {
	total := float32(0)
	for i, v := range sums {
		z := float32(float32(v+extra[i])*quantum) +
			float32(scalars[0]*w.Scalars[0][i]) + float32(scalars[1]*w.Scalars[1][i]) + float32(scalars[2]*w.Scalars[2][i])
		if z > 0 {
			total += float32(out[i] * z)
		}
	}
	return total
}
