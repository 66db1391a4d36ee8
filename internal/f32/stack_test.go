package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// checkStack compares a stack with float64 sums over all inputs, layer by
// layer: each from the values that the stack itself found before.
func checkStack(t *testing.T, random *rand.Rand, sizes ...int) {
	t.Helper()
	var layers []*Columns
	var weights, biases [][]float32
	var checks []func()
	for i, in := range sizes[:len(sizes)-1] {
		out := sizes[i+1]
		w, checkW := guardedFloats(t, random, in*out)
		b, checkB := guardedFloats(t, random, out)
		weights, biases, checks = append(weights, w), append(biases, b), append(checks, checkW, checkB)
		layers = append(layers, PackColumns(out, in, w, b))
	}
	s := NewStack(layers...)
	for range 2 { // the second time over what the first left behind
		for i := range s.Input() {
			s.Input()[i] = float32(random.NormFloat64())
			if random.IntN(4) == 0 {
				s.Input()[i] = 0
			}
		}
		s.Run()
		for l := range layers {
			x, y := s.vectors[l], s.vectors[l+1]
			for j, v := range y.values[:y.n] {
				sum, size := float64(biases[l][j]), math.Abs(float64(biases[l][j]))
				for i, xi := range x.values[:x.n] {
					term := float64(weights[l][j*x.n+i]) * float64(xi)
					sum, size = sum+term, size+math.Abs(term)
				}
				if l < len(layers)-1 {
					sum = max(0, sum)
				}
				if bound := size * float64(x.n+8) / (1 << 24); !(math.Abs(float64(v)-sum) <= bound) {
					t.Errorf("sizes %v, layer %d, output %d: got %v, want %v within %v", sizes, l, j, v, sum, bound)
				}
			}
			for i, v := range y.values[y.n:] {
				if v != 0 {
					t.Errorf("sizes %v, layer %d: element %d behind the vector: got %v, want 0", sizes, l, i, v)
				}
			}
		}
	}
	for _, check := range checks {
		check()
	}
}

func TestStack(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for in := 1; in <= 20; in++ {
		for middle := 1; middle <= 40; middle++ {
			checkStack(t, random, in, middle, 1+(in+middle)%19)
		}
	}
	for out := 1; out <= 140; out++ {
		checkStack(t, random, 100, out)
		checkStack(t, random, 3, 97, out)
	}
	for middle := 60; middle <= 200; middle++ {
		checkStack(t, random, 1+middle%33, middle, 1+middle%70, 100, 5)
	}
	checkStack(t, random, 8, 128, 64, 32, 16, 4)
	checkStack(t, random, 20, 128, 32, 64)
}

// A layer without any input above zero yields its biases.
func TestStackNothingActive(t *testing.T) {
	const long = 2 * listedFrom
	bias := make([]float32, long)
	for i := range bias {
		bias[i] = -1
	}
	s := NewStack(PackColumns(long, 1, make([]float32, long), bias), PackColumns(2, long, make([]float32, 2*long), []float32{7, -8}))
	if got := s.Run(); got[0] != 7 || got[1] != -8 {
		t.Errorf("got %v, want [7 -8]", got)
	}
}

func TestStackRefuses(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("2 outputs for 3 inputs: got no panic")
		}
	}()
	NewStack(PackColumns(2, 1, make([]float32, 2), make([]float32, 2)), PackColumns(1, 3, make([]float32, 3), make([]float32, 1)))
}

func FuzzStack(f *testing.F) {
	f.Add(uint64(1), uint8(8), uint8(128), uint8(64))
	f.Fuzz(func(t *testing.T, seed uint64, in, middle, out uint8) {
		checkStack(t, rand.New(rand.NewPCG(seed, 2)), 1+int(in), 1+int(middle), 1+int(out))
	})
}

// BenchmarkStack evaluates a comm net of the published prototype, at random
// weights, on 64 inputs in turn.
func BenchmarkStack(b *testing.B) {
	random := rand.New(rand.NewPCG(6, 6))
	sizes := []int{8, 128, 64, 32, 16, 4}
	var layers []*Columns
	for i, in := range sizes[:len(sizes)-1] {
		w, _ := guardedFloats(b, random, in*sizes[i+1])
		bias, _ := guardedFloats(b, random, sizes[i+1])
		layers = append(layers, PackColumns(sizes[i+1], in, w, bias))
	}
	s := NewStack(layers...)
	inputs, _ := guardedFloats(b, random, 64*8)
	i := 0
	for b.Loop() {
		copy(s.Input(), inputs[i%64*8:])
		s.Run()
		i++
	}
}
