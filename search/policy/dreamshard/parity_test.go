package dreamshard

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/search/policy"
)

// The tolerances are those that the numbers were recorded with: about eight times the
// differences between the prototype and a second implementation in float64.
const (
	tolerance       = 2e-5 // costs, logits
	lossTolerance   = 1e-5
	policyTolerance = 2e-6 // gradients of the policy
	costTolerance   = 1e-5 // gradients of the cost net, relative to the largest of the tensor
	normTolerance   = 5e-5
	firstStep       = 2e-7 // weights after the first step
	laterStep       = 2e-5
)

type recordedTask struct {
	ID      string  `json:"id"`
	Devices int     `json:"devices"`
	Memory  float64 `json:"max_memory_gib"`
	Tables  []struct {
		Dim     float64   `json:"dim"`
		Rows    float64   `json:"row"`
		Pooling float64   `json:"pooling_factor"`
		Bins    []float64 `json:"bins"`
	} `json:"tables"`
	Features [][]float64 `json:"features"`
}

type recordedRollout struct {
	Single  [][]float64 `json:"single_costs"`
	Order   []int32     `json:"order"`
	Steps   []recordedStep
	Devices [][]float64 `json:"dev_costs"`
	Overall float64
	Placed  []int32 `json:"placement"`
}

type recordedStep struct {
	Table     int32
	Legal     []int32
	Logits    []float64
	LogitsAll []float64 `json:"logits_all"`
	Chosen    int32
	Devices   [][]float64 `json:"dev_costs"`
	Tied      []int32
}

// thinned is every stride-th value of a tensor.
type thinned struct {
	Stride int
	Values []float64
}

type recordedTensor struct {
	Name   string
	Shape  []int
	Values []float32
}

func recorded[T any](t testing.TB, name string) (value T) {
	t.Helper()
	f := must.Get(os.Open("testdata/prototype/" + name + ".json.gz"))(t)
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	must.Do(t, json.NewDecoder(z).Decode(&value))
	return value
}

// names maps the prototype's layers to the parts of a Net.
var names = map[string]string{
	"table_fc": "cost.table", "forward_fc": "cost.forward", "communication_fc": "cost.communication",
	"backward_fc": "cost.backward", "overall_fc": "cost.overall",
	"rl_table_fc": "policy.table", "cost_fc": "policy.costs", "policy_net": "policy.logit",
}

// nameOf returns our name of a tensor of the prototype: "table_fc_1.bias" is "cost.table.2.bias".
func nameOf(theirs string) string {
	layer, kind, _ := strings.Cut(theirs, ".")
	number := "0"
	if i := strings.LastIndex(layer, "_"); layer[i+1:] == "0" || layer[i+1:] == "1" {
		number = map[string]string{"0": "0", "1": "2"}[layer[i+1:]]
		layer = layer[:i]
	}
	return names[layer] + "." + number + "." + kind
}

func recordedNet(t testing.TB) *Net {
	t.Helper()
	n := blank()
	file := recorded[struct{ Tensors []recordedTensor }](t, "weights")
	byName := map[string][]float32{}
	for _, tensor := range file.Tensors {
		byName[nameOf(tensor.Name)] = tensor.Values
	}
	for _, tensor := range n.Nets().Tensors() {
		if copy(tensor.Data, byName[tensor.Name]) != len(tensor.Data) {
			t.Fatalf("tensor %q is not recorded", tensor.Name)
		}
		delete(byName, tensor.Name)
	}
	if len(byName) > 0 {
		t.Fatalf("recorded tensors without a place: %d", len(byName))
	}
	return n
}

// task returns the tables of a recorded task, of fp16 weights.
func (r *recordedTask) task() *Task {
	tables := policy.Tables{Offsets: []int32{0}}
	for i, table := range r.Tables {
		v := policy.Vector{policy.Dim: table.Dim, policy.Rows: table.Rows, policy.Pooling: table.Pooling, policy.Size: table.Dim * table.Rows}
		copy(v[policy.Bins:], table.Bins)
		tables.Vectors = append(tables.Vectors, v)
		tables.Bytes = append(tables.Bytes, int64(2*table.Dim*table.Rows))
		tables.Offsets = append(tables.Offsets, int32(i+1))
	}
	return NewTask(tables)
}

func (r *recordedTask) budget() int64 { return int64(r.Memory * (1 << 30)) }

