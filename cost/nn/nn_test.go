package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
)

// The plain nets, in float64, straight from the formulas: the oracle.

func oracleLayer(tensors map[string][]float64, name string, x []float64, relu bool) []float64 {
	weight, bias := tensors[name+".weight"], tensors[name+".bias"]
	y := make([]float64, len(weight)/len(x))
	for o := range y {
		if bias != nil {
			y[o] = bias[o]
		}
		for i, v := range x {
			y[o] += weight[o*len(x)+i] * v
		}
		if relu {
			y[o] = max(0, y[o])
		}
	}
	return y
}

func oracleSets(c SetConfig, tensors map[string][]float64, in Sets) []float64 {
	var out []float64
	for g := range in.Len() {
		joined := make([]float64, c.Embed)
		for i := int(in.Offsets[g]); i < int(in.Offsets[g+1]); i++ {
			h := oracleLayer(tensors, "table_mlp.0", widen(in.X[i*c.In:(i+1)*c.In]), true)
			h = oracleLayer(tensors, "table_mlp.2", h, true)
			for j := range h {
				joined[j] += float64(in.Scale[i]) * h[j]
			}
		}
		joined = append(joined, widen(in.Scalars[g*c.Scalars:(g+1)*c.Scalars])...)
		y := oracleLayer(tensors, "head.2", oracleLayer(tensors, "head.0", joined, true), false)
		for j, v := range c.Fixed {
			y[j] += float64(v)
		}
		out = append(out, y...)
	}
	return out
}

