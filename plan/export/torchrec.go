package export

import (
	"fmt"
	"io"
	"slices"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
)

// torchrec.go writes a plan as TorchRec's ShardingPlan.
//
// A plan and a ShardingPlan state nearly the same. They differ in where a table may be
// cut.
//
// TorchRec computes from a row's number which rank holds the row. So it has one way to
// split R rows over n ranks: blocks of b = ceil(R / n) rows; the last block may be smaller.
// TorchRec can describe empty blocks, but corrupts memory when it trains with them.
//
//	rows     0        b        2b       3b    R
//	         +--------+--------+--------+-----+
//	         | rank 0 | rank 1 | rank 2 |  3  |
//	         +--------+--------+--------+-----+
//
// The slices of a table on one rank stay separate slices if they have the same width:
// TorchRec trains them, stores them in checkpoints and loads them. If their widths differ,
// TorchRec fails to load the weights. So these become one slice, and the columns are
// assigned anew, rank by rank; all columns cost the same:
//
//	          rank 0   rank 1   rank 0                 rank 0       rank 1
//	columns  +--------+--------+----+       columns  +-------------+--------+
//	         |   48   |   48   | 32 |   ->           |     80      |   48   |
//	         +--------+--------+----+                +-------------+--------+
//
// TorchRec decides which tables of a rank share an operator. neuroshard_torchrec makes it
// keep those of different operator numbers and of different tiers apart; a ShardingPlan
// that something else makes of the file does not.
//
// Slices of different widths on different ranks train, but TorchRec's load_state_dict takes
// every shard of a table for as wide as the first one, and fails. The export keeps the
// widths and warns, unless the plan was made for TorchRec.

// TorchRecFormat and TorchRecVersion mark the file that TorchRec writes.
const (
	TorchRecFormat  = "neuroshard-torchrec-plan"
	TorchRecVersion = 1
)

// The sharding types and compute kernels that plans have.
var (
	shardingTypes = map[plan.ShardingType]string{
		plan.TableWise: "table_wise", plan.ColumnWise: "column_wise", plan.RowWise: "row_wise",
		plan.TableRowWise: "table_row_wise", plan.Grid: "grid_shard", plan.DataParallel: "data_parallel",
	}
	computeKernels = map[plan.Tier]string{plan.HBM: "fused", plan.Host: "fused_uvm", plan.HostCached: "fused_uvm_caching"}
)

// denseKernel is the kernel of data-parallel tables.
const denseKernel = "dense"

// The JSON objects of a ShardingPlan, in the order of their keys.
type (
	parameterJSON struct {
		Type   string `json:"sharding_type"`
		Kernel string `json:"compute_kernel"`
		// Operator and IndexDedup are no fields of a ParameterSharding: neuroshard_torchrec reads the former, convert --from both.
		Operator   problem.Operator `json:"operator,omitempty"`
		IndexDedup bool             `json:"index_dedup,omitempty"`
		Ranks      []int            `json:"ranks"`
		Shards     []shardJSON      `json:"shards,omitempty"`
		Cache      *cacheJSON       `json:"cache_params,omitempty"`
	}
	cacheJSON struct {
		// LoadFactor is the share of the rows that are cached.
		LoadFactor float64 `json:"load_factor"`
	}
	shardJSON struct {
		Offsets   *[2]int64 `json:"shard_offsets"`
		Sizes     *[2]int64 `json:"shard_sizes"`
		Placement string    `json:"placement"`
	}
)

// TorchRec writes the plan as a ShardingPlan for TorchRec. If TorchRec could not run the
// plan, it fails with an *input.Errors that names everything at fault, and writes nothing.
// Other errors are those of w.
func TorchRec(w io.Writer, pl *plan.Plan, opt Options) error {
	e := &torchrec{exporter: exporter{plan: pl, opt: opt}}
	if opt.Accelerator == "" {
		e.opt.Accelerator = CUDA
	}
	e.world = pl.Cluster.Devices
	e.local = pl.Cluster.DevicesPerHost
	if e.local < 1 || e.local > e.world {
		e.local = e.world
	}
	if e.opt.Accelerator != CUDA && e.opt.Accelerator != CPU {
		e.add("", -1, "", "the accelerator is %s: known are %s and %s", quote(e.opt.Accelerator), CUDA, CPU)
	}
	e.proven()
	if len(e.list) == 0 {
		e.broken(pl.CheckRows(problem.TorchRec), problem.TorchRec)
		e.demands()
		e.modules()
		e.params = make([]parameterJSON, len(pl.Tables))
		for i := range pl.Tables {
			e.params[i] = e.parameter(&pl.Tables[i])
		}
	}
	if err := e.err(); err != nil {
		return err
	}
	return e.write(w)
}

