package replan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// drawnTables returns n tables named from the given number on.
func drawnTables(r *rand.Rand, first, n int) []problem.Table {
	var all []problem.Table
	for i := range n {
		t := table(fmt.Sprintf("t%d", first+i), int64(1000*(1+r.IntN(300))), []int{16, 32, 64, 128}[r.IntN(4)])
		t.Features[0].PoolingFactor = 1 + 30*r.Float64()
		t.Optimizer = problem.Optimizer(r.IntN(3))
		t.Access = access.Distribution{Kind: access.Zipf, Exponent: 0.9 + 0.3*r.Float64()}
		all = append(all, t)
	}
	return all
}

// planned returns a plan of the problem.
func planned(t *testing.T, p *problem.Problem) *plan.Plan {
	t.Helper()
	made := must.Get(neuroshard.Plan(t.Context(), p, neuroshard.Options{Search: search.Options{ShardingTypes: search.Columns()}}))(t)
	return made.Plan
}

// TestReplanByBruteForce compares re-plans of tiny problems with all placements of whole tables on
// all devices. The sum of cost and price is at most TieBand above the least one.
func TestReplanByBruteForce(t *testing.T) {
	replanByBruteForce(t, 1, 0)
}

// replanByBruteForce allows some of the problems to be more than TieBand, and at most three times
// TieBand, above the least sum: a search from an old plan does not try all placements.
func replanByBruteForce(t *testing.T, problems, some int) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range problems {
		tables := drawnTables(r, 0, 3)
		for k := range tables {
			tables[k].Constraint.NoSplit = true
		}
		was := handMade(t, 3, 2, tables[:2]...)
		old := planned(t, was)
		p := handMade(t, 3, 2, tables...)
		price := math.Pow(10, float64(r.IntN(4))-1) // ms for a GB
		least := bruteForce(t, p, old, price)
		got := must.Get(Plan(t.Context(), p, old, Options{Price: price, Options: neuroshard.Options{Search: search.Options{ShardingTypes: search.Columns()}}}))(t)
		point := got.Point()
		sum := float64(point.Cost) + price*float64(point.Transfer.Bytes)/1e9
		over := (sum - least - 1e-9) / float64(point.Cost)
		if over > TieBand {
			some--
		}
		if over > TieBand && some < 0 || over > 3*TieBand {
			t.Errorf("problem %d, %v ms for a GB: got %v ms and %v, together %v, want at most %v with the tie band", i, price, point.Cost, point.Transfer.Bytes, sum, least)
		}
	}
}

// bruteForce returns the least sum of cost and price over all placements of whole tables.
func bruteForce(t *testing.T, p *problem.Problem, old *plan.Plan, price float64) float64 {
	t.Helper()
	list := must.Get(neuroshard.Pretrained().List(t.Context(), p))(t)
	n, least := p.Topology.Devices, math.Inf(1)
	for code := range int(math.Pow(float64(n), float64(len(p.Tables)))) {
		shards := make([][]problem.Shard, n)
		for i := range p.Tables {
			shards[code%n] = append(shards[code%n], p.Whole(i))
			code /= n
		}
		moved := must.Get(plan.NewTransfer(old, plan.New(p, shards)))(t)
		least = min(least, float64(list.Price(shards).Cost)+price*float64(moved.Bytes)/1e9)
	}
	return least
}

// TestReplanProperties draws problems and small changes, and checks what every re-plan promises.
func TestReplanProperties(t *testing.T) {
	replanProperties(t, []int{1, 3, 5}, 3, 3_000)
}

