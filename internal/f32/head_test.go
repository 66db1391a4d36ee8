package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// guardedInts returns n random integers with guard values around them, and a
// check that the guards still stand.
func guardedInts(t testing.TB, random *rand.Rand, n int) (values []int32, check func()) {
	const guard, edge = int32(0x5a5a5a5a), 16
	all := make([]int32, n+2*edge)
	for i := range all {
		all[i] = guard
	}
	values = all[edge : edge+n : edge+n]
	for i := range values {
		values[i] = int32(random.Uint32()) >> 8
	}
	return values, func() {
		t.Helper()
		for i, v := range all {
			if (i < edge || i >= edge+n) && v != guard {
				t.Errorf("guard %d was overwritten with %d", i, v)
			}
		}
	}
}

func TestInts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for n := 0; n <= 136; n += IntLanes {
		dst, dstCheck := guardedInts(t, random, n)
		src, srcCheck := guardedInts(t, random, n)
		before := append([]int32(nil), dst...)
		AddInts(dst, src)
		for i := range dst {
			if dst[i] != before[i]+src[i] {
				t.Fatalf("n %d: sum %d: got %d, want %d", n, i, dst[i], before[i]+src[i])
			}
		}
		SubInts(dst, src)
		for i := range dst {
			if dst[i] != before[i] {
				t.Fatalf("n %d: element %d after adding and subtracting: got %d, want %d", n, i, dst[i], before[i])
			}
		}
		dstCheck()
		srcCheck()
	}
}

// checkHead compares FoldedHead with a float64 sum of the same terms.
func checkHead(t *testing.T, random *rand.Rand, n int) {
	t.Helper()
	sums, check := guardedInts(t, random, n)
	extra, _ := guardedInts(t, random, n)
	weights := func() []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(random.NormFloat64())
		}
		return w
	}
	w := FoldedWeights{Scalars: [3][]float32{weights(), weights(), weights()}}
	out := weights()
	scalars := [3]float32{float32(random.NormFloat64()), float32(random.NormFloat64()), float32(random.NormFloat64())}
	const quantum = 1.0 / (1 << 22)
	want, size := 0.0, 0.0
	for i := range sums {
		z := float64(sums[i]+extra[i]) * quantum
		terms := math.Abs(z)
		for k, s := range scalars {
			z += float64(s) * float64(w.Scalars[k][i])
			terms += math.Abs(float64(s) * float64(w.Scalars[k][i]))
		}
		want += float64(out[i]) * max(0, z)
		size += math.Abs(float64(out[i])) * terms
	}
	got := float64(FoldedHead(sums, extra, quantum, &scalars, &w, out))
	if bound := size * float64(n+6) / (1 << 24); math.Abs(got-want) > bound {
		t.Errorf("%d units: got %v, want %v within %v", n, got, want, bound)
	}
	check()
}

func TestFoldedHead(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for n := IntLanes; n <= 160; n += IntLanes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			for range 50 {
				checkHead(t, random, n)
			}
		})
	}
}

func FuzzFoldedHead(f *testing.F) {
	f.Add(uint64(1), uint8(8))
	f.Add(uint64(2), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, blocks uint8) {
		checkHead(t, rand.New(rand.NewPCG(seed, 0)), IntLanes*(1+int(blocks)%32))
	})
}

func BenchmarkFoldedHead(b *testing.B) {
	random := rand.New(rand.NewPCG(3, 3))
	const n = 64
	sums, _ := guardedInts(b, random, n)
	extra, _ := guardedInts(b, random, n)
	w := FoldedWeights{Scalars: [3][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}}
	out := make([]float32, n)
	scalars := [3]float32{1, 2, 3}
	for b.Loop() {
		FoldedHead(sums, extra, 1e-6, &scalars, &w, out)
	}
}