func recordedTasks(t testing.TB) map[string]recordedTask {
	t.Helper()
	tasks := map[string]recordedTask{}
	for _, task := range recorded[struct{ Tasks []recordedTask }](t, "tasks").Tasks {
		tasks[task.ID] = task
	}
	return tasks
}

func close32(t testing.TB, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d values, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= tolerance) {
			t.Fatalf("%s: value %d: got %v, want %v", what, i, got[i], w)
		}
	}
}

func TestFeaturesAsThePrototype(t *testing.T) {
	found := 0
	for id, r := range recordedTasks(t) {
		task := r.task()
		for i, want := range r.Features {
			row := int(task.of(int32(i))[0])
			close32(t, fmt.Sprintf("%s: table %d", id, i), task.x[row*policy.Features:(row+1)*policy.Features], want, 1e-6)
			found++
		}
	}
	if found != 40 {
		t.Errorf("got features of %d tables, want 40", found)
	}
}

// Greedy rollouts: the recorded choices are replayed, so that a tie that the prototype broke
// by the rounding of its matrix product does not matter; then the policy runs freely.
func TestRolloutsAsThePrototype(t *testing.T) {
	n := recordedNet(t)
	ready := n.freeze()
	tasks := recordedTasks(t)
	for id, want := range recorded[map[string]recordedRollout](t, "expected") {
		t.Run(id, func(t *testing.T) {
			of := tasks[id]
			task := of.task()
			r := ready.rollout(n, task, of.Devices, nil)
			alone := r.alone()
			for i, costs := range want.Single {
				close32(t, fmt.Sprint("table alone ", i), alone[i*Costs:(i+1)*Costs], costs, tolerance)
			}
			if order := r.order(); !slices.Equal(order, want.Order) {
				t.Fatalf("got order %v, want %v", order, want.Order)
			}
			used := make([]int64, of.Devices)
			for at := range want.Steps {
				s := &want.Steps[at]
				checkStep(t, r, s, at, roomFor(used, task.bytes[s.Table], of.budget()))
				r.put(s.Table, s.Chosen)
				used[s.Chosen] += task.bytes[s.Table]
			}
			for d, costs := range want.Devices {
				close32(t, fmt.Sprint("device ", d), r.cost(d), costs, tolerance)
			}
			close32(t, "overall", []float32{float32(r.overall())}, []float64{want.Overall}, tolerance)
			episode, ok := NewPolicy(n, nil).Actor(task, of.Devices, nil).Episode(of.budget(), nil)
			if !ok {
				t.Fatal("got no placement")
			}
			theirs := make([][]int32, of.Devices)
			for table, d := range want.Placed {
				theirs[d] = append(theirs[d], int32(table))
			}
			if got, want := partition(episode.Placement(of.Devices)), partition(theirs); got != want {
				t.Errorf("got placement %s, want %s", got, want)
			}
			if math.Abs(episode.Reward+want.Overall) > tolerance {
				t.Errorf("got reward %v, want %v", episode.Reward, -want.Overall)
			}
		})
	}
}

func roomFor(used []int64, bytes, budget int64) (room []int32) {
	for d := range used {
		if used[d]+bytes <= budget {
			room = append(room, int32(d))
		}
	}
	return room
}

func checkStep(t *testing.T, r *rollout, s *recordedStep, at int, room []int32) {
	t.Helper()
	if !slices.Equal(room, s.Legal) {
		t.Fatalf("step %d: got room on %v, want %v", at, room, s.Legal)
	}
	for d, costs := range s.Devices {
		close32(t, fmt.Sprintf("step %d: device %d", at, d), r.cost(d), costs, tolerance)
	}
	var logits []float32
	for _, d := range room {
		logits = append(logits, r.logits[d])
	}
	close32(t, fmt.Sprintf("step %d: logits", at), logits, s.Logits, tolerance)
	if s.LogitsAll != nil {
		close32(t, fmt.Sprintf("step %d: all logits", at), r.logits, s.LogitsAll, tolerance)
	}
	if got := policy.Choose(r.logits, room, nil); got != s.Chosen && !slices.Contains(s.Tied, got) {
		t.Fatalf("step %d: got device %d, want %d or one of %v", at, got, s.Chosen, s.Tied)
	}
}

