package simulate

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// allOf returns all tables, whole.
func allOf(p *problem.Problem) []problem.Shard {
	var all []problem.Shard
	for i := range p.Tables {
		all = append(all, p.Whole(i))
	}
	return all
}

// Lanes of its own make no table of an operator slower, if no slice has more than 1,024
// columns and the bags of one table fill the device. If they do not, tables share the cache,
// and with own lanes more of them do; the formulas do not exclude that this costs more.
func TestOwnLanesAreNotSlower(t *testing.T) {
	a100 := must.Get(hardware.ByName("a100-80"))(t)
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
		pricer := NewPricer(p)
		forward, backward := pricer.GroupCost(allOf(p))
		own, ownBackward := pricer.Under(problem.LanesByTable).GroupCost(allOf(p))
		if own > forward*(1+1e-12) || ownBackward > backward*(1+1e-12) {
			t.Fatalf("got %v and %v with each table's own lanes, want at most %v and %v", own, ownBackward, forward, backward)
		}
	})
}
