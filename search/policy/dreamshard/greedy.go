package dreamshard

import (
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search/policy"
)

// Greedy is the control of a Policy: it places greedily on the same cost net. Each piece goes
// on the device whose predicted costs, with the piece, have the least sum. The policy's order of
// the pieces stays; its policy net is not used. Greedy is a search.Policy.
type Greedy struct{ policy *Policy }

// Greedy returns the policy's control; ok is false if the policy has no cost net of its own.
func (p *Policy) Greedy() (control *Greedy, ok bool) { return &Greedy{p}, p.predictor == nil }

// Method returns policy.DreamShard.
func (g *Greedy) Method() string { return policy.DreamShard }

// Begin starts a rollout (search.Policy), which is greedy whatever random is.
func (g *Greedy) Begin(of *problem.Problem, pieces [][]problem.Shard, _ *rand.Rand) (order []int32, choose func(piece int32, room []int32) int32) {
	task := NewTask(policy.Describe(of, pieces))
	r := g.policy.frozen.rollout(g.policy.net, task, of.Topology.Devices, nil)
	return r.order(), func(piece int32, room []int32) int32 {
		best, least := room[0], r.with(piece, room[0])
		for _, d := range room[1:] {
			if cost := r.with(piece, d); cost < least {
				best, least = d, cost
			}
		}
		r.put(piece, best)
		return best
	}
}

// with returns the sum of the predicted costs of a device with the piece.
func (r *rollout) with(piece, device int32) (total float32) {
	sum := make([]float32, embed)
	if d := int(device); r.held[d] > 0 {
		copy(sum, r.sum(d))
	}
	r.task.sum(piece, r.table, sum)
	cost := make([]float32, 1)
	for h, head := range r.net.heads {
		head.Forward(&r.ws.heads[h], 1, sum, cost)
		total += cost[0]
	}
	return total
}
