package neuroshard_test

import (
	"context"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// TestPrice estimates a plan without estimates. The result must be that of Plan for the
// same placement. A table in a form that the model does not estimate is an error.
func TestPrice(t *testing.T) {
	drawn := workloadNamed(t, "criteo-kaggle")
	p := &drawn
	result := must.Get(neuroshard.Plan(context.Background(), p, neuroshard.Options{Search: search.Options{Method: search.Size}, Warnings: []string{"doubt"}}))(t)
	want := result.Plan
	tables := slices.Clone(want.Tables)
	got := plan.Of(p, tables)
	got.Provenance.ModelSource = plan.Unpriced
	must.Do(t, neuroshard.Price(t.Context(), got, p, neuroshard.Options{Warnings: []string{"doubt"}}))
	if got.Predicted != want.Predicted || !slices.Equal(got.Devices, want.Devices) {
		t.Errorf("got cost %v and devices %+v, want %v and %+v", got.Predicted, got.Devices, want.Predicted, want.Devices)
	}
	if !slices.Equal(got.Provenance.Warnings, want.Provenance.Warnings) || got.Provenance.Model != want.Provenance.Model || !got.Priced() {
		t.Errorf("got provenance %+v, want the model and the warnings of %+v", got.Provenance, want.Provenance)
	}
	if err := got.Validate(p); err != nil {
		t.Error(err)
	}

	// A table that is cut by rows and also in host memory.
	got.Tables = slices.Clone(got.Tables)
	both := got.Tables[0]
	both.ShardingType = plan.RowWise
	both.Shards = slices.Clone(both.Shards)
	both.Shards[0].Tier = plan.Host
	got.Tables[0] = both
	got.Provenance.ModelSource = plan.Unpriced
	before := got.Predicted
	var unpriceable *neuroshard.Unpriceable
	if err := neuroshard.Price(t.Context(), got, p, neuroshard.Options{}); !errors.As(err, &unpriceable) || got.Predicted != before || got.Priced() {
		t.Fatalf("got error %v and cost %v, want an *Unpriceable and the plan unchanged, cost %v", err, got.Predicted, before)
	}
	if want := "no model estimates tables that are cut by rows or replicated and also in host memory: \"t000\""; unpriceable.Error() != want {
		t.Errorf("got error %s, want %s", unpriceable, want)
	}
}

// published returns the prototype's nets for four devices.
func published(t *testing.T) *prototype.Models {
	t.Helper()
	var files []prototype.File
	for _, name := range []string{"compute.pt", "comm_4_fw.pt", "comm_4_bw.pt"} {
		f := must.Get(os.Open("cost/prototype/testdata/models/" + name))(t)
		defer func() { _ = f.Close() }()
		files = append(files, prototype.File{Name: name, Reader: f})
	}
	return must.Get(prototype.Load(files[0], files[1], files[2]))(t)
}

// drawnTask returns a task drawn as in the paper, on devices of profile a100-80.
func drawnTask(t *testing.T, devices int) *problem.Problem {
	t.Helper()
	drawn := must.Get(workload.Draw(workload.Pool(7), workload.PaperSettings()[0], 7, 0))(t)
	p := drawn.Problem(must.Get(hardware.ByName("a100-80"))(t))
	p.Topology.Devices, p.Topology.DevicesPerHost = devices, 0
	return &p
}

// TestChoicesOfPrices checks the name, the model and the supported forms of each choice.
// Evaluate must return for Plan's placement what Plan returned.
func TestChoicesOfPrices(t *testing.T) {
	model := shipped(t, "a100-80")
	id := model.Manifest().ID
	p := drawnTask(t, 4)
	for _, c := range []struct {
		prices             neuroshard.Prices
		name, model        string
		judged, rows, both bool
	}{
		{neuroshard.Pretrained(), "embedded", id, true, true, false},
		{neuroshard.Trained(model, 0), id, id, true, true, false},
		{neuroshard.Trained(model, 1.5), id + ", risk penalty 1.5", id, true, true, false},
		{neuroshard.TorchRec(), "torchrec-1.9.2", "torchrec-1.9.2", true, true, true},
		{neuroshard.Prototype(published(t)), "prototype-", "prototype-", false, false, false},
	} {
		if got := c.prices.String(); !strings.HasPrefix(got, c.name) {
			t.Errorf("got name %q, want a name that starts with %q", got, c.name)
		}
		if got, err := c.prices.Model(p.Topology); err != nil || !strings.HasPrefix(got, c.model) {
			t.Errorf("%v: got model %q and error %v, want a model that starts with %q", c.prices, got, err, c.model)
		}
		list := must.Get(c.prices.List(t.Context(), p))(t)
		rows := problem.Form{ShardingType: problem.RowWise}
		if got := list.Supports(rows); got != c.rows {
			t.Errorf("%v: supports row_wise: got %v, want %v", c.prices, got, c.rows)
		}
		rows.Tier = problem.Host
		if got := list.Supports(rows); got != c.both {
			t.Errorf("%v: supports row_wise in host memory: got %v, want %v", c.prices, got, c.both)
		}
		for _, method := range []search.Method{search.NeuroShard, search.Size} {
			opt := neuroshard.Options{Prices: c.prices, Search: search.Options{Method: method, Workers: 1}}
			want := completed(t.Context(), t, p, opt)
			got := evaluated(t, p, want.Shards, opt)
			if want.Judged() != c.judged || want.Status != search.Complete {
				t.Errorf("%v, %s: got judged %v and status %q, want %v and %q", c.prices, method, want.Judged(), want.Status, c.judged, search.Complete)
			}
			if _, bounded := want.Gap(); bounded != (c.model == id) {
				t.Errorf("%v, %s: has a bound: got %v, want %v", c.prices, method, bounded, c.model == id)
			}
			want.Baselines = nil
			got.Status, got.Stats, got.Optimal, got.Plan.Provenance.Status = want.Status, want.Stats, want.Optimal, want.Plan.Provenance.Status
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, %s: got %+v, want %+v", c.prices, method, got, want)
			}
		}
	}
}

