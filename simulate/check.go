package simulate

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
)

// check.go refuses placements whose cost cannot be estimated, at the first fault: a shard is not part of
// the problem, or a table is missing on a device that must hold a part of it. plan.Validate reports all
// faults of a plan.

// checkPlacement returns the first fault of a placement's shards. It does not check whether every table
// is placed, or fits.
func checkPlacement(p *problem.Problem, shards [][]problem.Shard) error {
	if n := p.Topology.Devices; len(shards) != n {
		return fmt.Errorf("the cost of the placement cannot be estimated: the placement has %d devices, the cluster %d", len(shards), n)
	}
	c := placement{problem: p, parts: map[jointPart]*holders{}}
	for r := range shards {
		for i := range shards[r] {
			s := &shards[r][i]
			message := fault(p, s)
			if message == "" {
				if class := classOf(p, s); s.Blocks > 0 || class.Joint() {
					message = c.hold(r, s, class)
				}
			}
			if message != "" {
				return fmt.Errorf("the cost of the placement cannot be estimated: device %d: %s", r, message)
			}
		}
	}
	if message := c.incomplete(); message != "" {
		return fmt.Errorf("the cost of the placement cannot be estimated: %s", message)
	}
	return nil
}

// fault returns the fault of a shard by itself; "" if it has none.
func fault(p *problem.Problem, s *problem.Shard) string {
	if s.Table < 0 || s.Table >= len(p.Tables) {
		return fmt.Sprintf("table #%d does not exist: the problem has %d", s.Table, len(p.Tables))
	}
	t := &p.Tables[s.Table]
	if s.Operator >= problem.Operators {
		return fmt.Sprintf("table %q: operator %d does not exist: operators are numbered from 0 to %d", t.Name, s.Operator, problem.Operators-1)
	}
	if s.Columns.Start < 0 || s.Columns.Start >= s.Columns.End || s.Columns.End > int64(t.Dim) {
		return fmt.Sprintf("table %q: columns %d to %d are not a slice of its %d columns", t.Name, s.Columns.Start, s.Columns.End, t.Dim)
	}
	allRows := s.Rows == problem.Range{Start: 0, End: t.Rows}
	if s.ShardingType == "" && s.Tier == "" && allRows && s.Blocks == 0 {
		return "" // most shards
	}
	shardingType := s.ShardingType
	if shardingType == "" && !allRows {
		shardingType = problem.RowWise
	}
	if message := tierFault(t, s, shardingType); message != "" {
		return message
	}
	if s.Blocks != 0 {
		return chosenFault(p, s, shardingType)
	}
	return typeFault(p, t, s, shardingType)
}

// typeFault returns the fault of a shard's rows and columns for its sharding type.
func typeFault(p *problem.Problem, t *problem.Table, s *problem.Shard, shardingType problem.ShardingType) string {
	if shardingType.Joint() && !shardingType.ByColumns() && s.Columns != (problem.Range{Start: 0, End: int64(t.Dim)}) {
		return fmt.Sprintf("table %q: columns %d to %d of %d: %s shards have all columns", t.Name, s.Columns.Start, s.Columns.End, t.Dim, shardingType)
	}
	switch {
	case t.Pooling == problem.PoolingNone && shardingType.Span() == problem.OneHost:
		return fmt.Sprintf("table %q: %s shards: no table with pooling none is %s", t.Name, shardingType, shardingType)
	case shardingType != "" && !shardingType.Known():
		return fmt.Sprintf("table %q: sharding type %q is unknown: choose one of %s", t.Name, shardingType, join(problem.ShardingTypes()))
	case !shardingType.ByRows():
		if s.Rows == (problem.Range{Start: 0, End: t.Rows}) {
			return ""
		}
		return fmt.Sprintf("table %q: rows %d to %d of %d: %s shards have all rows", t.Name, s.Rows.Start, s.Rows.End, t.Rows, shardingType)
	case shardingType.Span() == problem.OneHost:
		return blockFault(p, s, shardingType, p.Topology.PerHost(), "devices of a host")
	default:
		return blockFault(p, s, shardingType, p.Topology.Devices, "devices")
	}
}

