package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// check.go refuses what has no price: shards that are no part of the problem, and
// tables of which not all devices that should hold a part do.

// InvalidPlacement is the error of a placement that cannot be priced: all that is
// wrong with it, each line naming device and table.
type InvalidPlacement struct{ Faults []string }

// Error joins the faults, one a line; of very many the first ones.
func (e *InvalidPlacement) Error() string {
	return "the placement cannot be priced:\n" + joinFaults(e.Faults)
}

// check returns an *InvalidPlacement with all that is wrong with a placement's shards.
// It does not ask whether every table is placed, or fits.
func (p *Pricer) check(shards [][]problem.Shard) error {
	c := placement{pricer: p, shards: shards}
	if n := p.problem.Topology.Devices; len(shards) != n {
		c.add("the placement has %d devices, the cluster %d", len(shards), n)
	}
	whole := len(c.found) == 0
	for r := range shards {
		for i := range shards[r] {
			s := &shards[r][i]
			if message := p.fault(s); message != "" {
				c.onDevice(r, message)
				whole = false
			} else if l := p.lotOf(s); l.spread() {
				c.holds(r, s, l)
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

// fault says why a shard by itself has no price, or nothing.
func (p *Pricer) fault(s *problem.Shard) string {
	if s.Table < 0 || s.Table >= len(p.problem.Tables) {
		return fmt.Sprintf("table #%d does not exist: the problem has %d", s.Table, len(p.problem.Tables))
	}
	t := &p.problem.Tables[s.Table]
	if s.Columns.Start < 0 || s.Columns.Start >= s.Columns.End || s.Columns.End > int64(t.Dim) {
		return fmt.Sprintf("table %q: columns %d to %d are not a slice of its %d", t.Name, s.Columns.Start, s.Columns.End, t.Dim)
	}
	allRows := s.Rows == problem.Range{Start: 0, End: t.Rows}
	if s.Kind == "" && s.Tier == "" && allRows {
		return "" // nearly all
	}
	kind := s.Kind
	if kind == "" && !allRows {
		kind = problem.RowWise
	}
	if message := p.tierFault(t, s, kind); message != "" {
		return message
	}
	allColumns := s.Columns == problem.Range{Start: 0, End: int64(t.Dim)}
	if !allColumns && (kind == problem.RowWise || kind == problem.TableRowWise || kind == problem.DataParallel) {
		return fmt.Sprintf("table %q: columns %d to %d of %d: %s shards have all columns", t.Name, s.Columns.Start, s.Columns.End, t.Dim, kind)
	}
	switch kind {
	case "", problem.TableWise, problem.ColumnWise, problem.DataParallel:
		if allRows {
			return ""
		}
		return fmt.Sprintf("table %q: rows %d to %d of %d: %s shards have all rows", t.Name, s.Rows.Start, s.Rows.End, t.Rows, kind)
	case problem.RowWise:
		return blockFault(t, s, kind, p.problem.Topology.Devices, "devices")
	case problem.TableRowWise, problem.Grid:
		return blockFault(t, s, kind, p.problem.Topology.PerHost(), "devices of a host")
	}
	return fmt.Sprintf("table %q: kind %q is unknown: choose one of %s", t.Name, kind, join(problem.Kinds()))
}

// join lists words with commas between.
func join[T ~string](words []T) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// tierFault says what is wrong with a shard's memory.
func (p *Pricer) tierFault(t *problem.Table, s *problem.Shard, kind problem.Kind) string {
	switch s.Tier {
	case "", problem.HBM:
		return ""
	case problem.Host, problem.HostCached:
	default:
		return fmt.Sprintf("table %q: tier %q is unknown: choose one of %s", t.Name, s.Tier, join(problem.Tiers()))
	}
	if kind.Spread() {
		return fmt.Sprintf("table %q: %s shards in tier %s: only table_wise and column_wise ones may lie in a host's memory", t.Name, kind, s.Tier)
	}
	if s.Tier == problem.HostCached && !(s.Cache > 0 && s.Cache < 1) {
		return fmt.Sprintf("table %q: a cache of %v of its rows: give a share above 0 and below 1, or tier host or hbm", t.Name, s.Cache)
	}
	return ""
}

// blockFault says why a shard is none of the blocks of rows that so many devices hold.
func blockFault(t *problem.Table, s *problem.Shard, kind problem.Kind, devices int, what string) string {
	if !t.CutsByRows(devices) {
		return fmt.Sprintf("table %q: %s: its %d rows cannot be cut into a block for each of %d %s", t.Name, kind, t.Rows, devices, what)
	}
	block := t.BlockRows(devices)
	if s.Rows.Start < 0 || s.Rows.Start >= t.Rows || s.Rows != blockAt(t, block, s.Rows.Start/block) {
		return fmt.Sprintf("table %q: rows %d to %d of %d are no %s block: for %d %s each has %d rows, and the last the rest", t.Name, s.Rows.Start, s.Rows.End, t.Rows, kind, devices, what, block)
	}
	return ""
}

// blockAt returns the rows of a table's i-th block.
func blockAt(t *problem.Table, block, i int64) problem.Range {
	return problem.Range{Start: i * block, End: min(t.Rows, (i+1)*block)}
}

// placement checks that the devices which hold a table together are those of its kind.
type placement struct {
	pricer *Pricer
	shards [][]problem.Shard
	found  []string
	// faulty are the faults of single devices, and where.
	faulty []deviceFault
	seen   map[string]int // their places in faulty
	// By table; nil until one is of the kind.
	rowWise, replicated []holders
	byHost              map[hostSlice]*holders
}

// deviceFault is a fault, the first device that has it, and how many more do.
type deviceFault struct {
	message     string
	first, more int
}

// holders counts devices with their part of something; last is the last of them, plus
// 1.
type holders struct{ count, last int }

// hostSlice is a slice of columns whose rows are cut over the devices of a host.
type hostSlice struct {
	table   int
	kind    problem.Kind
	columns problem.Range
	host    int
}

func (c *placement) add(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// onDevice records a fault of a device, once for all that have the same.
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

// nameDevices writes down the faults of devices.
func (c *placement) nameDevices() {
	for _, f := range c.faulty {
		c.add("device %d%s: %s", f.first, words.More(" ", f.more), f.message)
	}
}

func (c *placement) table(i int) *problem.Table { return &c.pricer.problem.Tables[i] }

// holds records a shard of a spread lot on device r.
func (c *placement) holds(r int, s *problem.Shard, l lot) {
	t, topology := c.table(s.Table), &c.pricer.problem.Topology
	var of *holders
	at, devices, who := r, topology.Devices, "device"
	switch l {
	case lotRowWise:
		if c.rowWise == nil {
			c.rowWise = make([]holders, len(c.pricer.problem.Tables))
		}
		of = &c.rowWise[s.Table]
	case lotReplicated:
		if c.replicated == nil {
			c.replicated = make([]holders, len(c.pricer.problem.Tables))
		}
		of = &c.replicated[s.Table]
	default:
		devices, who = topology.PerHost(), "device of its host"
		key := hostSlice{s.Table, s.Kind, s.Columns, r / devices}
		at = r % devices
		if of = c.byHost[key]; of == nil {
			if c.byHost == nil {
				c.byHost = map[hostSlice]*holders{}
			}
			of = &holders{}
			c.byHost[key] = of
		}
	}
	if of.last == r+1 {
		c.onDevice(r, fmt.Sprintf("table %q: %s, and here twice", t.Name, kindOf(s)))
		return
	}
	of.last = r + 1
	of.count++
	if l == lotReplicated {
		return
	}
	if block := t.BlockRows(devices); s.Rows.Start != int64(at)*block {
		want := blockAt(t, block, int64(at))
		c.onDevice(r, fmt.Sprintf("table %q: %s block of rows %d to %d: as %s %d it has rows %d to %d", t.Name, kindOf(s), s.Rows.Start, s.Rows.End, who, at, want.Start, want.End))
	}
}

// kindOf returns a spread shard's kind, which may be said by its shape alone.
func kindOf(s *problem.Shard) problem.Kind {
	if s.Kind == "" {
		return problem.RowWise
	}
	return s.Kind
}

// complete finds spread tables with devices missing.
func (c *placement) complete() {
	devices := c.pricer.problem.Topology.Devices
	for _, kind := range []struct {
		held []holders
		kind problem.Kind
	}{{c.rowWise, problem.RowWise}, {c.replicated, problem.DataParallel}} {
		for i, h := range kind.held {
			if h.count > 0 && h.count < devices {
				c.add("table %q: %s on %d of %d devices: all have a part, and %s none", c.table(i).Name, kind.kind, h.count, devices, c.without(i))
			}
		}
	}
	c.hosts()
}

// without names devices that hold nothing of a table.
func (c *placement) without(table int) string {
	const most = 3
	var names []string
	for r := range c.shards {
		if !slices.ContainsFunc(c.shards[r], func(s problem.Shard) bool { return s.Table == table }) {
			names = append(names, fmt.Sprint(r))
		}
	}
	switch {
	case len(names) == 0:
		return "some of that kind"
	case len(names) > most:
		return "devices " + words.List(names, most)
	}
	return "device " + words.List(names, most)
}

// hosts finds tables cut by rows of hosts that are not as their kind says.
func (c *placement) hosts() {
	topology := &c.pricer.problem.Topology
	perHost := topology.PerHost()
	keys := make([]hostSlice, 0, len(c.byHost))
	for key := range c.byHost {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b hostSlice) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.kind, b.kind), cmp.Compare(a.columns.Start, b.columns.Start),
			cmp.Compare(a.columns.End, b.columns.End), cmp.Compare(a.host, b.host))
	})
	for from := 0; from < len(keys); {
		first, to := keys[from], from
		taken := map[int]bool{}
		for ; to < len(keys) && keys[to].table == first.table && keys[to].kind == first.kind; to++ {
			key, name := keys[to], c.table(first.table).Name
			if count := c.byHost[key].count; count < perHost {
				c.add("table %q: %s on %d devices of host %d: all of a host of %d have a part", name, key.kind, count, key.host, perHost)
			}
			if taken[key.host] && key.kind == problem.Grid {
				c.add("table %q: grid with two slices of columns on host %d: give each a host of its own", name, key.host)
			}
			taken[key.host] = true
		}
		switch count := to - from; {
		case first.kind == problem.TableRowWise && count > 1:
			c.add("table %q: table_row_wise on %d hosts: give it one", c.table(first.table).Name, count)
		case first.kind == problem.Grid && count < 2:
			c.add("table %q: grid with a single slice of columns: cut it into two or more, or make it table_row_wise", c.table(first.table).Name)
		}
		from = to
	}
}
