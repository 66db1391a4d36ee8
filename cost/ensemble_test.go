package cost_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// disturbed returns the shipped model's file with every weight of the nets
// changed by some percent.
func disturbed(t testing.TB, seed uint64) *modelfile.Model {
	_, file := load(t)
	draw := rand.New(rand.NewPCG(seed, 8))
	for i := range file.Tensors {
		if name := file.Tensors[i].Name; name == cost.TensorMean || name == cost.TensorDeviation {
			continue
		}
		file.Tensors[i].Data = slices.Clone(file.Tensors[i].Data)
		for j := range file.Tensors[i].Data {
			file.Tensors[i].Data[j] *= 1 + .05*float32(draw.NormFloat64())
		}
	}
	return file
}

// ensemble joins models of one shape into one file.
func ensemble(members ...*modelfile.Model) *modelfile.Model {
	all := &modelfile.Model{Manifest: members[0].Manifest}
	all.Manifest.Compute.Members = len(members)
	for k, m := range members {
		for _, x := range m.Tensors {
			x.Name = cost.MemberPrefix(k, len(members)) + x.Name
			all.Tensors = append(all.Tensors, x)
		}
	}
	return all
}

// three returns an ensemble and its members as models of their own.
func three(t testing.TB) (*cost.Model, []*cost.Model) {
	files := []*modelfile.Model{disturbed(t, 1), disturbed(t, 2), disturbed(t, 3)}
	var alone []*cost.Model
	for _, f := range files {
		alone = append(alone, must.Get(cost.Load(f))(t))
	}
	return must.Get(cost.Load(ensemble(files...)))(t), alone
}

// An ensemble predicts the mean of its members. Each member predicts the same as it
// does as a model of its own.
func TestEnsembleIsTheMeanOfItsMembers(t *testing.T) {
	all, alone := three(t)
	if all.Members() != 3 || alone[0].Members() != 1 {
		t.Fatalf("got %d and %d members, want 3 and 1", all.Members(), alone[0].Members())
	}
	apart := 0.
	for seed := range uint64(10) {
		p := mixed(t, seed, 8, 1, 0, true)
		op := p.Operation(0)
		var slices []cost.Slice
		for i := range p.Tables {
			table := &p.Tables[i]
			described := feature.Describe(table, table.Counts(p.Batch))
			slices = append(slices, cost.Slice{Table: &described, Dim: table.Dim})
		}
		forward, backward := all.Group(op, slices)
		eachF, eachB := all.GroupMembers(op, slices)
		if len(eachF) != 3 || len(eachB) != 3 {
			t.Fatalf("got %d and %d members' predictions, want 3", len(eachF), len(eachB))
		}
		var meanF, meanB float64
		for k, m := range alone {
			f, b := m.Group(op, slices)
			if !near(float64(eachF[k]), float64(f), 1e-6) || !near(float64(eachB[k]), float64(b), 1e-6) {
				t.Errorf("seed %d, member %d: got %v and %v, want %v and %v", seed, k, eachF[k], eachB[k], f, b)
			}
			oneF, oneB := m.GroupMembers(op, slices)
			if len(oneF) != 1 || oneF[0] != f || oneB[0] != b {
				t.Errorf("seed %d: the only member of %d: got %v and %v, want Group's %v and %v", seed, k, oneF, oneB, f, b)
			}
			meanF, meanB = meanF+float64(f)/3, meanB+float64(b)/3
			apart = math.Max(apart, math.Abs(float64(f)/float64(eachF[0])-1))
		}
		if !near(float64(forward), meanF, 1e-6) || !near(float64(backward), meanB, 1e-6) {
			t.Errorf("seed %d: got %v and %v, want the mean of the members, %v and %v", seed, forward, backward, meanF, meanB)
		}
	}
	if apart < .01 {
		t.Errorf("the members differ by %v at most: the test has no bite", apart)
	}
	if f, b := all.GroupMembers(problem.Operation{Batch: 512}, nil); len(f) != 3 || f[2] != 0 || b[0] != 0 {
		t.Errorf("no slices: got %v and %v, want 0 from each member", f, b)
	}
}

// The members' corrections of an exchange are averaged, so that its time without
// copies is their geometric mean.
func TestEnsembleExchange(t *testing.T) {
	files := []*modelfile.Model{disturbed(t, 1), disturbed(t, 2)}
	for k, f := range files { // the shipped correction is tiny
		for i := range f.Tensors {
			if f.Tensors[i].Name == fmt.Sprintf(cost.TensorCommBias, 2) {
				f.Tensors[i].Data[0] += .3 * float32(k+1)
				f.Tensors[i].Data[1] -= .2 * float32(k+1)
			}
		}
	}
	all := must.Get(cost.Load(ensemble(files...)))(t)
	c := cost.Cluster{Devices: 16, PerHost: 8, Batch: 16384}
	l := cost.CommLoad{Max: 500, Min: 400, Sum: 7000}
	forward, backward := all.Exchange(c, l, 0)
	var eachF, eachB [2]unit.Millis
	for k, f := range files {
		eachF[k], eachB[k] = must.Get(cost.Load(f))(t).Exchange(c, l, 0)
	}
	if want := math.Sqrt(float64(eachF[0] * eachF[1])); !near(float64(forward), want, 1e-5) || near(float64(eachF[0]), float64(eachF[1]), .1) {
		t.Errorf("got %v forward, want %v between the members' %v", forward, want, eachF)
	}
	unpack := 2 * float64(c.Batch) / 16 * 7000 * 4 / (files[0].Manifest.Comm.CopyGBps * 1e6)
	if want := unpack + math.Sqrt((float64(eachB[0])-unpack)*(float64(eachB[1])-unpack)); !near(float64(backward), want, 1e-5) {
		t.Errorf("got %v backward, want %v between the members' %v", backward, want, eachB)
	}
}

