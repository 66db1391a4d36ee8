package problem_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// drawDedup draws a table whose indices are deduplicated, on some devices.
func drawDedup(t *rapid.T) *problem.Problem {
	table := problem.Table{
		Name: "a", Rows: rapid.Int64Range(1, 1<<24).Draw(t, "rows"), Dim: 4 * rapid.IntRange(1, 32).Draw(t, "dim"),
		Pooling: problem.Pooling(rapid.IntRange(0, 2).Draw(t, "pooling")), IndexDedup: true, Optimizer: problem.RowwiseAdagrad,
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "features") {
		f := problem.Feature{Name: fmt.Sprint(i), PoolingFactor: rapid.Float64Range(0, 100).Draw(t, "pooling factor")}
		if table.Pooling != problem.PoolingNone {
			f.Bags = rapid.Float64Range(.1, 3).Draw(t, "bags")
			table.Weighted = rapid.Bool().Draw(t, "weighted")
		}
		table.Features = append(table.Features, f)
	}
	batch := rapid.IntRange(1, 1<<14).Draw(t, "batch")
	switch rapid.IntRange(0, 2).Draw(t, "access") {
	case 0:
		table.Access = access.Distribution{Kind: access.Uniform}
	case 1:
		table.Access = access.Distribution{Kind: access.Zipf, Exponent: rapid.Float64Range(.1, 3).Draw(t, "zipf")}
	default:
		zipf := access.Distribution{Kind: access.Zipf, Exponent: rapid.Float64Range(.1, 3).Draw(t, "zipf of the histogram")}
		counted := rapid.IntRange(1, 1<<14).Draw(t, "batch of the histogram")
		c := zipf.At(table.Rows, table.PoolingFactor(), counted)
		table.Access = access.Distribution{Kind: access.Histogram, Reuse: c.Reuse, Batch: counted, UniqueRows: c.Unique}
		if c.Lookups == 0 {
			table.Access = access.Distribution{Kind: access.Uniform}
		}
	}
	if rapid.Bool().Draw(t, "multi-hot") {
		table.Access.Law = access.MultiHot
	}
	h100 := must.Get(hardware.ByName("h100-80"))(t)
	return &problem.Problem{
		Tables: []problem.Table{table}, Batch: batch,
		Topology: hardware.Topology{Profile: h100, Devices: rapid.IntRange(1, 16).Draw(t, "devices"), ReserveShare: hardware.NoReserve},
	}
}

// without returns the problem without deduplication.
func without(p *problem.Problem) *problem.Problem {
	plain := *p
	plain.Tables = append([]problem.Table{}, p.Tables...)
	plain.Tables[0].IndexDedup = false
	return &plain
}

// TestDeduplicatedIsLess: a deduplicated table has no more lookups, vectors and distinct rows than the
// same table without deduplication, and a device reads each row of its own samples once. The
// deduplicated problem counts the bytes of the stated one.
func TestDeduplicatedIsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawDedup(t)
		table := &p.Tables[0]
		plain, own := without(p), problem.Deduplicated(p)
		if problem.Deduplicated(own) != own || problem.Deduplicated(plain) != plain {
			t.Fatal("the problem is made again, want the same")
		}
		devices := p.Topology.Devices
		c, all := own.Tables[0].Counts(p.Batch), p.Tables[0].Counts(p.Batch)
		local := (p.Batch + devices - 1) / devices
		part := p.Tables[0].Counts(local)
		const tiny = 1 + 1e-9
		if c.Lookups > tiny*all.Lookups || c.Unique > tiny*all.Unique || c.Unique > tiny*c.Lookups {
			t.Errorf("got %v, want no more than %v", c, all)
		}
		if want := part.Unique * float64(p.Batch) / float64(local); math.Abs(c.Lookups-want) > 1e-9*want {
			t.Errorf("got %v lookups, want %v", c.Lookups, want)
		}
		replica := problem.ReplicasOf(p)
		if r := replica.Tables[0].Counts(replica.Batch); math.Abs(r.Unique-part.Unique) > 1e-9*part.Unique || math.Abs(r.Lookups-r.Unique) > 1e-9*r.Lookups {
			t.Errorf("replica: got %v lookups of %v rows, want %v of each", r.Lookups, r.Unique, part.Unique)
		}
		if got, most := p.DimSum(p.Whole(0)), problem.Columns(table.Dim, table.PoolingFactor()); got > most || got != own.DimSum(p.Whole(0)) {
			t.Errorf("columns: got %d and %d of the deduplicated problem, want no more than %d", got, own.DimSum(p.Whole(0)), most)
		}
		block := p.Whole(0)
		block.ShardingType, block.Rows.End = problem.RowWise, p.Tables[0].BlockRows(devices)
		for _, s := range []problem.Shard{p.Whole(0), block} {
			for _, p.Accounting = range []problem.Accounting{problem.CountAll, problem.CountTorchRec(problem.NewestTorchRec())} {
				plain.Accounting, own.Accounting = p.Accounting, p.Accounting
				got, most := p.ShardMemory(s)[problem.ForwardExchange], plain.ShardMemory(s)[problem.ForwardExchange]
				if other := own.ShardMemory(s)[problem.ForwardExchange]; table.Pooling == problem.PoolingNone && (got.Outputs > most.Outputs || got.Indices > most.Indices) || off(got.Outputs, other.Outputs) || off(got.Indices, other.Indices) {
					t.Errorf("%v: got %+v and %+v of the deduplicated problem, want no more than %+v", p.Accounting, got, other, most)
				}
				if got, other := p.DeviceMemory(0), own.DeviceMemory(0); got != other {
					t.Errorf("%v: got %+v, and %+v of the deduplicated problem", p.Accounting, got, other)
				}
			}
			if got, want := p.ShardMemory(s), plain.ShardMemory(s); got != want {
				t.Errorf("accounting torchrec: got %+v, want TorchRec's own %+v", got, want)
			}
		}
	})
}

