package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// renamings calls visit with every permutation of the devices that takes hosts to hosts of the
// same size, and NVLink domains to domains.
func renamings(c *Cluster, visit func(names []int)) {
	names, taken := make([]int, c.Devices), make([]bool, c.Devices)
	width := func(d, size int) int { return min(size, c.Devices-d/size*size) }
	together := func(d, size int) bool { // with the device before, if that is of the same group
		same := d > 0 && d/size == (d-1)/size
		return !same && width(d, size) == width(names[d], size) || same && names[d]/size == names[d-1]/size
	}
	var name func(d int)
	name = func(d int) {
		if d == c.Devices {
			visit(names)
			return
		}
		for n := range c.Devices {
			if names[d] = n; !taken[n] && together(d, c.DevicesPerHost) && together(d, c.linkDomain()) {
				taken[n] = true
				name(d + 1)
				taken[n] = false
			}
		}
	}
	name(0)
}

// constrained returns the problem with devices that some tables are allowed on.
func constrained(r *rand.Rand, p *problem.Problem) *problem.Problem {
	for i := range p.Tables {
		if r.IntN(3) == 0 {
			for d := range p.Topology.Devices {
				if r.IntN(2) == 0 {
					p.Tables[i].Constraint.Devices = append(p.Tables[i].Constraint.Devices, d)
				}
			}
		}
	}
	return p
}

// Renaming finds the renaming that trying all of them finds, and the plan stays valid.
func TestRenamingByTrying(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 0))
	saved, refused := 0, 0
	for range 200 {
		p := drawnProblem(t, r)
		q := later(t, r, p)
		if r.IntN(2) == 0 {
			q = constrained(r, q)
		}
		before, after := New(p, drawnShards(r, p)), New(q, drawnShards(r, q))
		if r.IntN(4) == 0 {
			lose(before, r.IntN(before.Cluster.Devices))
		}
		if r.IntN(2) == 0 {
			tighten(q, after)
			after = New(q, after.ByDevice())
		}
		if err := after.Validate(q); err != nil {
			t.Fatalf("the drawn plan is not valid: %v", err)
		}
		bytes := func(names []int) unit.Bytes {
			pl := New(q, after.Renamed(names))
			if err := pl.Validate(q); err != nil {
				return -1
			}
			transfer := must.Get(NewTransfer(before, pl))(t)
			return transfer.Bytes
		}
		least := unit.Bytes(1 << 60)
		renamings(&after.Cluster, func(names []int) {
			if b := bytes(names); b >= 0 {
				least = min(least, b)
			} else {
				refused++
			}
		})
		names := Renaming(before, after, q)
		if got := bytes(names); got != least {
			t.Fatalf("got %v with %d bytes (-1: not valid), the best has %d\nbefore %+v\nafter %+v\ncluster %+v", names, got, least, before.Tables, after.Tables, after.Cluster)
		}
		if least < bytes(sequence(0, len(names))) {
			saved++
		} else if !slices.IsSorted(names) {
			t.Errorf("got names %v that save nothing", names)
		}
	}
	if saved == 0 || refused == 0 {
		t.Errorf("got %d cases in which names save bytes, %d renamings that are not valid; want some", saved, refused)
	}
}

