package cost_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// tensor returns a tensor of the file as rows of float64.
func tensor(t *testing.T, m *modelfile.Model, name string) [][]float64 {
	t.Helper()
	for _, x := range m.Tensors {
		if x.Name != name {
			continue
		}
		width := x.Shape[len(x.Shape)-1]
		var rows [][]float64
		for i := 0; i < len(x.Data); i += width {
			row := make([]float64, width)
			for j := range row {
				row[j] = float64(x.Data[i+j])
			}
			rows = append(rows, row)
		}
		return rows
	}
	t.Fatalf("the model has no tensor %q", name)
	return nil
}

// dense returns weight x + bias, rectified or not.
func dense(weight [][]float64, bias, x []float64, rectified bool) []float64 {
	out := make([]float64, len(weight))
	for i, row := range weight {
		if bias != nil {
			out[i] = bias[i]
		}
		for j, w := range row {
			out[i] += w * x[j]
		}
		if rectified {
			out[i] = math.Max(0, out[i])
		}
	}
	return out
}

// The net as the file states it, in float64, unfolded: standardised features
// through two layers, times the scale, summed over the group, beside the
// scalars through the head.
func TestGroupIsTheNetOfTheFile(t *testing.T) {
	model, file := load(t)
	mean, deviation := tensor(t, file, cost.TensorMean)[0], tensor(t, file, cost.TensorDeviation)[0]
	w0, b0 := tensor(t, file, cost.TensorTable0W), tensor(t, file, cost.TensorTable0B)[0]
	w1, b1 := tensor(t, file, cost.TensorTable1W), tensor(t, file, cost.TensorTable1B)[0]
	head0, head1 := tensor(t, file, cost.TensorHead0W), tensor(t, file, cost.TensorHead1W)
	hw := must.Get(hardware.ByName(profileName))(t)
	for seed := range uint64(10) {
		p := mixed(t, seed, 8, 1, 0, true)
		p.LaneRule = problem.LaneRule(seed % 2)
		op := p.Operation(0)
		var slices []cost.Slice
		lanes := feature.Lanes8
		for i := range p.Tables {
			table := &p.Tables[i]
			described := feature.Describe(table, table.Counts(p.Batch))
			slices = append(slices, cost.Slice{Table: &described, Dim: table.Dim})
			if table.PoolingFactor() > 0 {
				lanes = max(lanes, feature.LanesOf(&hw, op, table.Dim))
			}
		}
		pooled := make([]float64, len(w1))
		var sums feature.Sums
		vector := make([]float32, feature.Width)
		for _, s := range slices {
			scale := feature.Vector(vector, &hw, op, *s.Table, s.Dim, lanes)
			if scale == 0 {
				continue
			}
			x := make([]float64, feature.Width)
			for j, v := range vector {
				x[j] = (float64(v) - mean[j]) / deviation[j]
			}
			for i, v := range dense(w1, b1, dense(w0, b0, x, true), true) {
				pooled[i] += scale * v
			}
			part := s.Table.Part(scale)
			sums.Add(&part)
		}
		var scalars [feature.ScalarCount]float32
		rates := feature.NewRates(&hw, op)
		sums.Scalars(&scalars, &rates, lanes, &feature.Part{})
		for _, v := range scalars {
			pooled = append(pooled, float64(v))
		}
		want := dense(head1, nil, dense(head0, nil, pooled, true), false)
		want[0] = math.Max(0, want[0]) + file.Manifest.Compute.LaunchForwardMS
		want[1] = math.Max(0, want[1]) + file.Manifest.Compute.LaunchBackwardMS
		forward, backward := model.Group(op, slices)
		if !near(float64(forward), want[0], 1e-4) || !near(float64(backward), want[1], 1e-4) {
			t.Errorf("seed %d: got %v and %v, want %v and %v", seed, float64(forward), float64(backward), want[0], want[1])
		}
	}
}

