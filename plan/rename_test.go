package plan

import (
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
