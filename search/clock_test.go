package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// looks returns a clock that goes on by one with each look, so that a budget ends a search at
// the same place on every machine.
func looks() func() time.Duration {
	now := time.Duration(0)
	return func() time.Duration {
		now++
		return now
	}
}

// More time never gives a more expensive plan, and enough time gives one that is not more
// expensive than that of a search without a budget.
func TestMoreTimeIsNeverWorse(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems")
	}
	for _, c := range []struct {
		name          string
		seeds, tables int
		factory       func(p *problem.Problem) Factory
	}{
		{"slices", 1, 16, additiveFactory},
		{"operators", 1, 4, lanedFactory},
	} {
		for seed := range c.seeds {
			t.Run(fmt.Sprint(c.name, " ", seed), func(t *testing.T) {
				var tables []table
				for i := range c.tables {
					tables = append(tables, table{int64(50 + (seed*31+i*17)%90), 4 << ((seed + i*i) % 5), float64(1 + (seed*7+i*13)%11)})
				}
				p := handMade(unit.GiB, 4, tables...)
				opt := Options{Seed: uint64(seed), Workers: 1}
				whole, err := Run(context.Background(), p, c.factory(p), opt)
				if err != nil || whole.Status != Complete {
					t.Fatalf("got status %q, error %v", whole.Status, err)
				}
				least := math.Inf(1)
				for budget := time.Duration(1); ; budget *= 3 {
					opt.Budget, opt.Clock = budget, looks()
					r, err := Run(context.Background(), p, c.factory(p), opt)
					if err != nil || r.Status != OutOfTime {
						t.Fatalf("budget %d: got status %q, error %v, want %q", budget, r.Status, err, OutOfTime)
					}
					if r.Cost > least {
						t.Errorf("budget %d: got cost %v, want at most %v, that of less time", budget, r.Cost, least)
					}
					least = r.Cost
					if r.Stats.Evaluations > whole.Stats.Evaluations {
						break // the search has done what it does without a budget
					}
				}
				if least > whole.Cost {
					t.Errorf("got cost %v with enough time, want at most %v", least, whole.Cost)
				}
			})
		}
	}
}

// A search whose clock ends its budget says so, and one whose context ends does not.
func TestClock(t *testing.T) {
	p := handMade(unit.GiB, 2, table{100, 32, 1}, table{100, 32, 2}, table{100, 32, 3})
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Run(ctx, p, additiveFactory(p), Options{Budget: time.Hour, Clock: looks(), OnEvent: func(Event) { cancel() }})
	if err != nil || r.Status != Interrupted {
		t.Errorf("got status %q, error %v, want %q", r.Status, err, Interrupted)
	}
	if err := (&clocked{context.Background(), looks(), 1}).Err(); !errors.Is(err, ErrOutOfTime) {
		t.Errorf("got %v, want %v", err, ErrOutOfTime)
	}
}
