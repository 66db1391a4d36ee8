package replan

import (
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
)

// TestReshard changes plans of a running TorchRec job, and wants the tables that
// neuroshard_torchrec.reshard cannot move to stay.
func TestReshard(t *testing.T) {
	for _, test := range []struct {
		name      string
		optimizer problem.Optimizer
		was, now  string
		kept      string
		stay      []string
	}{
		{"to another device", problem.RowwiseAdagrad, "a@0 b@1", "a@1 b@0", "b@0 a@1", nil},
		{"cut anew, without a state of rows", problem.Adagrad, "a@0 b@1", "a[0:32]@1 a[32:64]@0 b@0", "a[32:64]@0 b@0 a[0:32]@1", nil},
		{"cut anew, with a state of rows", problem.RowwiseAdagrad, "a@0 b@1", "a[0:32]@1 a[32:64]@0 b@0", "a@0 b@0", []string{"a"}},
		{"slices on other devices", problem.RowwiseAdagrad, "a[0:32]@1 a[32:64]@0 b@0", "a[0:32]@0 a[32:64]@1 b@1", "a[0:32]@0 a[32:64]@1 b@1", nil},
		{"blocks of rows", problem.RowwiseAdagrad, "a@0 b@1", "a@rows b@1", "a(0:500)@0 a(500:1000)@1 b@1", nil},
		{"to every device", problem.SGD, "a@0 b@1", "a@* b@0", "a@0 b@0", []string{"a"}},
		{"from every device", problem.SGD, "a@* b@1", "a@0 b@0", "a!@0 b@0 a!@1", []string{"a"}},
		{"adam", problem.Adam, "a@0 b@1", "a@1 b@0", "a@0 b@1", []string{"a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := table("a", 1000, 64), table("b", 2000, 64)
			a.Optimizer, b.Optimizer = test.optimizer, test.optimizer
			p := handMade(t, 2, 2, a, b)
			p.Engine = problem.TorchRec
			adapted := must.Get(adapt(p, placedAs(t, p, test.was), nil))(t)
			kept, stay := newResharder(p, adapted).keep(p, adapted.held, placedAs(t, p, test.now).ByDevice())
			if got := written(p, kept); got != test.kept || !slices.Equal(stay, test.stay) {
				t.Errorf("got %q with %v staying, want %q with %v", got, stay, test.kept, test.stay)
			}
		})
	}
}

// A job must restart if its tables, devices or number formats change, and not for another batch.
func TestReshardRestarts(t *testing.T) {
	then := handMade(t, 4, 2, table("a", 1000, 64), table("b", 2000, 64))
	then.Engine = problem.TorchRec
	old := placedAs(t, then, "a@0 b@1")
	for _, test := range []struct {
		change func(p *problem.Problem)
		want   string
	}{
		{func(p *problem.Problem) { p.Batch *= 2 }, ""},
		{func(p *problem.Problem) { p.Tables = p.Tables[:1] }, "1 table removed"},
		{func(p *problem.Problem) { p.Tables[1].Rows++ }, "1 table resized"},
		{func(p *problem.Problem) { p.Tables[1].Precision = problem.FP16 }, "1 table of another precision or optimizer"},
		{func(p *problem.Problem) { p.Topology.DevicesPerHost = 4 }, "the cluster has other devices"},
	} {
		p := *then
		p.Tables = slices.Clone(then.Tables)
		test.change(&p)
		adapted := must.Get(adapt(&p, old, nil))(t)
		got := newResharder(&p, adapted)
		if got.Restart != test.want || (got.rules == nil) != (test.want != "") {
			t.Errorf("got restart %q, want %q", got.Restart, test.want)
		}
		if narrowed := got.narrow(&p); test.want == "" && !slices.Equal(narrowed.Tables[0].Constraint.ShardingTypes, []problem.ShardingType{plan.TableWise, plan.RowWise, plan.TableRowWise}) && p.Tables[0].Optimizer == problem.RowwiseAdagrad {
			t.Errorf("got sharding types %v, want those without cuts into columns", narrowed.Tables[0].Constraint.ShardingTypes)
		}
	}
}
