package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// layer.go writes the twins that multiply matrices and train dense layers.

const (
	blockM = 6 // rows of a block
	unroll = 4
)

// block holds the registers of a product of six rows and 16 columns: 12 sums,
// two vectors of B and two broadcast elements of A.
type block struct {
	sums           [][2]VecVirtual
	right, element [2]VecVirtual
}

func newBlock(rows int) block {
	b := block{sums: make([][2]VecVirtual, rows)}
	for r := range b.sums {
		b.sums[r] = [2]VecVirtual{YMM(), YMM()}
	}
	b.right = [2]VecVirtual{YMM(), YMM()}
	b.element = [2]VecVirtual{YMM(), YMM()}
	return b
}

func (b *block) clear() {
	for _, row := range b.sums {
		for _, sum := range row {
			VXORPS(sum, sum, sum)
		}
	}
}

// step adds one column of A times one row of B.
func (b *block) step(left func(row int) Mem, right Mem) {
	for h, v := range b.right {
		VMOVUPS(right.Offset(h*lanes*float), v)
	}
	for r, sums := range b.sums {
		e := b.element[r%2]
		VBROADCASTSS(left(r), e)
		for h, v := range b.right {
			VFMADD231PS(v, e, sums[h])
		}
	}
}

// addTo adds the sums to the rows of C, and returns.
func (b *block) addTo(c, ldc Register) {
	for _, row := range b.sums {
		for h, sum := range row {
			VADDPS(Mem{Base: c, Disp: h * lanes * float}, sum, sum)
			VMOVUPS(sum, Mem{Base: c, Disp: h * lanes * float})
		}
		ADDQ(ldc, c)
	}
	VZEROUPPER()
	RET()
}

// depths writes a loop over depth, which it destroys: unroll steps a turn, then
// single ones.
func depths(depth Register, steps func(count int)) {
	SUBQ(U8(unroll), depth)
	JLT(LabelRef("tail"))
	Label("loop")
	steps(unroll)
	SUBQ(U8(unroll), depth)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(U8(unroll), depth)
	JZ(LabelRef("done"))
	Label("single")
	steps(1)
	DECQ(depth)
	JNZ(LabelRef("single"))
	Label("done")
}

// stride is an argument counted in elements, turned into bytes.
func stride(name string) Register {
	r := argument(name)
	SHLQ(U8(2), r)
	return r
}