// TestChoicesOfPricesRefuse asks for estimates that a choice cannot make: for another
// number of devices, an unknown profile, an empty placement, and a table cut by rows.
func TestChoicesOfPricesRefuse(t *testing.T) {
	p := drawnTask(t, 8)
	nets := neuroshard.Prototype(published(t))
	if _, err := nets.Model(p.Topology); err == nil || !strings.Contains(err.Error(), "8 devices, but the comm nets are for 4") {
		t.Errorf("8 devices: got error %v, want one that names both numbers of devices", err)
	}
	if _, err := neuroshard.Plan(context.Background(), p, neuroshard.Options{Prices: nets}); err == nil {
		t.Error("8 devices: got a plan, want an error")
	}
	if _, err := neuroshard.Evaluate(t.Context(), p, nil, neuroshard.Options{Prices: nets}); err == nil {
		t.Error("8 devices: got an estimate, want an error")
	}
	unknown := hardware.Topology{Profile: hardware.Profile{Name: "unheard-of"}, Devices: 4}
	if _, err := neuroshard.Pretrained().Model(unknown); err == nil || !strings.Contains(err.Error(), "unheard-of") {
		t.Errorf("got error %v, want one that names the profile", err)
	}
	p = drawnTask(t, 4)
	// Bandwidths that only TorchRec's formulas read are an error of the problem for all others.
	linked := *p
	linked.Topology.Bandwidths.HBM = unit.Bandwidth(unit.TB)
	multiplied := *p
	multiplied.Topology.Multipliers.Backward = 3
	for _, prices := range []neuroshard.Prices{nil, nets} {
		var invalid *problem.Invalid
		if _, err := neuroshard.Plan(context.Background(), &multiplied, neuroshard.Options{Prices: prices}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "a multiplier of the backward, which only TorchRec's formulas read") {
			t.Errorf("%v, a multiplier: got error %v, want a *problem.Invalid", prices, err)
		}
		if _, err := neuroshard.Plan(context.Background(), &linked, neuroshard.Options{Prices: prices}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "only TorchRec's formulas read") {
			t.Errorf("%v, a bandwidth of device memory: got error %v, want a *problem.Invalid", prices, err)
		}
	}
	empty := make([][]problem.Shard, 4)
	for _, prices := range []neuroshard.Prices{nil, nets} {
		var invalid *plan.Invalid
		if _, err := neuroshard.Evaluate(t.Context(), p, empty, neuroshard.Options{Prices: prices}); !errors.As(err, &invalid) {
			t.Errorf("%v, an empty placement: got error %v, want a *plan.Invalid", prices, err)
		}
	}
	pl := plan.New(p, empty)
	pl.Tables[0].ShardingType, pl.Tables[0].Shards = plan.RowWise, []plan.Shard{{}}
	var unpriceable *neuroshard.Unpriceable
	if err := neuroshard.Price(t.Context(), pl, p, neuroshard.Options{Prices: nets}); !errors.As(err, &unpriceable) || !strings.Contains(err.Error(), "only slices of columns in HBM") {
		t.Errorf("a row_wise table: got error %v, want an *Unpriceable about slices of columns", err)
	}
	if err := neuroshard.Price(t.Context(), pl, drawnTask(t, 8), neuroshard.Options{Prices: nets}); err == nil {
		t.Error("8 devices: got an estimate, want an error")
	}
}

