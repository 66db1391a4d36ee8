package simulate

import (
	"math"
	"runtime"
	"sync"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// price.go prices whole placements. Each device runs its operators (lots.go), one
// after the other, and all devices meet in the exchanges forward and backward: the
// all-to-alls of column slices (comm.go), and what tables that devices hold together
// need beside or instead of them (spread.go):
//
//	forward | wait for the last | forward comm | ... | backward comm | backward
//
// A step's forward comm is reached by device r when its compute (the backward
// of the step before and this forward) and the backward comm between them are
// done. So s_r = compute_r + bw_r, less the least of them, is when it starts to
// wait, and the cost is the most of compute_r + bw_r + fw_r over the devices,
// with the wait in fw_r.

// Pricer prices placements of one problem's tables. It counts each table's
// accesses once. It may be used by several goroutines.
type Pricer struct {
	// InputExchange adds the exchange of indices before the forward
	// (Device.InputComm) to every cost. The NeuroShard paper leaves it out, and
	// so does the zero value. It must not be changed while prices are asked.
	InputExchange bool

	device  Device
	problem *problem.Problem
	tables  []usage
	// replicas counts the tables as replicas, once one is priced.
	replicas func() replicas
}

// NewPricer returns a pricer on the problem's own device profile. The problem
// must be valid and must not change while the pricer is in use.
func NewPricer(p *problem.Problem) *Pricer { return NewDevice(p.Topology.Profile).pricer(p) }

// Price prices one placement on the device, in the problem's topology whatever
// its profile. For several placements of one problem, make a Pricer.
func (d Device) Price(p *problem.Problem, shards [][]problem.Shard) (Cost, error) {
	return d.pricer(p).Price(shards)
}

func (d Device) pricer(p *problem.Problem) *Pricer {
	return &Pricer{
		device: d, problem: p, tables: countTables(p),
		replicas: sync.OnceValue(func() replicas { return countReplicas(p) }),
	}
}

// countTables returns every table's usage. Tables alike in rows, pooling and
// accesses are counted once.
func countTables(p *problem.Problem) []usage {
	type key struct {
		access  access.Distribution
		rows    int64
		pooling float64
	}
	index := make(map[key]int, len(p.Tables))
	of := make([]int, len(p.Tables))
	var different []*problem.Table
	for i := range p.Tables {
		t := &p.Tables[i]
		k := key{t.Access, t.Rows, t.PoolingFactor()}
		at, ok := index[k]
		if !ok {
			at = len(different)
			index[k] = at
			different = append(different, t)
		}
		of[i] = at
	}
	counted := make([]usage, len(different))
	workers := min(runtime.GOMAXPROCS(0), 1+len(different)/64)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < len(different); i += workers {
				counted[i] = newUsage(different[i].Counts(p.Batch))
			}
		})
	}
	group.Wait()
	usages := make([]usage, len(p.Tables))
	for i, at := range of {
		usages[i] = counted[at]
	}
	return usages
}

// Counts returns what a batch does to table i of the problem.
func (p *Pricer) Counts(i int) access.Counts { return p.tables[i].counts }

// Device returns the simulated device that the pricer prices on.
func (p *Pricer) Device() Device { return p.device }

// Cost is the simulated cost of a placement.
type Cost struct {
	// Source, Model and Profile say where the times come from: Source and
	// ModelVersion of this package, and the device's profile.
	Source, Model, Profile string
	Devices                []DeviceCost
	// Total is the most any device spends in a step.
	Total unit.Millis
}

// DeviceCost is the simulated times of one device in a step.
type DeviceCost struct {
	Forward, Backward unit.Millis
	// ForwardComm holds the wait for the last device, too.
	ForwardComm, BackwardComm unit.Millis
	// Input is the input exchange, 0 unless Pricer.InputExchange asks for it.
	Input unit.Millis
}

// Total returns the device's time in a step.
func (c DeviceCost) Total() unit.Millis {
	return c.Forward + c.Backward + c.ForwardComm + c.BackwardComm + c.Input
}

// Price prices a placement: shards[r] is what device r holds, of all kinds and in all
// memories. A table that devices hold together is in the list of each of them. It
// fails, naming every fault, where a shard is no part of one of the problem's tables,
// and where a table held together is not where its kind says: row_wise blocks on
// all devices in their order, table_row_wise ones on one full host, the slices of a
// grid on a full host each, data_parallel tables on every device. It does not check
// that the placement is complete or fits.
func (p *Pricer) Price(shards [][]problem.Shard) (Cost, error) {
	if err := p.check(shards); err != nil {
		return Cost{}, err
	}
	forward, backward, err := p.exchanges(shards)
	if err != nil {
		return Cost{}, err
	}
	input, err := p.input(shards)
	if err != nil {
		return Cost{}, err
	}
	cost := Cost{Source: Source, Model: ModelVersion, Profile: p.device.profile.Name, Devices: make([]DeviceCost, len(shards))}
	p.compute(shards, cost.Devices)
	start := make([]unit.Millis, len(shards))
	first := unit.Millis(math.Inf(1))
	for r, device := range cost.Devices {
		start[r] = device.Forward + device.Backward + backward[r]
		first = min(first, start[r])
	}
	last := unit.Millis(0)
	for r := range start {
		start[r] -= first
		last = max(last, start[r])
	}
	for r := range cost.Devices {
		device := &cost.Devices[r]
		device.ForwardComm, device.BackwardComm, device.Input = forward[r]+(last-start[r]), backward[r], input
		cost.Total = max(cost.Total, device.Total())
	}
	return cost, nil
}

// exchanges returns the times of each device's exchanges, forward and backward, if
// all devices start at once.
func (p *Pricer) exchanges(shards [][]problem.Shard) (forward, backward []unit.Millis, err error) {
	topology := &p.problem.Topology
	perHost := topology.PerHost()
	c := Comm{PerHost: perHost, Batch: p.problem.Batch, ElementBytes: p.problem.CommBytes(), DimSums: make([]int, len(shards)), ByHost: make([]int, topology.Hosts())}
	for r, held := range shards {
		for i := range held {
			s := &held[i]
			// What devices hold together counts on the first of them.
			switch l := p.lotOf(s); {
			case !l.spread():
				c.DimSums[r] += p.problem.DimSum(*s)
			case l == lotByHost && r%perHost == 0:
				c.ByHost[r/perHost] += p.problem.DimSum(*s)
			case l == lotRowWise && r == 0:
				c.RowWise += p.problem.DimSum(*s)
			case l == lotReplicated && r == 0:
				c.Replicated += float64(s.Rows.Len()) * float64(s.Dim())
			}
		}
	}
	return p.device.Comm(c)
}

// input returns the time of the input exchange, where it is asked for.
func (p *Pricer) input(shards [][]problem.Shard) (unit.Millis, error) {
	if !p.InputExchange {
		return 0, nil
	}
	c := InputComm{
		PerHost: p.problem.Topology.PerHost(), Batch: p.problem.Batch, IndexBytes: problem.IndexBytes,
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
			switch p.lotOf(s) {
			case lotReplicated:
				continue // reads its own samples
			case lotRowWise, lotByHost:
				key := block{s.Table, s.Rows.Len()}
				if _, ok := blocks[key]; !ok {
					blocks[key] = p.block(s).counts.Lookups / float64(p.problem.Batch)
				}
				lookups = blocks[key]
			}
			c.Bags[r] += float64(len(t.Features))
			c.Lookups[r] += lookups
		}
	}
	return p.device.InputComm(c)
}
