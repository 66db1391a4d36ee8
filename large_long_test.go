//go:build long

package neuroshard_test

import (
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The most devices that a cluster can have get a plan.
func TestMostDevices(t *testing.T) {
	p := &problem.Problem{Batch: 1 << 20, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: hardware.MaxDevices, DevicesPerHost: 8}}
	for _, name := range []string{"a", "b", "c"} {
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 1_000_000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 10}}})
	}
	options := neuroshard.Options{}
	options.Search.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.ColumnWise}
	result := must.Get(neuroshard.Plan(t.Context(), p, options))(t)
	if err := result.Plan.Validate(p); err != nil || len(result.Plan.Devices) != hardware.MaxDevices {
		t.Errorf("got %d devices and %v, want a valid plan of %d", len(result.Plan.Devices), err, hardware.MaxDevices)
	}
}
