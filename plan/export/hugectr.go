package export

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
)

// hugectr.go writes a plan as the two arguments of HugeCTR's ebc_config.shard:
//
//	shard_matrix    for each GPU the names of the tables that it holds a part of
//	shard_strategy  ("mp", [name or (name, k), ...]) and ("dp", [name, ...])
//
// If tables have index_dedup, a third argument, compression_strategy, names them under Unique, and all other
// model-parallel tables under Reduction.
//
// A data-parallel ("dp") table is on every GPU. A model-parallel ("mp") table is cut into
// k equal slices of columns; k is 1 if it is left out. If n GPUs hold the table, each
// slice is on m = n/k of them that follow each other. HugeCTR deals its rows out: the row of
// key r lies on GPU number r modulo m of these, not in a block of rows as in a plan.
//
// So the form says how much of a table each GPU has, not which columns or rows. That is
// enough, because all columns cost the same, and so do all equal shares of the rows. Only
// the numbers of columns and rows must agree with the plan's; HugeCTR's shares of the rows
// differ by at most one row, so the last GPU may hold up to m - 2 rows more than in the plan.

// HugeCTRFormat and HugeCTRVersion mark the file that HugeCTR writes.
const (
	HugeCTRFormat  = "neuroshard-hugectr-plan"
	HugeCTRVersion = 1
)

// HugeCTR writes the plan as a shard matrix and a shard strategy, with the plan's names of
// the tables. If HugeCTR has no form for some tables, it fails with an *input.Errors that
// names all of them, and writes nothing. Other errors are those of w.
func HugeCTR(w io.Writer, pl *plan.Plan, opt Options) error {
	e := &hugectr{exporter: exporter{plan: pl, opt: opt}}
	e.proven()
	if len(e.list) == 0 {
		one := *pl
		one.Tables = slices.Clone(pl.Tables)
		var apart []string // the tables with several slices on a device
		for i := range one.Tables {
			t := &one.Tables[i]
			if t.ShardingType == plan.ColumnWise {
				t.Shards = joined(t.Shards, true)
			}
			if len(t.Shards) < len(pl.Tables[i].Shards) {
				apart = append(apart, t.Name)
			}
		}
		e.note(apart, "HugeCTR has one slice of a table on a GPU: the slices on a GPU were joined for %d of %d tables, %s; predicted times are of the plan as it was; plan with --engine hugectr")
		e.broken(pl.CheckRows(problem.HugeCTR), problem.HugeCTR)
		e.refused = e.broken(one.CheckEngine(e.demands()), problem.HugeCTR)
		e.matrix = make([][]string, pl.Cluster.Devices)
		for i := range pl.Tables {
			e.table(&pl.Tables[i])
		}
	}
	if err := e.err(); err != nil {
		return err
	}
	if opt.Python {
		return e.writePython(w)
	}
	return e.writeJSON(w)
}

// demands returns HugeCTR's rules. Tables of different operator numbers fuse under HugeCTR,
// which changes times and not what is trained. So such tables are a warning, and in a plan that
// was made for HugeCTR they are a fault.
func (e *hugectr) demands() problem.EngineRules {
	rules := problem.HugeCTR.Rules()
	if e.plan.Cluster.Engine == problem.HugeCTR {
		return rules
	}
	rules.Undivided = false
	var divided []string
	for i := range e.plan.Tables {
		if t := &e.plan.Tables[i]; t.Operator != 0 {
			divided = append(divided, t.Name)
		}
	}
	e.note(divided, "HugeCTR does not let a plan divide its operators: the numbers of operators were left out for %d of %d tables, %s; predicted times are of the plan as it was; plan with --engine hugectr")
	return rules
}

// hugectr is one export.
type hugectr struct {
	exporter
	matrix [][]string
	// refused are the tables that break a rule of HugeCTR.
	refused map[string]bool
	mp      []sliced
	dp      []string
}

// sliced is a model-parallel table in a number of equal slices.
type sliced struct {
	name   string
	slices int
	// unique says that the table's indices are deduplicated.
	unique bool
}

func (e *hugectr) table(t *plan.Table) {
	if t.ShardingType == plan.DataParallel {
		e.dp = append(e.dp, t.Name)
		for gpu := range e.matrix {
			e.matrix[gpu] = append(e.matrix[gpu], t.Name)
		}
		return
	}
	if e.refused[t.Name] {
		return
	}
	count := 1
	switch byRows, byColumns := t.ShardingType.ByRows(), t.ShardingType.ByColumns(); {
	case byRows && byColumns:
		count = e.grid(t)
	case byColumns:
		count = len(plan.Holders(t.Shards))
	}
	for _, gpu := range plan.Holders(t.Shards) {
		e.matrix[gpu] = append(e.matrix[gpu], t.Name)
	}
	e.mp = append(e.mp, sliced{t.Name, count, t.IndexDedup})
}

// grid returns the number of equal slices of a grid table, whose devices must follow each other in the
// list of devices that hold the table.
func (e *hugectr) grid(t *plan.Table) int {
	bySlice := slices.Collect(t.Slices())
	slices.SortFunc(bySlice, func(a, b []plan.Shard) int { return cmp.Compare(a[0].Device, b[0].Device) })
	var order []int
	for _, slice := range bySlice {
		order = append(order, plan.Holders(slice)...)
	}
	if !slices.IsSorted(order) || len(slices.Compact(slices.Clone(order))) < len(order) {
		e.add(t.Name, -1, "give each slice devices that follow each other, or plan with --engine hugectr", "its slices lie on devices %v: in HugeCTR the GPUs of a slice follow each other, and no two slices share one", order)
	}
	return len(bySlice)
}

