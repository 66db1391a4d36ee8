package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// check.go refuses placements whose cost cannot be estimated: a shard is not part of the
// problem, or a table is missing on a device that must hold a part of it.

// InvalidPlacement is the error of a placement whose cost cannot be estimated. Each of
// Faults is a line that names the device and the table.
type InvalidPlacement struct{ Faults []string }

// maxFaultLines is the number of faults that Error prints.
const maxFaultLines = 50

// Error returns the first faults, one on each line, and the number of the others.
func (e *InvalidPlacement) Error() string {
	return "the cost of the placement cannot be estimated:\n" + words.Lines(e.Faults, maxFaultLines)
}

// checkPlacement returns an *InvalidPlacement with all faults of a placement's shards.
// It does not check whether every table is placed, or fits.
func checkPlacement(p *problem.Problem, shards [][]problem.Shard) error {
	c := placement{problem: p, shards: shards}
	if n := p.Topology.Devices; len(shards) != n {
		c.add("the placement has %d devices, the cluster %d", len(shards), n)
	}
	whole := len(c.found) == 0
	for r := range shards {
		for i := range shards[r] {
			s := &shards[r][i]
			if message := fault(p, s); message != "" {
				c.onDevice(r, message)
				whole = false
			} else if s.Blocks > 0 {
				c.chosen(r, s)
			} else if class := classOf(p, s); class.Joint() {
				c.holds(r, s, class)
			}
		}
	}
	c.nameDevices()
	if whole {
		c.complete()
	}
	if len(c.found) > 0 {
		return &InvalidPlacement{Faults: c.found}
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

// placement collects the faults of a placement. It counts on which devices a table is
// that several devices hold together, because its sharding type needs certain devices.
type placement struct {
	problem *problem.Problem
	shards  [][]problem.Shard
	found   []string
	// faulty lists the faults of single devices, and seen their places in faulty.
	faulty []deviceFault
	seen   map[string]int
	// rowWise and replicated are indexed by table, and nil until a table is of that
	// sharding type.
	rowWise, replicated []holders
	byHost              map[hostSlice]*holders
	// byChoice holds the slices whose blocks are on chosen devices.
	byChoice map[chosenSlice]*holders
}

// chosenSlice is a slice of columns whose rows are cut over devices of the plan's choice.
type chosenSlice struct {
	table, blocks int
	first         int64 // column
}

// compareChosen orders by table, first column and blocks.
func compareChosen(a, b chosenSlice) int {
	return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.first, b.first), cmp.Compare(a.blocks, b.blocks))
}

// deviceFault is a fault, the first device that has it, and the number of other devices
// that have it.
type deviceFault struct {
	message     string
	first, more int
}

// holders counts the devices that hold a part of a table. last is the number of the last
// such device, plus 1.
type holders struct{ count, last int }

// hostSlice is a slice of columns whose rows are cut over the devices of a host.
type hostSlice struct {
	table        int
	shardingType problem.ShardingType
	columns      problem.Range
	host         int
}

// compareSlices orders by table, sharding type, columns and host.
func compareSlices(a, b hostSlice) int {
	return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.shardingType, b.shardingType), cmp.Compare(a.columns.Start, b.columns.Start),
		cmp.Compare(a.columns.End, b.columns.End), cmp.Compare(a.host, b.host))
}