func oracleMLP(layers int, rectified bool, tensors map[string][]float64, x []float64) []float64 {
	for i := range layers {
		x = oracleLayer(tensors, fmt.Sprint(2*i), x, rectified || i < layers-1)
	}
	return x
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func byName(tensors []Tensor) map[string][]float64 {
	m := map[string][]float64{}
	for _, t := range tensors {
		m[t.Name] = widen(t.Data)
	}
	return m
}

func normal(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

func randomSets(random *rand.Rand, c SetConfig, sets, most int) Sets {
	s := Sets{Offsets: []int32{0}}
	for range sets {
		s.Offsets = append(s.Offsets, s.Offsets[len(s.Offsets)-1]+int32(random.IntN(most+1)))
	}
	rows := int(s.Offsets[sets])
	s.X = normal(random, rows*c.In)
	s.Scale = make([]float32, rows)
	for i := range s.Scale {
		s.Scale[i] = random.Float32() + 0.1
	}
	s.Scalars = normal(random, sets*c.Scalars)
	return s
}

func newSet(t testing.TB, c SetConfig, seed uint64) *SetNet {
	t.Helper()
	net := must.Get(NewSetNet(c))(t)
	net.Init(seed)
	random := rand.New(rand.NewPCG(seed, 99))
	for _, p := range net.Params() {
		if strings.HasSuffix(p.Name, ".bias") {
			for i := range p.Data {
				p.Data[i] = float32(random.NormFloat64()) * 0.3 // so that a lost bias shows
			}
		}
	}
	return net
}

var setConfigs = []SetConfig{
	{In: 5, Hidden: 7, Embed: 6, Scalars: 2, Head: 9, Out: 2, Biases: true},
	{In: 5, Hidden: 7, Embed: 6, Scalars: 2, Head: 9, Out: 2},
	{In: 20, Hidden: 16, Embed: 32, Scalars: 0, Head: 16, Out: 1, Biases: true},
	{In: 1, Hidden: 1, Embed: 1, Scalars: 1, Head: 3, Out: 3, Biases: true, Fixed: []float32{0.5, -1, 2}},
}

// float32 sums of some tens of terms of size about 1 keep a relative error of a
// few 1e-6; near cancels, so the tolerance is relative to 1 + |want|.
const tolerance = 2e-5

func near(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d values, want %d", what, len(got), len(want))
	}
	for i, g := range got {
		if w := want[i]; !(math.Abs(float64(g)-w) <= tolerance*(1+math.Abs(w))) {
			t.Fatalf("%s: element %d: got %v, want %v", what, i, g, w)
		}
	}
}

func TestSetForward(t *testing.T) {
	for i, c := range setConfigs {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		net := newSet(t, c, uint64(i))
		in := randomSets(random, c, 40, 20) // more rows than a tile
		out := normal(random, in.Len()*c.Out)
		var ws SetWorkspace
		net.Forward(&ws, in, out)
		near(t, fmt.Sprintf("config %d", i), out, oracleSets(c, byName(net.Params()), in))

		// Slices and gathered batches give what the whole gives, with the same workspace.
		part := in.Slice(7, 19)
		got := make([]float32, part.Len()*c.Out)
		net.Forward(&ws, part, got)
		near(t, "slice", got, widen(out[7*c.Out:19*c.Out]))
		var batch Sets
		for range 3 {
			order := random.Perm(in.Len())[:12]
			in.Gather(&batch, c.In, order)
			net.Forward(&ws, batch, got)
			for i, g := range order {
				near(t, fmt.Sprint("set ", g), got[i*c.Out:(i+1)*c.Out], widen(out[g*c.Out:(g+1)*c.Out]))
			}
		}
	}
}

// checkGradient compares a gradient with central differences of the loss of an
// oracle in float64, where a step of 1e-6 leaves an error of about 1e-9. A
// weight whose step crosses the kink of a ReLU has no such difference: the two
// one-sided ones then disagree, and it is left out; few may be.
func checkGradient(t *testing.T, what string, params, grads []Tensor, loss func(map[string][]float64) float64) {
	t.Helper()
	tensors := byName(params)
	at := loss(tensors)
	const step = 1e-6
	skipped, total, moved := 0, 0, 0
	for k, p := range params {
		if grads[k].Name != p.Name || !slices.Equal(grads[k].Shape, p.Shape) {
			t.Fatalf("%s: gradient %d is %s %v, want %s %v", what, k, grads[k].Name, grads[k].Shape, p.Name, p.Shape)
		}
		values := tensors[p.Name]
		for i, v := range values {
			values[i] = v + step
			up := loss(tensors)
			values[i] = v - step
			down := loss(tensors)
			values[i] = v
			total++
			left, right := (at-down)/step, (up-at)/step
			if math.Abs(left-right) > 1e-3*(1+math.Abs(left)) {
				skipped++
				continue
			}
			got, want := float64(grads[k].Data[i]), (up-down)/(2*step)
			if want != 0 {
				moved++
			}
			if !(math.Abs(got-want) <= 1e-4*(1+math.Abs(want))) {
				t.Fatalf("%s: %s[%d]: got gradient %v, want %v", what, p.Name, i, got, want)
			}
		}
	}
	if skipped*20 > total || moved*3 < total {
		t.Fatalf("%s: of %d weights %d sit on a kink and %d matter: the check proves nothing", what, total, skipped, moved)
	}
}

func TestSetGradient(t *testing.T) {
	for i, c := range setConfigs[:3] {
		random := rand.New(rand.NewPCG(uint64(i), 5))
		net := newSet(t, c, uint64(i)+10)
		in := randomSets(random, c, 9, 4)
		if i == 0 {
			in = randomSets(random, c, 30, 18).Slice(3, 28) // more than a tile, and not from row 0
		}
		loss := func(tensors map[string][]float64) (sum float64) {
			for _, y := range oracleSets(c, tensors, in) {
				sum += (y - 1) * (y - 1) / 2
			}
			return sum
		}
		for _, parts := range []int{1, 4} {
			_, grad := NewSetTrainer(net, parts, 2).Gradient(in, squares(c.Out, func(int) float32 { return 1 }))
			checkGradient(t, fmt.Sprintf("config %d, %d parts", i, parts), net.Params(), net.stack.named(grad), loss)
		}
	}
}

func TestMLP(t *testing.T) {
	for i, c := range []struct {
		sizes     []int
		rectified bool
	}{
		{[]int{4, 3}, false},
		{[]int{5, 9, 2}, false},
		{[]int{6, 17, 8, 16, 3}, false},
		{[]int{4, 3}, true},
		{[]int{6, 17, 8, 16, 3}, true},
	} {
		sizes := c.sizes
		random := rand.New(rand.NewPCG(uint64(i), 6))
		net := must.Get(NewMLP(sizes...))(t)
		if c.rectified {
			net.RectifyLast()
		}
		net.Init(uint64(i))
		for _, p := range net.Params() {
			if strings.HasSuffix(p.Name, ".bias") {
				copy(p.Data, normal(random, len(p.Data)))
			}
		}
		const n = 11
		x := normal(random, n*net.In())
		predict := func(tensors map[string][]float64) (y []float64) {
			for r := range n {
				y = append(y, oracleMLP(len(sizes)-1, c.rectified, tensors, tensors["x"][r*net.In():(r+1)*net.In()])...)
			}
			return y
		}
		params := append(net.Params(), Tensor{"x", []int{n, net.In()}, x})
		out := normal(random, n*net.Out())
		var ws MLPWorkspace
		net.Forward(&ws, n, x, out)
		near(t, fmt.Sprint("MLP ", c), out, predict(byName(params)))

		loss := func(tensors map[string][]float64) (sum float64) {
			for _, y := range predict(tensors) {
				sum += y * y / 20
			}
			return sum
		}
		dout, grad := make([]float32, len(out)), make([]float32, len(net.Weights()))
		for j, y := range out {
			dout[j] = y / 10
		}
		dx := normal(random, len(x))
		net.BackwardInput(&ws, n, x, dout, grad, dx)
		grads := append(net.Named(grad), Tensor{"x", []int{n, net.In()}, dx})
		checkGradient(t, fmt.Sprint("MLP ", c), params, grads, loss)

		// Backward does the same but for the inputs.
		again := make([]float32, len(grad))
		net.Backward(&ws, n, x, dout, again)
		if !slices.Equal(again, grad) {
			t.Errorf("MLP %v: got another gradient from Backward than from BackwardInput", c)
		}
	}
}

// A frozen workspace predicts what others predict, also from another workspace that shares its
// weights, and sees new weights after the next Freeze.
func TestFreeze(t *testing.T) {
	net := must.Get(NewMLP(3, 8, 2))(t)
	net.Init(1)
	x, before, got := []float32{1, -2, 3}, make([]float32, 2), make([]float32, 2)
	var plain, frozen, shared MLPWorkspace
	net.Forward(&plain, 1, x, before)
	net.Freeze(&frozen)
	shared.Share(&frozen)
	for _, ws := range []*MLPWorkspace{&frozen, &shared} {
		if net.Forward(ws, 1, x, got); !slices.Equal(got, before) {
			t.Errorf("got %v from frozen weights, want %v", got, before)
		}
	}
	for i := range net.Params()[0].Data {
		net.Params()[0].Data[i] *= 2
	}
	if net.Forward(&plain, 1, x, got); slices.Equal(got, before) {
		t.Errorf("got %v from other weights, too", got)
	}
	net.Freeze(&frozen)
	after := slices.Clone(got)
	if net.Forward(&frozen, 1, x, got); !slices.Equal(got, after) {
		t.Errorf("got %v after the next Freeze, want %v", got, after)
	}
}

// The order of a set's elements does not matter, and without biases in the head
// the output scales with Scale and Scalars.
func TestSetProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := SetConfig{
			In: rapid.IntRange(1, 20).Draw(t, "in"), Hidden: rapid.IntRange(1, 40).Draw(t, "hidden"),
			Embed: rapid.IntRange(1, 40).Draw(t, "embed"), Scalars: rapid.IntRange(0, 5).Draw(t, "scalars"),
			Head: rapid.IntRange(1, 40).Draw(t, "head"), Out: rapid.IntRange(1, 4).Draw(t, "out"),
		}
		seed := rapid.Uint64().Draw(t, "seed")
		random := rand.New(rand.NewPCG(seed, 0))
		net := must.Get(NewSetNet(c))(t)
		net.Init(seed)
		in := randomSets(random, c, rapid.IntRange(1, 8).Draw(t, "sets"), 30)
		out := make([]float32, in.Len()*c.Out)
		var ws SetWorkspace
		net.Forward(&ws, in, out)
		var size float64
		for _, y := range out {
			size = max(size, math.Abs(float64(y)))
		}

		shuffled := Sets{X: slices.Clone(in.X), Scale: slices.Clone(in.Scale), Offsets: in.Offsets, Scalars: in.Scalars}
		for g := range in.Len() {
			lo := int(in.Offsets[g])
			for i, j := range random.Perm(int(in.Offsets[g+1]) - lo) {
				copy(shuffled.X[(lo+i)*c.In:(lo+i+1)*c.In], in.X[(lo+j)*c.In:(lo+j+1)*c.In])
				shuffled.Scale[lo+i] = in.Scale[lo+j]
			}
		}
		again := make([]float32, len(out))
		net.Forward(&ws, shuffled, again)
		for i := range out {
			if got, want := float64(again[i]), float64(out[i]); math.Abs(got-want) > tolerance*(1+size) {
				t.Fatalf("shuffled: output %d: got %v, want %v", i, got, want)
			}
		}

		// A power of two scales without rounding, so the bytes must match.
		const factor = 8
		scaled := Sets{X: in.X, Scale: slices.Clone(in.Scale), Offsets: in.Offsets, Scalars: slices.Clone(in.Scalars)}
		for _, x := range [][]float32{scaled.Scale, scaled.Scalars} {
			for i := range x {
				x[i] *= factor
			}
		}
		net.Forward(&ws, scaled, again)
		for i := range out {
			if got, want := again[i], factor*out[i]; got != want {
				t.Fatalf("scaled by %v: output %d: got %v, want %v", factor, i, got, want)
			}
		}
	})
}

