package torchrec

import (
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Estimates is one problem under TorchRec's estimator: the estimates of all slices
// registered so far. Its Scorers share it.
type Estimates struct {
	estimator *estimator
	items     []item
	index     map[itemKey]int
}

// item is a slice in a form.
type item struct {
	time sum
	// span says which devices hold the item when it is added to one device.
	span problem.Span
}

type itemKey struct {
	table, width int
	form         problem.Form
}

// NewEstimates prepares the problem's tables for the estimates of a release of TorchRec. The
// problem must be valid, and must not change while the estimates are in use.
func NewEstimates(p *problem.Problem, r problem.TorchRecRelease) *Estimates {
	return &Estimates{estimator: newEstimator(p, r), index: map[itemKey]int{}}
}

// Estimate returns TorchRec's estimate of one shard of the problem; it is the same on
// any device.
func (p *Estimates) Estimate(s problem.Shard) Estimate { return p.estimator.of(s) }

// Price returns TorchRec's estimate of a whole placement, shards listed by device: the
// blocks of a table that is cut by rows are in the lists of several devices, a replica
// is in the list of each. The cost is TorchRec's rating of the plan, in ms.
func (p *Estimates) Price(shards [][]problem.Shard) plan.Breakdown {
	devices := make([]plan.StepTimes, p.estimator.problem.Topology.Devices)
	for d, held := range shards {
		var forward, forwardComm, backwardComm, backward sum
		for _, s := range held {
			e := p.Estimate(s)
			forward.add(sumOf(e.Forward))
			forwardComm.add(sumOf(e.ForwardComm))
			backwardComm.add(sumOf(e.BackwardComm))
			backward.add(sumOf(e.Backward))
		}
		devices[d] = plan.StepTimes{
			Forward: unit.Millis(forward.millis()), ForwardComm: unit.Millis(forwardComm.millis()),
			BackwardComm: unit.Millis(backwardComm.millis()), Backward: unit.Millis(backward.millis()),
		}
	}
	return plan.NewBreakdown(devices)
}

// Item registers a slice of the table, width columns wide, in the form, and returns the
// number that stands for the slice. All forms are estimated. Item must not be called
// while one of the Scorers is in use on another goroutine.
func (p *Estimates) Item(table, width int, form problem.Form) int {
	if form.Tier == problem.HBM {
		form.Tier = ""
	}
	key := itemKey{table, width, form}
	if i, ok := p.index[key]; ok {
		return i
	}
	added := item{
		time: sumOf(p.estimator.shard(table, width, form.ShardingType, form.Tier, form.Cache).Total()),
		span: form.ShardingType.Span(),
	}
	p.index[key] = len(p.items)
	p.items = append(p.items, added)
	return len(p.items) - 1
}
