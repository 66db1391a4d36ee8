package plan

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// block is a shard of rows and columns of table 0.
func block(start, end, from, to int64) problem.Shard {
	return problem.Shard{Rows: span(start, end), Columns: span(from, to)}
}

// chosen returns a problem of two tables for HugeCTR on two hosts of four devices, and a plan: the
// rows of the first table lie on devices 0, 3 and 5, and the second table on all devices.
func chosen(t testing.TB) (*problem.Problem, *Plan) {
	t.Helper()
	p := &problem.Problem{
		Tables: []problem.Table{
			{Name: "rows", Rows: 1000, Dim: 16, Features: []problem.Feature{{PoolingFactor: 6}, {PoolingFactor: 2}}, Access: access.Distribution{Kind: access.Uniform}},
			{Name: "all", Rows: 80, Dim: 8, Features: []problem.Feature{{PoolingFactor: 1}}},
		},
		Topology: cluster(t, 8, 4), Batch: 4000, Engine: problem.HugeCTR,
	}
	held := make([][]problem.Shard, 8)
	for i, d := range []int{0, 3, 5} {
		held[d] = []problem.Shard{block(int64(334*i), min(1000, int64(334*i+334)), 0, 16)}
	}
	for d := range held {
		all := block(int64(10*d), int64(10*d+10), 0, 8)
		all.Table = 1
		held[d] = append(held[d], all)
	}
	return p, New(p, held)
}

// TestBlocksOnAnyDevices: a plan for HugeCTR may cut a table's rows over devices 0, 3 and 5. It is
// valid, a file keeps it, and the sums are those counted by hand.
func TestBlocksOnAnyDevices(t *testing.T) {
	p, pl := chosen(t)
	if found := violations(t, pl, p); found != nil {
		t.Fatalf("got violations %v, want none", found)
	}
	rows := pl.Tables[0]
	if got := rows.Blocks(&pl.Cluster); rows.ShardingType != RowWise || got != 3 {
		t.Errorf("got %s in %d blocks, want row_wise in 3", rows.ShardingType, got)
	}
	if got := pl.Tables[1].Blocks(&pl.Cluster); got != 0 {
		t.Errorf("a table on all devices has %d blocks of the plan's choice, want 0", got)
	}
	// A device receives 500 samples of 2 x 16 + 8 columns, and the vectors of two blocks more.
	received := unit.Bytes(500 * (2*16 + 8 + 2*2*16) * 4)
	for d, all := range tally(pl, p, []int{0, 1}, len(pl.Devices)) {
		if got := all.step[problem.ForwardExchange].Received; got != received {
			t.Errorf("device %d receives %d bytes, want %d", d, got, received)
		}
	}
	// Blocks have all bags, and 332 of 1000 rows that are read alike have 332 of 1000 lookups.
	want := problem.Memory{Weights: 332 * 16 * 4, Gradients: 4000 * 2 * 16 * 4, Indices: 10624*32 + 8001*8}
	if got := p.ShardMemory(pl.ByDevice()[5][0])[problem.LookupsBackward]; got != want {
		t.Errorf("the last block takes %+v, want %+v", got, want)
	}
	var file bytes.Buffer
	must.Do(t, pl.Write(&file))
	read := must.Get(Read(&file))(t)
	if d := cmp.Diff(pl, read); d != "" {
		t.Errorf("a file changes the plan: %s", d)
	}
	if d := cmp.Diff(pl.Tables, New(p, pl.ByDevice()).Tables); d != "" {
		t.Errorf("the shards by device give another plan: %s", d)
	}
	for _, held := range pl.ByDevice() {
		for _, s := range held {
			if want := (problem.Form{Blocks: 3}); s.Table == 0 && p.Form(s) != want {
				t.Errorf("got form %+v, want %+v", p.Form(s), want)
			}
		}
	}
}

