package bound

import (
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"pgregory.net/rapid"
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
		w, err := newWires(p, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
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

// The last block of a table may be shorter than the others. What blocks take is then, number
// by number, the lesser of what the two kinds take, and the memory is that of the last block.
func TestShortLastBlock(t *testing.T) {
	lastLess, othersLess := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawOperator(t)
		p.Topology.Devices = rapid.IntRange(2, 16).Draw(t, "devices")
		p.Topology.Memory = 1 << 44
		p.Topology.DevicesPerHost = 0
		devices, counts := p.Topology.Devices, simulate.NewPricer(p)
		w, err := newWires(p, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		device, lanes := deviceOf(p), classesOf(p)
		c := counter{problem: p, pricer: counts, device: device, budget: float64(p.ShardBudget(0)), wires: w, copies: problem.ReplicasOf(p), ofCopies: counts}
		for i := range p.Tables {
			whole := &p.Tables[i]
			if !whole.CutsByRows(devices) {
				continue
			}
			last := p.Whole(i)
			last.ShardingType, last.Rows.Start = problem.RowWise, whole.BlockRows(devices)*int64(devices-1)
			if got, want := c.block(i, lanes).bytes, float64(p.ShardMemory(last).Tables()); got != want {
				t.Fatalf("table %d of %d rows on %d devices: got %v bytes, want the last block's %v", i, whole.Rows, devices, got, want)
			}
			of := func(rows int64) table {
				q := *p
				q.Tables = []problem.Table{*whole}
				q.Tables[0].Rows = rows
				part := counts.Counts(i).Part(float64(rows) / float64(whole.Rows))
				part.Unique = min(part.Unique, float64(rows), part.Lookups)
				q.Tables[0].Features = slices.Clone(whole.Features)
				for f := range q.Tables[0].Features {
					q.Tables[0].Features[f].LengthCV = whole.BlockLengthCV(part.Lookups / counts.Counts(i).Lookups)
					if whole.Pooling == problem.PoolingNone {
						q.Tables[0].Features[f].PoolingFactor = whole.Features[f].PoolingFactor * part.Lookups / counts.Counts(i).Lookups
					}
				}
				return newTable(&device, &q, 0, part, lanes)
			}
			shortest, others := of(last.Rows.Len()), of(whole.BlockRows(devices))
			got := newBlock(&device, p, i, devices, counts.Counts(i), lanes)
			lesser := func(what string, got, a, b float64) {
				if got != min(a, b) {
					t.Fatalf("table %d of %d rows on %d devices: %s: got %v, want the lesser of %v and %v", i, whole.Rows, devices, what, got, a, b)
				}
				if a < b {
					lastLess++
				} else if b < a {
					othersLess++
				}
			}
			for k := range got.sorted {
				lesser("sorting", got.sorted[k], shortest.sorted[k], others.sorted[k])
			}
			for j := range got.slices {
				s, a, b := &got.slices[j], &shortest.slices[j], &others.slices[j]
				for l := range lanes {
					lesser("issue", s.issue[l], a.issue[l], b.issue[l])
					lesser("issue of the backward", s.issueBack[l], a.issueBack[l], b.issueBack[l])
				}
				lesser("memory", s.memory, a.memory, b.memory)
				lesser("memory of the backward", s.memoryBack, a.memoryBack, b.memoryBack)
				lesser("cache", s.cache, a.cache, b.cache)
				lesser("cache of the backward", s.cacheBack, a.cacheBack, b.cacheBack)
			}
		}
	})
	if lastLess == 0 {
		t.Error("no last block took less than the others: the test says nothing")
	}
	t.Logf("the last block took less %d times, the others %d times", lastLess, othersLess)
}