// The closed form and its correction, from the file's constants and tensors. The
// shipped correction is tiny, so it is also enlarged, and pushed over its limit.
func TestExchangeIsTheModelOfTheFile(t *testing.T) {
	for _, shift := range [][]float32{{0, 0}, {0.3, -0.2}, {-5, 5}} {
		_, file := load(t)
		for i := range file.Tensors {
			if file.Tensors[i].Name == fmt.Sprintf(cost.TensorCommBias, 2) {
				file.Tensors[i].Data[0] += shift[0]
				file.Tensors[i].Data[1] += shift[1]
			}
		}
		checkExchange(t, file)
	}
}

func checkExchange(t *testing.T, file *modelfile.Model) {
	t.Helper()
	model := must.Get(cost.Load(file))(t)
	k := file.Manifest.Comm
	for _, c := range []struct {
		cluster cost.Cluster
		load    cost.CommLoad
	}{
		{cost.Cluster{Devices: 2, PerHost: 2, Batch: 65536}, cost.CommLoad{Max: 300, Min: 200, Sum: 500}},
		{cost.Cluster{Devices: 8, PerHost: 8, Batch: 65536}, cost.CommLoad{Max: 900, Min: 0, Sum: 3000}},
		{cost.Cluster{Devices: 16, PerHost: 8, Batch: 16384}, cost.CommLoad{Max: 500, Min: 400, Sum: 7000}},
		{cost.Cluster{Devices: 20, PerHost: 8, Batch: 131072}, cost.CommLoad{Max: 500, Min: 400, Sum: 9000}},
	} {
		n, batch := float64(c.cluster.Devices), float64(c.cluster.Batch)
		moved := 4 * math.Max((n-1)/n*batch*float64(c.load.Max), batch/n*float64(c.load.Sum-c.load.Min))
		hosts := math.Ceil(n / float64(c.cluster.PerHost))
		base := k.AlphaMS + moved/(k.IntraGBps*1e6)
		if hosts > 1 {
			f := (n - float64(c.cluster.PerHost)) / (n - 1)
			base = k.BaseMS + k.HopMS*math.Log2(n) + math.Max(moved*(1-f)/(k.IntraGBps*1e6), moved*f/(k.NICGBps*1e6))
		}
		if got := cost.AllToAll(k, c.cluster, c.load); !near(got, base, 1e-12) {
			t.Errorf("%+v %+v: got a collective of %v ms, want %v", c.cluster, c.load, got, base)
		}
		x := []float64{
			math.Log2(n) / 10, math.Log2(hosts) / 7, math.Log2(float64(c.cluster.PerHost)) / 4,
			math.Log2(1+moved) / 30, math.Log2(batch) / 17, float64(c.load.Max) * n / float64(c.load.Sum) / 4, 1 / hosts,
		}
		var inputs [cost.CommInputs]float32
		cost.CommFeatures(inputs[:], c.cluster, c.load)
		for i, v := range inputs {
			if !near(float64(v), x[i], 1e-6) {
				t.Errorf("%+v %+v, input %d: got %v, want %v", c.cluster, c.load, i, v, x[i])
			}
		}
		for i := range 3 {
			weight := tensor(t, file, fmt.Sprintf(cost.TensorCommWeight, i))
			bias := tensor(t, file, fmt.Sprintf(cost.TensorCommBias, i))[0]
			x = dense(weight, bias, x, i < 2)
		}
		wantForward := base * math.Exp(math.Max(-1, math.Min(1, x[0])))
		wantBackward := base*math.Exp(math.Max(-1, math.Min(1, x[1]))) + 2*batch/n*float64(c.load.Sum)*4/(k.CopyGBps*1e6)
		forward, backward := model.Exchange(c.cluster, c.load, 0)
		if !near(float64(forward), wantForward, 1e-5) || !near(float64(backward), wantBackward, 1e-5) {
			t.Errorf("%+v %+v: got %v and %v, want %v and %v", c.cluster, c.load, float64(forward), float64(backward), wantForward, wantBackward)
		}
		if got, want := float64(model.Pack(c.cluster, 300)), 2*batch*300*4/(k.CopyGBps*1e6); !near(got, want, 1e-12) {
			t.Errorf("%+v: got %v ms to pack, want %v", c.cluster, got, want)
		}
	}
}