// TestGridOnAnyDevices: each of two slices of columns has its rows on two devices that the plan
// chose.
func TestGridOnAnyDevices(t *testing.T) {
	p, _ := chosen(t)
	p.Tables = p.Tables[:1]
	held := make([][]problem.Shard, 8)
	held[1], held[4] = []problem.Shard{block(0, 500, 0, 8)}, []problem.Shard{block(500, 1000, 0, 8)}
	held[6], held[7] = []problem.Shard{block(0, 500, 8, 16)}, []problem.Shard{block(500, 1000, 8, 16)}
	pl := New(p, held)
	var idle []string
	for _, v := range violations(t, pl, p) {
		if !strings.Contains(v.Message, "hold no table") {
			idle = append(idle, v.String())
		}
	}
	if idle != nil || pl.Tables[0].ShardingType != Grid || pl.Tables[0].Blocks(&pl.Cluster) != 2 {
		t.Errorf("got %s in %d blocks with %v, want a valid grid in 2", pl.Tables[0].ShardingType, pl.Tables[0].Blocks(&pl.Cluster), idle)
	}
}

// TestBlocksOfFewRows: the last devices of a host may have no rows of a grid, and two rows on two
// devices of a host are rows on chosen devices.
func TestBlocksOfFewRows(t *testing.T) {
	c := Cluster{Devices: 8, DevicesPerHost: 4}
	grid := Table{Rows: 5, Dim: 8, ShardingType: Grid}
	for host, columns := range []problem.Range{span(0, 4), span(4, 8)} {
		for k := range 3 {
			grid.Shards = append(grid.Shards, Shard{Rows: span(int64(2*k), min(5, int64(2*k+2))), Columns: columns, Device: 4*host + k, Tier: HBM})
		}
	}
	if got := grid.Blocks(&c); got != 0 {
		t.Errorf("a grid of 5 rows over hosts of 4 devices: got %d blocks on chosen devices, want 0", got)
	}
	rows := Table{Rows: 2, Dim: 8, ShardingType: RowWise}
	for k := range 2 {
		rows.Shards = append(rows.Shards, Shard{Rows: span(int64(k), int64(k+1)), Columns: span(0, 8), Device: 4 + k, Tier: HBM})
	}
	if got := rows.Blocks(&c); got != 2 {
		t.Errorf("two rows on devices 4 and 5: got %d blocks on chosen devices, want 2", got)
	}
}

// gridOf returns slices of eight columns each, whose 1000 rows lie in equal blocks on the given
// devices.
func gridOf(slices ...[]int) (shards []Shard) {
	table := problem.Table{Rows: 1000}
	for k, devices := range slices {
		for i, d := range devices {
			shards = append(shards, Shard{Rows: blockAt(&table, len(devices), i), Columns: span(int64(8*k), int64(8*k+8)), Device: d, Tier: HBM})
		}
	}
	return shards
}

