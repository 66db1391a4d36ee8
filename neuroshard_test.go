package neuroshard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
)

func workloadNamed(t *testing.T, name string) problem.Problem {
	t.Helper()
	w := must.Get(workload.ByName(name))(t)
	return w.Problem()
}

// shipped returns the model that ships for a profile.
func shipped(t *testing.T, profile string) *cost.Model {
	t.Helper()
	file := must.Get(pretrained.File(profile))(t)
	return must.Get(cost.Load(file))(t)
}

// planned returns the plan of a problem. Without sharding types in the options it has slices of
// columns alone, which most tests judge by other means than a search.
func planned(t *testing.T, p *problem.Problem, opt neuroshard.Options) *neuroshard.Result {
	t.Helper()
	if opt.Search.ShardingTypes == nil {
		opt.Search.ShardingTypes = search.Columns()
	}
	return must.Get(neuroshard.Plan(context.Background(), p, opt))(t)
}

// completed returns the same with all that a Planner adds to a plan. It does so even if ctx ends
// while it searches.
func completed(ctx context.Context, t testing.TB, p *problem.Problem, opt neuroshard.Options, compared ...neuroshard.Baseline) *neuroshard.Result {
	t.Helper()
	if opt.Search.ShardingTypes == nil {
		opt.Search.ShardingTypes = search.Columns()
	}
	l, err := neuroshard.NewPlanner(ctx, p, opt)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Plan(ctx)
	if err == nil {
		r, err = l.FreeSlices(ctx, r)
	}
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, errors.Join(l.Certify(context.WithoutCancel(ctx), r), l.Baselines(ctx, r), l.Compare(r, compared)))
	return r
}

// evaluated judges a placement and bounds the costs of all others.
func evaluated(t *testing.T, p *problem.Problem, shards [][]problem.Shard, opt neuroshard.Options) *neuroshard.Result {
	t.Helper()
	l, err := neuroshard.NewPlanner(t.Context(), p, opt)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Evaluate(t.Context(), shards)
	if err == nil {
		err = l.Certify(t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func written(t *testing.T, pl *plan.Plan) string {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, pl.Write(&text))
	return text.String()
}

// TestEveryWorkloadHasAPlan plans each published workload with all baselines.
func TestEveryWorkloadHasAPlan(t *testing.T) {
	for _, w := range workload.All() {
		t.Run(w.Name, func(t *testing.T) {
			p, opt := w.Problem(), neuroshard.Options{Search: search.Options{MaxEvaluations: 5_000, Brief: true}}
			l := must.Get(neuroshard.NewPlanner(t.Context(), &p, opt))(t)
			r := must.Get(l.Plan(t.Context()))(t)
			must.Do(t, l.Baselines(t.Context(), r))
			if err := r.Plan.Validate(&p); err != nil {
				t.Error(err)
			}
			// The models are accurate to about 1 %. A lost term shows as a larger error.
			if bias := float64(r.Predicted.Cost/r.Simulated.Cost) - 1; math.Abs(bias) > .05 {
				t.Errorf("got predicted cost %v, simulated %v: want within 5 %%", r.Predicted.Cost, r.Simulated.Cost)
			}
			for _, b := range r.Baselines {
				if b.Valid && (r.Predicted.Cost > b.Predicted*(1+1e-9) || r.Simulated.Cost > b.Simulated*1.02) {
					t.Errorf("got cost %v, simulated %v, want at most those of %s, %v and %v", r.Predicted.Cost, r.Simulated.Cost, b.Method, b.Predicted, b.Simulated)
				}
			}
		})
	}
}

func TestPlanSaysWhatItIs(t *testing.T) {
	p := workloadNamed(t, "mlperf-dlrm-dcnv2")
	r := planned(t, &p, neuroshard.Options{Warnings: []string{"accesses are assumed"}, Search: search.Options{Method: search.Lookup, Seed: 12}})
	pl := r.Plan
	want := plan.Provenance{
		Tool: "neuroshard", Version: neuroshard.Version, Method: "lookup", Seed: 12, Status: "complete",
		Model: shipped(t, "a100-80").Manifest().ID, ModelSource: "simulated", Input: plan.Digest(&p),
		Warnings: []string{"accesses are assumed", pl.Provenance.Warnings[len(pl.Provenance.Warnings)-1]},
	}
	if got := fmt.Sprintf("%+v", pl.Provenance); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got provenance %s, want %+v", got, want)
	}
	if !strings.Contains(want.Warnings[1], "SIMULATED") {
		t.Errorf("got warning %q, want one that says SIMULATED", want.Warnings[1])
	}
	if pl.Predicted != r.Predicted.Cost || len(pl.Devices) != 8 {
		t.Errorf("got predicted cost %v of %d devices, want %v of 8", pl.Predicted, len(pl.Devices), r.Predicted.Cost)
	}
	for i, d := range pl.Devices {
		if d.StepTimes != r.Predicted.Devices[i] {
			t.Errorf("device %d: got times %+v, want those predicted, %+v", i, d.StepTimes, r.Predicted.Devices[i])
		}
	}
	if r.Baselines != nil {
		t.Errorf("got %d baselines, want none: they were not asked for", len(r.Baselines))
	}
	if def := planned(t, &p, neuroshard.Options{}); def.Plan.Provenance.Method != string(search.Default) {
		t.Errorf("no method: got %q, want %q", def.Plan.Provenance.Method, search.Default)
	}
}

func TestTooSmallClusters(t *testing.T) {
	p, opt := workloadNamed(t, "mlperf-dlrm-dcnv2"), neuroshard.Options{Search: search.Options{MaxEvaluations: 2_000}}
	p.Topology.Devices, p.Topology.DevicesPerHost = 1, 0
	_, err := neuroshard.Plan(context.Background(), &p, opt)
	var no *search.Infeasible
	if !errors.As(err, &no) {
		t.Fatalf("got error %v, want *search.Infeasible", err)
	}
	if no.Table == "" || no.Missing <= 0 || no.Missing != no.Need-no.Have || no.Device != 0 {
		t.Errorf("got %+v, want a table, a device, and missing bytes: what is needed less what is free", no)
	}
	for _, want := range []string{fmt.Sprintf("%q", no.Table), no.Missing.String() + " missing", fmt.Sprintf("%d devices would be enough", no.DevicesNeeded)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %q, want one that contains %q", err, want)
		}
	}
	// DevicesNeeded devices are enough, and one device less is not.
	p.Topology.Devices = no.DevicesNeeded
	hasRoom(t, &p, planned(t, &p, opt).Plan)
	p.Topology.Devices--
	if _, err := neuroshard.Plan(context.Background(), &p, opt); !errors.As(err, &no) {
		t.Errorf("%d devices: got error %v, want *search.Infeasible", p.Topology.Devices, err)
	}
}