// replanProperties draws a problem of some tables for each number of a change.
func replanProperties(t *testing.T, changes []int, tables int, evaluations int64) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, i := range changes {
		tables := drawnTables(r, 0, tables)
		was := handMade(t, 4, 2, tables...)
		was.Batch = 8192
		old := planned(t, was)
		p := *was
		opt := Options{Most: &MovedBytes{Share: 0.05}}
		opt.Search.MaxEvaluations = evaluations
		switch i % 6 {
		case 0: // nothing changed
		case 1:
			p.Tables = append(p.Tables[1:len(p.Tables):len(p.Tables)], drawnTables(r, 100, 1)...)
		case 2:
			p.Batch = 4096
		case 3:
			p.Topology.Devices, opt.Lost = 3, []int{1}
		case 4:
			p.Topology.Devices, p.Topology.DevicesPerHost = 8, 4
		case 5:
			opt.Lost = []int{2}
			p.Engine = problem.TorchRec
		}
		got, err := Plan(t.Context(), &p, old, opt)
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
		checkReplan(t, i, &p, got, &opt)
		again, err := Plan(t.Context(), &p, got.Result.Plan, Options{Options: opt.Options})
		if err != nil {
			t.Fatalf("change %d, again: %v", i, err)
		}
		least := again.Curve[len(again.Curve)-1].Cost
		if gain := float64(got.Point().Cost/least) - 1; again.Verdict == Move && gain <= TieBand {
			t.Errorf("change %d, again: got a move for a gain of at most %.2g %%, want the plan to stay", i, 100*gain)
		}
	}
}

// checkReplan checks what every re-plan promises.
func checkReplan(t *testing.T, i int, p *problem.Problem, got *Outcome, opt *Options) {
	t.Helper()
	if err := got.Result.Plan.Validate(p); err != nil {
		t.Errorf("change %d: %v", i, err)
	}
	chosen := got.Point()
	must := got.Curve[0].Transfer.Bytes
	if chosen.Transfer.Bytes > must+opt.Most.Of(chosen.Transfer.Total) {
		t.Errorf("change %d: got %v moved, want at most 5 %% of %v above %v", i, chosen.Transfer.Bytes, chosen.Transfer.Total, must)
	}
	last := unit.Millis(math.Inf(1))
	for _, point := range got.Curve {
		if point.Limit >= 0 && point.Transfer.Bytes > point.Limit {
			t.Errorf("change %d, point %s: got %v moved, want at most %v", i, point.Label, point.Transfer.Bytes, point.Limit)
		}
		if point.Label != keepLabel && point.Cost > last {
			t.Errorf("change %d, point %s: got %v, above %v for fewer bytes", i, point.Label, point.Cost, last)
		}
		if point.Label != keepLabel {
			last = point.Cost
		}
	}
	if (got.Verdict == Keep) != (chosen.Label == keepLabel) || got.Verdict == Keep && chosen.Transfer.Bytes != 0 {
		t.Errorf("change %d: got verdict %s with %v moved for point %s", i, got.Verdict, chosen.Transfer.Bytes, chosen.Label)
	}
}

// A re-plan that is interrupted chooses among the points found until then, and has none only
// before the first one.
func TestReplanInterrupted(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	p := handMade(t, 4, 2, drawnTables(r, 0, 8)...)
	old := planned(t, p)
	more := *p
	more.Tables = append(p.Tables[:8:8], drawnTables(r, 8, 1)...)
	for _, test := range []struct {
		p    *problem.Problem
		step string
		some bool
	}{{p, "the plan that moves 0 of the bytes", true}, {&more, "the plan that moves 0 of the bytes", false}, {&more, "the plan that moves any bytes", true}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var opt Options
		opt.OnStep = func(step string) {
			if step == test.step {
				cancel()
			}
		}
		got, err := Plan(ctx, test.p, old, opt)
		switch {
		case !test.some && !errors.Is(err, context.Canceled):
			t.Errorf("%d tables, %s: got error %v, want that of the context", len(test.p.Tables), test.step, err)
		case test.some && (err != nil || got.Result.Status != search.Interrupted || got.Result.Plan.Validate(test.p) != nil):
			t.Errorf("%d tables, %s: got %v, want a valid plan, marked as interrupted", len(test.p.Tables), test.step, err)
		}
	}
}
