package search

import (
	"context"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// threeTables returns a run of a problem of three tables on two devices, on two threads.
func threeTables(opt Options, newScorer func(p *problem.Problem) Factory) *run {
	p := handMade(unit.GiB, 2, table{100, 16, 1}, table{200, 8, 9}, table{300, 32, 2})
	opt.Method, opt.Workers = NeuroShard, 2
	opt.Apart = func() Factory { return newScorer(p) }
	return newRun(context.Background(), p, newScorer(p), opt)
}

// tablesOf returns the first table of each piece.
func tablesOf(c *catalog, pieces []int32) []int {
	var tables []int
	for _, k := range pieces {
		tables = append(tables, c.pieces[k].members[0].table)
	}
	return tables
}

// A step of the search may place only some of the tables, in less memory. Its twins then place the
// same tables in the same memory, even if an earlier step made the twins.
func TestTwinsPlaceWhatTheRunPlaces(t *testing.T) {
	r := threeTables(Options{}, additiveFactory)
	whole, budget := r.catalog.whole(), r.catalog.budget
	for _, part := range []struct {
		pieces []int32
		budget int64
	}{{whole, budget}, {whole[1:], budget / 3}, {whole, budget}} {
		r.catalog.unsplit, r.catalog.budget = part.pieces, part.budget
		crew := crewOf(r, 2)
		if len(crew) != 2 {
			t.Fatalf("got %d runs for two threads, want 2", len(crew))
		}
		c := crew[1].catalog
		if c.budget != part.budget {
			t.Errorf("got a twin with a budget of %d bytes, want %d, that of the run", c.budget, part.budget)
		}
		if got, want := tablesOf(c, c.whole()), tablesOf(r.catalog, part.pieces); !slices.Equal(got, want) {
			t.Errorf("got a twin that places tables %v, want %v, those of the run", got, want)
		}
	}
}

// forgetter is a Scorer that records whether Forget was called.
type forgetter struct {
	Scorer
	forgets bool
}

func (f *forgetter) Forget() { f.forgets = true }

func TestTwinsForget(t *testing.T) {
	for _, forget := range []bool{false, true} {
		r := threeTables(Options{Forget: forget}, func(p *problem.Problem) Factory {
			newScorer := additiveFactory(p)
			return func() Scorer { return &forgetter{Scorer: newScorer()} }
		})
		crew := crewOf(r, 2)
		if len(crew) != 2 {
			t.Fatalf("got %d runs for two threads, want 2", len(crew))
		}
		for i, own := range crew {
			for _, s := range []Scorer{own.scorer(), own.newScorer()} {
				if got := s.(*forgetter).forgets; got != forget {
					t.Errorf("Forget %v: got a Scorer of run %d that forgets: %v", forget, i, got)
				}
			}
		}
	}
}

// A search may continue with another seed and with the twins that it has. Its tasks then have the
// new seed on every thread.
func TestTasksHaveTheSeedOfTheirRun(t *testing.T) {
	r := threeTables(Options{Seed: 3}, additiveFactory)
	crewOf(r, 2) // makes the twin
	again := *r
	again.opt.Seed = 7
	crew := crewOf(&again, 2)
	if len(crew) != 2 || crew[1] != (*r.twins)[0] {
		t.Fatalf("got %d runs for two threads, want the run and the twin made before", len(crew))
	}
	for i, own := range crew {
		if got := taskOn(own, &again, 0).opt.Seed; got != 7 {
			t.Errorf("got a task with seed %d on run %d, want 7", got, i)
		}
	}
}

// Fixed parts may come from another catalog. The builder then registers them in its own.
func TestBuilderRegistersFixedParts(t *testing.T) {
	r := threeTables(Options{}, additiveFactory)
	whole := r.catalog.whole()
	fixed := placed{r.catalog.slice(whole[1], 4), 0}
	b := newBuilder(newLayout(r.catalog, r.scorer(), r.forms), []int32{whole[0], whole[2]}, []placed{fixed}, 1)
	if !b.build(shape{quarters: [6]int{5: 4}}) {
		t.Fatal("got no placement for the shape, want one")
	}
	parts := b.all()
	if !slices.Contains(parts, fixed) {
		t.Errorf("got parts %v, want %v among them", parts, fixed)
	}
	want := make([]float64, 2)
	for _, p := range parts {
		m := r.catalog.pieces[p.piece].members[0]
		want[p.device] += r.catalog.problem.Tables[m.table].PoolingFactor() * float64(m.width)
	}
	for d := range want {
		if got := b.scorer.Compute(d); got != want[d] {
			t.Errorf("device %d: the Scorer holds slices of %v ms, want %v, those of the parts", d, got, want[d])
		}
	}
}

// Runs of annealing from one placement draw different changes, within a batch and from one batch to
// the next.
func TestRunsDrawDifferentChanges(t *testing.T) {
	a := clustered(t, func(*problem.Problem) {})
	parts := a.placement.placed()
	var found [][]placed
	for range 2 {
		starts := make([]start, 3)
		for i := range starts {
			starts[i].parts = parts
		}
		for i, replaced := range a.fromEach(starts, 3000, hot) {
			if !replaced {
				t.Fatalf("run %d found no placement cheaper than that of first fit", i)
			}
			found = append(found, starts[i].parts)
		}
	}
	allDiffer(t, found)
}

// allDiffer fails if two of the placements are the same.
func allDiffer(t *testing.T, found [][]placed) {
	t.Helper()
	for i, one := range found {
		for j, other := range found[:i] {
			if slices.Equal(one, other) {
				t.Errorf("runs %d and %d found the same placement, want different draws", j, i)
			}
		}
	}
}

func TestSubclustersDrawDifferentChanges(t *testing.T) {
	a := clustered(t, func(*problem.Problem) {})
	a.reset(a.placement.placed())
	same := a.deal()[0]
	found := a.annealAlone([]subcluster{same, same, same}, hot, 3000)
	allDiffer(t, append(found, a.annealAlone([]subcluster{same}, hot, 3000)...))
}

// costless is a Scorer that gives all placements the same cost.
type costless struct{ Scorer }

func (costless) Cost() float64 { return 1 }

// A subcluster is annealed for its own goal: a change of its devices seldom changes the cost of the
// cluster.
func TestSubclustersAreAnnealedForTheirGoal(t *testing.T) {
	a := clustered(t, func(*problem.Problem) {})
	a.r.workers[0].scorer = costless{a.r.scorer()}
	a.reset(a.placement.placed())
	dealt := a.deal()
	longest := func(parts []placed) float64 {
		compute := make([]float64, len(a.c.all))
		for _, p := range parts {
			m := a.c.pieces[p.piece].members[0]
			compute[p.device] += a.c.problem.Tables[m.table].PoolingFactor() * float64(m.width)
		}
		return slices.Max(compute)
	}
	found := a.annealAlone(dealt, hot, 10_000)
	// First fit leaves the devices of the other subcluster empty.
	if before, after := longest(dealt[0].parts), longest(found[0]); !(after < before) {
		t.Errorf("got a longest compute of %v ms, want less than %v, that before", after, before)
	}
}
