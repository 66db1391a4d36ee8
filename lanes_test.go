package neuroshard_test

import (
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// mixedWidths returns tables of the given dims on one a100-80, each with 10 lookups a sample.
func mixedWidths(t *testing.T, dims ...int) *problem.Problem {
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 1}}
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
		{[]int{32, 64}, 1.02, 2},
	} {
		p := mixedWidths(t, c.dims...)
		var results [2]*neuroshard.Result
		for rule := range results {
			p.LaneRule = problem.LaneRule(rule)
			r := must.Get(neuroshard.Evaluate(t.Context(), p, whole(p), neuroshard.Options{Prices: neuroshard.TorchRec()}))(t)
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
