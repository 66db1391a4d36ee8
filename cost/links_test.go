package cost_test

import (
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TestStatedLinks: a stated network scales the fitted one by its ratio to the profile's, an
// NVLink domain of all devices is one host to the closed form, and both are doubts.
func TestStatedLinks(t *testing.T) {
	m, file := load(t)
	profile := m.Hardware()
	p := &problem.Problem{Batch: 1024, Topology: topology(t, 16, 8)}
	usual := cost.NetworkFor(m, p)
	if doubts := cost.Linked(m, p); doubts != nil {
		t.Errorf("nothing stated: got the doubts %q, want none", doubts)
	}
	p.Topology.NetworkBandwidth = unit.Bandwidth(profile.NICGBps * 1e9)
	if got := cost.NetworkFor(m, p); math.Abs(got.NIC/usual.NIC-1) > 1e-12 || cost.Linked(m, p) != nil {
		t.Errorf("the profile's network: got %+v and the doubts %q, want %+v and none", got, cost.Linked(m, p), usual)
	}
	p.Topology.NetworkBandwidth *= 2
	got := cost.NetworkFor(m, p)
	if math.Abs(got.NIC/usual.NIC-2) > 1e-12 {
		t.Errorf("twice the network: got a bandwidth of %v times the fitted one, want 2", got.NIC/usual.NIC)
	}
	if doubts := cost.Linked(m, p); len(doubts) != 1 || !strings.Contains(doubts[0], "scaled by the ratio") {
		t.Errorf("twice the network: got the doubts %q, want that exchanges are scaled", doubts)
	}
	p.Topology.NVLinkDomain = 72
	joined := cost.NetworkFor(m, p)
	one := cost.AllToAll(file.Manifest.Comm, cost.Cluster{Devices: 16, PerHost: 16, Batch: 1024}, cost.CommLoad{Max: 640, Min: 640, Sum: 16 * 640})
	domain := cost.AllToAll(file.Manifest.Comm, joined.Cluster, cost.CommLoad{Max: 640, Min: 640, Sum: 16 * 640})
	if domain != one || joined.Fixed != joined.FixedInHost {
		t.Errorf("one domain: got an all-to-all of %v ms, want that of one host, %v", domain, one)
	}
	if doubts := cost.Linked(m, p); len(doubts) != 2 || !strings.Contains(doubts[0], "has no effect: all 16 devices are in one NVLink domain") || !strings.Contains(doubts[1], "no NVLink domain of several hosts") {
		t.Errorf("one domain: got the doubts %q, want that the network has no effect and that no sample has a domain", doubts)
	}
	p.Topology.Devices, p.Topology.NVLinkDomain = 8, 0
	if doubts := cost.Linked(m, p); len(doubts) != 1 || !strings.Contains(doubts[0], "has no effect: all 8 devices are on one host") {
		t.Errorf("one host: got the doubts %q, want that the network has no effect", doubts)
	}
	p.Topology.Replicas = 2 // replicas reduce over the network
	if doubts := cost.Linked(m, p); doubts != nil {
		t.Errorf("two sharding groups of a host: got the doubts %q, want none", doubts)
	}
}