func TestSameBytesForAnyWorkers(t *testing.T) {
	c := SetConfig{In: 10, Hidden: 32, Embed: 16, Scalars: 2, Head: 16, Out: 2, Biases: true}
	in := randomSets(rand.New(rand.NewPCG(1, 8)), c, 100, 20)
	train := func(workers int) ([]float32, float64) {
		net := newSet(t, c, 4)
		trainer := NewSetTrainer(net, 16, workers)
		adam := NewAdam(1e-2)
		var loss float64
		for range 20 {
			loss = trainer.Step(in, adam, squares(c.Out, func(int) float32 { return 3 }))
		}
		return net.Weights(), loss
	}
	want, wantLoss := train(1)
	for _, workers := range []int{2, 3, 8, 40} {
		got, loss := train(workers)
		if !slices.Equal(got, want) || loss != wantLoss {
			t.Errorf("%d workers: got other weights than 1 worker, loss %v, want %v", workers, loss, wantLoss)
		}
	}

	trainMLP := func(workers int) []float32 {
		net := must.Get(NewMLP(10, 20, 2))(t)
		net.Init(1)
		trainer := NewMLPTrainer(net, 7, workers)
		adam := NewAdam(1e-2)
		for range 20 {
			trainer.Step(50, in.X[:500], adam, squares(2, func(int) float32 { return 3 }))
		}
		return net.Weights()
	}
	for _, workers := range []int{2, 8} {
		if !slices.Equal(trainMLP(workers), trainMLP(1)) {
			t.Errorf("MLP, %d workers: got other weights than 1 worker", workers)
		}
	}
}

