package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// matrix.go reads HugeCTR's plans: the shard matrix and the shard strategy that hugectr.go draws.

var hugectrForm = form{
	format: HugeCTRFormat, version: HugeCTRVersion,
	object: "an object with the keys \"shard_matrix\" and \"shard_strategy\"", end: "the shard matrix and strategy",
	write: "write it with json.dump({\"shard_matrix\": ..., \"shard_strategy\": ...}, file)",
	give:  "give a file of neuroshard export --to hugectr, or an object with the keys shard_matrix and shard_strategy",
}

// matrixKeys are the keys of a file that the function HugeCTR wrote. A file of another tool has
// the two keys of HugeCTR's arguments, and may have the keys that state the GPUs.
var matrixKeys = []string{"format", "version", "gpus", "gpus_per_host", "shard_matrix", "shard_strategy", "provenance"}

// dealt is a table as HugeCTR deals it out to GPUs.
type dealt struct {
	name string
	// slices is the number of equal slices of columns; 0 for a data-parallel table.
	slices int
	// gpus hold a part of the table, ascending.
	gpus []int
}

// ReadHugeCTR reads a shard matrix and a shard strategy, as the function HugeCTR writes them or as
// an object with the keys shard_matrix and shard_strategy. It fails with an *input.Errors that has
// every fault of the file.
//
// The file says how much of a table a GPU holds, not which part. File.Place gives each table of
// HugeCTR the rows and columns of the problem's table. With n GPUs and k slices, the first n/k
// GPUs hold the first slice of columns, and so on; the GPUs of a slice hold a block of rows each,
// in their order, and the last GPUs of a table with few rows hold none.
func ReadHugeCTR(name string, r io.Reader) (*File, error) {
	m := &matrix{reader: reader{file: name, form: hugectrForm}, at: map[string]int{}}
	m.out.Name, m.out.dealt = name, []dealt{}
	if m.load(r) {
		m.read()
	}
	if err := m.err(); err != nil {
		return nil, err
	}
	read := m.out
	return &read, nil
}

// matrix reads a file of HugeCTR.
type matrix struct {
	reader
	// names are the tables of the matrix, in the order of the first GPU that holds each. holders
	// has, at the same places, the GPUs that hold a part of the table.
	names   []string
	at      map[string]int
	holders [][]int
	// gpus is the number of GPUs that the file states; 0 if it states none.
	gpus int
	has  [2]bool // shard_matrix, shard_strategy
	// lookups is the number of strategies of model-parallel tables, each with a lookup of its own.
	lookups int
}

func (m *matrix) read() {
	ours, ok := m.header()
	if !ok {
		return
	}
	m.json = strictjson.New(bufio.NewReader(bytes.NewReader(m.data)), m, strictjson.Options{Depth: maxDepth})
	m.path = nil
	m.object(m.form.object, false, func(key string) {
		m.in("."+key, func() { m.key(key, ours) })
	})
	if m.path = nil; !m.json.Failed() {
		m.end()
	}
	if m.json.Failed() {
		return
	}
	for i, key := range []string{"shard_matrix", "shard_strategy"} {
		if !m.has[i] {
			m.add(m.form.write, "the key %q is missing", key)
		}
	}
	if m.count == 0 {
		m.match()
	}
}

// key reads the value of a key of the file.
func (m *matrix) key(key string, ours bool) {
	switch {
	case key == "shard_matrix":
		m.has[0] = true
		m.array("a list of the tables of each GPU", false, hardware.MaxDevices, m.gpu)
	case key == "shard_strategy":
		m.has[1] = true
		m.array("a list of strategies with their tables", false, problem.MaxTables, m.strategy)
	case key == "gpus":
		n, _ := m.whole("the number of GPUs", hardware.MaxDevices)
		m.gpus = int(n)
	case key == "gpus_per_host":
		n, _ := m.whole("the number of GPUs of a host", hardware.MaxDevices)
		m.out.Local = int(n)
	case ours && slices.Contains(matrixKeys, key):
		m.json.Skip() // header has looked at format and version; the provenance does not place tables
	default:
		m.add("known: "+strings.Join(matrixKeys, ", "), "the key is unknown")
		m.json.Skip()
	}
}

// gpu reads the tables of a GPU.
func (m *matrix) gpu(gpu int) {
	m.out.World = gpu + 1
	m.array("a list of the names of tables", false, problem.MaxTables, func(int) {
		name, ok := m.text("the name of a table")
		if !ok {
			return
		}
		i, known := m.at[name]
		if !known {
			i = len(m.names)
			m.at[name], m.names, m.holders = i, append(m.names, name), append(m.holders, nil)
		}
		if held := m.holders[i]; len(held) > 0 && held[len(held)-1] == gpu {
			m.add("keep one of them", "table %s is there twice", quote(name))
			return
		}
		m.holders[i] = append(m.holders[i], gpu)
	})
}

// strategy reads a strategy and its tables: ["mp", [...]] or ["dp", [...]].
func (m *matrix) strategy(int) {
	kind, n := "", 0
	m.array("a strategy and its tables", false, 2, func(i int) {
		if n++; i == 0 {
			if text, ok := m.text("mp or dp"); ok {
				switch kind = text; kind {
				case "dp":
				case "mp":
					m.lookups++
				default:
					m.add("", "strategy %s is unknown: choose mp or dp", quote(kind))
				}
			}
			return
		}
		m.array("a list of tables", false, problem.MaxTables, func(int) { m.table(kind) })
	})
	if n != 2 && !m.json.Failed() {
		m.add("write a strategy as [\"mp\", [tables]] or [\"dp\", [tables]]", "it has %d values, not 2", n)
	}
}

