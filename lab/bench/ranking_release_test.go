//go:build release

package bench

import (
	"testing"

	"github.com/neuroshard/neuroshard/cost/pretrained"
)

// Every shipped model puts plans in the right order, on average over ten tasks.
func TestRankOfEveryModel(t *testing.T) {
	for _, name := range pretrained.Profiles() {
		var mean ranking
		all := rankings(t, name, 10, 7)
		for _, r := range all {
			n := float64(len(all))
			mean = ranking{mean.random + r.random/n, mean.near + r.near/n, mean.tenth + r.tenth/n, mean.regret + r.regret/n}
		}
		t.Logf("%s: %+v", name, mean)
		if mean.random < .955 || mean.near < .95 || mean.tenth < .85 || mean.regret > .005 {
			t.Errorf("%s: got %+v, want taus of at least 0.955, 0.95 and 0.85, and a regret of at most 0.5 %%", name, mean)
		}
	}
}
