package export

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
)

// dealtOut draws a problem for HugeCTR on up to three hosts, and a plan that HugeCTR runs: whole
// tables, equal slices, rows on all devices, on those of a host and on chosen ones, grids of whole
// hosts and of chosen devices, and replicas.
func dealtOut(t *rapid.T) (*problem.Problem, *plan.Plan) {
	hosts, per := rapid.IntRange(1, 3).Draw(t, "hosts"), rapid.IntRange(1, 4).Draw(t, "per host")
	n := hosts * per
	p := cluster(t, n, per)
	p.Engine = problem.HugeCTR
	var tables []plan.Table
	for i := range rapid.IntRange(1, 6).Draw(t, "tables") {
		gpus := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, n, rapid.ID).Draw(t, "gpus")
		if host := rapid.IntRange(0, hosts).Draw(t, "host"); host < hosts {
			gpus = nil
			for d := range per {
				gpus = append(gpus, host*per+d)
			}
		}
		slices.Sort(gpus)
		var divisors []int
		for k := range len(gpus) + 1 {
			if k > 0 && len(gpus)%k == 0 {
				divisors = append(divisors, k)
			}
		}
		d := dealt{name: fmt.Sprint("t", i), slices: rapid.SampledFrom(divisors).Draw(t, "slices"), gpus: gpus}
		if n > 1 && rapid.IntRange(0, 4).Draw(t, "replicated") == 0 {
			d.slices = 0
		}
		want := problem.Table{
			Name: d.name, Rows: rapid.Int64Range(200, 1e6).Draw(t, "rows"), Dim: 4 * max(1, d.slices) * rapid.IntRange(1, 4).Draw(t, "width/4"),
			Features: []problem.Feature{{PoolingFactor: 2}},
		}
		if rapid.Bool().Draw(t, "module") {
			want.Module = "sparse.ebc"
		}
		cut := d.cut(&want, p.Topology, &faults{})
		if cut.ShardingType == plan.TableWise || cut.ShardingType == plan.ColumnWise {
			want.ChooseDedup = rapid.Bool().Draw(t, "choose dedup")
			cut.IndexDedup = want.ChooseDedup && rapid.Bool().Draw(t, "index dedup")
		}
		p.Tables, tables = append(p.Tables, want), append(tables, cut)
	}
	all := plan.Table{Name: "all", Rows: 10, Dim: 4, ShardingType: plan.DataParallel, Shards: []plan.Shard{{Rows: span(0, 10), Columns: span(0, 4), Device: everyRank, Tier: plan.HBM}}}
	p.Tables = append(p.Tables, problem.Table{Name: "all", Rows: 10, Dim: 4, Features: []problem.Feature{{PoolingFactor: 1}}})
	return p, plan.Of(p, append(tables, all))
}

// TestHugeCTRRoundTrip: a plan that HugeCTR runs is valid, and exported and imported it is the same.
func TestHugeCTRRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, pl := dealtOut(t)
		must.Do(t, pl.Validate(p))
		var file bytes.Buffer
		must.Do(t, HugeCTR(&file, pl, Options{}))
		f, err := ReadHugeCTR("plan.json", bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, file.String())
		}
		back, err := f.Place(p)
		if err != nil {
			t.Fatalf("%v\n%s", err, file.String())
		}
		if d := gocmp.Diff(pl, back); d != "" {
			t.Fatalf("-want +got\n%s", d)
		}
	})
}

