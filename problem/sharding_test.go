package problem

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func spreadProblem() *Problem {
	return &Problem{
		Tables: []Table{{
			Name: "t", Rows: 1000, Dim: 8, Features: []Feature{{Name: "a", PoolingFactor: 2}, {Name: "b", PoolingFactor: 3}},
			Access: access.Distribution{Kind: access.Zipf, Exponent: 1.1}, Optimizer: Adam,
		}},
		Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 8, DevicesPerHost: 4, HostMemory: 4 * unit.GiB},
		Batch:    80, Pipeline: BasePipeline,
	}
}

// TestMemoryOfKinds counts the bytes of a table of 1000 x 8 by hand, in the backward of its lookups.
func TestMemoryOfKinds(t *testing.T) {
	p := spreadProblem()
	block := Shard{Rows: Range{125, 250}, Columns: Range{0, 8}, ShardingType: RowWise}
	whole := p.Whole(0)
	replica := whole
	replica.ShardingType = DataParallel
	cached, host := whole, whole
	cached.Tier, cached.Cache = HostCached, .1
	host.Tier = Host
	const pooled = 80 * 2 * 8 * 4
	for _, test := range []struct {
		name  string
		shard Shard
		want  Memory
	}{
		{"whole", whole, Memory{Weights: 32000, Optimizer: 64000, Gradients: pooled, Indices: 400*32 + 161*8}},
		// A block has room for the 72 lookups of the most used row and an eighth of the others.
		{"row-wise", block, Memory{Weights: 4000, Optimizer: 8000, Gradients: pooled, Indices: 113*32 + 161*8}},
		// A replica serves 10 samples of 5 lookups and 2 vectors, and has the table's gradients twice.
		{"data-parallel", replica, Memory{Weights: 32000, Optimizer: 64000, Gradients: 64000 + 10*2*8*4, Indices: 50*32 + 21*8}},
		{"host", host, Memory{Gradients: pooled, Indices: 400*32 + 161*8, Host: 96000}},
		{"cached", cached, Memory{Gradients: pooled, Indices: 400*32 + 161*8, Host: 96000, Cache: 100*(32+64+16) + 4*1000}},
	} {
		if got := p.ShardMemory(test.shard)[LookupsBackward]; got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
	if got := p.HostBudget(0); got != unit.GiB {
		t.Errorf("host budget of a device: %v", got)
	}
	if m := p.ShardMemory(cached)[LookupsBackward]; m.Total() != m.Gradients+m.Indices+m.Cache {
		t.Error("what lies on the host counts as the device's")
	}
}

// TestBlocks: rows of a block, and that all devices get one.
func TestBlocks(t *testing.T) {
	for _, test := range []struct {
		rows  int64
		n     int
		block int64
		cuts  bool
	}{{1000, 8, 125, true}, {1001, 8, 126, true}, {9, 8, 2, false}, {8, 8, 1, true}, {7, 8, 1, false}, {10, 1, 10, false}} {
		table := Table{Rows: test.rows}
		if got := table.BlockRows(test.n); got != test.block {
			t.Errorf("%d rows for %d: blocks of %d, want %d", test.rows, test.n, got, test.block)
		}
		if got := table.CutsByRows(test.n); got != test.cuts {
			t.Errorf("%d rows for %d: cuts %v", test.rows, test.n, got)
		}
	}
}

// TestBlocksOf: a block's table does what the block of the whole one does.
func TestBlocksOf(t *testing.T) {
	p := spreadProblem()
	all := p.Tables[0].Counts(p.Batch)
	want := all.Part(.125)
	b := BlocksOf(p, 8)
	got := b.Tables[0].Counts(p.Batch)
	if b.Tables[0].Rows != 125 || math.Abs(got.Lookups-want.Lookups) > 1e-9*want.Lookups || math.Abs(got.Unique-min(125, want.Unique)) > 1e-9*want.Unique {
		t.Errorf("block %+v does %+v, want %+v", b.Tables[0], got, want)
	}
	if want.Lookups <= all.Lookups/8 || want.Lookups >= all.Lookups {
		t.Errorf("the block of the most used row has %v of %v lookups", want.Lookups, all.Lookups)
	}
	if p.Tables[0].Rows != 1000 || p.Tables[0].Features[0].PoolingFactor != 2 {
		t.Error("the problem itself was changed")
	}
	if r := ReplicasOf(p); r.Batch != 10 || r.Tables[0].Optimizer != SGD || p.Tables[0].Optimizer != Adam {
		t.Errorf("replicas %+v", r)
	}
}

// TestShardingTypeFacts checks that a slice's form says of devices, rows and operators
// what the sharding type of its table says.
func TestShardingTypeFacts(t *testing.T) {
	p := spreadProblem()
	for _, k := range ShardingTypes() {
		s := p.Whole(0)
		s.ShardingType = k
		held := p.Form(s).ShardingType
		if got, want := held.Span(), k.Span(); got != want {
			t.Errorf("%s: a slice is held as %q, with span %d, want %d", k, held, got, want)
		}
		if got, want := held.ByRows(), k.ByRows(); got != want {
			t.Errorf("%s: a slice is held as %q, by rows %v, want %v", k, held, got, want)
		}
		if got, want := held.Class(), k.Class(); got != want {
			t.Errorf("%s: a slice is held as %q, of class %d, want %d", k, held, got, want)
		}
		if k.Joint() != k.Class().Joint() {
			t.Errorf("%s: several devices hold a slice: %v, but its operator class says %v", k, k.Joint(), k.Class().Joint())
		}
		if parsed, err := ParseShardingType(string(k)); parsed != k || err != nil || !k.Known() {
			t.Errorf("%s: got %q, %v, known %v", k, parsed, err, k.Known())
		}
	}
	for _, k := range []ShardingType{"", "diagonal"} {
		if k.Known() || k.Joint() || k.ByRows() || k.ByColumns() || k.Class() != ClassColumns {
			t.Errorf("%q: got %+v, want a slice on one device", k, *k.facts())
		}
	}
}