// squares is half the sum of squared differences from a target for each item.
func squares(width int, target func(item int) float32) LossFunc {
	return func(lo, hi int, out, dout []float32) (sum float64) {
		for i, y := range out {
			d := y - target(lo+i/width)
			dout[i] = d
			sum += float64(d) * float64(d) / 2
		}
		return sum
	}
}

// Adam against its definition in float64.
func TestAdam(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	const n = 19
	weights := normal(random, n)
	w, m, v := widen(weights), make([]float64, n), make([]float64, n)
	adam := NewAdam(0)
	for step := 1; step <= 50; step++ {
		adam.LR = 0.1 / float64(step)
		grad := normal(random, n)
		adam.Step(weights, grad)
		for i, g := range widen(grad) {
			m[i] = 0.9*m[i] + 0.1*g
			v[i] = 0.999*v[i] + 0.001*g*g
			mean, square := m[i]/(1-math.Pow(0.9, float64(step))), v[i]/(1-math.Pow(0.999, float64(step)))
			w[i] -= adam.LR * mean / (math.Sqrt(square) + 1e-8)
		}
		near(t, fmt.Sprint("step ", step), weights, w)
	}
}

func TestInit(t *testing.T) {
	c := SetConfig{In: 50, Hidden: 128, Embed: 32, Scalars: 4, Head: 64, Out: 2, Biases: true}
	a, b, other := must.Get(NewSetNet(c))(t), must.Get(NewSetNet(c))(t), must.Get(NewSetNet(c))(t)
	a.Init(1)
	b.Init(1)
	other.Init(2)
	if !slices.Equal(a.Weights(), b.Weights()) {
		t.Error("the same seed gave other weights")
	}
	if slices.Equal(a.Weights(), other.Weights()) {
		t.Error("another seed gave the same weights")
	}
	first := a.Params()[0]
	var square float64
	for _, v := range first.Data {
		square += float64(v) * float64(v)
	}
	// 6,400 draws: the deviation is known to about 1 %.
	if got, want := math.Sqrt(square/float64(len(first.Data))), math.Sqrt(2.0/50); math.Abs(got/want-1) > 0.05 {
		t.Errorf("deviation of %s: got %v, want %v", first.Name, got, want)
	}
}

