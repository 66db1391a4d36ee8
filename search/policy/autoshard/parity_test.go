package autoshard

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/search/policy"
)

// recorded holds numbers that were recorded while the published prototype AutoShard
// ran; testdata/README.md says which. The tolerances are those that a second
// implementation, in float64, needed, with some room.
type recorded struct {
	Means, Deviations []float64
	Tasks             []struct {
		ID            string
		Devices       int
		Tables        [][]float64 // dim, rows, pooling factor and the histogram
		Features      [][]float32
		Single, Costs []float64
		Order         []int32
		Steps         []struct {
			Table, Chosen int
			Share, Value  float64
			Load          [][]float64
			Logits        []float64
			Tied          []int
			H, C          [][]float64 // by layer
		}
		Placement []int32
		Zero      float64
		Reward    *float64
		Cap       float64
	}
	Groups struct {
		Task    string
		Members [][]int32
		Costs   []float64
	}
	Traces []struct {
		Steps, Sequences, Devices                                 int
		Clip_rho, Clip_pg                                         float64
		Actor, Learner                                            [][][]float64
		Actions                                                   [][]int
		Rewards, Values, Discounts, Log_rhos, Targets, Advantages [][]float64
		Bootstrap                                                 []float64
	}
	Learner struct {
		Steps, Sequences, Devices   int
		H, C, Last_h, Last_c        [][][]float32 // layer, sequence, cell
		Current, Share              [][][]float32
		Counts                      [][][]int
		Held                        [][][][]float32
		Load                        [][][][]float32
		Done                        [][]bool
		Reward                      [][]float32
		Action                      [][]int
		Actor_logits                [][][]float32
		Logits                      [][][]float64
		Values, Targets, Advantages [][]float64
		Losses                      struct{ Total, Policy, Baseline, Entropy float64 }
		Norm, Rate                  float64
		Norms                       map[string]float64
		Gradients                   map[string][]float64
		Gradients_first             map[string][]float64
		Weights_first               map[string][]float64
		Cost                        struct {
			Rate, Loss, Norm float64
			Counts           []int
			Measured         []float32
			Tables           [][][]float32
			Predicted        []float64
			Norms            map[string]float64
			Gradients_first  map[string][]float64
			Weights_first    map[string][]float64
		}
	}
}

const (
	costTolerance   = 2e-5 // of costs up to 15, and of logits
	stateTolerance  = 5e-6
	lossTolerance   = 1e-5
	targetTolerance = 1e-5 // relative to the largest value
)

func unzip(t testing.TB, name string) []byte {
	t.Helper()
	file := must.Get(os.Open("testdata/" + name))(t)
	defer file.Close()
	z := must.Get(gzip.NewReader(file))(t)
	return must.Get(io.ReadAll(z))(t)
}

func record(t testing.TB) *recorded {
	t.Helper()
	r := &recorded{}
	must.Do(t, json.NewDecoder(bytes.NewReader(unzip(t, "recorded.json.gz"))).Decode(r))
	return r
}

// prototypeNet returns the prototype's net. The file holds the first bytes of all
// weights, then the second bytes, and so on, in the order of the tensors.
func prototypeNet(t testing.TB) *Net {
	t.Helper()
	content := unzip(t, "weights.gz")
	net, n := New(), len(content)/4
	next := 0
	for _, p := range net.Nets().Tensors() {
		for i := range p.Data {
			b := []byte{content[next], content[n+next], content[2*n+next], content[3*n+next]}
			p.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
			next++
		}
	}
	if next != n {
		t.Fatalf("got weights of nets that hold %d, want %d", next, n)
	}
	return net
}

// ourName is the name of a tensor of the prototype.
func ourName(t testing.TB, name string) string {
	t.Helper()
	if strings.HasPrefix(name, "core.") {
		return name
	}
	var layer int
	var tensor string
	letter, rest, _ := strings.Cut(name, "_fc_")
	if _, err := fmt.Sscanf(strings.ReplaceAll(rest, ".", " "), "%d %s", &layer, &tensor); err != nil {
		t.Fatal(name, err)
	}
	net := map[string]string{"t": "table", "s": "share", "a": "load", "p": "choice", "b": "value", "c": "cost"}[letter]
	return fmt.Sprintf("%s.%d.%s", net, 2*layer, tensor)
}

func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Fatalf("%s: got %v, want %v within %v", what, got, want, tolerance)
	}
}

