package simulate

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// hierarchy.go counts the vectors that a hierarchical exchange moves (problem.Hierarchy). Each
// device sends a vector for each of its shards to the devices of its host, whatever the
// sharding type. Between hosts, the shards of a host that hold the same columns of a table are
// one vector:
//
//	            host 0                      host 1
//	device      0          1                2          3
//	shards      A rows 0   A rows 1         A rows 2   B
//	inside      A          A                A          B
//	between           A                          A B

// Columns are the pooled columns of the vectors that a placement sends for each sample.
type Columns struct {
	// Devices has, for each device, one vector for each shard and feature.
	Devices []int
	// Hosts has, for each host, or NVLink domain, one vector for each slice of columns and
	// feature.
	Hosts []int
}

// ColumnsOf returns the columns of a placement, shards listed by device. Replicas send none.
func ColumnsOf(p *problem.Problem, shards [][]problem.Shard) Columns {
	type slice struct {
		table   int
		columns problem.Range
	}
	joined := p.Topology.LinkDomain()
	c := Columns{Devices: make([]int, len(shards)), Hosts: make([]int, p.Topology.LinkDomains())}
	var seen map[slice]bool
	for d, held := range shards {
		if d%joined == 0 {
			seen = map[slice]bool{}
		}
		for i := range held {
			if held[i].ShardingType == problem.DataParallel {
				continue
			}
			columns := p.DimSum(held[i])
			c.Devices[d] += columns
			if key := (slice{held[i].Table, held[i].Columns}); !seen[key] {
				seen[key] = true
				c.Hosts[d/joined] += columns
			}
		}
	}
	return c
}

// hierarchical returns the times of each device's exchanges under the problem's hierarchy,
// forward and backward, if all devices start at once. The gradients of replicas take an
// all-reduce, as under flat exchanges.
func hierarchical(d *Device, p *problem.Problem, shards [][]problem.Shard) (forward, backward []unit.Millis, err error) {
	t := &p.Topology
	forward, backward = make([]unit.Millis, len(shards)), make([]unit.Millis, len(shards))
	net, err := d.Network(Cluster{Devices: t.Devices, PerHost: t.PerHost(), Domain: t.NVLinkDomain, Batch: p.Batch, ElementBytes: p.CommBytes()})
	if err != nil || t.Devices == 1 {
		return forward, backward, err
	}
	c := ColumnsOf(p, shards)
	inside, between := net.Hierarchical(p.Hierarchy, float64(slices.Max(c.Devices)), float64(slices.Max(c.Hosts)))
	replicated := 0.0
	for i := range shards[0] {
		if s := &shards[0][i]; s.ShardingType == problem.DataParallel {
			replicated += float64(s.Rows.Len()) * float64(s.Dim())
		}
	}
	for r := range shards {
		forward[r] = inside.Time() + between.Time()
		backward[r] = forward[r] + net.replicated(replicated)
	}
	return forward, backward, nil
}
