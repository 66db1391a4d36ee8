package train_test

import (
	"bytes"
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
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func fit(t testing.TB, data train.Data, hw hardware.Profile, opt train.Options) (*modelfile.Model, *train.Report) {
	t.Helper()
	m, report := must.Get2(train.Fit(context.Background(), data, hw, opt))(t)
	return m, report
}

// No sample has the operation, so nothing is known about it. The model predicts a
// time near those of the operations that it knows, not a wild one.
func TestUnseenKinds(t *testing.T) {
	hw := desk()
	data, _ := synthetic(hw, cpuLaw(hw), 100, 300, 60, .03, 1)
	m, _ := fit(t, data, hw, small())
	model := must.Get(cost.Load(m))(t)
	table := &data.Compute.Tables[0]
	op := problem.Operation{Batch: 1024}
	described := feature.Describe(table, table.Counts(op.Batch))
	slices := []cost.Slice{{Table: &described, Dim: 64}}
	f, b := model.Group(op, slices)
	for name, unseen := range map[string]problem.Operation{
		"adam": {Batch: 1024, Optimizer: problem.Adam}, "fp16": {Batch: 1024, Precision: problem.FP16}, "weighted": {Batch: 1024, Weighted: true},
	} {
		uf, ub := model.Group(unseen, slices)
		if ratio := float64((uf + ub) / (f + b)); !(ratio > .2 && ratio < 5) {
			t.Errorf("%s: got %v, want something near the %v of what was measured", name, uf+ub, f+b)
		}
	}
}

// Quarantined samples change nothing, however wrong they are.
func TestQuarantine(t *testing.T) {
	hw := desk()
	data, _ := synthetic(hw, cpuLaw(hw), 100, 200, 60, .03, 1)
	want, wantReport := fit(t, data, hw, small())
	nan := unit.Millis(math.NaN())
	for i := 0; i < 300; i += 2 { // between the other samples, in all splits
		bad := data.Compute.Samples[i]
		bad.ID, bad.Quarantined, bad.Forward, bad.Backward = 1000+i, true, nan, -1
		bad.Operation.Batch, bad.Operation.Optimizer = 1<<20, problem.Adam
		data.Compute.Samples = slices.Insert(data.Compute.Samples, i, bad)
		data.Compute.Repeats = append(data.Compute.Repeats, dataset.Repeat{ID: bad.ID, Forward: 1e6, Backward: 1e6})
	}
	for i := 0; i < 40; i += 2 {
		bad := data.Comm.Samples[i]
		bad.Quarantined, bad.Backward = true, []unit.Millis{nan}
		data.Comm.Samples = slices.Insert(data.Comm.Samples, i, bad)
	}
	got, gotReport := fit(t, data, hw, small())
	if got.Manifest.Card.LeftOut != 170 {
		t.Errorf("got %d samples left out, want 170", got.Manifest.Card.LeftOut)
	}
	got.Manifest.Card.LeftOut = 0
	if err := got.Seal(); err != nil || got.Manifest.ID != want.Manifest.ID {
		t.Errorf("got model %+v, error %v, want %+v", got.Manifest, err, want.Manifest)
	}
	if !reflect.DeepEqual(gotReport, wantReport) {
		t.Errorf("got report %+v, want %+v", gotReport, wantReport)
	}
	curve := func(data train.Data) []train.CurvePoint {
		return must.Get(train.LearningCurve(context.Background(), data, hw, []int{100}, small()))(t)
	}
	dirty := curve(data)
	data.Compute.Samples = data.Compute.Usable()
	if clean := curve(data); !reflect.DeepEqual(clean, dirty) {
		t.Errorf("learning curve: got %+v, want %+v", dirty, clean)
	}
}

// Exchanges that ended before their last device was ready are left out if they are
// few. It is an error if they are many, or if one of them is simulated.
func TestShortExchanges(t *testing.T) {
	hw := desk()
	shorten := func(data train.Data, n int) {
		for i := range n {
			e := &data.Comm.Samples[i]
			e.Forward[0] = unit.Millis(1e-9)
			e.Start[0], e.Start[1] = 0, 5
		}
	}
	data, _ := synthetic(hw, cpuLaw(hw), 100, 100, 200, .03, 1)
	shorten(data, 5)
	if m, _ := fit(t, data, hw, small()); m.Manifest.Card.LeftOut != 5 || m.Manifest.Card.CommSamples != 195 {
		t.Errorf("got card %+v, want 5 left out and 195 kept", m.Manifest.Card)
	}
	shorten(data, 30)
	_, _, err := train.Fit(context.Background(), data, hw, small())
	if err == nil || !strings.Contains(err.Error(), "of 160 comm samples: the forward exchange is shorter than the wait") {
		t.Errorf("30 of 200: got error %v", err)
	}
}

// The members of an ensemble do not depend on the number of nets trained at the
// same time. The first member is the net that would be trained alone. The error of
// the members' mean is below the mean of their errors.
func TestEnsemble(t *testing.T) {
	hw := desk()
	data, truth := synthetic(hw, warpedLaw(hw), 300, 400, 60, .03, 1)
	opt := train.Options{Epochs: 6, Hidden: 32, Embed: 16, Head: 16, Seed: 1, Workers: 1}.Quick()
	alone, _ := fit(t, data, hw, opt)
	opt.Ensemble = 4
	var progress []train.Progress
	opt.OnProgress = func(p train.Progress) { progress = append(progress, p) }
	m, _ := fit(t, data, hw, opt)
	opt.Workers, opt.OnProgress = 8, nil
	again, _ := fit(t, data, hw, opt)
	if m.Manifest.ID != again.Manifest.ID || m.Manifest.Compute.Members != 4 {
		t.Errorf("8 workers: got model %s of %d members, want that of 1 worker, %s", again.Manifest.ID, m.Manifest.Compute.Members, m.Manifest.ID)
	}
	if n := len(alone.Tensors); len(m.Tensors) != 4*n {
		t.Errorf("got %d tensors, want four times the %d of one net", len(m.Tensors), n)
	}
	seen := map[string]bool{}
	for _, one := range alone.Tensors {
		for _, x := range m.Tensors {
			if x.Name == "member.0."+one.Name {
				seen[one.Name] = reflect.DeepEqual(x.Data, one.Data)
			}
		}
		if !seen[one.Name] {
			t.Errorf("tensor %q of the first member is not that of the net alone", one.Name)
		}
	}
	if p := progress[23]; p.Phase != "compute" || p.Epoch != 24 || p.Epochs != 24 || progress[24].Phase != "comm" || progress[len(progress)-1].Epoch != progress[len(progress)-1].Epochs {
		t.Errorf("got progress %+v after four nets, want epoch 24 of 24, then comm", p)
	}
	exact := must.Get(train.Judge(m, truth, 2))(t)
	mean := 0.
	for k := range 4 {
		one := &modelfile.Model{Manifest: m.Manifest}
		one.Manifest.Compute.Members = 0
		for _, x := range m.Tensors {
			if name, ok := strings.CutPrefix(x.Name, cost.MemberPrefix(k, 4)); ok {
				one.Tensors = append(one.Tensors, modelfile.Tensor{Name: name, Shape: x.Shape, Data: x.Data})
			}
		}
		r := must.Get(train.Judge(one, truth, 2))(t)
		mean += r.Compute.All.Mean / 4
	}
	if got := exact.Compute.All.Mean; !(got < mean) {
		t.Errorf("got an error of %.2f %%, want below the members' mean of %.2f %%", got, mean)
	}
	s := exact.Compute.Spread
	if s == nil || s.Members != 4 || !(s.MeanPercent > .1) || !(s.Within1 > .05 && s.Within1 < s.Within2 && s.Within2 <= 1) ||
		!(s.WithNoise1 >= s.Within1 && s.WithNoise2 >= s.Within2) || !(math.Abs(s.KendallTau) < 1) || s.NoisePercent < 1 || s.NoisePercent > 5 {
		t.Errorf("got spread %+v", s)
	}
	opt.Ensemble = cost.MaxMembers + 1
	if _, _, err := train.Fit(context.Background(), data, hw, opt); err == nil || !strings.Contains(err.Error(), "an ensemble of 65 nets") {
		t.Errorf("65 members: got error %v", err)
	}
}

// Measured groups with simulated exchanges are accepted only with MixedSources, and
// the model states both sources.
func TestMixedSources(t *testing.T) {
	hw := must.Get(hardware.ByName("h200"))(t)
	data, _ := synthetic(hw, cpuLaw(hw), 100, 100, 60, .03, 1)
	data.Comm = simulated(t, hw, 0, 60).Comm
	opt := small()
	if _, _, err := train.Fit(context.Background(), data, hw, opt); err == nil || !strings.Contains(err.Error(), `"measured" and "simulated" times cannot train one model`) {
		t.Errorf("not asked for: got error %v", err)
	}
	opt.MixedSources = true
	m, report := fit(t, data, hw, opt)
	got := m.Manifest
	if got.Source != "measured" || got.CommSource != "simulated" || got.Backend != "synthetic 1" || got.CommBackend != data.Comm.Provenance.Backend {
		t.Errorf("got sources %q and %q, meters %q and %q", got.Source, got.CommSource, got.Backend, got.CommBackend)
	}
	if got.Measured.Kernel != "law 1" || got.CommMeasured != (modelfile.Measurement{}) {
		t.Errorf("got measured %+v and %+v, want the exchanges not measured", got.Measured, got.CommMeasured)
	}
	if report.Source != "measured" || report.CommSource != "simulated" {
		t.Errorf("got a report of sources %q and %q", report.Source, report.CommSource)
	}
	if got.Comm.NICGBps == 0 || got.Domain.MinDevices != 0 {
		t.Errorf("got %+v and domain %+v, want a network and no least number of devices", got.Comm, got.Domain)
	}
	data.Large = design.Compute(6, 300, 20, 100, 120)
	data.Large.Provenance = dataset.Provenance{Source: dataset.Simulated, Profile: hw.Name}
	if _, _, err := train.Fit(context.Background(), data, hw, opt); err == nil || !strings.Contains(err.Error(), "cannot train one model") {
		t.Errorf("large groups of another source: got error %v", err)
	}
}

func TestMeasuredDataRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(d *train.Data, hw *hardware.Profile)
		want   string
	}{
		{"no groups", func(d *train.Data, _ *hardware.Profile) { d.Compute = nil }, "there are no groups of fused lookups"},
		{"no exchanges", func(d *train.Data, _ *hardware.Profile) { d.Comm = nil }, "there are no all-to-alls, and a model needs them: measure some"},
		{"facts that differ", func(_ *train.Data, hw *hardware.Profile) { hw.SMs = 4 }, `another device than the model's, though both are called "desk-cpu"`},
		{"facts of the exchanges that differ", func(d *train.Data, _ *hardware.Profile) { d.Comm.Provenance.Hardware.SMs = 4 }, "another device than the model's"},
		{"another name", func(_ *train.Data, hw *hardware.Profile) { hw.Name = "desk-2" }, `times of profile "desk-cpu" cannot train a model of "desk-2"`},
		{"a known name", func(_ *train.Data, hw *hardware.Profile) { hw.Name = "h200" }, `"h200" is a known device`},
		{"impossible facts", func(d *train.Data, hw *hardware.Profile) { hw.HBMEfficiency = 2 }, `device "desk-cpu": hbm_efficiency: 2 is above 1`},
		{"several hosts without a network", func(d *train.Data, _ *hardware.Profile) {
			d.Comm.Samples[3].Devices, d.Comm.Samples[3].DevicesPerHost = 2, 1
			e := &d.Comm.Samples[3]
			e.DimSums, e.Start, e.Forward, e.Backward = e.DimSums[:2], e.Start[:2], e.Forward[:2], e.Backward[:2]
		}, `profile "desk-cpu" has no network between hosts, but there are all-to-alls over several`},
	} {
		hw := desk()
		data, _ := synthetic(hw, cpuLaw(hw), 100, 50, 60, .03, 1)
		c.change(&data, &hw)
		if m, _, err := train.Fit(context.Background(), data, hw, small()); err == nil || !strings.Contains(err.Error(), c.want) || m != nil {
			t.Errorf("%s: got error %v, want %q in it and no model", c.name, err, c.want)
		}
	}
	// Judge rejects data of another device than the model's.
	hw := desk()
	data, _ := synthetic(hw, cpuLaw(hw), 100, 50, 60, .03, 1)
	m, _ := fit(t, data, hw, small())
	data.Compute.Provenance.Hardware.SMs = 4
	if _, err := train.Judge(m, data, 1); err == nil || !strings.Contains(err.Error(), "another device") {
		t.Errorf("judging on another device: got error %v", err)
	}
}

