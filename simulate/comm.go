package simulate

import (
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/unit"
)

// comm.go prices the two all-to-alls of a step. The forward one takes the
// pooled vectors from the device that holds a table to the devices that train
// on the samples; the backward one takes their gradients back.
//
// With n ranks, a global batch B, element size b and rank r owning d_r pooled
// columns, the forward sends (n-1)/n B d_r b bytes and receives
// B/n (sum of d - d_r) b; the backward swaps them. The collective ends when its
// largest transfer does [the best of three rules on published uneven V100 runs:
// measured], so it is shortest at equal dim sums. Inside a host
//
//	T = alpha + M/B_intra
//
// and over several, with f = (n-l)/(n-1) of the traffic leaving hosts of l,
//
//	T = 20 us + 20 us log2(n) + max(M (1-f)/B_intra, M f/(eta B_nic))
//
// All constants are fitted to published all-to-alls. Vectors are packed before
// and unpacked after: one read and one write at streaming bandwidth [assumed].

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

// networkShare returns the share of the network cards' bandwidth reached
// between that many hosts [fitted].
func networkShare(hosts int) float64 {
	switch {
	case hosts <= 2:
		return 0.80
	case hosts <= 4:
		return 0.95
	}
	return 0.93
}

// Comm is the communication of one step.
type Comm struct {
	// PerHost is the ranks on a host; 0, or more than there are, means all.
	PerHost int
	// Batch is the global batch, at least 1.
	Batch int
	// ElementBytes is the size of an element of a pooled vector on its way; 0 means
	// 4. VectorBytes is its size before and after, where that is another: packing
	// then reads the one size and writes the other. 0 means ElementBytes.
	ElementBytes, VectorBytes int
	// DimSums are the pooled columns each rank owns, at least 0: a shard's width
	// once for each feature that reads it.
	DimSums []int
	// Start is when each rank is ready for the forward all-to-all; nil means all
	// at once.
	Start []unit.Millis
}

// Comm returns the simulated times that each rank spends in the forward
// all-to-all, waiting for the last rank included, and in the backward one. A
// single rank spends none. It fails where the ranks span hosts and the profile
// has no network, and where DimSums is empty or Start of another length.
func (d Device) Comm(c Comm) (forward, backward []unit.Millis, err error) {
	n := len(c.DimSums)
	if n == 0 || c.Start != nil && len(c.Start) != n {
		return nil, nil, fmt.Errorf("communication of %d ranks with %d start times: give one dim sum and one start for each rank", n, len(c.Start))
	}
	links, err := d.Links(n, c.PerHost)
	if err != nil {
		return nil, nil, err
	}
	forward, backward = make([]unit.Millis, n), make([]unit.Millis, n)
	if n == 1 {
		return forward, backward, nil
	}
	element := float64(orDefault(c.ElementBytes, 4))
	packed := element + float64(orDefault(c.VectorBytes, orDefault(c.ElementBytes, 4)))
	all := 0.0
	for _, dims := range c.DimSums {
		all += float64(dims)
	}
	most := 0.0
	for _, dims := range c.DimSums {
		most = max(most, largest(pooledTraffic(n, c.Batch, float64(dims), all, element)))
	}
	last := unit.Millis(math.Inf(-1))
	for _, start := range c.Start {
		last = max(last, start)
	}
	collective := links.time(most)
	batch := float64(c.Batch)
	unpackGradients := unit.Millis(batch / float64(n) * all * packed / d.stream)
	for r, dims := range c.DimSums {
		forward[r] = collective + unit.Millis(batch*float64(dims)*packed/d.stream)
		if c.Start != nil {
			forward[r] += last - c.Start[r]
		}
		backward[r] = collective + unpackGradients
	}
	return forward, backward, nil
}

// traffic is the bytes a rank sends and receives in one collective.
type traffic struct{ sent, received float64 }

func largest(t traffic) float64 { return max(t.sent, t.received) }

