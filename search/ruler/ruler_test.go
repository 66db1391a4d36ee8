//go:build ruler

// Package ruler measures a search on a fixed set of problems that are drawn from seeds, and compares it with the
// cheapest plan known of each problem. A change of the search is judged here, not by the bytes of single plans:
//
//	go test -tags ruler ./search/ruler -v -timeout 5h                        # the whole set
//	go test -tags ruler ./search/ruler -v -args -classes tiny,re-plans       # two classes
//	go test -tags ruler ./search/ruler -v -timeout 5h -args -update          # record the result
//
// The problems are in classes_test.go. testdata/ruler.json has the costs known and the last result. Mean, 95th
// percentile and worst say how far the predicted costs are above the cheapest known ones, by the models that ship with
// the planner (SIMULATED). In a re-plan, the cost contains the price of the moved bytes. A plan is proven if the search
// tried all plans with undivided operators, or if its simulated cost equals the lower bound. A plan that leaves a device
// without room for its backward is not solved if a plan with that room is known. No test judges processor time: compare
// times of runs on one machine, one after the other.
//
// The problems of a second set, -set 2 -record FILE, come from other seeds. Nobody tunes on them: a new search is
// compared with the old one there once, before it takes its place.
package ruler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

var (
	set      = flag.Int("set", 1, "the set of problems: 1, or 2, which nobody tunes on")
	chosen   = flag.String("classes", "", "the classes to measure, divided by commas; all by default. A class may be named by its start")
	seeds    = flag.Int("seeds", 2, "the seeds to search with, from 0")
	problems = flag.Int("problems", 0, "the most problems of a class; 0 for all")
	file     = flag.String("record", recorded, "the file of the costs known and of the last result")
	update   = flag.Bool("update", false, "record the result")
)

// recorded is the file of the costs of set 1.
const recorded = "testdata/ruler.json"

// TestRuler measures the classes, and fails where one breaks a rule.
func TestRuler(t *testing.T) {
	if *set < 1 || *set > 2 || *seeds < 1 || *problems < 0 {
		t.Fatalf("set %d, %d seeds, %d problems: want set 1 or 2, at least one seed, and no negative number of problems", *set, *seeds, *problems)
	}
	if *set == 2 && *file == recorded {
		t.Fatal("the costs of set 2 are not kept, so that nobody tunes on it: name a file for them with -record")
	}
	for start := range strings.SplitSeq(*chosen, ",") {
		if !slices.ContainsFunc(classes, func(c class) bool { return strings.HasPrefix(c.name, start) }) {
			t.Fatalf("no class begins with %q: the classes are in classes_test.go", start)
		}
	}
	record := readRecord(t, *set, *file)
	var results []result
	for _, c := range classes {
		if !named(c.name) {
			continue
		}
		count := c.count
		if *problems > 0 {
			count = min(count, *problems)
		}
		known := record.class(c.name, count)
		all := make([][]found, count)
		for i := range all {
			all[i] = searches(t, c, i)
			for _, f := range all[i] {
				if *update {
					known.learn(i, f)
				}
			}
		}
		r := known.judge(all)
		t.Log(strings.TrimSpace(r.row(c.name)))
		results = append(results, r)
		if *update {
			known.Last = r
			record.write(t, *file)
			continue
		}
		if broken := known.broken(r); broken != "" {
			t.Errorf("%s: %s", c.name, broken)
		}
		if !known.alike(r) {
			t.Logf("%s: costs are not judged: the last result is of %d problems and %d seeds", c.name, known.Last.Problems, known.Last.Seeds)
		}
	}
	t.Log(strings.TrimSpace(total(results)))
}

// searches returns what the searches of all seeds find for problem i of a class.
func searches(t *testing.T, c class, i int) (all []found) {
	k := c.draw(newSource(t, c, *set, i))
	for seed := range uint64(*seeds) {
		f, err := searched(t.Context(), k, seed)
		if err != nil {
			t.Errorf("%s, problem %d, seed %d: %v", c.name, i, seed, err)
		}
		all = append(all, f)
	}
	return all
}

