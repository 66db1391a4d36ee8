package bound

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// A block, a block of a host and a replica alone take the time of the simulated device if
// all blocks have the same rows and no slice can be wider than 1,024 columns, and at most
// that time otherwise: beside a wider slice, another kernel may take less time.
func TestClassesAloneAreThoseOfTheSimulatedDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawOperator(t)
		p.Topology.Devices = rapid.IntRange(2, 16).Draw(t, "devices")
		p.Topology.Memory = 1 << 44
		if p.Topology.Profile.NICGBps > 0 {
			p.Topology.DevicesPerHost = rapid.IntRange(1, p.Topology.Devices).Draw(t, "devices per host")
			p.Topology.NVLinkDomain = p.Topology.DevicesPerHost * rapid.IntRange(0, 3).Draw(t, "hosts of a domain")
		}
		counts := simulate.NewPricer(p)
		r := newRelaxation(p, counts, p.Topology.Devices, Allowed{ShardingTypes: problem.ShardingTypes()})
		w := must.Get(newWires(p, 1, 1))(t)
		s := newOtherClasses(p, w, r, counts, problem.ShardingTypes())
		usual := true
		for i := range p.Tables {
			usual = usual && p.Tables[i].Dim <= simulate.WideColumns
		}
		for i := range r.tables {
			at := r.tables[i].index
			table := &p.Tables[at]
			shard := p.Whole(at)
			compare := func(what string, got float64, even bool) {
				forward, backward := counts.GroupCost([]problem.Shard{shard})
				got += fixedMS
				want := float64(forward + backward)
				if got > want*(1+1e-12) || even && usual && table.Dim <= maxGranules*problem.ColumnGranule && got < want*(1-1e-7) {
					t.Fatalf("table %d of %d rows as %s on %d devices: got %v ms, want %v", at, table.Rows, what, p.Topology.Devices, got, want)
				}
			}
			cut := func(devices int) bool {
				shard.Rows.End = table.BlockRows(devices)
				return table.Rows%int64(devices) == 0
			}
			shard.ShardingType = problem.DataParallel
			compare("replica", s.replicas[i].alone, true)
			if e := s.blocks[i]; e != nil {
				shard.ShardingType = problem.RowWise
				compare("block", e.alone, cut(p.Topology.Devices))
			}
			if s.byRows[i] {
				host := &s.hosts.tables[i]
				lanes := lanesOf(r.lanes[0], host.granules)
				shard.ShardingType = problem.TableRowWise
				compare("block of a host", host.slices[len(host.slices)-1].alone[lanes], cut(p.Topology.PerHost()))
			}
		}
	})
}
