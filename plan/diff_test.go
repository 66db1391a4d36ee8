package plan

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

func TestDiffOfEqualPlans(t *testing.T) {
	_, a := sample(t)
	_, b := sample(t)
	got := Diff(a, b)
	if got.Unchanged != 9 || len(got.Tables)+len(got.OnlyBefore)+len(got.OnlyAfter) != 0 || got.Elements != 0 || got.Cluster != nil {
		t.Errorf("got %+v, want 9 unchanged tables and nothing else", got)
	}
	if len(got.Devices) != 4 || *got.Devices[3].Before != *got.Devices[3].After {
		t.Errorf("got devices %+v, want 4 that are the same", got.Devices)
	}
}

func TestDiff(t *testing.T) {
	p, a := sample(t)
	_, b := sample(t)
	// user moves; item's first slice is cut in two and one of both moves; word goes
	// to every device; place is renamed; time is resized; host gets one row less
	// on its first device; everywhere goes to one device.
	b.Tables[0].Shards[0].Device = 3
	b.Tables[1].Shards = append(b.Tables[1].Shards,
		Shard{span(0, 2000), span(16, 48), 0, HBM, 0})
	b.Tables[1].Shards[0].Columns = span(0, 16)
	slices.SortFunc(b.Tables[1].Shards, compareShards)
	b.Tables[2].ShardingType, b.Tables[2].Shards[0].Device = DataParallel, -1
	b.Tables[3].Name = "venue"
	b.Tables[4].Rows, b.Tables[4].Shards[0].Rows = 48, span(0, 48)
	b.Tables[6].Shards[0].Rows, b.Tables[6].Shards[1].Rows = span(0, 1999), span(1999, 4000)
	b.Tables[8].ShardingType, b.Tables[8].Shards[0].Device = TableWise, 2
	restate(p, b)
	b.Devices[0].Forward, b.Predicted = 20, 23.25
	b.Cluster.Batch = 2048

	at := func(rows0, rows1, columns0, columns1 int64, from, to int, elements int64) Move {
		return Move{[2]int64{rows0, rows1}, [2]int64{columns0, columns1}, from, to, HBM, HBM, 0, 0, elements}
	}
	want := []TableChange{
		{
			Name: "user", Before: TableState{1000, 64, TableWise, 1, []int{0}, nil, nil, 0}, After: TableState{1000, 64, TableWise, 1, []int{3}, nil, nil, 0},
			Moved: true, Moves: []Move{at(0, 1000, 0, 64, 0, 3, 64000)}, Elements: 64000,
		},
		{
			Name: "item", Before: TableState{2000, 128, ColumnWise, 3, []int{1, 2, 3}, nil, nil, 0}, After: TableState{2000, 128, ColumnWise, 4, []int{0, 1, 2, 3}, nil, nil, 0},
			Recut: true, Moved: true, Moves: []Move{at(0, 2000, 16, 48, 2, 0, 64000)}, Elements: 64000,
		},
		{
			Name: "word", Before: TableState{500, 32, TableWise, 1, []int{1}, nil, nil, 0}, After: TableState{500, 32, DataParallel, 1, []int{-1}, nil, nil, 0},
			Retyped: true, Moved: true, Moves: []Move{at(0, 500, 0, 32, 1, -1, 16000)}, Elements: 16000,
		},
		{
			Name: "time", Before: TableState{24, 8, TableWise, 1, []int{2}, nil, nil, 0}, After: TableState{48, 8, TableWise, 1, []int{2}, nil, nil, 0},
			Resized: true, Recut: true, Moves: []Move{},
		},
		{
			Name: "host", Before: TableState{4000, 16, TableRowWise, 2, []int{2, 3}, nil, nil, 0}, After: TableState{4000, 16, TableRowWise, 2, []int{2, 3}, nil, nil, 0},
			Recut: true, Moved: true, Moves: []Move{at(1999, 2000, 0, 16, 2, 3, 16)}, Elements: 16,
		},
		{
			Name: "everywhere", Before: TableState{10, 4, DataParallel, 1, []int{-1}, nil, nil, 0}, After: TableState{10, 4, TableWise, 1, []int{2}, nil, nil, 0},
			Retyped: true, Moved: true, Moves: []Move{at(0, 10, 0, 4, -1, 2, 0)},
		},
	}
	got := Diff(a, b)
	if d := cmp.Diff(want, got.Tables); d != "" {
		t.Errorf("tables, -want +got:\n%s", d)
	}
	if got.Unchanged != 2 || got.Elements != 64000+64000+16000+16 {
		t.Errorf("got %d unchanged tables, %d elements; want 2 and 144016", got.Unchanged, got.Elements)
	}
	if !slices.Equal(got.OnlyBefore, []string{"place"}) || !slices.Equal(got.OnlyAfter, []string{"venue"}) {
		t.Errorf("got only before %v, only after %v; want place, venue", got.OnlyBefore, got.OnlyAfter)
	}
	if got.Cost.Before == nil || *got.Cost.Before != 12.75 || got.Cost.After == nil || *got.Cost.After != 23.25 {
		t.Errorf("got cost %v, want %v", got.Cost, want)
	}
	if got.Cluster == nil || got.Cluster.Before.Batch != 1024 || got.Cluster.After.Batch != 2048 {
		t.Errorf("got cluster %+v, want batch 1024 -> 2048", got.Cluster)
	}
	before := DeviceTotals{5, 116, a.Devices[0].Memory.Total() - a.Devices[0].Memory.Reserve, 0, 0, 4.25}
	after := DeviceTotals{b.Devices[0].Shards, b.Devices[0].DimSum, b.Devices[0].Memory.Total() - b.Devices[0].Memory.Reserve, 0, 0, 23.25}
	if d := got.Devices[0]; *d.Before != before || *d.After != after {
		t.Errorf("device 0: got %+v -> %+v, want %+v -> %+v", *d.Before, *d.After, before, after)
	}
}

