package plan

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// New returns the plan that puts shards[d] on device d of p's cluster. It sets Tables,
// Devices without the predicted times, and Cluster. The caller sets the times, Predicted
// and Provenance.
//
// A table has the sharding type that its shards state. If no shard states one, the
// shapes decide: a table in one whole shard becomes table_wise, a table cut by
// columns column_wise, by rows row_wise, by both grid. All shards of a table must be in
// operators of the same number. A data_parallel table is listed on every device; in the
// plan it is one shard, with Device -1. p must be valid, and each shard's Table an index
// into p.Tables. New does not check the placement further: Validate
// reports shards that are missing or placed twice.
func New(p *problem.Problem, shards [][]problem.Shard) *Plan {
	pl := &Plan{Tables: make([]Table, len(p.Tables)), Cluster: clusterOf(p)}
	for i := range p.Tables {
		t := &p.Tables[i]
		pl.Tables[i] = Table{Name: t.Name, Module: t.Module, Rows: t.Rows, Dim: t.Dim, IndexDedup: t.IndexDedup}
		pl.Tables[i].describe(t)
	}
	for device, held := range shards {
		for _, s := range held {
			t := &pl.Tables[s.Table]
			t.Shards = append(t.Shards, Shard{Rows: s.Rows, Columns: s.Columns, Device: device, Tier: cmp.Or(s.Tier, HBM), Cache: s.Cache})
			t.ShardingType = cmp.Or(t.ShardingType, s.ShardingType)
			t.Operator = max(t.Operator, s.Operator)
		}
	}
	n := max(len(shards), p.Topology.Devices)
	index := make([]int, len(pl.Tables))
	for i := range pl.Tables {
		t := &pl.Tables[i]
		slices.SortStableFunc(t.Shards, compareShards)
		if t.ShardingType == "" {
			t.ShardingType = impliedType(t)
		}
		if t.ShardingType == DataParallel && t.everywhere(n) {
			t.Shards = t.Shards[:1]
			t.Shards[0].Device = replicated
		}
		index[i] = i
	}
	pl.Devices, pl.Sync.Bytes = devicesOf(tally(pl, p, index, n)), syncBytes(pl, p, index, n)
	return pl
}

// everywhere reports whether the table's shards, sorted by compareShards, are n copies
// of one shard, one on each of n devices.
func (t *Table) everywhere(n int) bool {
	if len(t.Shards) != n {
		return false
	}
	for d, s := range t.Shards {
		want := t.Shards[0]
		want.Device = d
		if s != want {
			return false
		}
	}
	return true
}

// describe gives the table what the problem's table of its name states.
func (t *Table) describe(of *problem.Table) {
	t.Precision, t.Optimizer = of.Precision, of.Optimizer
	if !of.ChooseDedup {
		t.IndexDedup = of.IndexDedup
	}
	if !of.OneBag() {
		t.Vectors = of.Bags()
	}
	if of.Pooling == problem.PoolingNone {
		t.Pooling = of.Pooling
	}
}

// Of returns the plan with the given tables. Unlike New, it derives nothing: sharding types, replicated
// shards and tiers stay as given. It gives the tables the precision, the optimizer and the kind of vectors of
// p's tables of their names, sets Devices and Cluster as New does, and checks no more than New. The plan takes over the
// tables and sorts their shards. A table that p lacks, or has in another shape, counts on no device.
func Of(p *problem.Problem, tables []Table) *Plan {
	pl := &Plan{Tables: tables, Cluster: clusterOf(p)}
	p = pl.Decided(p)
	known, index := make(map[string]int, len(p.Tables)), make([]int, len(tables))
	for i := range p.Tables {
		known[p.Tables[i].Name] = i
	}
	for i := range tables {
		t := &tables[i]
		slices.SortStableFunc(t.Shards, compareShards)
		index[i] = -1
		if at, ok := known[t.Name]; ok && p.Tables[at].Rows == t.Rows && p.Tables[at].Dim == t.Dim {
			index[i] = at
			t.describe(&p.Tables[at])
		}
	}
	n := p.Topology.Devices
	pl.Devices, pl.Sync.Bytes = devicesOf(tally(pl, p, index, n)), syncBytes(pl, p, index, n)
	return pl
}

