package verify

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// The first choice of a cost model stays unless another finalist is faster beyond the noise of
// the machine. All finalists run in turns (InTurns), and those of one round are a pair:
//
//	round          1     2     3     4     5
//	first       10.1  10.4  14.9  10.2  10.3
//	other        9.7  10.0  14.1   9.9   9.8     below in all rounds: p = 1/32
//	difference   -4%   -4%   -5%   -3%   -5%     the median is -4 %
//
// Other load on the machine in round 3 slows both. With Options.Fastest, a pair is not of one
// round but of a block of rounds, in which each device's shortest times count (Result.Paired). Of
// the finalists that the test says are faster, by 0.1 % or more, the one with the least median
// difference is kept. The level is not corrected for the number of finalists: a finalist that is
// taken by mistake is about as fast as the first.

const (
	// level is the p-value up to which a finalist counts as faster than the first.
	level = .05
	// leastGain is the least median difference for which the first is given up.
	leastGain = .001
	// LeastRounds is the least number of rounds of Choose: with fewer, no p-value is below 0.05.
	LeastRounds = 5
)

// Choose runs the finalists of a problem in turns, opt.Repeats times each and at least
// LeastRounds times, and says which one to keep. A finalist other than the first is left out if
// no backend can run it (Measurable), or if this one has no memory for it. Choose fails if the
// first finalist cannot be run, and with *NoExchanges if the backend has no all-to-alls.
func Choose(ctx context.Context, p *problem.Problem, finalists []neuroshard.Finalist, backend collect.Backend, opt Options) (*neuroshard.Measured, error) {
	if opt.Repeats < LeastRounds {
		return nil, fmt.Errorf("%d rounds are too few to compare finalists: the test needs %d", opt.Repeats, LeastRounds)
	}
	m := newMeasured(backend.Provenance(), opt.Repeats, len(finalists))
	var placements []Placement
	var numbers []int
	pairs := make([][]unit.Millis, len(finalists))
	for i := range finalists {
		f := &finalists[i]
		if err := Measurable(plan.New(p, f.Shards)); err != nil {
			if i == 0 {
				return nil, err
			}
			m.Trials[i].Refused = err.Error()
			continue
		}
		placements, numbers = append(placements, Placement{f.Shards, f.Predicted}), append(numbers, i)
	}
	turns, err := InTurns(ctx, p, placements, backend, opt)
	if err != nil {
		return nil, err
	}
	for k, turn := range turns {
		trial := &m.Trials[numbers[k]]
		switch {
		case turn.Err != nil && k == 0:
			return nil, turn.Err
		case turn.Err != nil:
			trial.Refused = turn.Err.Error()
		case !turn.Result.CommMeasured:
			return nil, &NoExchanges{turn.Result.CommMissing}
		default:
			trial.Cost, trial.Range, trial.Runs = turn.Result.Measured, turn.Result.Spread, turn.Result.Costs
			pairs[numbers[k]] = turn.Result.Paired
		}
	}
	keep(m, finalists, pairs)
	return m, nil
}

// NoExchanges is the error of a backend that measures no all-to-alls, so that plans cannot be
// compared on it.
type NoExchanges struct{ Reason string }

// Error states the backend's reason.
func (e *NoExchanges) Error() string {
	return "plans cannot be compared on this backend, which does not measure all-to-alls: " + e.Reason
}

func newMeasured(by dataset.Provenance, rounds, finalists int) *neuroshard.Measured {
	return &neuroshard.Measured{
		Trials: make([]neuroshard.Trial, finalists), Simulated: by.Source == dataset.Simulated,
		Profile: by.Profile, Device: by.Device, Kernel: by.Kernel, Backend: by.Backend, Rounds: rounds,
	}
}

// keep tests the finalists that ran against the first, by the costs of the pairs, and sets which one
// is kept.
func keep(m *neuroshard.Measured, finalists []neuroshard.Finalist, pairs [][]unit.Millis) {
	ran := 1
	for i := 1; i < len(m.Trials); i++ {
		t := &m.Trials[i]
		if t.Refused != "" {
			continue
		}
		ran++
		t.Difference, t.PValue = paired(pairs[i], pairs[0])
		t.Faster = t.PValue <= level && t.Difference <= -leastGain
		if best := &m.Trials[m.Kept]; t.Faster && t.Difference < best.Difference {
			m.Kept = i
		}
	}
	kept := &m.Trials[m.Kept]
	switch {
	case ran == 1:
		m.Why = "no other finalist was run"
	case m.Kept == 0:
		m.Why = fmt.Sprintf("no other finalist was faster than it in the paired test (p of at most %v)", level)
	default:
		m.Why = fmt.Sprintf("it took %.1f %% less time than %s in the median of the rounds (p = %.4f), and no other finalist took less", -100*kept.Difference, finalists[0].Name(&finalists[0]), kept.PValue)
	}
}

// paired returns the median relative difference of costs from those of other in the same rounds,
// and the p-value of the test that costs are below other.
func paired(costs, other []unit.Millis) (difference, p float64) {
	differences := make([]float64, len(costs))
	for i := range costs {
		differences[i] = float64((costs[i] - other[i]) / other[i])
	}
	return stats.Median(differences), stats.Wilcoxon(differences)
}
