package main

import (
	"math"
	"testing"
)

// What is counted of TorchRec's benchmark is within 5 % of what it allocated, and within 10 % of what it reserved.
func TestPublishedMemory(t *testing.T) {
	all := publishedMemories()
	if len(all) != 6 {
		t.Fatalf("got %d runs, want 6", len(all))
	}
	for _, m := range all {
		if off := float64(m.counted)/m.allocated - 1; math.Abs(off) > .05 {
			t.Errorf("%s, %s: counted %v, allocated %.4g bytes: %+.1f %%", m.set, m.pipeline, m.counted, m.allocated, 100*off)
		}
		if off := float64(m.pools)/m.reserved - 1; math.Abs(off) > .1 {
			t.Errorf("%s, %s: counted %v of pools, reserved %.4g bytes: %+.1f %%", m.set, m.pipeline, m.pools, m.reserved, 100*off)
		}
	}
}
