package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gather.go writes the twins that sum picked rows of tables far larger than the caches.

const line = 64 // bytes of a cache line

// gather sums the rows that each list picks, columns of them, in registers.
//
// Row i of a list is asked for while row i-ahead is summed, also across the lists'
// borders. Only the columns of this kernel are: 64 of them are whole cache lines,
// and where fewer end inside a line, that line belongs to columns that another
// kernel of the same row asks for.
func gather(columns int, weighted bool) {
	name, weights, what := fmt.Sprint("gather", columns), "", ""
	if weighted {
		name, weights, what = fmt.Sprint("gatherWeighted", columns), ", weights *float32", ", each times its weight,"
	}
	TEXT(name, NOSPLIT, "func(lists int, offsets *int64, picks *uint64, mask uint64, ahead, last int, src *float32, ld int, dst *float32, ldd int"+weights+")")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s sets %d columns of each list's row of dst to the sum of the rows of src that the list picks%s in order. There is at least one list; the bits of mask in a pick are its row; last is the last pick that may be read ahead.", name, columns, what))
	lists, offsets, picks, mask := argument("lists"), argument("offsets"), argument("picks"), argument("mask")
	last, src, ld, dst := argument("last"), argument("src"), argument("ld"), argument("dst")
	SHLQ(U8(2), ld)
	var scales Register
	if weighted {
		scales = argument("weights")
	}
	width, width1 := lanes, YMM
	if columns < lanes {
		width, width1 = columns, XMM
	}
	sums := make([]VecVirtual, columns/width)
	for v := range sums {
		sums[v] = width1()
	}
	row, next := GP64(), GP64()
	i, end := GP64(), GP64()
	MOVQ(Mem{Base: offsets}, i)
	Label("list")
	MOVQ(Mem{Base: offsets, Disp: 8}, end)
	for _, sum := range sums {
		VXORPS(sum, sum, sum)
	}
	CMPQ(i, end)
	JGE(LabelRef("store"))

	Label("pick")
	aheadAt, err := Param("ahead").Resolve()
	if err != nil {
		panic(err)
	}
	MOVQ(aheadAt.Addr, next)
	ADDQ(i, next)
	CMPQ(next, last)
	CMOVQGT(last, next)
	MOVQ(Mem{Base: picks, Index: next, Scale: 8}, next)
	ANDQ(mask, next)
	IMULQ(ld, next)
	for at := 0; at < columns*float; at += line {
		// Into the second-level cache: more lines can be on their way there, and from
		// there they come in time.
		PREFETCHT1(Mem{Base: src, Index: next, Scale: 1, Disp: at})
	}
	MOVQ(Mem{Base: picks, Index: i, Scale: 8}, row)
	ANDQ(mask, row)
	IMULQ(ld, row)
	if weighted {
		scale := width1()
		VBROADCASTSS(Mem{Base: scales, Index: i, Scale: 4}, scale)
		// A product is rounded before it is added, as in the plain loop: the memory
		// is waited for anyway.
		product := width1()
		for v, sum := range sums {
			VMULPS(Mem{Base: src, Index: row, Scale: 1, Disp: v * width * float}, scale, product)
			VADDPS(product, sum, sum)
		}
	} else {
		for v, sum := range sums {
			VADDPS(Mem{Base: src, Index: row, Scale: 1, Disp: v * width * float}, sum, sum)
		}
	}
	INCQ(i)
	CMPQ(i, end)
	JLT(LabelRef("pick"))

	Label("store")
	for v, sum := range sums {
		VMOVUPS(sum, Mem{Base: dst, Disp: v * width * float})
	}
	step := argument("ldd")
	LEAQ(Mem{Base: dst, Index: step, Scale: 4}, dst)
	ADDQ(U8(8), offsets)
	DECQ(lists)
	JNZ(LabelRef("list"))
	VZEROUPPER()
	RET()
}

func prefetch() {
	TEXT("prefetchLines", NOSPLIT, "func(p *float32, bytes int)")
	Pragma("noescape")
	Doc("prefetchLines asks for the cache lines from p on. bytes is above 0.")
	p, n := argument("p"), argument("bytes")
	Label("line")
	PREFETCHT0(Mem{Base: p})
	ADDQ(U8(line), p)
	SUBQ(U8(line), n)
	JGT(LabelRef("line"))
	RET()
}