func TestLoadRefusesEnsembles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *modelfile.Model)
		want   string
	}{
		{"a negative number", func(m *modelfile.Model) { m.Manifest.Compute.Members = -1 }, "an ensemble of -1 is not one of 1 to 64"},
		{"too many", func(m *modelfile.Model) { m.Manifest.Compute.Members = 65 }, "an ensemble of 65"},
		{"one more than there are", func(m *modelfile.Model) { m.Manifest.Compute.Members = 3 }, `tensor "member.2.compute.mean" is missing`},
		{"said to be one", func(m *modelfile.Model) { m.Manifest.Compute.Members = 1 }, `tensor "compute.mean" is missing`},
		{"a member without a residual", func(m *modelfile.Model) { m.Tensors[len(m.Tensors)-1].Name = "gone" }, `tensor "member.1.comm.residual.2.bias" is missing`},
		{"a wrong deviation", func(m *modelfile.Model) { m.Tensors[1].Data = make([]float32, feature.Width) }, `tensor "member.0.compute.deviation" has a value that is not positive`},
	} {
		file := ensemble(disturbed(t, 1), disturbed(t, 2))
		c.change(file)
		if m, err := cost.Load(file); m != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it and no model", c.name, err, c.want)
		}
	}
}

// desk is a device that package hardware does not know.
func desk() hardware.Profile {
	return hardware.Profile{
		Name: "desk", Memory: 8 << 30, HBMGBps: 20, HBMEfficiency: .8, L2: 32 << 20, L2GBps: 120,
		SMs: 2, ClockGHz: 2.7, Granule: 64, AllToAllLatencyUS: 200, IntraGBps: 3,
	}
}

// A model of a device that only its manifest knows computes features from what
// is stated there.
func TestModelOfADeviceOfItsOwn(t *testing.T) {
	known, file := load(t)
	if got := known.Hardware(); got.Name != profileName || got.Memory == 0 {
		t.Errorf("got hardware %+v, want that of %s", got, profileName)
	}
	file.Manifest.Profile, file.Manifest.Device = "desk", desk()
	model := must.Get(cost.Load(file))(t)
	if model.Hardware() != desk() {
		t.Errorf("got hardware %+v, want %+v", model.Hardware(), desk())
	}
	p := mixed(t, 1, 8, 2, 0, false)
	if _, err := cost.NewEstimates(t.Context(), model, p); err == nil {
		t.Error("a problem of another device: got no error")
	}
	p.Topology.Profile = desk()
	shards := placement(p, rand.New(rand.NewPCG(1, 1)))
	slow := newEstimates(t, model, p).Price(shards)
	fast := desk()
	fast.HBMGBps, fast.L2GBps, fast.SMs = 2000, 3000, 100
	file.Manifest.Device = fast
	if quick := newEstimates(t, must.Get(cost.Load(file))(t), p).Price(shards); !(quick.Cost < slow.Cost/3) {
		t.Errorf("a hundred times the bandwidth: got cost %v, want below a third of %v", quick.Cost, slow.Cost)
	}
}

func TestLoadRefusesDevices(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *modelfile.Manifest)
		want   string
	}{
		{"of another name", func(m *modelfile.Manifest) { m.Profile = "desk-2" }, `for profile "desk-2", but states the facts of "desk"`},
		{"without a name", func(m *modelfile.Manifest) { m.Device.Name = "" }, `states the facts of ""`},
		{"impossible", func(m *modelfile.Manifest) { m.Device.HBMGBps, m.Device.SMs = -1, 0 }, `device "desk": hbm_gbps: -1 is not above 0; sms: 0`},
		{"a known one, redefined", func(m *modelfile.Manifest) { m.Profile, m.Device.Name = "h200", "h200" }, `device "h200" is a known profile`},
		{"not stated", func(m *modelfile.Manifest) { m.Device = hardware.Profile{} }, `device profile "desk" is unknown`},
	} {
		_, file := load(t)
		file.Manifest.Profile, file.Manifest.Device = "desk", desk()
		c.change(&file.Manifest)
		if m, err := cost.Load(file); m != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it and no model", c.name, err, c.want)
		}
	}
	// To state a known device as it is known is no contradiction.
	model, file := load(t)
	file.Manifest.Device = model.Hardware()
	must.Get(cost.Load(file))(t)
}
