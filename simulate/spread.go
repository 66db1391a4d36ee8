package simulate

import (
	"fmt"

	"github.com/neuroshard/neuroshard/unit"
)

// spread.go prices the exchanges between devices that hold a table together, in
// addition to the all-to-alls of comm.go. With n ranks, l on a host, G hosts, a
// global batch B, elements of b bytes on the way, and T(M) the time of a collective
// whose largest transfer is of M bytes:
//
//	row_wise        each rank has a part of every sum: a reduce-scatter of all W
//	                columns forward, an all-gather of the gradients backward, in rings
//	                (n-1)/n B W b max(1/B_intra, 1/(l eta B_nic))
//	table_row_wise  the same inside each host, of the host's D_h columns
//	and grid        T_host((l-1)/l B max(D_h) b),
//	                and an all-to-all of the sums between hosts, each rank with its
//	                equal of the others
//	                max over hosts of what a rank sends and receives,
//	                (G-1)/G B/l D_h b and B/(G l) (sum of D - D_h) b, over the network
//	data_parallel   an all-reduce of dense gradients of E elements, backward, first in
//	                the hosts and then, each rank a part, between them
//	                2 (l-1)/l E b / B_intra + 2 (G-1)/G E b/l / (eta B_nic)
//
// That collectives are chosen so is read in TorchRec's code; that their bytes at the
// all-to-all's bandwidths and fixed times price them is assumed. A ring goes through
// the ranks host by host, so that each byte enters a host once, and l rings share its
// network cards: ranks are numbered so that traffic stays inside hosts where it can.
// All ranks take equally long. Each element is packed once and unpacked once, as in the all-to-alls.

// SpreadComm is what the devices of one placement exchange for tables that they hold
// together.
type SpreadComm struct {
	// Ranks is the number of devices, at least 1, and PerHost those on a host; 0, or
	// more than there are, means all.
	Ranks, PerHost int
	// Batch is the global batch, at least 1.
	Batch int
	// ElementBytes and VectorBytes are as in Comm.
	ElementBytes, VectorBytes int
	// RowWise is the pooled columns of the tables that are cut by rows over all ranks.
	RowWise int
	// ByHost is, for each host, the pooled columns of the tables that are cut by rows
	// over its ranks; nil means none on any.
	ByHost []int
	// Replicated is the elements, rows times columns, of the tables that each rank
	// holds whole.
	Replicated float64
}

// SpreadComm returns the simulated times that every rank spends in the exchanges of
// tables that ranks hold together, forward and backward. A single rank spends none. It
// fails where the ranks span hosts and the profile has no network, and where ByHost is
// of another length than there are hosts.
func (d Device) SpreadComm(c SpreadComm) (forward, backward unit.Millis, err error) {
	if c.Ranks < 1 {
		return 0, 0, fmt.Errorf("exchanges of %d ranks: give at least one", c.Ranks)
	}
	all, err := d.Links(c.Ranks, c.PerHost)
	if err != nil {
		return 0, 0, err
	}
	perHost := c.PerHost
	if perHost <= 0 || perHost > c.Ranks {
		perHost = c.Ranks
	}
	hosts := (c.Ranks + perHost - 1) / perHost
	if c.ByHost != nil && len(c.ByHost) != hosts {
		return 0, 0, fmt.Errorf("exchanges of %d ranks, %d on a host, with columns of %d hosts: give those of each of the %d", c.Ranks, perHost, len(c.ByHost), hosts)
	}
	if c.Ranks == 1 {
		return 0, 0, nil
	}
	inHost, err := d.Links(perHost, perHost)
	if err != nil {
		return 0, 0, err
	}
	s := spread{
		all: all, inHost: inHost, stream: d.stream,
		ranks: float64(c.Ranks), perHost: float64(perHost), hosts: float64(hosts), batch: float64(c.Batch),
		element: float64(orDefault(c.ElementBytes, 4)),
	}
	s.packed = s.element + float64(orDefault(c.VectorBytes, orDefault(c.ElementBytes, 4)))
	// The gradients' way backward is the sums' way forward, the other way round.
	vectors := s.rowWise(float64(c.RowWise)) + s.byHost(c.ByHost)
	return vectors, vectors + s.allReduce(c.Replicated), nil
}

// spread prices exchanges between several ranks.
type spread struct {
	all, inHost Links
	stream      float64
	// Numbers of ranks, and of samples.
	ranks, perHost, hosts, batch float64
	// element is an element's bytes on the way; packed the bytes of packing it.
	element, packed float64
}

// rowWise returns the time of the reduce-scatter of so many columns over all ranks.
func (s *spread) rowWise(columns float64) unit.Millis {
	if columns == 0 {
		return 0
	}
	passed := (s.ranks - 1) / s.ranks * s.batch * columns * s.element // by each rank to the next
	t := passed / s.all.Intra
	if s.hosts > 1 {
		t = max(t, passed/(s.perHost*s.all.Network))
	}
	return s.all.Fixed + unit.Millis(t) + s.packing(columns)
}

// byHost returns the time of the reduce-scatters of each host's columns in it, and of
// the all-to-all between the hosts.
func (s *spread) byHost(columns []int) unit.Millis {
	sum, most := 0.0, 0.0
	for _, c := range columns {
		sum += float64(c)
		most = max(most, float64(c))
	}
	if most == 0 {
		return 0
	}
	t := s.packing(most)
	if s.perHost > 1 {
		t += s.inHost.time((s.perHost - 1) / s.perHost * s.batch * most * s.element)
	}
	if s.hosts == 1 {
		return t
	}
	transfer := 0.0
	for _, c := range columns {
		own := float64(c)
		sent := (s.hosts - 1) / s.hosts * s.batch / s.perHost * own * s.element
		received := s.batch / (s.hosts * s.perHost) * (sum - own) * s.element
		transfer = max(transfer, sent, received)
	}
	return t + s.all.Fixed + unit.Millis(transfer/s.all.Network)
}

// allReduce returns the time of the all-reduce of so many gradients.
func (s *spread) allReduce(elements float64) unit.Millis {
	if elements == 0 {
		return 0
	}
	bytes := elements * s.element
	t := unit.Millis(0)
	if s.perHost > 1 {
		t += s.inHost.time(2 * (s.perHost - 1) / s.perHost * bytes)
	}
	if s.hosts > 1 {
		t += s.all.Fixed + unit.Millis(2*(s.hosts-1)/s.hosts*(bytes/s.perHost)/s.all.Network)
	}
	return t
}

// packing returns the time of packing and unpacking the batch's vectors.
func (s *spread) packing(columns float64) unit.Millis {
	return unit.Millis(s.packed * s.batch * columns / s.stream)
}
