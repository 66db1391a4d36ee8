package dataset

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cpu is the facts of a device that no profile is known of.
var cpu = hardware.Profile{
	Name: "cpu", Memory: 8 * unit.GiB, HBMGBps: 20, HBMEfficiency: .8, L2: 32 * unit.MiB, L2GBps: 90.5, SMs: 2,
	ClockGHz: 2.45, Granule: 64, AllToAllLatencyUS: 120, IntraGBps: 3.25,
}

// measured is a provenance with every field stated.
var measured = Provenance{
	Source: Measured, Profile: "cpu", Backend: "worker, protocol 1", Seed: 1<<63 + 7, Design: "9f1c", Tool: "v0.3.0",
	Hardware: cpu, Device: "Some CPU @ 2.45GHz", Kernel: "cpu engine 1, AVX2", Clocks: "governor performance", Threads: 2,
	Cache: "flushed 128MiB", Warmup: 1, Repeats: 3,
}

// sample returns a small dataset in which every field is used.
func sample() Dataset {
	table := func(name string, rows int64, a access.Distribution, pooling ...float64) problem.Table {
		t := problem.Table{Name: name, Rows: rows, Dim: 64, Access: a}
		for i, p := range pooling {
			t.Features = append(t.Features, problem.Feature{Name: fmt.Sprintf("%s_%d", name, i), PoolingFactor: p})
		}
		return t
	}
	histogram := access.Distribution{Kind: access.Histogram, Reuse: [access.Classes]float64{.5, .25, .25}, Batch: 65536, UniqueRows: 1234.5}
	tables := []problem.Table{
		table("user", 1_000_000, access.Distribution{Kind: access.Zipf, Exponent: 1.05}, 1),
		table("item", 5000, histogram, 12.5),
		table("ad", 70, access.Distribution{Kind: access.Uniform}, .5, 3),
		table("größe", 1<<40, access.Distribution{}, 2),
	}
	tables[2].Features[1].LengthCV = 1.25
	tables[1].Precision, tables[1].Optimizer, tables[1].Weighted = problem.FP16, problem.Adam, true
	tables[1].Constraint = problem.Constraint{Devices: []int{3, 0}, Colocation: "g", NoSplit: true, MinWidth: 8}
	op := problem.Operation{Batch: 4096, Optimizer: problem.RowwiseAdagrad, Precision: problem.BF16, Weighted: true}
	return Dataset{
		Compute: &Compute{
			Provenance: measured, Tables: tables,
			Samples: []Group{
				{ID: 0, Split: Train, Operation: op, Members: []Member{{0, 64}, {3, 4}, {0, 64}}, Forward: 1.25, Backward: 2.5, ForwardSpread: .01, BackwardSpread: .02},
				{ID: 1, Split: Validation, Operation: problem.Operation{Batch: 512, LaneRule: problem.LanesByTable}, Members: []Member{{1, 128}}, Forward: .1, Backward: .2, Quarantined: true},
				{ID: 4, Split: Test, Operation: problem.Operation{Batch: 1 << 17}, Members: []Member{{2, 16}}, Forward: 1e-6, Backward: 3e6},
			},
			Repeats: []Repeat{{ID: 0, Forward: 1.3, Backward: 2.6}, {ID: 4, Forward: 1e-6, Backward: 3.1e6}},
			Anchors: []Anchor{{After: 0, Forward: 1, Backward: 2}, {After: 2, Forward: 1.1, Backward: 2}},
		},
		Comm: &Comm{
			Provenance: measured,
			Samples: []Exchange{
				{ID: 0, Split: Train, Devices: 2, DevicesPerHost: 2, Batch: 4096, DimSums: []int{512, 384}, Start: []unit.Millis{0, 3.1}, Forward: []unit.Millis{3.4, .3}, Backward: []unit.Millis{.3, .31}, Spread: .01},
				{ID: 3, Split: Test, Devices: 3, DevicesPerHost: 2, Batch: 512, DimSums: []int{0, 4, 1 << 30}, Start: []unit.Millis{0, 0, 0}, Forward: []unit.Millis{1, 1, 1}, Backward: []unit.Millis{1, 2, 3}, Quarantined: true},
				{ID: 5, Split: Validation, Devices: 1, DevicesPerHost: 16, Batch: 1, DimSums: []int{8}, Start: []unit.Millis{0}, Forward: []unit.Millis{0}, Backward: []unit.Millis{0}},
			},
		},
	}
}

