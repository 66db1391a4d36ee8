package cost_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/internal/must"
)

// Exchanges that overlap with compute cost less.
func TestOverlapInPlans(t *testing.T) {
	without, file := load(t)
	changed := *file
	changed.Manifest.Comm.OverlapRest, changed.Manifest.Comm.OverlapRate = 1.2, .8
	model := must.Get(cost.Load(&changed))(t)
	draw := rand.New(rand.NewPCG(5, 5))
	for seed := range uint64(20) {
		p := mixed(t, seed, 20, 6, 6, false)
		estimates := newEstimates(t, model, p)
		shards := placement(p, draw)
		got := estimates.Price(shards)
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
