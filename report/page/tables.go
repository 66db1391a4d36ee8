package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// tables.go makes the columns of tables and of shards. Times of tables in one kernel do not add
// up, so the busy time of a device is divided among its shards by the bytes that a batch reads.

// heldBy returns the problem that the bytes of shards are counted with: the plan's own problem if
// it is known, or else a problem of the tables in the plan file.
func heldBy(pl *plan.Plan, p *problem.Problem) *problem.Problem {
	if p != nil {
		return p
	}
	p = &problem.Problem{Batch: pl.Cluster.Batch, Topology: hardware.Topology{Devices: pl.Cluster.Devices, DevicesPerHost: pl.Cluster.DevicesPerHost}}
	p.Accounting = pl.Cluster.Accounting()
	p.Tables = make([]problem.Table, len(pl.Tables))
	for i := range pl.Tables {
		t := &pl.Tables[i]
		p.Tables[i] = problem.Table{Name: t.Name, Rows: t.Rows, Dim: t.Dim, Precision: t.Precision, Optimizer: t.Optimizer}
	}
	return p
}

// held is a shard with its bytes and its time.
type held struct {
	table, shard int
	device       int
	bytes        unit.Bytes
	// read is the bytes that its device reads for each sample.
	read float64
	time unit.Millis
}

// tables returns the columns of tables and shards.
func (b *builder) tables() (Tables, Shards) {
	all := b.shards()
	timed := b.in.Problem != nil && b.plan.Priced()
	if timed {
		b.apportion(all)
	}
	pl := b.plan
	n := len(pl.Tables)
	t := Tables{
		Count: n, Name: make([]string, n), Rows: make([]int64, n), Dim: make([]int, n), ShardingType: make([]problem.ShardingType, n),
		Bytes: make([]unit.Bytes, n), Stored: make([]string, n), Features: []string{}, Pooling: []float64{}, Vectors: []string{}, Time: []unit.Millis{}, Reason: make([]string, n), Alternative: []string{}, AlternativeCost: []*unit.Millis{},
	}
	type place struct{ table, device int }
	times, longest := map[place]unit.Millis{}, make([]unit.Millis, n)
	for _, h := range all {
		copies := 1
		if h.device < 0 {
			copies = len(pl.Devices)
		}
		t.Bytes[h.table] += h.bytes * unit.Bytes(copies)
		at := place{h.table, h.device}
		times[at] += h.time
		longest[h.table] = max(longest[h.table], times[at])
	}
	several := slices.ContainsFunc(pl.Tables, func(t plan.Table) bool { return report.VectorsOf(&t) != "" })
	for i := range pl.Tables {
		one := &pl.Tables[i]
		t.Name[i], t.Rows[i], t.Dim[i], t.ShardingType[i] = one.Name, one.Rows, one.Dim, one.ShardingType
		t.Reason[i] = b.reason(i)
		t.Stored[i] = b.stored(i)
		if b.in.Problem != nil {
			t.Features = append(t.Features, features(&b.in.Problem.Tables[i]))
			t.Pooling = append(t.Pooling, b.in.Problem.Tables[i].PoolingFactor())
		}
		if several {
			t.Vectors = append(t.Vectors, report.VectorsOf(one))
		}
		if timed {
			t.Time = append(t.Time, digits(longest[i]))
		}
		if b.in.Alternatives != nil {
			text, cost := b.alternative(i)
			t.Alternative, t.AlternativeCost = append(t.Alternative, text), append(t.AlternativeCost, cost)
		}
	}
	return t, columns(pl, all, timed)
}

// stored says how table i is stored and looked up.
func (b *builder) stored(i int) string {
	t := &b.held.Tables[i]
	text := fmt.Sprintf("%v, %v", t.Precision, t.Optimizer)
	if t.Weighted {
		text += ", weighted"
	}
	return text
}

// features names the features that read a table, the first of many.
func features(t *problem.Table) string {
	names := make([]string, 0, mostListed)
	for _, f := range t.Features[:min(len(t.Features), mostListed)] {
		names = append(names, f.Name)
	}
	if more := len(t.Features) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// columns returns the shards by device, those with most bytes first.
func columns(pl *plan.Plan, all []held, timed bool) Shards {
	slices.SortFunc(all, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.table, b.table), cmp.Compare(a.shard, b.shard))
	})
	n := len(all)
	s := Shards{Count: n, Table: make([]int, n), Device: make([]int, n), Rows: make([]int64, 0, 2*n), Columns: make([]int, 0, 2*n), Tier: make([]problem.Tier, n), Bytes: make([]unit.Bytes, n), Time: []unit.Millis{}}
	for i, h := range all {
		placed := pl.Tables[h.table].Shards[h.shard]
		s.Table[i], s.Device[i], s.Tier[i], s.Bytes[i] = h.table, h.device, placed.Tier, h.bytes
		s.Rows = append(s.Rows, placed.Rows.Start, placed.Rows.End)
		s.Columns = append(s.Columns, int(placed.Columns.Start), int(placed.Columns.End))
		if timed {
			s.Time = append(s.Time, digits(h.time))
		}
	}
	return s
}