// demands checks TorchRec's rules. TorchRec trains slices of unequal widths, but does not
// load a checkpoint of them. So they are a warning, and a fault of a plan that was made for
// TorchRec.
func (e *torchrec) demands() {
	rules := problem.TorchRec.Rules()
	if e.plan.Cluster.Engine != problem.TorchRec {
		rules.EqualSlices = false
	}
	e.broken(e.plan.CheckEngine(rules), rules.Engine)
}

// torchrec is one export.
type torchrec struct {
	exporter
	world, local int

	// modules holds the tables of each module, by number, in the plan's order.
	byModule []moduleTables
	params   []parameterJSON
	// joined are the names of the tables whose slices were joined, and unequal those of the
	// tables with slices of unequal widths.
	joined, unequal []string
}

type moduleTables struct {
	path   string
	tables []int
}

// modules sorts the tables by their modules.
func (e *torchrec) modules() {
	at := map[string]int{}
	type key struct{ module, table string }
	seen := map[key]string{}
	var none []string
	for i := range e.plan.Tables {
		t := &e.plan.Tables[i]
		module := t.Module
		if module == "" {
			if e.opt.Module == nil {
				none = append(none, t.Name)
				continue
			}
			module = *e.opt.Module
		}
		if _, ok := at[module]; !ok {
			at[module] = len(e.byModule)
			e.byModule = append(e.byModule, moduleTables{path: module})
		}
		m := &e.byModule[at[module]]
		m.tables = append(m.tables, i)
		k := key{module, problem.LocalName(module, t.Name)}
		if first, ok := seen[k]; ok {
			e.add(t.Name, -1, "rename one of them, in the model too", "module %s would have two tables named %s: this one and %s", quote(module), quote(k.table), quote(first))
		}
		seen[k] = t.Name
	}
	if len(none) > 0 {
		e.add("", -1, `state "module" for tables in the tables file, or give the module's path: --set module=sparse.ebc`,
			"%d of %d tables state no module: %s", len(none), len(e.plan.Tables), names(none))
	}
}

// parameter turns a table, whose shards cover it, into a ParameterSharding.
func (e *torchrec) parameter(t *plan.Table) parameterJSON {
	out := parameterJSON{Type: shardingTypes[t.ShardingType], Kernel: e.kernel(t), Operator: t.Operator, IndexDedup: t.IndexDedup}
	if share := t.Shards[0].Cache; share > 0 {
		out.Cache = &cacheJSON{share}
	}
	shards := slices.Concat(slices.Collect(t.Slices())...)
	switch k := t.ShardingType; {
	case k == plan.DataParallel:
		for rank := range e.world {
			out.Ranks = append(out.Ranks, rank)
		}
		return out
	case k.ByRows() && k.Span() == problem.AllDevices:
		e.leavesNone(t, e.world)
	case k.ByRows():
		e.leavesNone(t, e.local)
		e.hostWidths(t)
	case k.ByColumns():
		before := len(shards)
		if shards = joined(shards, false); len(shards) < before {
			e.joined = append(e.joined, t.Name)
		}
		if len(shards) == 1 {
			out.Type = shardingTypes[plan.TableWise]
		}
	}
	if t.ShardingType.ByColumns() && slices.ContainsFunc(shards, func(s plan.Shard) bool { return s.Columns.Len() != shards[0].Columns.Len() }) {
		e.unequal = append(e.unequal, t.Name)
	}
	for _, s := range shards {
		out.Ranks = append(out.Ranks, s.Device)
		out.Shards = append(out.Shards, shardJSON{
			Offsets:   &[2]int64{s.Rows.Start, s.Columns.Start},
			Sizes:     &[2]int64{s.Rows.Len(), s.Columns.Len()},
			Placement: e.placement(s.Device),
		})
	}
	return out
}

func (e *torchrec) placement(rank int) string {
	if e.opt.Accelerator == CPU {
		return fmt.Sprintf("rank:%d/cpu", rank)
	}
	return fmt.Sprintf("rank:%d/%s:%d", rank, e.opt.Accelerator, rank%e.local)
}

// kernel returns the compute kernel of a table, and reports a table that has none.
func (e *torchrec) kernel(t *plan.Table) string {
	tier := t.Shards[0].Tier
	switch {
	case t.ShardingType == plan.DataParallel && tier != plan.HBM:
		e.add(t.Name, 0, "put it into hbm, or on one device", "a data_parallel table lies in hbm: TorchRec has no other kernel for it than %s", denseKernel)
	case t.ShardingType == plan.DataParallel && e.plan.Cluster.Pipeline.Kind() == problem.SemiSyncPipeline:
		e.add(t.Name, 0, "put it on one device, or train under another pipeline", "TorchRec's semi-sync pipeline does not train a data_parallel table: its optimizer would step between the lookups and the backward of a batch")
	case t.ShardingType == plan.DataParallel:
		return denseKernel
	case tier != plan.HBM && e.opt.Accelerator == CPU:
		e.add(t.Name, 0, "export with accelerator cuda, or put the table into hbm, which on cpu is the host's memory", "kernel %s needs %s", computeKernels[tier], CUDA)
	}
	return computeKernels[tier]
}

