package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
)

// What TorchRec itself serializes is read (testdata/serialize.py made it).
func TestReadSerialized(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/serialized.json"))(t)
	f := must.Get(ReadTorchRec("serialized.json", bytes.NewReader(data)))(t)
	if f.World != 4 || f.Local != 2 || f.Cluster != nil {
		t.Errorf("got %d ranks, %d a host, cluster %v; want 4, 2, none", f.World, f.Local, f.Cluster)
	}
	var got []string
	for _, table := range f.Tables {
		text := fmt.Sprintf("%s (%s) %dx%d %s:", table.Name, table.Module, table.Rows, table.Dim, table.ShardingType)
		for _, s := range table.Shards {
			text += fmt.Sprintf(" %d:%v%v%s", s.Device, s.Rows, s.Columns, s.Tier)
		}
		got = append(got, text)
	}
	want := []string{
		"sparse.ebc/user (sparse.ebc) 1000x64 table_wise: 3:{0 1000}{0 64}hbm",
		"item (sparse.ebc) 2000x128 column_wise: 2:{0 2000}{0 64}hbm 0:{0 2000}{64 128}hbm",
		"word (sparse.ebc) 5x8 row_wise: 0:{0 2}{0 8}hbm 1:{2 4}{0 8}hbm 2:{4 5}{0 8}hbm",
		"host (sparse.ebc) 9x8 table_row_wise: 2:{0 5}{0 8}hbm 3:{5 9}{0 8}hbm",
		"grid (sparse.ebc) 10x256 grid: 2:{0 5}{0 128}hbm 3:{5 10}{0 128}hbm 0:{0 5}{128 256}hbm 1:{5 10}{128 256}hbm",
		"tiny (sparse.ebc) 0x0 data_parallel: -1:{0 0}{0 0}hbm",
		"over.ebc/user (over.ebc) 7x4 table_wise: 1:{0 7}{0 4}host_cached",
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if want := []string{
		`compute kernel dense is taken for fused (5 tables: "user", "item", "word", "host", "grid")`,
		`no load factor of the cache is stated: 0.2 is taken, as FBGEMM's kernels do (1 table: "user")`,
	}; !slices.Equal(f.Notes, want) {
		t.Errorf("got notes %q, want %q", f.Notes, want)
	}
}

// inPlan wraps the tables of one module into a serialized plan.
func inPlan(tables string) string { return `{"plan": {"ebc": {` + tables + `}}}` }

// inTable wraps further keys of a table that lies whole on rank 1.
func inTable(keys string) string {
	return inPlan(`"t": {"sharding_type": "table_wise", "compute_kernel": "fused", ` + keys + `}`)
}

// sharded returns a table of that type with shards, each given by its first row and
// column, its rows, its columns and its rank.
func sharded(kind string, shards ...[5]int) string {
	var texts []string
	for _, s := range shards {
		texts = append(texts, fmt.Sprintf(`{"shard_offsets": [%d, %d], "shard_sizes": [%d, %d], "placement": "rank:%d/cpu"}`, s[0], s[1], s[2], s[3], s[4]))
	}
	return inPlan(fmt.Sprintf(`"t": {"sharding_type": %q, "compute_kernel": "fused", "shards": [%s]}`, kind, strings.Join(texts, ", ")))
}

// ours wraps a table into a file of ours for 4 ranks.
func ours(rest string) string {
	return `{"format": "neuroshard-torchrec-plan", "version": 1, "world_size": 4, "local_size": 2, ` + rest + `}`
}

const wholeTable = `{"sharding_type": "table_wise", "compute_kernel": "fused", "ranks": [1], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [10, 8], "placement": "rank:1/cuda:1"}]}`

// badFiles are files with something wrong in each, and what is said of them.
var badFiles = []struct{ name, content, want string }{
	{"empty", "", `x.json:1: the file ends in the middle: unexpected EOF (write it with json.dump(plan._serialize(), file))`},
	{"not JSON", "ShardingPlan(", `x.json:1: invalid character 'S' at start of value (write it with json.dump(plan._serialize(), file))`},
	{"no plan", `{}`, `x.json: the key "plan" is missing (write it with json.dump(plan._serialize(), file))`},
	{"another key", `{"plan": {}, "ranks": 4}`, `x.json:1: key "ranks" is unknown (write it with json.dump(plan._serialize(), file))`},
	{"truncated", ours(`"plan": {"ebc": {"t": {"sharding_type": "table_w`), `x.json:1: the file ends in the middle: unexpected EOF (write it with json.dump(plan._serialize(), file))`},
	{"more after the end", inPlan("") + "{}", `x.json:1: invalid character '{' after top-level value (write it with json.dump(plan._serialize(), file))`},
	{"a plan of ours", `{"format": "neuroshard-plan", "version": 1}`, "x.json: this is a plan of neuroshard already (neuroshard show and diff read it as it is)"},
	{"an export for HugeCTR", `{"format": "neuroshard-hugectr-plan", "version": 1}`, "x.json: this is an export for HugeCTR (import it with --from hugectr and --tables)"},
	{"another format", `{"format": "neuroshard-tables", "version": 1, "tables": []}`, `x.json: the format is "neuroshard-tables", not "neuroshard-torchrec-plan"`},
	{"no version", `{"format": "neuroshard-torchrec-plan"}`, `x.json: the key "version" is missing: known is version 1`},
	{"older version", `{"format": "neuroshard-torchrec-plan", "version": 0, "what": [{}]}`, `x.json: the file has version 0 of its format: this program knows version 1 only`},
	{"newer version", `{"plan": 7, "version": 2, "format": "neuroshard-torchrec-plan"}`, `x.json: the file has version 2 of its format: this program knows version 1 only (export the plan again, or read it with a program that knows the version)`},
	{"no world size", `{"format": "neuroshard-torchrec-plan", "version": 1, "local_size": 1, "plan": {}}`, `x.json: world_size or local_size is missing, or not between 1 and 65536 (export the plan again)`},
	{"table twice", inPlan(`"t": ` + wholeTable + `, "t": ` + wholeTable), `x.json:1: plan.ebc: key "t" is there twice`},
	{"table of null", inPlan(`"t": null`), `x.json:1: plan.ebc.t: sharding type "" is unknown (known: table_wise, column_wise, table_column_wise, row_wise, table_row_wise, grid_shard, data_parallel)`},
	{"table without name", inPlan(`"": ` + wholeTable), `plan.ebc[""]: the table has no name`},
	{"no type", inPlan(`"t": {"compute_kernel": "fused"}`), `x.json:1: plan.ebc.t: sharding type "" is unknown (known: table_wise, column_wise, table_column_wise, row_wise, table_row_wise, grid_shard, data_parallel)`},
	{"no kernel", inPlan(`"t": {"sharding_type": "table_wise"}`), `x.json:1: plan.ebc.t: compute kernel "" is unknown (kernels with a place in a plan: fused, fused_uvm, fused_uvm_caching, dense)`},
	{"unknown type", inPlan(`"t": {"sharding_type": "square_wise", "compute_kernel": "fused"}`), `x.json:1: plan.ebc.t: sharding type "square_wise" is unknown (known: table_wise, column_wise, table_column_wise, row_wise, table_row_wise, grid_shard, data_parallel)`},
	{"unknown kernel", inPlan(`"t": {"sharding_type": "table_wise", "compute_kernel": "confused"}`), `x.json:1: plan.ebc.t: compute kernel "confused" is unknown (kernels with a place in a plan: fused, fused_uvm, fused_uvm_caching, dense)`},
	{"kernel for inference", inPlan(`"t": {"sharding_type": "table_wise", "compute_kernel": "quant_uvm"}`), `kernel "quant_uvm" has no place in a plan: it is for inference (kernels with a place in a plan: fused, fused_uvm, fused_uvm_caching, dense)`},
	{"kernel on disks", inPlan(`"t": {"sharding_type": "table_wise", "compute_kernel": "key_value"}`), `kernel "key_value" has no place in a plan: it keeps tables outside of the memory of devices and hosts`},
	{"operator beyond", inTable(`"operator": 3`), `x.json:1: plan.ebc.t: operator: 3 is not between 0 and 2`},
	{"unknown key of a table", inTable(`"rank": 3`), `x.json:1: plan.ebc.t: key "rank" is unknown`},
	{"no shards", inTable(`"ranks": [1]`), `plan.ebc.t: it has no shards: a table_wise table has`},
	{"shards twice", inTable(`"shards": [], "sharding_spec": {"shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4]}]}, "ranks": [0]`), ``},
	{"offset missing", inTable(`"shards": [{"shard_sizes": [1, 4]}]`), `x.json:1: plan.ebc.t.shards[0]: it has no shard_offsets or no shard_sizes, of two numbers each`},
	{"negative offset", inTable(`"shards": [{"shard_offsets": [0, -4], "shard_sizes": [1, 4]}]`), `x.json:1: plan.ebc.t.shards[0]: 0 rows and -4 columns are not between 0 and 1099511627776 and 16384`},
	{"rows beyond", sharded("row_wise", [5]int{1 << 40, 0, 1 << 40, 4, 0}), `plan.ebc.t: its shards end at row 2199023255552 and column 4`},
	{"placement of another form", inTable(`"shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "cuda:1"}]`), `x.json:1: plan.ebc.t.shards[0]: placement: "cuda:1" is not a placement such as "rank:3/cuda:1" or "rank:3/cpu"`},
	{"placement on an abacus", inTable(`"shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "rank:1/abacus:1"}]`), `"rank:1/abacus:1" is not a placement such as "rank:3/cuda:1" or "rank:3/cpu"`},
	{"placement on a negative rank", inTable(`"shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "rank:-1/cpu"}]`), `"rank:-1/cpu" is not a placement`},
	{"no rank at all", inTable(`"shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "None"}]`), `plan.ebc.t.shards[0]: nothing says on which rank it lies: it has no placement, and the table no ranks`},
	{"another rank", inTable(`"ranks": [2], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "rank:1/cpu"}]`), `plan.ebc.t.shards[0].placement: it lies on rank 1, but ranks[0] is 2`},
	{"more ranks", inTable(`"ranks": [1, 2], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "rank:1/cpu"}]`), `plan.ebc.t: it has 2 ranks for 1 shards`},
	{"gap", sharded("column_wise", [5]int{0, 0, 10, 4, 0}, [5]int{0, 8, 10, 4, 1}), `plan.ebc.t: columns [4, 8) are placed nowhere`},
	{"overlap", sharded("column_wise", [5]int{0, 0, 10, 8, 0}, [5]int{0, 4, 10, 8, 1}), `plan.ebc.t: its slices of columns [0, 8) and [4, 12) overlap`},
	{"rows twice", sharded("row_wise", [5]int{0, 0, 6, 4, 0}, [5]int{4, 0, 6, 4, 1}), `plan.ebc.t.shards[1]: rows [4, 6) of columns [0, 4) are placed twice: on device 0 and on device 1`},
	{"no multiple of four", sharded("table_wise", [5]int{0, 0, 10, 6, 0}), `plan.ebc.t.shards[0]: width 6 is not a multiple of 4`},
	{"two shards of one kind", sharded("table_wise", [5]int{0, 0, 10, 4, 0}, [5]int{0, 4, 10, 4, 0}), `plan.ebc.t: a table_wise table does not have 2 shards`},
	{"a shard of nothing", sharded("column_wise", [5]int{0, 0, 10, 4, 0}, [5]int{0, 4, 0, 4, 0}), `plan.ebc.t.shards[1].shard_sizes: it holds nothing`},
	{"rows over two hosts", ours(`"plan": {"ebc": {"t": {"sharding_type": "table_row_wise", "compute_kernel": "fused", "shards": [{"shard_offsets": [0, 0], "shard_sizes": [5, 4], "placement": "rank:1/cuda:1"}, {"shard_offsets": [5, 0], "shard_sizes": [5, 4], "placement": "rank:2/cuda:0"}]}}}`), `plan.ebc.t: a table_row_wise table's rows of columns [0, 4) lie on one host, but device 1 is of host 0 and device 2 of host 1`},
	{"rank beyond the world", ours(`"plan": {"ebc": {"t": {"sharding_type": "table_wise", "compute_kernel": "fused", "shards": [{"shard_offsets": [0, 0], "shard_sizes": [10, 8], "placement": "rank:4/cuda:0"}]}}}`), `plan.ebc.t.shards[0]: there is no device 4: the cluster has 4 (devices are ranks, numbered from 0)`},
	{"another device of the host", ours(`"plan": {"ebc": {"t": {"sharding_type": "table_wise", "compute_kernel": "fused", "shards": [{"shard_offsets": [0, 0], "shard_sizes": [10, 8], "placement": "rank:3/cuda:3"}]}}}`), `plan.ebc.t.shards[0].placement: rank 3 is on device 3, but of hosts of 2 ranks it is number 1`},
	{"replicated on some", ours(`"plan": {"ebc": {"t": {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": [0, 1]}}}`), `plan.ebc.t: it lies on 2 ranks of 4: a data_parallel table lies on all of them`},
	{"replicated on others", inPlan(`"t": {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": [1, 2]}`), `plan.ebc.t.ranks: it lies on 2 ranks, and they are not 0 to 1, once each: a data_parallel table lies on all of them`},
	{"replicated twice on one", inPlan(`"t": {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": [1, 0, 0]}`), `they are not 0 to 2, once each`},
	{"rows on one rank", inPlan(`"t": {"sharding_type": "row_wise", "compute_kernel": "fused", "ranks": [0, 0], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [5, 4]}, {"shard_offsets": [5, 0], "shard_sizes": [5, 4]}]}`), `plan.ebc.t.shards[1]: it lies on rank 0: shard 1 of a row_wise table lies on rank 1`},
	{"replicated in parts", inPlan(`"t": {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": [0, 1], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [5, 4]}, {"shard_offsets": [5, 0], "shard_sizes": [5, 4]}]}`), `plan.ebc.t.shards[1]: a shard of a data_parallel table is all of it`},
	{"replicated and fused", inPlan(`"t": {"sharding_type": "data_parallel", "compute_kernel": "fused", "ranks": [0]}`), `plan.ebc.t.compute_kernel: "fused" is no kernel for a data_parallel table, which has dense`},
	{"two worlds", inPlan(`"t": {"sharding_type": "data_parallel", "compute_kernel": "dense", "ranks": [0, 1]}, "u": {"sharding_type": "row_wise", "compute_kernel": "fused", "shards": [{"shard_offsets": [0, 0], "shard_sizes": [5, 4], "placement": "rank:0/cpu"}, {"shard_offsets": [5, 0], "shard_sizes": [5, 4], "placement": "rank:1/cpu"}, {"shard_offsets": [10, 0], "shard_sizes": [5, 4], "placement": "rank:0/cpu"}]}`), `plan.ebc.u: it has 3 shards, where another table shows that there are 2 ranks: a row_wise table has one for each`},
	{"hosts beyond the world", `{"format": "neuroshard-torchrec-plan", "version": 1, "world_size": 2, "local_size": 4, "plan": {}}`, "local_size: 4 ranks of a host are more than the 2 there are"},
	{"another shape", ours(`"plan": {"ebc": {"t": ` + wholeTable + `}}, "shapes": {"ebc": {"t": [20, 8]}}`), `plan.ebc.t: rows [10, 20) of columns [0, 8) are placed nowhere`},
	{"shape of no table", ours(`"plan": {"ebc": {"t": ` + wholeTable + `}}, "shapes": {"ebc": {"t": [10, 8], "u": [10, 8]}}`), `x.json: shapes: the plan has not all of these tables (export the plan again)`},
	{"cluster of other ranks", ours(`"plan": {}, "cluster": {"profile": "a100-80", "devices": 8, "devices_per_host": 8, "batch": 1, "device_memory_bytes": 1, "reserve_bytes": 0, "weights_only": false}`), "cluster.devices: 8 is not the world_size of 4"},
	{"load factor of 0", inTable(`"cache_params": {"load_factor": 0}`), `x.json:1: plan.ebc.t.cache_params.load_factor: 0 is not a number above 0 (it is the share of the rows that is cached, such as 0.2)`},
	{"names that meet", `{"plan": {"a": {"t": ` + wholeTable + `, "a/t": ` + wholeTable + `}, "b": {"t": ` + wholeTable + `}, "": {"b/t": ` + wholeTable + `}}}`, `plan[""]["b/t"]: two tables of the model would both be called "b/t" (rename a module or a table)`},
}

func TestReadRefuses(t *testing.T) {
	for _, c := range badFiles {
		t.Run(c.name, func(t *testing.T) {
			f, err := ReadTorchRec("x.json", strings.NewReader(c.content))
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v, want it read", err)
				}
				return
			}
			if got := faultsOf(t, err); !strings.Contains(got, c.want) || f != nil {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// Names over all modules.
func TestReadNames(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{`{"plan": {"a": {"t": ` + wholeTable + `}, "b": {"u": ` + wholeTable + `}}}`, "t u"},
		{`{"plan": {"a": {"t": ` + wholeTable + `}, "b": {"t": ` + wholeTable + `}}}`, "a/t b/t"},
		{`{"plan": {"": {"t": ` + wholeTable + `}, "b": {"t": ` + wholeTable + `}}}`, "t b/t"},
		{`{"plan": {"a": {"a/t": ` + wholeTable + `}}}`, "a/a/t"},
		{`{"plan": {"a": {"t": ` + wholeTable + `}, "b": {"t": ` + wholeTable + `}, "c": {"a/t": ` + wholeTable + `}}}`, "a/t b/t c/a/t"},
		{inTable(`"sharding_spec": {"shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": null}]}, "ranks": [0], "cache_params": {"x": [1]}`), "t"},
	} {
		f, err := ReadTorchRec("x.json", strings.NewReader(c.content))
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, table := range f.Tables {
			got = append(got, table.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.content, got, c.want)
		}
	}
}

// What means the same is noted.
func TestReadNotes(t *testing.T) {
	for _, c := range []struct{ content, kind, want string }{
		{sharded("column_wise", [5]int{0, 0, 10, 8, 2}), "table_wise", `what is split but lies whole on one rank is taken for table_wise (1 table: "t")`},
		{sharded("table_column_wise", [5]int{0, 0, 10, 4, 1}, [5]int{0, 4, 10, 4, 0}), "column_wise", `sharding type table_column_wise is taken for column_wise (1 table: "t")`},
		{strings.Replace(sharded("table_wise", [5]int{0, 0, 10, 8, 2}), "fused", "fused_triton", 1), "table_wise", `compute kernel fused_triton is taken for fused (1 table: "t")`},
	} {
		f, err := ReadTorchRec("x.json", strings.NewReader(c.content))
		if err != nil {
			t.Error(err)
			continue
		}
		if string(f.Tables[0].ShardingType) != c.kind || len(f.Notes) != 1 || f.Notes[0] != c.want {
			t.Errorf("got %s, %q; want %s, %q", f.Tables[0].ShardingType, f.Notes, c.kind, c.want)
		}
	}
}

// The load factor of a cache is the share of the rows that it holds.
func TestReadCache(t *testing.T) {
	for _, c := range []struct {
		kernel, params string
		want           float64
		note           string
	}{
		{"fused_uvm_caching", `{"algorithm": "LRU", "load_factor": 0.35, "stats": {"a": [1]}}`, 0.35, ""},
		{"fused_uvm_caching", `{"load_factor": 1e-9}`, 1e-9, ""},
		{"fused_uvm_caching", `{"load_factor": null}`, 0.2, `no load factor of the cache is stated: 0.2 is taken, as FBGEMM's kernels do (1 table: "t")`},
		{"fused_uvm_caching", `null`, 0.2, `no load factor of the cache is stated: 0.2 is taken, as FBGEMM's kernels do (1 table: "t")`},
		{"fused_uvm_caching", `"CacheParams()"`, 0.2, `no load factor of the cache is stated: 0.2 is taken, as FBGEMM's kernels do (1 table: "t")`},
		{"fused_uvm_caching", `{"load_factor": 1}`, 0.999999, `a cache of all rows is taken for one of 0.999999 of them (1 table: "t")`},
		{"fused_uvm", `{"load_factor": 0.35}`, 0, ""},
		{"fused", `{"load_factor": 0.35}`, 0, ""},
	} {
		content := strings.Replace(inTable(`"cache_params": `+c.params+`, "ranks": [0], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [9, 4]}]`), `"fused"`, `"`+c.kernel+`"`, 1)
		f, err := ReadTorchRec("x.json", strings.NewReader(content))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := f.Tables[0].Shards[0].Cache; got != c.want || strings.Join(f.Notes, "; ") != c.note {
			t.Errorf("%s with %s: got %v, %q; want %v, %q", c.kernel, c.params, got, f.Notes, c.want, c.note)
		}
	}
}

// Where the numbers of devices leave open how many ranks a host has, the cluster says.
func TestPlaceOnHosts(t *testing.T) {
	f := must.Get(ReadTorchRec("x.json", strings.NewReader(inPlan(`
		"t0": {"sharding_type": "table_wise", "compute_kernel": "fused", "shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "rank:1/cuda:1"}]},
		"t1": {"sharding_type": "table_wise", "compute_kernel": "fused", "shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": "rank:8/cuda:0"}]}`))))(t)
	for per, want := range map[int]bool{8: true, 4: true, 2: true, 1: false, 3: false, 12: false} {
		p := cluster(t, 12, per)
		p.Tables, _ = f.Shapes()
		if _, err := f.Place(p); (err == nil) != want {
			t.Errorf("%d ranks a host: got %v", per, err)
		}
	}
}

// The slices of a grid tell the ranks of a host, too.
func TestReadHostsOfGrid(t *testing.T) {
	f := must.Get(ReadTorchRec("x.json", strings.NewReader(sharded("grid_shard", [5]int{0, 0, 5, 4, 2}, [5]int{5, 0, 5, 4, 3}, [5]int{0, 4, 5, 4, 0}, [5]int{5, 4, 5, 4, 1}))))(t)
	if f.Local != 2 {
		t.Errorf("got %d ranks a host, want 2", f.Local)
	}
}

// The ranks of a host are guessed from the numbers of devices.
func TestReadHosts(t *testing.T) {
	for _, c := range []struct {
		placements []string
		want       int
	}{
		{[]string{"rank:0/cuda:0", "rank:1/cuda:1"}, 0},
		{[]string{"rank:7/cuda:7", "rank:8/cuda:0"}, 8},
		{[]string{"rank:3/cuda:1", "rank:4/cuda:0", "rank:6/cuda:0"}, 2},
		{[]string{"rank:3/cuda:2", "rank:4/cuda:0"}, 0}, // no hosts are like that
		{[]string{"rank:3/cpu", "rank:4/cpu"}, 0},
	} {
		var tables []string
		for i, placement := range c.placements {
			tables = append(tables, fmt.Sprintf(`"t%d": {"sharding_type": "table_wise", "compute_kernel": "fused", "shards": [{"shard_offsets": [0, 0], "shard_sizes": [1, 4], "placement": %q}]}`, i, placement))
		}
		f, err := ReadTorchRec("x.json", strings.NewReader(inPlan(strings.Join(tables, ", "))))
		if err != nil {
			t.Error(err)
		} else if f.Local != c.want {
			t.Errorf("%q: got %d ranks a host, want %d", c.placements, f.Local, c.want)
		}
	}
}

func TestPlaceRefuses(t *testing.T) {
	p, pl := everyKind(t)
	f := must.Get(ReadTorchRec("x.json", bytes.NewReader(exported(t, pl, Options{}))))(t)
	for _, c := range []struct {
		name   string
		mutate func(p *problem.Problem)
		want   string
	}{
		{"as it was", func(*problem.Problem) {}, ""},
		{"another order", func(p *problem.Problem) { slices.Reverse(p.Tables) }, ""},
		{
			"no modules", func(p *problem.Problem) {
				for i := range p.Tables {
					p.Tables[i].Module = ""
				}
				p.Tables[0].Name = "sparse.ebc/user"
			}, "",
		},
		{
			"a table missing", func(p *problem.Problem) { p.Tables[4].Name, p.Tables[5].Rows = "other", 11 },
			`the plan lacks 1 table of the problem: "other"
the plan has 1 table that the problem lacks: "grid"
the plan has 1 table in another shape (rows x dim): "tiny" of 10 x 4 instead of 11 x 4`,
		},
		{
			"a module renamed", func(p *problem.Problem) {
				for i := range p.Tables {
					if p.Tables[i].Module == "over.ebc" && p.Tables[i].Name != "over.ebc/user" {
						p.Tables[i].Module = "model.over.ebc"
					}
				}
			},
			`the plan has 5 tables in another module: "word" in "over.ebc" instead of "model.over.ebc", "grid" in "over.ebc" instead of "model.over.ebc", "tiny" in "over.ebc" instead of "model.over.ebc", "far" in "over.ebc" instead of "model.over.ebc", "near" in "over.ebc" instead of "model.over.ebc"`,
		},
		{
			"two tables for one", func(p *problem.Problem) { p.Tables[3].Name = "word" },
			`table "word": another of the tables is called "word" in module "over.ebc", too (rename one of them)`,
		},
		{
			"another cluster", func(p *problem.Problem) { p.Topology.Devices, p.Topology.DevicesPerHost = 8, 4 },
			`x.json: the plan is for 4 ranks, the cluster has 8 devices (it goes with --gpus 4)
x.json: the plan is for hosts of 2 ranks, the cluster has 4 devices a host (it goes with --set devices_per_host=2)`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := *p
			q.Tables = slices.Clone(p.Tables)
			c.mutate(&q)
			pl, err := f.Place(&q)
			got := faultsOf(t, err)
			if err == nil {
				var invalid *plan.Invalid
				errors.As(pl.Validate(&q), &invalid)
				for i := 0; invalid != nil && i < len(invalid.Violations) && invalid.Violations[i].Rule == plan.RuleTables; i++ {
					got = strings.TrimPrefix(got+"\n"+invalid.Violations[i].Message, "\n")
				}
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	f.World, f.Local = 0, 0
	q := *p
	q.Topology.Devices = 3
	if _, err := f.Place(&q); err == nil || !strings.Contains(err.Error(), "the plan places tables on rank 3, the cluster has 3 devices, numbered from 0") {
		t.Errorf("got %v, want the rank named", err)
	}
}

// endless is a file without end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	return len(b), nil
}

func TestReadIsBounded(t *testing.T) {
	e := &endless{}
	_, err := ReadTorchRec("x.json", e)
	if err == nil || !strings.Contains(err.Error(), "the file is larger than 100000000 bytes") || e.read > 2*MaxFile {
		t.Errorf("got %v after %d bytes", err, e.read)
	}
	_, err = ReadTorchRec("x.json", io.MultiReader(strings.NewReader(`{"plan`), brokenReader{}))
	if err == nil || !strings.Contains(err.Error(), "it cannot be read: no disk") {
		t.Errorf("got %v, want the reader's error", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("no disk") }

// FuzzReadTorchRec wants of any content: no panic, errors that are *input.Errors,
// and of what is read a placement that exports.
func FuzzReadTorchRec(f *testing.F) {
	for _, c := range badFiles {
		f.Add([]byte(c.content))
	}
	data := must.Get(os.ReadFile("testdata/serialized.json"))(f)
	f.Add(data)
	data = must.Get(os.ReadFile("testdata/torchrec.json"))(f)
	f.Add(data)
	f.Add([]byte(sharded("column_wise", [5]int{0, 0, 10, 4, 0}, [5]int{0, 4, 10, 8, 1})))
	f.Add([]byte(strings.Replace(inTable(`"cache_params": {"load_factor": 0.5, "stats": null}, "ranks": [0], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [9, 4]}]`), `"fused"`, `"fused_uvm_caching"`, 1)))
	f.Add([]byte(ours(`"cluster": {"profile":"a100-80","devices":4,"devices_per_host":2,"batch":1,"device_memory_bytes":1,"reserve_bytes":0,"weights_only":false,"host_memory_bytes":9,"comm_precision":"fp16"}, "plan": {"ebc": {"t": ` + wholeTable + `}}, "shapes": {"ebc": {"t": [10, 8]}}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadTorchRec("x.json", bytes.NewReader(data))
		if err != nil {
			var list *input.Errors
			if !errors.As(err, &list) || len(list.List) == 0 || file != nil || err.Error() == "" {
				t.Fatalf("got %v and %T %v", file, err, err)
			}
			return
		}
		shapes, err := file.Shapes()
		if err != nil {
			return
		}
		p := cluster(t, max(1, file.World), file.Local)
		if file.World == 0 {
			p.Topology.Devices = 1
			for i := range file.Tables {
				for _, s := range file.Tables[i].Shards {
					p.Topology.Devices = max(p.Topology.Devices, s.Device+1)
				}
			}
		}
		p.Tables = shapes
		if len(shapes) == 0 || p.Validate() != nil {
			return
		}
		pl, err := file.Place(p)
		if err != nil {
			return // hosts that do not go with the ranks
		}
		for _, v := range pl.CheckTables() {
			t.Fatalf("got a plan in which %v\n%s", v, data)
		}
		module := ""
		var b bytes.Buffer
		if err := TorchRec(&b, pl, Options{Module: &module}); err != nil {
			return // rows may be split otherwise than TorchRec can look them up
		}
		for i := range pl.Tables {
			if t := &pl.Tables[i]; t.ShardingType == plan.ColumnWise && len(joined(t.Shards, false)) < len(t.Shards) {
				return // such slices become one
			}
		}
		again := place(t, b.Bytes(), p)
		if d := gocmp.Diff(pl.Tables, again.Tables); d != "" {
			t.Fatalf("-want +got\n%s\n%s", d, data)
		}
	})
}

// FuzzExport wants of any plan file: no panic, and nothing written beside an error.
func FuzzExport(f *testing.F) {
	_, pl := everyKind(f)
	var b bytes.Buffer
	must.Do(f, pl.Write(&b))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		pl, err := plan.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		module := "ebc"
		for _, export := range []func(io.Writer) error{
			func(w io.Writer) error { return TorchRec(w, pl, Options{Module: &module}) },
			func(w io.Writer) error { return HugeCTR(w, pl, Options{}) },
			func(w io.Writer) error { return HugeCTR(w, pl, Options{Python: true}) },
		} {
			var b bytes.Buffer
			if err := export(&b); err != nil && b.Len() > 0 {
				t.Fatalf("got %d bytes and %v", b.Len(), err)
			}
		}
	})
}
