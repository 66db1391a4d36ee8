package input

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The keys of a scenario's objects.
var (
	scenarioKeys        = []string{"name", "tables", "optimizer", "global_batch", "batch_size_per_rank", "topology"}
	scenarioTableKeys   = []string{"name", "rows", "dim", "pooling", "dtype"}
	scenarioClusterKeys = []string{"world_size", "local_world_size", "hbm_bytes"}
	// scenarioLinks are the keys of bandwidths, which a scenario need not state, beside those of a
	// topology file.
	scenarioLinks = []struct{ key, as string }{
		{"intra_host_bw", "link_bandwidth"},
		{"inter_host_bw", "network_bandwidth"},
		{"hbm_mem_bw", "hbm_bandwidth"},
		{"hbm_to_ddr_mem_bw", "host_link_bandwidth"},
	}
)

// scenarioTable names a table of a scenario in messages.
const scenarioTable = "a table of a scenario"

// noOptimizer is what a scenario calls training without optimizer state.
const noOptimizer = "none"

// beginsScenario reports whether an object is a scenario: its first key is one of a
// scenario that the project's own format does not have.
func beginsScenario(first string) bool {
	return slices.Contains(scenarioKeys, first) && !slices.Contains(fileKeys, first)
}

// scenarioReader is a scenario being read: the tables in its builder, and its cluster.
type scenarioReader struct {
	*builder
	s         *scanner
	cluster   TopologyFile
	optimizer problem.Optimizer
	// perRank is the batch of one device, and perRankLine where it stands; 0: none.
	perRank               int64
	perRankLine           int
	hasGlobal, hasPerRank bool
}

// readScenario reads a scenario, which is tables, batch and cluster in one object, into b.
func readScenario(b *builder, s *scanner) {
	r := &scenarioReader{builder: b, s: s, cluster: TopologyFile{
		Name: b.Name, lines: map[string]int{}, unread: map[string]bool{},
	}}
	file := s.Object("the scenario", scenarioKeys)
	for key := range file.Keys() {
		switch key {
		case "name":
			s.Text("name")
		case "tables":
			for i := range s.List("tables") {
				if s.Next(); b.full(s.Line()) {
					s.Stop()
					break
				}
				r.table(i)
			}
		case "optimizer":
			r.optimizerKey()
		case "global_batch":
			r.globalBatchKey()
		case "batch_size_per_rank":
			r.perRankKey()
		case "topology":
			r.topologyKey()
		}
	}
	s.End()
	b.Cluster = &r.cluster
	b.defaults.optimizer = r.optimizer
	b.defaults.stated |= statedOptimizer
	if s.Failed() {
		// What stands behind the broken syntax was not read.
		r.cluster.faulty, r.cluster.veiled = true, true
		r.unstated(s.Line())
		return
	}
	for _, key := range []string{"tables", "optimizer", "topology"} {
		if !file.Has(key) {
			b.add(1, key+" is missing in the scenario", "docs/FORMATS.md draws a whole one")
		}
	}
	r.unstated(1)
	r.batch()
	r.cluster.faulty = b.count() > 0
}

// table reads the table at position i, as jsonReader does.
func (r *scenarioReader) table(i int) {
	s := r.s
	line, named := s.Line(), len(s.report.list)
	var t problem.Table
	var bad unread
	pooling := 0.0
	o := s.Object(scenarioTable, scenarioTableKeys)
	for key := range o.Keys() {
		ok, part := false, unread(0)
		switch key {
		case "name":
			t.Name, ok = s.Text("name")
			part = unreadName
		case "rows":
			t.Rows, ok = s.whole("rows", rowsHint)
			part = unreadRows
		case "dim":
			t.Dim, ok = s.dim()
			part = unreadDim
		case "pooling":
			pooling, ok = s.real("pooling", poolingHint)
		case "dtype":
			t.Precision, ok = s.precision("dtype")
			part = unreadPrecision
		}
		if !ok {
			bad |= part
		}
	}
	if o.Opened() && !s.Failed() {
		s.require(o, line, "name", "rows", "dim", "pooling")
		bad |= missing(o)
	}
	name := t.Name
	if name == "" {
		name = fmt.Sprintf("#%d", i)
	}
	s.name(named, name)
	if o.Opened() && !s.Failed() {
		t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: pooling}}
		r.builder.table(t, line, statedPooling|statedPrecision, bad, name)
	}
}

func (r *scenarioReader) optimizerKey() {
	line := r.s.Line()
	text, ok := r.s.Text("optimizer")
	if !ok || text == noOptimizer {
		return // SGD keeps no state
	}
	o, err := problem.ParseOptimizer(text)
	r.enum(line, err, text, "optimizer", append([]string{noOptimizer}, optimizers()...))
	r.optimizer = o
}

func (r *scenarioReader) globalBatchKey() {
	r.hasGlobal = true
	r.batchLine = r.s.Line()
	if batch, ok := r.s.whole("global_batch", batchHint); ok {
		r.Batch = r.globalBatch(r.s.Line(), batch)
	}
}