// drawDataset draws a valid dataset, ordered as Merge orders it.
func drawDataset(t *rapid.T) Dataset {
	var d Dataset
	kind := rapid.IntRange(0, 2).Draw(t, "parts")
	from := drawProvenance(t)
	if kind != 1 {
		d.Compute = drawCompute(t)
		d.Compute.Provenance = from
	}
	if kind != 0 {
		d.Comm = drawComm(t)
		d.Comm.Provenance = from
	}
	return d
}

func drawProvenance(t *rapid.T) Provenance {
	text := func(name string) string { return rapid.StringN(0, 12, 40).Draw(t, name) }
	p := Provenance{
		Source:  rapid.SampledFrom([]Source{Simulated, Measured}).Draw(t, "source"),
		Profile: "h200", Backend: text("meter"), Seed: rapid.Uint64().Draw(t, "seed"), Design: text("design"),
	}
	if p.Source == Measured {
		p.Tool, p.Device, p.Kernel, p.Cache = text("tool"), text("device"), text("kernel"), text("cache")
		p.Clocks = rapid.SampledFrom([]string{"", "boost 1980 MHz", "locked | boost"}).Draw(t, "clocks")
		if p.Clocks == "locked | boost" {
			p.Clocks = "boost | locked"
		}
		p.Threads, p.Warmup, p.Repeats = rapid.IntRange(0, 64).Draw(t, "threads"), rapid.IntRange(0, 9).Draw(t, "warmup"), rapid.IntRange(0, 99).Draw(t, "repeats")
	}
	if rapid.Bool().Draw(t, "own hardware") {
		p.Profile, p.Hardware = "cpu", cpu
		p.Hardware.HBMGBps = rapid.Float64Range(.001, 1e9).Draw(t, "hbm")
		p.Hardware.Memory = unit.Bytes(rapid.Int64Range(1, int64(hardware.MaxMemory)).Draw(t, "memory"))
	}
	return p
}

var (
	drawnTime   = rapid.Custom(func(t *rapid.T) unit.Millis { return unit.Millis(rapid.Float64Range(5e-324, 3.6e6).Draw(t, "ms")) })
	drawnSpread = rapid.Custom(func(t *rapid.T) unit.Millis { return unit.Millis(rapid.Float64Range(0, 3.6e6).Draw(t, "iqr")) })
)

func drawTable(t *rapid.T, i int) problem.Table {
	table := problem.Table{
		Name: fmt.Sprintf("%d%s", i, rapid.StringN(0, 5, 20).Draw(t, "name")),
		Rows: rapid.Int64Range(1, problem.MaxRows).Draw(t, "rows"), Dim: 4 * rapid.IntRange(1, problem.MaxDim/4).Draw(t, "dim/4"),
		Features: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) problem.Feature {
			return problem.Feature{Name: rapid.StringN(0, 5, 20).Draw(t, "feature"), PoolingFactor: rapid.Float64Range(0, problem.MaxPoolingFactor).Draw(t, "pooling"), LengthCV: rapid.SampledFrom([]float64{0, .1, problem.MaxLengthCV}).Draw(t, "length cv")}
		}), 1, 3).Draw(t, "features"),
		Weighted: rapid.Bool().Draw(t, "weighted"), Precision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision")), Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
		Access: access.Distribution{Kind: access.Kind(rapid.IntRange(0, 3).Draw(t, "access"))},
	}
	table.Access.Law = rapid.SampledFrom(access.Laws()).Draw(t, "law")
	switch table.Access.Kind {
	case access.Zipf:
		table.Access.Exponent = rapid.Float64Range(.001, 10).Draw(t, "exponent")
	case access.Histogram:
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		table.Access.Reuse[rapid.IntRange(0, 7).Draw(t, "class")], table.Access.Reuse[16] = share, 1-share
		table.Access.Batch, table.Access.UniqueRows = rapid.IntRange(1, problem.MaxBatch).Draw(t, "batch"), rapid.Float64Range(0, problem.MaxRows).Draw(t, "unique")
	}
	if rapid.Bool().Draw(t, "constrained") {
		table.Constraint = problem.Constraint{Devices: []int{rapid.IntRange(0, hardware.MaxDevices-1).Draw(t, "device")}, NoSplit: true, MinWidth: 4}
	}
	return table
}