// TestScored plans with a caller's Scorer, which must conform and be the cost in the plan,
// and passes on the error of a model that does not estimate the problem.
func TestScored(t *testing.T) {
	drawn := workloadNamed(t, "criteo-kaggle")
	p := &drawn
	factory, err := newLookups(p)
	if err != nil {
		t.Fatal(err)
	}
	searchtest.Conform(t, p, factory, []problem.Form{{}})
	result := completed(t.Context(), t, p, neuroshard.Options{Prices: neuroshard.Scored("lookups", newLookups)})
	busiest := 0.0
	for _, held := range result.Shards {
		looked := 0.0
		for _, s := range held {
			looked += float64(p.Batch) * p.Tables[s.Table].PoolingFactor() * float64(s.Dim()) / 1e6
		}
		busiest = max(busiest, looked)
	}
	if got := float64(result.Plan.Predicted); math.Abs(got/busiest-1) > 1e-9 {
		t.Errorf("got cost %v, want that of the busiest device %v", got, busiest)
	}
	if v := result.Plan.Provenance; v.Model != "lookups" || v.ModelSource != plan.Custom || result.Judged() {
		t.Errorf("got provenance %+v, judged %t, want the caller's model and no judge", v, result.Judged())
	}
	for _, b := range result.Baselines {
		if b.Valid && b.Predicted < result.Plan.Predicted {
			t.Errorf("method %s: got cost %v below the plan's %v", b.Method, b.Predicted, result.Plan.Predicted)
		}
	}
	refused := errors.New("no such tables")
	_, err = neuroshard.Plan(context.Background(), p, neuroshard.Options{Prices: neuroshard.Scored("none", func(*problem.Problem) (search.Factory, error) { return nil, refused })})
	if !errors.Is(err, refused) {
		t.Errorf("got error %v, want %v", err, refused)
	}
}

// The bound of a plan counts several operators on a device if the search may divide them, or
// if the plan does.
func TestBoundCountsOperators(t *testing.T) {
	pool := workload.Pool(1)[:6]
	for i := range pool {
		pool[i].Dim = 8 << (4 * (i % 2)) // beside a wide table, a narrow one has idle lanes
		for f := range pool[i].Features {
			pool[i].Features[f].PoolingFactor = 100
		}
	}
	p := &problem.Problem{Tables: pool, Batch: 65536, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 2}}
	least := func(operators bool) unit.Millis {
		t.Helper()
		b := must.Get(bound.Simulated(context.Background(), p, bound.Allowed{Host: true, Operators: operators}))(t)
		return b.Total
	}
	one, several := least(false), least(true)
	if !(several < one) {
		t.Fatalf("got a bound of %v with several operators, and %v with one on each device: the test says nothing", several, one)
	}
	for _, test := range []struct {
		name   string
		number problem.Operator
		opt    search.Options
		want   unit.Millis
	}{
		{"the search divides", 0, search.Options{}, several},
		{"the plan divides", 1, search.Options{OneOperator: true}, several},
		{"neither", 0, search.Options{OneOperator: true}, one},
		{"another method", 0, search.Options{Method: search.Dim}, one},
	} {
		shards := make([][]problem.Shard, 2)
		for i := range p.Tables {
			s := p.Whole(i)
			if i%2 == 1 {
				s.Operator = test.number
			}
			shards[i/2%2] = append(shards[i/2%2], s)
		}
		test.opt.ShardingTypes = search.Columns()
		got := evaluated(t, p, shards, neuroshard.Options{Search: test.opt})
		if got.Bound.Total != test.want {
			t.Errorf("%s: got a bound of %v, want %v", test.name, got.Bound.Total, test.want)
		}
	}
}

// drawnFor returns a problem of 26 equal tables on a number of devices.
func drawnFor(t *testing.T, devices int) *problem.Problem {
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: devices}}
	for i := range 26 {
		name := string(rune('a' + i))
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 100_000, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: 2}}, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05}})
	}
	return p
}

// TestTheBoundCountsFixedCompute: with a load on all devices alike, the bound rises by its time, and a
// plan costs no less.
func TestTheBoundCountsFixedCompute(t *testing.T) {
	p := drawnFor(t, 2)
	var opt neuroshard.Options
	without := completed(t.Context(), t, p, opt)
	p.Topology.Fixed = []hardware.FixedLoad{{Name: "dynamic", Time: .5}, {Name: "busy", Devices: []int{1}, Time: .125}}
	with := completed(t.Context(), t, p, opt)
	if rise := with.Bound.Total - without.Bound.Total; rise < .499 || rise > .501 {
		t.Errorf("got a bound that rises by %v, want 0.5 ms", rise)
	}
	if with.Simulated.Cost < with.Bound.Total {
		t.Errorf("got a simulated cost of %v below the bound %v", with.Simulated.Cost, with.Bound.Total)
	}
}
