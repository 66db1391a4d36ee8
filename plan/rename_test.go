package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

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
			transfer, err := NewTransfer(before, pl)
			if err != nil {
				t.Fatal(err)
			}
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
	if saved < 50 || refused == 0 {
		t.Errorf("got %d cases in which names save bytes, %d renamings that are not valid; want 50, 1", saved, refused)
	}
}

// tighten takes away the memory that no device of a valid plan needs.
func tighten(p *problem.Problem, pl *Plan) {
	most := unit.Bytes(0)
	for _, d := range pl.Devices {
		most = max(most, d.Memory.Tables()+d.Memory.Received)
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
				if _, err := NewTransfer(before, New(p, after.Renamed(names))); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("renaming/%dx%d", size.tables, size.devices), func(b *testing.B) {
			for b.Loop() {
				Renaming(before, after, p)
			}
		})
		b.Run(fmt.Sprintf("counting/%dx%d", size.tables, size.devices), func(b *testing.B) {
			for b.Loop() {
				if _, err := NewTransfer(before, after); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
