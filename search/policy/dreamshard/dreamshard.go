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
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/cost/modelfile"
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

// part is one MLP of a Net, by the name that its tensors begin with.
type part struct {
	name string
	net  *nn.MLP
}

// New returns a net whose weights are drawn as PyTorch's Linear draws them. The same seed gives
// the same weights.
func New(seed uint64) *Net {
	n := blank()
	for i, p := range n.parts() {
		p.net.InitUniform(seed + uint64(i)*0x9e3779b97f4a7c15)
	}
	return n
}

// blank returns a net whose weights are zero.
func blank() *Net {
	n := &Net{
		table: mlp(policy.Features, tableHidden, embed).RectifyLast(),
		own:   mlp(policy.Features, tableHidden, embed).RectifyLast(),
		costs: mlp(Costs, headHidden, costsOut).RectifyLast(),
		logit: mlp(embed+costsOut, 1),
	}
	for i := range n.heads {
		n.heads[i] = mlp(embed, headHidden, 1)
	}
	n.overall = mlp(embed, headHidden, 1)
	return n
}

func mlp(sizes ...int) *nn.MLP {
	net, err := nn.NewMLP(sizes...)
	if err != nil {
		panic("dreamshard: " + err.Error()) // the sizes are constants
	}
	return net
}

// parts lists the MLPs: first those of the cost net, then those of the policy.
func (n *Net) parts() []part { return append(n.costParts(), n.policyParts()...) }

func (n *Net) costParts() []part {
	return []part{
		{"cost.table", n.table},
		{"cost.forward", n.heads[Forward]},
		{"cost.communication", n.heads[Communication]},
		{"cost.backward", n.heads[Backward]},
		{"cost.overall", n.overall},
	}
}

func (n *Net) policyParts() []part {
	return []part{{"policy.table", n.own}, {"policy.costs", n.costs}, {"policy.logit", n.logit}}
}

// Tensors returns the weights, shared with the net, as a policy.Folder keeps them.
func (n *Net) Tensors() []modelfile.Tensor {
	var all []modelfile.Tensor
	for _, p := range n.parts() {
		for _, t := range p.net.Params() {
			all = append(all, modelfile.Tensor{Name: p.name + "." + t.Name, Shape: t.Shape, Data: t.Data})
		}
	}
	return all
}

// Load returns the net of a policy's folder. It names every tensor that is missing or has
// another shape, and fails if the folder holds other tensors as well.
func Load(f *policy.Folder) (*Net, error) {
	if f.Manifest.Method != policy.DreamShard {
		return nil, fmt.Errorf("policy %q is one of method %q, not %q", f.Manifest.ID, f.Manifest.Method, policy.DreamShard)
	}
	n := blank()
	var faults []error
	want := n.Tensors()
	for _, t := range want {
		data, err := modelfile.Find(f.Tensors, t.Name, t.Shape...)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		copy(t.Data, data)
	}
	if len(faults) == 0 && len(f.Tensors) != len(want) {
		faults = append(faults, fmt.Errorf("%d tensors, want %d", len(f.Tensors), len(want)))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("policy %q: %w", f.Manifest.ID, errors.Join(faults...))
	}
	return n, nil
}
