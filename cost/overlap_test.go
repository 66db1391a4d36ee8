package cost_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/problem"
)

// What is left of an exchange falls with the others' lead, by no more than the lead
// and to no less than the last device's share, and grows with the whole.
func TestOverlapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := cost.CommConstants{OverlapRest: rapid.Float64Range(1, 5).Draw(t, "rest"), OverlapRate: rapid.Float64Range(.01, 1).Draw(t, "rate")}
		n := rapid.IntRange(2, 16).Draw(t, "devices")
		time := rapid.Float64Range(.01, 100).Draw(t, "time")
		lead := rapid.Float64Range(0, 200).Draw(t, "lead")
		got := cost.Overlapped(k, n, time, lead)
		if least := time * math.Min(1, k.OverlapRest/float64(n)); got > time || got < least*(1-1e-12) {
			t.Fatalf("got %v, want between %v and %v", got, least, time)
		}
		const more = .001
		if fall := got - cost.Overlapped(k, n, time, lead+more); fall < 0 || fall > more*(1+1e-6) {
			t.Fatalf("%v ms of lead took %v ms away", more, fall)
		}
		if longer := cost.Overlapped(k, n, time+more, lead); longer < got {
			t.Fatalf("of more time less is left: %v after %v", longer, got)
		}
		none := k
		none.OverlapRest, none.OverlapRate = 0, 0
		if same := cost.Overlapped(none, n, time, lead); same != time {
			t.Fatalf("without overlap: got %v, want %v", same, time)
		}
	})
	// By hand: 4 devices, rest 2, so half may be over: 10 (1/2 + 1/2 exp(-1)).
	if got, want := cost.Overlapped(cost.CommConstants{OverlapRest: 2, OverlapRate: 1}, 4, 10, 5), 10*(.5+.5*math.Exp(-1)); math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The search's cost, the breakdown's and that of the parts are one, with overlap, too.
func TestOverlapInPlans(t *testing.T) {
	file, err := pretrained.File(profileName)
	if err != nil {
		t.Fatal(err)
	}
	changed := *file
	changed.Manifest.Comm.OverlapRest, changed.Manifest.Comm.OverlapRate = 1.2, .8
	model, err := cost.Load(&changed)
	if err != nil {
		t.Fatal(err)
	}
	without, _ := load(t)
	draw := rand.New(rand.NewPCG(5, 5))
	for seed := range uint64(20) {
		p := mixed(t, seed, 20, 6, 6, false)
		estimates := newEstimates(t, model, p)
		shards := placement(p, draw)
		got := estimates.Price(shards)
		s := estimates.NewScorer(0)
		for d, held := range shards {
			for _, shard := range held {
				s.Add(d, s.Item(shard.Table, shard.Dim(), problem.Form{}))
			}
		}
		if !near(s.Cost(), float64(got.Cost), 1e-9) {
			t.Errorf("seed %d: got cost %v, the breakdown has %v", seed, s.Cost(), got.Cost)
		}
		if whole := newEstimates(t, without, p).Price(shards).Cost; got.Cost >= whole {
			t.Errorf("seed %d: got cost %v with overlap, %v without", seed, got.Cost, whole)
		}
	}
	for _, bad := range [][2]float64{{.5, .5}, {2, 0}, {2, 1.5}, {0, .5}, {math.Inf(1), .5}, {2, math.NaN()}} {
		changed.Manifest.Comm.OverlapRest, changed.Manifest.Comm.OverlapRate = bad[0], bad[1]
		if _, err := cost.Load(&changed); err == nil {
			t.Errorf("overlap %v: got no error", bad)
		}
	}
}