// chosenFault returns the fault of a block of rows on a device that the plan chose.
func chosenFault(p *problem.Problem, s *problem.Shard, shardingType problem.ShardingType) string {
	t := &p.Tables[s.Table]
	switch {
	case shardingType != problem.RowWise && shardingType != problem.Grid:
		return fmt.Sprintf("table %q: %d blocks of rows of a %s table: only the rows of row_wise and grid tables may be on chosen devices", t.Name, s.Blocks, cmp.Or(shardingType, problem.TableWise))
	case t.Pooling == problem.PoolingNone:
		return fmt.Sprintf("table %q: %d blocks of rows on chosen devices: no engine cuts the rows of a table with pooling none so", t.Name, s.Blocks)
	case s.Blocks < 0:
		return fmt.Sprintf("table %q: %d blocks of rows: give 2 or more, or 0", t.Name, s.Blocks)
	case shardingType == problem.RowWise && s.Columns != (problem.Range{Start: 0, End: int64(t.Dim)}):
		return fmt.Sprintf("table %q: columns %d to %d of %d: %s shards have all columns", t.Name, s.Columns.Start, s.Columns.End, t.Dim, shardingType)
	}
	return blockFault(p, s, shardingType, s.Blocks, "chosen devices")
}

// join lists words with commas between them.
func join[T ~string](words []T) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// tierFault returns the fault of a shard's memory.
func tierFault(t *problem.Table, s *problem.Shard, shardingType problem.ShardingType) string {
	switch s.Tier {
	case "", problem.HBM:
		return ""
	case problem.Host, problem.HostCached:
	default:
		return fmt.Sprintf("table %q: tier %q is unknown: choose one of %s", t.Name, s.Tier, join(problem.Tiers()))
	}
	if shardingType.Joint() {
		return fmt.Sprintf("table %q: %s shards in tier %s: only table_wise and column_wise shards may be in a host's memory", t.Name, shardingType, s.Tier)
	}
	if s.Tier == problem.HostCached && !(s.Cache > 0 && s.Cache < 1) {
		return fmt.Sprintf("table %q: a cache of %v of its rows: give a share above 0 and below 1, or tier host or hbm", t.Name, s.Cache)
	}
	return ""
}

// blockFault returns the fault of a shard that must be one of the blocks of rows of the
// given number of devices.
func blockFault(p *problem.Problem, s *problem.Shard, shardingType problem.ShardingType, devices int, what string) string {
	t := &p.Tables[s.Table]
	few := p.Engine.Rules().AnyDevices && s.Blocks == 0 // some of the devices may have no rows
	if !t.CutsByRows(devices) && (!few || devices < 2) {
		return fmt.Sprintf("table %q: %s: its %d rows cannot be cut into a block for each of %d %s", t.Name, shardingType, t.Rows, devices, what)
	}
	block := t.BlockRows(devices)
	if s.Rows.Start < 0 || s.Rows.Start >= t.Rows || s.Rows != blockAt(t, block, s.Rows.Start/block) {
		return fmt.Sprintf("table %q: rows %d to %d of %d are not a %s block: for %d %s, each block has %d rows, and the last one the rest", t.Name, s.Rows.Start, s.Rows.End, t.Rows, shardingType, devices, what, block)
	}
	return ""
}

// blockAt returns the rows of a table's i-th block.
func blockAt(t *problem.Table, block, i int64) problem.Range {
	return problem.Range{Start: i * block, End: min(t.Rows, (i+1)*block)}
}

// placement counts on which devices the parts of tables are that several devices hold together.
type placement struct {
	problem *problem.Problem
	// whole has the parts of tables that are row_wise and, after those of all tables, data_parallel, by
	// table; nil until there is one.
	whole []holders
	parts map[jointPart]*holders
	// all lists the holders in the order of their first shards.
	all []*holders
}

// jointPart is what several devices hold together: a slice of the columns of a table, on a host or, if
// blocks is above 0, on that number of devices of the plan's choice.
type jointPart struct {
	table, host, blocks int
	shardingType        problem.ShardingType
	columns             problem.Range
}

// holders counts the devices that hold a block or a replica of a part.
type holders struct {
	jointPart
	class problem.OperatorClass
	// count is the number of devices, and last that of the last one, plus 1.
	count, last int
}