// Two plans of equal placements may leave out different times of the exchanges.
func TestDiffHidden(t *testing.T) {
	_, a := sample(t)
	_, b := sample(t)
	hides := Hidden{Forward: 0.5, Backward: 1, Replicas: true}
	a.Provenance.Hidden = hides
	if got := Diff(a, b); got.Hidden == nil || *got.Hidden != (HiddenChange{Before: hides}) {
		t.Errorf("got hidden %+v, want %+v -> nothing", got.Hidden, hides)
	}
	b.Provenance.Hidden = hides
	if got := Diff(a, b); got.Hidden != nil {
		t.Errorf("both hide %+v: got hidden %+v, want nil", hides, got.Hidden)
	}
}

// Two plans of equal placements may count different exchanges.
func TestDiffHierarchy(t *testing.T) {
	_, a := sample(t)
	_, b := sample(t)
	own := problem.Hierarchy{Sent: 1, Inside: 1, Between: 1}
	b.Provenance.Hierarchy = own
	if got := Diff(a, b); got.Hierarchy == nil || *got.Hierarchy != (HierarchyChange{After: own}) {
		t.Errorf("got %+v, want flat -> %+v", got.Hierarchy, own)
	}
	a.Provenance.Hierarchy = own
	if got := Diff(a, b); got.Hierarchy != nil {
		t.Errorf("both have %+v: got %+v, want nil", own, got.Hierarchy)
	}
}

func TestDiffTierAndDevices(t *testing.T) {
	_, a := sample(t)
	_, b := sample(t)
	b.Tables[0].Shards[0].Tier = Host
	b.Devices = append(b.Devices, Device{Shards: 1, StepTimes: StepTimes{Forward: 7}})
	got := Diff(a, b)
	if len(got.Tables) != 1 || len(got.Tables[0].Moves) != 1 || got.Tables[0].Moves[0].ToTier != Host || got.Elements != 0 {
		t.Errorf("got %+v, want one table that goes to host memory without being sent", got.Tables)
	}
	last := got.Devices[4]
	if last.Before != nil || last.After == nil || last.After.Total != 7 {
		t.Errorf("got device %+v, want it in the second plan only", last)
	}
}

