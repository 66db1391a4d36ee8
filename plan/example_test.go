package plan_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// twoTables returns two tables for two devices.
func twoTables() *problem.Problem {
	profile, _ := hardware.ByName("a100-80")
	return &problem.Problem{
		Tables: []problem.Table{
			{Name: "user", Rows: 1_000_000, Dim: 64, Features: []problem.Feature{{Name: "user_id", PoolingFactor: 1}}},
			{Name: "item", Rows: 5_000_000, Dim: 128, Features: []problem.Feature{{Name: "clicked", PoolingFactor: 20}}},
		},
		Topology: hardware.Topology{Profile: profile, Devices: 2},
		Batch:    8192,
	}
}

// A plan is made from what each device shall hold, proven, saved and loaded.
func Example() {
	p := twoTables()
	left, right := p.Whole(1), p.Whole(1)
	left.Columns.End, right.Columns.Start = 32, 32
	pl := plan.New(p, [][]problem.Shard{{p.Whole(0), left}, {right}})
	if err := pl.Validate(p); err != nil {
		fmt.Println(err)
		return
	}

	dir, err := os.MkdirTemp("", "plan")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "plan.json")
	if err := pl.Save(path); err != nil {
		fmt.Println(err)
		return
	}
	loaded, err := plan.Load(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range loaded.Tables {
		fmt.Println(t.Name, t.ShardingType)
		for _, s := range t.Shards {
			fmt.Printf("  device %d holds columns %d to %d\n", s.Device, s.Columns.Start, s.Columns.End-1)
		}
	}
	for i, d := range loaded.Devices {
		fmt.Printf("device %d: dim sum %d, %v\n", i, d.DimSum, d.Memory.Total())
	}
	// Output:
	// user table_wise
	//   device 0 holds columns 0 to 63
	// item column_wise
	//   device 0 holds columns 0 to 31
	//   device 1 holds columns 32 to 127
	// device 0: dim sum 96, 12.9 GiB
	// device 1: dim sum 96, 13.8 GiB
}

func ExamplePlan_Validate() {
	p := twoTables()
	half := p.Whole(1)
	half.Columns.End = 62
	pl := plan.New(p, [][]problem.Shard{{p.Whole(0), half}, {p.Whole(0)}})
	fmt.Println(pl.Validate(p))
	// Output:
	// table "user", shard 1: rows [0, 1000000) of columns [0, 64) are placed twice: on device 0 and on device 1
	// table "item": columns [62, 128) are placed nowhere
	// table "item": a column_wise table does not have 1 shards
	// table "item", shard 0: width 62 is not a multiple of 4
}

func ExampleDiff() {
	p := twoTables()
	before := plan.New(p, [][]problem.Shard{{p.Whole(0), p.Whole(1)}, nil})
	after := plan.New(p, [][]problem.Shard{{p.Whole(1)}, {p.Whole(0)}})
	changes := plan.Diff(before, after)
	for _, t := range changes.Tables {
		fmt.Printf("%s from device %v to %v: %v\n", t.Name, t.Before.Devices, t.After.Devices, t.Bytes)
	}
	fmt.Println(changes.Unchanged, "unchanged")
	// Output:
	// user from device [0] to [1]: 244 MiB
	// 1 unchanged
}

// The later plan has the tables of device 0 on device 1, and the other way round: with other names
// for both devices, only half of a table moves.
func ExampleRenaming() {
	p := twoTables()
	left, right := p.Whole(1), p.Whole(1)
	left.Columns.End, right.Columns.Start = 64, 64
	before := plan.New(p, [][]problem.Shard{{p.Whole(0)}, {p.Whole(1)}})
	after := plan.New(p, [][]problem.Shard{{left}, {p.Whole(0), right}})
	for _, pl := range []*plan.Plan{after, plan.New(p, after.Renamed(plan.Renaming(before, after, p)))} {
		transfer, err := plan.NewTransfer(before, pl)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v of %v in %v:\n", transfer.Bytes, transfer.Total, transfer.Inside)
		for _, t := range transfer.Tables {
			for _, m := range t.Moves {
				fmt.Printf("  %s, columns %d to %d, from device %d to %d\n", t.Name, m.Columns[0], m.Columns[1]-1, m.From, m.To)
			}
		}
	}
	// Output:
	// 1.43 GiB of 2.62 GiB in 5.57 ms:
	//   user, columns 0 to 63, from device 0 to 1
	//   item, columns 0 to 63, from device 1 to 0
	// 1.19 GiB of 2.62 GiB in 5.57 ms:
	//   item, columns 64 to 127, from device 1 to 0
}
