package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cluster returns n devices of a known profile, perHost on a host.
func cluster(t testing.TB, n, perHost int) hardware.Topology {
	t.Helper()
	profile := must.Get(hardware.ByName("a100-80"))(t)
	return hardware.Topology{Profile: profile, Devices: n, DevicesPerHost: perHost, ReserveShare: 0.25}
}

// sample returns a problem with every kind of constraint, on two hosts of two
// devices each, and a placement of it with every kind of table.
func sample(t testing.TB) (*problem.Problem, *Plan) {
	t.Helper()
	one := func() []problem.Feature { return []problem.Feature{{Name: "f", PoolingFactor: 3}} }
	p := &problem.Problem{
		Tables: []problem.Table{
			{Name: "user", Rows: 1000, Dim: 64, Features: one(), Constraint: problem.Constraint{Colocation: "g"}},
			{
				Name: "item", Rows: 2000, Dim: 128, Features: []problem.Feature{{Name: "seen", PoolingFactor: 1.5}, {Name: "bought", PoolingFactor: 20}},
				Optimizer: problem.RowwiseAdagrad, Constraint: problem.Constraint{MinWidth: 16},
			},
			{Name: "word", Rows: 500, Dim: 32, Features: one(), Weighted: true, Precision: problem.FP16, Constraint: problem.Constraint{Devices: []int{1, 2}}},
			{Name: "place", Rows: 700, Dim: 16, Features: one(), Constraint: problem.Constraint{Colocation: "g"}},
			{Name: "time", Rows: 24, Dim: 8, Features: one(), Constraint: problem.Constraint{NoSplit: true}},
			{Name: "rows", Rows: 4000, Dim: 16, Features: one(), Optimizer: problem.Adam},
			{Name: "host", Rows: 4000, Dim: 16, Features: one(), Optimizer: problem.Adagrad},
			{Name: "grid", Rows: 300, Dim: 24, Features: one()},
			{Name: "everywhere", Rows: 10, Dim: 4, Features: one(), Access: access.Distribution{Kind: access.Zipf, Exponent: 1.2}},
		},
		Topology: cluster(t, 4, 2),
		Batch:    1024,
	}
	must.Do(t, p.Validate())
	part := func(table int, kind ShardingType, rows0, rows1, columns0, columns1 int64) problem.Shard {
		return problem.Shard{Table: table, Rows: problem.Range{Start: rows0, End: rows1}, Columns: problem.Range{Start: columns0, End: columns1}, ShardingType: kind}
	}
	everywhere := part(8, DataParallel, 0, 10, 0, 4)
	pl := New(p, [][]problem.Shard{
		{p.Whole(0), p.Whole(3), part(5, "", 0, 1000, 0, 16), part(7, "", 0, 150, 8, 24), everywhere},
		{part(1, "", 0, 2000, 64, 128), p.Whole(2), part(5, "", 1000, 2000, 0, 16), part(7, "", 150, 300, 8, 24), everywhere},
		{part(1, "", 0, 2000, 0, 48), p.Whole(4), part(5, "", 2000, 3000, 0, 16), part(6, TableRowWise, 0, 2000, 0, 16), part(7, "", 0, 150, 0, 8), everywhere},
		{part(1, "", 0, 2000, 48, 64), part(5, "", 3000, 4000, 0, 16), part(6, TableRowWise, 2000, 4000, 0, 16), part(7, "", 150, 300, 0, 8), everywhere},
	})
	for i := range pl.Devices {
		d := &pl.Devices[i]
		d.Forward, d.ForwardComm, d.BackwardComm, d.Backward = unit.Millis(1+float64(i)/3), 0.25, 0.5, unit.Millis(2.5*float64(i+1))
		pl.Predicted = max(pl.Predicted, d.Total())
	}
	pl.Provenance = Provenance{
		Tool: "neuroshard", Version: "0.1.0", Method: "neuroshard", Seed: 1<<64 - 1, Status: "complete",
		Model: "a100-80 1", ModelSource: "simulated", Input: Digest(p),
		Warnings: []string{"table \"user\": access <unstated>", "predicted times are simulated"},
	}
	return p, pl
}

// restate counts again what the plan states of its devices, but for the times.
func restate(p *problem.Problem, pl *Plan) {
	index := make([]int, len(pl.Tables))
	for i := range pl.Tables {
		index[i] = i
	}
	for i, d := range tally(pl, p, index, len(pl.Devices)) {
		has := &pl.Devices[i]
		has.Shards, has.DimSum, has.Phase, has.Memory, has.Pools = d.Shards, d.DimSum, d.Phase, d.Memory, d.Pools
	}
}