// syncBytes returns the bytes that the replicas average, on the device with the most; 0 if the
// problem has one sharding group. Table i of the plan is table index[i] of the problem, and is left
// out if that is negative.
func syncBytes(pl *Plan, p *problem.Problem, index []int, n int) (most unit.Bytes) {
	if p.Topology.ReplicaCount() == 1 {
		return 0
	}
	bytes := make([]unit.Bytes, n)
	for i := range pl.Tables {
		for _, s := range pl.Tables[i].Shards {
			if index[i] >= 0 && pl.Tables[i].inside(s) && 0 <= s.Device && s.Device < n && bytes[max(0, s.Device)] < enough {
				all, _, _ := p.SyncBytes(s.of(index[i], pl.Tables[i].ShardingType, 0))
				bytes[s.Device] += all
				most = max(most, bytes[s.Device])
			}
		}
	}
	return most
}

// of returns the shard as a shard of table i of a problem, with the given sharding type and
// number of blocks (Table.Blocks).
func (s Shard) of(i int, shardingType ShardingType, blocks int) problem.Shard {
	shard := problem.Shard{Table: i, Rows: s.Rows, Columns: s.Columns, ShardingType: shardingType, Tier: s.Tier, Cache: s.Cache, Blocks: blocks}
	if s.Tier == HBM {
		shard.Tier = ""
	}
	return shard
}

// whole rounds a bandwidth to whole bytes a second.
func whole(b unit.Bandwidth) unit.Bandwidth { return unit.Bandwidth(math.Round(float64(b))) }

// clusterOf returns the cluster that plans of p state.
func clusterOf(p *problem.Problem) Cluster {
	t := &p.Topology
	network, domain := unit.Bandwidth(0), 0
	if t.Device() != t.Profile {
		network = whole(t.NetworkBandwidth)
	}
	if t.LinkDomain() > t.PerHost() {
		domain = t.LinkDomain()
	}
	numbers := t.Numbers
	for _, b := range []*unit.Bandwidth{&numbers.Links, &numbers.HBM, &numbers.HostLink} {
		*b = whole(*b)
	}
	return Cluster{
		Profile:        p.Topology.Profile.Name,
		Devices:        p.Topology.Devices,
		DevicesPerHost: p.Topology.PerHost(),
		Batch:          p.Batch,
		CommPrecision:  p.CommPrecision,
		Engine:         p.Engine,
		LaneRule:       p.LaneRule,
		Pipeline:       p.Pipeline,

		NetworkBandwidth: network,
		NVLinkDomain:     domain,
		Numbers:          numbers,

		Replicas: several(t.Replicas), ReplicasPerHost: several(t.ReplicasPerHost), ReplicasPerDomain: several(t.ReplicasPerDomain),
		InterHostAllReduce: t.InterHostAllReduce, SyncEvery: several(t.SyncEvery),
	}.withAccounting(p.Accounting).WithMemories(*t)
}

// several returns n, or 0 for the 1 that plans do not state.
func several(n int) int {
	if n <= 1 {
		return 0
	}
	return n
}

// compareShards orders the shards of a table: by first column, then first row,
// then all other fields, so that the order of unequal shards is always the same.
func compareShards(a, b Shard) int {
	return cmp.Or(
		cmp.Compare(a.Columns.Start, b.Columns.Start),
		cmp.Compare(a.Rows.Start, b.Rows.Start),
		cmp.Compare(a.Columns.End, b.Columns.End),
		cmp.Compare(a.Rows.End, b.Rows.End),
		cmp.Compare(a.Device, b.Device))
}

// ordered returns the shards in order: the list itself if it is in order, as those of New are, or
// else a copy. The result must not be modified.
func ordered(shards []Shard, compare func(a, b Shard) int) []Shard {
	if slices.IsSortedFunc(shards, compare) {
		return shards
	}
	return slices.SortedStableFunc(slices.Values(shards), compare)
}

