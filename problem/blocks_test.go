package problem

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// TestBlocksOfByPooling: of two tables alike but for their pooling, each block has its
// own table's lookups: one, and a quarter of the other 79 and 7999, where all rows are
// used alike.
func TestBlocksOfByPooling(t *testing.T) {
	p := spreadProblem()
	p.Tables[0].Access = access.Distribution{Kind: access.Uniform}
	p.Tables[0].Rows = 1 << 30
	p.Tables[0].Features = []Feature{{Name: "a", PoolingFactor: 1}}
	more := p.Tables[0]
	more.Name, more.Features = "more", []Feature{{Name: "b", PoolingFactor: 100}}
	p.Tables = append(p.Tables, more)
	b := BlocksOf(p, 4)
	for i, want := range []float64{20.75, 2000.75} {
		if got := b.Tables[i].Counts(p.Batch).Lookups; math.Abs(got-want) > 1e-5*want {
			t.Errorf("%s: got %v lookups, want %v", b.Tables[i].Name, got, want)
		}
	}
}

// TestMemoryOfReplicaInHalf: the weights have 2 bytes each, their gradients 8: TorchRec
// computes them in fp32, rounds them, and has a bucket for the all-reduce.
func TestMemoryOfReplicaInHalf(t *testing.T) {
	p := spreadProblem()
	p.Tables[0].Precision = FP16
	s := p.Whole(0)
	s.ShardingType = DataParallel
	if m := p.ShardMemory(s); m.Weights != 16000 || m.Gradients != 64000 {
		t.Errorf("got weights of %d bytes and gradients of %d, want 16000 and 64000", m.Weights, m.Gradients)
	}
}

// TestCachedRowsRoundUp: a cache holds at least the share of the rows.
func TestCachedRowsRoundUp(t *testing.T) {
	for _, test := range []struct {
		rows   int64
		share  float64
		cached int64
	}{{10, .02, 1}, {10, .5, 5}, {10, .51, 6}, {11, .5, 6}, {1000, .1, 100}} {
		if got := CachedRows(test.rows, test.share); got != test.cached {
			t.Errorf("%v of %d rows: got %d, want %d", test.share, test.rows, got, test.cached)
		}
	}
	// In the memory of a shard, too: a row of 8 numbers of Adam's, and 4 bytes of each.
	p := spreadProblem()
	p.Tables[0].Rows = 10
	s := p.Whole(0)
	s.Tier, s.Cache = HostCached, .02
	if got := p.ShardMemory(s).Cache; got != 32+64+16+4*10 {
		t.Errorf("cache: got %d bytes, want 152", got)
	}
}

// TestBlockOfMostRowsHasRoomForAllLookups wants room for all lookups, and not for twice
// their number.
func TestBlockOfMostRowsHasRoomForAllLookups(t *testing.T) {
	p := spreadProblem()
	for rows, lookups := range map[int64]unit.Bytes{1000: 400, 999: 400, 600: 400, 500: 400, 250: 200, 1: 1} {
		s := p.Whole(0)
		s.ShardingType, s.Rows.End = RowWise, rows
		if got, want := p.ShardMemory(s).Indices, lookups*32+161*8; got != want {
			t.Errorf("a block of %d of 1000 rows: got %d bytes of indices, want %d", rows, got, want)
		}
	}
}

// TestWeightsAloneInHostMemory: counting weights alone, those in host memory and in a
// cache are counted where they are.
func TestWeightsAloneInHostMemory(t *testing.T) {
	p := spreadProblem()
	p.Accounting = CountWeights
	s := p.Whole(0)
	for _, test := range []struct {
		tier  Tier
		cache float64
		want  Memory
	}{{HBM, 0, Memory{Weights: 32000}}, {Host, 0, Memory{Host: 32000}}, {HostCached, .25, Memory{Host: 32000, Cache: 8000}}} {
		s.Tier, s.Cache = test.tier, test.cache
		if got := p.ShardMemory(s); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.tier, got, test.want)
		}
	}
}
