package bench

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
)

// ranking holds the Kendall tau of predicted against simulated cost, over random plans, over plans
// near the best one and over those within a tenth of the cheapest, and how much more the plan with
// the lowest estimate costs than the cheapest one, as a share.
type ranking struct{ random, near, tenth, regret float64 }

// rankings judges how the model of a profile orders plans of drawn tasks by cost: the search needs
// the right order more than exact costs.
func rankings(t *testing.T, profileName string, tasks int, seed uint64) []ranking {
	t.Helper()
	const plans, mostMoves = 400, 12
	hw, pool := must.Get(hardware.ByName(profileName))(t), workload.Pool(seed)
	setting := workload.TaskSpec{Devices: 8, Memory: hw.Memory, MinTables: 40, MaxTables: 41, MaxDim: 128}
	all := make([]ranking, tasks)
	for i := range all {
		drawn := must.Get(workload.Draw(pool, setting, seed, i))(t)
		p := drawn.Problem(hw)
		list := must.Get(neuroshard.Pretrained().List(t.Context(), &p))(t)
		best := must.Get(neuroshard.Plan(t.Context(), &p, neuroshard.Options{Search: search.Options{ColumnsOnly: true}}))(t)
		draw, judge := rand.New(rand.NewPCG(seed, uint64(i))), simulate.NewPricer(&p)
		var predicted, simulated [2][]float64
		for k := range plans {
			for kind, shards := range [][][]problem.Shard{moved(draw, best.Shards, 1000), moved(draw, best.Shards, k*(mostMoves+1)/plans)} {
				cost := must.Get(judge.Price(shards))(t)
				predicted[kind], simulated[kind] = append(predicted[kind], float64(list.Price(shards).Cost)), append(simulated[kind], float64(cost.Cost))
			}
		}
		chosen, least := slices.Index(predicted[1], slices.Min(predicted[1])), slices.Min(simulated[1])
		var some [2][]float64
		for k, cost := range simulated[1] {
			if cost <= 1.1*least {
				some[0], some[1] = append(some[0], predicted[1][k]), append(some[1], cost)
			}
		}
		all[i] = ranking{stats.Kendall(predicted[0], simulated[0]), stats.Kendall(predicted[1], simulated[1]), stats.Kendall(some[0], some[1]), simulated[1][chosen]/least - 1}
	}
	return all
}

// moved returns a placement after random moves of a shard of a random device to another one.
func moved(draw *rand.Rand, shards [][]problem.Shard, moves int) [][]problem.Shard {
	out := make([][]problem.Shard, len(shards))
	for d := range shards {
		out[d] = slices.Clone(shards[d])
	}
	for range moves {
		from, to := draw.IntN(len(out)), draw.IntN(len(out))
		if len(out[from]) == 0 {
			continue
		}
		i := draw.IntN(len(out[from]))
		s := out[from][i]
		out[from] = slices.Delete(out[from], i, i+1)
		out[to] = append(out[to], s)
	}
	return out
}

func TestRank(t *testing.T) {
	for i, r := range rankings(t, "a100-80", 2, 1) {
		if r.random < .9 || r.near < .9 || r.tenth < .8 || r.regret > .01 {
			t.Errorf("task %d: got %+v, want taus of at least 0.9, 0.9 and 0.8, and a regret of at most 1 %%", i, r)
		}
	}
}