// large returns a problem of tables on devices, each table in the given number of
// column slices, and the devices that hold them.
func large(t testing.TB, tables, slices, devices int) (*problem.Problem, [][]problem.Shard) {
	t.Helper()
	p := &problem.Problem{Topology: cluster(t, devices, 8), Batch: 4096}
	p.Topology.Memory = 1 << 50
	shards := make([][]problem.Shard, devices)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range tables {
		table := problem.Table{Name: fmt.Sprintf("t%05d", i), Rows: 1000 + int64(i), Dim: 4 * slices, Features: []problem.Feature{{PoolingFactor: 5}}}
		p.Tables = append(p.Tables, table)
		for k := range slices {
			d := r.IntN(devices)
			shards[d] = append(shards[d], problem.Shard{Table: i, Rows: problem.Range{End: table.Rows}, Columns: problem.Range{Start: int64(4 * k), End: int64(4*k + 4)}})
		}
	}
	return p, shards
}

func TestNew(t *testing.T) {
	p, pl := sample(t)
	wantTypes := []ShardingType{TableWise, ColumnWise, TableWise, TableWise, TableWise, RowWise, TableRowWise, Grid, DataParallel}
	for i, want := range wantTypes {
		if got := pl.Tables[i].ShardingType; got != want {
			t.Errorf("table %q: got sharding type %s, want %s", pl.Tables[i].Name, got, want)
		}
	}
	for d, step := range pl.StepMemory(p) {
		if phase, peak := step.Peak(); phase != pl.Devices[d].Phase || peak != pl.Devices[d].Memory {
			t.Errorf("device %d: the fullest phase of its step is %v with %+v, want %v with %+v", d, phase, peak, pl.Devices[d].Phase, pl.Devices[d].Memory)
		}
	}
	// Shards by first column, then row.
	var got []string
	for _, i := range []int{1, 7} {
		for _, s := range pl.Tables[i].Shards {
			got = append(got, fmt.Sprintf("%d %d:%d %d:%d", s.Device, s.Columns.Start, s.Columns.End, s.Rows.Start, s.Rows.End))
		}
	}
	want := "[2 0:48 0:2000 3 48:64 0:2000 1 64:128 0:2000 2 0:8 0:150 3 0:8 150:300 0 8:24 0:150 1 8:24 150:300]"
	if fmt.Sprint(got) != want {
		t.Errorf("got shards %v, want %s", got, want)
	}
	// Device 3 by hand: item's 16 columns (2 features), rows' and host's last
	// parts, grid's first slice, and everywhere.
	p.Pipeline = problem.BasePipeline
	index := make([]int, len(pl.Tables))
	for i := range index {
		index[i] = i
	}
	counted := tally(pl, p, index, 4)[3]
	d := pl.Devices[3]
	if d.Shards != 5 || d.DimSum != 2*16+16+16+8+4 {
		t.Errorf("device 3: got %d shards of dim sum %d, want 5 and 76", d.Shards, d.DimSum)
	}
	if phase, peak := counted.step.Peak(); peak != counted.Memory || phase != counted.Phase {
		t.Errorf("device 3: got %+v in %v, want those of the fullest phase, %+v in %v", counted.Memory, counted.Phase, peak, phase)
	}
	d.Memory = counted.step[problem.LookupsBackward]
	if want := unit.Bytes(4 * (2000*16 + 1000*16 + 2000*16 + 150*8 + 10*4)); d.Memory.Weights != want {
		t.Errorf("device 3: got %d weight bytes, want %d", d.Memory.Weights, want)
	}
	if want := unit.Bytes(4*2000 + 8*1000*16 + 4*2000*16); d.Memory.Optimizer != want {
		t.Errorf("device 3: got %d optimizer bytes, want %d", d.Memory.Optimizer, want)
	}
	// Of 1024 samples: item's 21.5 lookups and two features; of 3 lookups those of the
	// most used row and a part of the others for a quarter of rows, half of host and half of grid; a
	// quarter of the samples for everywhere.
	hot := func(rows, block float64) (lookups int) {
		sum := 0.0
		for i := 1.0; i <= rows; i++ {
			sum += math.Pow(i, -access.DefaultExponent)
		}
		return int(math.Ceil(3072 * (1/sum + (1-1/sum)*(block-1)/(rows-1))))
	}
	if want := unit.Bytes(32*(22016+hot(4000, 1000)+hot(4000, 2000)+hot(300, 150)+768) + 8*(2049+3*1025+257)); d.Memory.Indices != want {
		t.Errorf("device 3: got %d index bytes, want %d", d.Memory.Indices, want)
	}
	// Pooled vectors, those of a quarter of the samples for everywhere, which has the table's gradients twice, too.
	vectors := unit.Bytes(4 * 1024 * (2*16 + 16 + 16 + 8))
	if want := vectors + 4*256*4 + 2*4*10*4; d.Memory.Gradients != want {
		t.Errorf("device 3: got %d bytes of gradients, want %d", d.Memory.Gradients, want)
	}
	// Vectors of whole rows and those of blocks of rows, which are sent as they are.
	if got, want := counted.step[problem.ForwardExchange].Outputs, unit.Bytes(4*1024*(2*2*16+16+16+8)); got != want {
		t.Errorf("device 3: got %d bytes of outputs, want %d", got, want)
	}
	if want := p.Topology.Reserve(0); d.Memory.Reserve != want {
		t.Errorf("device 3: got %d bytes of reserve, want %d", d.Memory.Reserve, want)
	}
	if got, want := counted.step[problem.ForwardExchange].Received, p.DeviceMemory(0)[problem.ForwardExchange].Received; got != want || want == 0 {
		t.Errorf("device 3: got %d bytes received, want %d", got, want)
	}
	wantCluster := Cluster{Profile: "a100-80", Devices: 4, DevicesPerHost: 2, Batch: 1024, DeviceMemory: 80 * unit.GiB, Reserve: 20 * unit.GiB}
	if !pl.Cluster.Equal(wantCluster) {
		t.Errorf("got cluster %+v, want %+v", pl.Cluster, wantCluster)
	}
}