func drawCompute(t *rapid.T) *Compute {
	c := &Compute{}
	for i := range rapid.IntRange(3, 8).Draw(t, "tables") {
		c.Tables = append(c.Tables, drawTable(t, i))
	}
	id := 0
	for range rapid.IntRange(0, 12).Draw(t, "groups") {
		id += rapid.IntRange(1, 3).Draw(t, "next id")
		g := Group{
			ID: id, Split: Split(rapid.IntRange(0, 2).Draw(t, "split")),
			Operation: problem.Operation{
				Batch: rapid.IntRange(1, problem.MaxBatch).Draw(t, "batch"), Weighted: rapid.Bool().Draw(t, "weighted"),
				Precision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision")), Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
				LaneRule: problem.LaneRule(rapid.IntRange(0, 1).Draw(t, "lane rule")),
			},
			Forward: drawnTime.Draw(t, "forward"), Backward: drawnTime.Draw(t, "backward"),
			ForwardSpread: drawnSpread.Draw(t, "spread"), BackwardSpread: drawnSpread.Draw(t, "spread"), Quarantined: rapid.Bool().Draw(t, "quarantined"),
		}
		for range rapid.IntRange(1, 6).Draw(t, "members") {
			// The splits' tables are those of their number modulo 3.
			table := int(g.Split) + 3*rapid.IntRange(0, (len(c.Tables)-1-int(g.Split))/3).Draw(t, "table")
			g.Members = append(g.Members, Member{Table: int32(table), Dim: int32(4 * rapid.IntRange(1, problem.MaxDim/4).Draw(t, "dim/4"))})
		}
		c.Samples = append(c.Samples, g)
		if rapid.IntRange(0, 3).Draw(t, "repeated") == 0 {
			c.Repeats = append(c.Repeats, Repeat{ID: id, Forward: drawnTime.Draw(t, "forward"), Backward: drawnTime.Draw(t, "backward")})
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "anchors") {
		c.Anchors = append(c.Anchors, Anchor{After: 10 * i, Forward: drawnTime.Draw(t, "forward"), Backward: drawnTime.Draw(t, "backward")})
	}
	return c
}

func drawComm(t *rapid.T) *Comm {
	c := &Comm{}
	id := 0
	for range rapid.IntRange(0, 12).Draw(t, "exchanges") {
		id += rapid.IntRange(1, 3).Draw(t, "next id")
		n := rapid.IntRange(1, 6).Draw(t, "devices")
		times := func(name string) []unit.Millis {
			return rapid.SliceOfN(drawnTime, n, n).Draw(t, name)
		}
		c.Samples = append(c.Samples, Exchange{
			ID: id, Split: Split(rapid.IntRange(0, 2).Draw(t, "split")), Devices: n, DevicesPerHost: rapid.IntRange(1, 16).Draw(t, "per host"),
			Batch:   rapid.IntRange(1, problem.MaxBatch).Draw(t, "batch"),
			DimSums: rapid.SliceOfN(rapid.IntRange(0, 1<<30), n, n).Draw(t, "dim sums"),
			Start:   rapid.SliceOfN(drawnSpread, n, n).Draw(t, "start"), Forward: times("forward"), Backward: times("backward"),
			Spread: drawnSpread.Draw(t, "spread"), Quarantined: rapid.Bool().Draw(t, "quarantined"),
		})
	}
	return c
}

// clone returns a copy that can be changed without changing d.
func clone(d Dataset) Dataset {
	if c := d.Compute; c != nil {
		copied := *c
		copied.Tables, copied.Samples = slices.Clone(c.Tables), slices.Clone(c.Samples)
		copied.Repeats, copied.Anchors = slices.Clone(c.Repeats), slices.Clone(c.Anchors)
		for i := range copied.Samples {
			copied.Samples[i].Members = slices.Clone(copied.Samples[i].Members)
		}
		d.Compute = &copied
	}
	if c := d.Comm; c != nil {
		copied := *c
		copied.Samples = slices.Clone(c.Samples)
		for i := range copied.Samples {
			e := &copied.Samples[i]
			e.DimSums, e.Start, e.Forward, e.Backward = slices.Clone(e.DimSums), slices.Clone(e.Start), slices.Clone(e.Forward), slices.Clone(e.Backward)
		}
		d.Comm = &copied
	}
	return d
}
