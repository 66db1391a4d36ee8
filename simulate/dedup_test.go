package simulate_test

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
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// criteoRows are the rows of the tables of MLPerf's DLRM that have a block on each of eight devices.
// fewRows are those of the others, which are one table of five features here.
var (
	criteoRows = []int64{45833188, 36746, 17245, 7413, 20243, 7114, 1441, 62, 29275261, 1572176, 345138, 2209, 11267, 128, 974, 48937457, 11316796, 40094537, 452104, 12606, 104}
	fewRows    = []int64{3, 10, 4, 14, 35}
)

// criteo returns the tables of a published benchmark of EmbeddingCollections: ten uniform lookups of
// 128 columns in each of 26 features, trained by Adam.
func criteo(dedup bool) *problem.Problem {
	h100, err := hardware.ByName("h100-80")
	if err != nil {
		panic(err)
	}
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: h100, Devices: 8}}
	like := problem.Table{Dim: 128, Pooling: problem.PoolingNone, IndexDedup: dedup, Access: access.Distribution{Kind: access.Uniform}, Optimizer: problem.Adam}
	for i, rows := range criteoRows {
		like.Name, like.Rows, like.Features = fmt.Sprint("t", i), rows, []problem.Feature{{PoolingFactor: 10}}
		p.Tables = append(p.Tables, like)
	}
	like.Name, like.Rows, like.Features = "few", 0, nil
	for _, rows := range fewRows {
		like.Rows += rows
		like.Features = append(like.Features, problem.Feature{PoolingFactor: 10})
	}
	p.Tables = append(p.Tables, like)
	return p
}

// byRows returns a placement of all tables as blocks of rows.
func byRows(p *problem.Problem) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		rows := p.Tables[i].BlockRows(len(shards))
		for d := range shards {
			s := p.Whole(i)
			s.ShardingType = problem.RowWise
			s.Rows = problem.Range{Start: min(s.Rows.End, int64(d)*rows), End: min(s.Rows.End, int64(d+1)*rows)}
			if s.Rows.Len() > 0 {
				shards[d] = append(shards[d], s)
			}
		}
	}
	return shards
}

// A benchmark of recsys-examples (corelib/dynamicemb/benchmark/README.md) measured 23.99 ms without
// deduplication and 14.88 ms with it, on eight H100: 9.11 ms less.
func Example_indexDedup() {
	var costs []unit.Millis
	for _, dedup := range []bool{false, true} {
		p := criteo(dedup)
		cost, err := simulate.NewPricer(p).Price(byRows(p))
		if err != nil {
			panic(err)
		}
		costs = append(costs, cost.Cost)
	}
	fmt.Printf("simulated: %v without, %v with, %v less\n", costs[0], costs[1], costs[0]-costs[1])
	// Output:
	// simulated: 9.86 ms without, 4.04 ms with, 5.83 ms less
}

// TestPooledAfterTheExchange: pooled tables with index_dedup cost what sequences of the same lookups do, and
// pooling, which moves a vector for each lookup and one for each bag through memory, forward and backward.
func TestPooledAfterTheExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sequences := criteo(true)
		sequences.Topology.Devices = rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "devices")
		sequences.Tables = sequences.Tables[:rapid.IntRange(1, 20).Draw(t, "tables")]
		pooled, vectors := *sequences, 0.
		pooled.Tables = slices.Clone(sequences.Tables)
		shards := byRows(sequences)
		for i := range pooled.Tables {
			bags := rapid.SampledFrom([]float64{.5, 1, 3}).Draw(t, "bags")
			pooled.Tables[i].Pooling = problem.Pooling(i % 2)
			pooled.Tables[i].Features = []problem.Feature{{PoolingFactor: 10, Bags: bags}}
			vectors += 10 + bags
			if rapid.Bool().Draw(t, "whole") {
				for d := range shards {
					shards[d] = slices.DeleteFunc(shards[d], func(s problem.Shard) bool { return s.Table == i })
				}
				shards[0] = append(shards[0], pooled.Whole(i))
			}
		}
		want, sent := priced(t, sequences, shards)
		got, input := priced(t, &pooled, shards)
		h100 := sequences.Topology.Profile
		bytes := 2 * vectors * float64(pooled.Batch/pooled.Topology.Devices) * 128 * 4
		want += unit.Millis(bytes / (h100.HBMGBps * 1e6 * h100.HBMEfficiency))
		if math.Abs(float64(got/want-1)) > 1e-9 || input != sent {
			t.Errorf("got %v and %v of indices, want %v and %v", got, input, want, sent)
		}
	})
}

// TestDeduplicationSaves: a placement costs no more if indices are deduplicated, nor does its exchange
// of indices.
func TestDeduplicationSaves(t *testing.T) {
	h100 := must.Get(hardware.ByName("h100-80"))(t)
	rapid.Check(t, func(t *rapid.T) {
		p := &problem.Problem{Batch: rapid.SampledFrom([]int{64, 4096, 65536}).Draw(t, "batch")}
		p.Topology = hardware.Topology{Profile: h100, Devices: rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "devices")}
		for i := range rapid.IntRange(1, 3).Draw(t, "tables") {
			p.Tables = append(p.Tables, problem.Table{
				Name: fmt.Sprint(i), Rows: rapid.Int64Range(64, 1<<22).Draw(t, "rows"), Dim: 4 * rapid.IntRange(1, 32).Draw(t, "granules"),
				Features: []problem.Feature{{PoolingFactor: rapid.Float64Range(.1, 50).Draw(t, "pooling factor")}}, Pooling: problem.PoolingNone,
				Access:    access.Distribution{Kind: access.Zipf, Exponent: rapid.Float64Range(.1, 2).Draw(t, "zipf")},
				Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
			})
		}
		shards := byRows(p)
		if whole := rapid.SampledFrom([]problem.ShardingType{problem.RowWise, problem.TableWise, problem.DataParallel}).Draw(t, "sharding type"); whole != problem.RowWise {
			shards = make([][]problem.Shard, p.Topology.Devices)
			for i := range p.Tables {
				s := p.Whole(i)
				s.ShardingType = whole
				for d := range shards {
					if whole == problem.DataParallel || d == i%len(shards) {
						shards[d] = append(shards[d], s)
					}
				}
			}
		}
		was, input := priced(t, p, shards)
		for i := range p.Tables {
			p.Tables[i].IndexDedup = true
		}
		// Times of fewer lookups are equal up to rounding if no row is used twice.
		if is, own := priced(t, p, shards); is > was*1.001 || own > input*1.001 {
			t.Errorf("got %v and %v of indices with deduplication, %v and %v without", is, own, was, input)
		}
	})
}

func priced(t interface{ Fatal(...any) }, p *problem.Problem, shards [][]problem.Shard) (cost, input unit.Millis) {
	pricer := simulate.NewPricer(p)
	b, err := pricer.Price(shards)
	if err != nil {
		t.Fatal(err)
	}
	if input, err = pricer.Input(shards); err != nil {
		t.Fatal(err)
	}
	return b.Cost, input
}