// TestReadHugeCTR reads a file of another tool, with rows on GPUs 0, 3 and 5.
func TestReadHugeCTR(t *testing.T) {
	p := cluster(t, 6, 3)
	p.Engine = problem.HugeCTR
	for _, want := range []problem.Table{{Name: "0", Rows: 1000, Dim: 8}, {Name: "1", Rows: 7, Dim: 8}, {Name: "2", Rows: 300, Dim: 8}, {Name: "3", Rows: 90, Dim: 16}, {Name: "4", Rows: 9, Dim: 4}, {Name: "5", Rows: 3, Dim: 4}, {Name: "6", Rows: 1, Dim: 4}, {Name: "7", Rows: 2, Dim: 4}} {
		want.Features = []problem.Feature{{PoolingFactor: 1}}
		p.Tables = append(p.Tables, want)
	}
	const file = `{"shard_matrix": [["0", "4", "5"], ["1", "3", "4", "6"], ["3", "4", "5", "6"], ["0", "2", "3", "4", "5", "7"], ["2", "4", "5", "7"], ["0", "2", "3", "4", "7"]],
		"shard_strategy": [["dp", ["4"]], ["mp", ["0", "1", "2", ["3", 2], "5", "6", "7"]]]}`
	f := must.Get(ReadHugeCTR("theirs.json", strings.NewReader(file)))(t)
	pl := must.Get(f.Place(p))(t)
	must.Do(t, pl.Validate(p))
	var got []string
	for _, table := range pl.Tables {
		text := fmt.Sprintf("%s %s:", table.Name, table.ShardingType)
		for _, s := range table.Shards {
			text += fmt.Sprintf(" %d:%v%v", s.Device, s.Rows, s.Columns)
		}
		got = append(got, text)
	}
	want := []string{
		"0 row_wise: 0:{0 334}{0 8} 3:{334 668}{0 8} 5:{668 1000}{0 8}",
		"1 table_wise: 1:{0 7}{0 8}",
		"2 table_row_wise: 3:{0 100}{0 8} 4:{100 200}{0 8} 5:{200 300}{0 8}",
		"3 grid: 1:{0 45}{0 8} 2:{45 90}{0 8} 3:{0 45}{8 16} 5:{45 90}{8 16}",
		"4 data_parallel: -1:{0 9}{0 4}",
		"5 row_wise: 0:{0 1}{0 4} 2:{1 2}{0 4} 3:{2 3}{0 4}", // the last GPU has none of three rows
		"6 table_wise: 1:{0 1}{0 4}",
		"7 table_row_wise: 3:{0 1}{0 4} 4:{1 2}{0 4}",
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := f.Shapes(); err == nil || !strings.Contains(err.Error(), "add --tables") {
		t.Errorf("shapes: got error %v, want one that asks for the tables", err)
	}
}

// TestReadHugeCTRRefuses lists files with something wrong in each.
func TestReadHugeCTRRefuses(t *testing.T) {
	two := func(matrix, strategy string) string {
		return `{"shard_matrix": ` + matrix + `, "shard_strategy": ` + strategy + `}`
	}
	for _, test := range []struct{ name, file, want string }{
		{"empty", "", "x.json:1: the file ends in the middle"},
		{"Python", "shard_matrix = []", `x.json:1: invalid character 's' at start of value (write it with json.dump({"shard_matrix": ..., "shard_strategy": ...}, file))`},
		{"neither key", "{}", `x.json: the key "shard_matrix" or "shard_strategy" is missing`},
		{"no strategy", `{"shard_matrix": [["a"]]}`, `x.json: the key "shard_matrix" or "shard_strategy" is missing`},
		{"of TorchRec", `{"format": "neuroshard-torchrec-plan", "version": 1}`, "x.json: this is an export for TorchRec (import it without --from, or with --from torchrec)"},
		{"a plan of ours", `{"format": "neuroshard-plan", "version": 1}`, "x.json: this is a plan of neuroshard already"},
		{"newer", `{"format": "neuroshard-hugectr-plan", "version": 2}`, "x.json: the file has version 2 of its format: this program knows version 1 only"},
		{"another key", `{"plan": {}, "shard_matrix": [["a"]], "shard_strategy": [["mp", ["a"]]]}`, `x.json:1: key "plan" is unknown`},
		{"no GPU", two(`[]`, `[]`), "x.json: shard_matrix: it lists no GPU"},
		{"other gpus", `{"gpus": 3, "shard_matrix": [["a"]], "shard_strategy": [["mp", ["a"]]]}`, "x.json: shard_matrix: it lists 1 GPUs, and gpus is 3"},
		{"a larger host", `{"gpus_per_host": 3, "shard_matrix": [["a"]], "shard_strategy": [["mp", ["a"]]]}`, "x.json: gpus_per_host: 3 GPUs of a host, where there are 1"},
		{"twice on a GPU", two(`[["a", "a"]]`, `[["mp", ["a"]]]`), `x.json: shard_matrix[0]: table "a" is there twice`},
		{"twice in strategies", two(`[["a"]]`, `[["mp", ["a"]], ["dp", ["a"]]]`), `x.json: shard_strategy: table "a" is there twice`},
		{"on no GPU", two(`[["a"]]`, `[["mp", ["a", "b"]]]`), `x.json: shard_strategy: table "b" is on no GPU of shard_matrix`},
		{"no strategy for it", two(`[["a", "b"]]`, `[["mp", ["a"]]]`), `x.json: shard_strategy: table "b" of shard_matrix has no strategy`},
		{"dp on a part", two(`[["a"], ["b"]]`, `[["dp", ["a"]], ["mp", ["b"]]]`), `x.json: shard_strategy: table "a" is data-parallel and on 1 of 2 GPUs`},
		{"dp in slices", two(`[["a"]]`, `[["dp", [["a", 2]]]]`), `table "a" is data-parallel and cut into 2 slices of columns`},
		{"no multiple", two(`[["a"], ["a"], ["a"]]`, `[["mp", [["a", 2]]]]`), `x.json: shard_strategy: table "a" has 2 slices of columns and is on 3 GPUs, which is not a multiple`},
		{"no slices", two(`[["a"]]`, `[["mp", [["a", 0]]]]`), `table "a" is cut into 0 slices of columns`},
		{"unknown strategy", two(`[["a"]]`, `[["rows", ["a"]]]`), `x.json: shard_strategy: strategy "rows" is unknown: choose mp or dp`},
		{"strategy alone", two(`[["a"]]`, `[["mp"]]`), `x.json:1: shard_strategy[0]: it has 1 values, not 2`},
		{"name alone", two(`[["a"]]`, `[["mp", [["a"]]]]`), `it has 1 values, not 2 (write ["name", slices])`},
		{"deduplicated, unknown", `{"shard_matrix": [["a"]], "shard_strategy": [["mp", ["a"]]], "compression_strategy": {"Unique": ["b"]}}`, `x.json: compression_strategy: table "b" is in no shard_strategy`},
		{"deduplicated twice", `{"shard_matrix": [["a"]], "shard_strategy": [["mp", ["a"]]], "compression_strategy": {"Unique": ["a", "a"]}}`, `x.json: compression_strategy: table "a" is there twice`},
		{"deduplicated and not", `{"shard_matrix": [["a"]], "shard_strategy": [["mp", ["a"]]], "compression_strategy": {"Unique": ["a"], "Reduction": ["a"]}}`, `x.json: compression_strategy: table "a" is there twice`},
		{"number for a name", two(`[[7]]`, `[["mp", ["a"]]]`), `x.json:1: shard_matrix[0][0]: a number is not a string`},
	} {
		_, err := ReadHugeCTR("x.json", strings.NewReader(test.file))
		if got := faultsOf(t, err); !strings.HasPrefix(got, test.want) && !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestPlaceHugeCTRRefuses lists all tables that do not fit a file, in one error.
func TestPlaceHugeCTRRefuses(t *testing.T) {
	p := cluster(t, 4, 2)
	for _, want := range []problem.Table{{Name: "few", Rows: 2, Dim: 8}, {Name: "narrow", Rows: 100, Dim: 4}, {Name: "extra", Rows: 100, Dim: 4}} {
		want.Features, want.IndexDedup = []problem.Feature{{PoolingFactor: 1}}, want.Name == "narrow"
		p.Tables = append(p.Tables, want)
	}
	const file = `{"gpus_per_host": 3, "shard_matrix": [["few", "narrow"], ["few", "narrow"], ["few", "other"]], "shard_strategy": [["mp", ["few", ["narrow", 2], "other"]]], "compression_strategy": {"Unique": ["few"]}}`
	f, err := ReadHugeCTR("x.json", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Place(p)
	const want = `table "narrow": its 4 columns in 2 slices: the slices of a plan have the same width, a multiple of 4
table "narrow": the table states index_dedup, but compression_strategy of the file does not deduplicate its indices (state choose_dedup for the table, or list it as Unique)
x.json: the plan is for 3 ranks, the cluster has 4 devices (it goes with --gpus 3)
x.json: the plan is for hosts of 3 ranks, the cluster has 2 devices a host (it goes with --set devices_per_host=3)
table "few": the file deduplicates its indices, but the table states neither index_dedup nor choose_dedup (state index_dedup or choose_dedup for the table)`
	if got := faultsOf(t, err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
