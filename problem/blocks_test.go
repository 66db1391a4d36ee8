package problem

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem/access"
)

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
	if got := p.ShardMemory(s)[ForwardExchange].Cache; got != 32+64+16+4*10 {
		t.Errorf("cache: got %d bytes, want 152", got)
	}
}

// TestBlocksHaveTheLookupsOfHashedRows draws batches and gives each row a block at random: the block of the
// most used row has, in the mean, the lookups that memory counts for a block. If rows are sorted by use,
// the first block has its part of the law.
func TestBlocksHaveTheLookupsOfHashedRows(t *testing.T) {
	const rows, lookups, draws = 500, 40_000, 40
	for _, test := range []struct {
		law    access.Distribution
		weight func(rank float64) float64
	}{
		{access.Distribution{Kind: access.Uniform}, func(float64) float64 { return 1 }},
		{access.Distribution{}, func(rank float64) float64 { return math.Pow(rank, -access.DefaultExponent) }},
		{access.Distribution{Kind: access.Zipf, Exponent: .6}, func(rank float64) float64 { return math.Pow(rank, -.6) }},
		{access.Distribution{Kind: access.Zipf, Exponent: 1.7}, func(rank float64) float64 { return math.Pow(rank, -1.7) }},
	} {
		p := spreadProblem()
		p.Batch, p.Tables[0].Access, p.Tables[0].Rows = lookups/5, test.law, rows
		for _, blocks := range []int64{2, 5, 100} {
			random := rand.New(rand.NewPCG(1, 2))
			most := 0.0
			for range draws {
				used, sum := make([]float64, rows), 0.0
				for i := range used {
					used[i] = test.weight(float64(i + 1))
					sum += used[i]
				}
				random.Shuffle(rows-1, func(i, j int) { used[i+1], used[j+1] = used[j+1], used[i+1] })
				for _, w := range used[:rows/blocks] {
					most += w / sum * lookups / draws
				}
			}
			s := p.Whole(0)
			s.ShardingType, s.Rows.End = RowWise, rows/blocks
			counted := func() float64 {
				m := p.ShardMemory(s)
				return float64(m[LookupsBackward].Indices-m[LossBackward].Indices) / sortPairBytes
			}
			if got := counted(); math.Abs(got-most) > .05*most {
				t.Errorf("%+v, block 1 of %d: got %.0f lookups, want %.0f", test.law, blocks, got, most)
			}
			first, all := 0.0, 0.0
			for i := range rows {
				if all += test.weight(float64(i + 1)); i < int(s.Rows.End) {
					first = all
				}
			}
			p.Tables[0].Access.Sorted = true
			if got, want := counted(), first/all*lookups; math.Abs(got-want) > .001*want+1 {
				t.Errorf("%+v, block 1 of %d of sorted rows: got %.0f lookups, want %.0f", test.law, blocks, got, want)
			}
			second := 0.0
			for i := s.Rows.End; i < 2*s.Rows.End; i++ {
				second += test.weight(float64(i + 1))
			}
			p.Topology.Devices, s.Rows = int(blocks), Range{Start: s.Rows.End, End: 2 * s.Rows.End}
			if got, want := counted(), second/all*lookups; math.Abs(got-want) > .001*want+1 {
				t.Errorf("%+v, block 2 of %d of sorted rows: got %.0f lookups, want %.0f", test.law, blocks, got, want)
			}
			s.Rows = Range{End: rows / blocks}
			c := p.Tables[0].Counts(p.Batch)
			p.Tables[0].Access = access.Distribution{Kind: access.Histogram, Reuse: c.Reuse, Batch: p.Batch, UniqueRows: c.Unique, Sorted: true}
			if got, want := counted(), first/all*lookups; math.Abs(got-want) > .12*want {
				t.Errorf("histogram of %+v, block 1 of %d of sorted rows: got %.0f lookups, want %.0f", test.law, blocks, got, want)
			}
			p.Tables[0].Access = test.law
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
		if got := p.ShardMemory(s)[ForwardExchange]; got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.tier, got, test.want)
		}
	}
}