// off reports whether bytes differ by more than a rounded vector.
func off(a, b unit.Bytes) bool { return math.Abs(float64(a-b)) > 4*128+64 }

// TestMemoryOfDeduplicated: of 1,000 lookups a device in a table of ten rows, ten are exchanged, and
// two vectors of each lookup and its place are there in the backward of the loss.
func TestMemoryOfDeduplicated(t *testing.T) {
	p := &problem.Problem{
		Tables: []problem.Table{{
			Name: "a", Rows: 10, Dim: 16, Pooling: problem.PoolingNone, IndexDedup: true,
			Features: []problem.Feature{{PoolingFactor: 100}}, Access: access.Distribution{Kind: access.Uniform},
		}},
		Topology: hardware.Topology{Devices: 4, Memory: 1 << 30, ReserveShare: hardware.NoReserve}, Batch: 40, Pipeline: problem.BasePipeline,
	}
	if got, want := p.DeviceMemory(0)[problem.LossBackward].Gradients, unit.Bytes(1000*2*16*4); got != want {
		t.Errorf("gradients: got %d, want %d", got, want)
	}
	if got, want := p.DeviceMemory(0)[problem.LossBackward].Permuted, unit.Bytes(1000*8); got != want {
		t.Errorf("places of the lookups: got %d, want %d", got, want)
	}
	if got, want := p.ShardMemory(p.Whole(0))[problem.LookupsBackward].Gradients, unit.Bytes(40*16*4); got != want {
		t.Errorf("outputs: got %d, want %d: ten vectors for each device", got, want)
	}
}

// TestTorchRecDeduplicatesSequences: TorchRec does not deduplicate the indices of a bag.
func TestTorchRecDeduplicatesSequences(t *testing.T) {
	h100 := must.Get(hardware.ByName("h100-80"))(t)
	p := problem.Problem{
		Tables:   []problem.Table{{Name: "a", Rows: 10, Dim: 16, IndexDedup: true, Features: []problem.Feature{{PoolingFactor: 1}}}},
		Topology: hardware.Topology{Profile: h100, Devices: 2}, Batch: 4, Engine: problem.TorchRec,
	}
	want := `table "a": index_dedup: TorchRec does not deduplicate indices of a pooled table`
	if err := p.Validate(); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if p.Tables[0].Pooling = problem.PoolingNone; p.Validate() != nil {
		t.Errorf("pooling none: got %v, want no error", p.Validate())
	}
	if p.Tables[0].Pooling, p.Engine = problem.SumPooling, problem.HugeCTR; p.Validate() != nil || p.Tables[0].Permits(problem.DataParallel) {
		t.Errorf("HugeCTR: got %v, want no error, and no data_parallel", p.Validate())
	}
}

// TestDedupChoices: TorchRec's tables are deduplicated all or not at all, those of another engine one after another
// in the order of the columns that they save.
func TestDedupChoices(t *testing.T) {
	p := &problem.Problem{Batch: 4000, Topology: hardware.Topology{Devices: 4, ReserveShare: hardware.NoReserve}}
	for i, rows := range []int64{1 << 30, 10, 100, 500} {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint(i), Rows: rows, Dim: 16, Features: []problem.Feature{{PoolingFactor: []float64{3, 1, 1, 1}[i]}},
			Access: access.Distribution{Kind: access.Uniform}, ChooseDedup: i != 2,
		})
	}
	chosen := func() (all []string) {
		for _, q := range problem.DedupChoices(p) {
			names := ""
			for i := range q.Tables {
				if q.Tables[i].IndexDedup {
					names += q.Tables[i].Name
				}
			}
			all = append(all, names)
		}
		return all
	}
	if got, want := fmt.Sprint(chosen()), "[ 1 13 013]"; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	p.Engine = problem.TorchRec
	if got := problem.DedupChoices(p); len(got) != 1 || got[0] != p {
		t.Errorf("bags under TorchRec: got %d choices, want the problem alone", len(got))
	}
	for i := range p.Tables {
		p.Tables[i].Pooling, p.Tables[i].ChooseDedup = problem.PoolingNone, true
	}
	p.Tables[2].Features[0].PoolingFactor = 0 // nothing to save
	if got, want := fmt.Sprint(chosen()), "[ 0123]"; got != want {
		t.Errorf("sequences under TorchRec: got %v, want %v", got, want)
	}
}

