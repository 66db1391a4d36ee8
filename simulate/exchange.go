package simulate

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// exchange.go holds the one set of formulas for what devices exchange in a step. The
// formulas know no device: they take the links as numbers. Three packages call them:
//
//	simulate        with the constants of a simulated device (Device.Network)
//	cost            with constants that were fitted to samples
//	simulate/bound  with the device's constants and the least load of any plan
//
// With n devices, l of them on a host, G hosts, a global batch B and b bytes an element:
//
//	all-to-all      device r holds d_r of the D pooled columns
//	                M = max over r of (n-1)/n B d_r b and B/n (D - d_r) b
//	                max(M (1-f) / intra, M f / nic)         f = (n-l)/(n-1)
//	reduce-scatter  of W columns over all devices, in rings
//	all-gather      (n-1)/n B W b max(1/intra, 1/(l nic))
//	rows apart      all-to-all of d columns of the busiest device: (n-1)/n B d b
//	inside hosts    reduce-scatter of D_h columns on host h
//	                (l-1)/l B max(D_h) b / intra
//	between hosts   all-to-all of the sums of the D_h columns
//	                max over h of (G-1)/G B/l D_h b and B/(G l) (D - D_h) b, / nic
//	all-reduce      of E elements, first inside hosts, then each device a part between
//	                2 (l-1)/l E b / intra, and 2 (G-1)/G E b/l / nic
//	                with R replicas of each device: over all n R devices (docs/TORCHREC.md)
//	hierarchical    device r sends V_r columns inside its host, and host h sends W_h, each
//	                slice of a table once; the second step follows the first
//	                (l-1)/l B max(V_r) b / intra, and (G-1)/G B/l max(W_h) b / nic
//	packing         one read and one write: B W (b + the bytes of an element in a vector) / copy
//
// Each collective has a fixed time on top. f is the share of an all-to-all's bytes that
// leaves a host. A ring goes through the devices host by host, so each byte enters a
// host once, and the l rings share the network cards of the host.
//
// Where an NVLink domain joins k hosts, the links inside hosts reach all k l devices: in
// the all-to-all, the rings, the all-reduce and the hierarchical exchange, l is k l and G is
// the number of domains.
// Collectives inside hosts and between hosts keep their devices, and of an all-to-all
// between hosts the share (k-1)/(G-1) stays inside the domain.

// Cluster is the devices of an exchange, and the sizes of the vectors.
type Cluster struct {
	// Devices is the number of devices, at least 1. PerHost is the number on each full
	// host, from 1 to Devices; the last host may have fewer.
	Devices, PerHost int
	// Domain is the number of devices that the links inside hosts join: a multiple of
	// PerHost, or at least Devices. 0 means PerHost.
	Domain int
	// Batch is the global batch, in samples, at least 1.
	Batch int
	// ElementBytes is the size of an element of a pooled vector that travels.
	// VectorBytes is its size before packing and after unpacking. 0 means 4 for both.
	ElementBytes, VectorBytes int
	// Replicas is the number of sharding groups, each of Devices, and ReplicasPerDomain the
	// number of them in one NVLink domain (hardware.Topology.Replicas); 0 means 1 for both. Only
	// AllReduce goes beyond one group.
	Replicas, ReplicasPerDomain int
}

// Whole returns all devices of all sharding groups. Its Batch is that of one group.
func (c *Cluster) Whole() Cluster {
	w := *c
	if c.Replicas > 1 {
		w.Devices *= c.Replicas
		w.Domain = c.Joined() * max(1, c.ReplicasPerDomain)
		w.Replicas, w.ReplicasPerDomain = 0, 0
	}
	return w
}

// Hosts returns the number of hosts.
func (c *Cluster) Hosts() int { return (c.Devices + c.PerHost - 1) / c.PerHost }

// Joined returns the number of devices that the links inside hosts join, from PerHost to
// Devices.
func (c *Cluster) Joined() int { return min(c.Devices, max(c.PerHost, c.Domain)) }

// Domains returns the number of groups of Joined devices, between which exchanges take the
// network. It is the number of hosts unless Domain says otherwise.
func (c *Cluster) Domains() int { return (c.Devices + c.Joined() - 1) / c.Joined() }

// Element returns the bytes of an element that travels.
func (c *Cluster) Element() float64 { return float64(orDefault(c.ElementBytes, problem.OutputBytes)) }

// Packed returns the bytes that are read and written to pack one element, or to unpack
// it.
func (c *Cluster) Packed() float64 {
	return float64(orDefault(c.VectorBytes, problem.OutputBytes)) + c.Element()
}