// A change of a cache alone is a change, and sharding types are counted if some are
// neither table_wise nor column_wise.
func TestDiffCaches(t *testing.T) {
	_, a := sample(t)
	_, b := sample(t)
	a.Tables[0].Shards[0].Tier, a.Tables[0].Shards[0].Cache = HostCached, 0.1
	b.Tables[0].Shards[0].Tier, b.Tables[0].Shards[0].Cache = HostCached, 0.3
	b.Devices[0].Memory.Host, b.Devices[0].Memory.Cache = 7, 3
	got := Diff(a, b)
	if len(got.Tables) != 1 || !got.Tables[0].Moved || got.Tables[0].Recut || got.Elements != 0 {
		t.Fatalf("got %+v, want a table whose cache changes", got.Tables)
	}
	want := []Move{{Rows: [2]int64{0, 1000}, Columns: [2]int64{0, 64}, FromTier: HostCached, ToTier: HostCached, FromCache: 0.1, ToCache: 0.3}}
	if d := cmp.Diff(want, got.Tables[0].Moves); d != "" {
		t.Errorf("moves, -want +got:\n%s", d)
	}
	if s := got.Tables[0].After; !slices.Equal(s.Tiers, []Tier{HostCached}) || !slices.Equal(s.Caches, []float64{0.3}) {
		t.Errorf("got %+v", s)
	}
	if d := got.Devices[0].After; d.Host != 7 || d.Cache != 3 {
		t.Errorf("got %+v, want 7 bytes of host and 3 of cache", d)
	}
	kinds := []ShardingTypeChange{{TableWise, 4, 4}, {ColumnWise, 1, 1}, {RowWise, 1, 1}, {TableRowWise, 1, 1}, {Grid, 1, 1}, {DataParallel, 1, 1}}
	if d := cmp.Diff(kinds, got.ShardingTypes); d != "" {
		t.Errorf("kinds, -want +got:\n%s", d)
	}
	a.Tables, b.Tables = a.Tables[1:5], b.Tables[1:5]
	if got := Diff(a, b); got.ShardingTypes != nil || !a.Plain() {
		t.Errorf("got kinds %v of plans of slices of columns", got.ShardingTypes)
	}
}

func TestDiffModule(t *testing.T) {
	_, a := sample(t)
	_, b := sample(t)
	b.Tables[0].Module = "ebc"
	if got := Diff(a, b); len(got.Tables) != 0 {
		t.Errorf("got %+v where one plan states no module, want no change", got.Tables)
	}
	a.Tables[0].Module = "model.ebc"
	got := Diff(a, b)
	if len(got.Tables) != 1 || got.Tables[0].Module == nil || *got.Tables[0].Module != (ModuleChange{"model.ebc", "ebc"}) || got.Tables[0].Moved {
		t.Errorf("got %+v, want one table in another module", got.Tables)
	}
}

