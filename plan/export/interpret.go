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

// interpret sets the tables, the ranks and the notes of the file, and fails if the tables are no
// placements.
func (f *File) interpret(entries []entry, shapes map[string]map[string][2]int64) error {
	if err := f.ranks(entries); err != nil {
		return err
	}
	called, err := f.names(entries)
	if err != nil {
		return err
	}
	notes, shaped := notes{}, 0
	for i := range entries {
		e := &entries[i]
		t := plan.Table{Name: called[i], Module: e.module, ShardingType: e.shardingType, Operator: e.Operator, IndexDedup: e.Dedup}
		shape, stated := shapes[e.module][e.table]
		if stated {
			shaped++
			t.Rows, t.Dim = shape[0], int(shape[1])
		}
		if err := f.convert(e, &t, stated, notes); err != nil {
			return err
		}
		f.Tables, f.local = append(f.Tables, t), append(f.local, e.table)
	}
	for _, tables := range shapes {
		shaped -= len(tables)
	}
	if shaped < 0 {
		return f.fault("export the plan again", "shapes: the plan has not all of these tables")
	}
	f.Notes = notes.list()
	return f.validate(entries)
}

// at returns an error about a table or a part of it.
func (f *File) at(e *entry, part, hint, format string, args ...any) error {
	return f.fault(hint, "%s%s: %s", e.place(), part, fmt.Sprintf(format, args...))
}

// ranks determines the number of ranks, and the number of ranks of a host.
func (f *File) ranks(entries []entry) error {
	stated := f.World > 0
	for i := range entries {
		if err := f.ranksOf(&entries[i], stated); err != nil {
			return err
		}
	}
	if f.Local == 0 {
		f.Local = f.perHost(entries)
	}
	switch c := f.Cluster; {
	case f.World > 0 && f.Local > f.World:
		return f.fault("", "local_size: %d ranks of a host are more than the %d there are", f.Local, f.World)
	case c != nil && f.World > 0 && c.Devices != f.World:
		return f.fault("", "cluster.devices: %d is not the world_size of %d", c.Devices, f.World)
	case c != nil && f.Local > 0 && c.DevicesPerHost != f.Local:
		return f.fault("", "cluster.devices_per_host: %d is not the local_size of %d", c.DevicesPerHost, f.Local)
	}
	return nil
}

// ranksOf compares the number of ranks with a table that lies on all of them.
// stated says whether the file states the number.
func (f *File) ranksOf(e *entry, stated bool) error {
	n := len(e.Shards)
	if e.shardingType == plan.DataParallel {
		n = len(e.Ranks)
		for k, rank := range slices.Sorted(slices.Values(e.Ranks)) {
			if rank != k {
				return f.at(e, ".ranks", "", "it lies on %d ranks, and they are not 0 to %d, once each: a data_parallel table lies on all of them", n, n-1)
			}
		}
	}
	switch {
	case n == 0 || e.shardingType != plan.DataParallel && e.shardingType != plan.RowWise:
	case f.World == 0:
		f.World = n
	case f.World != n && e.shardingType == plan.DataParallel:
		return f.at(e, "", "", "it lies on %d ranks of %d: a data_parallel table lies on all of them", n, f.World)
	case f.World != n && !stated:
		return f.at(e, "", "", "it has %d shards, where another table shows that there are %d ranks: a row_wise table has one for each", n, f.World)
	}
	return nil
}

// perHost derives the number of ranks of a host; 0 if nothing shows it. A
// table_row_wise table has a shard for each rank of a host, and so has a slice of a
// grid; and device numbers begin again at 0 on each host.
func (f *File) perHost(entries []entry) int {
	apart, highest := 0, 0
	for i := range entries {
		e := &entries[i]
		if e.shardingType == plan.TableRowWise && len(e.Shards) > 0 {
			return len(e.Shards)
		}
		if n := e.blocks(); e.shardingType == plan.Grid && n > 0 {
			return n
		}
		for _, s := range e.Shards {
			if s.rank >= 0 && s.device >= 0 {
				apart, highest = divisor(apart, s.rank-s.device), max(highest, s.device)
			}
		}
	}
	if apart > highest {
		f.numbered = highest + 1
		return apart
	}
	return 0
}

// blocks returns the number of shards of a table's first columns.
func (e *entry) blocks() int {
	n := 0
	for n < len(e.Shards) && e.Shards[n].offsets[1] == e.Shards[0].offsets[1] {
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
func (f *File) names(entries []entry) ([]string, error) {
	called := make([]string, len(entries))
	count := map[string]int{}
	for i := range entries {
		count[entries[i].table]++
	}
	long := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		if e.module != "" && (count[e.table] > 1 || problem.LocalName(e.module, e.table) != e.table) {
			called[i] = e.module + "/" + e.table
			long[called[i]] = true
		}
	}
	seen := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		if called[i] == "" {
			called[i] = e.table
			if long[e.table] && e.module != "" {
				called[i] = e.module + "/" + e.table
			}
		}
		if seen[called[i]] {
			return nil, f.at(e, "", "rename a module or a table", "two tables of the model would both be called %s", quote(called[i]))
		}
		seen[called[i]] = true
	}
	return called, nil
}

