package neuroshard_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// If all exchanges are hidden, only compute matters.
func TestPlanOfHiddenExchanges(t *testing.T) {
	p := several(t)
	p.Tables = p.Tables[:3]
	p.Topology.Devices, p.Topology.DevicesPerHost = 2, 0
	for i := range p.Tables {
		p.Tables[i].Dim, p.Tables[i].Constraint.NoSplit = 16, true
	}
	opt := neuroshard.Options{Hidden: plan.Hidden{Forward: 1e3, Backward: 1e3}, Search: search.Options{ShardingTypes: []problem.ShardingType{problem.TableWise}}}
	r := planned(t, p, opt)
	compute := func(shards [][]problem.Shard) unit.Millis {
		other := must.Get(neuroshard.Evaluate(t.Context(), p, shards, neuroshard.Options{}))(t)
		longest := unit.Millis(0)
		for _, d := range other.Predicted.Devices {
			longest = max(longest, d.Forward+d.Backward)
		}
		return longest
	}
	least := unit.Millis(math.Inf(1))
	for places := range 1 << len(p.Tables) {
		shards := make([][]problem.Shard, 2)
		for i := range p.Tables {
			d := places >> i & 1
			shards[d] = append(shards[d], p.Whole(i))
		}
		least = min(least, compute(shards))
	}
	if got := compute(r.Shards); math.Abs(float64(got/least)-1) > 1e-9 || math.Abs(float64(r.Predicted.Cost/least)-1) > 1e-9 {
		t.Errorf("got a plan that computes for %v and costs %v, want both to be the least compute, %v", got, r.Predicted.Cost, least)
	}
}

// What a training system hides follows from its dense part, and bad combinations are errors.
func TestStepOfAPlan(t *testing.T) {
	p := several(t)
	for i := range p.Tables {
		p.Tables[i].Dim = 32
	}
	p.CommPrecision = problem.FP16
	dense := step.Dense{Bottom: []int{13, 256, 32}, Interaction: step.Dot, Top: []int{512, 1}, Precision: step.FP16}
	stackNamed := func(name string) step.Stack {
		return must.Get(step.StackByName(name))(t)
	}
	hugectr := stackNamed("hugectr")
	in := &step.Input{Dense: &dense, Stack: hugectr}
	brief := search.Options{MaxEvaluations: 1}
	want := *in
	want.Problem = p
	hidden, err := want.Hidden()
	if err != nil || !(hidden.Forward > 0 && hidden.Backward > hidden.Forward && hidden.Replicas) {
		t.Fatalf("got %+v hidden, %v, want more backward than forward, and replicas", hidden, err)
	}
	if got := planned(t, p, neuroshard.Options{Step: in, Search: brief}).Plan.Provenance.Hidden; got != hidden {
		t.Errorf("got %+v hidden in the plan, want %+v", got, hidden)
	}
	sparse := &step.Input{Dense: &dense, Stack: stackNamed("torchrec-sparse")}
	plain := planned(t, p, neuroshard.Options{Search: brief})
	if got := planned(t, p, neuroshard.Options{Step: sparse, Search: brief}); written(t, got.Plan) != written(t, plain.Plan) {
		t.Errorf("torchrec-sparse hides no exchange: got another plan than without a step")
	}
	// A problem that states no format is priced in the stack's.
	wide, narrow := *p, hugectr
	wide.CommPrecision = problem.FP32
	same := planned(t, &wide, neuroshard.Options{Step: in, Search: brief})
	if got, want := same.Predicted.Cost, planned(t, p, neuroshard.Options{Step: in, Search: brief}).Predicted.Cost; got != want {
		t.Errorf("no format stated: got a cost of %v, want %v, as in fp16", got, want)
	}
	if got := same.Plan.Provenance.Warnings; !slices.ContainsFunc(got, func(w string) bool { return strings.Contains(w, "exchanges in fp16") }) {
		t.Errorf("got warnings %q, want one of the format", got)
	}
	// The search counts a hierarchical exchange, with a dense part and without one.
	stack := stackNamed("hugectr-hierarchical")
	for _, in := range []step.Input{{Dense: &dense, Stack: stack}, {Measured: step.Measured{Step: 100}, Stack: stack}} {
		if got := planned(t, p, neuroshard.Options{Step: &in, Search: brief}).Plan.Provenance; got.Hierarchy != stack.Hierarchy() || (got.Hidden == hidden) != (in.Dense != nil) {
			t.Errorf("got %+v and %+v hidden in the plan, want %+v", got.Hierarchy, got.Hidden, stack.Hierarchy())
		}
	}
	narrow.Backward, narrow.Forward = nil, new(problem.Precision)
	misfit := dense
	misfit.Bottom = []int{13, 48}
	for _, c := range []struct {
		name string
		p    *problem.Problem
		opt  neuroshard.Options
		want string
	}{
		{"another number format", p, neuroshard.Options{Step: &step.Input{Dense: &dense, Stack: narrow}}, `stack "hugectr" exchanges in fp32, and the problem states fp16: state the same number format in both`},
		{"hidden twice", p, neuroshard.Options{Step: in, Hidden: plan.Hidden{Forward: 1}}, "leave Options.Hidden zero"},
		{"negative", p, neuroshard.Options{Hidden: plan.Hidden{Backward: -1}}, "-1 ms are hidden of the backward exchanges"},
		{"formulas", p, neuroshard.Options{Step: in, Prices: neuroshard.TorchRec()}, "does not tell exchanges from compute"},
		{"dense part", p, neuroshard.Options{Step: &step.Input{Dense: &misfit, Stack: hugectr}}, "48"},
	} {
		c.opt.Search = brief
		if _, err := neuroshard.Plan(context.Background(), c.p, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Plan: got %v, want %q", c.name, err, c.want)
		}
		if err := neuroshard.Price(t.Context(), plain.Plan, c.p, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Price: got %v, want %q", c.name, err, c.want)
		}
		if _, _, err := neuroshard.Alternatives(t.Context(), plain.Plan, c.p, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Alternatives: got %v, want %q", c.name, err, c.want)
		}
	}
	var invalid *step.InvalidDense
	if _, err := neuroshard.Plan(context.Background(), p, neuroshard.Options{Step: &step.Input{Dense: &misfit, Stack: hugectr}}); !errors.As(err, &invalid) {
		t.Errorf("got %v, want a *step.InvalidDense", err)
	}
}
