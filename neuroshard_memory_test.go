package neuroshard_test

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestRoomForTheBackward plans where the tables fit with and without the room that a
// device without outputs needs in the backward: the plan leaves that room.
func TestRoomForTheBackward(t *testing.T) {
	p := problem.Problem{
		Batch:    1024,
		Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: 2, Memory: 8 * unit.MiB, ReserveShare: hardware.NoReserve},
	}
	for _, rows := range []int64{20_000, 10, 10, 10, 10, 10} {
		name := string(rune('a' + len(p.Tables)))
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: rows, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: 1}}})
	}
	r, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Search: search.Options{ShardingTypes: search.Columns()}})
	if err != nil {
		t.Fatal(err)
	}
	if !p.LeavesBackwardRoom(r.Shards) {
		t.Errorf("got %+v, want room for the backward of each device", r.Plan.Devices)
	}
}

// TestWithoutRoomForTheBackward plans with little memory: whatever the sharding types, Plan
// places the tables wherever the search does without that room.
func TestWithoutRoomForTheBackward(t *testing.T) {
	p := problem.Problem{
		Batch:    1024,
		Topology: hardware.Topology{Profile: profileNamed(t, "a100-80"), Devices: 2, ReserveShare: hardware.NoReserve},
	}
	for _, name := range []string{"a", "b", "c"} {
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 5_000, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: 1}}})
	}
	const rows, replicas = 4_000 * unit.KiB, 11_700 * unit.KiB // enough without the room only
	for _, test := range []struct {
		types []problem.ShardingType
		least unit.Bytes
	}{
		{[]problem.ShardingType{problem.RowWise}, rows},
		{[]problem.ShardingType{problem.DataParallel}, replicas},
		{[]problem.ShardingType{problem.RowWise, problem.DataParallel}, rows},
	} {
		types, onlyWithout := test.types, 0
		for _, memory := range []unit.Bytes{test.least - 500*unit.KiB, test.least, test.least + 500*unit.KiB} {
			p.Topology.Memory = memory
			opt := search.Options{ShardingTypes: types, Workers: 1, MaxEvaluations: 2000}
			list, err := neuroshard.Pretrained().List(t.Context(), &p)
			if err != nil {
				t.Fatal(err)
			}
			_, without := search.Run(context.Background(), &p, list.NewScorer, opt)
			roomy := p
			roomy.Topology.ReserveFixed = p.BackwardRoom()
			_, with := search.Run(context.Background(), &roomy, list.NewScorer, opt)
			if without == nil && with != nil {
				onlyWithout++
			}
			if _, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Search: opt}); (err == nil) != (without == nil) {
				t.Errorf("%v of memory, sharding types %v: got error %v, want that of the search, %v", memory, types, err, without)
			}
		}
		if onlyWithout == 0 {
			t.Errorf("sharding types %v: no memory is enough without the room only", types)
		}
	}
}
