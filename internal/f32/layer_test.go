package f32

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// checkLayer compares the fused and in-place products with the kernels they are
// made of, byte by byte: they sum in the same order.
func checkLayer(t *testing.T, random *rand.Rand, m, n, k, pad int) {
	t.Helper()
	lda, ldb, ldc := k+pad, n+pad, n+pad
	a, checkA := guarded(t, random, m*lda)
	b, checkB := guarded(t, random, k*ldb)
	bias, checkBias := guarded(t, random, n)
	act, checkAct := guarded(t, random, m*ldc)
	for i := range act {
		act[i] = max(0, act[i])
	}
	var p Packed
	p.Pack(false, k, n, b, ldb)
	type product func(c []float32)
	check := func(what string, got, want product) {
		t.Helper()
		c, checkC := guarded(t, random, m*ldc)
		expected := slices.Clone(c)
		got(c)
		want(expected)
		if !slices.Equal(bits(c), bits(expected)) {
			t.Fatalf("%s, %d x %d x %d, pad %d: got %v, want %v", what, m, n, k, pad, c, expected)
		}
		for what, guard := range map[string]func(string){"C": checkC, "A": checkA, "B": checkB, "bias": checkBias, "act": checkAct} {
			guard(what)
		}
	}
	check("Rectify", func(c []float32) { p.Rectify(m, a, lda, bias, c, ldc) }, func(c []float32) {
		p.rectify(m, a, lda, bias, c, ldc)
	})
	check("MulMask", func(c []float32) { p.MulMask(m, a, lda, act, c, ldc) }, func(c []float32) {
		p.mulMask(m, a, lda, act, c, ldc)
	})
}

func checkOuter(t *testing.T, random *rand.Rand, m, n, k, pad int) {
	t.Helper()
	lda, ldb, ldc := m+pad, n+pad, n+pad
	a, checkA := guarded(t, random, k*lda)
	b, checkB := guarded(t, random, k*ldb)
	c, checkC := guarded(t, random, m*ldc)
	want := slices.Clone(c)
	var scratch Packed
	Outer(&scratch, m, n, k, a, lda, b, ldb, c, ldc)
	Gemm(true, false, m, n, k, a, lda, b, ldb, want, ldc)
	if fast && !slices.Equal(bits(c), bits(want)) {
		t.Fatalf("Outer, %d x %d x %d, pad %d: got %v, want %v", m, n, k, pad, c, want)
	}
	for i, v := range c {
		if d := float64(v - want[i]); d > 1e-3 || d < -1e-3 {
			t.Fatalf("Outer, %d x %d x %d, pad %d, element %d: got %v, want %v", m, n, k, pad, i, v, want[i])
		}
	}
	checkA("A")
	checkB("B")
	checkC("C")
}

func TestLayerSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 0))
	for m := range 20 {
		for _, n := range []int{0, 1, 8, 15, 16, 17, 32, 48} {
			for k := range 10 {
				checkLayer(t, random, m, n, k, (m+k)%3)
				checkOuter(t, random, m, n, k, (m+k)%3)
			}
		}
	}
}

// The layers of the paper's nets, and products deeper than a block.
func TestLayerBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 0))
	for _, s := range [][3]int{{193, 128, 20}, {192, 32, 128}, {100, 64, 32}, {50, 16, 255}, {50, 16, 256}, {50, 32, 257}, {7, 16, 600}} {
		checkLayer(t, random, s[0], s[1], s[2], 0)
		checkOuter(t, random, s[0], s[1], s[2], 1)
	}
}

func FuzzLayer(f *testing.F) {
	f.Add(uint64(1), uint8(12), uint8(32), uint16(20), uint8(0))
	f.Add(uint64(2), uint8(7), uint8(16), uint16(300), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, m, n uint8, k uint16, pad uint8) {
		random := rand.New(rand.NewPCG(seed, 13))
		checkLayer(t, random, int(m)%64, int(n)%80, int(k)%600, int(pad)%5)
		checkOuter(t, random, int(m)%64, int(n)%80, int(k)%600, int(pad)%5)
	})
}

func TestPickSums(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 0))
	for _, width := range []int{0, 1, 8, 16, 17, 32, 33, 48, 70} {
		for lists := range 6 {
			const rows, before = 5, 3
			offsets := []int32{before} // picks before the first list's are not read
			picks := []int32{99, 99, 99}
			for range lists {
				for range random.IntN(5) {
					picks = append(picks, random.Int32N(rows))
				}
				offsets = append(offsets, int32(len(picks)))
			}
			lds, ldd := width+lists%2, width+lists%3
			src, checkSrc := guarded(t, random, rows*lds)
			got, checkDst := guarded(t, random, lists*ldd)
			want := slices.Clone(got)
			PickSums(width, offsets, picks, src, lds, got, ldd)
			pickSumsGeneric(width, offsets, picks, src, lds, want, ldd)
			if !slices.Equal(bits(got), bits(want)) {
				t.Fatalf("width %d, %d lists: got %v, want %v", width, lists, got, want)
			}
			checkSrc("src")
			checkDst("dst")
		}
	}
}

func TestLayerPanics(t *testing.T) {
	var p Packed
	p.Pack(false, 2, 16, make([]float32, 32), 16)
	floats := func(n int) []float32 { return make([]float32, n) }
	for what, call := range map[string]func(){
		"Rectify, bias":    func() { p.Rectify(6, floats(12), 2, floats(15), floats(96), 16) },
		"Rectify, A":       func() { p.Rectify(6, floats(11), 2, floats(16), floats(96), 16) },
		"Rectify, C":       func() { p.Rectify(6, floats(12), 2, floats(16), floats(95), 16) },
		"MulMask, act":     func() { p.MulMask(6, floats(12), 2, floats(95), floats(96), 16) },
		"Outer, B":         func() { Outer(&p, 6, 16, 2, floats(12), 6, floats(31), 16, floats(96), 16) },
		"PickSums, row":    func() { PickSums(16, []int32{0, 1}, []int32{2}, floats(32), 16, floats(16), 16) },
		"PickSums, minus":  func() { PickSums(16, []int32{0, 1}, []int32{-1}, floats(32), 16, floats(16), 16) },
		"PickSums, fall":   func() { PickSums(16, []int32{0, 1, 0}, []int32{0}, floats(32), 16, floats(32), 16) },
		"PickSums, beyond": func() { PickSums(16, []int32{0, 2}, []int32{0}, floats(32), 16, floats(16), 16) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: got no panic, want one", what)
				}
			}()
			call()
		}()
	}
}

// The element net of the paper's compute model on a tile of rows.
func BenchmarkDense(b *testing.B) {
	const rows, in, hidden = 192, 20, 128
	random := rand.New(rand.NewPCG(15, 0))
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(random.NormFloat64())
		}
		return x
	}
	x, w, bias, y, dw := fill(rows*in), fill(in*hidden), fill(hidden), fill(rows*hidden), fill(in*hidden)
	var p, scratch Packed
	p.Pack(false, in, hidden, w, hidden)
	run := func(name string, do func()) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				do()
			}
			b.ReportMetric(2*rows*in*hidden*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
	run("Rectify", func() { p.Rectify(rows, x, in, bias, y, hidden) })
	run("RectifyPlain", func() { p.rectify(rows, x, in, bias, y, hidden) })
	run("Outer", func() { Outer(&scratch, in, hidden, rows, x, in, y, hidden, dw, hidden) })
	run("OuterPacked", func() { Gemm(true, false, in, hidden, rows, x, in, y, hidden, dw, hidden) })
}