func (c *placement) add(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// onDevice records a fault of a device, once for all devices with the same fault.
func (c *placement) onDevice(r int, message string) {
	if at, ok := c.seen[message]; ok {
		c.faulty[at].more++
		return
	}
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[message] = len(c.faulty)
	c.faulty = append(c.faulty, deviceFault{message: message, first: r})
}

// nameDevices adds the faults of single devices to those found.
func (c *placement) nameDevices() {
	for _, f := range c.faulty {
		if f.more > 0 {
			c.add("device %d and %d more: %s", f.first, f.more, f.message)
		} else {
			c.add("device %d: %s", f.first, f.message)
		}
	}
}

func (c *placement) table(i int) *problem.Table { return &c.problem.Tables[i] }

// holdersOf returns the count for a shard on device r of a class that devices hold
// together.
func (c *placement) holdersOf(r int, s *problem.Shard, class problem.OperatorClass) *holders {
	ofTables := func(list *[]holders) *holders {
		if *list == nil {
			*list = make([]holders, len(c.problem.Tables))
		}
		return &(*list)[s.Table]
	}
	switch class {
	case problem.ClassBlocks:
		return ofTables(&c.rowWise)
	case problem.ClassReplicas:
		return ofTables(&c.replicated)
	}
	key := hostSlice{s.Table, s.ShardingType, s.Columns, r / c.problem.Topology.PerHost()}
	if c.byHost[key] == nil {
		if c.byHost == nil {
			c.byHost = map[hostSlice]*holders{}
		}
		c.byHost[key] = &holders{}
	}
	return c.byHost[key]
}

// holds records a shard on device r of a class that devices hold together.
func (c *placement) holds(r int, s *problem.Shard, class problem.OperatorClass) {
	t, held := c.table(s.Table), c.holdersOf(r, s, class)
	if held.last == r+1 {
		c.onDevice(r, fmt.Sprintf("table %q: %s twice on this device: place it once", t.Name, typeOf(s)))
		return
	}
	held.last = r + 1
	held.count++
	if class == problem.ClassReplicas {
		return
	}
	at, devices, who := r, c.problem.Topology.Devices, "device"
	if class == problem.ClassHostBlocks {
		devices, who = c.problem.Topology.PerHost(), "in its host, device"
		at = r % devices
	}
	if block := t.BlockRows(devices); s.Rows.Start != int64(at)*block {
		want := blockAt(t, block, int64(at))
		c.onDevice(r, fmt.Sprintf("table %q: %s block of rows %d to %d on the wrong device: %s %d has rows %d to %d", t.Name, typeOf(s), s.Rows.Start, s.Rows.End, who, at, want.Start, want.End))
	}
}

// chosen records a block of rows on a device r that the plan chose. The blocks of a slice are on
// different devices, in the order of the devices.
func (c *placement) chosen(r int, s *problem.Shard) {
	key := chosenSlice{s.Table, s.Blocks, s.Columns.Start}
	if c.byChoice[key] == nil {
		if c.byChoice == nil {
			c.byChoice = map[chosenSlice]*holders{}
		}
		c.byChoice[key] = &holders{}
	}
	t, held := c.table(s.Table), c.byChoice[key]
	switch at := int(s.Rows.Start / t.BlockRows(s.Blocks)); {
	case held.last == r+1:
		c.onDevice(r, fmt.Sprintf("table %q: two blocks of rows of the same columns on this device: give each block a device of its own", t.Name))
	case at != held.count:
		c.onDevice(r, fmt.Sprintf("table %q: block of rows %d to %d out of order: the %d blocks are on chosen devices in their order, each once", t.Name, s.Rows.Start, s.Rows.End, s.Blocks))
	}
	held.last = r + 1
	held.count++
}

// typeOf returns the sharding type of a shard that devices hold together. A shard
// without one is row_wise by its rows.
func typeOf(s *problem.Shard) problem.ShardingType {
	if s.ShardingType == "" {
		return problem.RowWise
	}
	return s.ShardingType
}

// complete finds tables that are missing on devices which must hold them together.
func (c *placement) complete() {
	devices := c.problem.Topology.Devices
	for _, together := range []struct {
		held         []holders
		shardingType problem.ShardingType
	}{{c.rowWise, problem.RowWise}, {c.replicated, problem.DataParallel}} {
		for i, h := range together.held {
			want := devices
			if together.shardingType == problem.RowWise {
				want = c.table(i).NonEmptyBlocks(devices)
			}
			if h.count > 0 && h.count < want {
				c.add("table %q: %s on %d of %d devices: all must have a part, and %s", c.table(i).Name, together.shardingType, h.count, devices, c.without(i))
			}
		}
	}
	c.hosts()
	for _, s := range slices.SortedFunc(maps.Keys(c.byChoice), compareChosen) {
		if held := c.byChoice[s].count; held < s.blocks {
			c.add("table %q: %d of the %d blocks of rows from column %d on: place all of them", c.table(s.table).Name, held, s.blocks, s.first)
		}
	}
}

// without names the devices that hold no part of a table.
func (c *placement) without(table int) string {
	const most = 3
	var names []string
	more := 0
	for r := range c.shards {
		if slices.ContainsFunc(c.shards[r], func(s problem.Shard) bool { return s.Table == table }) {
			continue
		}
		if len(names) < most {
			names = append(names, fmt.Sprint(r))
		} else {
			more++
		}
	}
	switch {
	case len(names) == 0:
		return "some hold it in another sharding type"
	case more > 0:
		return fmt.Sprintf("devices %s and %d more have none of it", strings.Join(names, ", "), more)
	case len(names) > 1:
		return fmt.Sprintf("devices %s have none of it", strings.Join(names, ", "))
	}
	return "device " + names[0] + " has none of it"
}

// hosts checks the tables that are cut by rows over the devices of hosts.
func (c *placement) hosts() {
	keys := slices.SortedFunc(maps.Keys(c.byHost), compareSlices)
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n].table == keys[0].table && keys[n].shardingType == keys[0].shardingType {
			n++
		}
		c.tableOnHosts(keys[:n])
		keys = keys[n:]
	}
}

// tableOnHosts checks one table with the given slices, of one sharding type.
func (c *placement) tableOnHosts(held []hostSlice) {
	name, shardingType, perHost := c.table(held[0].table).Name, held[0].shardingType, c.problem.Topology.PerHost()
	taken := map[int]bool{}
	for _, s := range held {
		if count := c.byHost[s].count; count < c.table(s.table).NonEmptyBlocks(perHost) {
			c.add("table %q: %s on %d devices of host %d: all %d of the host must have a part", name, shardingType, count, s.host, perHost)
		}
		if taken[s.host] && shardingType == problem.Grid {
			c.add("table %q: grid with two slices of columns on host %d: give each a host of its own", name, s.host)
		}
		taken[s.host] = true
	}
	switch {
	case shardingType == problem.TableRowWise && len(held) > 1:
		c.add("table %q: table_row_wise on %d hosts: place it on one", name, len(held))
	case shardingType == problem.Grid && len(held) < 2:
		c.add("table %q: grid with a single slice of columns: cut it into two or more, or make it table_row_wise", name)
	}
}
