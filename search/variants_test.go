package search

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TestPackingInAllForms packs 40 tables on two hosts of four devices with less and
// less memory. Each placement must hold all columns of each table and fit. With host
// memory, less HBM must be enough than all tables take in slices of columns.
func TestPackingInAllForms(t *testing.T) {
	for seed := range uint64(4) {
		p := drawn(rand.New(rand.NewPCG(seed, 21)).IntN, 8, 40)
		p.Topology.Profile, p.Topology.DevicesPerHost = onHosts().Topology.Profile, 4
		c := newCatalog(p, nil, false)
		even := total(columnsOf(c)) / int64(len(c.all))
		p.Topology.HostMemory = unit.Bytes(even) * unit.Bytes(seed%2)
		for i := range 8 {
			p.Tables[i].Constraint.Devices = []int{i % 3, 3 + i%5}
		}
		least := int64(0)
		for budget := even * 6 / 5; budget > even/4; budget = budget * 9 / 10 {
			leave(p, budget)
			c := newCatalog(p, nil, false)
			f := newForms(c, Options{ShardingTypes: problem.ShardingTypes()})
			variants := variantsOf(c, &f)
			if _, _, ok := balanced(c, variants, 1); !ok {
				break
			}
			p := newPacker(c, variants)
			p.settle(never)
			found := p.packing()
			if found == nil {
				continue
			}
			least = budget
			checkSlices(t, c, found)
		}
		if least == 0 || least > even && seed%2 == 1 {
			t.Errorf("seed %d: got placements with %d bytes of a device and more, want some with less than the %d that slices of columns take", seed, least, even)
		}
	}
}

// checkSlices fails if slices do not hold each column of each table once, or do not fit.
func checkSlices(t *testing.T, c *catalog, list []placedSlice) {
	t.Helper()
	room, width := newSpare(c), make([]int, len(c.problem.Tables))
	for _, s := range list {
		room.take(s, 1)
		if !s.variant.allows(s.device) {
			t.Errorf("got a slice of table %d on device %d, want one of the devices %v", c.pieces[s.variant.piece].members[0].table, s.device, s.variant.devices)
		}
		width[c.pieces[s.variant.piece].members[0].table] += int(s.width) * s.variant.unit
	}
	for i, w := range width {
		if w != c.problem.Tables[i].Dim {
			t.Errorf("got %d columns of table %d, want %d", w, i, c.problem.Tables[i].Dim)
		}
	}
	if slices.Min(room.free) < 0 || slices.Min(room.host) < 0 {
		t.Errorf("got %v and %v bytes free, want none below 0", room.free, room.host)
	}
	ledger := newLedger(c)
	for _, p := range partsOf(c, list) {
		ledger.count(&c.pieces[p.piece], p.device, 1)
	}
	if lack := ledger.lack(false); lack > 0 {
		t.Errorf("got pieces that lack %d bytes, want pieces that fit", lack)
	}
}

// TestRoomOfUnlikeDevices: devices with the same HBM are not alike if they have different host
// memory, or if some tables are limited to one of them. Else the search would leave
// out the only placement, and state that there is none.
func TestRoomOfUnlikeDevices(t *testing.T) {
	p := drawn(rand.New(rand.NewPCG(1, 21)).IntN, 3, 3)
	p.Topology.HostMemory = 30
	for name, list := range map[string][]variant{
		// Each device has 10 bytes of host memory. The third device takes the table of 10.
		"host memory": {inHost(10), inHost(5), inHost(4), inHost(4), inHost(3), inHost(2), inHost(2)},
		// The first table must leave device 0 to one of the others.
		"devices": {onDevice(0, 1), onDevice(0, 2), onDevice(0, 2)},
	} {
		c := newCatalog(p, nil, false)
		c.budget = 10
		variants := make([][]variant, len(list))
		for i := range list {
			list[i].piece = c.whole()[0]
			if list[i].count(c); list[i].slices == 0 {
				t.Fatalf("%s: variant %d fits no device", name, i)
			}
			variants[i] = list[i : i+1]
		}
		if found, known := roomFor(c, variants, never); len(found) != len(list) || !known {
			t.Errorf("%s: got %d slices, known %v, want a placement of %d", name, len(found), known, len(list))
		}
	}
}

// inHost returns a variant of one slice that takes a byte of HBM and some of host memory, and
// onDevice one that fills any of some devices.
func inHost(bytes int64) variant {
	return variant{unit: 4, each: 1, width: 1, narrowest: 1, widest: 1, hostFixed: bytes - 1, hostEach: 1}
}

func onDevice(devices ...int32) variant {
	return variant{unit: 4, each: 10, width: 1, narrowest: 1, widest: 1, devices: devices}
}

// TestUnprovenIsSaid: an error says that nothing fits only if that is proven.
func TestUnprovenIsSaid(t *testing.T) {
	const open = "the search found no placement with row_wise, data_parallel"
	types := []string{"row_wise", "data_parallel"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Infeasible{Tried: types, Proven: true, Reason: "why"}, "why; the tables do not fit with row_wise, data_parallel either"},
		{&Infeasible{Tried: types, Reason: "why"}, "why; " + open + " either, but did not try all"},
		{&Infeasible{Method: NeuroShard, Reason: "why"}, "why; the search did not try all placements"},
		{&NoShardingType{ShardingTypes: types, Proven: true, Tables: []string{"A"}}, "the tables do not fit with row_wise, data_parallel: if each table"},
		{&NoShardingType{ShardingTypes: types, Tables: []string{"A"}}, open + ", but did not try all: if each table"},
	} {
		if got := c.err.Error(); !strings.Contains(got, c.want) {
			t.Errorf("got %q, want it to contain %q", got, c.want)
		}
	}
}

// TestSlicesAreProvenNotToFit: no device has room for two of three tables, although all devices together have room for them.
func TestSlicesAreProvenNotToFit(t *testing.T) {
	p := handMade(10*4*4, 2, table{6, 4, 1}, table{6, 4, 1}, table{6, 4, 1})
	_, err := Run(context.Background(), p, additiveFactory(p), Options{})
	var e *Infeasible
	if !errors.As(err, &e) || !e.Proven || strings.Contains(err.Error(), "try all") {
		t.Errorf("got error %v, want a proof that the tables do not fit", err)
	}
}
