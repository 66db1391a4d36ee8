package cost_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TestStatedLinks: a stated network scales the fitted one by its ratio to the profile's, and an
// NVLink domain of all devices is one host to the closed form.
func TestStatedLinks(t *testing.T) {
	m, file := load(t)
	profile := m.Hardware()
	p := &problem.Problem{Batch: 1024, Topology: topology(t, 16, 8)}
	usual := cost.NetworkFor(m, p)
	p.Topology.NetworkBandwidth = unit.Bandwidth(profile.NICGBps * 1e9)
	if got := cost.NetworkFor(m, p); math.Abs(got.NIC/usual.NIC-1) > 1e-12 {
		t.Errorf("the profile's network: got %+v, want %+v", got, usual)
	}
	p.Topology.NetworkBandwidth *= 2
	got := cost.NetworkFor(m, p)
	if math.Abs(got.NIC/usual.NIC-2) > 1e-12 {
		t.Errorf("twice the network: got a bandwidth of %v times the fitted one, want 2", got.NIC/usual.NIC)
	}
	p.Topology.NVLinkDomain = 72
	joined := cost.NetworkFor(m, p)
	one := cost.AllToAll(file.Manifest.Comm, cost.Cluster{Devices: 16, PerHost: 16, Batch: 1024}, cost.CommLoad{Max: 640, Min: 640, Sum: 16 * 640})
	domain := cost.AllToAll(file.Manifest.Comm, joined.Cluster, cost.CommLoad{Max: 640, Min: 640, Sum: 16 * 640})
	if domain != one || joined.Fixed != joined.FixedInHost {
		t.Errorf("one domain: got an all-to-all of %v ms, want that of one host, %v", domain, one)
	}
}