// Away returns the share of an all-to-all's bytes that takes the network, 0 to 1.
func (c *Cluster) Away() float64 {
	if c.Domains() == 1 {
		return 0
	}
	return float64(c.Devices-c.Joined()) / float64(c.Devices-1)
}

// Links are the fixed times and the bandwidths between devices.
type Links struct {
	// Fixed is the time of a collective of no bytes over all devices. FixedInHost is
	// that of a collective inside a host. Both are equal on one host.
	Fixed, FixedInHost unit.Millis
	// Intra is the bandwidth of a device to others in its domain, NIC that to other
	// domains in a collective between hosts, and Copy that of packing, each in bytes a
	// millisecond. NIC is not read in one domain.
	Intra, NIC, Copy float64
	// FixedWhole and NICWhole are Fixed and NIC of a collective over all sharding groups. They
	// are read only if there are several groups, in several domains.
	FixedWhole unit.Millis
	NICWhole   float64
}

// Network is a cluster with its links. Its methods are the formulas of this file. They
// do not change it, so several goroutines may use it.
type Network struct {
	Cluster
	Links
}

// Collective is the time of one collective operation in its parts. The zero value is a
// collective that does not take place.
type Collective struct {
	// Fixed is the time of the collective without bytes.
	Fixed unit.Millis
	// Inside and Between are the times of moving the bytes on the links inside hosts and
	// between hosts. Both kinds of links are busy at the same time.
	Inside, Between unit.Millis
	// Bytes is the number of bytes that the busiest device sends to other hosts or
	// receives from them.
	Bytes float64
}

// Moving returns the time of the collective beyond the fixed time.
func (c Collective) Moving() unit.Millis { return max(c.Inside, c.Between) }

// Time returns the time of the collective.
func (c Collective) Time() unit.Millis { return c.Fixed + c.Moving() }

// Transfer returns the bytes that the busiest device sends or receives in an all-to-all
// of pooled vectors, where most and least are the pooled columns of the devices with the
// most and with the fewest, and all the columns of all devices. A device sends its
// columns for the samples of all others and receives the columns of all others for its
// own samples. The gradients and the input go the other way, with the same bytes.
func (n *Network) Transfer(most, least, all float64) float64 {
	devices, batch, element := float64(n.Devices), float64(n.Batch), n.Element()
	sent := (devices - 1) / devices * batch * most * element
	received := batch / devices * (all - least) * element
	return max(sent, received)
}

// AllToAll returns the all-to-all of all devices in which the busiest device sends or
// receives the given bytes.
func (n *Network) AllToAll(bytes float64) Collective {
	c := Collective{Fixed: n.Fixed}
	away := n.Away()
	c.Inside = unit.Millis(bytes * (1 - away) / n.Intra)
	if away > 0 {
		c.Bytes = bytes * away
		c.Between = unit.Millis(c.Bytes / n.NIC)
	}
	return c
}

// Ring returns the reduce-scatter over all devices of partial sums of the given pooled
// columns, which is also the all-gather of their gradients.
func (n *Network) Ring(columns float64) Collective {
	devices, joined := float64(n.Devices), float64(n.Joined())
	passed := (devices - 1) / devices * float64(n.Batch) * columns * n.Element() // by each device to the next
	c := Collective{Fixed: n.Fixed, Inside: unit.Millis(passed / n.Intra)}
	if n.Domains() > 1 {
		c.Bytes = passed / joined
		c.Between = unit.Millis(passed / (joined * n.NIC))
	}
	return c
}

// RowsApart returns the all-to-all over all devices of vectors of lookups that stay apart, where
// the busiest device looks up the given columns for each sample. It is also that of their
// gradients.
func (n *Network) RowsApart(columns float64) Collective {
	return n.AllToAll(n.Transfer(columns, columns, columns))
}

// InHosts returns the reduce-scatter of partial sums inside each host, or the all-gather
// of their gradients, where columns are the pooled columns of the host with the most.
// Hosts of one device have none.
func (n *Network) InHosts(columns float64) Collective {
	perHost := float64(n.PerHost)
	if n.PerHost == 1 {
		return Collective{}
	}
	return Collective{Fixed: n.FixedInHost, Inside: unit.Millis((perHost - 1) / perHost * float64(n.Batch) * columns * n.Element() / n.Intra)}
}

