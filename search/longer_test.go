package search

import (
	"context"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/unit"
)

// A search with a budget of time first does what it does without one, so its plan is never
// more expensive, however long stage longer goes on. The test ends that stage after a number of
// its runs.
func TestMoreTimeIsNeverWorse(t *testing.T) {
	for seed := range 4 {
		var tables []table
		for i := range 25 {
			tables = append(tables, table{int64(50 + (seed*31+i*17)%90), 4 << ((seed + i*i) % 5), float64(1 + (seed*7+i*13)%11)})
		}
		p := handMade(unit.GiB, 4, tables...)
		newScorer := func() Scorer { return &launches{additiveFactory(p)().(*additive)} }
		opt := Options{Seed: uint64(seed), Workers: 1}
		var phases []string
		opt.OnEvent = func(e Event) { phases = append(phases, e.Phase) }
		whole, err := Run(context.Background(), p, newScorer, opt)
		if err != nil || whole.Status != Complete {
			t.Fatalf("got status %q, error %v", whole.Status, err)
		}
		best := whole.Cost
		for _, further := range []int{1, 3, 9} {
			ctx, cancel := context.WithCancel(context.Background())
			events := 0
			opt.Budget = time.Hour
			opt.OnEvent = func(Event) {
				if events++; events == len(phases)+further {
					cancel()
				}
			}
			r, err := Run(ctx, p, newScorer, opt)
			cancel()
			if err != nil || r.Status != Interrupted {
				t.Fatalf("seed %d, %d further events: got status %q, error %v", seed, further, r.Status, err)
			}
			if r.Cost > best {
				t.Errorf("seed %d, %d further events: got cost %v, want at most %v", seed, further, r.Cost, best)
			}
			best = r.Cost
		}
	}
}

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