// impliedType returns the sharding type that the shapes of a table's shards imply.
func impliedType(t *Table) ShardingType {
	if len(t.Shards) == 0 || len(t.Shards) == 1 && t.whole(t.Shards[0]) {
		return TableWise
	}
	rows, columns := true, true // every shard has all of them
	for _, s := range t.Shards {
		rows = rows && t.allRows(s)
		columns = columns && t.allColumns(s)
	}
	switch {
	case rows:
		return ColumnWise
	case columns:
		return RowWise
	}
	return Grid
}

func (t *Table) allRows(s Shard) bool { return s.Rows == problem.Range{Start: 0, End: t.Rows} }
func (t *Table) allColumns(s Shard) bool {
	return s.Columns == problem.Range{Start: 0, End: int64(t.Dim)}
}
func (t *Table) whole(s Shard) bool { return t.allRows(s) && t.allColumns(s) }

// inside reports whether s is a rectangle inside the table and not empty.
func (t *Table) inside(s Shard) bool {
	return 0 <= s.Rows.Start && s.Rows.Start < s.Rows.End && s.Rows.End <= t.Rows &&
		0 <= s.Columns.Start && s.Columns.Start < s.Columns.End && s.Columns.End <= int64(t.Dim)
}

// Blocks returns the number of equal blocks of rows of each slice of the table, if the plan
// chose the devices of the blocks (problem.Form.Blocks). It returns 0 for all other tables: those
// that are not cut by rows, those whose sharding type says which devices of the cluster hold the
// blocks, and those that no engine runs.
//
// The n blocks of a slice have Table.BlockRows(n) rows each, and the last one the rest. They lie
// in HBM on different devices, in the order of the devices. A table whose slices
// all lie on all devices of a host is table_row_wise, or a grid with a host for each slice.
func (t *Table) Blocks(c *Cluster) int {
	if t.ShardingType != RowWise && t.ShardingType != Grid || len(t.Shards) < 2 {
		return 0
	}
	n, hosts := 0, true
	for slice := range t.Slices() {
		n = cmp.Or(n, len(slice))
		if len(slice) != n || !t.equalBlocks(slice) {
			return 0
		}
		hosts = hosts && t.onHost(slice, c)
	}
	if n < 2 || hosts || t.ShardingType == RowWise && t.differs(t.Shards, 0, c.Devices) < 0 {
		return 0
	}
	return n
}

// Slices yields the shards of each slice of the table's columns, by column, and those of a slice by row.
// They must not be modified.
func (t *Table) Slices() iter.Seq[[]Shard] {
	return func(yield func([]Shard) bool) {
		shards := ordered(t.Shards, compareShards)
		for len(shards) > 0 {
			n := 1
			for n < len(shards) && shards[n].Columns == shards[0].Columns {
				n++
			}
			if !yield(shards[:n]) {
				return
			}
			shards = shards[n:]
		}
	}
}