func nearList[A, B float32 | float64](t testing.TB, what string, got []A, want []B, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		near(t, fmt.Sprintf("%s [%d]", what, i), float64(got[i]), float64(want[i]), tolerance)
	}
}

// withZeroRow puts the features of the tables behind the zero row.
func withZeroRow(rows [][]float32) []float32 {
	x := make([]float32, policy.Features)
	for _, row := range rows {
		x = append(x, row...)
	}
	return x
}

// single lists pieces of one table each, from row 1 on.
func single(tables int) [][]int32 {
	pieces := make([][]int32, tables)
	for i := range pieces {
		pieces[i] = []int32{int32(i + 1)}
	}
	return pieces
}

func (r *recorded) gib(task int) []float64 {
	var sizes []float64
	for _, table := range r.Tasks[task].Tables {
		sizes = append(sizes, gib(policy.Vector{policy.Size: table[0] * table[1]}))
	}
	return sizes
}

// Every step of the recorded greedy rollouts: order, inputs, states of the LSTM,
// logits, expected returns and choices.
func TestPrototypeRollouts(t *testing.T) {
	r, net := record(t), prototypeNet(t)
	for k, task := range r.Tasks {
		var ws Workspace
		x := withZeroRow(task.Features)
		vectors := net.Embed(&ws, x, nil)
		var lists Lists
		for i := range task.Tables {
			lists.Add(int32(i + 1))
		}
		lists.Add(0)
		costs := make([]float32, lists.Len())
		net.Costs(&ws, vectors, &lists, costs)
		nearList(t, task.ID+": cost of a table", costs, append(task.Single, task.Zero), costTolerance)

		episode := NewEpisode(net, &ws, vectors, single(len(task.Tables)), r.gib(k), task.Devices)
		if !slices.Equal(episode.Order(), task.Order) {
			t.Fatalf("%s: got order %v, want %v", task.ID, episode.Order(), task.Order)
		}
		var all []int32
		for d := range task.Devices {
			all = append(all, int32(d))
		}
		state := net.Core.NewState(1)
		for i, step := range task.Steps {
			what := fmt.Sprintf("%s, step %d", task.ID, i)
			frames := Frames{Steps: 1, Sequences: 1, Devices: task.Devices}
			episode.Observe(&frames)
			near(t, what+": share placed", float64(frames.Share[0]), step.Share, 1e-7)
			nearList(t, what+": load", frames.Load, slices.Concat(step.Load...), costTolerance)
			logits, value := make([]float32, task.Devices), make([]float32, 1)
			net.Forward(&ws, vectors, &frames, state, logits, value)
			nearList(t, what+": logits", logits, step.Logits, costTolerance)
			near(t, what+": expected return", float64(value[0]), step.Value, costTolerance)
			if step.H != nil {
				nearList(t, what+": outputs of the cells", state.H, slices.Concat(step.H...), stateTolerance)
				nearList(t, what+": cells", state.C, slices.Concat(step.C...), stateTolerance)
			}
			// Empty devices have equal logits, and the prototype took the first of them.
			if got := int(policy.Choose(logits, all, nil)); got != step.Chosen && !slices.Contains(step.Tied, got) {
				t.Fatalf("%s: got device %d, want %d or one of %v", what, got, step.Chosen, step.Tied)
			}
			episode.Place(net, &ws, vectors, step.Chosen)
		}
		if !episode.Over() || !slices.Equal(episode.Placement(), task.Placement) {
			t.Fatalf("%s: got placement %v, want %v", task.ID, episode.Placement(), task.Placement)
		}
		for d, want := range task.Costs {
			near(t, fmt.Sprintf("%s: cost of device %d", task.ID, d), float64(episode.load[2*d]), want, costTolerance)
		}
		if task.Reward != nil {
			near(t, task.ID+": reward", Overflow(task.Cap, slices.Max(episode.heldG)), *task.Reward, 1e-6)
		}
	}
}

func TestPrototypeScaling(t *testing.T) {
	r := record(t)
	scaling := Scaling{Mean: [3]float64(r.Means), Deviation: [3]float64(r.Deviations)}
	for _, task := range r.Tasks {
		for i, table := range task.Tables {
			v := policy.Vector{policy.Dim: table[0], policy.Rows: table[1], policy.Pooling: table[2], policy.Size: table[0] * table[1]}
			copy(v[policy.Bins:], table[3:])
			got := scaling.Of(v)
			// The constants have 9 digits, and their error is the largest here.
			nearList(t, fmt.Sprintf("%s, table %d", task.ID, i), got[:], task.Features[i], 1.5e-6)
		}
	}
}

