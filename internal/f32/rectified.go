package f32

// RectifiedHead evaluates one hidden layer of rectified units and one output,
// whose input and biases were summed as integers before: the sum over units i
// of weights[i] * max(0, sums[i]). The equal length is a multiple of IntLanes.
//
// The twin fuses, and sums in another order: with n units it is within
// (n + 2) * 2^-24 of the sum of the absolute terms.
func RectifiedHead(sums []int32, weights []float32) float32 {
	checkUnits(len(sums), len(weights))
	return rectifiedHead(sums, weights)
}

// RectifiedHeads sets out[k] to the RectifiedHead of a row of a matrix of sums
// to which extra is added: row rows[k], of len(extra) elements. The elements of
// rows must lie inside the matrix; out has their number. On one build it gives
// the same bytes as RectifiedHead of the same sums.
func RectifiedHeads(sums, rows, extra []int32, weights, out []float32) {
	checkUnits(len(extra), len(weights))
	same("RectifiedHeads", len(rows), len(out))
	for _, r := range rows {
		if r < 0 || (int(r)+1)*len(extra) > len(sums) {
			panic("f32: RectifiedHeads: a row outside the matrix")
		}
	}
	rectifiedHeads(sums, rows, extra, weights, out)
}

func checkUnits(units, weights int) {
	if units != weights || units == 0 || units%IntLanes != 0 {
		panic("f32: a rectified head's sums and weights differ in length, or it is not a positive multiple of 8")
	}
}

func rectifiedHeadGeneric(sums []int32, weights []float32) float32 {
	total := float32(0)
	for i, v := range sums {
		total += float32(weights[i] * float32(max(0, v)))
	}
	return total
}

func rectifiedHeadsGeneric(sums, rows, extra []int32, weights, out []float32) {
	n := len(extra)
	for k, r := range rows {
		total := float32(0)
		for i, v := range sums[int(r)*n : (int(r)+1)*n] {
			total += float32(weights[i] * float32(max(0, v+extra[i])))
		}
		out[k] = total
	}
}
