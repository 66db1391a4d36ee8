//go:build amd64 && !noasm

package f32

func forward(panels, depth int, a *float32, lda int, b, bias, c *float32, ldc int) {
	forwardAVX2(panels, depth, a, lda, b, bias, c, ldc)
}

func back(panels, depth int, a *float32, lda int, b, act, c *float32, ldc int) {
	backAVX2(panels, depth, a, lda, b, act, c, ldc)
}

func outer(rows, depth int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int) {
	switch rows {
	case 6:
		outer6(depth, a, lda, b, ldb, c, ldc)
	case 5:
		outer5(depth, a, lda, b, ldb, c, ldc)
	case 4:
		outer4(depth, a, lda, b, ldb, c, ldc)
	case 3:
		outer3(depth, a, lda, b, ldb, c, ldc)
	case 2:
		outer2(depth, a, lda, b, ldb, c, ldc)
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
