package dreamshard

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy"
)

var _ search.Policy = (*Policy)(nil)

// drawn returns a problem of tables of a drawn pool, and each table as a piece; the first two
// tables are one piece.
func drawn(t testing.TB, tables, devices int) (*problem.Problem, [][]problem.Shard) {
	t.Helper()
	profile := must.Get(hardware.ByName("a100-80"))(t)
	p := &problem.Problem{Tables: workload.Pool(1)[:tables], Topology: hardware.Topology{Profile: profile, Devices: devices}, Batch: 65536}
	pieces := [][]problem.Shard{{p.Whole(0), p.Whole(1)}}
	for i := 2; i < tables; i++ {
		pieces = append(pieces, []problem.Shard{p.Whole(i)})
	}
	return p, pieces
}

// along compares the slope of a loss along its gradient with a difference of losses.
func along(t *testing.T, what string, parts policy.Nets, grads [][]float32, loss func() float64) {
	t.Helper()
	const step = 1e-3
	squared := 0.0
	move := func(by float64) {
		for i, p := range parts {
			for j, g := range grads[i] {
				p.Net.Weights()[j] += float32(by * float64(g))
			}
		}
	}
	for i := range grads {
		grads[i] = slices.Clone(grads[i])
		for _, g := range grads[i] {
			squared += float64(g) * float64(g)
		}
	}
	scale := step / math.Sqrt(squared)
	move(scale)
	up := loss()
	move(-2 * scale)
	down := loss()
	if got, want := (up-down)/(2*scale), squared; math.Abs(got-want) > 0.02*want {
		t.Errorf("%s: got slope %v along the gradient, want %v", what, got, want)
	}
}

// The gradients of co-locations, empty devices and steps without room somewhere, which the
// prototype does not have, against differences of the losses.
func TestGradients(t *testing.T) {
	const devices = 5
	p, pieces := drawn(t, 9, devices)
	task := NewTask(policy.Describe(p, pieces))
	n := New(3)
	actor := NewPolicy(n, nil).Actor(task, devices, nil)
	random := rand.New(rand.NewPCG(1, 3))
	budget := slices.Max(task.bytes) * 3 / 2
	var episodes []Episode
	var all []Measured
	masked, empty := false, false
	for len(episodes) < 6 {
		e, ok := actor.Episode(budget, random)
		if !ok {
			continue
		}
		e.Reward = random.NormFloat64()
		masked = masked || e.Rooms != nil
		episodes = append(episodes, e)
		m := Measured{Task: task, Devices: e.Placement(devices), Overall: random.Float32() * 4}
		for d := range devices {
			m.Times = append(m.Times, [Costs]float32{random.Float32(), random.Float32(), random.Float32()})
			empty = empty || len(m.Devices[d]) == 0
		}
		all = append(all, m)
	}
	if !masked || !empty {
		t.Fatalf("steps without room somewhere: %v, empty devices: %v; want both", masked, empty)
	}
	trainer := NewPolicyTrainer(n)
	trainer.gradient(task, devices, episodes, .1)
	along(t, "policy", n.policyParts(), trainer.grads, func() float64 { return NewPolicyTrainer(n).gradient(task, devices, episodes, .1) })

	costs := NewCostTrainer(n)
	plans, groups := []int32{0, 3, 3, 5}, []Held{{0, 0}, {1, 4}, {2, 3}, {5, 1}}
	costs.gradient(all, plans, groups)
	along(t, "cost net", n.costParts(), costs.grads, func() float64 { return NewCostTrainer(n).gradient(all, plans, groups).Total() })
}

// A device without room is never chosen, in any sort of rollout, and an episode without room
// says so.
func TestEpisodesKeepToTheirRoom(t *testing.T) {
	p, pieces := drawn(t, 12, 3)
	task := NewTask(policy.Describe(p, pieces))
	var total int64
	for _, bytes := range task.bytes {
		total += bytes
	}
	actor := NewPolicy(New(1), nil).Actor(task, 3, nil)
	random := rand.New(rand.NewPCG(1, 1))
	budget := max(total*2/5, slices.Max(task.bytes))
	placed := 0
	for range 30 {
		e, ok := actor.Episode(budget, random)
		if !ok {
			continue
		}
		placed++
		for d, held := range e.Placement(3) {
			var used int64
			for _, piece := range held {
				used += task.bytes[piece]
			}
			if used > budget {
				t.Fatalf("device %d holds %d bytes, want at most %d", d, used, budget)
			}
		}
	}
	if placed == 0 {
		t.Error("no episode placed all pieces")
	}
	if _, ok := actor.Episode(slices.Max(task.bytes)-1, random); ok {
		t.Error("got an episode without room for the largest piece")
	}
}

func TestLoad(t *testing.T) {
	n := New(7)
	f := &policy.Folder{Manifest: policy.Manifest{Method: policy.DreamShard, Profile: "a100-80"}, Tensors: n.Nets().Tensors()}
	folder := t.TempDir()
	must.Do(t, f.Write(folder))
	read := must.Get(policy.Read(os.DirFS(folder), "."))(t)
	got := must.Get(Load(read))(t)
	for i, want := range n.Nets().Tensors() {
		if !slices.Equal(got.Nets().Tensors()[i].Data, want.Data) {
			t.Fatalf("tensor %s: got other weights", want.Name)
		}
	}
	missing, more := *read, *read
	missing.Tensors = read.Tensors[1:]
	more.Tensors = append(slices.Clone(read.Tensors), read.Tensors[0])
	more.Tensors[len(more.Tensors)-1].Name = "value.0.weight"
	other := *read
	other.Manifest.Method = policy.AutoShard
	for _, c := range []struct {
		folder *policy.Folder
		want   string
	}{
		{&missing, "is missing"},
		{&more, "31 tensors, want 30"},
		{&other, `is one of method "autoshard", not "dreamshard"`},
	} {
		if _, err := Load(c.folder); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %q in it", err, c.want)
		}
	}
}
