// Package autoshard is the policy of AutoShard (Zha et al., KDD 2022): nets that place
// tables on devices, table after table, so that the devices are equally busy.
//
//	Scaling        features of tables, standardised (scaling.go)
//	Net            tables and devices to logits, returns and predicted costs (net.go)
//	Episode        one task, table after table, as the nets see it (episode.go)
//	Trace          V-trace: what the returns should have been (vtrace.go)
//	Learner        the losses of the policy and of the cost net, and their gradients (learn.go)
//	Policy         a trained net that package search asks for devices (autoshard.go)
//
// The nets, losses and updates are the published prototype's, and tests compare all of
// them with numbers that were recorded while the prototype ran. The training loop is in
// package lab/reinforce. Two things differ from the prototype: a Policy chooses only
// among devices with room, and several tables that must stay together are one piece.
package autoshard

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search/policy"
)

// Policy is a trained net. It is a search.Policy. Many goroutines may use it at the same
// time.
type Policy struct {
	net     *Net
	scaling Scaling
	id      string
}

// NewPolicy returns the policy of a trained net, which must not change from then on.
func NewPolicy(net *Net, scaling Scaling) *Policy { return &Policy{net: net, scaling: scaling} }

// FromFolder returns the policy that a folder holds.
func FromFolder(f *policy.Folder) (*Policy, error) {
	m, net := &f.Manifest, New()
	err := net.Nets().Load(f, policy.AutoShard)
	if len(m.Mean) != standardised || len(m.Deviation) != standardised {
		err = errors.Join(err, fmt.Errorf("policy %s: %d means and %d deviations of features: want %d each", m.ID, len(m.Mean), len(m.Deviation), standardised))
	}
	if err != nil {
		return nil, err
	}
	return &Policy{net, Scaling{[standardised]float64(m.Mean), [standardised]float64(m.Deviation)}, m.ID}, nil
}

// Folder returns the policy as a folder that has no card yet. It shares the weights.
func (p *Policy) Folder() *policy.Folder {
	f := &policy.Folder{Tensors: p.net.Nets().Tensors()}
	f.Manifest.Method = policy.AutoShard
	f.Manifest.Mean, f.Manifest.Deviation = p.scaling.Mean[:], p.scaling.Deviation[:]
	return f
}

// ID returns the id of the folder that the policy is from; empty if it is from none.
func (p *Policy) ID() string { return p.id }

// Method is the search method that the policy is for.
func (p *Policy) Method() string { return policy.AutoShard }

// Begin starts a rollout. The pieces are placed by falling predicted cost. Each goes to
// the device of the largest logit among those with room, the first of equal ones, or,
// if random is not nil, to one drawn by the softmax of their logits.
func (p *Policy) Begin(problem *problem.Problem, pieces [][]problem.Shard, random *rand.Rand) (order []int32, choose func(piece int32, room []int32) int32) {
	tables := policy.Describe(problem, pieces)
	rows := policy.NewMatrix(p.scaling.Of)
	held := rows.Add(&tables)
	devices := problem.Topology.Devices
	ws, state := &Workspace{}, p.net.Core.NewState(1)
	p.net.Freeze(ws)
	vectors := p.net.Embed(ws, rows.X, nil)
	episode := NewEpisode(p.net, ws, vectors, held, GiB(&tables), devices)
	frame := Frames{Steps: 1, Sequences: 1, Devices: devices}
	logits := make([]float32, devices)
	return episode.Order(), func(piece int32, room []int32) int32 {
		episode.skipTo(piece)
		frame.Clear()
		frame.Steps = 1
		episode.Observe(&frame)
		p.net.Forward(ws, vectors, &frame, state, logits, nil)
		device := policy.Choose(logits, room, random)
		episode.Place(p.net, ws, vectors, int(device))
		return device
	}
}