// Devices with blocks that a plan for HugeCTR chose devices for keep their names; the others may
// take any that leave each device a part of a table.
func TestRenamingKeepsChosenBlocks(t *testing.T) {
	feature := []problem.Feature{{Name: "f", PoolingFactor: 1}}
	p := &problem.Problem{Topology: cluster(t, 6, 3), Batch: 6, Engine: problem.HugeCTR, Tables: []problem.Table{
		{Name: "blocks", Rows: 10, Dim: 4, Features: feature},
		{Name: "a", Rows: 100, Dim: 8, Features: feature},
		{Name: "b", Rows: 70, Dim: 8, Features: feature},
		{Name: "c", Rows: 50, Dim: 8, Features: feature},
		{Name: "d", Rows: 30, Dim: 8, Features: feature},
	}}
	place := func(devices ...int) *Plan { // of a to d
		shards := make([][]problem.Shard, 6)
		for k, d := range []int{1, 4} {
			shards[d] = append(shards[d], problem.Shard{Table: 0, Rows: problem.Range{Start: 5 * int64(k), End: 5 * int64(k+1)}, Columns: problem.Range{End: 4}, ShardingType: RowWise, Blocks: 2})
		}
		for i, d := range devices {
			shards[d] = append(shards[d], p.Whole(i+1))
		}
		pl := New(p, shards)
		must.Do(t, pl.Validate(p))
		return pl
	}
	got := Renaming(place(0, 2, 3, 5), place(2, 0, 5, 3), p)
	if want := []int{2, 1, 0, 5, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Renaming(place(0, 2, 3, 5), place(3, 5, 0, 2), p); !slices.Equal(got, sequence(0, 6)) {
		t.Errorf("hosts with blocks on chosen devices take other places: got %v", got)
	}
}

// A device without a block of rows keeps the table that makes it hold anything, if the engine
// wants a part of a table on every device.
func TestRenamingLeavesNoDeviceIdle(t *testing.T) {
	feature := []problem.Feature{{Name: "f", PoolingFactor: 1}}
	p := &problem.Problem{Topology: cluster(t, 4, 4), Batch: 8, Engine: problem.HugeCTR, Tables: []problem.Table{
		{Name: "rows", Rows: 9, Dim: 4, Features: feature}, // three blocks of three
		{Name: "a", Rows: 100, Dim: 8, Features: feature},
	}}
	place := func(d int) *Plan {
		shards := make([][]problem.Shard, 4)
		for k := range 3 {
			shards[k] = append(shards[k], problem.Shard{Rows: problem.Range{Start: 3 * int64(k), End: 3 * int64(k+1)}, Columns: problem.Range{End: 4}, ShardingType: RowWise})
		}
		shards[d] = append(shards[d], p.Whole(1))
		return New(p, shards)
	}
	must.Do(t, place(3).Validate(p))
	if got := Renaming(place(0), place(3), p); !slices.IsSorted(got) {
		t.Errorf("got %v, which leaves device 3 idle", got)
	}
	p.Engine = ""
	if got := Renaming(place(0), place(3), p); got[3] != 0 {
		t.Errorf("got %v for any engine, want name 0 for device 3", got)
	}
}

// The row-wise state of a part that no device held is initialised, even if the device held other
// columns of the rows: it speaks for no name.
func TestRenamingOfNewColumns(t *testing.T) {
	feature := []problem.Feature{{Name: "f", PoolingFactor: 1}}
	p := &problem.Problem{Topology: cluster(t, 3, 3), Batch: 8, Tables: []problem.Table{
		{Name: "grows", Rows: 1000, Dim: 4, Features: feature, Optimizer: problem.RowwiseAdagrad},
		{Name: "stays", Rows: 100, Dim: 4, Features: feature},
	}}
	replica := p.Whole(0)
	replica.ShardingType = DataParallel
	before := New(p, [][]problem.Shard{{replica}, {replica}, {p.Whole(1)}}) // device 2 lost its replica
	q := *p
	q.Tables = slices.Clone(p.Tables)
	q.Tables[0].Dim = 8
	slice := func(from, to int64) problem.Shard {
		return problem.Shard{Rows: problem.Range{End: 1000}, Columns: problem.Range{Start: from, End: to}}
	}
	after := New(&q, [][]problem.Shard{{slice(4, 8), q.Whole(1)}, {slice(0, 4)}, {}})
	if got := Renaming(before, after, &q); got[0] != 2 {
		t.Errorf("got %v, want name 2 for the device with the table that stays", got)
	}
}

// Renaming leaves clusters alone that are too large for it.
func TestRenamingOfLargeClusters(t *testing.T) {
	p := &problem.Problem{Topology: cluster(t, mostRenamed+1, 8), Batch: 8}
	p.Tables = []problem.Table{{Name: "a", Rows: 10, Dim: 4, Features: []problem.Feature{{PoolingFactor: 1}}}}
	place := func(d int) *Plan {
		shards := make([][]problem.Shard, mostRenamed+1)
		shards[d] = append(shards[d], p.Whole(0))
		return New(p, shards)
	}
	if got := Renaming(place(0), place(1), p); !slices.IsSorted(got) || len(got) != mostRenamed+1 {
		t.Errorf("got %d names, sorted %v", len(got), slices.IsSorted(got))
	}
}

// tighten takes away the memory that no device of a valid plan needs.
func tighten(p *problem.Problem, pl *Plan) {
	most := unit.Bytes(0)
	for _, d := range pl.Devices {
		most = max(most, d.Memory.Used())
	}
	p.Topology.ReserveShare = 1e-9
	p.Topology.Memory = most + 1
}

// mixed returns a plan of many tables on hosts of eight devices: of ten tables, one is cut by rows
// over the devices of a host, one has four slices, and one of a hundred lies on all devices.
// drawn seeds the places.
func mixed(t testing.TB, tables, devices int, drawn uint64) (*problem.Problem, *Plan) {
	p := &problem.Problem{Topology: cluster(t, devices, 8), Batch: 4096}
	p.Topology.Memory = 1 << 50
	r := rand.New(rand.NewPCG(19, drawn))
	shards := make([][]problem.Shard, devices)
	for i := range tables {
		table := problem.Table{
			Name: fmt.Sprint("t", i), Rows: 1024 * (100 + int64(i)), Dim: 128,
			Features: []problem.Feature{{PoolingFactor: 5}}, Optimizer: problem.RowwiseAdagrad,
		}
		p.Tables = append(p.Tables, table)
		put := func(d int, rows, columns problem.Range, kind ShardingType) {
			shards[d] = append(shards[d], problem.Shard{Table: i, Rows: rows, Columns: columns, ShardingType: kind})
		}
		all, rows := problem.Range{End: 128}, problem.Range{End: table.Rows}
		switch {
		case i%100 == 99:
			for d := range devices {
				put(d, blockAt(&table, devices, d), all, RowWise)
			}
		case i%10 == 1:
			host := r.IntN(devices / 8)
			for k := range 8 {
				put(8*host+k, blockAt(&table, 8, k), all, TableRowWise)
			}
		case i%10 == 2:
			for k := range int64(4) {
				put(r.IntN(devices), rows, problem.Range{Start: 32 * k, End: 32 * (k + 1)}, "")
			}
		default:
			put(r.IntN(devices), rows, all, "")
		}
	}
	return p, New(p, shards)
}

// The plan of the same problem with other drawn places shares few bytes with the plan.
func BenchmarkTransfer(b *testing.B) {
	for _, size := range []struct{ tables, devices int }{{1000, 128}, {10_000, 1024}} {
		_, before := mixed(b, size.tables, size.devices, 0)
		p, after := mixed(b, size.tables, size.devices, 1)
		b.Run(fmt.Sprintf("%dx%d", size.tables, size.devices), func(b *testing.B) {
			for b.Loop() {
				names := Renaming(before, after, p)
				must.Get(NewTransfer(before, New(p, after.Renamed(names))))(b)
			}
		})
		b.Run(fmt.Sprintf("renaming/%dx%d", size.tables, size.devices), func(b *testing.B) {
			for b.Loop() {
				Renaming(before, after, p)
			}
		})
		b.Run(fmt.Sprintf("counting/%dx%d", size.tables, size.devices), func(b *testing.B) {
			for b.Loop() {
				must.Get(NewTransfer(before, after))(b)
			}
		})
	}
}
