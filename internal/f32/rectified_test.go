package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// checkRectified compares both heads with float64 sums of the same terms.
func checkRectified(t *testing.T, random *rand.Rand, units, rows, asked int) {
	t.Helper()
	sums, sumsCheck := guardedInts(t, random, units*rows)
	extra, extraCheck := guardedInts(t, random, units)
	list, listCheck := guardedInts(t, random, asked)
	for i := range list {
		list[i] = int32(random.IntN(rows))
	}
	weights, weightsCheck := guardedFloats(t, random, units)
	out, outCheck := guardedFloats(t, random, asked)
	want := func(row int, extra []int32) (sum, bound float64) {
		for i, v := range sums[row*units : (row+1)*units] {
			if extra != nil {
				v += extra[i]
			}
			term := float64(weights[i]) * float64(max(0, v))
			sum += term
			bound += math.Abs(term)
		}
		return sum, bound * float64(units+2) / (1 << 24)
	}
	for r := range rows {
		sum, bound := want(r, nil)
		if got := float64(RectifiedHead(sums[r*units:(r+1)*units], weights)); !(math.Abs(got-sum) <= bound) {
			t.Errorf("%d units, row %d: got %v, want %v within %v", units, r, got, sum, bound)
		}
	}
	RectifiedHeads(sums, list, extra, weights, out)
	for k, r := range list {
		sum, bound := want(int(r), extra)
		if got := float64(out[k]); !(math.Abs(got-sum) <= bound) {
			t.Errorf("%d units, %d asked, row %d with extra: got %v, want %v within %v", units, asked, r, got, sum, bound)
		}
		added := append([]int32(nil), sums[int(r)*units:(int(r)+1)*units]...)
		AddInts(added, extra)
		if single := RectifiedHead(added, weights); single != out[k] {
			t.Errorf("%d units, %d asked, row %d with extra: got %v, want %v as RectifiedHead", units, asked, r, out[k], single)
		}
	}
	for _, check := range []func(){sumsCheck, extraCheck, listCheck, weightsCheck, outCheck} {
		check()
	}
}

// guardedFloats is guarded with a check that names nothing.
func guardedFloats(t testing.TB, random *rand.Rand, n int) (values []float32, check func()) {
	values, named := guarded(t, random, n)
	return values, func() { named("slice") }
}

func TestRectifiedHeads(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for units := IntLanes; units <= 136; units += IntLanes {
		for asked := range 14 {
			checkRectified(t, random, units, 1+asked/2, asked)
		}
	}
}

func TestRectifiedHeadsRefusesRows(t *testing.T) {
	for _, row := range []int32{-1, 2} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("row %d of 2: got no panic", row)
				}
			}()
			RectifiedHeads(make([]int32, 16), []int32{row}, make([]int32, 8), make([]float32, 8), make([]float32, 1))
		}()
	}
}

func FuzzRectifiedHeads(f *testing.F) {
	f.Add(uint64(1), uint8(8), uint8(4), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, blocks, rows, asked uint8) {
		checkRectified(t, rand.New(rand.NewPCG(seed, 1)), IntLanes*(1+int(blocks)%24), 1+int(rows)%20, int(asked)%40)
	})
}

func BenchmarkRectifiedHead(b *testing.B) {
	random := rand.New(rand.NewPCG(6, 6))
	for _, devices := range []int{0, 4, 8, 64} {
		const n = 64
		sums, _ := guardedInts(b, random, n*max(1, devices))
		extra, _ := guardedInts(b, random, n)
		weights, _ := guardedFloats(b, random, n)
		rows, out := make([]int32, devices), make([]float32, devices)
		for i := range rows {
			rows[i] = int32(i)
		}
		if devices == 0 {
			b.Run("single", func(b *testing.B) {
				for b.Loop() {
					RectifiedHead(sums, weights)
				}
			})
			continue
		}
		b.Run(fmt.Sprintf("batch=%d", devices), func(b *testing.B) {
			for b.Loop() {
				RectifiedHeads(sums, rows, extra, weights, out)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*devices), "ns/head")
		})
	}
}