func TestProfileOf(t *testing.T) {
	if got, err := train.ProfileOf(dataset.Provenance{Profile: "desk-cpu", Hardware: desk()}); err != nil || got != desk() {
		t.Errorf("stated: got %+v, %v", got, err)
	}
	if got, err := train.ProfileOf(dataset.Provenance{Profile: "h200"}); err != nil || got != must.Get(hardware.ByName("h200"))(t) {
		t.Errorf("known: got %+v, %v", got, err)
	}
	if _, err := train.ProfileOf(dataset.Provenance{Profile: "desk-cpu"}); err == nil || !strings.Contains(err.Error(), `states no facts of its device`) {
		t.Errorf("neither: got error %v", err)
	}
}

func TestLearningCurve(t *testing.T) {
	hw := desk()
	data, _ := synthetic(hw, warpedLaw(hw), 300, 600, 60, .03, 1)
	opt := train.Options{Epochs: 10, Hidden: 32, Embed: 16, Head: 16, Seed: 1}.Quick()
	curve := func(sizes ...int) []train.CurvePoint {
		t.Helper()
		return must.Get(train.LearningCurve(context.Background(), data, hw, sizes, opt))(t)
	}
	points := curve(40, 600, 5000)
	if len(points) != 3 || points[0].Samples != 40 || points[1].Samples != 600 || points[2].Samples != 600 {
		t.Fatalf("got %+v, want sizes 40, 600 and all 600", points)
	}
	if !(points[1].Compute.Mean < points[0].Compute.Mean/1.5) {
		t.Errorf("got errors %+v of 40 samples and %+v of 600, want far less of 600", points[0].Compute, points[1].Compute)
	}
	if points[1] != points[2] {
		t.Errorf("got %+v beyond the dataset, want the point of all samples, %+v", points[2], points[1])
	}
	for _, p := range points {
		if p.Compute.Samples != 60 || p.Large.Samples != 0 {
			t.Errorf("got %+v, want all 60 test groups", p)
		}
	}
	// All samples give the model that Fit makes.
	if _, report := fit(t, data, hw, opt); report.Compute.All != points[1].Compute {
		t.Errorf("got %+v, want Fit's %+v", points[1].Compute, report.Compute.All)
	}
	for _, sizes := range [][]int{nil, {9, 100}} {
		if _, err := train.LearningCurve(context.Background(), data, hw, sizes, opt); err == nil || !strings.Contains(err.Error(), "give one or more, each at least 10") {
			t.Errorf("sizes %v: got error %v", sizes, err)
		}
	}
}

