package neuroshard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// A problem of a million tables is refused before any work, also from an old plan.
func TestMillionTablesAreRefused(t *testing.T) {
	for _, n := range []int{neuroshard.MaxPlanned + 1, 1_000_000} {
		p := &problem.Problem{Tables: make([]problem.Table, n)}
		_, err := neuroshard.Plan(t.Context(), p, neuroshard.Options{})
		_, again := neuroshard.Replan(t.Context(), p, &plan.Plan{}, neuroshard.ReplanOptions{})
		for _, err := range []error{err, again} {
			if invalid, ok := errors.AsType[*problem.Invalid](err); !ok || len(invalid.Faults) != 1 || !strings.Contains(err.Error(), "a plan has at most 131072") {
				t.Errorf("%d tables: got %v, want that they are too many", n, err)
			}
		}
	}
}

// The most devices that a cluster can have get a plan.
func TestMostDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and minutes under the race detector")
	}
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	p := &problem.Problem{Batch: 1 << 20, Topology: hardware.Topology{Profile: profile, Devices: hardware.MaxDevices, DevicesPerHost: 8}}
	for _, name := range []string{"a", "b", "c"} {
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 1_000_000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 10}}})
	}
	options := neuroshard.Options{}
	options.Search.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.ColumnWise}
	result, err := neuroshard.Plan(t.Context(), p, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Plan.Validate(p); err != nil || len(result.Plan.Devices) != hardware.MaxDevices {
		t.Errorf("got %d devices and %v, want a valid plan of %d", len(result.Plan.Devices), err, hardware.MaxDevices)
	}
}
