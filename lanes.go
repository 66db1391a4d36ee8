package neuroshard

import "github.com/neuroshard/neuroshard/problem"

// No published time of a GPU shows which lane rule holds (problem.LaneRule), so Plan prices
// its plan under both rules.

// lanes sets the costs of the result's plan under each lane rule.
func (l *line) lanes(r *Result) error {
	r.Lanes = Lanes{Widest: r.Simulated.Cost, Own: r.Simulated.Cost}
	other, cost := problem.LanesByTable, &r.Lanes.Own
	if l.problem.LaneRule == other {
		other, cost = problem.LanesByWidest, &r.Lanes.Widest
	}
	simulated, err := l.judge.Under(other).Price(r.Shards)
	*cost = simulated.Cost
	return err
}
