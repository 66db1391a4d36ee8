package input

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// topology.go has the fields of a cluster.

// TopologyFile is the content of a topology file.
type TopologyFile struct {
	// Name is the file's name, as it appears in errors.
	Name string
	// Cluster is what the file states. What the file leaves out is zero, for flags to
	// fill in.
	Cluster

	// step is what the file states of the whole training step.
	step   stepPart
	own    []hardware.Profile
	lines  map[string]int
	faulty bool
	// unread holds the keys whose values could not be read; veiled is set where
	// the file may state others that were not found, too.
	unread map[string]bool
	veiled bool
}

// What some fields of a cluster are, in hints, schemas and documents.
const (
	domainHint         = "nvlink_domain is how many devices the links inside hosts join, where they join several hosts; those of a host if left out"
	networkHint        = "network_bandwidth is what a device sends to other hosts, such as 50GB/s; the profile's if left out"
	deviceMemoriesHint = "state the memory of each device where devices differ, such as 40GiB,80GiB for two, or of some, such as 0-3=40GiB"
	hostMemoriesHint   = "state the memory of each host where hosts differ, such as 512GiB,1TiB for two, or of some, such as 0=512GiB"
	replicasHint       = "replicas is the number of sharding groups of 2D parallelism: a divisor of the devices, such as 2; one if left out"
	syncHint           = "sync_every is the number of steps from one all-reduce of the replicas to the next; 1 if left out"
	stepHint           = "step is a measured time with its unit, such as 3.9ms, which calibrates the rest of the step"
	loaderHint         = "loader is what the input pipeline delivers to all devices, such as 20GB/s; no limit if left out"
	priceHint          = "price is that of one device for an hour, such as 2.95"
)

// The kinds of a cluster's fields.
var (
	multiplier = real[float64](func(v float64) string {
		if v > 0 && v <= hardware.MaxMultiplier {
			return ""
		}
		return fmt.Sprintf("%v is not above 0 and at most %d", v, hardware.MaxMultiplier)
	})
	reserveShare = kind[float64]{func(r *report, n *node, hint string) (float64, bool) {
		share, ok := anyReal.read(r, n, hint)
		return hardware.ReserveShare(share), ok
	}, nil, anyReal.schema}
	// memory is a size, and 0 is none.
	memory = kind[unit.Bytes]{func(r *report, n *node, hint string) (unit.Bytes, bool) {
		b, ok := size.read(r, n, hint)
		if ok && b == 0 {
			r.add(n.line, n.key+": 0 is no memory", "leave it out for the profile's own")
		}
		return b, ok && b > 0
	}, nil, size.schema}
	// memories are a text as flags have it, or a list of sizes.
	memories = kind[oneByOne]{func(r *report, n *node, hint string) (oneByOne, bool) {
		list, sizes := []node{*n}, []string(nil)
		if n.kind == strictjson.List {
			list = n.list
		}
		for i := range list {
			text, ok := r.textOf(&list[i], "a size with its unit", hint)
			if !ok {
				return oneByOne{}, false
			}
			sizes = append(sizes, text)
		}
		m, err := hardware.ParseMemories(strings.Join(sizes, ","))
		if err != nil {
			r.add(n.line, n.key+": "+err.Error(), hint)
		}
		return oneByOne{memories: m, flag: n.kind == cell}, err == nil
	}, nil, nil}
	price = kind[float64]{func(r *report, n *node, hint string) (float64, bool) {
		text := n.text
		if n.kind != strictjson.Number {
			var ok bool
			if text, ok = r.text(n, hint); !ok {
				return 0, false
			}
		}
		price, err := parsePrice(text)
		if err != nil {
			r.add(n.line, n.key+": "+what(err), hint)
		}
		return price, err == nil
	}, nil, nil}
)