// BetweenHosts returns the all-to-all of what the devices of each host have summed,
// where most and least are the pooled columns of the hosts with the most and with the
// fewest, and all the columns of all hosts. One host has none.
func (n *Network) BetweenHosts(most, least, all float64) Collective {
	if n.Hosts() == 1 {
		return Collective{}
	}
	hosts, perHost, batch, element := float64(n.Hosts()), float64(n.PerHost), float64(n.Batch), n.Element()
	sent := (hosts - 1) / hosts * batch / perHost * most * element
	received := batch / (hosts * perHost) * (all - least) * element
	c := Collective{Fixed: n.Fixed}
	others := (n.Joined()+n.PerHost-1)/n.PerHost - 1 // other hosts of the domain
	near := float64(others) / (hosts - 1)
	bytes := max(sent, received)
	if others > 0 {
		c.Inside = unit.Millis(bytes * near / n.Intra)
	}
	if n.Domains() > 1 {
		c.Bytes = bytes * (1 - near)
		c.Between = unit.Millis(c.Bytes / n.NIC)
	}
	return c
}

// AllReduce returns the two parts of an all-reduce of the given elements over all devices of
// all sharding groups: inside hosts, and between hosts with each device's part. The second
// follows the first.
func (n *Network) AllReduce(elements float64) (inHosts, between Collective) {
	whole, fixed, nic := n.Whole(), n.Fixed, n.NIC
	if n.Replicas > 1 {
		fixed, nic = n.FixedWhole, n.NICWhole
	}
	bytes, joined, domains := elements*n.Element(), float64(whole.Joined()), float64(whole.Domains())
	if whole.Joined() > 1 {
		inHosts = Collective{Fixed: n.FixedInHost, Inside: unit.Millis(2 * (joined - 1) / joined * bytes / n.Intra)}
	}
	if whole.Domains() > 1 {
		between = Collective{Fixed: fixed, Bytes: 2 * (domains - 1) / domains * (bytes / joined)}
		between.Between = unit.Millis(between.Bytes / nic)
	}
	return inHosts, between
}

// Hierarchical returns the two steps of a hierarchical exchange of vectors, or of their
// gradients: inside hosts, and between hosts. columns are the pooled columns of the device
// with the most, and hostColumns those of the host with the most (Columns). The second step
// follows the first. The hierarchy states the latency, so no other fixed time and no packing
// counts: these are the terms that whole steps were fitted with (docs/SIMULATED.md). Without
// columns there is no exchange.
func (n *Network) Hierarchical(h problem.Hierarchy, columns, hostColumns float64) (inside, between Collective) {
	if columns == 0 || n.Devices == 1 {
		return inside, between
	}
	bytes, joined, domains := h.Sent*float64(n.Batch)*n.Element(), float64(n.Joined()), float64(n.Domains())
	inside.Inside = unit.Millis((joined - 1) / joined * bytes * columns / (n.Intra * h.Inside))
	if n.Domains() > 1 {
		between = Collective{Fixed: h.Latency, Bytes: (domains - 1) / domains * bytes / joined * hostColumns}
		between.Between = unit.Millis(between.Bytes / (n.NIC * h.Between))
	}
	return inside, between
}

// Pack returns the time of packing and unpacking the whole batch's vectors of the given
// pooled columns on one device.
func (n *Network) Pack(columns float64) unit.Millis {
	return unit.Millis(float64(n.Batch) * columns * n.Packed() / n.Copy)
}

// PackOwn returns the time of packing and unpacking the vectors of one device's own
// samples, where columns are the pooled columns of all devices.
func (n *Network) PackOwn(columns float64) unit.Millis {
	return unit.Millis(float64(n.Batch) / float64(n.Devices) * columns * n.Packed() / n.Copy)
}

// Overlap says what part of a forward collective is done when the last device is ready,
// if each device packs and sends as soon as it is ready itself, as processes on a CPU do.
// The zero value has no overlap: the collective begins when all devices are ready, as
// collectives of NCCL and of the simulated device do.
type Overlap struct {
	// Rest is the number of devices, at least 1, whose share of the collective is left
	// if all other devices were ready long before the last one.
	Rest float64
	// Rate is the time of the collective that is done for each unit of time by which the
	// other devices are ready earlier, while that lead is short. It is above 0 and at
	// most 1. 0 means no overlap.
	Rate float64
}

// Left returns the time that is left of a forward collective of the given time when the
// last device is ready, if the other devices were ready earlier by the given lead, on
// average. Let s = 1 - Rest/devices be the share of the other devices. The result is
//
//	time (1 - s + s exp(-Rate lead / (s time)))
//
// At a lead of 0 its slope is -Rate, which is at least -1. So the collective never does
// more work than the lead has time for, and a slower device never makes a plan cheaper.
//
// Measured on a CPU of two cores, between processes over loopback.
func (o Overlap) Left(devices int, time, lead unit.Millis) unit.Millis {
	s := unit.Millis(1 - o.Rest/float64(devices))
	if o.Rate == 0 || s <= 0 || lead <= 0 || time <= 0 {
		return time
	}
	return time * (1 - s + s*unit.Millis(math.Exp(-o.Rate*float64(lead)/float64(s*time))))
}
