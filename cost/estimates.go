package cost

import (
	"context"
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// Estimates is one problem under one model: what a batch does to each table, and every slice
// registered so far, in any form. Its Scorers share it.
//
// No net was trained for tables that are cut by rows, replicated or in host memory. The
// same nets estimate their operators: a block of rows is the table that the block is to
// its device (problem.BlocksOf), a replica is a table read by a smaller batch
// (problem.ReplicasOf). A block on a device that the plan chose (problem.Form.Blocks) is estimated
// like a slice of columns of the block's table. The times of host links and of the dense updates of replicas
// are those of the simulated device (docs/SIMULATED.md).
type Estimates struct {
	model   *Model
	problem *problem.Problem
	// network is the problem's cluster with the model's links.
	network simulate.Network
	// links is the network of hierarchical exchanges (hierarchy.go).
	links simulate.Network
	// classes holds the embeddings that each class's operators read; nil if no slice of
	// the class was registered. Slices in host memory use the embeddings of slices in HBM.
	classes [problem.OperatorClasses]*embeddings
	// others holds the slices in forms other than the zero form, by class, and index their
	// numbers.
	others [problem.OperatorClasses][]otherItem
	index  map[otherKey]int
	// device computes the times of host links and dense updates.
	device simulate.Device
	// hidden is what the engine hides of the exchanges.
	hidden plan.Hidden
}

// The number of an item holds its operator class above classShift. The numbers of
// ClassColumns, which is 0, are those of its embeddings.
const classShift = 28

type otherKey struct {
	table, width int
	form         problem.Form
}

// otherItem is a slice in another form than the zero one.
type otherItem struct {
	// item is its number in the embeddings of its class.
	item int
	// columns is the number of its pooled columns. apart is that of the busiest block of rows if
	// the table's lookups stay apart; columns is 0 then.
	columns, apart int
	// forward and backward are the times that the slice adds to those of its operator: the
	// host link, or the dense update of a replica.
	forward, backward ticks
	// weights is the number of a replica's weights. lookups and cachedRows are those of a
	// cached slice.
	weights, lookups, cachedRows int64
}

// NewEstimates describes the problem's tables to the model. The problem must be valid, and
// must not change while the estimates are in use. NewEstimates fails if the model is for another
// profile, or if the problem has several hosts and the model knows no network between
// hosts. If ctx ends first, it returns the error of ctx.
func NewEstimates(ctx context.Context, m *Model, p *problem.Problem) (*Estimates, error) {
	if err := m.FitsProfile(p.Topology); err != nil {
		return nil, err
	}
	p = problem.Deduplicated(p)
	estimates := &Estimates{
		model: m, problem: p, network: networkFor(m, p), links: linksFor(m, p),
		index: map[otherKey]int{}, device: simulate.NewDevice(m.hardware),
	}
	var err error
	estimates.classes[problem.ClassColumns], err = newEmbeddings(ctx, m, p, p)
	return estimates, err
}

// Hide sets what the engine hides of the exchanges, so that the costs are exposed costs. It
// must be called before NewScorer and Price. It fails if hidden.Check fails.
func (p *Estimates) Hide(hidden plan.Hidden) error {
	p.hidden = hidden
	return hidden.Check()
}

// Item registers a slice of the table, width columns wide, in the form, and returns the
// number that stands for the slice. All forms are estimated. Item must not be called
// while one of the Scorers is in use on another goroutine.
func (p *Estimates) Item(table, width int, form problem.Form) int {
	class := problem.ClassOf(form)
	if class == problem.ClassColumns {
		return p.embeddings(class).item(table, width, form)
	}
	key := otherKey{table, width, form}
	if i, ok := p.index[key]; ok {
		return i
	}
	t := &p.problem.Tables[table]
	own := problem.Form{Operator: form.Operator}
	if class == problem.ClassCached {
		own.Tier = problem.HostCached
	}
	embeddings := p.embeddings(class)
	it := otherItem{item: embeddings.item(table, width, own), columns: problem.Columns(width, t.Bags())}
	if class == problem.ClassBlocks && t.Pooling == problem.PoolingNone {
		it.apart, it.columns = problem.Columns(width, embeddings.tables[table].bags), 0
	}
	switch class {
	case problem.ClassReplicas:
		it.weights = t.Rows * int64(width)
		it.backward = ticksOf(p.device.DenseUpdate(t, width))
	case problem.ClassHostMemory, problem.ClassCached:
		counts := t.Counts(p.problem.Batch)
		forward, backward := p.device.HostLink(t, counts, width, form)
		it.forward, it.backward = ticksOf(forward), ticksOf(backward)
		if class == problem.ClassCached {
			it.lookups, it.cachedRows = int64(math.Round(counts.Lookups)), problem.CachedRows(t.Rows, form.Cache)
		}
	}
	number := int(class)<<classShift | len(p.others[class])
	p.others[class] = append(p.others[class], it)
	p.index[key] = number
	return number
}

// other returns the slice in another form that the number of an item stands for.
func (p *Estimates) other(item int) *otherItem {
	return &p.others[item>>classShift][item&(1<<classShift-1)]
}

// embeddings returns the embeddings of a class, and makes them at the first call.
func (p *Estimates) embeddings(class problem.OperatorClass) *embeddings {
	if p.classes[class] == nil {
		switch class {
		case problem.ClassBlocks:
			p.classes[class] = p.parts(problem.BlocksOf(p.problem, p.network.Devices))
		case problem.ClassHostBlocks:
			p.classes[class] = p.parts(problem.BlocksOf(p.problem, p.network.PerHost))
		case problem.ClassReplicas:
			p.classes[class] = p.parts(problem.ReplicasOf(p.problem))
		default:
			p.classes[class] = p.classes[problem.ClassColumns]
		}
	}
	return p.classes[class]
}

// parts returns the embeddings of a problem of parts of the tables.
func (p *Estimates) parts(of *problem.Problem) *embeddings {
	e, _ := newEmbeddings(context.Background(), p.model, of, p.problem) // only the end of a context is an error
	return e
}

// Price predicts the cost of a whole placement, shards listed by device, device by
// device. A table that is cut by rows must have a block on each device of its hosts, and
// a replicated table must be on all devices: their cost is that of the shards on the
// first device. Like Item, it must not be called while one of the Scorers is in use
// elsewhere.
func (p *Estimates) Price(shards [][]problem.Shard) plan.Breakdown {
	s := p.NewScorer(0)
	type slice struct {
		table int
		first int64
	}
	seen := map[slice]bool{}
	for d, held := range shards {
		for _, shard := range held {
			form := p.problem.Form(shard)
			if problem.ClassOf(form).Joint() {
				key := slice{shard.Table, shard.Columns.Start}
				if seen[key] {
					continue
				}
				seen[key] = true
			}
			s.Add(d, p.Item(shard.Table, shard.Dim(), form))
		}
	}
	s.exactly(shards)
	return s.Breakdown()
}
