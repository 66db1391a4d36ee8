package simulate

import (
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// comm.go estimates the exchanges of a step on the simulated device, by the formulas of
// exchange.go and the device's links.
//
// The forward all-to-all sends the pooled vectors from the device that holds a table to
// the devices that train on the samples; the backward one sends the gradients back. A
// collective ends when its largest transfer ends [the best of three rules on published
// uneven V100 runs: measured], so it is shortest if all dim sums are equal. A collective
// over several hosts takes 20 us + 20 us log2(n) and the time of its bytes. All constants
// are fitted to published all-to-alls. Vectors are packed before and unpacked after: one
// read and one write at streaming bandwidth [assumed].
//
// Tables that devices hold together need other collectives:
//
//	row_wise        a reduce-scatter of all columns forward, because each device has a
//	                part of every sum, and an all-gather of the gradients backward.
//	                Lookups that stay apart have no sums: each device sends the vectors
//	                that it looked up in an all-to-all of their own, and every device is
//	                estimated as the one with the most used rows
//	table_row_wise  the same inside each host, and an all-to-all of the sums between
//	and grid        the devices with the same place in each host
//	data_parallel   an all-reduce of dense gradients, backward
//
// A block of rows on a device that the plan chose is a slice of columns to the all-to-all: the
// device sends its part of every sum, and the device that trains on the samples adds the parts
// up. HugeCTR's uniform split does this [read].
//
// The choice of collectives is read in TorchRec's code. The time of each collective is
// that of its bytes at the bandwidths of the all-to-all, with the same fixed times
// [assumed]. Devices are numbered so that traffic stays inside hosts where possible. A
// collective takes the same time on all devices.

// The constants of the communication model [fitted].
const (
	networkFixedUS = 20.0
	networkStepUS  = 20.0
	// inputSyncUS is the time of the host's wait for the sizes of the input
	// exchange [assumed].
	inputSyncUS = 60.0
	// lengthBytes is the size of a bag's length in the input exchange.
	lengthBytes = 4
)

// Network returns the network of a cluster of such devices. A PerHost of 0, or
// above the number of devices, means that all devices are on one host. It fails if the
// cluster has several hosts and the profile has no network.
func (d Device) Network(c Cluster) (Network, error) {
	if c.PerHost <= 0 || c.PerHost > c.Devices {
		c.PerHost = c.Devices
	}
	fixed := unit.Micros(d.profile.AllToAllLatencyUS)
	n := Network{c, Links{Fixed: fixed, FixedInHost: fixed, Intra: d.profile.IntraGBps * 1e6, Copy: d.Stream}}
	whole := c.Whole()
	if whole.Domains() > 1 && d.profile.NICGBps == 0 {
		return n, fmt.Errorf("device profile %q has no network: %d ranks, %d on a host, need one; put all on one host or choose another profile", d.profile.Name, whole.Devices, c.PerHost)
	}
	if c.Domains() > 1 {
		n.Fixed, n.NIC = d.between(&c)
	}
	if c.Replicas > 1 && whole.Domains() > 1 {
		n.FixedWhole, n.NICWhole = d.between(&whole)
	}
	return n, nil
}

// between returns the fixed time of a collective between NVLink domains, and its bandwidth.
func (d *Device) between(c *Cluster) (fixed unit.Millis, nic float64) {
	fixed = unit.Micros(networkFixedUS + networkStepUS*math.Log2(float64(c.Devices)))
	return fixed, hardware.NetworkShare(c.Domains()) * d.profile.NICGBps * 1e6
}

// Comm is what the devices of one placement exchange in a step.
type Comm struct {
	// PerHost is the number of ranks on a host; 0, or more than all ranks, means all.
	// Domain is as in Cluster.
	PerHost, Domain int
	// Replicas and ReplicasPerDomain are as in Cluster.
	Replicas, ReplicasPerDomain int
	// Batch is the global batch, at least 1.
	Batch int
	// ElementBytes and VectorBytes are as in Cluster.
	ElementBytes, VectorBytes int
	// DimSums has, for each rank, the pooled columns of the slices that the rank holds
	// alone, at least 0. A slice counts its width once for each feature that reads it.
	DimSums []int
	// RowWise is the pooled columns of the tables that are cut by rows over all ranks.
	RowWise int
	// RowsApart is the columns that the busiest rank sends of the tables that are cut by rows
	// over all ranks and whose lookups stay apart.
	RowsApart int
	// ByHost has, for each host, the pooled columns of the tables that are cut by rows
	// over the ranks of the host; nil means no such tables.
	ByHost []int
	// Replicated is the number of elements, rows times columns, of the tables that each
	// rank holds whole.
	Replicated float64
	// Start has, for each rank, the time at which it is ready for the forward exchanges;
	// nil means that all ranks are ready at the same time.
	Start []unit.Millis
}

// joint reports whether ranks hold any table together.
func (c *Comm) joint() bool {
	for _, columns := range c.ByHost {
		if columns > 0 {
			return true
		}
	}
	return c.RowWise > 0 || c.RowsApart > 0 || c.Replicated > 0
}

// Comm returns the simulated times that each rank spends in the exchanges of a step:
// forward, with the wait for the last rank, and backward. A placement without tables has
// an all-to-all of no bytes. A placement whose tables are all held together has no
// all-to-all. A single rank spends no time. Comm fails if the ranks span hosts and the
// profile has no network, if DimSums is empty, and if the length of Start or ByHost is
// not the number of ranks or hosts.
func (d Device) Comm(c Comm) (forward, backward []unit.Millis, err error) {
	n := len(c.DimSums)
	if n == 0 || c.Start != nil && len(c.Start) != n {
		return nil, nil, fmt.Errorf("communication of %d ranks with %d start times: give one dim sum and one start for each rank", n, len(c.Start))
	}
	net, err := d.Network(Cluster{Devices: n, PerHost: c.PerHost, Domain: c.Domain, Batch: c.Batch, ElementBytes: c.ElementBytes, VectorBytes: c.VectorBytes, Replicas: c.Replicas, ReplicasPerDomain: c.ReplicasPerDomain})
	if err != nil {
		return nil, nil, err
	}
	if hosts := net.Hosts(); c.ByHost != nil && len(c.ByHost) != hosts {
		return nil, nil, fmt.Errorf("communication of %d ranks, %d on a host, with the columns of %d hosts: give one number for each of the %d hosts", n, net.PerHost, len(c.ByHost), hosts)
	}
	forward, backward = make([]unit.Millis, n), make([]unit.Millis, n)
	if n == 1 {
		if c.Replicas > 1 {
			backward[0] = net.replicated(c.Replicated)
		}
		return forward, backward, nil
	}
	net.addAllToAll(&c, forward, backward)
	// The gradients take the same exchanges as the sums, in the other direction.
	vectors := net.rowWise(c.RowWise) + net.rowsApart(c.RowsApart) + net.byHost(c.ByHost)
	gradients := vectors + net.replicated(c.Replicated)
	for r := range forward {
		forward[r] += vectors
		backward[r] += gradients
	}
	addWait(c.Start, forward)
	return forward, backward, nil
}

// addAllToAll adds the times of the all-to-alls of column slices.
func (n *Network) addAllToAll(c *Comm, forward, backward []unit.Millis) {
	most, least, all := extremes(c.DimSums)
	if all == 0 && c.joint() {
		return
	}
	collective := n.AllToAll(n.Transfer(most, least, all)).Time()
	unpackGradients := n.PackOwn(all)
	for r, dims := range c.DimSums {
		forward[r] += collective + n.Pack(float64(dims))
		backward[r] += collective + unpackGradients
	}
}

// addWait adds the wait of each rank for the last one, if they are ready at the start
// times.
func addWait(start, times []unit.Millis) {
	last := unit.Millis(math.Inf(-1))
	for _, s := range start {
		last = max(last, s)
	}
	for r, s := range start {
		times[r] += last - s
	}
}

// rowWise returns the time of the exchange of tables that are cut by rows over all
// ranks, in one direction.
func (n *Network) rowWise(columns int) unit.Millis {
	if columns == 0 {
		return 0
	}
	return n.Ring(float64(columns)).Time() + n.Pack(float64(columns))
}

// rowsApart returns the time of the all-to-all of tables that are cut by rows over all ranks and
// whose lookups stay apart, in one direction, where columns are those of the busiest rank.
func (n *Network) rowsApart(columns int) unit.Millis {
	if columns == 0 {
		return 0
	}
	return n.RowsApart(float64(columns)).Time() + n.Pack(float64(columns))
}

// byHost returns the time of the exchanges of tables that are cut by rows over the ranks
// of a host, in one direction.
func (n *Network) byHost(columns []int) unit.Millis {
	most, least, all := extremes(columns)
	if all == 0 {
		return 0
	}
	between := n.BetweenHosts(most, least, all)
	return n.Pack(most) + n.InHosts(most).Time() + between.Fixed + between.Moving()
}

// replicated returns the time of the all-reduce of the gradients of tables that each
// rank holds whole.
func (n *Network) replicated(elements float64) unit.Millis {
	if elements == 0 {
		return 0
	}
	inHosts, between := n.AllReduce(elements)
	return inHosts.Time() + between.Time()
}

// number is any number of columns, bags or lookups.
type number interface{ int | float64 }

// extremes returns the largest and the smallest of the loads, and their sum; all are 0 for
// no loads.
func extremes[T number](loads []T) (most, least, all float64) {
	for i, v := range loads {
		x := float64(v)
		if i == 0 {
			least = x
		}
		most, least, all = max(most, x), min(least, x), all+x
	}
	return most, least, all
}

// InputComm is the exchange of indices before the forward. Every rank loads a part of the
// batch, with the indices of all tables, and sends each table's indices to the ranks that
// hold the table.
type InputComm struct {
	// PerHost, Domain and Batch are as in Comm.
	PerHost, Domain, Batch int
	// IndexBytes is the size of an index; 0 means 8.
	IndexBytes int
	// Bags and Lookups are the bags and the lookups of a sample in the shards of
	// each rank. A table that is split over ranks counts on each of them.
	Bags, Lookups []float64
}

// InputComm returns the simulated time of the input exchange: three
// collectives, of sizes (counted as no bytes), bag lengths and indices, and a wait
// of the host [assumed, after TorchRec; the paper leaves it out]. A single rank
// spends no time. It fails as Comm does.
func (d Device) InputComm(c InputComm) (unit.Millis, error) {
	n := len(c.Bags)
	if n == 0 || len(c.Lookups) != n {
		return 0, fmt.Errorf("input exchange of %d ranks with lookups of %d: give bags and lookups for each rank", n, len(c.Lookups))
	}
	net, err := d.Network(Cluster{Devices: n, PerHost: c.PerHost, Domain: c.Domain, Batch: c.Batch})
	if err != nil || n == 1 {
		return 0, err
	}
	exchange := func(loads []float64, size int) unit.Millis {
		net.ElementBytes = size
		return net.AllToAll(net.Transfer(extremes(loads))).Time()
	}
	sizes := net.AllToAll(0).Time()
	return unit.Micros(inputSyncUS) + sizes + exchange(c.Bags, lengthBytes) + exchange(c.Lookups, orDefault(c.IndexBytes, 8)), nil
}
