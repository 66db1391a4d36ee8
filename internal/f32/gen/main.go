// Command gen writes the AVX2 and FMA twins of package f32: twins_amd64.s and
// the Go declarations beside it. It is a module of its own, so that the main
// module does not depend on the assembler. Run it with go generate in
// internal/f32.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	panelN = 16
	lanes  = 8
	float  = 4 // bytes
)

func main() {
	ConstraintExpr("amd64,!noasm")
	for rows := 1; rows <= 6; rows++ {
		kernel(rows)
	}
	axpy()
	dot()
	add()
	relu()
	mask()
	scaleMask()
	adam()
	shift("addInts", "adds src to dst", VPADDD)
	shift("subInts", "subtracts src from dst", VPSUBD)
	foldedHead()
	Generate()
}

// kernel adds rows rows of A times a panel of B to C.
//
// Registers: rows x 2 sums, two vectors of B, two broadcast elements of A. The
// rows of A are found from two pointers, three rows each, because an address
// can scale its index by 1, 2, 4 or 8 only.
func kernel(rows int) {
	TEXT(fmt.Sprintf("kernel%d", rows), NOSPLIT, "func(depth int, a *float32, strideRow, strideK int, b, c *float32, ldc int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("kernel%d adds %d rows of A times a packed panel of 16 columns to C. Strides are in elements.", rows, rows))
	depth := Load(Param("depth"), GP64())
	a := Load(Param("a"), GP64())
	strideRow := Load(Param("strideRow"), GP64())
	strideK := Load(Param("strideK"), GP64())
	b := Load(Param("b"), GP64())
	c := Load(Param("c"), GP64())
	ldc := Load(Param("ldc"), GP64())
	SHLQ(U8(2), strideRow)
	SHLQ(U8(2), strideK)
	SHLQ(U8(2), ldc)

	var lower GPVirtual // the fourth row of A
	if rows > 3 {
		lower = GP64()
		LEAQ(Mem{Base: a, Index: strideRow, Scale: 2}, lower)
		ADDQ(strideRow, lower)
	}
	left := func(row int) Mem {
		base := Register(a)
		if row >= 3 {
			base, row = lower, row-3
		}
		if row == 0 {
			return Mem{Base: base}
		}
		return Mem{Base: base, Index: strideRow, Scale: uint8(row)}
	}

	sums := make([][2]VecVirtual, rows)
	for r := range sums {
		for h := range sums[r] {
			sums[r][h] = YMM()
			VXORPS(sums[r][h], sums[r][h], sums[r][h])
		}
	}
	right := [2]VecVirtual{YMM(), YMM()}
	element := [2]VecVirtual{YMM(), YMM()}
	step := func(k int) {
		for h := range right {
			VMOVUPS(Mem{Base: b, Disp: (k*panelN + h*lanes) * float}, right[h])
		}
		for r := range rows {
			e := element[r%2]
			VBROADCASTSS(left(r), e)
			for h := range right {
				VFMADD231PS(right[h], e, sums[r][h])
			}
		}
		ADDQ(strideK, a)
		if rows > 3 {
			ADDQ(strideK, lower)
		}
	}

	const unroll = 4
	SUBQ(U8(unroll), depth)
	JLT(LabelRef("tail"))
	Label("loop")
	for k := range unroll {
		step(k)
	}
	ADDQ(U32(unroll*panelN*float), b)
	SUBQ(U8(unroll), depth)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(U8(unroll), depth)
	JZ(LabelRef("done"))
	Label("single")
	step(0)
	ADDQ(U8(panelN*float), b)
	DECQ(depth)
	JNZ(LabelRef("single"))
	Label("done")
	for r := range sums {
		for h := range sums[r] {
			VADDPS(Mem{Base: c, Disp: h * lanes * float}, sums[r][h], sums[r][h])
			VMOVUPS(sums[r][h], Mem{Base: c, Disp: h * lanes * float})
		}
		if r < rows-1 {
			ADDQ(ldc, c)
		}
	}
	VZEROUPPER()
	RET()
}

// vectors writes a loop over n elements: body with width 8 where it can, and
// with width 1 for the rest. The pointers move along.
func vectors(n Register, pointers []Register, body func(width int)) {
	SUBQ(U8(lanes), n)
	JLT(LabelRef("tail"))
	Label("loop")
	body(lanes)
	for _, p := range pointers {
		ADDQ(U8(lanes*float), p)
	}
	SUBQ(U8(lanes), n)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(U8(lanes), n)
	JZ(LabelRef("done"))
	Label("single")
	body(1)
	for _, p := range pointers {
		ADDQ(U8(float), p)
	}
	DECQ(n)
	JNZ(LabelRef("single"))
	Label("done")
}

// of picks the vector or the single-element form of an instruction.
func of[F any](width int, vector, single F) F {
	if width == lanes {
		return vector
	}
	return single
}

func base(name string) Register { return Load(Param(name).Base(), GP64()) }

func length(name string) Register { return Load(Param(name).Len(), GP64()) }

// everywhere broadcasts a float32 argument; its low lane serves single elements.
func everywhere(name string) VecVirtual {
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	v := YMM()
	VBROADCASTSS(m.Addr, v)
	return v
}

func zero() VecVirtual {
	v := YMM()
	VXORPS(v, v, v)
	return v
}

func lane(v VecVirtual, width int) Register {
	if width == 1 {
		return v.AsX()
	}
	return v
}

// load reads width elements.
func load(p Register, width int) Register {
	if width == 1 {
		x := XMM()
		VMOVSS(Mem{Base: p}, x)
		return x
	}
	y := YMM()
	VMOVUPS(Mem{Base: p}, y)
	return y
}

func store(v, p Register, width int) {
	if width == 1 {
		VMOVSS(v, Mem{Base: p})
		return
	}
	VMOVUPS(v, Mem{Base: p})
}

func axpy() {
	TEXT("axpyAVX2", NOSPLIT, "func(alpha float32, x, y []float32)")
	Pragma("noescape")
	Doc("axpyAVX2 is axpyGeneric; it does not fuse, so the bytes are the same.")
	n, x, y, alpha := length("x"), base("x"), base("y"), everywhere("alpha")
	vectors(n, []Register{x, y}, func(width int) {
		v := load(x, width)
		of(width, VMULPS, VMULSS)(lane(alpha, width), v, v)
		of(width, VADDPS, VADDSS)(Mem{Base: y}, v, v)
		store(v, y, width)
	})
	VZEROUPPER()
	RET()
}

func dot() {
	TEXT("dotAVX2", NOSPLIT, "func(x, y []float32) float32")
	Pragma("noescape")
	Doc("dotAVX2 sums in 8 lanes, and then the lanes.")
	n, x, y := length("x"), base("x"), base("y")
	sum, rest := zero(), zero()
	vectors(n, []Register{x, y}, func(width int) {
		v := load(x, width)
		if width == lanes {
			VFMADD231PS(Mem{Base: y}, v, sum)
		} else {
			VFMADD231SS(Mem{Base: y}, v, rest.AsX())
		}
	})
	half := XMM()
	VEXTRACTF128(U8(1), sum, half)
	VADDPS(half, sum.AsX(), half)
	VHADDPS(half, half, half)
	VHADDPS(half, half, half)
	VADDSS(rest.AsX(), half, half)
	VZEROUPPER()
	Store(half, ReturnIndex(0))
	RET()
}

func add() {
	TEXT("addAVX2", NOSPLIT, "func(dst, src []float32)")
	Pragma("noescape")
	Doc("addAVX2 is addGeneric.")
	n, dst, src := length("src"), base("dst"), base("src")
	vectors(n, []Register{dst, src}, func(width int) {
		v := load(src, width)
		of(width, VADDPS, VADDSS)(Mem{Base: dst}, v, v)
		store(v, dst, width)
	})
	VZEROUPPER()
	RET()
}

func relu() {
	TEXT("reluAVX2", NOSPLIT, "func(x []float32)")
	Pragma("noescape")
	Doc("reluAVX2 is reluGeneric. VMAXPS yields its last source where either is NaN: here x.")
	n, x := length("x"), base("x")
	none := zero()
	vectors(n, []Register{x}, func(width int) {
		v := load(x, width)
		of(width, VMAXPS, VMAXSS)(v, lane(none, width), v)
		store(v, x, width)
	})
	VZEROUPPER()
	RET()
}

// above leaves all bits set in the lanes where the activation is above zero.
func above(act Register, none VecVirtual, width int) Register {
	const lessThan = 1 // ordered: false for NaN
	v := load(act, width)
	of(width, VCMPPS, VCMPSS)(U8(lessThan), v, lane(none, width), v)
	return v
}

func mask() {
	TEXT("maskAVX2", NOSPLIT, "func(grad, act []float32)")
	Pragma("noescape")
	Doc("maskAVX2 is maskGeneric.")
	n, grad, act := length("act"), base("grad"), base("act")
	none := zero()
	vectors(n, []Register{grad, act}, func(width int) {
		v := above(act, none, width)
		g := load(grad, width)
		VANDPS(g, v, v)
		store(v, grad, width)
	})
	VZEROUPPER()
	RET()
}

func scaleMask() {
	TEXT("scaleMaskAVX2", NOSPLIT, "func(dst []float32, alpha float32, x, act []float32)")
	Pragma("noescape")
	Doc("scaleMaskAVX2 is scaleMaskGeneric.")
	n, dst, x, act, alpha := length("act"), base("dst"), base("x"), base("act"), everywhere("alpha")
	none := zero()
	vectors(n, []Register{dst, x, act}, func(width int) {
		m := above(act, none, width)
		v := load(x, width)
		of(width, VMULPS, VMULSS)(lane(alpha, width), v, v)
		VANDPS(v, m, m)
		store(m, dst, width)
	})
	VZEROUPPER()
	RET()
}

// adam reads the factors in the order of the struct AdamStep.
func adam() {
	TEXT("adamAVX2", NOSPLIT, "func(w, grad, m, v []float32, c *[7]float32)")
	Pragma("noescape")
	Doc("adamAVX2 is adamGeneric; it does not fuse, so the bytes are the same. c is an AdamStep.")
	n, w, grad, m, v := length("grad"), base("w"), base("grad"), base("m"), base("v")
	c := Load(Param("c"), GP64())
	var factor [7]VecVirtual
	for i := range factor {
		factor[i] = YMM()
		VBROADCASTSS(Mem{Base: c, Disp: i * float}, factor[i])
	}
	const beta1, rest1, beta2, rest2, step, rootScale, eps = 0, 1, 2, 3, 4, 5, 6
	vectors(n, []Register{w, grad, m, v}, func(width int) {
		mul, sum := of(width, VMULPS, VMULSS), of(width, VADDPS, VADDSS)
		f := func(i int) Register { return lane(factor[i], width) }
		g := load(grad, width)
		t := load(grad, width)
		first := load(m, width)
		mul(f(beta1), first, first)
		mul(f(rest1), t, t)
		sum(t, first, first)
		store(first, m, width)

		second := load(v, width)
		mul(f(beta2), second, second)
		mul(f(rest2), g, t)
		mul(g, t, t)
		sum(t, second, second)
		store(second, v, width)

		if width == lanes {
			VSQRTPS(second, t)
		} else {
			VSQRTSS(second, second, t)
		}
		mul(f(rootScale), t, t)
		sum(f(eps), t, t)
		mul(f(step), first, first)
		of(width, VDIVPS, VDIVSS)(t, first, first)
		moved := load(w, width)
		of(width, VSUBPS, VSUBSS)(first, moved, moved)
		store(moved, w, width)
	})
	VZEROUPPER()
	RET()
}

// shift adds or subtracts vectors of int32 whose length is a multiple of 8.
func shift(name, what string, op func(...Op)) {
	TEXT(name+"AVX2", NOSPLIT, "func(dst, src []int32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%sAVX2 %s, eight at a time.", name, what))
	n, dst, src := length("src"), base("dst"), base("src")
	Label("loop_" + name)
	CMPQ(n, U8(0))
	JE(LabelRef("done_" + name))
	v := YMM()
	VMOVDQU(Mem{Base: dst}, v)
	op(Mem{Base: src}, v, v)
	VMOVDQU(v, Mem{Base: dst})
	ADDQ(U8(lanes*float), dst)
	ADDQ(U8(lanes*float), src)
	SUBQ(U8(lanes), n)
	JMP(LabelRef("loop_" + name))
	Label("done_" + name)
	VZEROUPPER()
	RET()
}