// clusterFields are the fields of a topology file.
var (
	clusterFields = numbered([]*field[TopologyFile]{
		at("devices", anyWhole[int](), "devices is the number of devices of the cluster", func(t *TopologyFile) *int { return &t.Topology.Devices }),
		at("devices_per_host", anyWhole[int](), "devices_per_host is how many devices share a host's fast links, or 0 for all; 8 if left out, or all, if they are fewer or have no network between hosts", func(t *TopologyFile) *int { return &t.Topology.DevicesPerHost }),
		{key: "device", hint: "device is the name of the device profile, such as a100-80; describe them with: neuroshard devices", schema: schema{"type": "string"}, read: readProfile, copy: func(into, from *TopologyFile) { into.Topology.Profile = from.Topology.Profile }},
		at("memory", memory, "memory is that of one device, such as 40GiB; the profile's if left out", func(t *TopologyFile) *unit.Bytes { return &t.Topology.Memory }),
		at("device_memories", memories, deviceMemoriesHint, func(t *TopologyFile) *oneByOne { return &t.devices }),
		at("reserve_share", reserveShare, "reserve_share is the share of each device's memory kept free of tables: write 0.15, the default, for 15 %", func(t *TopologyFile) *float64 { return &t.Topology.ReserveShare }),
		at("reserve_fixed", size, "reserve_fixed is memory of each device kept free on top of the share, such as 2GiB", func(t *TopologyFile) *unit.Bytes { return &t.Topology.ReserveFixed }),
		at("host_memory", size, "host_memory is the memory of a full host that its devices' tables may use, such as 1TiB; none if left out", func(t *TopologyFile) *unit.Bytes { return &t.Topology.HostMemory }),
		at("host_memories", memories, hostMemoriesHint, func(t *TopologyFile) *oneByOne { return &t.hosts }),
		at("batch", whole[int](1, problem.MaxBatch), batchHint, func(t *TopologyFile) *int { return &t.Batch }),
		at("accounting", oneOf(problem.ChosenAccountings(), problem.ParseAccounting), "accounting says which bytes count against a device's memory: all, the default, or those that TorchRec's storage estimator counts, in the newest known release or in a stated one", func(t *TopologyFile) *problem.Accounting { return &t.Accounting }),
		at("comm_precision", precision, "comm_precision is the number format of what devices send each other; fp32 if left out", func(t *TopologyFile) *problem.Precision { return &t.CommPrecision }),
		at("engine", oneOf(problem.Engines(), problem.ParseEngine), "engine is the one that is to run the plan; any if left out", func(t *TopologyFile) *problem.Engine { return &t.Engine }),
		at("lanes", oneOf(problem.LaneRules(), problem.ParseLaneRule), "lanes says which table sets the lanes of a bag: the widest of the operator, the default, or each its own", func(t *TopologyFile) *problem.LaneRule { return &t.LaneRule }),
		at("network_bandwidth", bandwidth, networkHint, func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.NetworkBandwidth }),
		at("nvlink_domain", anyWhole[int](), domainHint, func(t *TopologyFile) *int { return &t.Topology.NVLinkDomain }),
		at("link_bandwidth", bandwidth, "link_bandwidth is that of a device to the others of its host, such as 300GB/s, for TorchRec's formulas; 600GiB/s if left out", func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.Bandwidths.Links }),
		at("hbm_bandwidth", bandwidth, "hbm_bandwidth is that of a device's memory, such as 2TB/s, for TorchRec's formulas; 897GiB/s if left out", func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.Bandwidths.HBM }),
		at("host_link_bandwidth", bandwidth, "host_link_bandwidth is that of a device to its host's memory, such as 25GB/s, for TorchRec's formulas; 32GiB/s if left out", func(t *TopologyFile) *unit.Bandwidth { return &t.Topology.Bandwidths.HostLink }),
		at("backward_multiplier", multiplier, "backward_multiplier is the time of the kernels of the backward over that of the forward, such as 2.5, for TorchRec's formulas; 2 if left out", func(t *TopologyFile) *float64 { return &t.Topology.Multipliers.Backward }),
		at("weighted_backward_multiplier", multiplier, "weighted_backward_multiplier is a factor of the time of the backward for weighted lookups, such as 1.5, for TorchRec's formulas; 1 if left out", func(t *TopologyFile) *float64 { return &t.Topology.Multipliers.WeightedBackward }),
		at("replicas", anyWhole[int](), replicasHint, func(t *TopologyFile) *int { return &t.Topology.Replicas }),
		at("sync_every", anyWhole[int](), syncHint, func(t *TopologyFile) *int { return &t.Topology.SyncEvery }),
		at("inter_host_allreduce", truth, "inter_host_allreduce is true if the devices of a sharding group are consecutive, as use_inter_host_allreduce of TorchRec's DMPCollection", func(t *TopologyFile) *bool { return &t.Topology.InterHostAllReduce }),
		{key: "dense", hint: "dense is the model's dense part: a preset, or its layers as below", read: readDense, copy: func(into, from *TopologyFile) { into.step.dense = from.step.dense }},
		{key: "stack", hint: "stack is the training system that runs the step: a preset, or its parts as below", read: readStack, copy: func(into, from *TopologyFile) { into.step.stack = from.step.stack }},
		at("step", quantity("a time with its unit", "ms", unit.ParseMillis), stepHint, func(t *TopologyFile) *unit.Millis { return &t.step.measured }),
		at("loader", bandwidth, loaderHint, func(t *TopologyFile) *unit.Bandwidth { return &t.step.loader }),
		at("price", price, priceHint, func(t *TopologyFile) *float64 { return &t.step.price }),
	})
	clusterShape = shaped("a topology", clusterFields)
)

