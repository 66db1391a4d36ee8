package search_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// Tests of placements with several slices of a table on one device.

// beside draws a problem of wide tables with few lookups beside narrow tables with many:
// there it pays to cut a wide table on its own device.
func beside(seed uint64, tables, devices int) *problem.Problem {
	random := rand.New(rand.NewPCG(seed, 13))
	p := pool(seed, tables, devices, 128)
	p.Topology.Memory = 0
	for i := range p.Tables {
		t := &p.Tables[i]
		if t.Dim = []int{4, 8, 12, 16, 32}[random.IntN(5)]; random.IntN(2) == 0 {
			t.Dim = []int{36, 48, 64, 96, 128}[random.IntN(5)]
		}
		t.Features[0].PoolingFactor = math.Exp(random.Float64()*3) * 8 / float64(t.Dim)
	}
	return p
}

// least is the least cost of all placements, by an enumeration of its own: each device
// in turn takes any number of slices of each width of what is left of a table, and the
// last device takes the rest. Tables of a co-location stay whole, on the device of the first one.
func least(p *problem.Problem, newScorer search.Factory) float64 {
	s := newScorer()
	items := map[[2]int]int{}
	item := func(table, width int) int {
		key := [2]int{table, width}
		if _, ok := items[key]; !ok {
			items[key] = s.Item(table, width, problem.Form{})
		}
		return items[key]
	}
	best, homes := math.Inf(1), map[string]int{}
	barred := func(table, device, width int) bool {
		c := &p.Tables[table].Constraint
		home, placed := homes[c.Colocation]
		return len(c.Devices) > 0 && !slices.Contains(c.Devices, device) || width < p.Tables[table].MinWidth() ||
			c.Colocation != "" && (width < p.Tables[table].Dim || placed && home != device)
	}
	var take func(table, left, device, width int)
	take = func(table, left, device, width int) {
		switch {
		case table == len(p.Tables):
			best = min(best, s.Cost())
		case left == 0 && table+1 < len(p.Tables):
			take(table+1, p.Tables[table+1].Dim, 0, p.Tables[table+1].Dim)
		case left == 0:
			take(table+1, 0, 0, 0)
		case device == p.Topology.Devices:
		case barred(table, device, width):
			take(table, left, device+1, left)
		default:
			if group := p.Tables[table].Constraint.Colocation; group != "" {
				if _, placed := homes[group]; !placed {
					homes[group] = device
					defer delete(homes, group)
				}
			}
			// n slices of this width, then narrower ones.
			n := 0
			for ; n*width <= left; n++ {
				take(table, left-n*width, device, width-4)
				s.Add(device, item(table, width))
			}
			for range n {
				s.Remove(device, item(table, width))
			}
		}
	}
	take(0, p.Tables[0].Dim, 0, p.Tables[0].Dim)
	return best
}

// A plan that is said to be optimal is: an enumeration that shares no code with the
// search finds no cheaper placement. In most of these problems the best placement has
// several slices of a table on one device.
func TestOptimalIsOptimal(t *testing.T) { optimalIsOptimal(t, 9) }

