package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

const guard = 9e9 // what lies around every slice, and must stay

// guarded returns n random values with guards on both sides, and a check that
// the guards are untouched. The offset moves the slice off any alignment.
func guarded(t testing.TB, random *rand.Rand, n int) (values []float32, check func(what string)) {
	t.Helper()
	const border = 16
	offset := random.IntN(8)
	all := make([]float32, border+offset+n+border)
	for i := range all {
		all[i] = guard
	}
	values = all[border+offset : border+offset+n : border+offset+n]
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	return values, func(what string) {
		t.Helper()
		for i, v := range all {
			if (i < border+offset || i >= border+offset+n) && v != guard {
				t.Fatalf("%s: wrote %v at %d of a slice of %d", what, v, i-border-offset, n)
			}
		}
	}
}

// The exact sum, in float64, is the reference. Each of the k products and sums
// of a float32 path rounds by at most u = 2^-24 relative to the running sum of
// magnitudes, so the error is at most (k+2) u sum |a b| + |c| u whatever the
// order and whether fused or not (Higham, Accuracy and Stability, section 3.1).
func gemmReference(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) (value, bound []float64) {
	value, bound = make([]float64, m*n), make([]float64, m*n)
	for i := range m {
		for j := range n {
			start := float64(c[i*ldc+j])
			sum, size := start, math.Abs(start)
			for p := range k {
				product := float64(at(a, lda, transA, i, p)) * float64(at(b, ldb, transB, p, j))
				sum += product
				size += math.Abs(product)
			}
			value[i*n+j], bound[i*n+j] = sum, float64(k+2)*size*0x1p-24
		}
	}
	return value, bound
}

type gemmFunc func(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int)

var gemms = map[string]gemmFunc{"Gemm": Gemm, "generic": gemmGeneric, "portable": gemmPortable}

func checkGemm(t *testing.T, random *rand.Rand, transA, transB bool, m, n, k, pad int) {
	t.Helper()
	rowsA, lda := m, k+pad
	if transA {
		rowsA, lda = k, m+pad
	}
	rowsB, ldb := k, n+pad
	if transB {
		rowsB, ldb = n, k+pad
	}
	ldc := n + pad
	// The last row ends where its columns end: reading or writing past it hits
	// the guard.
	length := func(rows, ld int) int { return max(0, rows*ld-pad) }
	a, checkA := guarded(t, random, length(rowsA, lda))
	b, checkB := guarded(t, random, length(rowsB, ldb))
	c, checkC := guarded(t, random, length(m, ldc))
	start := append([]float32(nil), c...)
	value, bound := gemmReference(transA, transB, m, n, k, a, lda, b, ldb, c, ldc)
	for name, gemm := range gemms {
		what := fmt.Sprintf("%s transA %v transB %v m %d n %d k %d pad %d", name, transA, transB, m, n, k, pad)
		copy(c, start)
		gemm(transA, transB, m, n, k, a, lda, b, ldb, c, ldc)
		checkA(what)
		checkB(what)
		checkC(what)
		for i := range c {
			row, column := i/ldc, i%ldc
			if column >= n {
				if c[i] != start[i] {
					t.Fatalf("%s: wrote between the rows at %d, %d", what, row, column)
				}
				continue
			}
			if got, want := float64(c[i]), value[row*n+column]; !(math.Abs(got-want) <= bound[row*n+column]) {
				t.Fatalf("%s: at %d, %d got %v, want %v within %v", what, row, column, got, want, bound[row*n+column])
			}
		}
	}
}

func TestGemmSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	depths := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 20}
	for m := 0; m <= 19; m++ {
		for n := 0; n <= 33; n++ {
			for _, k := range depths {
				trans := random.IntN(4)
				checkGemm(t, random, trans&1 != 0, trans&2 != 0, m, n, k, random.IntN(3))
			}
		}
	}
	for m := 0; m <= 13; m++ {
		for n := 0; n <= 17; n++ {
			for k := 0; k <= 9; k++ {
				for trans := range 4 {
					checkGemm(t, random, trans&1 != 0, trans&2 != 0, m, n, k, (m+n+k)%3)
				}
			}
		}
	}
}

func TestGemmBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, k := range []int{blockK - 1, blockK, blockK + 1, 2*blockK + 5} {
		for trans := range 4 {
			checkGemm(t, random, trans&1 != 0, trans&2 != 0, 7, 37, k, 1)
		}
	}
}

func FuzzGemm(f *testing.F) {
	f.Add(uint64(1), uint16(6), uint16(16), uint16(4), uint8(0))
	f.Add(uint64(2), uint16(50), uint16(128), uint16(300), uint8(3))
	f.Add(uint64(3), uint16(1), uint16(2), uint16(64), uint8(14))
	f.Fuzz(func(t *testing.T, seed uint64, m, n, k uint16, flags uint8) {
		checkGemm(t, rand.New(rand.NewPCG(seed, 0)), flags&1 != 0, flags&2 != 0,
			int(m)%70, int(n)%70, int(k)%600, int(flags>>2)%5)
	})
}