func TestParams(t *testing.T) {
	describe := func(tensors []Tensor) string {
		var b strings.Builder
		for _, p := range tensors {
			fmt.Fprintf(&b, "%s %v %d\n", p.Name, p.Shape, len(p.Data))
		}
		return b.String()
	}
	homogeneous := must.Get(NewSetNet(SetConfig{In: 3, Hidden: 4, Embed: 5, Scalars: 2, Head: 6, Out: 1}))(t)
	if got, want := describe(homogeneous.Params()), `table_mlp.0.weight [4 3] 12
table_mlp.0.bias [4] 4
table_mlp.2.weight [5 4] 20
table_mlp.2.bias [5] 5
head.0.weight [6 7] 42
head.2.weight [1 6] 6
`; got != want {
		t.Errorf("set net: got\n%swant\n%s", got, want)
	}
	mlp := must.Get(NewMLP(3, 4, 2))(t)
	if got, want := describe(mlp.Params()), "0.weight [4 3] 12\n0.bias [4] 4\n2.weight [2 4] 8\n2.bias [2] 2\n"; got != want {
		t.Errorf("MLP: got\n%swant\n%s", got, want)
	}
	homogeneous.Params()[5].Data[3] = 7
	if weights := homogeneous.Weights(); weights[len(weights)-3] != 7 {
		t.Error("a tensor does not share memory with the net")
	}
}

func TestBadConfigs(t *testing.T) {
	_, err := NewSetNet(SetConfig{In: 0, Hidden: 1, Embed: -2, Scalars: -1, Head: 1 << 20, Out: 1, Fixed: []float32{1, 2}})
	for _, want := range []string{"In is 0", "Embed is -2", "Scalars is -1", "Head is 1048576", "Fixed holds 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("set net: got %v, want %q in it", err, want)
		}
	}
	for _, sizes := range [][]int{nil, {3}, {3, 0}, {-1, 2}} {
		if _, err := NewMLP(sizes...); err == nil {
			t.Errorf("MLP %v: got no error", sizes)
		}
	}
}

func TestWrongBatchesPanic(t *testing.T) {
	net := must.Get(NewSetNet(SetConfig{In: 2, Hidden: 3, Embed: 3, Scalars: 1, Head: 3, Out: 1}))(t)
	out := make([]float32, 1)
	for name, in := range map[string]Sets{
		"short X":         {X: make([]float32, 3), Offsets: []int32{0, 2}, Scalars: make([]float32, 1)},
		"short Scale":     {X: make([]float32, 4), Scale: make([]float32, 1), Offsets: []int32{0, 2}, Scalars: make([]float32, 1)},
		"no Scalars":      {X: make([]float32, 4), Scale: make([]float32, 2), Offsets: []int32{0, 2}},
		"falling offsets": {X: make([]float32, 4), Offsets: []int32{2, 0}, Scalars: make([]float32, 1)},
		"negative offset": {X: make([]float32, 4), Offsets: []int32{-1, 0}, Scalars: make([]float32, 1)},
	} {
		func() {
			defer func() {
				if message, _ := recover().(string); !strings.HasPrefix(message, "nn: ") {
					t.Errorf("%s: got panic %q, want one with the prefix nn:", name, message)
				}
			}()
			net.Forward(&SetWorkspace{}, in, out)
		}()
	}
}

func TestNoAllocations(t *testing.T) {
	c := SetConfig{In: 10, Hidden: 32, Embed: 16, Scalars: 2, Head: 16, Out: 2}
	net := newSet(t, c, 4)
	in := randomSets(rand.New(rand.NewPCG(1, 8)), c, 30, 20)
	out := make([]float32, 30*c.Out)
	var ws SetWorkspace
	forward := func() { net.Forward(&ws, in, out) }
	forward()
	if got := testing.AllocsPerRun(5, forward); got > 0 {
		t.Errorf("got %v allocations a forward, want 0", got)
	}
}
