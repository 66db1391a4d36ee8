//go:build amd64 && !noasm

package f32

// widestGather is the columns of the widest kernel.
const widestGather = 64

func gather(g *Gather, offsets []int64, dst []float32) {
	if !fast {
		gatherGeneric(g, offsets, dst)
		return
	}
	ahead := g.Ahead
	if ahead == 0 {
		ahead = max(2, aheadBytes/(g.Dim*4))
	}
	last := len(g.Picks) - 1
	if g.Dim == gatherColumns(g.Dim) {
		gatherPart(g, offsets, ahead, last, 0, g.Dim, dst)
		return
	}
	// A list's rows go through the kernels while they are near.
	for r := range len(offsets) - 1 {
		for at := 0; at < g.Dim; {
			columns := gatherColumns(g.Dim - at)
			gatherPart(g, offsets[r:r+2], ahead, last, at, columns, dst[r*g.Dim:])
			at += columns
		}
	}
}

// gatherColumns returns the columns of the widest kernel for at most the given ones.
func gatherColumns(most int) int {
	columns := widestGather
	for columns > most {
		columns /= 2
	}
	return columns
}

// gatherPart sums a number of columns, from column at on, with the kernel of that many columns.
func gatherPart(g *Gather, offsets []int64, ahead, last, at, columns int, dst []float32) {
	lists, first, picks, src, sum := len(offsets)-1, &offsets[0], &g.Picks[0], &g.Table[at], &dst[at]
	if g.Weights != nil {
		weights := &g.Weights[0]
		switch columns {
		case 4:
			gatherWeighted4(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim, weights)
		case 8:
			gatherWeighted8(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim, weights)
		case 16:
			gatherWeighted16(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim, weights)
		case 32:
			gatherWeighted32(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim, weights)
		default:
			gatherWeighted64(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim, weights)
		}
		return
	}
	switch columns {
	case 4:
		gather4(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim)
	case 8:
		gather8(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim)
	case 16:
		gather16(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim)
	case 32:
		gather32(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim)
	default:
		gather64(lists, first, picks, g.Mask, ahead, last, src, g.Dim, sum, g.Dim)
	}
}

func prefetch(x []float32) {
	if fast && len(x) > 0 {
		prefetchLines(&x[0], 4*len(x))
	}
}