// TestNoNumberOfDevicesWouldDo: if the narrowest slice of a table is larger than a device,
// no number of devices is enough.
func TestNoNumberOfDevicesWouldDo(t *testing.T) {
	p := workloadNamed(t, "hugectr-7")
	p.Topology.Profile, p.Topology.Memory = must.Get(hardware.ByName("a100-40"))(t), 0
	_, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{})
	var no *search.Infeasible
	if !errors.As(err, &no) {
		t.Fatalf("got error %v, want *search.Infeasible", err)
	}
	if no.DevicesNeeded != 0 || !strings.Contains(err.Error(), "no number of devices would be enough") || !strings.Contains(err.Error(), "needs devices of at least") {
		t.Errorf("got %d devices needed and error %q, want none, and why", no.DevicesNeeded, err)
	}
}

func TestInterruptions(t *testing.T) {
	p := workloadNamed(t, "nvidia-synthetic-small")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := neuroshard.Plan(ended, &p, neuroshard.Options{}); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("cancelled before: got result %v and error %v, want %v", r != nil, err, context.Canceled)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := 0
	opt := neuroshard.Options{Warnings: []string{"of the input"}}
	opt.Search.OnEvent = func(e search.Event) {
		if events++; !math.IsInf(e.Best, 1) {
			cancel()
		}
	}
	r := completed(ctx, t, &p, opt)
	if r.Status != search.Interrupted || r.Plan.Provenance.Status != "interrupted" {
		t.Errorf("cancelled in the search: got status %q, in the plan %q, want interrupted", r.Status, r.Plan.Provenance.Status)
	}
	if err := r.Plan.Validate(&p); err != nil {
		t.Errorf("cancelled in the search: %v", err)
	}
	hasRoom(t, &p, r.Plan)
	w := r.Plan.Provenance.Warnings
	if len(w) != 3 || w[0] != "of the input" || !strings.Contains(w[1], "SIMULATED") || !strings.Contains(w[2], "interrupted") {
		t.Errorf("got warnings %q, want the input's, SIMULATED and interrupted", w)
	}
	for _, b := range r.Baselines {
		if b.Valid {
			t.Errorf("%s: got a plan after the context ended, want none", b.Method)
		}
	}
	full := planned(t, &p, neuroshard.Options{})
	if full.Predicted.Cost > r.Predicted.Cost || full.Status != search.Complete {
		t.Errorf("the whole search: got cost %v and status %s, want at most the interrupted one's, %v, and complete", full.Predicted.Cost, full.Status, r.Predicted.Cost)
	}
}