// Has reports whether the file states the key, such as "reserve_share".
func (f TopologyFile) Has(key string) bool { return f.lines[key] > 0 }

// fault returns an error about a key, at its line if the file states the key and no flag does.
func (f TopologyFile) fault(o Overrides, key, message, hint string) error {
	e := Error{Message: message, Hint: hint}
	if f.Has(key) && !o.Has(key) {
		e.File, e.Line = f.Name, f.lines[key]
	}
	return &Errors{List: []Error{e}}
}

// open reports whether the file may state the key, with a value that is not known.
func (f TopologyFile) open(key string) bool {
	return f.unread[key] || f.veiled && !f.Has(key)
}

// forgive replaces the open values that no flag stated either by valid ones. What is
// still wrong with t is then wrong for every value that the file may have meant.
func (f TopologyFile) forgive(t *hardware.Topology) {
	if t.Devices == 0 && f.open("devices") {
		t.Devices = hardware.MaxDevices
		t.DevicesPerHost = min(t.DevicesPerHost, 0) // perhaps they are all on one host
	}
	if t.Profile.Name == "" && f.open("device") {
		profiles := hardware.Profiles()
		t.Profile = profiles[len(profiles)-1] // it has a network between hosts
		t.Memory = cmp.Or(t.Memory, hardware.MaxMemory)
	}
	if f.open("memory") {
		t.Memory = cmp.Or(t.Memory, hardware.MaxMemory)
	}
	if f.open("host_memory") {
		t.HostMemory = cmp.Or(t.HostMemory, hardware.MaxMemory)
	}
	if f.open("reserve_share") && t.ReserveShare == 0 {
		t.ReserveShare = hardware.NoReserve
	}
}

// Topology reads a topology from YAML or JSON: an object with keys of clusterFields.
// No key is required. docs/FORMATS.md draws the file. Content that begins with "{" is JSON
// unless the name ends in .yaml or .yml. YAML aliases and anchors, several documents,
// and files above 1 MiB are refused.
//
// own are profiles that device may name beside those of package hardware: the
// device of a cost model that was measured on it.
//
// The error is nil or an *Errors with all that is wrong; beside it comes what
// could be read, for Check.
func Topology(name string, from io.Reader, own ...hardware.Profile) (TopologyFile, error) {
	t := TopologyFile{Name: name, own: own}
	r := &reading{report: &report{file: name}}
	root := r.root(name, clusterShape.what, from)
	readCluster(r, clusterShape, root, &t)
	return t, r.err()
}

// readCluster reads an object of fields of a cluster; nil is one that could not be read.
func readCluster(r *reading, of *shape[TopologyFile], n *node, into *TopologyFile) {
	into.lines, into.unread = map[string]int{}, map[string]bool{}
	before := r.count()
	r.lines = into.lines
	if n != nil {
		of.read(r, n, into)
	}
	for _, f := range of.fields {
		if r.bad.has(1 << f.id) {
			into.unread[f.key] = true
		}
	}
	into.faulty = r.count() > 0
	into.veiled = n == nil || r.count() > before+r.explained
}

func readProfile(r *reading, n *node, hint string, t *TopologyFile) {
	name, ok := r.text(n, "write one of "+strings.Join(hardware.Names(), ", "))
	if !ok {
		return
	}
	for _, p := range t.own {
		if p.Name == name {
			t.Topology.Profile = p
			return
		}
	}
	profile, err := hardware.ByName(clip(name))
	if err != nil {
		if len(t.own) > 0 {
			err = fmt.Errorf("%w; or %s, the model's own", err, t.own[0].Name)
		}
		message := err.Error()
		if n.kind == cell {
			message = n.key + ": " + message
		}
		r.add(n.line, message, hint)
	}
	t.Topology.Profile = profile
}

func readDense(r *reading, n *node, _ string, t *TopologyFile) {
	before := r.count()
	t.step.dense = denseOf(r.report, n)
	t.step.dense.Name, t.step.dense.faulty = t.Name, r.count() > before
}

func readStack(r *reading, n *node, _ string, t *TopologyFile) {
	before := r.count()
	if s := stackOf(r.report, n); r.count() == before {
		t.step.stack = &s
	}
}
