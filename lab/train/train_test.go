package train_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// simulated draws samples and simulates their times.
func simulated(t testing.TB, hw hardware.Profile, groups, exchanges int) train.Data {
	t.Helper()
	data := train.Data{Compute: design.Compute(5, 300, groups, 1, 30), Comm: design.Comm(5, exchanges, hw)}
	must.Do(t, collect.SimulateCompute(context.Background(), data.Compute, hw, 0))
	must.Do(t, collect.SimulateComm(context.Background(), data.Comm, hw, 0))
	return data
}

// small are options of a quick training.
func small() train.Options {
	return train.Options{Epochs: 2, Batch: 32, Hidden: 16, Embed: 8, Head: 8, Seed: 1}.Quick()
}

// few draws exchanges inside one host only, which is fast, for tests of something
// else.
func few(t testing.TB, hw hardware.Profile, groups int) train.Data {
	t.Helper()
	data := simulated(t, hw, groups, 0)
	data.Comm = design.Comm(6, 60, must.Get(hardware.ByName("rtx2080ti"))(t))
	must.Do(t, collect.SimulateComm(context.Background(), data.Comm, hw, 0))
	return data
}

func TestFitLearns(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	data := few(t, hw, 600)
	var progress []train.Progress
	opt := train.Options{Epochs: 4, Batch: 32, Seed: 1, OnProgress: func(p train.Progress) { progress = append(progress, p) }}
	m, report := must.Get2(train.Fit(context.Background(), data, hw, opt.Quick()))(t)
	// A constant predictor: the median time of the training groups.
	var times []float64
	for _, g := range data.Compute.Samples {
		if g.Split == dataset.Train {
			times = append(times, float64(g.Forward+g.Backward))
		}
	}
	slices.Sort(times)
	median, constant, tested := times[len(times)/2], 0.0, 0
	for _, g := range data.Compute.Samples {
		if g.Split == dataset.Test {
			want := float64(g.Forward + g.Backward)
			constant += 100 * math.Abs(median-want) / want
			tested++
		}
	}
	constant /= float64(tested)
	got := report.Compute.All
	if got.Samples != tested || !(got.Mean < 30) || !(got.Mean < constant/4) || !(got.P95 >= got.Mean) {
		t.Errorf("got errors %+v, want %d samples and a mean below 30 %% and below a quarter of a constant's %.0f %%", got, tested, constant)
	}
	if report.Large.All.Samples != 0 {
		t.Errorf("got %d large groups judged, want none: there are none", report.Large.All.Samples)
	}
	if c := m.Manifest.Card; c.Compute != report.Compute.All || c.Comm != report.Comm.All || c.Seed != 1 || c.Epochs != 4 ||
		c.ComputeSamples != 600 || c.CommSamples != len(data.Comm.Samples) {
		t.Errorf("got card %+v, want the report's errors and the data's counts", c)
	}
	if m.Manifest.Profile != "a100-80" || m.Manifest.Source != "simulated" || m.Manifest.Backend != data.Compute.Provenance.Backend {
		t.Errorf("got profile %q, source %q, meter %q, want those of the data", m.Manifest.Profile, m.Manifest.Source, m.Manifest.Backend)
	}
	if _, err := cost.Load(m); err != nil {
		t.Errorf("the model does not load: %v", err)
	}
	compute := 0
	for _, p := range progress {
		if p.Phase == "compute" {
			if compute++; p.Epoch != compute || p.Epochs != 4 || !(p.Error > 0) {
				t.Errorf("got progress %+v, want epoch %d of 4 and an error", p, compute)
			}
		}
	}
	if last := progress[len(progress)-1]; compute != 4 || last.Phase != "comm" || last.Epoch != last.Epochs {
		t.Errorf("got %d epochs of compute and last %+v, want 4 and the end of comm", compute, last)
	}
}

func TestWorkersAndSeeds(t *testing.T) {
	hw := must.Get(hardware.ByName("v100-16"))(t)
	data := few(t, hw, 300)
	fit := func(workers int, seed uint64) (*modelfile.Model, *train.Report) {
		opt := small()
		opt.Workers, opt.Seed = workers, seed
		m, report := must.Get2(train.Fit(context.Background(), data, hw, opt))(t)
		return m, report
	}
	one, oneReport := fit(1, 1)
	eight, eightReport := fit(8, 1)
	if one.Manifest.ID != eight.Manifest.ID || !reflect.DeepEqual(one.Tensors, eight.Tensors) {
		t.Errorf("8 workers: got model %s, want that of 1 worker, %s", eight.Manifest.ID, one.Manifest.ID)
	}
	if !reflect.DeepEqual(oneReport, eightReport) {
		t.Errorf("8 workers: got report %+v, want that of 1 worker, %+v", eightReport, oneReport)
	}
	if other, _ := fit(8, 2); reflect.DeepEqual(one.Tensors[2], other.Tensors[2]) {
		t.Error("another seed gives the same weights")
	}
}