// writeJSON writes the file, one device a line.
func (e *hugectr) writeJSON(w io.Writer) error {
	out := jsonfile.NewWriter(w)
	c := e.plan.Cluster
	fmt.Fprintf(out, "{\n  \"format\": %q,\n  \"version\": %d,\n  \"gpus\": %d,\n  \"gpus_per_host\": %d,\n  \"shard_matrix\": [", HugeCTRFormat, HugeCTRVersion, c.Devices, c.DevicesPerHost)
	for gpu, held := range e.matrix {
		out.Item(gpu, "\n    ")
		if held == nil {
			held = []string{}
		}
		out.Print("", held)
	}
	out.WriteString("\n  ],\n  \"shard_strategy\": [")
	e.strategies(func(i int, name string, tables []any) {
		out.Item(i, "\n    ")
		out.Print("", []any{name, tables})
	})
	out.WriteString("\n  ]")
	if unique, reduction := e.compressed(); len(unique) > 0 {
		out.Print(",\n  \"compression_strategy\": ", compression{unique, reduction})
	}
	out.Print(",\n  \"provenance\": ", e.provenance(), "\n}\n")
	return out.Flush()
}

// compression is HugeCTR's compression strategy: the model-parallel tables whose indices are deduplicated, and the others.
type compression struct{ Unique, Reduction []string }

// compressed returns the tables of the compression strategy.
func (e *hugectr) compressed() (unique, reduction []string) {
	reduction = []string{}
	for _, t := range e.mp {
		if t.unique {
			unique = append(unique, t.name)
		} else {
			reduction = append(reduction, t.name)
		}
	}
	return unique, reduction
}

// strategies yields "mp" and "dp", each with its tables, if it has some. A table is a name,
// or a list of a name and a number of slices.
func (e *hugectr) strategies(yield func(i int, name string, tables []any)) {
	var mp, dp []any
	for _, t := range e.mp {
		if t.slices > 1 {
			mp = append(mp, []any{t.name, t.slices})
		} else {
			mp = append(mp, t.name)
		}
	}
	for _, name := range e.dp {
		dp = append(dp, name)
	}
	i := 0
	if len(mp) > 0 {
		yield(i, "mp", mp)
		i++
	}
	if len(dp) > 0 {
		yield(i, "dp", dp)
	}
}

// writePython writes two assignments. Texts from the plan are written as JSON strings,
// which mean the same in Python, so a plan cannot inject code.
func (e *hugectr) writePython(w io.Writer) error {
	out := jsonfile.NewWriter(w)
	p := e.provenance()
	unique, reduction := e.compressed()
	more := ""
	if len(unique) > 0 {
		more = ", compression_strategy=compression_strategy"
	}
	fmt.Fprintf(out, "# The sharding of %d tables over %d GPUs, for ebc_config.shard(shard_matrix=shard_matrix, shard_strategy=shard_strategy%s).\n", len(e.plan.Tables), e.plan.Cluster.Devices, more)
	out.Print("# Written by neuroshard convert; made by ", fmt.Sprintf("%s %s, method %s, input %s", p.Tool, p.Version, p.Method, p.Input))
	switch {
	case p.Cost == nil:
		out.WriteString(". No model priced it.\n")
	case p.Source == plan.Simulated:
		fmt.Fprintf(out, ".\n# Predicted cost %v, by a model trained on SIMULATED kernels.\n", *p.Cost)
	default:
		fmt.Fprintf(out, ".\n# Predicted cost %v.\n", *p.Cost)
	}
	for _, warning := range e.notes {
		out.Print("# ", warning, "\n")
	}
	out.WriteString("shard_matrix = [\n")
	for _, held := range e.matrix {
		out.WriteString("    [")
		e.python(out, held)
		out.WriteString("],\n")
	}
	out.WriteString("]\nshard_strategy = [\n")
	e.strategies(func(_ int, name string, tables []any) {
		fmt.Fprintf(out, "    (%q, [", name)
		for i, t := range tables {
			if i > 0 {
				out.WriteString(", ")
			}
			if pair, ok := t.([]any); ok {
				out.Print("(", pair[0])
				fmt.Fprintf(out, ", %d)", pair[1])
				continue
			}
			out.Print("", t)
		}
		out.WriteString("]),\n")
	})
	out.WriteString("]\n")
	if len(unique) > 0 {
		out.WriteString("compression_strategy = {\n    hugectr.CompressionStrategy.Unique: [")
		e.python(out, unique)
		out.WriteString("],\n    hugectr.CompressionStrategy.Reduction: [")
		e.python(out, reduction)
		out.WriteString("],\n}\n")
	}
	return out.Flush()
}

// python writes the elements of a list of names.
func (e *hugectr) python(out *jsonfile.Writer, list []string) {
	for i, name := range list {
		if i > 0 {
			out.WriteString(", ")
		}
		out.Print("", name)
	}
}
