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
	newScorer := additiveFactory(p)
	simple, err := Run(context.Background(), p, newScorer, Options{Method: Lookup})
	if err != nil {
		t.Fatal(err)
	}
	const limit = 50_000
	opt := Options{FromScratch: true, MaxEvaluations: limit, Workers: 1}
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
