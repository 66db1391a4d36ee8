package simulate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// TestOverlap: the time that is left of a collective falls with the lead of the other
// devices, by at most the lead, and never below the share of the Rest devices.
func TestOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Overlap{Rest: rapid.Float64Range(1, 5).Draw(t, "rest"), Rate: rapid.Float64Range(.01, 1).Draw(t, "rate")}
		devices := rapid.IntRange(1, 16).Draw(t, "devices")
		time := unit.Millis(rapid.Float64Range(.01, 100).Draw(t, "time"))
		lead := unit.Millis(rapid.Float64Range(0, 200).Draw(t, "lead"))
		got := o.Left(devices, time, lead)
		if least := time * unit.Millis(min(1, o.Rest/float64(devices))); got > time || got < least*(1-1e-12) || got < (time-lead)*(1-1e-12) {
			t.Fatalf("got %v, want between %v and %v", got, least, time)
		}
		if none := (Overlap{}).Left(devices, time, lead); none != time {
			t.Fatalf("without overlap: got %v, want %v", none, time)
		}
	})
	// By hand: 4 devices and a rest of 2, so half may be over: 10 (1/2 + 1/2 exp(-1)).
	if got, want := float64(Overlap{Rest: 2, Rate: 1}.Left(4, 10, 5)), 10*(.5+.5*math.Exp(-1)); math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDomain: an NVLink domain of all devices has the exchanges of one host with them, and
// one of a host changes nothing.
func TestDomain(t *testing.T) {
	device := NewDevice(a100(t))
	network := func(c Cluster) Network {
		return must.Get(device.Network(c))(t)
	}
	times := func(n Network, joint bool) []unit.Millis {
		reduceInHosts, reduceBetween := n.AllReduce(1e6)
		list := []unit.Millis{n.AllToAll(1e6).Time(), n.Ring(64).Time(), reduceInHosts.Time() + reduceBetween.Time(), n.Pack(64)}
		if joint {
			list = append(list, n.InHosts(64).Time(), n.BetweenHosts(64, 32, 200).Time())
		}
		return list
	}
	for _, perHost := range []int{1, 4, 5} {
		c := Cluster{Devices: 16, PerHost: perHost, Batch: 1000}
		alone := times(network(c), true)
		c.Domain = perHost
		if got := times(network(c), true); !slices.Equal(got, alone) {
			t.Errorf("hosts of %d, domains of a host: got %v, want the times of hosts alone, %v", perHost, got, alone)
		}
		c.Domain = 72
		want := times(network(Cluster{Devices: 16, PerHost: 16, Batch: 1000}), false)
		if got := times(network(c), false); !slices.Equal(got, want) {
			t.Errorf("hosts of %d in one domain: got %v, want the times of one host, %v", perHost, got, want)
		}
	}
	// By hand, 4 hosts of 4 in domains of 8: of 15 other devices 8 are in the other domain, and
	// of 3 other hosts 2.
	n := network(Cluster{Devices: 16, PerHost: 4, Domain: 8, Batch: 1000})
	if got, want := n.AllToAll(1500).Bytes, 800.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("an all-to-all of 1500 bytes sends %v between domains, want %v", got, want)
	}
	between := n.BetweenHosts(64, 64, 256)
	bytes := 3.0 / 4 * 1000 / 4 * 64 * 4
	if math.Abs(between.Bytes-bytes*2/3) > 1e-9 || math.Abs(float64(between.Inside)*n.Intra-bytes/3) > 1e-9 {
		t.Errorf("between hosts: got %+v, want two thirds of %v bytes between domains and one inside", between, bytes)
	}
}

// TestFasterNetwork: a network of twice the bandwidth halves the time of the bytes between
// hosts, and nothing else.
func TestFasterNetwork(t *testing.T) {
	topology := hardware.Topology{Profile: a100(t), Devices: 16, DevicesPerHost: 8}
	c := Cluster{Devices: 16, PerHost: 8, Batch: 1000}
	usual := must.Get(NewDevice(topology.Device()).Network(c))(t)
	topology.NetworkBandwidth = unit.Bandwidth(2 * topology.Profile.NICGBps * 1e9)
	fast := must.Get(NewDevice(topology.Device()).Network(c))(t)
	if ratio := fast.NIC / usual.NIC; math.Abs(ratio-2) > 1e-12 {
		t.Errorf("got a network %v times as fast, want 2", ratio)
	}
	fast.NIC = usual.NIC
	if fast != usual {
		t.Errorf("got %+v, want %+v but for the network", fast, usual)
	}
}