func (r *scenarioReader) perRankKey() {
	const hint = "it is the number of samples of a step on one device"
	r.hasPerRank = true
	r.perRankLine = r.s.Line()
	batch, ok := r.s.whole("batch_size_per_rank", hint)
	switch {
	case !ok:
	case batch < 1 || batch > problem.MaxBatch:
		r.add(r.perRankLine, fmt.Sprintf("batch_size_per_rank: %d is not between 1 and %d", batch, problem.MaxBatch), hint)
	default:
		r.perRank = batch
	}
}

// topologyKey reads the cluster. It notes values under the keys of a topology file.
func (r *scenarioReader) topologyKey() {
	s, t := r.s, &r.cluster.Topology
	s.Next()
	line := s.Line()
	keys := slices.Clone(scenarioClusterKeys)
	for _, link := range scenarioLinks {
		keys = append(keys, link.key)
	}
	o := s.Object("the topology of a scenario", keys)
	value := func(key, as, hint string) (n int64) {
		s.Next()
		r.cluster.lines[as] = s.Line()
		n, ok := s.whole(key, hint)
		if ok && n < 1 {
			r.add(s.Line(), fmt.Sprintf("%s: %d is not above 0", key, n), hint)
			n, ok = 0, false
		}
		r.cluster.unread[as] = !ok
		return n
	}
	for key := range o.Keys() {
		switch key {
		case "world_size":
			t.Devices = int(value(key, "devices", "it is the number of devices of the cluster"))
		case "local_world_size":
			t.DevicesPerHost = int(value(key, "devices_per_host", "it is how many devices share a host's fast links"))
		case "hbm_bytes":
			t.Memory = unit.Bytes(value(key, "memory", "it is the memory of one device, in bytes"))
		default:
			for _, link := range scenarioLinks {
				if link.key == key {
					r.link(key, link.as)
				}
			}
		}
	}
	if !o.Opened() || s.Failed() {
		r.cluster.veiled = true
		return
	}
	s.require(o, line, scenarioClusterKeys...)
	r.unstated(line)
}

// link reads a bandwidth, which TorchRec states in bytes a millisecond. as is its key in a topology
// file.
func (r *scenarioReader) link(key, as string) {
	const hint = "it is a bandwidth in bytes a millisecond, as TorchRec states it, such as 6e8 for 600 GB/s"
	s, t := r.s, &r.cluster.Topology
	s.Next()
	r.cluster.lines[as] = s.Line()
	rate, ok := s.real(key, hint)
	bandwidth := unit.Bandwidth(math.Round(1000 * rate))
	if ok && !(bandwidth >= hardware.MinNetworkBandwidth && bandwidth <= hardware.MaxNetworkBandwidth) {
		const ms = 1000
		r.add(s.Line(), fmt.Sprintf("%s: %g is not between %g and %g", key, rate, float64(hardware.MinNetworkBandwidth)/ms, float64(hardware.MaxNetworkBandwidth)/ms), hint)
		ok = false
	}
	if r.cluster.unread[as] = !ok; !ok {
		return
	}
	switch key {
	case "intra_host_bw":
		t.Bandwidths.Links = bandwidth
	case "inter_host_bw":
		t.NetworkBandwidth = bandwidth
	case "hbm_mem_bw":
		t.Bandwidths.HBM = bandwidth
	case "hbm_to_ddr_mem_bw":
		t.Bandwidths.HostLink = bandwidth
	}
}

// unstated notes what the scenario should have stated of the cluster as unread, which
// is reported already.
func (r *scenarioReader) unstated(line int) {
	for _, key := range []string{"devices", "devices_per_host", "memory"} {
		if !r.cluster.Has(key) {
			r.cluster.lines[key], r.cluster.unread[key] = line, true
		}
	}
}

// batch compares what the scenario says of the batch, and completes it.
func (r *scenarioReader) batch() {
	devices := int64(r.cluster.Topology.Devices)
	switch {
	case !r.hasGlobal && !r.hasPerRank:
		r.add(1, "the scenario states no batch", "state global_batch, the samples of a step over all devices, or batch_size_per_rank")
	case r.perRank == 0 || devices == 0:
		// Reported, or not there.
	case devices > problem.MaxBatch || r.perRank*devices > problem.MaxBatch:
		// The devices are too many, too.
		if !r.hasGlobal && devices <= hardware.MaxDevices {
			r.add(r.perRankLine, fmt.Sprintf("batch_size_per_rank: %d on each of %d devices is above %d", r.perRank, devices, problem.MaxBatch), batchHint)
		} else if r.Batch > 0 {
			r.disagree()
		}
	case !r.hasGlobal:
		r.Batch, r.batchLine = int(r.perRank*devices), r.perRankLine
	case r.Batch > 0 && r.perRank*devices != int64(r.Batch):
		r.disagree()
	}
	r.cluster.Batch = r.Batch
	if r.Batch > 0 {
		r.cluster.lines["batch"] = r.batchLine
	}
}

func (r *scenarioReader) disagree() {
	r.add(r.batchLine, fmt.Sprintf("global_batch: %d is not %d samples on each of %d devices", r.Batch, r.perRank, r.cluster.Topology.Devices), "global_batch is batch_size_per_rank x world_size: mend one of them, or leave one batch out")
}
