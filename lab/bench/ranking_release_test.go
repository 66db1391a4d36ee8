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
			mean = ranking{mean.random + r.random/n, mean.near + r.near/n, mean.regret + r.regret/n}
		}
		if mean.random < .955 || mean.near < .95 || mean.regret > .005 {
			t.Errorf("%s: got %+v, want taus of at least 0.955 and 0.95, and a regret of at most 0.5 %%", name, mean)
		}
	}
}