func TestCancel(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	data := few(t, hw, 100)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if m, _, err := train.Fit(ended, data, hw, small()); !errors.Is(err, context.Canceled) || m != nil {
		t.Errorf("cancelled before: got model %v and error %v, want %v", m, err, context.Canceled)
	}
	for _, phase := range []string{"compute", "comm"} {
		ctx, cancel := context.WithCancel(context.Background())
		opt := small()
		calls := 0
		opt.OnProgress = func(p train.Progress) {
			if p.Phase == phase {
				calls++
				cancel()
			}
		}
		if _, _, err := train.Fit(ctx, data, hw, opt); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled in %s: got error %v, want %v", phase, err, context.Canceled)
		}
		if calls != 1 {
			t.Errorf("cancelled in %s: got %d more reports of progress, want none", phase, calls-1)
		}
		cancel()
	}
}

func TestFitRefuses(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	splitOfComm := func(d *train.Data, without dataset.Split) {
		d.Comm.Samples = slices.DeleteFunc(d.Comm.Samples, func(e dataset.Exchange) bool { return e.Split == without })
	}
	for _, c := range []struct {
		name   string
		change func(d *train.Data)
		want   string
	}{
		{"no groups", func(d *train.Data) { d.Compute.Samples = nil }, "split has no usable groups"},
		{"no validation exchanges", func(d *train.Data) { splitOfComm(d, dataset.Validation) }, "split has no usable all-to-alls"},
		{"exchange: shorter than its wait", func(d *train.Data) {
			e := &d.Comm.Samples[1]
			e.Start[0] = slices.Max(e.Start) - e.Forward[0] - 1
		}, "comm sample 1: device 0"},
		{"all set aside", func(d *train.Data) {
			for i := range d.Compute.Samples {
				d.Compute.Samples[i].Quarantined = true
			}
		}, "and 20 of them are set aside because the device drifted: measure again while nothing else runs"},
		{"no exchanges at all", func(d *train.Data) { d.Comm = nil }, "there are no all-to-alls"},
		{"groups of another profile", func(d *train.Data) { d.Compute.Provenance.Profile = "h200" }, `times of profile "h200" cannot train a model of "a100-80"`},
		{"exchanges of another profile", func(d *train.Data) { d.Comm.Provenance.Profile = "h200" }, `times of profile "h200"`},
		{"two sources", func(d *train.Data) { d.Comm.Provenance.Source = dataset.Measured }, `"simulated" and "measured" times cannot train one model`},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := few(t, hw, 20)
			c.change(&data)
			m, _, err := train.Fit(context.Background(), data, hw, small())
			if err == nil || !strings.Contains(err.Error(), c.want) || m != nil {
				t.Errorf("got model %v, error %v, want no model and an error that contains %q", m != nil, err, c.want)
			}
		})
	}
}

// The fit finds the six constants of the closed form that the simulated device
// computes with.
func TestCommConstantsAreRecovered(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	data := simulated(t, hw, 20, 500)
	m, report := must.Get2(train.Fit(context.Background(), data, hw, train.Options{Epochs: 2, Hidden: 16, Embed: 8, Head: 8, Seed: 1}))(t)
	k := m.Manifest.Comm
	for _, c := range []struct {
		name              string
		got, want, within float64
	}{
		{"alpha", k.AlphaMS, .045, .01},
		{"bandwidth in a host", k.IntraGBps, 230, .01},
		// One bandwidth stands for four shares of the network, and the base takes a part of what
		// the bandwidth leaves: at most 0.6 of 100 us and more.
		{"base of a network", k.BaseMS, .02, .03},
		{"hop of a network", k.HopMS, .02, .01},
		{"copies", k.CopyGBps, 2039 * .894, .01},
	} {
		if !(math.Abs(c.got/c.want-1) < c.within) {
			t.Errorf("%s: got %v, want %v within %v %%", c.name, c.got, c.want, 100*c.within)
		}
	}
	// The share of the network that is reached depends on the number of hosts.
	if share := k.NICGBps / hw.NICGBps; share < .8 || share > .95 {
		t.Errorf("bandwidth of the network: got %.3f of the card's, want 0.80 to 0.95", share)
	}
	if report.Comm.All.Samples != 50 || !(report.Comm.All.Mean < 1.5) {
		t.Errorf("got errors %+v, want 50 samples and a mean below 1.5 %%", report.Comm.All)
	}
}