// convert fills t from e. stated says whether t has its rows and columns already.
func (f *File) convert(e *entry, t *plan.Table, stated bool, notes notes) error {
	if e.shardingType == plan.DataParallel {
		return f.replicated(e, t, stated)
	}
	if err := f.hasShards(e, notes); err != nil {
		return err
	}
	cache := e.share(notes)
	for k, s := range e.Shards {
		if !stated {
			t.Rows = max(t.Rows, s.offsets[0]+s.sizes[0])
			t.Dim = int(max(int64(t.Dim), s.offsets[1]+s.sizes[1]))
		}
		rank, err := f.rankOf(e, k)
		if err != nil {
			return err
		}
		if s.sizes[0] == 0 {
			if e.shardingType.ByRows() {
				continue // the last ranks of a table with few rows have none
			}
			return f.at(e, fmt.Sprintf(".shards[%d].shard_sizes", k), "", "it holds nothing")
		}
		t.Shards = append(t.Shards, plan.Shard{
			Rows:    problem.Range{Start: s.offsets[0], End: s.offsets[0] + s.sizes[0]},
			Columns: problem.Range{Start: s.offsets[1], End: s.offsets[1] + s.sizes[1]},
			Device:  rank, Tier: e.tier, Cache: cache,
		})
	}
	if t.Rows > problem.MaxRows || t.Dim > problem.MaxDim {
		return f.at(e, "", "", "its shards end at row %d and column %d: a table has up to %d rows and %d columns", t.Rows, t.Dim, int64(problem.MaxRows), problem.MaxDim)
	}
	if t.ShardingType != plan.TableWise && len(t.Shards) == 1 {
		notes.add(e, "what is split but lies whole on one rank is taken for table_wise")
		t.ShardingType = plan.TableWise
	}
	return nil
}

// hasShards fails for a table without shards, or with another number of ranks than shards, and notes
// names that were read as other names.
func (f *File) hasShards(e *entry, notes notes) error {
	if e.Kernel == denseKernel || e.Kernel == fusedTriton {
		notes.add(e, fmt.Sprintf("compute kernel %s is taken for fused", e.Kernel))
	}
	if e.TypeName == tableColumnWise {
		notes.add(e, "sharding type table_column_wise is taken for column_wise")
	}
	if len(e.Shards) == 0 {
		return f.at(e, "", "", "it has no shards: a %s table has", e.TypeName)
	}
	if len(e.Ranks) > 0 && len(e.Ranks) != len(e.Shards) {
		return f.at(e, "", "", "it has %d ranks for %d shards", len(e.Ranks), len(e.Shards))
	}
	return nil
}

// rankOf returns the rank of shard k. It fails if statements disagree about it, or nothing states it.
func (f *File) rankOf(e *entry, k int) (int, error) {
	s, part := e.Shards[k], fmt.Sprintf(".shards[%d]", k)
	rank := s.rank
	switch {
	case rank < 0 && len(e.Ranks) == 0:
		return 0, f.at(e, part, "", "nothing says on which rank it lies: it has no placement, and the table no ranks")
	case rank < 0:
		rank = e.Ranks[k]
	case len(e.Ranks) > 0 && rank != e.Ranks[k]:
		return 0, f.at(e, part+".placement", "", "it lies on rank %d, but ranks[%d] is %d", rank, k, e.Ranks[k])
	}
	if e.shardingType == plan.RowWise && rank != k {
		return 0, f.at(e, part, "", "it lies on rank %d: shard %d of a row_wise table lies on rank %d", rank, k, k)
	}
	if s.rank >= 0 && s.device >= 0 && f.Local > 0 && s.rank%f.Local != s.device {
		return 0, f.at(e, part+".placement", "", "rank %d is on device %d, but of hosts of %d ranks it is number %d", s.rank, s.device, f.Local, s.rank%f.Local)
	}
	return rank, nil
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
	case e.Cache == 0:
		notes.add(e, fmt.Sprintf("no load factor of the cache is stated: %v is taken, as FBGEMM's kernels do", defaultLoadFactor))
		return defaultLoadFactor
	case e.Cache >= 1:
		notes.add(e, fmt.Sprintf("a cache of all rows is taken for one of %v of them", fullLoadFactor))
		return fullLoadFactor
	}
	return float64(e.Cache)
}

// replicated fills in a data-parallel table. It may have no shape.
func (f *File) replicated(e *entry, t *plan.Table, stated bool) error {
	if e.Kernel != denseKernel {
		return f.at(e, ".compute_kernel", "", "%s is no kernel for a data_parallel table, which has %s", quote(e.Kernel), denseKernel)
	}
	for k, s := range e.Shards {
		if !stated && k == 0 {
			t.Rows, t.Dim = s.sizes[0], int(s.sizes[1])
		}
		if s.offsets != [2]int64{} || s.sizes != [2]int64{t.Rows, int64(t.Dim)} {
			return f.at(e, fmt.Sprintf(".shards[%d]", k), "", "a shard of a data_parallel table is all of it")
		}
	}
	t.Shards = []plan.Shard{{Rows: problem.Range{End: t.Rows}, Columns: problem.Range{End: int64(t.Dim)}, Device: everyRank, Tier: plan.HBM}}
	return nil
}

// validate reports the first table that is not a placement.
func (f *File) validate(entries []entry) error {
	checked := &plan.Plan{Cluster: plan.Cluster{Devices: f.World, DevicesPerHost: f.Local}}
	if f.World == 0 {
		checked.Cluster.Devices = hardware.MaxDevices
	}
	at := map[string]int{}
	for i, t := range f.Tables {
		if t.ShardingType == plan.DataParallel && (t.Rows == 0 || t.Dim == 0) {
			continue // its shape is not known
		}
		at[t.Name] = i
		checked.Tables = append(checked.Tables, t)
	}
	found := checked.CheckTables()
	if len(found) == 0 {
		return nil
	}
	v, part, hint := found[0], "", ""
	if v.Shard >= 0 {
		part = fmt.Sprintf(".shards[%d]", v.Shard)
	}
	if v.Rule == plan.RuleDevice {
		hint = "devices are ranks, numbered from 0"
	}
	return f.at(&entries[at[v.Table]], part, hint, "%s", v.Message)
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
