package search

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard/unit"
)

// The annealing from a simple placement makes the evaluations of its budget, and is no part of
// other methods.
func TestFromScratch(t *testing.T) {
	var tables []table
	for i := range 30 {
		tables = append(tables, table{100, 32, 1 + float64(i%7)})
	}
	p := handMade(unit.GiB, 4, tables...)
	newScorer := func() Scorer { return &launches{additiveFactory(p)().(*additive)} }
	simple, err := Run(context.Background(), p, newScorer, Options{Method: Lookup})
	if err != nil {
		t.Fatal(err)
	}
	const limit = 50_000
	opt := Options{FromScratch: true, MaxEvaluations: limit, Workers: 1}
	opt.OnEvent = func(e Event) {
		if e.Phase != "start" && e.Phase != "anneal" {
			t.Fatalf("got phase %q", e.Phase)
		}
	}
	r, err := Run(context.Background(), p, newScorer, opt)
	if err != nil || r.Status != OutOfBudget || r.Stats.Evaluations < limit || r.Stats.Evaluations > limit+limit/100 {
		t.Errorf("got status %q, %d evaluations, error %v, want %q after %d", r.Status, r.Stats.Evaluations, err, OutOfBudget, limit)
	}
	if r.Cost > simple.Cost {
		t.Errorf("got cost %v, want at most %v, the cost of method lookup", r.Cost, simple.Cost)
	}
	if _, err := Run(context.Background(), p, newScorer, Options{Method: Paper, FromScratch: true}); err == nil {
		t.Error("method paper from scratch: got no error")
	}
}

// Between two turns of stage longer, the other stages search by the draws of the next seed. They find what
// a search with that seed finds, their work counts, and events go on from where they were.
func TestLongerSearchesAgain(t *testing.T) {
	var tables []table
	for i := range 25 {
		tables = append(tables, table{int64(50 + (i*17)%90), 4 << (i * i % 5), float64(1 + (i*13)%11)})
	}
	p := handMade(unit.GiB, 4, tables...)
	newScorer := func() Scorer { return &launches{additiveFactory(p)().(*additive)} }
	var events []Event
	opt, err := Options{Workers: 1, OnEvent: func(e Event) { events = append(events, e) }}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(context.Background(), p, newScorer, opt)
	s, err := wholeSearch.apply(r, state{})
	if err != nil {
		t.Fatal(err)
	}
	costs := map[float64]bool{s.best.cost: true}
	for seed := uint64(1); seed < 4; seed++ {
		want, err := Run(context.Background(), p, newScorer, Options{Seed: seed, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		before, at := r.stats, len(events)
		got := searchAgain(r, wholeSearch, seed, r.forms, s.best)
		if got.division == nil || got.cost != want.Cost {
			t.Fatalf("seed %d: got cost %v, want %v", seed, got.cost, want.Cost)
		}
		costs[got.cost] = true
		work := before
		if work.add(want.Stats); r.stats != work {
			t.Errorf("seed %d: got the work %+v, want %+v", seed, r.stats, work)
		}
		if at == len(events) {
			t.Errorf("seed %d: got no event", seed)
		}
		for _, e := range events[at:] {
			if e.Evaluations < before.Evaluations || e.Best > s.best.cost {
				t.Errorf("seed %d: got %d evaluations and best %v, after %d and %v", seed, e.Evaluations, e.Best, before.Evaluations, s.best.cost)
			}
		}
	}
	if len(costs) < 2 {
		t.Error("all seeds have the same cost, so the test shows nothing")
	}
}