func TestPrototypeCosts(t *testing.T) {
	r, net := record(t), prototypeNet(t)
	for _, task := range r.Tasks {
		if task.ID != r.Groups.Task {
			continue
		}
		var ws Workspace
		x := withZeroRow(task.Features)
		vectors := net.Embed(&ws, x, nil)
		var lists Lists
		for _, members := range r.Groups.Members {
			for i := range members {
				members[i]++ // row 0 is the zero row
			}
			lists.Add(members...)
		}
		costs := make([]float32, lists.Len())
		net.Costs(&ws, vectors, &lists, costs)
		nearList(t, "costs", costs, r.Groups.Costs, costTolerance)
		return
	}
	t.Fatal("no such task")
}

func TestPrototypeVTrace(t *testing.T) {
	for k, c := range record(t).Traces {
		what := fmt.Sprintf("case %d", k)
		trace := Trace{
			Sequences: c.Sequences, ClipRho: c.Clip_rho, ClipPG: c.Clip_pg,
			Rewards: slices.Concat(c.Rewards...), Discounts: slices.Concat(c.Discounts...),
			Values: slices.Concat(c.Values...), Bootstrap: c.Bootstrap,
		}
		for step := range c.Steps {
			for sequence, action := range c.Actions[step] {
				actor, learner := c.Actor[step][sequence], c.Learner[step][sequence]
				logProbabilities(actor)
				logProbabilities(learner)
				trace.LogRhos = append(trace.LogRhos, learner[action]-actor[action])
			}
		}
		nearList(t, what+": log rho", trace.LogRhos, slices.Concat(c.Log_rhos...), lossTolerance)
		vs, advantages := trace.Targets()
		nearLargest(t, what+": targets", vs, slices.Concat(c.Targets...))
		nearLargest(t, what+": advantages", advantages, slices.Concat(c.Advantages...))
	}
}

func nearLargest(t testing.TB, what string, got, want []float64) {
	t.Helper()
	var largest float64
	for _, v := range want {
		largest = max(largest, math.Abs(v))
	}
	nearList(t, what, got, want, targetTolerance*largest)
}

// unroll returns the recorded unroll, and the features of its tables.
func (r *recorded) unroll() (*Unroll, []float32) {
	l := &r.Learner
	u := &Unroll{Start: nn.LSTMState{H: flat(l.H), C: flat(l.C)}}
	u.Frames = Frames{Steps: l.Steps + 1, Sequences: l.Sequences, Devices: l.Devices}
	var x []float32
	rows := func(features [][]float32) []int32 {
		var list []int32
		for _, row := range features {
			list = append(list, int32(len(x)/policy.Features))
			x = append(x, row...)
		}
		return list
	}
	for step := range l.Steps + 1 {
		for b := range l.Sequences {
			u.Frames.Current.Add(rows(l.Current[step][b : b+1])...)
			held := rows(l.Held[step][b]) // with the zero rows
			for _, count := range l.Counts[step][b] {
				u.Frames.Held.Add(held[:count]...)
				held = held[count:]
			}
			u.Frames.Share = append(u.Frames.Share, l.Share[step][b]...)
			u.Frames.Load = append(u.Frames.Load, slices.Concat(l.Load[step][b]...)...)
			u.Frames.Reset = append(u.Frames.Reset, l.Done[step][b])
			if step == 0 {
				continue
			}
			// What followed the action of a step is recorded one step later.
			u.Actions = append(u.Actions, l.Action[step][b])
			u.Logits = append(u.Logits, l.Actor_logits[step][b]...)
			u.Rewards = append(u.Rewards, l.Reward[step][b])
			u.Last = append(u.Last, l.Done[step][b])
		}
	}
	return u, x
}

func flat[T any](x [][][]T) []T {
	var all []T
	for _, y := range x {
		all = append(all, slices.Concat(y...)...)
	}
	return all
}

