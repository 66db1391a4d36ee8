package search

import (
	"context"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// clustered returns an annealing of 300 tables on 150 devices, from first fit's placement. change
// changes the problem before.
func clustered(t *testing.T, change func(p *problem.Problem)) *annealing {
	t.Helper()
	var tables []table
	for i := range 300 {
		tables = append(tables, table{int64(1000 * (1 + i%17)), 8 << (i % 4), 1 + float64(i%7)})
	}
	p := handMade(unit.GiB, 150, tables...)
	change(p)
	r := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1})
	pieces := r.catalog.whole()
	devices, failed := firstFit(r.catalog, pieces)
	if failed != none {
		t.Fatalf("first fit found no room for piece %d", failed)
	}
	return newAnnealing(r, r.offer(placement{}, r.catalog.divide(pieces), devices), r.forms)
}

func TestSubclustersHoldEachDeviceAndPartOnce(t *testing.T) {
	a := clustered(t, func(*problem.Problem) {})
	a.reset(a.placement.placed())
	dealt := a.deal()
	if len(dealt) != 150/leastDevices {
		t.Fatalf("got %d subclusters of 150 devices, want %d", len(dealt), 150/leastDevices)
	}
	var devices []int32
	var parts []placed
	for _, g := range dealt {
		if len(g.devices) < leastDevices {
			t.Errorf("got a subcluster of %d devices, want %d at least", len(g.devices), leastDevices)
		}
		devices = append(devices, g.devices...)
		for _, p := range g.parts {
			parts = append(parts, placed{p.piece, g.devices[p.device]})
		}
	}
	slices.Sort(devices)
	if !slices.Equal(devices, a.c.all) {
		t.Errorf("got devices %v in the subclusters, want each device once", devices)
	}
	order := func(a, b placed) int { return slices.Compare([]int32{a.piece, a.device}, []int32{b.piece, b.device}) }
	all := a.all()
	slices.SortFunc(parts, order)
	slices.SortFunc(all, order)
	if !slices.Equal(parts, all) {
		t.Errorf("got parts %v in the subclusters, want those of the placement, %v", parts, all)
	}
}

func TestAnnealingInSubclusters(t *testing.T) {
	a := clustered(t, func(*problem.Problem) {})
	before := a.placement.cost
	a.inSubclusters(60_000)
	if !(a.placement.cost < .9*before) {
		t.Errorf("got a cost of %v from a placement of first fit at %v, want it clearly lower", a.placement.cost, before)
	}
	columns := make([]int, len(a.c.problem.Tables))
	for _, p := range a.placement.placed() {
		m := a.c.pieces[p.piece].members[0]
		columns[m.table] += m.width
	}
	for i, n := range columns {
		if want := a.c.problem.Tables[i].Dim; n != want {
			t.Errorf("table %d: got %d columns placed, want %d", i, n, want)
		}
	}
	if n := len(a.c.all); n != 150 {
		t.Errorf("the catalog has %d devices after the subclusters, want 150", n)
	}
	a.reset(a.placement.placed())
	if a.lack(false) != 0 || a.best != a.placement.cost {
		t.Errorf("the placement lacks %d bytes and costs %v, want it to fit and to cost %v", a.lack(false), a.best, a.placement.cost)
	}
}

func TestWhatIsNotDividedIntoSubclusters(t *testing.T) {
	if !clustered(t, func(*problem.Problem) {}).divides() {
		t.Error("300 tables on 150 devices are not divided into subclusters")
	}
	for name, change := range map[string]func(p *problem.Problem){
		"a table on chosen devices": func(p *problem.Problem) { p.Tables[4].Constraint.Devices = []int{3, 5} },
		"rules of an engine":        func(p *problem.Problem) { p.Engine = problem.TorchRec },
		"few devices":               func(p *problem.Problem) { p.Topology.Devices = 2*leastDevices - 1 },
		"a table on one host": func(p *problem.Problem) {
			p.Topology.DevicesPerHost = 10
			p.Tables[4].Constraint.ShardingTypes, p.Tables[4].Constraint.OneHost = []problem.ShardingType{problem.ColumnWise}, true
		},
	} {
		if clustered(t, change).divides() {
			t.Errorf("%s: the devices are divided into subclusters, want one annealing", name)
		}
	}
	a := clustered(t, func(*problem.Problem) {})
	if a.renumbers = true; a.divides() {
		t.Error("with numbers of operators, the devices are divided into subclusters")
	}
}