// The wait is exact: all devices end the forward exchange with the slowest, but
// for the packing of their own columns.
func TestExchangesEndTogether(t *testing.T) {
	model, _ := load(t)
	for seed := range uint64(10) {
		p := mixed(t, seed, 25, 6, 2+int(seed%2)*4, false)
		shards := placement(p, rand.New(rand.NewPCG(seed, 4)))
		b := newEstimates(t, model, p).Price(shards)
		cluster := cost.Cluster{Devices: 6, PerHost: p.Topology.PerHost(), Batch: p.Batch}
		l := cost.CommLoad{Min: math.MaxInt}
		sums := make([]int, 6)
		for d, on := range shards {
			for _, s := range on {
				sums[d] += p.DimSum(s)
			}
			l.Max, l.Min, l.Sum = max(l.Max, sums[d]), min(l.Min, sums[d]), l.Sum+sums[d]
		}
		forward, backward := model.Exchange(cluster, l, 0)
		slowest := 0.0
		for _, d := range b.Devices {
			slowest = math.Max(slowest, float64(d.Forward+d.Backward+d.BackwardComm))
		}
		waits := 0
		for i, d := range b.Devices {
			if !near(float64(d.BackwardComm), float64(backward), 1e-12) {
				t.Errorf("seed %d, device %d: got backward exchange %v, want %v", seed, i, d.BackwardComm, backward)
			}
			end := float64(d.Total() - model.Pack(cluster, sums[i]))
			if want := slowest + float64(forward); !near(end, want, 1e-12) {
				t.Errorf("seed %d, device %d: got its end at %v, want with all others at %v", seed, i, end, want)
			}
			if !near(float64(d.ForwardComm), float64(forward+model.Pack(cluster, sums[i])), 1e-9) {
				waits++
			}
		}
		if waits != 5 {
			t.Errorf("seed %d: got %d devices waiting, want all but the slowest", seed, waits)
		}
	}
}