// Holders returns the devices of the shards, ascending and each once.
func Holders(shards []Shard) []int {
	devices := make([]int, len(shards))
	for k, s := range shards {
		devices[k] = s.Device
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}

// equalBlocks reports whether the shards of a slice, sorted by row, are equal blocks on different
// devices, in the order of the devices.
func (t *Table) equalBlocks(slice []Shard) bool {
	table := problem.Table{Rows: t.Rows}
	if !table.CutsByRows(len(slice)) {
		return false
	}
	last := replicated
	for i, s := range slice {
		if s.Rows != blockAt(&table, len(slice), i) || s.Device <= last || s.Tier != HBM {
			return false
		}
		last = s.Device
	}
	return true
}

// onHost reports whether the shards of a slice are the blocks of all devices of a full host. The
// last devices may have none, except for a row_wise table.
func (t *Table) onHost(slice []Shard, c *Cluster) bool {
	per := max(1, c.DevicesPerHost)
	first := slice[0].Device / per * per
	return (len(slice) == per || t.ShardingType == Grid) && t.differs(slice, first, per) < 0
}

// differs returns the first of n devices from first on that does not hold its block of rows in a
// slice, or -1.
func (t *Table) differs(slice []Shard, first, n int) int {
	table := problem.Table{Rows: t.Rows}
	slice = ordered(slice, compareShards)
	for i := range n {
		rows := blockAt(&table, n, i)
		if rows.Len() <= 0 {
			break // the rows end before the last device
		}
		if s := slice[min(i, len(slice)-1)]; s.Rows != rows || s.Device != first+i {
			return i
		}
	}
	return -1
}

// blockAt returns the rows of block i of a table that is cut by rows for n devices.
func blockAt(t *problem.Table, n, i int) problem.Range {
	block := t.BlockRows(n)
	return problem.Range{Start: int64(i) * block, End: min(t.Rows, int64(i+1)*block)}
}

// enough is the sum at which tally stops adding bytes to a device, so that no sum
// overflows. It is above the bytes of all tables of a valid problem together.
const enough = 1 << 60

// load is what a device holds, with its bytes in each phase of the step.
type load struct {
	Device
	step problem.StepMemory
}

// tally counts the shards, pooled columns and bytes that pl puts on each of n devices.
// index[i] is the table of p that table i of pl is, or -1. Shards of unknown tables,
// outside their table or on no device do not count. A replicated shard counts on every
// device.
func tally(pl *Plan, p *problem.Problem, index []int, n int) []load {
	loads := make([]load, n)
	var every load // what lies on all of them
	for i := range pl.Tables {
		if index[i] < 0 {
			continue
		}
		t := &pl.Tables[i]
		blocks := t.Blocks(&pl.Cluster)
		for _, s := range t.Shards {
			if !t.inside(s) || s.Device >= n || s.Device < replicated {
				continue
			}
			l := &every
			if s.Device != replicated {
				l = &loads[s.Device]
			}
			if !(0 < s.Cache && s.Cache < 1) {
				s.Cache = 0
			}
			shard := s.of(index[i], t.ShardingType, blocks)
			l.Shards++
			l.DimSum += p.DimSum(shard)
			l.hold(p.ShardMemory(shard))
			every.hold(p.SharedMemory(shard))
		}
	}
	fixed := p.DeviceMemory(0).Add(every.step)
	for i := range loads {
		l := &loads[i]
		l.Shards += every.Shards
		l.DimSum += every.DimSum
		l.step = l.step.Add(fixed)
		for f := range l.step {
			l.step[f].Reserve = p.Reserved(i)
		}
		l.Phase, l.Memory = l.step.Peak()
		if p.Accounting == problem.CountAll && p.Engine != problem.HugeCTR {
			l.Pools = l.step.Pools()
		}
	}
	return loads
}

// StepMemory returns the memory of each device in each phase of the step. The plan must be valid for p.
func (pl *Plan) StepMemory(p *problem.Problem) []problem.StepMemory {
	p = pl.Decided(p)
	loads := tally(pl, p, indexOf(pl, p), len(pl.Devices))
	all := make([]problem.StepMemory, len(loads))
	for i := range loads {
		all[i] = loads[i].step
	}
	return all
}

// indexOf returns for each table of pl the table of p with its name, or -1.
func indexOf(pl *Plan, p *problem.Problem) []int {
	known, index := make(map[string]int, len(p.Tables)), make([]int, len(pl.Tables))
	for i := range p.Tables {
		known[p.Tables[i].Name] = i
	}
	for i := range pl.Tables {
		index[i] = -1
		if at, ok := known[pl.Tables[i].Name]; ok {
			index[i] = at
		}
	}
	return index
}

// hold adds bytes to a device.
func (l *load) hold(m problem.StepMemory) {
	if _, peak := l.step.Peak(); peak.Used() < enough && peak.Host < enough {
		l.step = l.step.Add(m)
	}
}

// devicesOf returns the devices of loads.
func devicesOf(loads []load) []Device {
	devices := make([]Device, len(loads))
	for i := range loads {
		devices[i] = loads[i].Device
	}
	return devices
}