// Of keeps what New would make up.
func TestOf(t *testing.T) {
	p, pl := sample(t)
	pl.Tables[0].Shards[0].Tier, pl.Tables[0].Shards[0].Cache = HostCached, 0.25
	again := Of(p, pl.Tables)
	if len(again.Devices) != len(pl.Devices) || !again.Cluster.Equal(pl.Cluster) {
		t.Fatalf("got %d devices and %+v", len(again.Devices), again.Cluster)
	}
	for i, want := range pl.Devices {
		if i == 0 { // what lies in host memory is none of its weights
			want.Memory.Weights -= 1000 * 64 * 4
			want.Memory.Host += 1000 * 64 * 4
			want.Memory.Cache += 250*(64*4+16) + 4*1000
		}
		got := again.Devices[i]
		if got.Memory != want.Memory || got.Shards != want.Shards || got.DimSum != want.DimSum {
			t.Errorf("device %d: got %+v, want %+v", i, got, want)
		}
	}
	if d := cmp.Diff(pl.Tables, again.Tables); d != "" {
		t.Error(d)
	}
}

// A table of a kind that lies on every device becomes one shard only where it does.
func TestNewReplicas(t *testing.T) {
	p, _ := sample(t)
	whole := p.Whole(8)
	whole.ShardingType = DataParallel
	all := [][]problem.Shard{{whole}, {whole}, {whole}, {whole}}
	if got := New(p, all).Tables[8]; got.ShardingType != DataParallel || len(got.Shards) != 1 || got.Shards[0].Device != -1 || got.Shards[0].Tier != HBM {
		t.Errorf("on all devices: got %+v", got)
	}
	if got := New(p, all[:3]).Tables[8]; got.ShardingType != DataParallel || len(got.Shards) != 3 || got.Shards[2].Device != 2 {
		t.Errorf("on three of four: got %+v", got)
	}
	all[2] = []problem.Shard{whole, whole}
	if got := New(p, all).Tables[8]; len(got.Shards) != 5 {
		t.Errorf("twice on one: got %+v", got)
	}
}

// New gives a plan's tables again from what ByDevice gives, and counts the same.
func TestNewOfByDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, pl := placement(t)
		again := New(p, pl.ByDevice())
		if d := cmp.Diff(pl.Tables, again.Tables); d != "" {
			t.Fatalf("tables, -want +got:\n%s", d)
		}
		for i := range pl.Devices {
			a, b := pl.Devices[i], again.Devices[i]
			if a.Shards != b.Shards || a.DimSum != b.DimSum || a.Memory != b.Memory {
				t.Fatalf("device %d: got %+v, want %+v", i, b, a)
			}
		}
		if !again.Cluster.Equal(pl.Cluster) {
			t.Fatalf("got cluster %+v, want %+v", again.Cluster, pl.Cluster)
		}
	})
}

func TestNewKeepsFaults(t *testing.T) {
	p, _ := sample(t)
	shards := make([][]problem.Shard, 6) // two devices too many, everything on the last
	for i := range p.Tables[1:] {
		shards[5] = append(shards[5], p.Whole(i+1))
	}
	pl := New(p, shards)
	if len(pl.Devices) != 6 || len(pl.Tables[0].Shards) != 0 || pl.Devices[5].Shards != 8 {
		t.Errorf("got %d devices, %d shards of the first table, %d on device 5; want 6, 0, 8", len(pl.Devices), len(pl.Tables[0].Shards), pl.Devices[5].Shards)
	}
	if pl.Validate(p) == nil {
		t.Error("got a valid plan, want violations")
	}
}