// One learner step off policy, with episodes that end inside the unroll, then one cost
// step with the same optimizer.
func TestPrototypeLearnerStep(t *testing.T) {
	r, net := record(t), prototypeNet(t)
	want := &r.Learner
	u, x := r.unroll()
	learner, optimizer := NewLearner(net), policy.NewOptimizer(net.Nets())
	losses, grad := learner.Policy(x, u)
	nearList(t, "logits", learner.logits, flat(want.Logits), costTolerance)
	nearList(t, "expected returns", learner.values, slices.Concat(want.Values...), costTolerance)
	near(t, "policy loss", losses.Policy, want.Losses.Policy, lossTolerance)
	near(t, "value loss", losses.Value, want.Losses.Baseline, lossTolerance)
	near(t, "entropy loss", losses.Entropy, want.Losses.Entropy, lossTolerance)
	near(t, "loss", losses.Total(), want.Losses.Total, lossTolerance)
	checkGradients(t, net, grad, want.Norms, want.Gradients, 2e-6)
	checkGradients(t, net, grad, nil, want.Gradients_first, 2e-6)

	state := nn.LSTMState{H: flat(want.H), C: flat(want.C)}
	n := u.Frames.Len()
	net.Forward(&Workspace{}, learner.vectors, &u.Frames, state, make([]float32, n*want.Devices), make([]float32, n))
	nearList(t, "last outputs of the cells", state.H, flat(want.Last_h), stateTolerance)
	nearList(t, "last cells", state.C, flat(want.Last_c), stateTolerance)

	if norm := nn.ClipNorm(40, grad...); math.Abs(norm/want.Norm-1) > 5e-5 {
		t.Fatalf("norm: got %v, want %v", norm, want.Norm)
	}
	optimizer.Step(want.Rate, grad)
	checkWeights(t, net, grad, want.Gradients_first, want.Weights_first, 1e-4, 2e-7)

	cost := &want.Cost
	x = x[:0]
	var held Lists
	for i, tables := range cost.Tables {
		var rows []int32
		for _, row := range tables[:cost.Counts[i]] {
			rows = append(rows, int32(len(x)/policy.Features))
			x = append(x, row...)
		}
		held.Add(rows...)
	}
	loss, grad := learner.Cost(x, &held, cost.Measured)
	nearList(t, "predicted costs", learner.predicted, cost.Predicted, costTolerance)
	near(t, "loss of the costs", loss, cost.Loss, lossTolerance)
	largest := 0.0
	for _, values := range cost.Gradients_first {
		for _, v := range values {
			largest = max(largest, math.Abs(v))
		}
	}
	checkGradients(t, net, grad, cost.Norms, cost.Gradients_first, 1e-5*largest)
	optimizer.Step(cost.Rate, grad)
	checkWeights(t, net, grad, cost.Gradients_first, cost.Weights_first, 1e-3, 2e-5)
}

// named returns the tensors of a gradient. A net without a gradient has none.
func named(net *Net, grad [][]float32) map[string][]float32 {
	tensors := map[string][]float32{}
	for _, p := range net.Nets().Named(grad) {
		tensors[p.Name] = p.Data
	}
	return tensors
}

// checkGradients compares gradients with the first values of recorded ones, and their
// norms.
func checkGradients(t *testing.T, net *Net, grad [][]float32, norms map[string]float64, want map[string][]float64, tolerance float64) {
	t.Helper()
	tensors := named(net, grad)
	if norms != nil && len(norms) != len(tensors) {
		t.Errorf("got gradients of %d tensors, want %d", len(tensors), len(norms))
	}
	for name, norm := range norms {
		var square float64
		for _, v := range tensors[ourName(t, name)] {
			square += float64(v) * float64(v)
		}
		near(t, "norm of the gradient of "+name, math.Sqrt(square), norm, 5e-5*norm+2e-7)
	}
	for name, values := range want {
		nearList(t, "gradient of "+name, tensors[ourName(t, name)][:len(values)], values, tolerance)
	}
}

// checkWeights compares weights after a step of Adam with recorded ones. Where the
// recorded gradient is at most least, Adam makes a full step of its rounding, and only
// weights of no gradient at all, those of dead units, are compared.
func checkWeights(t *testing.T, net *Net, grad [][]float32, grads, want map[string][]float64, least, tolerance float64) {
	t.Helper()
	own := named(net, grad)
	tensors := map[string][]float32{}
	for _, p := range net.Nets().Tensors() {
		tensors[p.Name] = p.Data
	}
	compared := 0
	for name, values := range want {
		for i, value := range values {
			at := ourName(t, name)
			if g := math.Abs(grads[name][i]); g > least || (g == 0 && own[at][i] == 0) {
				near(t, fmt.Sprintf("%s [%d] after Adam", name, i), float64(tensors[at][i]), value, tolerance)
				compared++
			}
		}
	}
	if compared < 100 {
		t.Fatalf("compared %d weights", compared)
	}
}
