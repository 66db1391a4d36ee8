package simulate

import (
	"context"
	"math"
	"runtime"
	"sync"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// price.go estimates whole placements. Each device runs its operators (operators.go) one
// after the other, and all devices meet in the exchanges forward and backward (comm.go):
//
//	forward | wait for the last | forward comm | ... | backward comm | backward
//
// Between the forward exchanges of two steps, device r takes bw_r for the backward
// exchanges of the first step, and compute_r for its backward and the forward of the
// second step. So device r is ready at s_r = compute_r + bw_r, less the least of these
// sums over the devices. The forward exchanges take fw_r, with the wait for the last
// device. The cost is the maximum of compute_r + bw_r + fw_r over the devices. What the
// engine hides of the exchanges (plan.Hidden) is first subtracted from bw_r and from fw_r.

// Pricer estimates placements of one problem's tables. It counts each table's
// accesses once. Several goroutines may use it at the same time.
type Pricer struct {
	device  Device
	problem *problem.Problem
	tables  []Usage
	// hidden is what the engine hides of the exchanges.
	hidden plan.Hidden
	// fusions and rules say which slices fuse.
	fusions fusions
	rules   problem.EngineRules
	// replicas returns the counts of the tables as replicas. The first call computes them.
	replicas func() replicas
}

// NewPricer returns a pricer on the problem's own device profile. The problem
// must be valid and must not change while the pricer is in use.
func NewPricer(p *problem.Problem) *Pricer {
	pricer, _ := NewPricerContext(context.Background(), p) // only the end of the context is an error
	return pricer
}

// NewPricerContext is NewPricer, but returns the error of ctx if ctx ends first.
func NewPricerContext(ctx context.Context, p *problem.Problem) (*Pricer, error) {
	p = problem.Deduplicated(p)
	tables := countTables(ctx, p)
	return &Pricer{
		device: NewDevice(p.Topology.Device()), problem: p, tables: tables,
		fusions: newFusions(p), rules: p.Engine.Rules(),
		replicas: sync.OnceValue(func() replicas { return countReplicas(p) }),
	}, ctx.Err()
}

// Under returns a pricer of the same problem under another lane rule. It shares the counts
// of the tables.
func (p *Pricer) Under(rule problem.LaneRule) *Pricer {
	other, under := *p.problem, *p
	other.LaneRule = rule
	under.problem = &other
	return &under
}

// Hiding returns a pricer of the same problem whose costs leave out what the engine hides of
// the exchanges. It shares the counts of the tables. It fails if hidden.Check fails.
func (p *Pricer) Hiding(hidden plan.Hidden) (*Pricer, error) {
	exposed := *p
	exposed.hidden = hidden
	return &exposed, hidden.Check()
}

// Counts returns the accesses of a batch to table i of the problem.
func (p *Pricer) Counts(i int) access.Counts { return p.tables[i].counts }

// Price returns the simulated step times of a placement, without the input exchange
// (Input). shards[r] lists the shards of device r, of any sharding type and in any
// memory. A table that several devices hold together is in the list of each of them.
//
// The placement may be incomplete, and need not fit. It must otherwise be one that plan.Validate
// accepts. Price fails if the lists are not one for each device, if a shard is no part of the problem or cannot lie in
// its tier, or if the devices span hosts and the profile has no network.
func (p *Pricer) Price(shards [][]problem.Shard) (plan.Breakdown, error) {
	if err := checkPlacement(p.problem, shards); err != nil {
		return plan.Breakdown{}, err
	}
	forward, backward, err := p.exchanges(shards)
	if err != nil {
		return plan.Breakdown{}, err
	}
	compute := p.compute(shards)
	for r, fixed := range p.problem.Topology.FixedTimes() {
		compute[r].forward += fixed
	}
	devices := make([]plan.StepTimes, len(shards))
	start := make([]unit.Millis, len(shards))
	first := unit.Millis(math.Inf(1))
	var replicas unit.Millis // alike on all devices
	if p.hidden.Replicas {
		replicas = p.classTimes(shards[0], problem.ClassReplicas).forward
	}
	for r, device := range compute {
		d := &devices[r]
		*d = plan.StepTimes{Forward: device.forward, ForwardComm: forward[r], BackwardComm: backward[r], Backward: device.backward}
		p.hidden.Hide(d, replicas)
		start[r] = device.forward + device.backward + d.BackwardComm
		first = min(first, start[r])
	}
	last := unit.Millis(0)
	for r := range start {
		start[r] -= first
		last = max(last, start[r])
	}
	for r := range devices {
		devices[r].ForwardComm += last - start[r]
	}
	return plan.NewBreakdown(devices), nil
}

// GroupCost returns the simulated compute times of the shards of one device; 0 for no
// shards. Kernels are launched as a graph, with 8-byte indices and fp32 pooled vectors,
// and lanes by the problem's LaneRule. Shards may be of any sharding type and in any
// memory. GroupCost panics if a shard
// is no part of the problem.
func (p *Pricer) GroupCost(shards []problem.Shard) (forward, backward unit.Millis) {
	for i := range shards {
		if message := fault(p.problem, &shards[i]); message != "" {
			panic("simulate: " + message)
		}
	}
	held := p.contents(shards)
	var sum computeTimes
	for i := range held {
		if held[i] > 0 {
			t := p.classTimes(shards, problem.OperatorClass(i))
			sum.add(t.forward, t.backward)
		}
	}
	return sum.forward, sum.backward
}

// Input returns the time of the input exchange of a placement (Device.InputComm), the
// same on all devices. The NeuroShard paper leaves it out, and so do the step times. It
// fails as Price does.
func (p *Pricer) Input(shards [][]problem.Shard) (unit.Millis, error) {
	if err := checkPlacement(p.problem, shards); err != nil {
		return 0, err
	}
	c := InputComm{
		PerHost: p.problem.Topology.PerHost(), Domain: p.problem.Topology.NVLinkDomain, Batch: p.problem.Batch, IndexBytes: problem.IndexBytes,
		Bags: make([]float64, len(shards)), Lookups: make([]float64, len(shards)),
	}
	type block struct {
		table int
		rows  int64
	}
	blocks := map[block]float64{} // lookups of a sample
	for r, held := range shards {
		for i := range held {
			s := &held[i]
			t := &p.problem.Tables[s.Table]
			lookups := t.PoolingFactor()
			switch class := classOf(p.problem, s); {
			case class == problem.ClassReplicas:
				continue // reads its own samples
			case s.Blocks > 0, class == problem.ClassBlocks, class == problem.ClassHostBlocks:
				key := block{s.Table, s.Rows.Len()}
				if _, ok := blocks[key]; !ok {
					blocks[key] = p.block(s).counts.Lookups / float64(p.problem.Batch)
				}
				lookups = blocks[key]
			}
			c.Bags[r] += t.Lists()
			c.Lookups[r] += lookups
		}
	}
	return p.device.InputComm(c)
}

// exchanges returns the times of each device's exchanges, forward and backward, if
// all devices start at once.
func (p *Pricer) exchanges(shards [][]problem.Shard) (forward, backward []unit.Millis, err error) {
	if p.problem.Hierarchy.On() {
		return hierarchical(&p.device, p.problem, shards)
	}
	topology := &p.problem.Topology
	perHost := topology.PerHost()
	c := Comm{PerHost: perHost, Domain: topology.NVLinkDomain, Replicas: topology.Replicas, ReplicasPerDomain: topology.ReplicasPerDomain, Batch: p.problem.Batch, ElementBytes: p.problem.CommBytes(), DimSums: make([]int, len(shards)), ByHost: make([]int, topology.Hosts())}
	for r, held := range shards {
		for i := range held {
			s := &held[i]
			// A table that devices hold together counts on the first of them.
			switch class := classOf(p.problem, s); {
			case !class.Joint():
				c.DimSums[r] += p.problem.DimSum(*s)
			case class == problem.ClassHostBlocks && r%perHost == 0:
				c.ByHost[r/perHost] += p.problem.DimSum(*s)
			case class == problem.ClassBlocks && r == 0 && p.problem.Tables[s.Table].Pooling == problem.PoolingNone:
				c.RowsApart += problem.Columns(s.Dim(), p.block(s).counts.Lookups/float64(p.problem.Batch))
			case class == problem.ClassBlocks && r == 0:
				c.RowWise += p.problem.DimSum(*s)
			case class == problem.ClassReplicas && r == 0:
				c.Replicated += float64(s.Rows.Len()) * float64(s.Dim())
			}
		}
	}
	return p.device.Comm(c)
}

// countTables returns the usage of every table. Tables with equal rows, pooling and
// accesses are counted once. If ctx ends, the result is of no use.
func countTables(ctx context.Context, p *problem.Problem) []Usage {
	type key struct {
		access  access.Distribution
		rows    int64
		pooling float64
		lists   float64
	}
	index := make(map[key]int, len(p.Tables))
	of := make([]int, len(p.Tables))
	var different []*problem.Table
	for i := range p.Tables {
		t := &p.Tables[i]
		k := key{t.Access, t.Rows, t.PoolingFactor(), t.Lists()}
		at, ok := index[k]
		if !ok {
			at = len(different)
			index[k] = at
			different = append(different, t)
		}
		of[i] = at
	}
	counted := make([]Usage, len(different))
	workers := min(runtime.GOMAXPROCS(0), 1+len(different)/64)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < len(different) && ctx.Err() == nil; i += workers {
				counted[i] = NewUsage(different[i].Counts(p.Batch))
			}
		})
	}
	group.Wait()
	usages := make([]Usage, len(p.Tables))
	for i, at := range of {
		usages[i] = counted[at]
	}
	return usages
}
