package main

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// Of an all-to-all (l-1)/(n-1) stays inside hosts, of a ring over all devices (l-1)/l
// in each host, of blocks by host all but the sums.
func TestMovedBytes(t *testing.T) {
	p := &problem.Problem{
		Batch:    1024,
		Topology: hardware.Topology{Devices: 4, DevicesPerHost: 2},
		Tables:   []problem.Table{{Name: "a", Rows: 100, Dim: 8, Features: []problem.Feature{{Name: "f", PoolingFactor: 1}}}},
	}
	whole := p.Whole(0)
	blocks := func(kind problem.ShardingType, devices ...int) [][]problem.Shard {
		shards := make([][]problem.Shard, 4)
		size := int64(100 / len(devices))
		for i, d := range devices {
			s := whole
			s.ShardingType = kind
			if kind != problem.DataParallel {
				s.Rows.Start, s.Rows.End = int64(i)*size, int64(i+1)*size
			}
			shards[d] = append(shards[d], s)
		}
		return shards
	}
	vectors := 1024.0 * 8 * 4
	for _, tt := range []struct {
		name            string
		shards          [][]problem.Shard
		inside, between float64
	}{
		// From one device to three, a quarter of the vectors each; and back.
		{"table_wise", [][]problem.Shard{{whole}, nil, nil, nil}, vectors / 2, vectors},
		// Four devices pass on three quarters each, two of them to another host.
		{"row_wise", blocks(problem.RowWise, 0, 1, 2, 3), 3 * vectors, 3 * vectors},
		// Two pass on a half each, and half of the sums go to the other host.
		{"table_row_wise", blocks(problem.TableRowWise, 2, 3), 2 * vectors, vectors},
		// An all-reduce of 3,200 bytes: each device passes on all of them in its host,
		// and its half between hosts.
		{"data_parallel", blocks(problem.DataParallel, 0, 1, 2, 3), 4 * 3200, 2 * 3200},
	} {
		if inside, between := moved(p, tt.shards); inside != tt.inside || between != tt.between {
			t.Errorf("%s: got %v bytes inside hosts and %v between, want %v and %v", tt.name, inside, between, tt.inside, tt.between)
		}
	}
}

// A drawn problem is valid, and its devices have as much HBM for its tables as asked for.
func TestDrawnProblems(t *testing.T) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		for _, share := range []float64{.4, 1.3} {
			p := drawnProblem(profile, seed, share)
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			sum := 0.
			for i := range p.Tables {
				sum += float64(p.ShardMemory(p.Whole(i)).Total())
			}
			n := p.Topology.Devices
			if got := float64(p.ShardBudget(0)) * float64(n) / sum; math.Abs(got-share) > 1e-3 {
				t.Errorf("seed %d: got HBM for %.4f of the tables on %d devices, want %v", seed, got, n, share)
			}
		}
	}
}

// What cannot be run is said, and nothing is printed.
func TestWrongArguments(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "say which table to make"},
		{"widths", `table "widths" is unknown`},
		{"scenarios -runs 0", "-runs: 0 is not at least 1"},
		{"workloads -workloads none", "none"},
		{"short more", `"more" is one argument too many`},
	} {
		var out bytes.Buffer
		err := run(context.Background(), &out, strings.Fields(tt.args))
		if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("sharding %s: got error %v and output %q, want an error with %q", tt.args, err, out.String(), tt.want)
		}
	}
}

// -h lists the tables and flags, and is no error.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"--help"}, {"pays", "-h"}} {
		var out bytes.Buffer
		if err := run(context.Background(), &out, args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		for _, want := range []string{"usage: go run ./docs/generate/sharding TABLE", "scenarios, workloads, pays", "-runs"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: got\n%s\nwant %q in it", args, out.String(), want)
			}
		}
	}
}

// The plans that regretOf compares are those of Plan: where memory is short, they leave the room
// for the backward that Plan leaves, too.
func TestRegretOfPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it plans many problems, one after another")
	}
	w, err := workload.ByName("criteo-kaggle")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	p.Topology.Devices, p.Topology.DevicesPerHost, p.Topology.Memory, p.Topology.ReserveShare = 2, 2, 1040*unit.MiB, hardware.NoReserve
	v, err := regretOf(context.Background(), &p, columnsOnly)
	if err != nil {
		t.Fatal(err)
	}
	r, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Search: search.Options{ShardingTypes: columnsOnly}})
	if err != nil {
		t.Fatal(err)
	}
	if want := [2]unit.Millis{r.Lanes.Widest, r.Lanes.Own}; v[1] != want {
		t.Errorf("got a plan of %v, want %v as Plan", v[1], want)
	}
	if !p.LeavesBackwardRoom(r.Shards) {
		t.Error("a device has no room for its backward")
	}
}

// A row has the means of the costs, and by how much each plan costs more than the one that
// was searched under the rule that holds.
func TestRegret(t *testing.T) {
	var sum regret
	sum.add(regret{{2, 2}, {2, 2}, {3, 1}})
	sum.add(regret{{2, 2}, {2.5, 1.5}, {3, 1.5}})
	var out bytes.Buffer
	sum.row(&program{out: &out}, "two", "8 x h200", 2)
	want := "| two | 8 x h200 | 2.000 | 2.000 | 2.250 | 1.750 | 3.000 | 1.250 | 60.0 | 40.0 | 50.0 |\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