// shards returns all shards with their bytes.
func (b *builder) shards() []held {
	var all []held
	for i := range b.plan.Tables {
		t := &b.plan.Tables[i]
		for k, s := range t.Shards {
			tier := s.Tier
			if tier == plan.HBM {
				tier = "" // as a problem states it
			}
			m := b.held.ShardMemory(problem.Shard{Table: i, Rows: s.Rows, Columns: s.Columns, ShardingType: t.ShardingType, Tier: tier, Cache: s.Cache})[problem.ForwardExchange]
			h := held{table: i, shard: k, device: s.Device, bytes: m.Weights + m.Optimizer + m.Host}
			if b.in.Problem != nil {
				h.read = report.BytesRead(b.plan, b.in.Problem, i, k)
			}
			all = append(all, h)
		}
	}
	return all
}

// apportion divides the busy time of each device among its shards by the bytes read. A replica
// gets the mean of its shares.
func (b *builder) apportion(all []held) {
	n := len(b.loads)
	read := make([]float64, n)
	replicas := 0.0
	for _, h := range all {
		if h.device < 0 {
			replicas += h.read
		} else {
			read[h.device] += h.read
		}
	}
	shared := 0.0 // ms for each byte of a replica, summed over the devices
	for d := range read {
		if read[d] += replicas; read[d] > 0 {
			shared += float64(b.loads[d].Busy()) / read[d]
		}
	}
	for i := range all {
		h := &all[i]
		switch {
		case h.device < 0:
			h.time = unit.Millis(h.read * shared / float64(n))
		case read[h.device] > 0:
			h.time = b.loads[h.device].Busy() * unit.Millis(h.read/read[h.device])
		}
	}
}

// reason says why table i has its form and place.
func (b *builder) reason(i int) string {
	var all []string
	t := &b.plan.Tables[i]
	if b.in.Problem != nil {
		all = append(all, constraints(b.in.Problem, i)...)
		if len(t.Shards) > 1 && b.tooLarge(i) {
			all = append(all, "whole, it is larger than what tables may use of a device")
		}
	}
	if b.in.Alternatives != nil && b.in.Alternatives[i] != nil {
		all = append(all, report.WorthOf(t, *b.in.Alternatives[i], b.in.AlternativesOf))
	}
	return strings.Join(all, "; ")
}

// tooLarge reports whether no device could hold table i whole.
func (b *builder) tooLarge(i int) bool {
	p := b.in.Problem
	budget := p.LargestBudget()
	for f, bytes := range p.ShardMemory(p.Whole(i)).Used() {
		if bytes > budget[f] {
			return true
		}
	}
	return false
}

// constraints says how the problem limits the place of table i.
func constraints(p *problem.Problem, i int) []string {
	var all []string
	c := &p.Tables[i].Constraint
	if n := len(c.Devices); n > 0 {
		all = append(all, fmt.Sprintf("it may only lie on device %s", listed(c.Devices)))
	}
	if c.Colocation != "" {
		all = append(all, fmt.Sprintf("it lies with the tables of co-location %q", c.Colocation))
	}
	if c.NoSplit {
		all = append(all, "it may not be split")
	}
	if c.MinWidth > problem.ColumnGranule {
		all = append(all, fmt.Sprintf("no slice may be narrower than %d columns", c.MinWidth))
	}
	if c.OneHost {
		all = append(all, "all its slices of columns lie on one host")
	}
	if len(c.ShardingTypes) > 0 {
		names := make([]string, len(c.ShardingTypes))
		for k, name := range c.ShardingTypes {
			names[k] = string(name)
		}
		all = append(all, "it may only be "+strings.Join(names, " or "))
	}
	if len(c.Tiers) > 0 {
		names := make([]string, len(c.Tiers))
		for k, name := range c.Tiers {
			names[k] = string(name)
		}
		all = append(all, "it may only lie in "+strings.Join(names, " or "))
	}
	if c.CacheShare > 0 {
		all = append(all, fmt.Sprintf("a cache holds %v of its rows", c.CacheShare))
	}
	return all
}

// listed prints numbers, "1, 2 or 3", the first of a long list.
func listed(numbers []int) string {
	var b strings.Builder
	for i, n := range numbers {
		switch {
		case i == mostListed:
			return fmt.Sprintf("%s or %d others", b.String(), len(numbers)-i)
		case i > 0 && i == len(numbers)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// mostListed is the number of devices that a constraint names, and of features of a table.
const mostListed = 8

// alternative returns the cheapest other place of table i, and the cost of the plan with it.
func (b *builder) alternative(i int) (string, *unit.Millis) {
	a := b.in.Alternatives[i]
	if a == nil || a.Shards == nil {
		return "", nil
	}
	return report.OtherPlace(&b.plan.Tables[i], *a), known(digits(a.Cost))
}