// foldedHead evaluates two vectors of eight hidden units a turn, so that two
// chains of dependent additions run side by side, then the one that may be left.
func foldedHead() {
	TEXT("foldedHeadAVX2", NOSPLIT, "func(sums, extra []int32, quantum float32, scalars *[3]float32, w0, w1, w2, out *float32) float32")
	Pragma("noescape")
	Doc("foldedHeadAVX2 is foldedHeadGeneric with fused multiply-adds, summed in 16 lanes.")
	n, sums, extra := length("sums"), base("sums"), base("extra")
	quantum := YMM()
	scale, _ := Param("quantum").Resolve()
	VBROADCASTSS(scale.Addr, quantum)
	scalars := Load(Param("scalars"), GP64())
	var s [3]VecVirtual
	for k := range s {
		s[k] = YMM()
		VBROADCASTSS(Mem{Base: scalars, Disp: k * float}, s[k])
	}
	var w [4]Register
	for k, name := range []string{"w0", "w1", "w2", "out"} {
		w[k] = Load(Param(name), GP64())
	}
	none := zero()
	total := [2]VecVirtual{zero(), zero()}
	at := GP64()
	XORQ(at, at)
	unit := func(h int) {
		from := func(base Register) Mem {
			return Mem{Base: base, Index: at, Scale: float, Disp: h * lanes * float}
		}
		z := YMM()
		VMOVDQU(from(sums), z)
		VPADDD(from(extra), z, z)
		VCVTDQ2PS(z, z)
		VMULPS(quantum, z, z)
		for k := range s {
			VFMADD231PS(from(w[k]), s[k], z)
		}
		VMAXPS(none, z, z)
		VFMADD231PS(from(w[3]), z, total[h])
	}
	Label("pairs")
	CMPQ(n, U8(2*lanes))
	JL(LabelRef("single"))
	unit(0)
	unit(1)
	ADDQ(U8(2*lanes), at)
	SUBQ(U8(2*lanes), n)
	JMP(LabelRef("pairs"))
	Label("single")
	CMPQ(n, U8(0))
	JE(LabelRef("reduce"))
	unit(0)
	Label("reduce")
	VADDPS(total[0], total[1], total[0])
	half := XMM()
	VEXTRACTF128(U8(1), total[0], half)
	VADDPS(half, total[0].AsX(), half)
	VHADDPS(half, half, half)
	VHADDPS(half, half, half)
	VZEROUPPER()
	Store(half, ReturnIndex(0))
	RET()
}
