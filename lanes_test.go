package neuroshard_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// mixedWidths returns tables of the given dims on one a100-80, each with 10 lookups a sample.
func mixedWidths(t *testing.T, dims ...int) *problem.Problem {
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: 1}}
	for i, dim := range dims {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprintf("t%d", i), Rows: 100_000, Dim: dim, Features: []problem.Feature{{Name: "f", PoolingFactor: 10}},
		})
	}
	return p
}

// whole returns the placement of all tables, whole, on one device.
func whole(p *problem.Problem) [][]problem.Shard {
	var held []problem.Shard
	for i := range p.Tables {
		held = append(held, p.Whole(i))
	}
	return [][]problem.Shard{held}
}

// A result has the simulated costs under both lane rules, whichever the problem states.
// Narrow tables beside a wide one are slower by more than a half if it sets the lanes.
func TestLanes(t *testing.T) {
	for _, c := range []struct {
		dims        []int
		least, most float64
	}{
		{[]int{8, 8, 8, 8, 8, 8, 8, 8, 128}, 1.5, 3},
		{[]int{128, 128, 128}, 1, 1},
		{[]int{8, 16, 32}, 1, 1},
		{[]int{32, 64}, 1.05, 2},
	} {
		p := mixedWidths(t, c.dims...)
		var results [2]*neuroshard.Result
		for rule := range results {
			p.LaneRule = problem.LaneRule(rule)
			r, err := neuroshard.Evaluate(p, whole(p), neuroshard.Options{Prices: neuroshard.TorchRec()})
			if err != nil {
				t.Fatal(err)
			}
			results[rule] = r
		}
		lanes := results[0].Lanes
		if lanes != results[1].Lanes || results[0].Simulated.Cost != lanes.Widest || results[1].Simulated.Cost != lanes.Own {
			t.Errorf("dims %v: got %+v and %+v for costs %v and %v, want the same pair of costs", c.dims, lanes, results[1].Lanes, results[0].Simulated.Cost, results[1].Simulated.Cost)
		}
		if ratio := float64(lanes.Widest / lanes.Own); ratio < c.least || ratio > c.most {
			t.Errorf("dims %v: got a ratio of costs of %.3f, want %v to %v", c.dims, ratio, c.least, c.most)
		}
		if digests := [2]string{results[0].Plan.Provenance.Input, results[1].Plan.Provenance.Input}; digests[0] == digests[1] {
			t.Errorf("dims %v: both rules have the digest %s, want two digests", c.dims, digests[0])
		}
	}
}

// Lanes of its own make no table of an operator slower, if no slice has more than 1,024
// columns and the bags of one table fill the device. If they do not, tables share the cache,
// and with own lanes more of them do; the formulas do not exclude that this costs more.
func TestOwnLanesAreNotSlower(t *testing.T) {
	a100 := profileNamed(t, "a100-80")
	rapid.Check(t, func(t *rapid.T) {
		p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: a100, Devices: 1}}
		for i := range rapid.IntRange(1, 6).Draw(t, "tables") {
			p.Tables = append(p.Tables, problem.Table{
				Name: fmt.Sprintf("t%d", i), Rows: rapid.Int64Range(1, 10_000_000).Draw(t, "rows"), Dim: 4 * rapid.IntRange(1, 256).Draw(t, "dim/4"),
				Weighted:  rapid.Bool().Draw(t, "weighted"),
				Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
				Features: []problem.Feature{{
					Name: "f", PoolingFactor: rapid.Float64Range(0, 50).Draw(t, "pooling"), LengthCV: rapid.Float64Range(0, 3).Draw(t, "length cv"),
				}},
			})
		}
		pricer := simulate.NewPricer(p)
		forward, backward := pricer.GroupCost(whole(p)[0])
		own, ownBackward := pricer.Under(problem.LanesByTable).GroupCost(whole(p)[0])
		if own > forward*(1+1e-12) || ownBackward > backward*(1+1e-12) {
			t.Fatalf("got %v and %v with each table's own lanes, want at most %v and %v", own, ownBackward, forward, backward)
		}
	})
}

// Beside a table of more than 1,024 columns, another kernel runs, in which bags of unequal
// lengths do not share warps. So there a table may be slower with lanes of its own.
func TestWhereOwnLanesAreSlower(t *testing.T) {
	p := mixedWidths(t, 8, 1028)
	p.Tables[0].Features[0] = problem.Feature{Name: "f", PoolingFactor: 50, LengthCV: 2}
	p.Tables[1].Features[0].PoolingFactor = 0.01
	pricer := simulate.NewPricer(p)
	forward, _ := pricer.GroupCost(whole(p)[0])
	own, _ := pricer.Under(problem.LanesByTable).GroupCost(whole(p)[0])
	if own < 1.5*forward {
		t.Errorf("got %v with each table's own lanes, want at least 1.5 times %v", own, forward)
	}
}