// panels writes the loop that forward and back share: six rows of A times one
// packed panel of B after the other. finish takes one half of a row of
// sums on its way to memory, to row to of C; next moves to the next panel.
func panels(finish func(sum VecVirtual, to Register, half int), next func()) {
	count, depth, a, lda := argument("panels"), argument("depth"), argument("a"), stride("lda")
	b, c, ldc := argument("b"), argument("c"), stride("ldc")
	product := newBlock(blockM)
	upper, lower, left, to := GP64(), GP64(), GP64(), GP64()
	Label("panel")
	MOVQ(a, upper)
	LEAQ(Mem{Base: a, Index: lda, Scale: 2}, lower)
	ADDQ(lda, lower)
	MOVQ(depth, left)
	product.clear()
	depths(left, func(steps int) {
		for k := range steps {
			product.step(func(row int) Mem {
				base := upper
				if row >= 3 {
					base, row = lower, row-3
				}
				if row == 0 {
					return Mem{Base: base, Disp: k * float}
				}
				return Mem{Base: base, Index: lda, Scale: uint8(row), Disp: k * float}
			}, Mem{Base: b, Disp: k * panelN * float})
		}
		ADDQ(U8(steps*float), upper)
		ADDQ(U8(steps*float), lower)
		ADDQ(U32(steps*panelN*float), b)
	})
	MOVQ(c, to)
	for r, row := range product.sums {
		for h, sum := range row {
			finish(sum, to, h)
			VMOVUPS(sum, Mem{Base: to, Disp: h * lanes * float})
		}
		if r < blockM-1 {
			ADDQ(ldc, to)
		}
	}
	ADDQ(U8(panelN*float), c)
	next()
	DECQ(count)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// none is a vector of zeros. It is made where it is used: inside a product all
// registers are taken.
func none() VecVirtual {
	v := YMM()
	VXORPS(v, v, v)
	return v
}

func forward() {
	TEXT("forward", NOSPLIT, "func(panels, depth int, a *float32, lda int, b, bias, c *float32, ldc int)")
	Pragma("noescape")
	Doc("forward sets 6 rows of C, of panels x 16 columns, to the rectified sum of the biases and A's rows times packed panels.")
	bias := argument("bias")
	panels(func(sum VecVirtual, to Register, half int) {
		VADDPS(Mem{Base: bias, Disp: half * lanes * float}, sum, sum)
		VMAXPS(sum, none(), sum)
	}, func() { ADDQ(U8(panelN*float), bias) })
}

func back() {
	TEXT("back", NOSPLIT, "func(panels, depth int, a *float32, lda int, b, act, c *float32, ldc int)")
	Pragma("noescape")
	Doc("back sets 6 rows of C, of panels x 16 columns, to A's rows times packed panels where act, which lies as C does, is above zero, and to zero elsewhere.")
	act := argument("act")
	// The distance from C to act serves every row.
	c := argument("c")
	SUBQ(c, act)
	panels(func(sum VecVirtual, to Register, half int) {
		const lessThan = 1 // ordered: false for NaN
		above := none()
		VCMPPS(U8(lessThan), Mem{Base: to, Index: act, Scale: 1, Disp: half * lanes * float}, above, above)
		VANDPS(sum, above, sum)
	}, func() {})
}

// outer adds A^T B to C for rows columns of A and 16 of B: depth is the number
// of rows of both, which are read in place.
func outer(rows int) {
	TEXT(fmt.Sprintf("outer%d", rows), NOSPLIT, "func(depth int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("outer%d adds to %d rows of 16 columns of C the product of A's columns and B's.", rows, rows))
	depth, a, lda := argument("depth"), argument("a"), stride("lda")
	b, ldb, c, ldc := argument("b"), stride("ldb"), argument("c"), stride("ldc")
	product := newBlock(rows)
	product.clear()
	depths(depth, func(count int) {
		for range count {
			product.step(func(row int) Mem { return Mem{Base: a, Disp: row * float} }, Mem{Base: b})
			ADDQ(lda, a)
			ADDQ(ldb, b)
		}
	})
	product.addTo(c, ldc)
}

// sumRows adds rows to dst, columns at a time, with the sums in registers.
func sumRows(columns int) {
	TEXT(fmt.Sprintf("sumRows%d", columns), NOSPLIT, "func(rows int, src *float32, ld int, dst *float32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("sumRows%d adds the first %d columns of the rows of src to dst, row by row. There is at least one.", columns, columns))
	n, src, ld, dst := argument("rows"), argument("src"), stride("ld"), argument("dst")
	sums := make([]VecVirtual, columns/lanes)
	for v := range sums {
		sums[v] = YMM()
		VMOVUPS(Mem{Base: dst, Disp: v * lanes * float}, sums[v])
	}
	Label("row")
	for v, sum := range sums {
		VADDPS(Mem{Base: src, Disp: v * lanes * float}, sum, sum)
	}
	ADDQ(ld, src)
	DECQ(n)
	JNZ(LabelRef("row"))
	for v, sum := range sums {
		VMOVUPS(sum, Mem{Base: dst, Disp: v * lanes * float})
	}
	VZEROUPPER()
	RET()
}

// sumPicked sums the listed rows of src for each list, with the sums in
// registers. A list begins where the one before ends.
func sumPicked(columns int) {
	TEXT(fmt.Sprintf("sumPicked%d", columns), NOSPLIT, "func(lists int, offsets, picks *int32, src *float32, ld int, dst *float32, ldd int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("sumPicked%d sets %d columns of dst to the sums of the rows of src that each list picks. There is at least one list; picks is the start of the first.", columns, columns))
	lists, offsets, picks := argument("lists"), argument("offsets"), argument("picks")
	src, ld, dst, ldd := argument("src"), stride("ld"), argument("dst"), stride("ldd")
	sums := make([]VecVirtual, columns/lanes)
	for v := range sums {
		sums[v] = YMM()
	}
	count, at := GP64(), GP64()
	Label("list")
	MOVLQSX(Mem{Base: offsets, Disp: 4}, count)
	MOVLQSX(Mem{Base: offsets}, at)
	SUBQ(at, count)
	for _, sum := range sums {
		VXORPS(sum, sum, sum)
	}
	JZ(LabelRef("store"))
	Label("pick")
	MOVLQSX(Mem{Base: picks}, at)
	IMULQ(ld, at)
	for v, sum := range sums {
		VADDPS(Mem{Base: src, Index: at, Scale: 1, Disp: v * lanes * float}, sum, sum)
	}
	ADDQ(U8(4), picks)
	DECQ(count)
	JNZ(LabelRef("pick"))
	Label("store")
	for v, sum := range sums {
		VMOVUPS(sum, Mem{Base: dst, Disp: v * lanes * float})
	}
	ADDQ(ldd, dst)
	ADDQ(U8(4), offsets)
	DECQ(lists)
	JNZ(LabelRef("list"))
	VZEROUPPER()
	RET()
}