// table reads a table of a strategy: its name, or a list of the name and a number of slices.
func (m *matrix) table(kind string) {
	t := dealt{slices: 1}
	if m.json.Next() == strictjson.List {
		n := 0
		m.array("a name and a number of slices", false, 2, func(i int) {
			if n++; i == 0 {
				t.name, _ = m.text("the name of a table")
				return
			}
			slices, _ := m.whole("a number of slices of columns", problem.MaxDim)
			t.slices = int(slices)
		})
		if n != 2 && !m.json.Failed() {
			m.add("write [\"name\", slices]", "it has %d values, not 2", n)
		}
	} else {
		t.name, _ = m.text("the name of a table, or a list of the name and a number of slices")
	}
	switch {
	case t.name == "":
	case t.slices == 0:
		m.add("", "table %s is cut into 0 slices of columns", quote(t.name))
	case kind == "dp" && t.slices > 1:
		m.add("", "table %s is data-parallel and cut into %d slices of columns", quote(t.name), t.slices)
	default:
		if kind == "dp" {
			t.slices = 0
		}
		m.out.dealt = append(m.out.dealt, t)
	}
}

// match finds the GPUs of each table of the strategies, and reports tables of one list that are
// missing in the other.
func (m *matrix) match() {
	if m.out.World == 0 {
		m.addAt(0, "shard_matrix", "", "it lists no GPU")
	} else if m.gpus > 0 && m.gpus != m.out.World {
		m.addAt(0, "shard_matrix", "", "it lists %d GPUs, and gpus is %d", m.out.World, m.gpus)
	}
	if m.out.Local > m.out.World {
		m.addAt(0, "gpus_per_host", "", "%d GPUs of a host are more than the %d there are", m.out.Local, m.out.World)
	}
	seen := map[string]bool{}
	for i := range m.out.dealt {
		t := &m.out.dealt[i]
		if seen[t.name] {
			m.addAt(0, "shard_strategy", "keep one of them", "table %s is there twice", quote(t.name))
			continue
		}
		seen[t.name] = true
		at, ok := m.at[t.name]
		if !ok {
			m.addAt(0, "shard_strategy", "", "table %s is on no GPU of shard_matrix", quote(t.name))
			continue
		}
		t.gpus = m.holders[at]
		switch n := len(t.gpus); {
		case t.slices == 0 && n < m.out.World:
			m.addAt(0, "shard_matrix", "", "table %s is data-parallel and on %d of %d GPUs: a data-parallel table is on all of them", quote(t.name), n, m.out.World)
		case t.slices > 0 && n%t.slices != 0:
			m.addAt(0, "shard_matrix", "", "table %s has %d slices of columns and is on %d GPUs, which is not a multiple", quote(t.name), t.slices, n)
		}
	}
	if m.lookups > 1 {
		m.out.Notes = append(m.out.Notes, fmt.Sprintf("HugeCTR looks up the tables of each of the %d strategies mp by themselves; the plan keeps none of them apart", m.lookups))
	}
	for _, name := range m.names {
		if !seen[name] {
			m.addAt(0, "shard_strategy", "", "table %s of shard_matrix has no strategy", quote(name))
		}
	}
}

// shaped returns the file with the rows and columns of the problem's tables.
func (m *matcher) shaped() *File {
	at := make(map[string]*problem.Table, len(m.problem.Tables))
	for i := range m.problem.Tables {
		at[m.problem.Tables[i].Name] = &m.problem.Tables[i]
	}
	f := *m.file
	for i := range f.dealt {
		d := &f.dealt[i]
		t, local := plan.Table{Name: d.name, ShardingType: plan.TableWise}, d.name
		if want := at[d.name]; want != nil {
			t, local = m.cut(d, want), problem.LocalName(want.Module, want.Name)
		}
		f.Tables, f.local = append(f.Tables, t), append(f.local, local)
	}
	return &f
}

// cut returns the problem's table want as HugeCTR cuts it, and reports a table that no plan cuts so.
func (m *matcher) cut(d *dealt, want *problem.Table) plan.Table {
	t := plan.Table{Name: want.Name, Module: want.Module, Rows: want.Rows, Dim: want.Dim, ShardingType: plan.DataParallel}
	if d.slices == 0 {
		t.Shards = []plan.Shard{{Rows: problem.Range{End: want.Rows}, Columns: problem.Range{End: int64(want.Dim)}, Device: everyRank, Tier: plan.HBM}}
		return t
	}
	blocks, width := len(d.gpus)/d.slices, int64(want.Dim/d.slices)
	if want.Dim%d.slices != 0 || width%problem.ColumnGranule != 0 {
		m.faults.add(want.Name, -1, "", "its %d columns in %d slices: the slices of a plan have the same width, a multiple of %d", want.Dim, d.slices, problem.ColumnGranule)
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
	t.ShardingType = m.typeOf(d, want.NonEmptyBlocks(blocks))
	return t
}

// typeOf returns the sharding type of a model-parallel table whose slices have a number of blocks of
// rows that are not empty. A table in blocks of rows on all GPUs
// of one of several hosts is table_row_wise.
func (m *matcher) typeOf(d *dealt, blocks int) plan.ShardingType {
	per, devices := m.problem.Topology.PerHost(), m.problem.Topology.Devices
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
