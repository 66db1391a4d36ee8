package input

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The fields of a scenario, of its tables and of its cluster. Fields of tables and clusters have their keys
// in other files, and the shapes have those of a scenario.
var (
	scenarioFields = numbered([]*field[scenarioReader]{
		at("name", word, "", func(r *scenarioReader) *string { return &r.title }),
		{key: "tables"},
		at("optimizer", scenarioOptimizer, "", func(r *scenarioReader) *problem.Optimizer { return &r.defaults.Optimizer }),
		at("global_batch", whole[int](1, problem.MaxBatch), batchHint, func(r *scenarioReader) *int { return &r.Batch }),
		at("batch_size_per_rank", whole[int64](1, problem.MaxBatch), "it is the number of samples of a step on one device", func(r *scenarioReader) *int64 { return &r.perRank }),
		{key: "topology", read: func(r *reading, n *node, _ string, into *scenarioReader) {
			readCluster(&reading{report: r.report}, scenarioCluster, n, into.Cluster)
		}},
	})
	scenarioShape  = shaped("the scenario", scenarioFields)
	scenarioTables = renamed("a table of a scenario", []string{"name", "rows", "dim", "pooling"},
		"name", "name", "rows", "rows", "dim", "dim", "pooling", "pooling_factor", "dtype", "precision")
	scenarioCluster = &shape[TopologyFile]{
		what:     "the topology of a scenario",
		required: []string{"world_size", "local_world_size", "hbm_bytes"},
		keys:     []string{"world_size", "local_world_size", "hbm_bytes", "intra_host_bw", "inter_host_bw", "hbm_mem_bw", "hbm_to_ddr_mem_bw"},
		fields: numbered([]*field[TopologyFile]{
			at("devices", whole[int](1, mostWhole), "it is the number of devices of the cluster", func(t *TopologyFile) *int { return &t.Topology.Devices }),
			at("devices_per_host", whole[int](1, mostWhole), "it is how many devices share a host's fast links", func(t *TopologyFile) *int { return &t.Topology.DevicesPerHost }),
			at("memory", whole[unit.Bytes](1, mostWhole), "it is the memory of one device, in bytes", func(t *TopologyFile) *unit.Bytes { return &t.Topology.Memory }),
			at("link_bandwidth", perMillisecond, linkHint, func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.Bandwidths.Links }),
			at("network_bandwidth", perMillisecond, linkHint, func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.NetworkBandwidth }),
			at("hbm_bandwidth", perMillisecond, linkHint, func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.Bandwidths.HBM }),
			at("host_link_bandwidth", perMillisecond, linkHint, func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.Bandwidths.HostLink }),
		}),
	}

	scenarioOptimizer = oneOf(append([]string{noOptimizer}, problem.Optimizers()...), func(name string) (problem.Optimizer, error) {
		if name == noOptimizer {
			return problem.SGD, nil // it keeps no state
		}
		return problem.ParseOptimizer(name)
	})
	// perMillisecond is a bandwidth in bytes a millisecond.
	perMillisecond = kind[unit.Bandwidth]{func(r *report, n *node, hint string) (unit.Bandwidth, bool) {
		const ms = 1000
		rate, ok := real[float64](func(v float64) string {
			if b := unit.Bandwidth(math.Round(ms * v)); b >= hardware.MinNetworkBandwidth && b <= hardware.MaxNetworkBandwidth {
				return ""
			}
			return fmt.Sprintf("%g is not between %g and %g", v, float64(hardware.MinNetworkBandwidth)/ms, float64(hardware.MaxNetworkBandwidth)/ms)
		}).read(r, n, hint)
		return unit.Bandwidth(math.Round(ms * rate)), ok
	}, nil, nil}
)

const linkHint = "it is a bandwidth in bytes a millisecond, as TorchRec states it, such as 6e8 for 600 GB/s"

// noOptimizer is what a scenario calls training without optimizer state.
const noOptimizer = "none"

