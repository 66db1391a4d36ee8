package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// share lets the sets of a batch hold rows out of a few, often the same.
func share(random *rand.Rand, c SetConfig, in Sets, rows int) Sets {
	in.Rows = make([]int32, in.Offsets[in.Len()])
	for i := range in.Rows {
		in.Rows[i] = random.Int32N(int32(rows))
	}
	in.X = normal(random, rows*c.In)
	if in.Scale != nil {
		in.Scale = make([]float32, rows)
		for i := range in.Scale {
			in.Scale[i] = random.Float32() + 0.1
		}
	}
	return in
}

// expand writes out every member's row: the meaning of Rows.
func expand(c SetConfig, in Sets) Sets {
	out := Sets{Offsets: in.Offsets, Scalars: in.Scalars}
	for _, row := range in.Rows {
		out.X = append(out.X, in.X[int(row)*c.In:(int(row)+1)*c.In]...)
		if in.Scale != nil {
			out.Scale = append(out.Scale, in.Scale[row])
		}
	}
	return out
}

var sharedConfigs = append([]SetConfig{
	{In: 20, Hidden: 128, Embed: 32, Head: 64, Out: 1, Biases: true}, // the paper's
	{In: 16, Hidden: 16, Embed: 16, Scalars: 3, Head: 16, Out: 2},
}, setConfigs...)

func TestSharedRows(t *testing.T) {
	for i, c := range sharedConfigs {
		for _, scaled := range []bool{false, true} {
			for _, rows := range []int{1, 13, 500} {
				what := fmt.Sprintf("config %d scaled %v, %d rows", i, scaled, rows)
				random := rand.New(rand.NewPCG(uint64(i), 21))
				net := newSet(t, c, uint64(i))
				in := share(random, c, randomSets(random, c, 60, 12, scaled), rows).Slice(2, 55)
				plain := expand(c, in)
				// Random factors would let gradients cancel, so the loss is a sum of squares.
				loss := squares(c.Out, func(item int) float32 { return float32(item % 3) })

				var ws SetWorkspace
				out, dout := make([]float32, in.Len()*c.Out), make([]float32, in.Len()*c.Out)
				net.Forward(&ws, in, out)
				near(t, what, out, oracleSets(c, byName(net.Params()), plain))

				loss(0, in.Len(), out, dout)
				grad := make([]float32, len(net.Weights()))
				net.Backward(&ws, in, dout, grad)
				var plainWS SetWorkspace
				want := make([]float32, len(grad))
				net.Forward(&plainWS, plain, out)
				loss(0, in.Len(), out, dout)
				net.Backward(&plainWS, plain, dout, want)
				nearScaled(t, what+", gradient", grad, want)

				for _, parts := range []int{1, 4, 70} {
					gotLoss, got := NewSetTrainer(net, parts, 2).Gradient(in, loss)
					wantLoss, want := NewSetTrainer(net, parts, 1).Gradient(plain, loss)
					nearScaled(t, fmt.Sprintf("%s, %d parts", what, parts), got, want)
					if math.Abs(gotLoss-wantLoss) > 1e-5*wantLoss {
						t.Fatalf("%s, %d parts: got loss %v, want %v", what, parts, gotLoss, wantLoss)
					}
				}
			}
		}
	}
}

// nearScaled allows for a relative error of the largest element: sums of many
// terms of both signs keep no more.
func nearScaled(t *testing.T, what string, got, want []float32) {
	t.Helper()
	var size float64
	for _, w := range want {
		size = max(size, math.Abs(float64(w)))
	}
	for i, g := range got {
		if !(math.Abs(float64(g)-float64(want[i])) <= tolerance*size) {
			t.Fatalf("%s: element %d: got %v, want %v", what, i, g, want[i])
		}
	}
}

