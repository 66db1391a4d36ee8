//go:build !amd64 || noasm

package f32

// What follows is only called where fast is true.

func forward(panels, depth int, a *float32, lda int, b, bias, c *float32, ldc int) {
	panic("f32: no assembly in this build")
}

func back(panels, depth int, a *float32, lda int, b, act, c *float32, ldc int) {
	panic("f32: no assembly in this build")
}

func outer(rows, depth int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int) {
	panic("f32: no assembly in this build")
}

func sumRowsFast(columns, rows int, src []float32, ld int, dst []float32) {
	panic("f32: no assembly in this build")
}

func pickSums(columns int, offsets, picks []int32, src []float32, lds int, dst []float32, ldd int) {
	panic("f32: no assembly in this build")
}
