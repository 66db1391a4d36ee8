package export

import (
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// matrix.go reads HugeCTR's plans: the shard matrix and the shard strategy that hugectr.go draws.

var hugectrForm = form{
	format: HugeCTRFormat, version: HugeCTRVersion,
	write: "write it with json.dump({\"shard_matrix\": ..., \"shard_strategy\": ...}, file)",
	give:  "give a file of neuroshard convert --to hugectr, or an object with the keys shard_matrix and shard_strategy",
}

// dealt is a table as HugeCTR deals it out to GPUs.
type dealt struct {
	name string
	// slices is the number of equal slices of columns; 0 for a data-parallel table.
	slices int
	// gpus hold a part of the table, ascending.
	gpus []int
	// unique says that the table's indices are deduplicated.
	unique bool
}

// ReadHugeCTR reads a shard matrix and a shard strategy, as the function HugeCTR writes them or as
// an object with the keys shard_matrix and shard_strategy. It fails with an *input.Errors that has the
// first fault of the file.
//
// The file says how much of a table a GPU holds, not which part. File.Place gives each table of
// HugeCTR the rows and columns of the problem's table. With n GPUs and k slices, the first n/k
// GPUs hold the first slice of columns, and so on; the GPUs of a slice hold a block of rows each,
// in their order, and the last GPUs of a table with few rows hold none.
func ReadHugeCTR(name string, r io.Reader) (*File, error) {
	var read struct {
		header
		GPUs       int              `json:"gpus"`
		GPUsAHost  int              `json:"gpus_per_host"`
		Matrix     *gpus            `json:"shard_matrix"`
		Strategy   *[]strategy      `json:"shard_strategy"`
		Compressed compression      `json:"compression_strategy"`
		Provenance jsonfile.Ignored `json:"provenance"`
	}
	f := &File{Name: name, dealt: []dealt{}}
	if err := f.decode(r, &hugectrForm, &read, &read.header); err != nil {
		return nil, err
	}
	if read.Matrix == nil || read.Strategy == nil {
		return nil, f.fault(hugectrForm.write, "the key %q or %q is missing", "shard_matrix", "shard_strategy")
	}
	f.World, f.Local = len(*read.Matrix), read.GPUsAHost
	switch n := read.GPUs; {
	case f.World == 0:
		return nil, f.fault("", "shard_matrix: it lists no GPU")
	case n != 0 && n != f.World:
		return nil, f.fault("", "shard_matrix: it lists %d GPUs, and gpus is %d", f.World, n)
	case f.Local < 0 || f.Local > f.World:
		return nil, f.fault("", "gpus_per_host: %d GPUs of a host, where there are %d", f.Local, f.World)
	}
	if err := f.deal(*read.Matrix, *read.Strategy); err != nil {
		return nil, err
	}
	return f, f.compressed(&read.Compressed)
}

// compressed marks the tables whose indices are deduplicated, and fails if the compression strategy has a table twice, or
// one without a shard strategy.
func (f *File) compressed(c *compression) error {
	at, seen := map[string]*dealt{}, map[string]bool{}
	for i := range f.dealt {
		at[f.dealt[i].name] = &f.dealt[i]
	}
	for i, name := range slices.Concat(c.Unique, c.Reduction) {
		switch {
		case at[name] == nil:
			return f.fault("", "compression_strategy: table %s is in no shard_strategy", quote(name))
		case seen[name]:
			return f.fault("keep one of them", "compression_strategy: table %s is there twice", quote(name))
		}
		seen[name], at[name].unique = true, i < len(c.Unique)
	}
	return nil
}

// gpus has the names of the tables of each GPU.
type gpus [][]string

// UnmarshalJSONFrom reads the shard matrix.
func (l *gpus) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonfile.List(d, hardware.MaxDevices, func(_ int, names *[]string) error {
		*l = append(*l, *names)
		return nil
	})
}

// strategy is a strategy and its tables: ["mp", [...]] or ["dp", [...]].
type strategy struct {
	kind   string
	tables []dealt
}

// UnmarshalJSONFrom reads a strategy.
func (s *strategy) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return pair(d, &s.kind, &s.tables, "write a strategy as [\"mp\", [tables]] or [\"dp\", [tables]]")
}

// UnmarshalJSONFrom reads a table of a strategy: its name, or a list of the name and a number of slices.
func (d *dealt) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	d.slices = 1
	if decoder.PeekKind() != '[' {
		return json.UnmarshalDecode(decoder, &d.name)
	}
	return pair(decoder, &d.name, &d.slices, "write [\"name\", slices]")
}

// pair reads a list of two values.
func pair(d *jsontext.Decoder, first, second any, hint string) error {
	values := []any{first, second}
	n := 0
	err := jsonfile.Each(d, 2, func(i int) error {
		n++
		return json.UnmarshalDecode(d, values[i])
	})
	if err == nil && n != 2 {
		err = &hinted{fmt.Errorf("it has %d values, not 2", n), hint}
	}
	return err
}