// partition is a placement without the numbers of the devices.
func partition(held [][]int32) string {
	var all []string
	for _, pieces := range held {
		slices.Sort(pieces)
		all = append(all, fmt.Sprint(pieces))
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

type recordedUpdate struct {
	Actions [][]int32
	Rewards []float64            `json:"episode_rewards"`
	Returns []float64            `json:"normalised_returns"`
	Norms   map[string]float64   `json:"grad_norms"`
	Logits  [][][]float64        `json:"logits_all_devices"`
	Some    map[string][]float64 `json:"weights_after_some"`
	Grads   map[string]thinned   `json:"grads"`
	After   map[string]thinned   `json:"weights_after"`
	Loss    float64

	Draw    []int32              `json:"overall_draw"`
	Groups  []int32              `json:"kernel_draw"`
	Targets map[string][]float64 `json:"kernel_targets"`
	Losses  map[string]float64
}

// replay runs an episode with the recorded devices.
func replay(n *Net, task *Task, devices int, actions []int32) Episode {
	ready := n.freeze()
	r := ready.rollout(n, task, devices, nil)
	e := Episode{Pieces: r.order(), Devices: actions}
	copy(e.empty[:], r.cost(0))
	for i, d := range actions {
		r.put(e.Pieces[i], d)
		e.costs = append(e.costs, r.cost(int(d))...)
	}
	e.Reward = -r.overall()
	return e
}

func TestReinforceAsThePrototype(t *testing.T) {
	tasks := recordedTasks(t)
	for _, run := range recorded[[]struct {
		Task    string
		Entropy float64 `json:"entropy_weight"`
		Updates []recordedUpdate
	}](t, "reinforce") {
		n, of := recordedNet(t), tasks[run.Task]
		task, trainer := of.task(), NewPolicyTrainer(n)
		judge := newStepJudge(n.policyParts(), 1e-5)
		for u := range run.Updates {
			want := &run.Updates[u]
			what := fmt.Sprintf("%s, update %d", run.Task, u)
			var episodes []Episode
			for i, actions := range want.Actions {
				e := replay(n, task, of.Devices, actions)
				if math.Abs(e.Reward-want.Rewards[i]) > tolerance {
					t.Fatalf("%s: episode %d: got reward %v, want %v", what, i, e.Reward, want.Rewards[i])
				}
				episodes = append(episodes, e)
			}
			for i, got := range returns(episodes) {
				if math.Abs(got-want.Returns[i]) > 5e-5 {
					t.Fatalf("%s: episode %d: got return %v, want %v", what, i, got, want.Returns[i])
				}
			}
			loss := trainer.Update(task, of.Devices, episodes, run.Entropy, 5e-4)
			if math.Abs(loss-want.Loss) > lossTolerance {
				t.Errorf("%s: got loss %v, want %v", what, loss, want.Loss)
			}
			checkLogits(t, what, trainer, episodes, want.Logits, of.Devices)
			judge.check(t, what, trainer.grads, want, func([]float64) float64 { return policyTolerance })
		}
		if !judge.compared {
			t.Errorf("%s: no weight was compared", run.Task)
		}
	}
}

// checkLogits compares the logits of all devices before each step.
func checkLogits(t *testing.T, what string, trainer *PolicyTrainer, episodes []Episode, want [][][]float64, devices int) {
	t.Helper()
	row := 1
	for e := range want {
		last := make([]int, devices)
		for step, logits := range want[e] {
			for d, w := range logits {
				if got := float64(trainer.logits[last[d]]); math.Abs(got-w) > tolerance {
					t.Fatalf("%s: episode %d, step %d, device %d: got logit %v, want %v", what, e, step, d, got, w)
				}
			}
			last[episodes[e].Devices[step]] = row
			row++
		}
	}
}

// stepJudge compares gradients and weights after each update. A weight is compared only if its
// gradients so far are exactly 0 or above a limit: Adam turns the rounding of a tiny gradient
// into a full step. The bias of the logits has no true gradient, since a softmax does not see it.
type stepJudge struct {
	parts    policy.Nets
	limit    float64
	least    map[string][]float64 // the smallest absolute gradient so far
	updates  int
	compared bool
}

func newStepJudge(parts policy.Nets, limit float64) *stepJudge {
	return &stepJudge{parts: parts, limit: limit, least: map[string][]float64{}}
}

func (j *stepJudge) check(t *testing.T, what string, grads [][]float32, want *recordedUpdate, allowed func(values []float64) float64) {
	t.Helper()
	grad, weight := map[string][]float32{}, map[string][]float32{}
	for _, tensor := range j.parts.Named(grads) {
		grad[tensor.Name] = tensor.Data
	}
	for _, tensor := range j.parts.Tensors() {
		weight[tensor.Name] = tensor.Data
	}
	if len(want.Norms) != len(grad) {
		t.Fatalf("%s: got %d tensors with a gradient, want %d", what, len(grad), len(want.Norms))
	}
	for theirs, norm := range want.Norms {
		name := nameOf(theirs)
		if name == "policy.logit.0.bias" {
			continue
		}
		sum := 0.0
		for _, g := range grad[name] {
			sum += float64(g) * float64(g)
		}
		if got := math.Sqrt(sum); math.Abs(got-norm) > normTolerance*norm {
			t.Errorf("%s: %s: got norm %v, want %v", what, name, got, norm)
		}
		if j.least[name] == nil {
			j.least[name] = make([]float64, len(grad[name]))
			for i := range j.least[name] {
				j.least[name][i] = math.Inf(1)
			}
		}
		for i, g := range grad[name] {
			j.least[name][i] = min(j.least[name][i], math.Abs(float64(g)))
		}
		if values, ok := want.Grads[theirs]; ok {
			for i, w := range values.Values {
				if got := float64(grad[name][i*values.Stride]); math.Abs(got-w) > allowed(values.Values) {
					t.Fatalf("%s: gradient of %s[%d]: got %v, want %v", what, name, i*values.Stride, got, w)
				}
			}
		}
		after := want.After[theirs]
		if some, ok := want.Some[theirs]; ok {
			after = thinned{1, some}
		}
		step := firstStep
		if j.updates > 0 {
			step = laterStep
		}
		for i, w := range after.Values {
			at := i * after.Stride
			if least := j.least[name][at]; least > 0 && least < j.limit {
				continue
			}
			j.compared = true
			if got := float64(weight[name][at]); math.Abs(got-w) > step {
				t.Fatalf("%s: weight %s[%d]: got %v, want %v", what, name, at, got, w)
			}
		}
	}
	j.updates++
}

func TestCostUpdateAsThePrototype(t *testing.T) {
	file := recorded[struct {
		Plans []struct {
			Task      string
			Placement []int32
			Latency   [][]float32
			Overall   float32
		}
		Updates []recordedUpdate
	}](t, "cost_update")
	tasks := recordedTasks(t)
	known := map[string]*Task{}
	var all []Measured
	empty := false
	for _, p := range file.Plans {
		of := tasks[p.Task]
		if known[p.Task] == nil {
			known[p.Task] = of.task()
		}
		m := Measured{Task: known[p.Task], Devices: make([][]int32, of.Devices), Overall: p.Overall}
		for table, d := range p.Placement {
			m.Devices[d] = append(m.Devices[d], int32(table))
		}
		for d, l := range p.Latency {
			m.Times = append(m.Times, [Costs]float32{Forward: l[0], Communication: l[2], Backward: l[3]})
			empty = empty || len(m.Devices[d]) == 0
		}
		all = append(all, m)
	}
	if !empty {
		t.Error("no device of a plan is empty")
	}
	n := recordedNet(t)
	trainer := NewCostTrainer(n)
	judge := newStepJudge(n.costParts(), 1e-3)
	for u := range file.Updates {
		want := &file.Updates[u]
		what := fmt.Sprintf("update %d", u)
		var groups []Held
		for _, g := range want.Groups {
			groups = append(groups, Held{g / 4, g % 4})
		}
		got := trainer.Update(all, want.Draw, groups, 5e-4)
		for i, c := range []struct {
			name string
			loss float64
		}{{"forward", got.Heads[Forward]}, {"communication", got.Heads[Communication]}, {"backward", got.Heads[Backward]}, {"overall", got.Overall}, {"total", got.Total()}} {
			if math.Abs(c.loss-want.Losses[c.name]) > lossTolerance*max(1, want.Losses[c.name]) {
				t.Errorf("%s: loss %d, %s: got %v, want %v", what, i, c.name, c.loss, want.Losses[c.name])
			}
		}
		judge.check(t, what, trainer.grads, want, func(values []float64) float64 {
			largest := 0.0
			for _, v := range values {
				largest = max(largest, math.Abs(v))
			}
			return costTolerance * largest
		})
	}
	if !judge.compared {
		t.Error("no weight was compared")
	}
}
