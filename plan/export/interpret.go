package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// interpret.go turns the tables of a file into tables of a plan.

// everyRank is the device of a shard that lies on all of them.
const everyRank = -1

// interpret returns the file that was read, and reports tables that are not placements.
func (p *reader) interpret() *File {
	f := &p.out
	f.Name = p.file
	p.ranks()
	called := p.names()
	notes := notes{}
	// position holds, for each shard of a table, the shard's index in the file.
	position := make([][]int, len(p.entries))
	planned := make(map[[2]string]bool, len(p.entries))
	for i := range p.entries {
		e := &p.entries[i]
		t := plan.Table{Name: called[i], Module: e.module, ShardingType: e.shardingType, Operator: e.operator}
		if !e.bad {
			position[i] = p.convert(e, &t, notes)
		}
		planned[[2]string{e.module, e.table}] = true
		f.Tables, f.local = append(f.Tables, t), append(f.local, e.table)
	}
	for _, k := range p.shaped {
		if !planned[k] {
			p.addAt(0, fmt.Sprintf("shapes[%s][%s]", quote(k[0]), quote(k[1])), "", "the plan has no such table")
		}
	}
	p.validate(position)
	f.Notes = notes.list()
	read := *f // a copy, so that the reader and the file's text can be freed
	return &read
}

// ranks determines the number of ranks, and the number of ranks of a host.
func (p *reader) ranks() {
	f := &p.out
	stated := f.World > 0
	for i := range p.entries {
		if e := &p.entries[i]; !e.bad {
			p.ranksOf(e, stated)
		}
	}
	if f.Local == 0 {
		f.Local = p.perHost()
	}
	if f.World > 0 && f.Local > f.World {
		p.addAt(0, "local_size", "", "%d ranks of a host are more than the %d there are", f.Local, f.World)
	}
	if c := f.Cluster; c != nil {
		if f.World > 0 && c.Devices != f.World {
			p.addAt(0, "cluster.devices", "", "%d is not the world_size of %d", c.Devices, f.World)
		}
		if f.Local > 0 && c.DevicesPerHost != f.Local {
			p.addAt(0, "cluster.devices_per_host", "", "%d is not the local_size of %d", c.DevicesPerHost, f.Local)
		}
	}
}

// ranksOf compares the number of ranks with a table that lies on all of them.
// stated says whether the file states the number.
func (p *reader) ranksOf(e *entry, stated bool) {
	f, n := &p.out, len(e.shards)
	if e.shardingType == plan.DataParallel {
		n = len(e.ranks)
		for k, rank := range slices.Sorted(slices.Values(e.ranks)) {
			if rank != k {
				p.addAt(e.line, e.place()+".ranks", "", "it lies on %d ranks, and they are not 0 to %d, once each: a data_parallel table lies on all of them", n, n-1)
				break
			}
		}
	}
	switch {
	case n == 0 || e.shardingType != plan.DataParallel && e.shardingType != plan.RowWise:
	case f.World == 0:
		f.World = n
	case f.World != n && e.shardingType == plan.DataParallel:
		p.addAt(e.line, e.place(), "", "it lies on %d ranks of %d: a data_parallel table lies on all of them", n, f.World)
	case f.World != n && !stated:
		p.addAt(e.line, e.place(), "", "it has %d shards, where another table shows that there are %d ranks: a row_wise table has one for each", n, f.World)
	}
}

// perHost derives the number of ranks of a host; 0 if nothing shows it. A
// table_row_wise table has a shard for each rank of a host, and so has a slice of a
// grid; and device numbers begin again at 0 on each host.
func (p *reader) perHost() int {
	apart, highest := 0, 0
	for i := range p.entries {
		e := &p.entries[i]
		if e.bad {
			continue
		}
		if e.shardingType == plan.TableRowWise && len(e.shards) > 0 {
			return len(e.shards)
		}
		if n := e.blocks(); e.shardingType == plan.Grid && n > 0 {
			return n
		}
		for _, s := range e.shards {
			if s.rank >= 0 && s.device >= 0 {
				apart, highest = divisor(apart, s.rank-s.device), max(highest, s.device)
			}
		}
	}
	if apart > highest {
		p.out.numbered = highest + 1
		return apart
	}
	return 0
}

// blocks returns the number of shards of a table's first columns.
func (e *entry) blocks() int {
	n := 0
	for n < len(e.shards) && e.shards[n].offsets[1] == e.shards[0].offsets[1] {
		n++
	}
	return n
}

