package search

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

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

// TestSlicesAreProvenNotToFit: no device has room for two of three tables, although all devices together have room for them.
func TestSlicesAreProvenNotToFit(t *testing.T) {
	p := handMade(10*4*4, 2, table{6, 4, 1}, table{6, 4, 1}, table{6, 4, 1})
	_, err := Run(context.Background(), p, additiveFactory(p), Options{})
	var e *Infeasible
	if !errors.As(err, &e) || !e.Proven || strings.Contains(err.Error(), "try all") {
		t.Errorf("got error %v, want a proof that the tables do not fit", err)
	}
}