// deal finds the GPUs of each table of the strategies, and fails if one list has a table that is
// missing in the other.
func (f *File) deal(matrix gpus, strategies []strategy) error {
	holders := map[string][]int{}
	for gpu, names := range matrix {
		for _, name := range names {
			if held := holders[name]; len(held) > 0 && held[len(held)-1] == gpu {
				return f.fault("keep one of them", "shard_matrix[%d]: table %s is there twice", gpu, quote(name))
			}
			holders[name] = append(holders[name], gpu)
		}
	}
	seen, lookups := map[string]bool{}, 0
	for _, s := range strategies {
		if s.kind == "mp" {
			lookups++
		}
		for _, t := range s.tables {
			if seen[t.name] {
				return f.fault("keep one of them", "shard_strategy: table %s is there twice", quote(t.name))
			}
			seen[t.name], t.gpus = true, holders[t.name]
			if message := t.check(s.kind, f.World); message != "" {
				return f.fault("", "shard_strategy: %s", message)
			}
			if s.kind == "dp" {
				t.slices = 0
			}
			f.dealt = append(f.dealt, t)
		}
	}
	if lookups > 1 {
		f.Notes = append(f.Notes, fmt.Sprintf("HugeCTR looks up the tables of each of the %d strategies mp by themselves; the plan keeps none of them apart", lookups))
	}
	for _, names := range matrix {
		for _, name := range names {
			if !seen[name] {
				return f.fault("", "shard_strategy: table %s of shard_matrix has no strategy", quote(name))
			}
		}
	}
	return nil
}

// check says what is wrong with a table of a strategy; "" if nothing is. world is the number of GPUs.
func (d *dealt) check(kind string, world int) string {
	switch n := len(d.gpus); {
	case kind != "mp" && kind != "dp":
		return fmt.Sprintf("strategy %s is unknown: choose mp or dp", quote(kind))
	case n == 0:
		return fmt.Sprintf("table %s is on no GPU of shard_matrix", quote(d.name))
	case d.slices < 1:
		return fmt.Sprintf("table %s is cut into %d slices of columns", quote(d.name), d.slices)
	case kind == "dp" && d.slices > 1:
		return fmt.Sprintf("table %s is data-parallel and cut into %d slices of columns", quote(d.name), d.slices)
	case kind == "dp" && n < world:
		return fmt.Sprintf("table %s is data-parallel and on %d of %d GPUs: a data-parallel table is on all of them", quote(d.name), n, world)
	case kind == "mp" && n%d.slices != 0:
		return fmt.Sprintf("table %s has %d slices of columns and is on %d GPUs, which is not a multiple", quote(d.name), d.slices, n)
	}
	return ""
}

// shaped returns the file with the rows and columns of the problem's tables.
func (f *File) shaped(p *problem.Problem, errs *faults) *File {
	at := make(map[string]*problem.Table, len(p.Tables))
	for i := range p.Tables {
		at[p.Tables[i].Name] = &p.Tables[i]
	}
	shaped := *f
	for i := range f.dealt {
		d := &f.dealt[i]
		t, local := plan.Table{Name: d.name, ShardingType: plan.TableWise}, d.name
		if want := at[d.name]; want != nil {
			t, local = d.cut(want, p.Topology, errs), problem.LocalName(want.Module, want.Name)
			if t.IndexDedup = d.unique; want.IndexDedup && !want.ChooseDedup && !d.unique {
				errs.add(want.Name, -1, "state choose_dedup for the table, or list it as Unique", "the table states index_dedup, but compression_strategy of the file does not deduplicate its indices")
			}
		}
		shaped.Tables, shaped.local = append(shaped.Tables, t), append(shaped.local, local)
	}
	return &shaped
}

// cut returns the problem's table want as HugeCTR cuts it, and reports a table that no plan cuts so.
func (d *dealt) cut(want *problem.Table, cluster hardware.Topology, errs *faults) plan.Table {
	t := plan.Table{Name: want.Name, Module: want.Module, Rows: want.Rows, Dim: want.Dim, ShardingType: plan.DataParallel}
	if d.slices == 0 {
		t.Shards = []plan.Shard{{Rows: problem.Range{End: want.Rows}, Columns: problem.Range{End: int64(want.Dim)}, Device: everyRank, Tier: plan.HBM}}
		return t
	}
	blocks, width := len(d.gpus)/d.slices, int64(want.Dim/d.slices)
	if want.Dim%d.slices != 0 || width%problem.ColumnGranule != 0 {
		errs.add(want.Name, -1, "", "its %d columns in %d slices: the slices of a plan have the same width, a multiple of %d", want.Dim, d.slices, problem.ColumnGranule)
		return t
	}
	height := want.BlockRows(blocks)
	for k, gpu := range d.gpus {
		slice, first := int64(k/blocks), int64(k%blocks)*height
		if first >= want.Rows {
			continue // a table with few rows
		}
		t.Shards = append(t.Shards, plan.Shard{
			Rows: problem.Range{Start: first, End: min(want.Rows, first+height)}, Columns: problem.Range{Start: slice * width, End: (slice + 1) * width},
			Device: gpu, Tier: plan.HBM,
		})
	}
	t.ShardingType = d.typeOf(want.NonEmptyBlocks(blocks), cluster)
	return t
}

// typeOf returns the sharding type of a model-parallel table whose slices have a number of blocks of
// rows that are not empty. A table in blocks of rows on all GPUs
// of one of several hosts is table_row_wise.
func (d *dealt) typeOf(blocks int, cluster hardware.Topology) plan.ShardingType {
	per, devices := cluster.PerHost(), cluster.Devices
	first, last := d.gpus[0], d.gpus[len(d.gpus)-1]
	switch {
	case blocks == 1 && d.slices == 1:
		return plan.TableWise
	case blocks == 1:
		return plan.ColumnWise
	case d.slices > 1:
		return plan.Grid
	case per < devices && len(d.gpus) == per && first%per == 0 && last == first+per-1:
		return plan.TableRowWise
	}
	return plan.RowWise
}
