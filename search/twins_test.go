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
	var tables []table
	for i := range 30 {
		tables = append(tables, table{int64(1000 * (1 + i%17)), 8 << (i % 4), 1 + float64(i%7)})
	}
	p := handMade(unit.GiB, 15, tables...)
	r := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1})
	devices, failed := firstFit(r.catalog, r.catalog.whole())
	if failed != none {
		t.Fatalf("first fit found no room for piece %d", failed)
	}
	best := r.offer(placement{}, pair(r.catalog.whole(), devices))
	c := &course{r: r, best: best, forms: r.forms}
	var found [][]placed
	for range 2 {
		racers := make([]racer, 3)
		for i := range racers {
			racers[i].placement = best
		}
		c.anneal(racers, 3000, hot, mover{})
		for i, one := range racers {
			if !(one.cost < best.cost) {
				t.Fatalf("run %d found no placement cheaper than that of first fit", i)
			}
			found = append(found, one.parts)
		}
	}
	for i, one := range found {
		for j, other := range found[:i] {
			if slices.Equal(one, other) {
				t.Errorf("runs %d and %d found the same placement, want different draws", j, i)
			}
		}
	}
}