// The JSON of a change uses the plan file's words.
func TestDiffJSON(t *testing.T) {
	_, a := sample(t)
	a.Tables, a.Devices = a.Tables[:1], a.Devices[:1]
	_, b := sample(t)
	b.Tables, b.Devices = b.Tables[:1], b.Devices[:1]
	b.Tables[0].Shards[0].Device = 1
	got, err := json.Marshal(Diff(a, b))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cost_ms":{"before":12.75,"after":12.75},` +
		`"devices":[{"device":0,"before":{"shards":5,"dim_sum":116,"memory_bytes":2270344,"total_ms":4.25},"after":{"shards":5,"dim_sum":116,"memory_bytes":2270344,"total_ms":4.25}}],` +
		`"tables":[{"name":"user","before":{"rows":1000,"dim":64,"sharding_type":"table_wise","shards":1,"devices":[0]},"after":{"rows":1000,"dim":64,"sharding_type":"table_wise","shards":1,"devices":[1]},` +
		`"resized":false,"sharding_type_changed":false,"recut":false,"moved":true,"moves":[{"rows":[0,1000],"columns":[0,64],"from":0,"to":1,"from_tier":"hbm","to_tier":"hbm","elements":64000}],"elements":64000}],` +
		`"unchanged":0,"only_before":[],"only_after":[],"elements":64000,` +
		`"transfer":{"bytes":256000,"weights_bytes":256000,"state_bytes":0,"between_bytes":0,"added_bytes":0,"lost_bytes":0,"total_bytes":256000,"inside_ms":0.0011130434782608695,"between_ms":0,"timed":true,` +
		`"devices":[{"device":0,"in_bytes":0,"out_bytes":256000,"in_between_bytes":0,"out_between_bytes":0},{"device":1,"in_bytes":256000,"out_bytes":0,"in_between_bytes":0,"out_between_bytes":0},` +
		`{"device":2,"in_bytes":0,"out_bytes":0,"in_between_bytes":0,"out_between_bytes":0},{"device":3,"in_bytes":0,"out_bytes":0,"in_between_bytes":0,"out_between_bytes":0}],` +
		`"tables":[{"name":"user","bytes":256000,"moves":[{"rows":[0,1000],"columns":[0,64],"from":0,"to":1,"bytes":256000,"link":"inside"}]}]}}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// The moves between any two placements are the elements that lie elsewhere,
// counted one by one.
func TestMovesAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rows, dim = 6, 8
		cut := func(kind string) []Shard {
			columns, rowCuts := cuts(t, dim, 1, 1), []int64{0, rows}
			var shards []Shard
			for c := range columns[1:] {
				if rapid.Bool().Draw(t, kind+" rows") {
					rowCuts = cuts(t, rows, 1, 1)
				}
				for r := range rowCuts[1:] {
					shards = append(shards, Shard{span(rowCuts[r], rowCuts[r+1]), span(columns[c], columns[c+1]), rapid.IntRange(-1, 2).Draw(t, kind+" device"), HBM, 0})
				}
			}
			return shards
		}
		holder := func(shards []Shard, row, column int64) int {
			for _, s := range shards {
				if s.Rows.Start <= row && row < s.Rows.End && s.Columns.Start <= column && column < s.Columns.End {
					return s.Device
				}
			}
			t.Fatalf("nobody holds row %d, column %d of %v", row, column, shards)
			return 0
		}
		a := Table{Name: "t", Rows: rows, Dim: dim, ShardingType: Grid, Shards: cut("before")}
		b := Table{Name: "t", Rows: rows, Dim: dim, ShardingType: Grid, Shards: cut("after")}
		type step struct{ from, to int }
		want, got := map[step]int64{}, map[step]int64{}
		sent := int64(0)
		for row := range int64(rows) {
			for column := range int64(dim) {
				if s := (step{holder(a.Shards, row, column), holder(b.Shards, row, column)}); s.from != s.to {
					want[s]++
					if s.from != -1 {
						sent++
					}
				}
			}
		}
		c, _ := compareTables(&a, &b)
		for _, m := range c.Moves {
			got[step{m.From, m.To}] += (m.Rows[1] - m.Rows[0]) * (m.Columns[1] - m.Columns[0])
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(step{})); d != "" {
			t.Fatalf("from %v to %v, -want +got:\n%s", a.Shards, b.Shards, d)
		}
		if c.Elements != sent {
			t.Fatalf("got %d elements sent, want %d", c.Elements, sent)
		}
	})
}

func TestDiffNeverOverflows(t *testing.T) {
	huge := func(device int) *Plan {
		pl := &Plan{}
		for _, name := range []string{"a", "b", "c"} {
			all := problem.Range{End: 1 << 40}
			pl.Tables = append(pl.Tables, Table{Name: name, Shards: slices.Repeat([]Shard{{all, span(0, 1<<14), device, HBM, 0}}, 400)})
		}
		return pl
	}
	if got := Diff(huge(0), huge(1)); got.Elements < 0 {
		t.Errorf("got %d elements, want no overflow", got.Elements)
	}
	if got, want := unit.Bytes(plus(1<<62, 1<<62)), unit.Bytes(1<<63-1); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func BenchmarkDiff(b *testing.B) {
	p, shards := large(b, 10_000, 64, 1024)
	before := New(p, shards)
	slices.Reverse(shards)
	after := New(p, shards)
	for b.Loop() {
		Diff(before, after)
	}
}
