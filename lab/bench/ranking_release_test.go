//go:build release

package bench

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard/cost/pretrained"
)

// rankingTasks is the number of tasks to average over, because one can mislead.
const rankingTasks = 10

// Every shipped model puts plans in the right order, on average over ten tasks. The least taus of
// random plans are 0.960 (a100-40) and 0.966.
func TestRankOfEveryModel(t *testing.T) {
	for _, name := range pretrained.Profiles() {
		t.Run(name, func(t *testing.T) {
			all, err := rankings(context.Background(), profile(t, name), nil, rankingTasks, 7)
			if err != nil {
				t.Fatal(err)
			}
			mean := meanRanking(all)
			t.Logf("%+v", mean)
			if len(all) != rankingTasks || mean.Random < .955 || mean.NearOptimal < .95 || mean.BestTenth < .85 || mean.RegretPercent > .5 {
				t.Errorf("got %+v over %d tasks, want taus of at least 0.955, 0.95 and 0.85, and a regret of at most 0.5 %%", mean, len(all))
			}
		})
	}
}