// named reports whether the class is to be measured.
func named(name string) bool {
	return slices.ContainsFunc(strings.Split(*chosen, ","), func(start string) bool { return strings.HasPrefix(name, start) })
}

// found is what a search found for a task.
type found struct {
	// solved says that the plan is valid, and proven that no plan is cheaper.
	solved, proven bool
	// cost is what the search minimises, in ms: the cost of the plan and, in a re-plan, the price of the moved bytes.
	cost        float64
	moved       unit.Bytes
	evaluations int64
	// seconds is the processor time of the search.
	seconds float64
}

// searched searches with one thread, and checks the plan. A problem without a plan is no error.
func searched(ctx context.Context, k task, seed uint64) (f found, err error) {
	if err := k.problem.Validate(); err != nil {
		return f, err
	}
	if k.prices == nil {
		k.prices = neuroshard.Pretrained()
	}
	list, err := k.prices.List(ctx, k.problem)
	if err != nil {
		return f, err
	}
	if k.hidden != (plan.Hidden{}) {
		if err := list.(neuroshard.Hiding).Hide(k.hidden); err != nil {
			return f, err
		}
	}
	opt := search.Options{ShardingTypes: k.types, Seed: seed, Workers: 1, From: k.from, Brief: true, ChosenRows: list.Supports(problem.Form{Blocks: 2})}
	if opt.ShardingTypes == nil {
		opt.ShardingTypes = problem.ShardingTypes()
	}
	runtime.GC()
	began := processorSeconds()
	r, err := search.Run(ctx, k.problem, list.NewScorer, opt)
	f = found{evaluations: r.Stats.Evaluations, seconds: processorSeconds() - began}
	if err != nil {
		if errors.As(err, new(*search.Infeasible)) || errors.As(err, new(*search.Idle)) || errors.As(err, new(*search.NoShardingType)) {
			err = nil
		}
		return f, err
	}
	if err := check(k, list, r); err != nil {
		return f, err
	}
	f.solved, f.cost, f.moved = true, r.Cost, r.Moved
	if k.from != nil {
		f.cost += k.from.Price * float64(r.Moved)
	}
	f.proven = r.Optimal && k.from == nil || bounded(ctx, k, r)
	return f, nil
}

// check returns an error if a placement breaks a rule of the problem, or costs something else than the search says.
func check(k task, list neuroshard.PriceList, r search.Result) error {
	if err := plan.New(k.problem, r.Shards).Validate(k.problem); err != nil {
		return err
	}
	if cost := float64(list.Price(r.Shards).Cost); math.Abs(r.Cost/cost-1) > 1e-9 {
		return fmt.Errorf("got a cost of %v, want that of the placement, %v", r.Cost, cost)
	}
	if k.from != nil && k.from.Limited && r.Moved > k.from.Most {
		return fmt.Errorf("got %v moved, want at most %v", r.Moved, k.from.Most)
	}
	return nil
}

// fewPairs is the most tables times devices for which the lower bound is computed.
const fewPairs = 200

// bounded reports whether the simulated cost of the plan equals the lower bound, so that no plan is cheaper.
func bounded(ctx context.Context, k task, r search.Result) bool {
	if len(k.problem.Tables)*k.problem.Topology.Devices > fewPairs || k.from != nil {
		return false
	}
	planner, err := neuroshard.NewPlanner(ctx, k.problem, neuroshard.Options{Prices: k.prices, Hidden: k.hidden, Search: search.Options{ShardingTypes: k.types}})
	if err != nil {
		return false
	}
	judged, err := planner.Evaluate(ctx, r.Shards)
	if err != nil || planner.Certify(ctx, judged) != nil {
		return false
	}
	gap, ok := judged.Gap()
	return ok && gap < 1e-9
}

// processorSeconds returns the processor time of this process so far.
func processorSeconds() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}