// TestUndecided: tables with ChooseDedup that no plan deduplicates are named, with the reason, and no other table.
func TestUndecided(t *testing.T) {
	h100 := must.Get(hardware.ByName("h100-80"))(t)
	table := func(name string, pooling problem.Pooling, types ...problem.ShardingType) problem.Table {
		return problem.Table{
			Name: name, Rows: 100, Dim: 16, Pooling: pooling, ChooseDedup: true, Features: []problem.Feature{{PoolingFactor: 9}},
			Constraint: problem.Constraint{ShardingTypes: types},
		}
	}
	p := &problem.Problem{Batch: 4000, Topology: hardware.Topology{Profile: h100, Devices: 4}, Tables: []problem.Table{
		table("bag", problem.SumPooling), table("replica", problem.SumPooling, problem.DataParallel), table("sequence", problem.PoolingNone),
		{Name: "stated", Rows: 100, Dim: 16, Features: []problem.Feature{{PoolingFactor: 9}}},
	}}
	const noType = "pooled tables are deduplicated only if they may be table_wise, column_wise or row_wise"
	for _, c := range []struct {
		engine    problem.Engine
		hierarchy problem.Hierarchy
		want      []string
	}{
		{"", problem.Hierarchy{}, []string{"choose_dedup has no effect on replica: " + noType}},
		{problem.TorchRec, problem.Hierarchy{}, []string{"choose_dedup has no effect on bag, replica: TorchRec deduplicates indices of sequences only"}},
		{"", problem.Hierarchy{Sent: .5, Inside: 1, Between: 1}, []string{"choose_dedup has no effect on bag, replica, sequence: a hierarchical exchange adds up vectors inside hosts"}},
	} {
		if p.Engine, p.Hierarchy = c.engine, c.hierarchy; !slices.Equal(problem.Undecided(p), c.want) {
			t.Errorf("%q, %v: got %q, want %q", c.engine, c.hierarchy, problem.Undecided(p), c.want)
		}
	}
}

// TestChoiceOfSharder: under TorchRec, a choice for some sequences only is an error, but sequences of another module
// may state that their sharder deduplicates.
func TestChoiceOfSharder(t *testing.T) {
	h100 := must.Get(hardware.ByName("h100-80"))(t)
	for _, c := range []struct {
		module                        string
		pooling                       problem.Pooling
		engine                        problem.Engine
		stated, choose, contradictory bool
	}{
		{module: "a", pooling: problem.PoolingNone, engine: problem.TorchRec, contradictory: true},
		{module: "b", pooling: problem.PoolingNone, engine: problem.TorchRec, contradictory: true},
		{module: "a", pooling: problem.PoolingNone, engine: problem.TorchRec, stated: true, contradictory: true},
		{module: "b", pooling: problem.PoolingNone, engine: problem.TorchRec, stated: true},
		{module: "a", pooling: problem.PoolingNone, engine: problem.TorchRec, choose: true},
		{module: "a", pooling: problem.SumPooling, engine: problem.TorchRec},
		{module: "a", pooling: problem.PoolingNone},
	} {
		table := problem.Table{Name: "chosen", Module: "a", Rows: 100, Dim: 16, Pooling: problem.PoolingNone, ChooseDedup: true, Features: []problem.Feature{{PoolingFactor: 9}}}
		other := table
		other.Name, other.Module, other.Pooling, other.IndexDedup, other.ChooseDedup = "other", c.module, c.pooling, c.stated, c.choose
		p := &problem.Problem{Batch: 4000, Engine: c.engine, Topology: hardware.Topology{Profile: h100, Devices: 4}, Tables: []problem.Table{table, other}}
		want := "<nil>"
		if c.contradictory {
			want = `table "other": choose_dedup: TorchRec deduplicates the indices of all sequences of a sharder or of none, and the plan decides those of "chosen" but not of this table`
		}
		if err := p.Validate(); fmt.Sprint(err) != want {
			t.Errorf("%+v: got %v, want %s", c, err, want)
		}
	}
}