// beginsScenario reports whether an object is a scenario: its first key is one of a
// scenario that the project's own format does not have.
func beginsScenario(first string) bool {
	return slices.Contains([]string{"name", "optimizer", "global_batch", "batch_size_per_rank", "topology"}, first)
}

// scenarioReader is a scenario being read: the tables in its builder, and its cluster.
type scenarioReader struct {
	*builder
	reading reading
	title   string
	// perRank is the batch of one device; 0: none.
	perRank int64
}

// readScenario reads a scenario, which is tables, batch and cluster in one object, into b.
func readScenario(b *builder, s *scanner) {
	b.Cluster = &TopologyFile{Name: b.Name, lines: map[string]int{}, unread: map[string]bool{}}
	r := &scenarioReader{builder: b, reading: reading{report: b.report, lines: map[string]int{}}}
	for key := range s.Object(scenarioShape.what, scenarioShape.keys) {
		if key == "tables" {
			r.reading.lines[key] = s.Line()
			b.each(s, scenarioTables, key, b.newTable)
			continue
		}
		if n := s.tree(key); !s.Failed() {
			scenarioFields[slices.Index(scenarioShape.keys, key)].value(&r.reading, n, r)
		}
	}
	s.End()
	b.statedForAll |= optimizerField
	b.batchLine = r.reading.lines["global_batch"]
	if s.Failed() {
		// What stands behind the broken syntax was not read.
		b.Cluster.faulty, b.Cluster.veiled = true, true
		r.unstated(s.Line())
		return
	}
	for _, key := range []string{"tables", "optimizer", "topology"} {
		if r.reading.lines[key] == 0 {
			b.add(1, key+" is missing in the scenario", "docs/FORMATS.md draws a whole one")
		}
	}
	r.unstated(max(1, r.reading.lines["topology"]))
	r.batch()
	b.Cluster.faulty = b.count() > 0
}

// unstated notes what the scenario should have stated of the cluster as unread, which
// is reported already.
func (r *scenarioReader) unstated(line int) {
	for _, key := range []string{"devices", "devices_per_host", "memory"} {
		if !r.Cluster.Has(key) {
			r.Cluster.lines[key], r.Cluster.unread[key] = line, true
		}
	}
}

// batch compares what the scenario says of the batch, and completes it.
func (r *scenarioReader) batch() {
	devices := int64(r.Cluster.Topology.Devices)
	switch {
	case r.reading.lines["global_batch"] == 0 && r.reading.lines["batch_size_per_rank"] == 0:
		r.add(1, "the scenario states no batch", "state global_batch, the samples of a step over all devices, or batch_size_per_rank")
	case r.perRank == 0 || devices == 0:
		// Reported, or not there.
	case devices > problem.MaxBatch || r.perRank*devices > problem.MaxBatch:
		// The devices are too many, too.
		if r.reading.lines["global_batch"] == 0 && devices <= hardware.MaxDevices {
			r.add(r.reading.lines["batch_size_per_rank"], fmt.Sprintf("batch_size_per_rank: %d on each of %d devices is above %d", r.perRank, devices, problem.MaxBatch), batchHint)
		} else if r.Batch > 0 {
			r.disagree()
		}
	case r.reading.lines["global_batch"] == 0:
		r.Batch, r.batchLine = int(r.perRank*devices), r.reading.lines["batch_size_per_rank"]
	case r.Batch > 0 && r.perRank*devices != int64(r.Batch):
		r.disagree()
	}
	r.Cluster.Batch = r.Batch
	if r.Batch > 0 {
		r.Cluster.lines["batch"] = r.batchLine
	}
}

func (r *scenarioReader) disagree() {
	r.add(r.batchLine, fmt.Sprintf("global_batch: %d is not %d samples on each of %d devices", r.Batch, r.perRank, r.Cluster.Topology.Devices), "global_batch is batch_size_per_rank x world_size: mend one of them, or leave one batch out")
}
