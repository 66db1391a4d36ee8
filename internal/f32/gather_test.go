package f32

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// checkGather compares the twin with the plain loop, byte by byte, with guards
// around everything that is read or written.
func checkGather(t *testing.T, random *rand.Rand, dim, lists, longest, ahead int, weighted bool) {
	t.Helper()
	rows := 1 + random.IntN(20)
	table, checkTable := guarded(t, random, rows*dim)
	// Picks before the first list's and after the last's are not read: they are of
	// rows far outside.
	const outside = 1 << 30
	offsets := []int64{2}
	picks := []uint64{outside, outside}
	for range lists {
		for range random.IntN(longest + 1) {
			// What is not in the mask does not matter.
			picks = append(picks, uint64(random.IntN(rows))|random.Uint64()<<32)
		}
		offsets = append(offsets, int64(len(picks)))
	}
	picks = append(picks, outside, outside)
	g := Gather{Table: table, Dim: dim, Picks: picks, Mask: 1<<32 - 1, Ahead: ahead}
	checkWeights := func(string) {}
	if weighted {
		g.Weights, checkWeights = guarded(t, random, len(picks))
	}
	got, checkGot := guarded(t, random, lists*dim)
	want := slices.Clone(got)
	g.Sum(offsets, got)
	gatherGeneric(&g, offsets, want)
	if !slices.Equal(bits(got), bits(want)) {
		t.Fatalf("dim %d, %d lists, ahead %d, weighted %v: got %v, want %v", dim, lists, ahead, weighted, got, want)
	}
	checkTable("table")
	checkWeights("weights")
	checkGot("dst")
}

func TestGatherSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 0))
	for dim := 4; dim <= 264; dim += 4 {
		for lists := range 5 {
			for _, longest := range []int{0, 1, 2, 7} {
				for ahead := range 4 {
					checkGather(t, random, dim, lists, longest, ahead, false)
					checkGather(t, random, dim, lists, longest, ahead, true)
				}
			}
		}
	}
}

func TestGatherRows(t *testing.T) {
	g := Gather{Table: []float32{1, 2, 3, 4, 10, 20, 30, 40}, Dim: 4, Picks: Rows([]int64{1, 0, 1}), Mask: ^uint64(0)}
	dst := make([]float32, 12)
	g.Sum([]int64{0, 1, 1, 3}, dst)
	if want := []float32{10, 20, 30, 40, 0, 0, 0, 0, 11, 22, 33, 44}; !slices.Equal(dst, want) {
		t.Errorf("got %v, want %v", dst, want)
	}
}

func FuzzGather(f *testing.F) {
	f.Add(uint64(1), uint8(16), uint8(3), uint8(5), uint8(0), true)
	f.Add(uint64(2), uint8(35), uint8(9), uint8(60), uint8(200), false)
	f.Fuzz(func(t *testing.T, seed uint64, dim, lists, longest, ahead uint8, weighted bool) {
		random := rand.New(rand.NewPCG(seed, 21))
		checkGather(t, random, 4*(1+int(dim)), int(lists)%20, int(longest), int(ahead), weighted)
	})
}

func TestAdagrad(t *testing.T) {
	random := rand.New(rand.NewPCG(22, 0))
	for n := range 70 {
		w, checkW := guarded(t, random, n)
		grad, checkGrad := guarded(t, random, n)
		state, checkState := guarded(t, random, n)
		for i, v := range state {
			state[i] = v * v
		}
		wantW, wantState := slices.Clone(w), slices.Clone(state)
		Adagrad(w, grad, state, 0.3, 1e-8)
		adagradGeneric(wantW, grad, wantState, 0.3, 1e-8)
		if !slices.Equal(bits(w), bits(wantW)) || !slices.Equal(bits(state), bits(wantState)) {
			t.Fatalf("%d elements: got %v and %v, want %v and %v", n, w, state, wantW, wantState)
		}
		checkW("w")
		checkGrad("grad")
		checkState("state")
	}
}

// Any memory may be asked for, nothing of it changes.
func TestPrefetch(t *testing.T) {
	random := rand.New(rand.NewPCG(23, 0))
	for n := range 70 {
		x, check := guarded(t, random, n)
		want := slices.Clone(x)
		Prefetch(x)
		if !slices.Equal(x, want) {
			t.Fatalf("%d elements: got %v, want %v", n, x, want)
		}
		check("x")
	}
}

func TestGatherPanics(t *testing.T) {
	floats := func(n int) []float32 { return make([]float32, n) }
	good := Gather{Table: floats(16), Dim: 8, Picks: make([]uint64, 3), Mask: 1}
	for what, call := range map[string]func(){
		"dst":     func() { good.Sum([]int64{0, 3}, floats(9)) },
		"beyond":  func() { good.Sum([]int64{0, 4}, floats(8)) },
		"before":  func() { good.Sum([]int64{-1, 3}, floats(8)) },
		"dim":     func() { g := good; g.Dim = 6; g.Sum([]int64{0, 3}, floats(6)) },
		"weights": func() { g := good; g.Weights = floats(2); g.Sum([]int64{0, 3}, floats(8)) },
		"Adagrad": func() { Adagrad(floats(2), floats(2), floats(1), 1, 1) },
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

// Bags of 20 random rows of a table of 256 MiB, on one thread.
func BenchmarkGather(b *testing.B) {
	const bags, pooling = 2048, 20
	random := rand.New(rand.NewPCG(24, 0))
	table := make([]float32, 64<<20)
	for i := range table {
		table[i] = 1
	}
	for _, dim := range []int{16, 64, 128} {
		g := Gather{Table: table, Dim: dim, Picks: make([]uint64, bags*pooling), Mask: ^uint64(0)}
		offsets := make([]int64, bags+1)
		for i := range offsets {
			offsets[i] = int64(i) * pooling
		}
		dst := make([]float32, bags*dim)
		for name, sum := range map[string]func(){
			"twin":  func() { g.Sum(offsets, dst) },
			"plain": func() { gatherGeneric(&g, offsets, dst) },
		} {
			b.Run(fmt.Sprintf("dim=%d/%s", dim, name), func(b *testing.B) {
				var took time.Duration
				for range b.N {
					for i := range g.Picks { // other rows each time: these are not in the caches
						g.Picks[i] = random.Uint64N(uint64(len(table) / dim))
					}
					start := time.Now()
					sum()
					took += time.Since(start)
				}
				b.ReportMetric(4*bags*pooling*float64(dim)*float64(b.N)/took.Seconds()/1e9, "GB/s")
			})
		}
	}
}
