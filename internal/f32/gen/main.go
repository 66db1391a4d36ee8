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
	for _, rows := range []int{6, 4, 2, 1} {
		kernel(rows)
	}
	for _, rows := range []int{6, 4, 1} {
		outer(rows)
	}
	forward()
	back()
	for _, columns := range []int{32, 16} {
		sumRows(columns)
		sumPicked(columns)
	}
	for _, columns := range []int{4, 8, 16, 32, 64} {
		gather(columns, false)
		gather(columns, true)
	}
	prefetch()
	axpy()
	dot()
	add()
	relu()
	mask()
	scaleMask()
	adam()
	adagrad()
	shift("addInts", "adds src to dst", VPADDD)
	shift("subInts", "subtracts src from dst", VPSUBD)
	foldedHead()
	rectifiedHead()
	rectifiedHeads()
	stack()
	Generate()
}

// kernel adds rows rows of A times a panel of B to C.
//
// The rows of A are found from two pointers, three rows each, because an address
// can scale its index by 1, 2, 4 or 8 only.
func kernel(rows int) {
	TEXT(fmt.Sprintf("kernel%d", rows), NOSPLIT, "func(depth int, a *float32, strideRow, strideK int, b, c *float32, ldc int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("kernel%d adds %d rows of A times a packed panel of 16 columns to C. Strides are in elements.", rows, rows))
	depth, a, b, c := argument("depth"), argument("a"), argument("b"), argument("c")
	strideRow, strideK, ldc := stride("strideRow"), stride("strideK"), stride("ldc")
	lower := a // the fourth row of A
	if rows > 3 {
		lower = GP64()
		LEAQ(Mem{Base: a, Index: strideRow, Scale: 2}, lower)
		ADDQ(strideRow, lower)
	}
	left := func(row int) Mem {
		base := a
		if row >= 3 {
			base, row = lower, row-3
		}
		if row == 0 {
			return Mem{Base: base}
		}
		return Mem{Base: base, Index: strideRow, Scale: uint8(row)}
	}
	product := newBlock(rows)
	product.clear()
	depths(depth, func(count int) {
		for k := range count {
			product.step(left, Mem{Base: b, Disp: k * panelN * float})
			ADDQ(strideK, a)
			if rows > 3 {
				ADDQ(strideK, lower)
			}
		}
		ADDQ(U32(count*panelN*float), b)
	})
	product.addTo(c, ldc)
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

func argument(name string) Register { return Load(Param(name), GP64()) }

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

func adagrad() {
	TEXT("adagradAVX2", NOSPLIT, "func(w, grad, state []float32, rate, eps float32)")
	Pragma("noescape")
	Doc("adagradAVX2 is adagradGeneric; it does not fuse, so the bytes are the same.")
	n, w, grad, state := length("grad"), base("w"), base("grad"), base("state")
	rate, eps := everywhere("rate"), everywhere("eps")
	vectors(n, []Register{w, grad, state}, func(width int) {
		mul, sum := of(width, VMULPS, VMULSS), of(width, VADDPS, VADDSS)
		g, root, square := load(grad, width), load(state, width), load(grad, width)
		mul(square, square, square)
		sum(square, root, root)
		store(root, state, width)
		if width == lanes {
			VSQRTPS(root, root)
		} else {
			VSQRTSS(root, root, root)
		}
		sum(lane(eps, width), root, root)
		mul(lane(rate, width), g, g)
		of(width, VDIVPS, VDIVSS)(root, g, g)
		moved := load(w, width)
		of(width, VSUBPS, VSUBSS)(g, moved, moved)
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

// headUnits adds eight units of a rectified head to total: sums at from, an
// extra vector or nil, the weights in memory or a register.
func headUnits(from Mem, extra, none, total VecVirtual, weights Op) {
	z := YMM()
	if extra == nil {
		VPMAXSD(from, none, z)
	} else {
		VPADDD(from, extra, z)
		VPMAXSD(none, z, z)
	}
	VCVTDQ2PS(z, z)
	VFMADD231PS(weights, z, total)
}

// Both heads sum alike, so that they give the same bytes: eight units to the
// even and eight to the odd of two vectors, their sum, halves, neighbours.

func rectifiedHead() {
	TEXT("rectifiedHeadAVX2", NOSPLIT, "func(sums []int32, weights *float32) float32")
	Pragma("noescape")
	Doc("rectifiedHeadAVX2 is rectifiedHeadGeneric with fused multiply-adds.")
	n, sums, weights := length("sums"), base("sums"), Load(Param("weights"), GP64())
	none := zero()
	total := [2]VecVirtual{zero(), zero()}
	step := func(vectors int) {
		for h := range vectors {
			headUnits(Mem{Base: sums, Disp: h * lanes * float}, nil, none, total[h%2], Mem{Base: weights, Disp: h * lanes * float})
		}
		ADDQ(U32(vectors*lanes*float), sums)
		ADDQ(U32(vectors*lanes*float), weights)
	}
	SUBQ(U8(8*lanes), n)
	JLT(LabelRef("tail"))
	Label("loop")
	step(8)
	SUBQ(U8(8*lanes), n)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(U8(8*lanes), n)
	JZ(LabelRef("reduce"))
	Label("pairs")
	SUBQ(U8(2*lanes), n)
	JLT(LabelRef("single"))
	step(2)
	JMP(LabelRef("pairs"))
	Label("single")
	ADDQ(U8(2*lanes), n)
	JZ(LabelRef("reduce"))
	step(1)
	Label("reduce")
	VADDPS(total[1], total[0], total[0])
	sum := sumHalves(total[0])
	VZEROUPPER()
	Store(sum, ReturnIndex(0))
	RET()
}

// sumHalves adds the lanes of a vector, halves first, neighbours next.
func sumHalves(v VecVirtual) VecVirtual {
	half, next := XMM(), XMM()
	VEXTRACTF128(U8(1), v, half)
	VADDPS(half, v.AsX(), half)
	VMOVSHDUP(half, next)
	VADDPS(next, half, half)
	VMOVHLPS(half, half, next)
	VADDSS(next, half, half)
	return half
}

// rectifiedHeads takes four rows a turn, which share the loads of extra and
// weights and the reduction, then one row a turn.
func rectifiedHeads() {
	TEXT("rectifiedHeadsAVX2", NOSPLIT, "func(sums *int32, rows []int32, extra *int32, units int, weights *float32, out *float32)")
	Pragma("noescape")
	Doc("rectifiedHeadsAVX2 is rectifiedHeadsGeneric with fused multiply-adds.")
	sums := Load(Param("sums"), GP64())
	rows, n := base("rows"), length("rows")
	extra := Load(Param("extra"), GP64())
	stride := Load(Param("units"), GP64())
	weights := Load(Param("weights"), GP64())
	out := Load(Param("out"), GP64())
	SHLQ(U8(2), stride)
	none := zero()
	turn := func(name string, count int) {
		var row [4]Register
		var total [4][2]VecVirtual
		for r := range count {
			row[r] = GP64()
			MOVLQSX(Mem{Base: rows, Disp: r * 4}, row[r])
			IMULQ(stride, row[r])
			ADDQ(sums, row[r])
			total[r] = [2]VecVirtual{zero(), zero()}
		}
		at := GP64()
		XORQ(at, at)
		units := func(vectors int) {
			for h := range vectors {
				e, w := YMM(), YMM()
				VMOVDQU(Mem{Base: extra, Index: at, Scale: 1, Disp: h * lanes * float}, e)
				VMOVUPS(Mem{Base: weights, Index: at, Scale: 1, Disp: h * lanes * float}, w)
				for r := range count {
					headUnits(Mem{Base: row[r], Index: at, Scale: 1, Disp: h * lanes * float}, e, none, total[r][h], w)
				}
			}
			ADDQ(U8(vectors*lanes*float), at)
		}
		left := GP64()
		MOVQ(stride, left)
		Label("pairs_" + name)
		SUBQ(U8(2*lanes*float), left)
		JLT(LabelRef("single_" + name))
		units(2)
		JMP(LabelRef("pairs_" + name))
		Label("single_" + name)
		ADDQ(U8(2*lanes*float), left)
		JZ(LabelRef("reduce_" + name))
		units(1)
		Label("reduce_" + name)
		for r := range count {
			VADDPS(total[r][1], total[r][0], total[r][0])
		}
		if count == 4 {
			// Two rows' halves meet in one vector: row 0 and 1, row 2 and 3.
			var pair [2]VecVirtual
			for k := range pair {
				low, high := total[2*k][0], total[2*k+1][0]
				pair[k] = YMM()
				VPERM2F128(U8(0x31), high, low, pair[k])
				VINSERTF128(U8(1), high.AsX(), low, low)
				VADDPS(pair[k], low, pair[k])
			}
			VHADDPS(pair[1], pair[0], pair[0]) // 0 2 | 1 3, two terms each
			VHADDPS(pair[0], pair[0], pair[0])
			half := XMM()
			VEXTRACTF128(U8(1), pair[0], half)
			VUNPCKLPS(half, pair[0].AsX(), half)
			VMOVUPS(half, Mem{Base: out})
		} else {
			VMOVSS(sumHalves(total[0][0]), Mem{Base: out})
		}
		ADDQ(U8(count*4), rows)
		ADDQ(U8(count*float), out)
	}
	SUBQ(U8(4), n)
	JLT(LabelRef("tail"))
	Label("fours")
	turn("four", 4)
	SUBQ(U8(4), n)
	JGE(LabelRef("fours"))
	Label("tail")
	ADDQ(U8(4), n)
	JZ(LabelRef("done"))
	Label("ones")
	turn("one", 1)
	DECQ(n)
	JNZ(LabelRef("ones"))
	Label("done")
	VZEROUPPER()
	RET()
}

// The fields of a stackStep, in bytes.
const (
	stepKind    = 0
	stepCount   = 8
	stepList    = 16
	stepX       = 24
	stepWeights = 32
	stepBias    = 40
	stepY       = 48
	stepFloor   = 56
	stepN       = 60
	stepSize    = 64
)

// stackWidths are the widths of panels; kind k of a step is a panel of
// stackWidths[k%4], read by list from 4 on; the kind after those rectifies.
var stackWidths = []int{8, 16, 32, 64}

// stack runs one step after the other. The order of the steps is the same every
// time, so the processor foresees the jumps.
func stack() {
	TEXT("stackAVX2", NOSPLIT, "func(steps *[8]uint64, n int)")
	Pragma("noescape")
	Doc("stackAVX2 is stackGeneric with fused multiply-adds; steps are stackSteps.")
	steps := Load(Param("steps"), GP64())
	n := Load(Param("n"), GP64())
	Label("dispatch")
	kind := GP64()
	MOVQ(Mem{Base: steps, Disp: stepKind}, kind)
	kinds := 2 * len(stackWidths)
	for k := range kinds {
		CMPQ(kind, U8(k))
		JEQ(LabelRef(fmt.Sprintf("panel%d", k)))
	}
	rectify(steps)
	JMP(LabelRef("next"))
	for k := range kinds {
		Label(fmt.Sprintf("panel%d", k))
		columns(steps, k, stackWidths[k%len(stackWidths)], k >= len(stackWidths))
		if k < kinds-1 {
			JMP(LabelRef("next"))
		}
	}
	Label("next")
	ADDQ(U8(stepSize), steps)
	DECQ(n)
	JNZ(LabelRef("dispatch"))
	VZEROUPPER()
	RET()
}

// field loads a pointer of a step.
func field(steps Register, offset int) GPVirtual {
	p := GP64()
	MOVQ(Mem{Base: steps, Disp: offset}, p)
	return p
}

// columns keeps eight sums in registers whatever the width, so that eight
// chains of multiply-adds run side by side: of narrow panels it takes several
// inputs at once. A turn takes four inputs at least, eight of the narrowest.
// The rows behind the last input, and the list's fillers, have zero weights.
func columns(steps Register, kind, width int, listed bool) {
	vectors := width / lanes
	groups := 8 / vectors
	turn := max(4, groups)
	loop, done := fmt.Sprintf("loop%d", kind), fmt.Sprintf("done%d", kind)
	count, x, weights := field(steps, stepCount), field(steps, stepX), field(steps, stepWeights)
	MOVQ(Mem{Base: count}, count)
	var list GPVirtual
	if listed {
		list = field(steps, stepList)
	}
	bias := field(steps, stepBias)
	sums := make([][]VecVirtual, groups)
	for u := range sums {
		for v := range vectors {
			sum := YMM()
			if u == 0 {
				VMOVUPS(Mem{Base: bias, Disp: v * lanes * float}, sum)
			} else {
				VXORPS(sum, sum, sum)
			}
			sums[u] = append(sums[u], sum)
		}
	}
	TESTQ(count, count)
	JLE(LabelRef(done))
	Label(loop)
	for u := range turn {
		element := YMM()
		row := Mem{Base: weights, Disp: u * width * float}
		if listed {
			at := GP64()
			MOVLQSX(Mem{Base: list, Disp: u * 4}, at)
			VBROADCASTSS(Mem{Base: x, Index: at, Scale: float}, element)
			shift := 2
			for 1<<shift < width*float {
				shift++
			}
			SHLQ(U8(shift), at)
			row = Mem{Base: weights, Index: at, Scale: 1}
		} else {
			VBROADCASTSS(Mem{Base: x, Disp: u * float}, element)
		}
		for v := range vectors {
			VFMADD231PS(row.Offset(v*lanes*float), element, sums[u%groups][v])
		}
	}
	if listed {
		ADDQ(U8(turn*4), list)
	} else {
		ADDQ(U8(turn*float), x)
		ADDQ(U32(turn*width*float), weights)
	}
	SUBQ(U8(turn), count)
	JG(LabelRef(loop))
	Label(done)
	for half := groups / 2; half > 0; half /= 2 {
		for u := range half {
			for v := range vectors {
				VADDPS(sums[u+half][v], sums[u][v], sums[u][v])
			}
		}
	}
	floor, y := YMM(), field(steps, stepY)
	VBROADCASTSS(Mem{Base: steps, Disp: stepFloor}, floor)
	for v := range vectors {
		VMAXPS(sums[0][v], floor, sums[0][v])
		VMOVUPS(sums[0][v], Mem{Base: y, Disp: v * lanes * float})
	}
}

// rectify lists the values above zero: it writes eight numbers in every turn
// and keeps one for each lane above zero; a table turns the mask of these lanes
// into their numbers. Then it writes eight fillers.
func rectify(steps Register) {
	values, table, list := field(steps, stepX), field(steps, stepWeights), field(steps, stepList)
	n := GP64()
	MOVLQSX(Mem{Base: steps, Disp: stepN}, n)
	none, first, eight := zero(), YMM(), YMM()
	VPXOR(first, first, first)
	step := GP32()
	MOVL(U32(lanes), step)
	VMOVD(step, eight.AsX())
	VPBROADCASTD(eight.AsX(), eight)
	start := GP64()
	MOVQ(list, start)
	Label("values")
	above, numbers := YMM(), YMM()
	const lessThan = 1 // ordered: false for NaN
	VCMPPS(U8(lessThan), Mem{Base: values}, none, above)
	mask, count := GP32(), GP64()
	VMOVMSKPS(above, mask)
	VPMOVZXBD(Mem{Base: table, Index: mask.As64(), Scale: 8}, numbers)
	VPADDD(first, numbers, numbers)
	VMOVDQU(numbers, Mem{Base: list})
	POPCNTL(mask, count.As32())
	LEAQ(Mem{Base: list, Index: count, Scale: 4}, list)
	VPADDD(eight, first, first)
	ADDQ(U8(lanes*float), values)
	SUBQ(U8(lanes), n)
	JG(LabelRef("values"))
	filler := YMM()
	VPBROADCASTD(Mem{Base: steps, Disp: stepN}, filler)
	VMOVDQU(filler, Mem{Base: list})
	SUBQ(start, list)
	SHRQ(U8(2), list)
	MOVQ(list, Mem{Base: field(steps, stepCount)})
}