// A row of a product gives the same bytes in any batch on the assembly path,
// which the caches of the planner rely on.
func TestRowsDoNotDependOnBatch(t *testing.T) {
	if !fast {
		t.Log("portable path: no such promise")
		return
	}
	random := rand.New(rand.NewPCG(5, 6))
	const m, n, k = 23, 37, 300
	a, _ := guarded(t, random, m*k)
	b, _ := guarded(t, random, k*n)
	all := make([]float32, m*n)
	Gemm(false, false, m, n, k, a, k, b, n, all, n)
	for rows := 1; rows < m; rows++ {
		for i := 0; i+rows <= m; i++ {
			part := make([]float32, rows*n)
			Gemm(false, false, rows, n, k, a[i*k:], k, b, n, part, n)
			for q, got := range part {
				if want := all[i*n+q]; got != want {
					t.Fatalf("rows %d to %d: element %d: got %v, want %v", i, i+rows, q, got, want)
				}
			}
		}
	}
}

// special puts values into x that comparisons and rounding may treat badly.
func special(random *rand.Rand, x []float32) {
	values := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e-40, -1e-40, math.MaxFloat32}
	for i := range x {
		if random.IntN(4) == 0 {
			x[i] = values[random.IntN(len(values))]
		}
	}
}

func bits(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		if out[i] = math.Float32bits(v); v != v {
			out[i] = 0x7fc00000 // any NaN is as good as another
		}
	}
	return out
}

// The element-wise twins give the same bytes as the plain loops.
func checkVectors(t *testing.T, random *rand.Rand, n int, awkward bool) {
	t.Helper()
	alpha := float32(random.NormFloat64())
	step := AdamStep{Beta1: 0.9, Rest1: 0.1, Beta2: 0.999, Rest2: 0.001, Step: 1e-2, RootScale: 1.5, Eps: 1e-8}
	for _, kernel := range []struct {
		name      string
		arguments int
		fast      func(x [][]float32)
		plain     func(x [][]float32)
	}{
		{"Axpy", 2, func(x [][]float32) { Axpy(alpha, x[0], x[1]) }, func(x [][]float32) { axpyGeneric(alpha, x[0], x[1]) }},
		{"Add", 2, func(x [][]float32) { Add(x[0], x[1]) }, func(x [][]float32) { addGeneric(x[0], x[1]) }},
		{"ReLU", 1, func(x [][]float32) { ReLU(x[0]) }, func(x [][]float32) { reluGeneric(x[0]) }},
		{"Mask", 2, func(x [][]float32) { Mask(x[0], x[1]) }, func(x [][]float32) { maskGeneric(x[0], x[1]) }},
		{"ScaleMask", 3, func(x [][]float32) { ScaleMask(x[0], alpha, x[1], x[2]) }, func(x [][]float32) { scaleMaskGeneric(x[0], alpha, x[1], x[2]) }},
		{"AdamStep", 4, func(x [][]float32) { step.Apply(x[0], x[1], x[2], x[3]) }, func(x [][]float32) { adamGeneric(x[0], x[1], x[2], x[3], &step) }},
	} {
		var got, want [][]float32
		var checks []func(string)
		for i := range kernel.arguments {
			x, check := guarded(t, random, n)
			if awkward {
				special(random, x)
			}
			if i == 3 {
				for j := range x {
					x[j] = float32(math.Abs(float64(x[j]))) // a second moment
				}
			}
			got, want = append(got, x), append(want, append([]float32(nil), x...))
			checks = append(checks, check)
		}
		kernel.fast(got)
		kernel.plain(want)
		for i := range got {
			checks[i](kernel.name)
			g, w := bits(got[i]), bits(want[i])
			for j := range g {
				if g[j] != w[j] {
					t.Fatalf("%s of %d: argument %d element %d: got %v, want %v", kernel.name, n, i, j, got[i][j], want[i][j])
				}
			}
		}
	}

	x, checkX := guarded(t, random, n)
	y, checkY := guarded(t, random, n)
	got := float64(Dot(x, y))
	checkX("Dot")
	checkY("Dot")
	value, bound := gemmReference(false, true, 1, 1, n, x, n, y, n, []float32{0}, 1)
	if !(math.Abs(got-value[0]) <= bound[0]) {
		t.Fatalf("Dot of %d: got %v, want %v within %v", n, got, value[0], bound[0])
	}
	if plain := float64(dotGeneric(x, y)); !(math.Abs(plain-value[0]) <= bound[0]) {
		t.Fatalf("plain dot of %d: got %v, want %v within %v", n, plain, value[0], bound[0])
	}
}

func TestVectors(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for n := range 70 {
		for range 5 {
			checkVectors(t, random, n, false)
			checkVectors(t, random, n, true)
		}
	}
}

func FuzzVectors(f *testing.F) {
	f.Add(uint64(1), uint16(0), false)
	f.Add(uint64(2), uint16(129), true)
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, awkward bool) {
		checkVectors(t, rand.New(rand.NewPCG(seed, 1)), int(n)%2000, awkward)
	})
}

