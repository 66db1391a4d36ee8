package simulate

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"strings"
	"sync"

	"github.com/neuroshard/neuroshard/access"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// price.go prices whole placements. Each device runs one operator for each
// (optimizer, precision, weighting) among its shards, their times adding up, and
// all devices meet in the two all-to-alls:
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
	return &Pricer{device: d, problem: p, tables: countTables(p)}
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

// Price prices a placement: shards[r] is what device r holds. It fails, naming
// every such shard, where a shard is no column slice of one of the problem's
// tables: other kinds of sharding are not priced yet. It does not check that
// the placement is complete or fits.
func (p *Pricer) Price(shards [][]problem.Shard) (Cost, error) {
	if err := p.check(shards); err != nil {
		return Cost{}, err
	}
	n := len(shards)
	cost := Cost{Source: Source, Model: ModelVersion, Profile: p.device.profile.Name, Devices: make([]DeviceCost, n)}
	comm := Comm{PerHost: p.problem.Topology.PerHost(), Batch: p.problem.Batch, ElementBytes: problem.OutputBytes, DimSums: make([]int, n)}
	for r, held := range shards {
		device := &cost.Devices[r]
		device.Forward, device.Backward = p.GroupCost(held)
		for _, s := range held {
			comm.DimSums[r] += p.problem.DimSum(s)
		}
	}
	// The backward comm does not depend on the starts, the starts do on it.
	_, backward, err := p.device.Comm(comm)
	if err != nil {
		return Cost{}, err
	}
	comm.Start = make([]unit.Millis, n)
	first := unit.Millis(math.Inf(1))
	for r, device := range cost.Devices {
		comm.Start[r] = device.Forward + device.Backward + backward[r]
		first = min(first, comm.Start[r])
	}
	for r := range comm.Start {
		comm.Start[r] -= first
	}
	forward, _, err := p.device.Comm(comm)
	if err != nil {
		return Cost{}, err
	}
	input, err := p.input(shards)
	if err != nil {
		return Cost{}, err
	}
	for r := range cost.Devices {
		device := &cost.Devices[r]
		device.ForwardComm, device.BackwardComm, device.Input = forward[r], backward[r], input
		cost.Total = max(cost.Total, device.Total())
	}
	return cost, nil
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
	for r, held := range shards {
		for _, s := range held {
			t := &p.problem.Tables[s.Table]
			c.Bags[r] += float64(len(t.Features))
			c.Lookups[r] += t.PoolingFactor()
		}
	}
	return p.device.InputComm(c)
}

// check returns an error naming all that is wrong with the placement's shape.
func (p *Pricer) check(shards [][]problem.Shard) error {
	var found []string
	if len(shards) != p.problem.Topology.Devices {
		found = append(found, fmt.Sprintf("the placement has %d devices, the cluster %d", len(shards), p.problem.Topology.Devices))
	}
	for r, held := range shards {
		for _, s := range held {
			if message := p.fault(s); message != "" {
				found = append(found, fmt.Sprintf("device %d: %s", r, message))
			}
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("the placement cannot be priced:\n%s", strings.Join(found, "\n"))
	}
	return nil
}

// fault says why a shard has no price, or nothing.
func (p *Pricer) fault(s problem.Shard) string {
	if s.Table < 0 || s.Table >= len(p.problem.Tables) {
		return fmt.Sprintf("table #%d does not exist: the problem has %d", s.Table, len(p.problem.Tables))
	}
	t := &p.problem.Tables[s.Table]
	if s.Rows != (problem.Range{Start: 0, End: t.Rows}) {
		return fmt.Sprintf("table %q: rows %d to %d of %d: row-wise shards are not priced yet, use all rows", t.Name, s.Rows.Start, s.Rows.End, t.Rows)
	}
	if s.Columns.Start < 0 || s.Columns.Start >= s.Columns.End || s.Columns.End > int64(t.Dim) {
		return fmt.Sprintf("table %q: columns %d to %d are not a slice of its %d", t.Name, s.Columns.Start, s.Columns.End, t.Dim)
	}
	return ""
}

// kinds of operators a device may run: one for each combination.
const (
	precisions = 3
	weightings = 2
)

// operator returns the number of the operator that serves the table.
func operator(t *problem.Table) int {
	k := (int(t.Optimizer)*precisions + int(t.Precision)) * weightings
	if t.Weighted {
		k++
	}
	return k
}

// GroupCost returns the simulated compute times of shards on one device, which
// may be none: launched as a graph, with 8-byte indices, fp32 pooled vectors,
// and sub-warps unless weighted. Each shard must be a column slice of all rows
// of one of the problem's tables, and GroupCost panics where one is not: use
// Price for placements that were not checked.
func (p *Pricer) GroupCost(shards []problem.Shard) (forward, backward unit.Millis) {
	var present uint64
	for i := range shards {
		if message := p.fault(shards[i]); message != "" {
			panic("simulate: " + message)
		}
		if t := shards[i].Table; p.tables[t].counts.Lookups > 0 {
			present |= 1 << operator(&p.problem.Tables[t])
		}
	}
	for ; present != 0; present &= present - 1 {
		f, b := p.operatorCost(shards, bits.TrailingZeros64(present))
		forward += f
		backward += b
	}
	return forward, backward
}

// operatorCost prices those of the shards that one operator serves.
func (p *Pricer) operatorCost(shards []problem.Shard, kind int) (forward, backward unit.Millis) {
	tables, widest := 0, 0
	var sample *problem.Table
	for i := range shards {
		s := &shards[i]
		if t := &p.problem.Tables[s.Table]; operator(t) == kind && p.tables[s.Table].counts.Lookups > 0 {
			tables++
			widest = max(widest, s.Dim())
			sample = t
		}
	}
	w := work{device: &p.device, settings: settings{
		batch:       float64(p.problem.Batch),
		weightBytes: float64(sample.Precision.Bytes()),
		outputBytes: problem.OutputBytes,
		indexBytes:  problem.IndexBytes,
		optimizer:   sample.Optimizer,
		weighted:    sample.Weighted,
		subwarp:     !sample.Weighted,
	}}
	w.start(tables, widest)
	for i := range shards {
		s := &shards[i]
		t, u := &p.problem.Tables[s.Table], &p.tables[s.Table]
		if operator(t) == kind && u.counts.Lookups > 0 {
			w.add(float64(t.Rows), float64(s.Dim()), float64(len(t.Features)), u)
		}
	}
	return w.times()
}
