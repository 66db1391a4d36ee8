package simulate

import (
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// torchrec_test.go compares the simulated device with the closed forms of TorchRec's
// planner at the device's own bandwidths: both should agree which of two sharding types
// costs more. The planner is a different model of the same machines, by different people.

// closedForm returns the cost, in ms, that TorchRec's planner gives to a shard of a table
// of one sharding type.
func closedForm(p *problem.Problem, t *problem.Table, kind problem.ShardingType) float64 {
	hw := p.Topology.Profile
	hbm, intra, inter := hw.HBMGBps*hw.HBMEfficiency*1e6, hw.IntraGBps*1e6, hw.NICGBps*1e6
	w, l, g := float64(p.Topology.Devices), float64(p.Topology.PerHost()), float64(p.Topology.Hosts())
	batch := float64(p.Batch) / w
	lookups, outputs := t.PoolingFactor()*batch, min(1, t.PoolingFactor())*batch
	dim := float64(t.Dim)
	compute := func(lookups, outputs, penalty float64) float64 {
		forward := (8*lookups + lookups*max(dim, 32)*4 + outputs*dim*4) * penalty / hbm
		return 3 * forward
	}
	penalty := 1.75
	if dim >= 128 {
		penalty = 1
	} else if dim >= 64 {
		penalty = 1.15
	}
	link, ring := intra, intra
	if g > 1 {
		// TorchRec lets a reduce-scatter over hosts go through one device's network card,
		// and an all-reduce through the cards of all devices of a host. Here both rings use
		// all cards.
		link, ring = inter, inter*l
	}
	pooled := outputs * w * dim * 4
	switch kind {
	case problem.TableWise:
		return compute(lookups*w, outputs*w, penalty) + 2*pooled/link
	case problem.RowWise:
		return compute(lookups, outputs*w, 1) + 2*pooled/ring + 2.455*pooled/hbm
	case problem.TableRowWise:
		comm := 2 * pooled / intra
		if g > 1 {
			comm += 2 * outputs * g * dim * 4 / inter
		}
		return compute(lookups*w/l, outputs*w, 1) + comm
	}
	bytes, hosts := float64(t.Rows)*dim*4, min(g, 2)
	reduce := bytes * (2*hosts - 1) / hosts / (inter * l)
	if w > 2*l {
		reduce *= 2
	}
	return compute(lookups, outputs, penalty) + reduce + 9.22*bytes/hbm
}

// bothModels returns the costs, in ms, of the first device with all tables in one
// sharding type, by the closed forms, and of the placement on the simulated device.
func bothModels(t *testing.T, p *problem.Problem, kinds []problem.ShardingType) (theirs, ours map[problem.ShardingType]float64) {
	forms := map[problem.ShardingType]*placed{}
	for _, k := range kinds {
		forms[k] = place(p)
	}
	for i := range p.Tables {
		forms[problem.TableWise].on(i, i%p.Topology.Devices)
		forms[problem.RowWise].rowWise(i)
		forms[problem.TableRowWise].hostWise(i, i%(p.Topology.Devices/p.Topology.DevicesPerHost))
		forms[problem.DataParallel].replicate(i)
	}
	theirs, ours = map[problem.ShardingType]float64{}, map[problem.ShardingType]float64{}
	for _, k := range kinds {
		for _, s := range forms[k].shards[0] {
			theirs[k] += closedForm(p, &p.Tables[s.Table], k)
		}
		ours[k] = float64(forms[k].price(t).Cost)
	}
	return theirs, ours
}

// TestDirectionsOfTorchRec: a sharding type that costs more than twice another one for
// TorchRec's planner costs more than it on the simulated device.
func TestDirectionsOfTorchRec(t *testing.T) {
	// Nearly all of this small table's time is fixed times, which TorchRec does not count,
	// and table-row-wise has more exchanges.
	exceptions := map[string]bool{
		"h100-80 x 16, 1 table of 1024 x 16: table_wise above table_row_wise": true,
	}
	kinds := []problem.ShardingType{problem.TableWise, problem.RowWise, problem.TableRowWise, problem.DataParallel}
	compared, met := 0, 0
	for _, cluster := range []struct {
		profile          string
		devices, perHost int
	}{{"v100-32", 16, 8}, {"a100-80", 8, 8}, {"a100-80", 32, 8}, {"h100-80", 16, 8}, {"h100-80", 64, 8}} {
		for _, shape := range []struct {
			tables  int
			rows    int64
			dim     int
			pooling float64
		}{
			{1, 10_000_000, 128, 100},
			{1, 10_000_000, 64, 1},
			{1, 1024, 128, 10},
			{1, 1024, 16, 1},
			{1, 1_000_000, 32, 300},
			{64, 1_000_000, 64, 20},
			{64, 1_000_000, 128, 1},
			{64, 2048, 64, 20},
			{64, 2048, 16, 2},
			{64, 100_000, 128, 5},
			{64, 10_000_000, 16, 100},
		} {
			p := on(t, cluster.profile, cluster.devices, cluster.perHost)
			for i := range shape.tables {
				p.Tables = append(p.Tables, tableOf(fmt.Sprint("t", i), shape.rows, shape.dim, shape.pooling, false))
			}
			theirs, ours := bothModels(t, p, kinds)
			name := fmt.Sprintf("%s x %d, %d table of %d x %d", cluster.profile, cluster.devices, shape.tables, shape.rows, shape.dim)
			for _, more := range kinds {
				for _, less := range kinds {
					if theirs[more] <= 2*theirs[less] {
						continue
					}
					compared++
					what := fmt.Sprintf("%s: %s above %s", name, more, less)
					if exceptions[what] {
						met++
					}
					if agree := ours[more] > ours[less]; agree == exceptions[what] {
						t.Errorf("%s: TorchRec has %.3f and %.3f ms, the simulated device %.3f and %.3f", what, theirs[more], theirs[less], ours[more], ours[less])
					}
				}
			}
		}
	}
	if compared != 255 || met != len(exceptions) {
		t.Errorf("got %d pairs more than a factor 2 apart with %d exceptions, want 255 with %d", compared, met, len(exceptions))
	}
}