// optimalIsOptimal is TestOptimalIsOptimal with a number of problems.
func optimalIsOptimal(t *testing.T, problems int) {
	claims, several, refined := 0, 0, 0
	for seed := range uint64(problems) {
		devices := 1 + int(seed%3)
		p := beside(seed, []int{3, 3, 2}[devices-1], devices)
		for i := range p.Tables {
			// The least widths keep the enumeration short.
			c := &p.Tables[i].Constraint
			if c.MinWidth = p.Tables[i].Dim / []int{8, 3, 3}[devices-1] / 4 * 4; i == 0 && seed%7 == 0 {
				c.NoSplit = true
			}
			switch {
			case i < 2 && seed%4 == 1:
				c.Colocation = "pair"
			case i == 1 && seed%4 == 2:
				c.Devices = []int{devices - 1}
			}
			switch (i + int(seed)) % 6 { // vectors of a third of the tables
			case 0:
				p.Tables[i].Features[0].Bags = .5 + float64(seed%4)
			case 1:
				p.Tables[i].Pooling = problem.PoolingNone
			}
		}
		r, err := search.Run(context.Background(), p, factory(p), search.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, r)
		want := least(p, factory(p))
		if r.Cost < want*(1-1e-12) {
			t.Errorf("seed %d: got cost %v, below the least cost %v", seed, r.Cost, want)
		}
		if r.Optimal {
			if claims++; r.Cost > want*(1+1e-12) {
				t.Errorf("seed %d: cost %v is said to be optimal, and %v is", seed, r.Cost, want)
			}
		}
		if met(r) {
			several++
		}
		// With a budget of the caller's, the search anneals instead of trying all placements.
		annealed, err := search.Run(context.Background(), p, factory(p), search.Options{Workers: 1, MaxEvaluations: 50_000})
		if err != nil || annealed.Optimal || annealed.Cost < want*(1-1e-12) {
			t.Errorf("seed %d: got cost %v by annealing, said to be optimal: %v, error %v", seed, annealed.Cost, annealed.Optimal, err)
		}
		if annealed.Cost <= want*(1+1e-9) {
			refined++
		}
	}
	if refined < problems*9/10 {
		t.Errorf("got the optimum of %d of %d problems by annealing, want nine in ten", refined, problems)
	}
	t.Logf("%d claims, %d placements with several slices of a table on a device", claims, several)
	if claims < problems*9/10 || several < problems/3 {
		t.Errorf("got %d claims and %d placements with several slices of a table on a device, want %d and %d at least", claims, several, problems*9/10, problems/3)
	}
}

// met reports whether a device holds several slices of a table.
func met(r search.Result) bool {
	return slices.ContainsFunc(r.Shards, func(held []problem.Shard) bool {
		tables := map[int]bool{}
		return slices.ContainsFunc(held, func(s problem.Shard) bool {
			twice := tables[s.Table]
			tables[s.Table] = true
			return twice
		})
	})
}

// The default method is at most as expensive as the published search, whatever sharding
// types are allowed, on problems of any size.
func TestNeverAbovePaper(t *testing.T) { neverAbovePaper(t, 6) }

// neverAbovePaper is TestNeverAbovePaper with every step-th problem.
func neverAbovePaper(t *testing.T, step uint64) {
	all := [][]problem.ShardingType{
		nil,
		{problem.TableWise},
		{problem.ColumnWise},
		{problem.TableWise, problem.ColumnWise},
		{problem.TableWise, problem.RowWise},
		{problem.ColumnWise, problem.DataParallel},
		problem.ShardingTypes(),
	}
	for seed := uint64(0); seed < 28; seed += step {
		types := all[seed%uint64(len(all))]
		p := beside(seed, []int{2, 3, 5, 9, 26}[seed%5], 1+int(seed/5%6))
		p.Accounting = problem.CountAll
		for _, additive := range []bool{false, true} {
			newScorer := formsFactory(p, additive)
			cost := map[search.Method]float64{}
			for _, m := range []search.Method{search.NeuroShard, search.Paper} {
				r, err := search.Run(context.Background(), p, newScorer, search.Options{Method: m, ShardingTypes: types, Workers: 1, Steps: stepsOf(m, 4)})
				var infeasible *search.Infeasible
				if m == search.Paper && errors.As(err, &infeasible) {
					r.Cost, err = math.Inf(1), nil // its limits on dim sums allow no placement
				}
				if err != nil {
					t.Fatal(err)
				}
				cost[m] = r.Cost
			}
			if cost[search.NeuroShard] > cost[search.Paper] {
				t.Errorf("seed %d, sharding types %v, additive %v: got cost %v, more expensive than the paper's %v", seed, types, additive, cost[search.NeuroShard], cost[search.Paper])
			}
		}
	}
}