func TestBudgetIsAStatus(t *testing.T) {
	p := workloadNamed(t, "nvidia-synthetic-small")
	r := planned(t, &p, neuroshard.Options{Search: search.Options{MaxEvaluations: 1}})
	if r.Status != search.OutOfBudget || r.Plan.Provenance.Status != "budget" {
		t.Errorf("got status %q, in the plan %q, want %q", r.Status, r.Plan.Provenance.Status, search.OutOfBudget)
	}
	hasRoom(t, &p, r.Plan)
}

// Plans of all methods keep to constraints: Plan fails if Plan.Validate finds one that is broken.
func TestConstraintsAreHonoured(t *testing.T) {
	p := problem.Problem{Batch: 16384, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 4, ReserveShare: .15}}
	for i := range 20 {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprintf("t%d", i), Rows: 100_000 * int64(i+1), Dim: 64,
			Features:  []problem.Feature{{Name: fmt.Sprintf("f%d", i), PoolingFactor: float64(1 + 5*(i%4))}},
			Access:    access.Distribution{Kind: access.Zipf, Exponent: 1.05},
			Optimizer: problem.RowwiseAdagrad,
		})
	}
	// Tables that the search prefers to cut, because they take most of the time.
	for i := range 4 {
		p.Tables[i].Features[0].PoolingFactor = 200
	}
	p.Tables[0].Constraint = problem.Constraint{NoSplit: true}
	p.Tables[1].Constraint = problem.Constraint{Devices: []int{2}}
	p.Tables[2].Constraint = problem.Constraint{MinWidth: 32}
	p.Tables[3].Constraint = problem.Constraint{Devices: []int{1, 3}}
	p.Tables[4].Constraint = problem.Constraint{Colocation: "together"}
	p.Tables[5].Constraint = problem.Constraint{Colocation: "together"}
	for _, method := range search.Methods() {
		if method == search.Paper {
			continue
		}
		hasRoom(t, &p, planned(t, &p, neuroshard.Options{Search: searchtest.WithPolicy(search.Options{Method: method})}).Plan)
	}
}

func TestModels(t *testing.T) {
	p := workloadNamed(t, "mlperf-dlrm-dcnv2")
	for _, name := range pretrained.Profiles() {
		r, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Prices: neuroshard.Trained(shipped(t, name), 0), Search: search.Options{Method: search.Dim}})
		if name == p.Topology.Profile.Name {
			if err != nil || r.Plan.Provenance.Model != shipped(t, name).Manifest().ID {
				t.Errorf("the model of the profile itself: got error %v", err)
			}
		} else if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), p.Topology.Profile.Name) {
			t.Errorf("model of %s: got error %v, want one that names both profiles", name, err)
		}
	}
	p.Topology.Profile.Name = "unheard-of"
	if _, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{}); err == nil || !strings.Contains(err.Error(), "neuroshard lab train --simulate unheard-of") {
		t.Errorf("a profile without a model: got error %v, want one that says how to train one", err)
	}
	if _, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Search: search.Options{Method: "magic"}}); err == nil {
		t.Error("got a plan by an unknown method, want an error")
	}
}

// TestMeasuredModels: the simulated device does not judge the estimates of a model of
// measured samples. If the samples of all-to-alls were simulated, a warning says so.
func TestMeasuredModels(t *testing.T) {
	p := workloadNamed(t, "mlperf-dlrm-dcnv2")
	for _, comm := range []string{"", "simulated"} {
		file := must.Get(pretrained.File("a100-80"))(t)
		changed := *file
		changed.Manifest.Source, changed.Manifest.CommSource = "measured", comm
		model := must.Get(cost.Load(&changed))(t)
		r := completed(t.Context(), t, &p, neuroshard.Options{Prices: neuroshard.Trained(model, 0), Search: search.Options{Method: search.Dim}})
		if _, ok := r.Gap(); r.Judged() || ok || r.Baselines[0].Simulated != 0 {
			t.Errorf("all-to-alls %q: got a simulated cost or a bound, want none", comm)
		}
		if warned := strings.Contains(strings.Join(r.Plan.Provenance.Warnings, "\n"), "SIMULATED"); warned != (comm != "") {
			t.Errorf("all-to-alls %q: got warnings %q, one of them with SIMULATED: want %v", comm, r.Plan.Provenance.Warnings, comm != "")
		}
	}
}