func TestScatter(t *testing.T) {
	points := []train.Point{{Predicted: 1, Actual: 1.1}, {Predicted: 20, Actual: 18}, {Predicted: 300, Actual: 310}}
	for _, source := range []string{"measured", "simulated"} {
		var out bytes.Buffer
		must.Do(t, train.Scatter(&out, &train.Report{Source: source, Points: points}, "a title"))
		svg := out.String()
		if !strings.Contains(svg, "<svg") || !strings.Contains(svg, "a title") || !strings.Contains(svg, strings.ToUpper(source)+" ms") || !strings.Contains(svg, "predicted ms") {
			t.Errorf("%s: got %.300s..., want an SVG that names its axes", source, svg)
		}
		var again bytes.Buffer
		if err := train.Scatter(&again, &train.Report{Source: source, Points: points}, "a title"); err != nil || again.String() != svg {
			t.Errorf("%s: got another picture of the same points, error %v", source, err)
		}
	}
	one := &train.Report{Source: "measured", Points: points[:1]}
	if err := train.Scatter(&bytes.Buffer{}, one, ""); err != nil {
		t.Errorf("one point: got %v", err)
	}
	if err := train.Scatter(failing{}, one, ""); err == nil {
		t.Error("a writer that fails: got no error")
	}
	if err := train.Scatter(&bytes.Buffer{}, &train.Report{}, ""); err == nil || !strings.Contains(err.Error(), "no points") {
		t.Errorf("no points: got %v", err)
	}
	for _, p := range []train.Point{{0, 1}, {1, -1}, {unit.Millis(math.NaN()), 1}, {1, unit.Millis(math.Inf(1))}} {
		if err := train.Scatter(&bytes.Buffer{}, &train.Report{Points: []train.Point{p}}, ""); err == nil || !strings.Contains(err.Error(), "no place on logarithmic axes") {
			t.Errorf("%v: got %v", p, err)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