// TestBlocksThatNoEngineRuns lists tables whose rows lie on a part of the devices and that are
// not equal blocks in the order of the devices, or that have another sharding type.
func TestBlocksThatNoEngineRuns(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(p *problem.Problem, t *Table)
		want   string
	}{
		{"any engine", func(p *problem.Problem, _ *Table) { p.Engine = "" }, `rows: table "rows": its rows are cut over devices [0 3 5]: in a plan for any engine, rows are cut over all devices of the cluster or of a host; only HugeCTR lets a plan choose the devices (--engine hugectr)`},
		{"TorchRec", func(p *problem.Problem, _ *Table) { p.Engine = problem.TorchRec }, `engine: table "rows": its rows are cut over devices [0 3 5]: TorchRec cuts rows over all devices of the cluster or of a host`},
		{"out of order", func(_ *problem.Problem, t *Table) { t.Shards[0].Device = 4 }, `rows: table "rows", shard 1: rows [334, 668) of columns [0, 16) lie on device 3 and rows [0, 334) on device 4: the blocks of a slice lie in the order of the devices`},
		{"twice on a device", func(_ *problem.Problem, t *Table) { t.Shards[0].Device = 3 }, `rows: table "rows", shard 1: rows [334, 668) of columns [0, 16) lie on device 3, too: rows [0, 334) lie there already, and the blocks of a slice lie on different devices`},
		{"unequal", func(_ *problem.Problem, t *Table) { t.Shards[0].Rows.End, t.Shards[1].Rows.Start = 300, 300 }, `rows: table "rows", shard 0: rows [0, 300) of columns [0, 16) lie on device 0, but the 1000 rows of a table in 3 blocks are cut into blocks of 334: block 0 has rows [0, 334)`},
		{"outside", func(_ *problem.Problem, t *Table) { t.Shards[2].Rows.End = 1002 }, `cover: table "rows", shard 2: rows [668, 1002) of columns [0, 16) is not a part of the table's 1000 rows and 16 columns`},
		{"overlap", func(_ *problem.Problem, t *Table) { t.Shards[1].Rows.Start = 300 }, `cover: table "rows", shard 1: rows [300, 334) of columns [0, 16) are placed twice: on device 0 and on device 3`},
		{"gap", func(_ *problem.Problem, t *Table) { t.Shards[1].Rows.End = 600 }, `cover: table "rows": rows [600, 668) of columns [0, 16) are placed nowhere`},
		{"no such device", func(_ *problem.Problem, t *Table) { t.Shards[2].Device = 8 }, `device: table "rows", shard 2, device 8: there is no device 8: the cluster has 8`},
		{"in host memory", func(p *problem.Problem, t *Table) {
			p.Topology.HostMemory, p.Engine = unit.GiB, ""
			for k := range t.Shards {
				t.Shards[k].Tier = Host
			}
		}, "are cut into blocks of 125 in the order of 8 devices"},
		{"on all devices of a host", func(_ *problem.Problem, t *Table) {
			t.Shards = nil
			for d := range 4 {
				t.Shards = append(t.Shards, Shard{Rows: span(int64(250*d), int64(250*d+250)), Columns: span(0, 16), Device: 4 + d, Tier: HBM})
			}
		}, `rows: table "rows": its rows are cut over devices [4 5 6 7], which are all devices of a host: the table is table_row_wise, not row_wise`},
		{"on all devices", func(_ *problem.Problem, t *Table) {
			t.Shards = nil
			for d := range 8 {
				t.Shards = append(t.Shards, Shard{Rows: span(int64(125*d), int64(125*d+125)), Columns: span(0, 16), Device: 7 - d, Tier: HBM})
			}
		}, "are cut into blocks of 125 in the order of 8 devices: device 0 has rows [0, 125)"},
		{"a grid of unequal numbers", func(_ *problem.Problem, t *Table) {
			t.ShardingType = Grid
			t.Shards = gridOf([]int{0, 3, 5}, []int{1, 6})
		}, `rows: table "rows": columns [0, 8) are cut into 3 blocks and columns [8, 16) into 2: on devices that the plan chooses, all slices of a table have the same number of blocks of rows`},
		{"a grid out of order", func(_ *problem.Problem, t *Table) {
			t.ShardingType = Grid
			t.Shards = gridOf([]int{0, 3, 5}, []int{1, 7, 6})
		}, `rows: table "rows", shard 5: rows [668, 1000) of columns [8, 16) lie on device 6 and rows [334, 668) on device 7: the blocks of a slice lie in the order of the devices`},
		{"too few rows", func(p *problem.Problem, t *Table) {
			t.Shards, t.Rows, p.Tables[0].Rows = nil, 9, 9
			for i := range 4 {
				t.Shards = append(t.Shards, Shard{Rows: span([]int64{0, 3, 6, 8}[i], []int64{3, 6, 8, 9}[i]), Columns: span(0, 16), Device: 2 * i, Tier: HBM})
			}
		}, `rows: table "rows": its 9 rows cannot be cut into 4 blocks: blocks of 3 rows leave none for the last`},
	} {
		p, pl := chosen(t)
		test.change(p, &pl.Tables[0])
		pl.Cluster = clusterOf(p)
		restate(p, pl)
		found := violations(t, pl, p)
		if !slices.ContainsFunc(found, func(v Violation) bool { return strings.Contains(string(v.Rule)+": "+v.String(), test.want) }) || len(found) != 1 {
			t.Errorf("%s: got %v, want %q alone", test.name, found, test.want)
		}
	}
}

// TestReceivedOfBlocksFits: what devices receive from blocks counts against their memory, also on
// devices without a block.
func TestReceivedOfBlocksFits(t *testing.T) {
	p, pl := chosen(t)
	p.Topology.Memory, p.Topology.ReserveShare = pl.Devices[0].Memory.Used(), hardware.NoReserve
	pl.Cluster = clusterOf(p)
	restate(p, pl)
	if found := violations(t, pl, p); found != nil {
		t.Fatalf("with exactly the memory of device 0: got %v", found)
	}
	p.Topology.Memory--
	pl.Cluster = clusterOf(p)
	if found := violations(t, pl, p); len(found) == 0 || found[0].Rule != RuleMemory {
		t.Errorf("with a byte less: got %v, want a violation of rule memory", found)
	}
}