// holdersOf returns the holders of a shard's part, where device r has the shard.
func (c *placement) holdersOf(r int, s *problem.Shard, class problem.OperatorClass) (h *holders) {
	key := jointPart{table: s.Table, host: -1, blocks: s.Blocks, shardingType: typeOf(s), columns: s.Columns}
	if s.Blocks == 0 && class != problem.ClassHostBlocks {
		if c.whole == nil {
			c.whole = make([]holders, 2*len(c.problem.Tables))
		}
		h = &c.whole[s.Table]
		if class == problem.ClassReplicas {
			h = &c.whole[len(c.problem.Tables)+s.Table]
		}
	} else {
		if s.Blocks == 0 {
			key.host = r / c.problem.Topology.PerHost()
		}
		if h = c.parts[key]; h == nil {
			h = &holders{}
			c.parts[key] = h
		}
	}
	if h.count == 0 {
		h.jointPart, h.class = key, class
		c.all = append(c.all, h)
	}
	return h
}

// hold records a shard on device r that other devices hold, too, and returns its fault. Blocks are on
// the devices of the cluster or of a host in their order, or in the order of the chosen devices.
func (c *placement) hold(r int, s *problem.Shard, class problem.OperatorClass) string {
	t, held := &c.problem.Tables[s.Table], c.holdersOf(r, s, class)
	if held.last == r+1 {
		return fmt.Sprintf("table %q: %s twice on this device: place it once", t.Name, typeOf(s))
	}
	at, devices := r, c.problem.Topology.Devices
	switch {
	case s.Blocks > 0:
		at, devices = held.count, s.Blocks
	case class == problem.ClassHostBlocks:
		devices = c.problem.Topology.PerHost()
		at = r % devices
	}
	held.last = r + 1
	held.count++
	if want := blockAt(t, t.BlockRows(devices), int64(at)); class != problem.ClassReplicas && s.Rows.Start != want.Start {
		return fmt.Sprintf("table %q: %s block of rows %d to %d on the wrong device, which has rows %d to %d", t.Name, typeOf(s), s.Rows.Start, s.Rows.End, want.Start, want.End)
	}
	return ""
}

// typeOf returns the sharding type of a shard that devices hold together. A shard
// without one is row_wise by its rows.
func typeOf(s *problem.Shard) problem.ShardingType { return cmp.Or(s.ShardingType, problem.RowWise) }

// incomplete returns the first fault of a part that is missing on a device which must hold it, or of a
// table on the wrong number of hosts.
func (c *placement) incomplete() string {
	type cut struct {
		table        int
		shardingType problem.ShardingType
	}
	type onHost struct {
		cut
		host int
	}
	taken, slices := map[onHost]bool{}, map[cut]int{}
	for _, h := range c.all {
		t, want, table := &c.problem.Tables[h.table], c.problem.Topology.Devices, cut{h.table, h.shardingType}
		switch {
		case h.blocks > 0:
			want = h.blocks
		case h.class == problem.ClassHostBlocks:
			want = t.NonEmptyBlocks(c.problem.Topology.PerHost())
			if taken[onHost{table, h.host}] && h.shardingType == problem.Grid {
				return fmt.Sprintf("table %q: grid with two slices of columns on host %d: give each a host of its own", t.Name, h.host)
			}
			taken[onHost{table, h.host}] = true
			slices[table]++
		case h.class == problem.ClassBlocks:
			want = t.NonEmptyBlocks(want)
		}
		if h.count < want {
			return fmt.Sprintf("table %q: %s on %d of %d devices: all must have a part", t.Name, h.shardingType, h.count, want)
		}
	}
	for _, h := range c.all {
		switch name, n := c.problem.Tables[h.table].Name, slices[cut{h.table, h.shardingType}]; {
		case h.class != problem.ClassHostBlocks || h.blocks > 0:
		case h.shardingType == problem.TableRowWise && n > 1:
			return fmt.Sprintf("table %q: table_row_wise on %d hosts: place it on one", name, n)
		case h.shardingType == problem.Grid && n < 2:
			return fmt.Sprintf("table %q: grid with a single slice of columns: cut it into two or more, or make it table_row_wise", name)
		}
	}
	return ""
}