// pooledTraffic returns the forward traffic of a rank that owns dims of all
// pooled columns: its columns go out for everybody else's samples, everybody
// else's columns come in for its own.
func pooledTraffic(ranks, batch int, dims, all, element float64) traffic {
	n, b := float64(ranks), float64(batch)
	return traffic{sent: (n - 1) / n * b * dims * element, received: b / n * (all - dims) * element}
}

// inputTraffic returns the traffic of a rank in an exchange of the input, of
// which each sample has own for the rank's tables and all in total. It runs the
// other way: a rank sends its own samples' part to everybody else's tables and
// receives everybody else's samples' part for its own.
func inputTraffic(ranks, batch int, own, all, size float64) traffic {
	t := pooledTraffic(ranks, batch, own, all, size)
	return traffic{sent: t.received, received: t.sent}
}

// InputComm is the exchange of indices before the forward: every rank loads a
// part of the batch, with the indices of all tables, and each table's indices
// must reach its holder.
type InputComm struct {
	// PerHost and Batch are as in Comm.
	PerHost, Batch int
	// IndexBytes is the size of an index; 0 means 8.
	IndexBytes int
	// Bags and Lookups are the bags and the lookups of a sample in the shards of
	// each rank. A table that is split over ranks counts on each of them.
	Bags, Lookups []float64
}

// InputComm returns the simulated time of the input exchange: three
// collectives, of sizes (taken as nothing), bag lengths and indices, and a wait
// of the host [assumed, after TorchRec; the paper leaves it out]. A single rank
// spends none. It fails as Comm does.
func (d Device) InputComm(c InputComm) (unit.Millis, error) {
	n := len(c.Bags)
	if n == 0 || len(c.Lookups) != n {
		return 0, fmt.Errorf("input exchange of %d ranks with lookups of %d: give bags and lookups for each rank", n, len(c.Lookups))
	}
	links, err := d.Links(n, c.PerHost)
	if err != nil || n == 1 {
		return 0, err
	}
	exchange := func(own []float64, size float64) unit.Millis {
		all, most := 0.0, 0.0
		for _, part := range own {
			all += part
		}
		for _, part := range own {
			most = max(most, largest(inputTraffic(n, c.Batch, part, all, size)))
		}
		return links.time(most)
	}
	index := float64(orDefault(c.IndexBytes, 8))
	return unit.Micros(inputSyncUS) + links.time(0) + exchange(c.Bags, lengthBytes) + exchange(c.Lookups, index), nil
}

// Links are the ways between ranks.
type Links struct {
	// Fixed is the time of a collective of no bytes, over all the ranks.
	Fixed unit.Millis
	// Away is the share of an all-to-all's traffic that leaves a rank's host, 0 to 1.
	Away float64
	// Intra and Network are the bandwidths of a rank to others on its host and, in a
	// collective between hosts, to those on others, in bytes a millisecond. Network
	// is 0 on one host.
	Intra, Network float64
}

// Links returns the ways between n ranks, at least 1, of which perHost are on a host;
// 0, or more than n, means all. It fails where they span hosts and the profile has no
// network.
func (d Device) Links(n, perHost int) (Links, error) {
	if perHost <= 0 || perHost > n {
		perHost = n
	}
	hosts := (n + perHost - 1) / perHost
	l := Links{Fixed: unit.Micros(d.profile.AllToAllLatencyUS), Intra: d.profile.IntraGBps * 1e6}
	if hosts == 1 {
		return l, nil
	}
	if d.profile.NICGBps == 0 {
		return l, fmt.Errorf("device profile %q has no network: %d ranks, %d on a host, need one; put all on one host or choose another profile", d.profile.Name, n, perHost)
	}
	l.Fixed = unit.Micros(networkFixedUS + networkStepUS*math.Log2(float64(n)))
	l.Away = float64(n-perHost) / float64(n-1)
	l.Network = networkShare(hosts) * d.profile.NICGBps * 1e6
	return l, nil
}

// time returns the time of a collective whose largest transfer is of that many
// bytes.
func (l *Links) time(bytes float64) unit.Millis {
	t := bytes * (1 - l.Away) / l.Intra
	if l.Away > 0 {
		t = max(t, bytes*l.Away/l.Network)
	}
	return l.Fixed + unit.Millis(t)
}