func TestRows(t *testing.T) {
	x := make([]float32, 6)
	FillRows(x, []float32{1, 2, 3})
	if got, want := fmt.Sprint(x), "[1 2 3 1 2 3]"; got != want {
		t.Errorf("FillRows: got %s, want %s", got, want)
	}
	sum := []float32{10, 0, 0}
	SumRows(sum, x)
	if got, want := fmt.Sprint(sum), "[12 4 6]"; got != want {
		t.Errorf("SumRows: got %s, want %s", got, want)
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	for name, call := range map[string]func(){
		"Axpy":     func() { Axpy(1, make([]float32, 2), make([]float32, 3)) },
		"FillRows": func() { FillRows(make([]float32, 5), make([]float32, 2)) },
		"SumRows":  func() { SumRows(nil, make([]float32, 2)) },
		"short A": func() {
			Gemm(false, false, 2, 2, 2, make([]float32, 3), 2, make([]float32, 4), 2, make([]float32, 4), 2)
		},
		"short B": func() {
			Gemm(false, true, 2, 2, 2, make([]float32, 4), 2, make([]float32, 3), 2, make([]float32, 4), 2)
		},
		"short C": func() {
			Gemm(true, false, 2, 2, 2, make([]float32, 4), 2, make([]float32, 4), 2, make([]float32, 3), 2)
		},
		"ldb": func() {
			Gemm(false, false, 2, 2, 2, make([]float32, 4), 2, make([]float32, 4), 1, make([]float32, 4), 2)
		},
	} {
		func() {
			defer func() {
				if message, _ := recover().(string); len(message) < 4 || message[:4] != "f32:" {
					t.Errorf("%s: got panic %q, want one with the prefix f32:", name, message)
				}
			}()
			call()
		}()
	}
}

var shapes = []struct{ m, n, k int }{
	{1000, 128, 50}, {1000, 32, 128}, {15000, 128, 50}, {15000, 32, 128}, {512, 64, 36}, {512, 2, 64},
}

func BenchmarkGemm(b *testing.B) {
	random := rand.New(rand.NewPCG(9, 9))
	run := func(name string, transA, transB bool, m, n, k int, gemm gemmFunc) {
		b.Run(fmt.Sprintf("%s/%dx%dx%d", name, m, n, k), func(b *testing.B) {
			x, _ := guarded(b, random, m*k)
			y, _ := guarded(b, random, k*n)
			z, _ := guarded(b, random, m*n)
			clear(z)
			lda, ldb := k, n
			if transA {
				lda = m
			}
			if transB {
				ldb = k
			}
			for b.Loop() {
				gemm(transA, transB, m, n, k, x, lda, y, ldb, z, n)
			}
			b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
	var p Packed
	packed := func(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
		p.Pack(transB, k, n, b, ldb)
		p.MulAdd(transA, m, a, lda, c, ldc)
	}
	for _, s := range shapes {
		run("NN", false, false, s.m, s.n, s.k, packed)
		run("NT", false, true, s.m, s.n, s.k, packed)
	}
	run("TN", true, false, 128, 50, 192, packed)
	run("TN", true, false, 50, 128, 192, packed)
	run("TN", true, false, 32, 128, 192, packed)
	run("TN", true, false, 128, 50, 15000, packed)
	run("gonum-NN", false, false, 1000, 128, 50, gemmPortable)
	run("gonum-NT", false, true, 1000, 128, 50, gemmPortable)
	run("gonum-NT", false, true, 1000, 32, 128, gemmPortable)
	run("gonum-TN", true, false, 128, 50, 192, gemmPortable)
	run("plain-NN", false, false, 1000, 128, 50, gemmGeneric)
	run("plain-NT", false, true, 1000, 128, 50, gemmGeneric)
	run("plain-TN", true, false, 128, 50, 192, gemmGeneric)
}

func BenchmarkVectors(b *testing.B) {
	random := rand.New(rand.NewPCG(9, 9))
	const n = 13000
	x, _ := guarded(b, random, n)
	y, _ := guarded(b, random, n)
	m, v := make([]float32, n), make([]float32, n)
	step := AdamStep{Beta1: 0.9, Rest1: 0.1, Beta2: 0.999, Rest2: 0.001, Step: 1e-4, RootScale: 1, Eps: 1e-8}
	for _, kernel := range []struct {
		name        string
		fast, plain func()
	}{
		{"Axpy", func() { Axpy(1e-3, x, y) }, func() { axpyGeneric(1e-3, x, y) }},
		{"Dot", func() { Dot(x, y) }, func() { dotGeneric(x, y) }},
		{"Mask", func() { Mask(x, y) }, func() { maskGeneric(x, y) }},
		{"Adam", func() { step.Apply(x, y, m, v) }, func() { adamGeneric(x, y, m, v, &step) }},
	} {
		for name, call := range map[string]func(){"fast": kernel.fast, "plain": kernel.plain} {
			b.Run(kernel.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					call()
				}
				b.SetBytes(4 * n)
			})
		}
	}
}
