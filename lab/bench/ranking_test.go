package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/rank"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
)

// ranking says how well a model orders the plans of one task by cost. The search needs the
// right order more than exact costs.
type ranking struct {
	Task string
	// The Kendall tau of predicted against simulated cost, over random plans, over
	// plans near the best one found, and over all plans within a tenth of the best
	// simulated cost.
	Random      float64
	NearOptimal float64
	BestTenth   float64
	// BestTenthPlans is the number of plans that BestTenth is over.
	BestTenthPlans int
	// RegretPercent is how much more the plan with the lowest estimate costs on the
	// simulated device than the cheapest plan there, in percent.
	RegretPercent float64
}

const (
	rankingTables  = 40
	rankingDevices = 8
	rankingMaxDim  = 128
	rankingPlans   = 400
	// mostMoves is the most shards that are moved to make a plan near the best one.
	mostMoves = 12
)

// rankings judges how prices order plans, on tasks of 40 tables and 8 devices of a profile.
// Nil prices stand for neuroshard.Pretrained.
func rankings(ctx context.Context, profile hardware.Profile, prices neuroshard.Prices, tasks int, seed uint64) ([]ranking, error) {
	if prices == nil {
		prices = neuroshard.Pretrained()
	}
	pool := workload.Pool(seed)
	setting := workload.TaskSpec{
		Name: "ranking", Devices: rankingDevices, Memory: profile.Memory,
		MinTables: rankingTables, MaxTables: rankingTables + 1, MaxDim: rankingMaxDim,
	}
	var all []ranking
	for i := range tasks {
		drawn, err := workload.Draw(pool, setting, seed, i)
		if err != nil {
			return nil, err
		}
		p := drawn.Problem(profile)
		r, err := rankingOf(ctx, &p, prices, rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return nil, err
		}
		r.Task = fmt.Sprint(i)
		all = append(all, r)
	}
	return all, nil
}

func rankingOf(ctx context.Context, p *problem.Problem, prices neuroshard.Prices, draw *rand.Rand) (ranking, error) {
	list, err := prices.List(ctx, p)
	if err != nil {
		return ranking{}, err
	}
	best, err := neuroshard.Plan(ctx, p, neuroshard.Options{Prices: prices, Search: search.Options{ColumnsOnly: true}})
	if err != nil {
		return ranking{}, err
	}
	judge := simulate.NewPricer(p)
	random, near := plans{list: list, judge: judge}, plans{list: list, judge: judge}
	for range rankingPlans {
		if err := random.add(scatter(draw, best.Shards)); err != nil {
			return ranking{}, err
		}
	}
	for i := range rankingPlans {
		if err := near.add(disturb(draw, best.Shards, i*(mostMoves+1)/rankingPlans)); err != nil {
			return ranking{}, err
		}
	}
	all := plans{predicted: append(random.predicted, near.predicted...), simulated: append(random.simulated, near.simulated...)}
	tenth := all.within(1.1)
	return ranking{
		Random:         rank.Kendall(random.predicted, random.simulated),
		NearOptimal:    rank.Kendall(near.predicted, near.simulated),
		BestTenth:      rank.Kendall(tenth.predicted, tenth.simulated),
		BestTenthPlans: len(tenth.predicted),
		RegretPercent:  100 * all.regret(),
	}, nil
}

// scatter places every shard of a plan on a random device.
func scatter(draw *rand.Rand, shards [][]problem.Shard) [][]problem.Shard {
	out := make([][]problem.Shard, len(shards))
	for _, held := range shards {
		for _, s := range held {
			d := draw.IntN(len(out))
			out[d] = append(out[d], s)
		}
	}
	return out
}

// plans holds the costs of several plans of one problem.
type plans struct {
	list                 neuroshard.PriceList
	judge                *simulate.Pricer
	predicted, simulated []float64
}

func (s *plans) add(shards [][]problem.Shard) error {
	simulated, err := s.judge.Price(shards)
	if err != nil {
		return err
	}
	s.predicted = append(s.predicted, float64(s.list.Price(shards).Cost))
	s.simulated = append(s.simulated, float64(simulated.Cost))
	return nil
}

// within returns the plans whose simulated cost is at most factor times the least simulated
// cost.
func (s *plans) within(factor float64) plans {
	least := s.simulated[s.best()]
	var out plans
	for i, v := range s.simulated {
		if v <= factor*least {
			out.predicted = append(out.predicted, s.predicted[i])
			out.simulated = append(out.simulated, v)
		}
	}
	return out
}

func (s *plans) best() int { return argmin(s.simulated) }

func (s *plans) regret() float64 {
	return s.simulated[argmin(s.predicted)]/s.simulated[s.best()] - 1
}

func argmin(values []float64) int {
	best := 0
	for i, v := range values {
		if v < values[best] {
			best = i
		}
	}
	return best
}

// meanRanking returns the mean over tasks, as a ranking named "mean".
func meanRanking(all []ranking) ranking {
	m := ranking{Task: "mean"}
	for _, r := range all {
		n := float64(len(all))
		m.Random += r.Random / n
		m.NearOptimal += r.NearOptimal / n
		m.BestTenth += r.BestTenth / n
		m.RegretPercent += r.RegretPercent / n
	}
	return m
}

// disturb returns a placement after the given number of random moves of a shard of a random
// device to another one.
func disturb(draw *rand.Rand, shards [][]problem.Shard, moves int) [][]problem.Shard {
	out := make([][]problem.Shard, len(shards))
	for d, held := range shards {
		out[d] = slices.Clone(held)
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
