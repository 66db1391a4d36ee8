package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/neuroshard/neuroshard/problem"
)

func TestDiffOfEqualPlans(t *testing.T) {
	_, a := sample(t)
	_, b := sample(t)
	got := Diff(a, b)
	if got.Unchanged != 9 || len(got.Tables)+len(got.OnlyBefore)+len(got.OnlyAfter) != 0 || got.Transfer.Bytes != 0 || got.Cluster != nil {
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

	state := func(rows int64, dim int, kind ShardingType, shards int, devices ...int) TableState {
		return TableState{Rows: rows, Dim: dim, ShardingType: kind, Shards: shards, Devices: devices}
	}
	want := []TableChange{
		{Name: "user", Before: state(1000, 64, TableWise, 1, 0), After: state(1000, 64, TableWise, 1, 3), Moved: true, Bytes: 4 * 64000},
		{Name: "item", Before: state(2000, 128, ColumnWise, 3, 1, 2, 3), After: state(2000, 128, ColumnWise, 4, 0, 1, 2, 3), Recut: true, Moved: true, Bytes: 4*64000 + 4*2000},
		{Name: "word", Before: state(500, 32, TableWise, 1, 1), After: state(500, 32, DataParallel, 1, -1), Retyped: true, Moved: true, Bytes: 3 * 2 * 16000},
		{Name: "time", Before: state(24, 8, TableWise, 1, 2), After: state(48, 8, TableWise, 1, 2), Resized: true, Recut: true},
		{Name: "host", Before: state(4000, 16, TableRowWise, 2, 2, 3), After: state(4000, 16, TableRowWise, 2, 2, 3), Recut: true, Moved: true, Bytes: 8 * 16},
		{Name: "everywhere", Before: state(10, 4, DataParallel, 1, -1), After: state(10, 4, TableWise, 1, 2), Retyped: true, Moved: true},
	}
	got := Diff(a, b)
	if d := cmp.Diff(want, got.Tables); d != "" {
		t.Errorf("tables, -want +got:\n%s", d)
	}
	if got.Unchanged != 2 {
		t.Errorf("got %d unchanged tables, want 2", got.Unchanged)
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
	if got := Diff(a, b); got.Hidden == nil || *got.Hidden != (Change[Hidden]{Before: hides}) {
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
	if got := Diff(a, b); got.Hierarchy == nil || *got.Hierarchy != (Change[problem.Hierarchy]{After: own}) {
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
	if len(got.Tables) != 1 || !got.Tables[0].Moved || !slices.Equal(got.Tables[0].After.Tiers, []Tier{Host}) || got.Transfer.Bytes != 0 {
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
	if len(got.Tables) != 1 || !got.Tables[0].Moved || got.Tables[0].Recut || got.Transfer.Bytes != 0 {
		t.Fatalf("got %+v, want a table whose cache changes", got.Tables)
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
	if len(got.Tables) != 1 || got.Tables[0].Module == nil || *got.Tables[0].Module != (Change[string]{"model.ebc", "ebc"}) || got.Tables[0].Moved {
		t.Errorf("got %+v, want one table in another module", got.Tables)
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