// joined returns slices, sorted by column, in which the slices on one device are one slice if their widths
// differ, or always. If nothing is joined, these are the given slices.
func joined(of []plan.Shard, always bool) []plan.Shard {
	var devices []int
	widths := map[int][]int64{}
	differ := func(w []int64) bool { return slices.Min(w) != slices.Max(w) || always && len(w) > 1 }
	unequal := false
	for _, s := range of {
		if widths[s.Device] == nil {
			devices = append(devices, s.Device)
		}
		widths[s.Device] = append(widths[s.Device], s.Columns.Len())
		unequal = unequal || differ(widths[s.Device])
	}
	if !unequal {
		return of
	}
	var all []plan.Shard
	column := int64(0)
	for _, device := range devices {
		own := widths[device]
		if differ(own) {
			sum := int64(0)
			for _, w := range own {
				sum += w
			}
			own = []int64{sum}
		}
		for _, w := range own {
			all = append(all, plan.Shard{Rows: of[0].Rows, Columns: problem.Range{Start: column, End: column + w}, Device: device, Tier: of[0].Tier, Cache: of[0].Cache})
			column += w
		}
	}
	return all
}

// leavesNone reports a table whose blocks of rows over n ranks leave ranks without any.
func (e *torchrec) leavesNone(t *plan.Table, n int) {
	table := problem.Table{Rows: t.Rows}
	if table.NonEmptyBlocks(n) < n {
		e.add(t.Name, -1, "make it table_wise or data_parallel", "its %d rows in blocks of %d leave ranks without any, and TorchRec does not run that: it is %s over %d ranks", t.Rows, table.BlockRows(n), t.ShardingType, n)
	}
}

// hostWidths reports a table with slices of different widths on one host.
func (e *torchrec) hostWidths(t *plan.Table) {
	widths := map[int]int64{} // by host
	for slice := range t.Slices() {
		host, width := slice[0].Device/e.local, slice[0].Columns.Len()
		if other, twice := widths[host]; twice && other != width {
			e.add(t.Name, slices.Index(t.Shards, slice[0]), "make them alike, or put them on hosts of their own", "its slice has %d columns and another on host %d has %d: TorchRec does not load slices of different widths from one rank", width, host, other)
			return
		}
		widths[host] = width
	}
}

// write writes the file, one table a line.
func (e *torchrec) write(w io.Writer) error {
	out := jsonfile.NewWriter(w)
	fmt.Fprintf(out, "{\n  \"format\": %q,\n  \"version\": %d,\n  \"world_size\": %d,\n  \"local_size\": %d,\n  \"accelerator\": %q,\n  \"plan\": {", TorchRecFormat, TorchRecVersion, e.world, e.local, e.opt.Accelerator)
	e.eachTable(out, func(i int) any { return e.params[i] })
	out.WriteString("},\n  \"shapes\": {")
	e.eachTable(out, func(i int) any { return [2]int64{e.plan.Tables[i].Rows, int64(e.plan.Tables[i].Dim)} })
	out.Print("},\n  \"cluster\": ", e.plan.Cluster)
	e.note(e.joined, "TorchRec loads no slices of different widths of a table on one rank: they were joined for %d of %d tables, %s; predicted times are of the plan as it was")
	e.note(e.unequal, "TorchRec trains slices of different widths of a table, but its load_state_dict fails on them: %d of %d tables have such slices, %s; plan with --engine torchrec")
	var replicas []string
	for i := range e.plan.Tables {
		if t := &e.plan.Tables[i]; t.ShardingType == plan.DataParallel {
			replicas = append(replicas, t.Name)
		}
	}
	e.note(replicas, "TorchRec leaves data_parallel tables to the optimizer of the training script, and without one never trains them: %d of %d tables, %s (docs/TORCHREC.md)")
	var dedup []string
	for i := range e.plan.Tables {
		if t := &e.plan.Tables[i]; t.IndexDedup {
			dedup = append(dedup, t.Name)
		}
	}
	e.note(dedup, "the plan deduplicates the indices of %d of %d tables, %s: give EmbeddingCollectionSharder use_index_dedup=True")
	out.Print(",\n  \"provenance\": ", e.provenance(), "\n}\n")
	return out.Flush()
}

// eachTable writes an object of modules, each an object of tables.
func (e *torchrec) eachTable(out *jsonfile.Writer, value func(i int) any) {
	for k, m := range e.byModule {
		out.Item(k, "\n    ")
		out.Print("", m.path, ": {")
		for j, i := range m.tables {
			out.Item(j, "\n      ")
			out.Print("", problem.LocalName(m.path, e.plan.Tables[i].Name), ": ", value(i))
		}
		out.WriteString("}")
	}
}