func TestSharedGradient(t *testing.T) {
	for i, c := range []SetConfig{
		{In: 6, Hidden: 16, Embed: 7, Scalars: 1, Head: 16, Out: 2, Biases: true},
		{In: 16, Hidden: 5, Embed: 32, Head: 9, Out: 1, Biases: true},
	} {
		for _, scaled := range []bool{false, true} {
			random := rand.New(rand.NewPCG(uint64(i), 22))
			net := newSet(t, c, uint64(i)+10)
			in := share(random, c, randomSets(random, c, 12, 5, scaled), 9)
			plain := expand(c, in)
			loss := func(tensors map[string][]float64) (sum float64) {
				for _, y := range oracleSets(c, tensors, plain) {
					sum += (y - 1) * (y - 1) / 2
				}
				return sum
			}
			_, grad := NewSetTrainer(net, 3, 2).Gradient(in, squares(c.Out, func(int) float32 { return 1 }))
			checkGradient(t, fmt.Sprintf("config %d scaled %v", i, scaled), net.Params(), net.Named(grad), loss)
		}
	}
}

// A gathered batch holds each row once, and gives what the sets give.
func TestSharedGather(t *testing.T) {
	c := setConfigs[0]
	random := rand.New(rand.NewPCG(3, 23))
	net := newSet(t, c, 3)
	for _, scaled := range []bool{false, true} {
		in := share(random, c, randomSets(random, c, 12, 6, scaled), 10)
		out := make([]float32, in.Len()*c.Out)
		var ws SetWorkspace
		net.Forward(&ws, in, out)
		var batch Sets
		for range 5 {
			order := random.Perm(in.Len())[:4]
			in.Gather(&batch, c.In, order)
			distinct := map[int32]bool{}
			for _, g := range order {
				for _, row := range in.Rows[in.Offsets[g]:in.Offsets[g+1]] {
					distinct[row] = true
				}
			}
			if got, want := len(batch.X)/c.In, len(distinct); got != want {
				t.Fatalf("sets %v: got %d rows, want %d", order, got, want)
			}
			got := make([]float32, len(order)*c.Out)
			net.Forward(&ws, batch, got)
			for i, g := range order {
				near(t, fmt.Sprint("set ", g), got[i*c.Out:(i+1)*c.Out], widen(out[g*c.Out:(g+1)*c.Out]))
			}
		}
		plain := expand(c, in)
		plain.Gather(&batch, c.In, []int{1, 2})
		if batch.Rows != nil {
			t.Fatal("a batch of sets that share nothing has Rows")
		}
	}
}

func TestSharedSameBytesForAnyWorkers(t *testing.T) {
	c := sharedConfigs[0]
	random := rand.New(rand.NewPCG(1, 24))
	in := share(random, c, randomSets(random, c, 200, 12, false), 300)
	train := func(workers int) []float32 {
		net := newSet(t, c, 4)
		trainer, adam := NewSetTrainer(net, 8, workers), NewAdam(1e-2)
		for range 10 {
			trainer.Step(in, adam, squares(c.Out, func(int) float32 { return 3 }))
		}
		return net.Weights()
	}
	want := train(1)
	for _, workers := range []int{2, 3, 8, 40} {
		if !slices.Equal(train(workers), want) {
			t.Errorf("%d workers: got other weights than 1 worker", workers)
		}
	}
}

func TestWrongRowsPanic(t *testing.T) {
	net := mustSet(t, SetConfig{In: 2, Hidden: 3, Embed: 3, Head: 3, Out: 1})
	for name, in := range map[string]Sets{
		"a row beyond X":     {X: make([]float32, 4), Rows: []int32{0, 2}, Offsets: []int32{0, 2}},
		"a row below zero":   {X: make([]float32, 4), Rows: []int32{-1, 0}, Offsets: []int32{0, 2}},
		"a member too much":  {X: make([]float32, 4), Rows: []int32{0}, Offsets: []int32{0, 2}},
		"a Scale too short":  {X: make([]float32, 4), Scale: make([]float32, 1), Rows: []int32{0}, Offsets: []int32{0, 1}},
		"offsets that fall":  {X: make([]float32, 4), Rows: []int32{0, 0}, Offsets: []int32{1, 0}},
		"members and no row": {Rows: []int32{0}, Offsets: []int32{0, 1}},
	} {
		func() {
			defer func() {
				if message, _ := recover().(string); !strings.HasPrefix(message, "nn: ") {
					t.Errorf("%s: got panic %q, want one with the prefix nn:", name, message)
				}
			}()
			net.Forward(&SetWorkspace{}, in, make([]float32, in.Len()))
		}()
	}
}
