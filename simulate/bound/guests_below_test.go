package bound_test

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
)

// A table in more slices than there are devices without other guests is in no tree, so the other
// trees must not have a bound above the limit. Here two guests leave one of three devices, and the
// best placement cuts the table into three slices, one on each device.
func TestMoreSlicesThanDevicesWithoutGuests(t *testing.T) {
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 3, DevicesPerHost: 3}}
	for _, c := range []struct {
		name    string
		rows    int64
		dim     int
		pooling float64
	}{{"a", 20_000_000, 96, 100}, {"b", 20_000_000, 32, 110}, {"c", 20_001_000, 32, 110.5}} {
		p.Tables = append(p.Tables, problem.Table{
			Name: c.name, Rows: c.rows, Dim: c.dim, Features: []problem.Feature{{PoolingFactor: c.pooling}},
			Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05}, Constraint: problem.Constraint{MinWidth: 32},
		})
	}
	slice := func(first int64) problem.Shard {
		s := p.Whole(0)
		s.Columns = problem.Range{Start: first, End: first + 32}
		return s
	}
	cost := price(t, simulate.NewPricer(p), [][]problem.Shard{{slice(0), p.Whole(1)}, {slice(32), p.Whole(2)}, {slice(64)}})
	for _, allowed := range []bound.Allowed{{}, {Operators: true}} {
		least := must.Get(bound.Simulated(context.Background(), p, allowed))(t)
		if least.Total > cost {
			t.Errorf("%v: got a bound of %v, above the cost of a placement, %v", allowed, least.Total, cost)
		}
	}
}
