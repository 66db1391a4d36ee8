package neuroshard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
)

// The bound is the same beside the search and after it, also if the search is interrupted.
func TestBoundBesideTheSearch(t *testing.T) {
	w, err := workload.ByName("nvidia-synthetic-tiny")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	p.Topology.Devices = 8
	after, err := neuroshard.Plan(t.Context(), &p, neuroshard.Options{Certificate: true, Search: search.Options{Workers: 1, ShardingTypes: search.Columns()}})
	if err != nil {
		t.Fatal(err)
	}
	if !(after.Bound.Total > 0) {
		t.Fatalf("got bound %v ms, want one above 0", float64(after.Bound.Total))
	}
	for _, interrupt := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		opt := neuroshard.Options{Certificate: true, Search: search.Options{Workers: 2, ShardingTypes: search.Columns()}}
		opt.Search.OnEvent = func(e search.Event) {
			if interrupt && e.Phase == "anneal" {
				cancel()
			}
		}
		var steps []string
		opt.OnStep = func(step string) { steps = append(steps, step) }
		beside, err := neuroshard.Plan(ctx, &p, opt)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if got := beside.Status == search.Interrupted; got != interrupt {
			t.Errorf("got status %s, interrupted: %v", beside.Status, interrupt)
		}
		if beside.Bound != after.Bound {
			t.Errorf("interrupted %v: got bound %v beside the search, want %v as after it", interrupt, beside.Bound, after.Bound)
		}
		if len(steps) != 1 || steps[0] != "the lower bound" {
			t.Errorf("interrupted %v: got steps %q", interrupt, steps)
		}
	}
}

// A search that finds no plan does not wait for the whole bound, and leaves no work behind.
func TestNoBoundWithoutAPlan(t *testing.T) {
	w, err := workload.ByName("hugectr-7")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	p.Topology.Devices, p.Topology.HostMemory = 1, 0
	var infeasible *search.Infeasible
	_, err = neuroshard.Plan(t.Context(), &p, neuroshard.Options{Certificate: true, Search: search.Options{Workers: 2, ShardingTypes: search.Columns()}})
	if !errors.As(err, &infeasible) {
		t.Errorf("got error %v, want an *Infeasible", err)
	}
}
