//go:build long

package engine

import (
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// The pooled forward of a typical group reaches at least 70 % of the bandwidth at
// which this machine gathers random rows.
func TestForwardNearGather(t *testing.T) {
	const want, dim, rounds, attempts = 0.7, gatherDim, 8, 5
	arena := NewArena(4 * unit.GiB)
	shards := typical(t, arena, dim, problem.SGD)
	p, op := probeAndOp(t, arena, shards)
	n := lookupsOf(shards)
	best := 0.0
	// Other load passes; what the machine can do stays.
	for range attempts {
		gather, forward := time.Hour, time.Hour
		for range rounds {
			g, f := turn(p, op, shards)
			gather, forward = min(gather, g), min(forward, f)
		}
		share := gather.Seconds() / forward.Seconds()
		t.Logf("gather %.2f GB/s, forward %.2f GB/s: %.0f %%",
			4*dim*float64(n)/gather.Seconds()/1e9, 4*dim*float64(n)/forward.Seconds()/1e9, 100*share)
		if best = max(best, share); best >= want {
			return
		}
	}
	t.Errorf("the forward reached %.0f %% of the gather's bandwidth, want %.0f %%", 100*best, 100*want)
}