// A model serves several goroutines (the race detector looks on).
func TestModelIsSharedByGoroutines(t *testing.T) {
	model, _ := load(t)
	p := mixed(t, 1, 10, 4, 0, false)
	shards := placement(p, rand.New(rand.NewPCG(1, 6)))
	want := newEstimates(t, model, p).Price(shards)
	costs := make([]float64, 4)
	var all sync.WaitGroup
	for i := range costs {
		all.Go(func() {
			estimates, err := cost.NewEstimates(t.Context(), model, p)
			if err == nil {
				costs[i] = float64(estimates.Price(shards).Cost)
			}
		})
	}
	all.Wait()
	for i, got := range costs {
		if got != float64(want.Cost) {
			t.Errorf("goroutine %d: got cost %v, want %v", i, got, want.Cost)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	at := func(m *modelfile.Model, name string) *modelfile.Tensor {
		for i := range m.Tensors {
			if m.Tensors[i].Name == name {
				return &m.Tensors[i]
			}
		}
		t.Fatalf("the model has no tensor %q", name)
		return nil
	}
	type refusal struct {
		name   string
		change func(*modelfile.Model)
		want   string
	}
	cases := []refusal{
		{"unknown profile", func(m *modelfile.Model) { m.Manifest.Profile = "tpu" }, `device profile "tpu" is unknown`},
		{"other features", func(m *modelfile.Model) { m.Manifest.Compute.FeatureVersion = "physical-0" }, `reads features "physical-0"`},
		{"fewer features", func(m *modelfile.Model) { m.Manifest.Compute.Features = m.Manifest.Compute.Features[1:] }, "train it again"},
		{"more scalars", func(m *modelfile.Model) {
			m.Manifest.Compute.Scalars = append(m.Manifest.Compute.Scalars, "more")
		}, "train it again"},
		{"no hidden layer", func(m *modelfile.Model) { m.Manifest.Compute.Hidden = 0 }, "layer widths 0, "},
		{"a negative layer", func(m *modelfile.Model) { m.Manifest.Compute.Embed = -1 }, "layer widths "},
		{"a huge layer", func(m *modelfile.Model) { m.Manifest.Compute.Head = 1 << 40 }, "layer widths "},
		{"another hidden layer", func(m *modelfile.Model) { m.Manifest.Compute.Hidden++ }, "has shape"},
		{"another comm layer", func(m *modelfile.Model) { m.Manifest.Comm.Hidden++ }, "has shape"},
		{"a negative comm layer", func(m *modelfile.Model) { m.Manifest.Comm.Hidden = -1 }, "has shape"},
		{"a zero deviation", func(m *modelfile.Model) { at(m, cost.TensorDeviation).Data[3] = 0 }, `tensor "compute.deviation" has a value that is not positive`},
		{"a negative deviation", func(m *modelfile.Model) { at(m, cost.TensorDeviation).Data[0] = -1 }, "has a value that is not positive"},
		{"a tiny deviation", func(m *modelfile.Model) { at(m, cost.TensorDeviation).Data[0] = math.SmallestNonzeroFloat32 }, "is too small for its weights"},
		{"a negative launch", func(m *modelfile.Model) { m.Manifest.Compute.LaunchForwardMS = -1 }, "a fixed cost of -1 ms is negative or not finite"},
		{"a launch that is not a number", func(m *modelfile.Model) { m.Manifest.Compute.LaunchBackwardMS = math.NaN() }, "a fixed cost of NaN ms"},
		{"an endless launch", func(m *modelfile.Model) { m.Manifest.Compute.LaunchBackwardMS = math.Inf(1) }, "a fixed cost of +Inf ms"},
		{"no latency", func(m *modelfile.Model) { m.Manifest.Comm.AlphaMS = 0 }, "is not positive"},
		{"a latency that is not a number", func(m *modelfile.Model) { m.Manifest.Comm.AlphaMS = math.NaN() }, "is not positive"},
		{"no bandwidth", func(m *modelfile.Model) { m.Manifest.Comm.IntraGBps = 0 }, "is not positive"},
		{"endless bandwidth", func(m *modelfile.Model) { m.Manifest.Comm.CopyGBps = math.Inf(1) }, "is not positive"},
		{"a negative base", func(m *modelfile.Model) { m.Manifest.Comm.BaseMS = -0.1 }, "between hosts is negative or not finite"},
		{"a hop that is not a number", func(m *modelfile.Model) { m.Manifest.Comm.HopMS = math.NaN() }, "between hosts is negative or not finite"},
		{"a negative network", func(m *modelfile.Model) { m.Manifest.Comm.NICGBps = -1 }, "between hosts is negative or not finite"},
	}
	_, file := load(t)
	for i := range file.Tensors {
		name := file.Tensors[i].Name
		cases = append(cases,
			refusal{"without " + name, func(m *modelfile.Model) { at(m, name).Name = "gone" }, fmt.Sprintf("tensor %q is missing", name)},
			refusal{name + " of another shape", func(m *modelfile.Model) {
				shape := at(m, name).Shape
				shape[len(shape)-1]++
			}, fmt.Sprintf("tensor %q has shape", name)},
		)
	}
	for _, c := range cases {
		_, file := load(t)
		c.change(file)
		model, err := cost.Load(file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
			continue
		}
		if !strings.Contains(err.Error(), file.Manifest.ID) || model != nil {
			t.Errorf("%s: got error %q and model %v, want the model's id and no model", c.name, err, model)
		}
	}
}

func TestFitsProfile(t *testing.T) {
	model, file := load(t)
	if err := model.FitsProfile(topology(t, 16, 8)); err != nil {
		t.Errorf("its own profile: got %v", err)
	}
	other := topology(t, 8, 0)
	var err error
	if other.Profile, err = hardware.ByName("h100-80"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("model %q predicts for %q, not for %q", file.Manifest.ID, profileName, "h100-80")
	if err := model.FitsProfile(other); err == nil || err.Error() != want {
		t.Errorf("another profile: got %v, want %q", err, want)
	}
	p := mixed(t, 1, 3, 8, 0, false)
	p.Topology = other
	if _, err := cost.NewEstimates(t.Context(), model, p); err == nil || err.Error() != want {
		t.Errorf("estimates of another profile: got %v, want %q", err, want)
	}
	file.Manifest.Comm.NICGBps = 0
	single := must.Get(cost.Load(file))(t)
	if err := single.FitsProfile(topology(t, 8, 8)); err != nil {
		t.Errorf("one host: got %v", err)
	}
	if err := single.FitsProfile(topology(t, 16, 8)); err == nil || !strings.Contains(err.Error(), "knows no network between hosts") {
		t.Errorf("two hosts without a network: got %v, want an error", err)
	}
}

// TestLike: with the same numbers, another device has the same costs; with those of a device that the
// net has not seen, the costs are near those of that device's own net.
func TestLike(t *testing.T) {
	model, _ := load(t)
	file := must.Get(pretrained.File("h100-80"))(t)
	own := must.Get(cost.Load(file))(t)
	priceOf := func(m *cost.Model, seed uint64) float64 {
		p := mixed(t, seed, 40, 16, 8, false)
		p.Topology.Profile = m.Hardware()
		return float64(newEstimates(t, m, p).Price(placement(p, rand.New(rand.NewPCG(seed, 3)))).Cost)
	}
	for seed := range uint64(10) {
		for _, c := range []struct {
			like      *cost.Model
			tolerance float64
		}{{model, 1e-12}, {own, .1}} {
			device := c.like.Hardware()
			device.Name = "mine"
			device.HostGBps = c.like.Hardware().HostLinkGBps()
			other := must.Get(model.Like(device))(t)
			got, want := priceOf(other, seed), priceOf(c.like, seed)
			if !near(got, want, c.tolerance) {
				t.Errorf("seed %d: a device with the numbers of %s costs %v, want %v", seed, c.like.Hardware().Name, got, want)
			}
			p := mixed(t, seed, 3, 8, 0, false)
			p.Topology.Profile = device
			if doubts := other.Doubts(p, placement(p, rand.New(rand.NewPCG(seed, 3)))); !slices.ContainsFunc(doubts, func(d string) bool { return strings.Contains(d, "no sample of the cost model is of mine") }) {
				t.Errorf("got doubts %q, want one about the device", doubts)
			}
		}
	}
	mine := model.Hardware()
	mine.Name = "mine"
	faster := mine
	faster.HBMGBps *= 2
	one := must.Get(model.Like(mine))(t)
	two := must.Get(model.Like(faster))(t)
	if a, b := one.Manifest().ID, two.Manifest().ID; a == b || !strings.HasPrefix(a, "mine-like-"+model.Hardware().Name+"-") {
		t.Errorf("got the names %s and %s of models of other numbers", a, b)
	}
	if a, b := one.Manifest().Comm.CopyGBps, two.Manifest().Comm.CopyGBps; b != 2*a {
		t.Errorf("copies: got %v GB/s with twice the bandwidth of %v", b, a)
	}
	if _, err := model.Like(hardware.Profile{Name: "wave", WarpLanes: 64}); err == nil {
		t.Error("got no error for warps of another size")
	}
}
