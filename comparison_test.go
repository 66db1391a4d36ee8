package neuroshard_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// eightTables returns a problem of 8 tables on 4 devices.
func eightTables(t *testing.T) problem.Problem {
	t.Helper()
	p := workloadNamed(t, "criteo-kaggle")
	p.Tables = p.Tables[:8]
	return p
}

// The plan of a method, given as one of another planner, is judged as the baseline itself, and the
// plan found is the same to the byte.
func TestComparedIsJudgedAsBaseline(t *testing.T) {
	p := eightTables(t)
	alone := completed(t.Context(), t, &p, neuroshard.Options{})
	theirs := planned(t, &p, neuroshard.Options{Search: search.Options{Method: search.Size}})
	before := written(t, theirs.Plan)
	others := []neuroshard.Baseline{
		{Method: "theirs", Plan: theirs.Plan, Wall: 1500},
		{Method: "none", Reason: "it is too large", Wall: 7},
		{Method: "silent"},
	}
	beside := completed(t.Context(), t, &p, neuroshard.Options{}, others...)
	if written(t, alone.Plan) != written(t, beside.Plan) {
		t.Error("got another plan beside plans of other planners, want the same")
	}
	if written(t, theirs.Plan) != before {
		t.Error("the plan that was compared with has changed")
	}
	n := len(search.Baselines())
	if got := beside.Baselines[:n]; !slices.Equal(got, alone.Baselines) {
		t.Errorf("got baselines %+v, want %+v", got, alone.Baselines)
	}
	size := alone.Baselines[slices.IndexFunc(alone.Baselines, func(b neuroshard.Baseline) bool { return b.Method == search.Size })]
	size.Method, size.Wall, size.Plan = "theirs", 1500, theirs.Plan
	for i := range theirs.Plan.Devices {
		size.Memory = max(size.Memory, theirs.Plan.Devices[i].Memory.Total()-theirs.Plan.Devices[i].Memory.Reserve)
	}
	want := []neuroshard.Baseline{size, {Method: "none", Reason: "it is too large", Wall: 7}, {Method: "silent", Reason: "it found no plan"}}
	if got := beside.Baselines[n:]; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A plan that breaks rules of the problem has its costs, and the first rule as the reason.
func TestComparedBreaksRules(t *testing.T) {
	p := eightTables(t)
	theirs := planned(t, &p, neuroshard.Options{Search: search.Options{Method: search.Size}})
	first := &theirs.Plan.Tables[0]
	other := (first.Shards[0].Device + 1) % p.Topology.Devices
	for rule, constraint := range map[string]problem.Constraint{
		"device":        {Devices: []int{other}},
		"sharding type": {ShardingTypes: []problem.ShardingType{problem.RowWise}},
	} {
		strict := p
		strict.Tables = slices.Clone(p.Tables)
		strict.Tables[0].Constraint = constraint
		r := completed(t.Context(), t, &strict, neuroshard.Options{Search: search.Options{ShardingTypes: []problem.ShardingType{problem.TableWise, problem.RowWise}}}, neuroshard.Baseline{Method: "theirs", Plan: theirs.Plan})
		b := r.Baselines[len(search.Baselines())]
		if b.Valid || b.Predicted != theirs.Predicted.Cost || !strings.Contains(b.Reason, `table "`+first.Name+`"`) {
			t.Errorf("%s: got %+v, want an invalid plan of %v whose reason names table %q", rule, b, theirs.Predicted.Cost, first.Name)
		}
	}
}

// Plans of other problems, or with names that are taken, are refused.
func TestComparedRefuses(t *testing.T) {
	p := eightTables(t)
	theirs := planned(t, &p, neuroshard.Options{Search: search.Options{Method: search.Size}}).Plan
	other := p
	other.Tables = p.Tables[1:]
	smaller := p
	smaller.Topology.Devices, smaller.Topology.DevicesPerHost = 2, 0
	for _, c := range []struct {
		name  string
		p     *problem.Problem
		given []neuroshard.Baseline
		want  string
	}{
		{"other tables", &other, []neuroshard.Baseline{{Method: "a", Plan: theirs}}, "the plan has 1 table that the problem lacks"},
		{"other devices", &smaller, []neuroshard.Baseline{{Method: "a", Plan: theirs}}, "the problem has 2, 2 a host"},
		{"no name", &p, []neuroshard.Baseline{{Plan: theirs}}, `name ""`},
		{"a method", &p, []neuroshard.Baseline{{Method: search.Dim, Plan: theirs}}, `name "dim"`},
		{"twice", &p, []neuroshard.Baseline{{Method: "a", Plan: theirs}, {Method: "a"}}, "compared plan 1"},
	} {
		l, err := neuroshard.NewPlanner(t.Context(), c.p, neuroshard.Options{})
		if err == nil {
			err = l.Compare(&neuroshard.Result{}, c.given)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
		}
	}
	empty := neuroshard.Baseline{Method: "a", Reason: "none"}
	if err := empty.Check(&p); err != nil {
		t.Errorf("got error %v without a plan, want none", err)
	}
	cut := *theirs
	cut.Tables = slices.Clone(theirs.Tables)
	cut.Tables[0].Shards = []plan.Shard{}
	if err := (&neuroshard.Baseline{Plan: &cut}).Check(&p); err == nil {
		t.Error("got no error of a plan with a table that is placed nowhere")
	}
}
