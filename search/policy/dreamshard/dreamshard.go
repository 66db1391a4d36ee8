// Package dreamshard is the learned placement policy of DreamShard (Zha et al., NeurIPS 2022),
// restated from its published prototype. Tables go to devices one after the other, and a policy
// net chooses each device. Its inputs are the tables that each device holds, and the costs that
// a cost net predicts for these tables.
//
//	tables (21 features)
//	  +-> cost net's table MLP 21-128-32   -- sum over a device --> heads 32-64-1:
//	  |                                          forward, communication, backward
//	  |     maximum over the devices of the sums --> overall head 32-64-1: the whole step
//	  +-> policy's table MLP 21-128-32     -- sum over a device --+
//	                     a device's three costs --> MLP 3-64-32 --+--> linear 64-1: its logit
//
// A device's choice has the probability of a softmax of the logits over the devices with room.
// The table to be placed is not an input: the policy is a learned load balancer, so it runs on
// any number of tables and devices. An empty device holds one table whose features are all 0.
//
// The files:
//
//	dreamshard.go  the nets, their weights, and their folder
//	task.go        the features of a task, standardised
//	rollout.go     the placements: a search.Policy
//	greedy.go      the control: greedy placements on the same cost net
//	costs.go       the update of the cost net
//	reinforce.go   the update of the policy by REINFORCE
//
// Package lab/reinforce has the loop over tasks. What differs from the prototype: the loss is over
// the devices with room; an episode without room is dropped; a feature with one value for all
// tables becomes 0; a co-location is one piece, whose embeddings are added; the histogram of reuse
// is that of the problem's batch; the rate falls linearly over the updates.
package dreamshard

import (
	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/search/policy"
)

// The sizes of the nets, as published.
const (
	tableHidden = 128 // of both table MLPs
	embed       = 32  // an embedded table
	headHidden  = 64
	costsOut    = 32 // the policy's MLP on a device's costs
)

// The costs that the heads of a device predict, in ms, in the order of the policy's inputs:
// the forward of the fused lookups, the backward all-to-all, and the backward of the lookups.
const (
	Forward = iota
	Communication
	Backward
	Costs // their number
)

// Net is the cost net and the policy net. Goroutines may share a Net while none trains it.
type Net struct {
	table, own, costs, logit *nn.MLP
	heads                    [Costs]*nn.MLP
	overall                  *nn.MLP
}

// New returns a net whose weights are drawn as PyTorch's Linear draws them. The same seed gives
// the same weights.
func New(seed uint64) *Net {
	n := blank()
	for i, p := range n.Nets() {
		p.Net.InitUniform(seed + uint64(i)*0x9e3779b97f4a7c15)
	}
	return n
}

// blank returns a net whose weights are zero.
func blank() *Net {
	n := &Net{
		table: policy.MLP(policy.Features, tableHidden, embed).RectifyLast(),
		own:   policy.MLP(policy.Features, tableHidden, embed).RectifyLast(),
		costs: policy.MLP(Costs, headHidden, costsOut).RectifyLast(),
		logit: policy.MLP(embed+costsOut, 1),
	}
	for i := range n.heads {
		n.heads[i] = policy.MLP(embed, headHidden, 1)
	}
	n.overall = policy.MLP(embed, headHidden, 1)
	return n
}

// Nets lists the MLPs: first those of the cost net, then those of the policy.
func (n *Net) Nets() policy.Nets { return append(n.costParts(), n.policyParts()...) }

func (n *Net) costParts() policy.Nets {
	return policy.Nets{
		{Name: "cost.table", Net: n.table},
		{Name: "cost.forward", Net: n.heads[Forward]},
		{Name: "cost.communication", Net: n.heads[Communication]},
		{Name: "cost.backward", Net: n.heads[Backward]},
		{Name: "cost.overall", Net: n.overall},
	}
}

func (n *Net) policyParts() policy.Nets {
	return policy.Nets{{Name: "policy.table", Net: n.own}, {Name: "policy.costs", Net: n.costs}, {Name: "policy.logit", Net: n.logit}}
}

// Load returns the net of a policy's folder.
func Load(f *policy.Folder) (*Net, error) {
	n := blank()
	return n, n.Nets().Load(f, policy.DreamShard)
}
