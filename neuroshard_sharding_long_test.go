//go:build long

package neuroshard_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestWorkloadsInTightMemory plans every workload with less HBM than its tables take, down
// to a third. If host memory has room for twice the tables, the plan must be valid and its
// simulated cost near its estimate. Without host memory, the tables may not fit.
func TestWorkloadsInTightMemory(t *testing.T) {
	for _, w := range workload.All() {
		if len(w.Tables()) >= 1000 {
			continue // jumbo and colossal
		}
		p := w.Problem()
		total := unit.Bytes(0)
		for i := range p.Tables {
			total += p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used()
		}
		p.Topology.ReserveShare, p.Topology.ReserveFixed = hardware.NoReserve, 0
		for _, share := range []float64{.3, .6, .9, 1.1} {
			p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Used() + unit.Bytes(share*float64(total)/float64(p.Topology.Devices))
			for _, hostMemory := range []unit.Bytes{0, 2 * total / unit.Bytes(p.Topology.Hosts())} {
				p.Topology.HostMemory = hostMemory
				r, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Search: search.Options{ShardingTypes: problem.ShardingTypes(), Brief: true, MaxEvaluations: 60_000}})
				var infeasible *search.Infeasible
				if errors.As(err, &infeasible) && hostMemory == 0 {
					continue
				}
				if err != nil {
					t.Errorf("%s in %.1f of its bytes, host memory %v: %v", w.Name, share, hostMemory, err)
					continue
				}
				if err := r.Plan.Validate(&p); err != nil {
					t.Errorf("%s in %.1f of its bytes, host memory %v: %v", w.Name, share, hostMemory, err)
				}
				if bias := float64(r.Predicted.Cost/r.Simulated.Cost) - 1; math.Abs(bias) > .03 {
					t.Errorf("%s in %.1f of its bytes, host memory %v: got predicted cost %v, simulated %v: want within 3 %%", w.Name, share, hostMemory, r.Predicted.Cost, r.Simulated.Cost)
				}
			}
		}
	}
}