// divisor returns the greatest common divisor.
func divisor(a, b int) int {
	if b < 0 {
		b = -b
	}
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// names returns the names of the tables over all modules: the name in the module if no
// other table has it, otherwise the module's path, a slash and that name.
func (p *reader) names() []string {
	called := make([]string, len(p.entries))
	count := map[string]int{}
	for i := range p.entries {
		count[p.entries[i].table]++
	}
	plain := func(e *entry) bool {
		return count[e.table] == 1 && problem.LocalName(e.module, e.table) == e.table
	}
	long := map[string]bool{}
	for i := range p.entries {
		if e := &p.entries[i]; e.module != "" && !plain(e) {
			called[i] = e.module + "/" + e.table
			long[called[i]] = true
		}
	}
	seen := map[string]bool{}
	for i := range p.entries {
		e := &p.entries[i]
		if called[i] == "" {
			called[i] = e.table
			if long[e.table] && e.module != "" {
				called[i] = e.module + "/" + e.table
			}
		}
		if seen[called[i]] {
			p.addAt(e.line, e.place(), "rename a module or a table", "two tables of the model would both be called %s", quote(called[i]))
		}
		seen[called[i]] = true
	}
	return called
}

// convert fills t from e, and returns for each shard of t its position in e.
func (p *reader) convert(e *entry, t *plan.Table, notes notes) (position []int) {
	before := p.count
	defer func() {
		if p.count > before {
			e.bad = true
		}
	}()
	shape, stated := p.shapes[[2]string{e.module, e.table}]
	t.Rows, t.Dim = shape[0], int(shape[1])
	if e.shardingType == plan.DataParallel {
		p.replicated(e, t, stated)
		return []int{0}
	}
	if !p.hasShards(e, notes) {
		return nil
	}
	cache := e.share(notes)
	for k, s := range e.shards {
		if !stated {
			t.Rows = max(t.Rows, s.offsets[0]+s.sizes[0])
			t.Dim = int(max(int64(t.Dim), s.offsets[1]+s.sizes[1]))
		}
		rank, ok := p.rankOf(e, k)
		if !ok || !p.holds(e, k) {
			continue
		}
		t.Shards = append(t.Shards, plan.Shard{
			Rows:    problem.Range{Start: s.offsets[0], End: s.offsets[0] + s.sizes[0]},
			Columns: problem.Range{Start: s.offsets[1], End: s.offsets[1] + s.sizes[1]},
			Device:  rank, Tier: e.tier, Cache: cache,
		})
		position = append(position, k)
	}
	if t.Rows > problem.MaxRows || t.Dim > problem.MaxDim {
		p.addAt(e.line, e.place(), "", "its shards end at row %d and column %d: a table has up to %d rows and %d columns", t.Rows, t.Dim, int64(problem.MaxRows), problem.MaxDim)
	}
	if t.ShardingType != plan.TableWise && len(t.Shards) == 1 {
		notes.add(e, "what is split but lies whole on one rank is taken for table_wise")
		t.ShardingType = plan.TableWise
	}
	return position
}

// hasShards reports a table without shards, or with another number of ranks than shards,
// and notes names that were read as other names.
func (p *reader) hasShards(e *entry, notes notes) bool {
	if e.kernel == denseKernel || e.kernel == fusedTriton {
		notes.add(e, fmt.Sprintf("compute kernel %s is taken for fused", e.kernel))
	}
	if e.typeName == tableColumnWise {
		notes.add(e, "sharding type table_column_wise is taken for column_wise")
	}
	if len(e.shards) == 0 {
		p.addAt(e.line, e.place(), "", "it has no shards: a %s table has", e.typeName)
		return false
	}
	if e.hasRanks && len(e.ranks) != len(e.shards) {
		p.addAt(e.line, e.place(), "", "it has %d ranks for %d shards", len(e.ranks), len(e.shards))
		return false
	}
	return true
}

// rankOf returns the rank of shard k, and reports statements that disagree about it. It
// returns false if nothing states the rank.
func (p *reader) rankOf(e *entry, k int) (int, bool) {
	s, at := e.shards[k], fmt.Sprintf("%s.shards[%d]", e.place(), k)
	rank := s.rank
	switch {
	case rank < 0 && !e.hasRanks:
		p.addAt(e.line, at, "", "nothing says on which rank it lies: it has no placement, and the table no ranks")
		return 0, false
	case rank < 0:
		rank = e.ranks[k]
	case e.hasRanks && rank != e.ranks[k]:
		p.addAt(e.line, at+".placement", "", "it lies on rank %d, but ranks[%d] is %d", rank, k, e.ranks[k])
	}
	if e.shardingType == plan.RowWise && rank != k {
		p.addAt(e.line, at, "", "it lies on rank %d: shard %d of a row_wise table lies on rank %d", rank, k, k)
	}
	if local := p.out.Local; local > 0 && s.device >= 0 && s.rank%local != s.device {
		p.addAt(e.line, at+".placement", "", "rank %d is on device %d, but of hosts of %d ranks it is number %d", s.rank, s.device, local, s.rank%local)
	}
	return rank, true
}

// holds reports whether shard k is not empty. If a table is split by rows, the last ranks
// may have no rows; any other empty shard is a fault.
func (p *reader) holds(e *entry, k int) bool {
	s := e.shards[k]
	if s.sizes[0] == 0 && e.shardingType.ByRows() && s.sizes[1] > 0 {
		return false
	}
	if s.sizes[0] == 0 || s.sizes[1] == 0 {
		p.addAt(e.line, fmt.Sprintf("%s.shards[%d].shard_sizes", e.place(), k), "", "it holds nothing")
		return false
	}
	return true
}

// The load factor that FBGEMM's kernels use if none is stated, and the one that stands
// for a cache of all rows, which a plan cannot state.
const (
	defaultLoadFactor = 0.2
	fullLoadFactor    = 0.999999
)

// share returns the cache share of a table; 0 if no rows are cached.
func (e *entry) share(notes notes) float64 {
	switch {
	case e.tier != plan.HostCached:
		return 0
	case e.cache == 0:
		notes.add(e, fmt.Sprintf("no load factor of the cache is stated: %v is taken, as FBGEMM's kernels do", defaultLoadFactor))
		return defaultLoadFactor
	case e.cache >= 1:
		notes.add(e, fmt.Sprintf("a cache of all rows is taken for one of %v of them", fullLoadFactor))
		return fullLoadFactor
	}
	return e.cache
}

// replicated fills in a data-parallel table. It may have no shape.
func (p *reader) replicated(e *entry, t *plan.Table, stated bool) {
	if e.kernel != denseKernel {
		p.addAt(e.line, e.place()+".compute_kernel", "", "%s is no kernel for a data_parallel table, which has %s", quote(e.kernel), denseKernel)
	}
	for k, s := range e.shards {
		if !stated && k == 0 {
			t.Rows, t.Dim = s.sizes[0], int(s.sizes[1])
		}
		if s.offsets != [2]int64{} || s.sizes != [2]int64{t.Rows, int64(t.Dim)} {
			p.addAt(e.line, fmt.Sprintf("%s.shards[%d]", e.place(), k), "", "a shard of a data_parallel table is all of it")
			return
		}
	}
	t.Shards = []plan.Shard{{Rows: problem.Range{End: t.Rows}, Columns: problem.Range{End: int64(t.Dim)}, Device: everyRank, Tier: plan.HBM}}
}

// validate reports the tables that are not placements.
func (p *reader) validate(position [][]int) {
	checked := &plan.Plan{Cluster: plan.Cluster{Devices: p.out.World, DevicesPerHost: p.out.Local}}
	if p.out.World == 0 {
		checked.Cluster.Devices = hardware.MaxDevices
	}
	at := map[string]int{}
	for i, t := range p.out.Tables {
		unknown := t.ShardingType == plan.DataParallel && (t.Rows == 0 || t.Dim == 0)
		if p.entries[i].bad || unknown {
			continue
		}
		at[t.Name] = i
		checked.Tables = append(checked.Tables, t)
	}
	for _, v := range checked.CheckTables() {
		e := &p.entries[at[v.Table]]
		place := e.place()
		if v.Shard >= 0 {
			place = fmt.Sprintf("%s.shards[%d]", place, position[at[v.Table]][v.Shard])
		}
		hint := ""
		if v.Rule == plan.RuleDevice {
			hint = "devices are ranks, numbered from 0"
		}
		p.addAt(e.line, place, hint, "%s", v.Message)
	}
}

// notes holds, by the text of each note, the tables that the note is about.
type notes map[string][]string

func (n notes) add(e *entry, what string) { n[what] = append(n[what], e.table) }

func (n notes) list() []string {
	var all []string
	for what, of := range n {
		count := fmt.Sprintf("%d tables", len(of))
		if len(of) == 1 {
			count = "1 table"
		}
		all = append(all, fmt.Sprintf("%s (%s: %s)", what, count, strings.ReplaceAll(names(of), "\n", " ")))
	}
	slices.Sort(all)
	return all
}
