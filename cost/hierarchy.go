package cost

import (
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// hierarchy.go estimates a hierarchical exchange (problem.Hierarchy): the closed form of package
// simulate with the stated latency, and without the net's correction, because the nets saw no
// sample of such an exchange. Models of simulated exchanges take the simulated device's
// bandwidths, so their exchange is exactly that of the simulated device. Models of measured
// exchanges take the fitted bandwidths.
//
// A device sends the columns of all its shards inside its host. Between hosts, blocks of rows of
// one table count once for each host. So the columns of a host are those of its devices, less
// those of repeated blocks, and counts of blocks by host are enough to keep them exactly while
// slices are added and removed.

// hierarchy counts the blocks of rows on devices that a plan chose. All other slices are on one
// device, or on all devices of a host or of the cluster.
type hierarchy struct {
	// repeated is, by host, the columns of blocks beyond the first one of each table.
	repeated []int
	// blocks is, by host and item, the number of blocks.
	blocks [][]int32
}

// linksFor returns the network of hierarchical exchanges: the simulated device's if it has one and
// the model's exchanges are simulated, otherwise the model's own.
func linksFor(m *Model, p *problem.Problem) simulate.Network {
	if simulatedExchanges(m) {
		if n, err := simulate.NewDevice(p.Topology.Device()).Network(clusterOf(p)); err == nil {
			return n
		}
	}
	return networkFor(m, p)
}

// simulatedExchanges reports whether the samples of the model's exchanges are simulated.
func simulatedExchanges(m *Model) bool {
	return m.manifest.Source == plan.Simulated || m.manifest.CommSource == plan.Simulated
}

func newHierarchy(p *Estimates) *hierarchy {
	if !p.problem.Hierarchy.On() {
		return nil
	}
	hosts := p.network.Domains()
	return &hierarchy{repeated: make([]int, hosts), blocks: make([][]int32, hosts)}
}

// reset removes all blocks.
func (h *hierarchy) reset() {
	clear(h.repeated)
	for _, blocks := range h.blocks {
		clear(blocks)
	}
}

// change adds a block of the given columns to a host (sign 1), or removes it (sign -1).
func (h *hierarchy) change(host, item, columns, sign int) {
	for item >= len(h.blocks[host]) {
		h.blocks[host] = append(h.blocks[host], 0)
	}
	n := &h.blocks[host][item]
	others := *n // beside the one that comes or goes
	if *n += int32(sign); sign < 0 {
		others = *n
	}
	if others > 0 {
		h.repeated[host] += sign * columns
	}
}

// exactly sets the repeated columns to those of a whole placement. Counts of blocks do not tell
// apart two slices of one table that have equal widths and numbers of blocks; no search makes
// such slices, but an imported plan may have them.
func (s *Scorer) exactly(shards [][]problem.Shard) {
	if s.hierarchy == nil {
		return
	}
	blocks := 0
	if s.others != nil {
		blocks = s.others.blockColumns
	}
	for host, columns := range simulate.ColumnsOf(s.estimates.problem, shards).Hosts {
		s.hierarchy.repeated[host] += int(s.HostColumns(host)) + blocks - columns
	}
}

// countBlock counts an item of ClassColumns that comes to a device or leaves it, if the item is a
// block and the exchange is hierarchical.
func (s *Scorer) countBlock(device, item, sign int) {
	if s.hierarchy == nil {
		return
	}
	if it := s.estimates.classes[problem.ClassColumns].at(item); it.blocks > 0 {
		s.hierarchy.change(device/s.estimates.network.Joined(), item, it.dimSum, sign)
	}
}

// HostSize returns the number of devices that a hierarchical exchange takes as one host: see
// search.Hierarchical.
func (s *Scorer) HostSize() int {
	if s.hierarchy == nil {
		return 0
	}
	return s.estimates.network.Joined()
}

// Columns returns the pooled columns that a device sends inside its host, and HostColumns those
// that a host sends to others, without those of tables that all devices hold together.
func (s *Scorer) Columns(device int) int64 {
	sum := s.columnsOf(device)
	if s.others != nil {
		sum += s.others.hostColumns[device/s.estimates.network.PerHost]
	}
	return int64(sum)
}

// HostColumns is described at Columns.
func (s *Scorer) HostColumns(host int) int64 {
	n := &s.estimates.network
	sum, first := -s.hierarchy.repeated[host], host*n.Joined()
	for d := first; d < min(first+n.Joined(), n.Devices); d++ {
		sum += s.columnsOf(d)
		if s.others != nil && d%n.PerHost == 0 {
			sum += s.others.hostColumns[d/n.PerHost]
		}
	}
	return int64(sum)
}

// Rates returns the times, in ms, of one direction of the exchange: for each column of the
// device with the most columns, for each column of the host with the most, and without columns.
func (s *Scorer) Rates() (column, hostColumn, fixed float64) {
	inside, between := s.estimates.links.Hierarchical(s.estimates.problem.Hierarchy, 1, 1)
	return float64(inside.Moving()), float64(between.Moving()), float64(between.Fixed)
}

// vectors returns the time, in ms, of one direction of the exchange, without the columns of
// tables that all devices hold together: every device and every host sends these in addition
// (otherForms.exchanges).
func (s *Scorer) vectors() float64 {
	n := &s.estimates.network
	most, mostOfHost := int64(0), int64(0)
	for d := range n.Devices {
		most = max(most, s.Columns(d))
	}
	if n.Devices == 1 || most == 0 && (s.others == nil || s.others.blockColumns == 0) {
		return 0
	}
	for h := range n.Domains() {
		mostOfHost = max(mostOfHost, s.HostColumns(h))
	}
	column, hostColumn, fixed := s.Rates()
	return float64(most)*column + float64(mostOfHost)*hostColumn + fixed
}

// hierarchical returns the time, in ms, of one direction of a hierarchical exchange for columns
// that every device and every host sends, without the fixed time.
func (o *otherForms) hierarchical(columns int) float64 {
	inside, between := o.estimates.links.Hierarchical(o.estimates.problem.Hierarchy, float64(columns), float64(columns))
	return float64(inside.Moving() + between.Moving())
}