// A model that is judged by its own predictions has no error. Judged by other
// times, the model has exactly the error with which the times were made.
func TestJudgeKnowsThePerfectModel(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	data := few(t, hw, 300)
	data.Large = design.Compute(6, 300, 20, 100, 120)
	must.Do(t, collect.SimulateCompute(context.Background(), data.Large, hw, 0))
	m, _ := must.Get2(train.Fit(context.Background(), data, hw, small()))(t)
	model := must.Get(cost.Load(m))(t)
	predict := func(set *dataset.Compute) {
		for i := range set.Samples {
			g := &set.Samples[i]
			var members []cost.Slice
			for _, x := range g.Members {
				table := &set.Tables[x.Table]
				described := feature.Describe(table, table.Counts(g.Operation.Batch))
				members = append(members, cost.Slice{Table: &described, Dim: int(x.Dim)})
			}
			g.Forward, g.Backward = model.Group(g.Operation, members)
		}
	}
	predict(data.Compute)
	predict(data.Large)
	for i := range data.Comm.Samples {
		e := &data.Comm.Samples[i]
		cluster := cost.Cluster{Devices: e.Devices, PerHost: min(e.Devices, e.DevicesPerHost), Batch: e.Batch}
		load := cost.CommLoad{Max: slices.Max(e.DimSums), Min: slices.Min(e.DimSums)}
		for _, d := range e.DimSums {
			load.Sum += d
		}
		forward, backward := model.Exchange(cluster, load, 0)
		last := slices.Max(e.Start)
		for r, d := range e.DimSums {
			e.Forward[r] = forward + model.Pack(cluster, d) + (last - e.Start[r])
			e.Backward[r] = backward
		}
	}
	judge := func() *train.Report {
		return must.Get(train.Judge(m, data, 2))(t)
	}
	perfect := judge()
	for _, c := range []struct {
		name    string
		got     modelfile.Errors
		samples int
	}{
		{"compute", perfect.Compute.All, 30},
		{"forward", perfect.Compute.Forward, 30},
		{"backward", perfect.Compute.Backward, 30},
		{"large", perfect.Large.All, 2},
		{"comm", perfect.Comm.All, perfect.Comm.All.Samples},
	} {
		// The wait is added and taken off again, which rounds.
		if c.got.Samples != c.samples || c.samples == 0 || c.got.Mean > 1e-9 || c.got.P95 > 1e-9 {
			t.Errorf("%s: got %+v, want %d samples without errors", c.name, c.got, c.samples)
		}
	}
	samples := map[string]int{}
	for _, p := range perfect.Compute.Parts {
		samples[p.By] += p.Errors.Samples
	}
	for _, kind := range []string{"shards", "dims", "batch", "optimizer", "precision", "weighted"} {
		if samples[kind] != 30 {
			t.Errorf("parts by %s: got %d samples, want all 30", kind, samples[kind])
		}
	}
	if !slices.IsSortedFunc(perfect.Compute.Parts, func(a, b train.Part) int {
		return strings.Compare(a.By+a.Name, b.By+b.Name)
	}) {
		t.Error("the parts are not sorted")
	}

	// All test groups but the first take a quarter more than predicted; the first
	// takes the predicted time.
	right := false
	for i := range data.Compute.Samples {
		g := &data.Compute.Samples[i]
		if g.Split != dataset.Test {
			continue
		}
		if !right {
			right = true
			continue
		}
		g.Forward, g.Backward = g.Forward*1.25, g.Backward*1.25
	}
	off := judge().Compute
	for name, got := range map[string]modelfile.Errors{"both": off.All, "forward": off.Forward, "backward": off.Backward} {
		if want := 20. * 29 / 30; math.Abs(got.Mean-want) > 1e-9 || math.Abs(got.P95-20) > 1e-9 {
			t.Errorf("%s, 1.25 times the prediction: got %+v, want a mean of %v %% and a p95 of 20 %%", name, got, want)
		}
	}
}
