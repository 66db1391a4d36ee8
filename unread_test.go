package neuroshard_test

import (
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestTablesWithoutLookups: sequences without lookups cost nothing wherever they lie, alone or beside
// tables with lookups, and lie on all devices with nearly the same bytes.
func TestTablesWithoutLookups(t *testing.T) {
	for _, read := range []int{0, 6} {
		for _, prices := range []neuroshard.Prices{nil, neuroshard.TorchRec()} {
			p := sequences(t, 8, 150, 64, 0)
			for i := range p.Tables {
				p.Tables[i].Rows = 1000 + int64(i*7919%1000)*40
				if i >= read {
					p.Tables[i].Features[0].PoolingFactor = 0
				}
			}
			for _, types := range [][]problem.ShardingType{nil, problem.ShardingTypes()} {
				r := planned(t, p, neuroshard.Options{Prices: prices, Search: search.Options{ShardingTypes: types, MaxEvaluations: 20_000}})
				var most, sum unit.Bytes
				for _, d := range r.Plan.Devices {
					bytes := d.Memory.Total()
					most, sum = max(most, bytes), sum+bytes
				}
				if share := float64(most) * 8 / float64(sum); share > 1.03 {
					t.Errorf("%d tables with lookups, %T, %v: the fullest device has %.3f times the mean bytes", read, prices, types, share)
				}
				if devices := devicesOf(r, "s149"); len(devices) != 1 {
					t.Errorf("%d tables with lookups: a table without lies on %d devices", read, len(devices))
				}
			}
		}
	}
}

// devicesOf returns the devices of the shards of a table.
func devicesOf(r *neuroshard.Result, table string) (devices []int) {
	for _, s := range r.Plan.Table(table).Shards {
		devices = append(devices, s.Device)
	}
	return devices
}
