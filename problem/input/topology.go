package input

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// MaxTopologyBytes is the size above which a topology file is refused.
const MaxTopologyBytes = unit.MiB

// emptyTopology is the hint for a file without content.
const emptyTopology = "state devices and device"

var topologyKeys = []string{"devices", "devices_per_host", "device", "memory", "device_memories", "reserve_share", "reserve_fixed", "host_memory", "host_memories", "batch", "accounting", "comm_precision", "engine", "lanes", "network_bandwidth", "nvlink_domain", "link_bandwidth", "hbm_bandwidth", "host_link_bandwidth", "backward_multiplier", "weighted_backward_multiplier", "replicas", "sync_every", "inter_host_allreduce", "dense", "stack", "step", "loader", "price"}

// TopologyFile is the content of a topology file.
type TopologyFile struct {
	// Name is the file's name, as it appears in errors.
	Name string
	// Topology is what the file states. What the file leaves out is zero, for flags to
	// fill in.
	Topology hardware.Topology
	// Batch is the global batch that the file states; 0: none.
	Batch int
	// Accounting says which bytes count against a device's memory; CountAll if the file states
	// nothing.
	Accounting problem.Accounting
	// CommPrecision is the number format of what devices send each other; fp32 where
	// the file states none.
	CommPrecision problem.Precision
	// Engine is the engine that the file states; empty: none.
	Engine problem.Engine
	// LaneRule says how kernels choose the lanes of a bag; LanesByWidest if the file states
	// nothing.
	LaneRule problem.LaneRule

	// devices and hosts are the memories that the file states of them, one by one.
	devices, hosts oneByOne
	// step is what the file states of the whole training step.
	step   stepPart
	lines  map[string]int
	faulty bool
	// unread holds the keys whose values could not be read; veiled is set where
	// the file may state others that were not found, too.
	unread map[string]bool
	veiled bool
}

// Has reports whether the file states the key, such as "reserve_share".
func (f TopologyFile) Has(key string) bool { return f.lines[key] > 0 }

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

// Topology reads a topology from YAML or JSON: an object with the keys devices,
// devices_per_host, replicas, sync_every, inter_host_allreduce, device (a profile's name), memory, reserve_share,
// reserve_fixed, host_memory (sizes with a unit, such as "40GiB"), device_memories and
// host_memories (hardware.Memories, or a list of sizes), batch,
// comm_precision (a precision's name), engine (an engine's name), lanes (a lane
// rule's name), and of the whole step dense and stack (presets' names, or objects), step,
// loader and price. None of them is required here. Content that begins with "{" is JSON
// unless the name ends in .yaml or .yml. YAML aliases and anchors, several documents,
// and files above MaxTopologyBytes are refused.
//
// own are profiles that device may name beside those of package hardware: the
// device of a cost model that was measured on it.
//
// The error is nil or an *Errors with all that is wrong; beside it comes what
// could be read, for Check.
func Topology(name string, r io.Reader, own ...hardware.Profile) (TopologyFile, error) {
	t := &topologyReader{report: &report{file: name}, own: own}
	t.Name, t.lines, t.unread = name, map[string]int{}, map[string]bool{}
	t.read(r)
	t.faulty = t.count() > 0
	t.veiled = t.count() > t.explained
	return t.TopologyFile, t.err()
}

type topologyReader struct {
	*report
	TopologyFile
	// explained counts the errors that are about the value of a known key.
	explained int
	own       []hardware.Profile
}

// value runs read, which reads and stores the value of a known key, and notes
// whether it could.
func (t *topologyReader) value(key string, line int, read func()) {
	before := t.count()
	read()
	if n := t.count() - before; n > 0 {
		t.unread[key] = true
		t.explained += n
	}
	t.lines[key] = line
}

func (t *topologyReader) read(r io.Reader) {
	data, err := io.ReadAll(io.LimitReader(r, int64(MaxTopologyBytes)+1))
	switch {
	case err != nil:
		t.readError(0, err)
		return
	case len(data) > int(MaxTopologyBytes):
		t.add(0, fmt.Sprintf("the file is over %v", MaxTopologyBytes), "a topology takes a few lines: is this the right file?")
		return
	}
	in := bufio.NewReader(bytes.NewReader(data))
	first, err := skipSpace(in)
	if err != nil {
		t.add(0, "the file is empty", emptyTopology)
		return
	}
	if !isYAML(t.Name, first.char) {
		t.readJSON(newScanner(in, t.report, first))
		return
	}
	t.readYAML(data)
}

// entry is one key of the file and its value as written.
type entry struct {
	key   string
	line  int
	value string
	// quoted is true for a string, false for a number.
	quoted bool
	// tree is the value if it may be an object (isTree).
	tree *yaml.Node
}

func (t *topologyReader) readJSON(s *scanner) {
	for key := range s.Object("a topology", topologyKeys).Keys() {
		kind := s.Next()
		e := entry{key: key, line: s.Line(), quoted: kind == strictjson.String}
		t.value(key, e.line, func() {
			var ok bool
			switch {
			case isTree(key):
				e.tree = treeOf(s, key, 0)
				ok = e.tree != nil
			case isTruth(key):
				var value bool
				value, ok = s.Bool(key)
				e.value = strconv.FormatBool(value)
			case e.quoted:
				e.value, ok = s.Text(key)
			default:
				e.value, ok = s.Number(key, wanted(key))
			}
			if ok {
				t.set(e)
			}
		})
	}
	if s.End(); s.Failed() {
		t.explained = -1 // what stands behind the broken syntax was not read
	}
}

func (t *topologyReader) readYAML(data []byte) {
	in := values{t.report}
	root := in.document(data, emptyTopology)
	if root == nil || !in.plain(root) {
		return
	}
	for key, value := range in.fields(root, "a topology", topologyKeys) {
		t.value(key, value.Line, func() {
			if e, ok := t.entry(key, value); ok {
				t.set(e)
			}
		})
	}
}

// isTree reports whether a key's value may be an object or a list.
func isTree(key string) bool {
	return key == "dense" || key == "stack" || key == "device_memories" || key == "host_memories"
}

// isTruth reports whether a key's value is true or false.
func isTruth(key string) bool { return key == "inter_host_allreduce" }

// entry returns a key with its value.
func (t *topologyReader) entry(key string, value *yaml.Node) (entry, bool) {
	e := entry{key: key, line: value.Line, tree: value}
	if isTree(key) {
		return e, true
	}
	if isTruth(key) {
		e.value = value.Value
		if value.ShortTag() != "!!bool" {
			t.add(value.Line, fmt.Sprintf("%s: %s where true or false belongs", key, quote(value.Value)), interHint)
			return e, false
		}
		return e, true
	}
	if value.Kind == yaml.ScalarNode && value.ShortTag() == "!!str" {
		e.quoted, e.value = true, value.Value
		return e, true
	}
	text, ok := values{t.report}.number(value, key, wanted(key), "")
	e.value = string(text)
	return e, ok
}

// wanted names the type of a key's value.
func wanted(key string) string {
	switch key {
	case "device", "accounting", "comm_precision", "engine", "lanes":
		return "a string"
	case "step":
		return "a time with its unit"
	case "loader", "network_bandwidth", "link_bandwidth", "hbm_bandwidth", "host_link_bandwidth":
		return "a bandwidth with its unit"
	case "price", "backward_multiplier", "weighted_backward_multiplier":
		return "a number"
	case "memory", "reserve_fixed", "host_memory":
		return "a size with its unit"
	case "reserve_share":
		return "a number"
	}
	return "a whole number"
}

// set stores an entry.
func (t *topologyReader) set(e entry) {
	switch e.key {
	case "devices":
		t.Topology.Devices = t.whole(e, "devices is the number of devices of the cluster")
	case "devices_per_host":
		t.Topology.DevicesPerHost = t.whole(e, "devices_per_host is how many devices share a host's fast links")
	case "batch":
		before := t.count()
		if batch := t.whole(e, batchHint); t.count() == before {
			t.Batch = t.globalBatch(e.line, int64(batch))
		}
	case "device":
		t.profile(e)
	case "memory":
		t.Topology.Memory = t.above0(e)
	case "device_memories", "host_memories":
		readMemories(t, e)
	case "reserve_fixed":
		t.Topology.ReserveFixed = t.size(e)
	case "host_memory":
		t.Topology.HostMemory = t.size(e)
	case "accounting", "comm_precision", "engine", "lanes":
		t.choice(e)
	case "dense", "stack", "step", "loader", "price":
		t.setStep(e)
	case "backward_multiplier", "weighted_backward_multiplier":
		t.multiplier(e)
	case "network_bandwidth", "nvlink_domain", "link_bandwidth", "hbm_bandwidth", "host_link_bandwidth", "replicas", "sync_every", "inter_host_allreduce":
		t.links(e)
	case "reserve_share":
		t.share(e)
	}
}

// choice reads the keys whose values are names.
func (t *topologyReader) choice(e entry) {
	switch e.key {
	case "accounting":
		t.Accounting = named(t.report, e, problem.ParseAccounting, problem.ChosenAccountings())
	case "comm_precision":
		t.CommPrecision = named(t.report, e, problem.ParsePrecision, problem.Precisions())
	case "engine":
		t.Engine = named(t.report, e, problem.ParseEngine, problem.Engines())
	case "lanes":
		t.LaneRule = named(t.report, e, problem.ParseLaneRule, problem.LaneRules())
	}
}

// The hints of what joins devices.
const (
	networkHint   = "write what a device sends to other hosts, such as 50GB/s"
	bandwidthHint = "write a number and its unit, such as 600GB/s"
	domainHint    = "nvlink_domain is how many devices the links inside hosts join, where they join several hosts"
)

// links reads the keys of links and of sharding groups.
func (t *topologyReader) links(e entry) {
	if e.key == "replicas" || e.key == "sync_every" || e.key == "inter_host_allreduce" {
		t.replicas(e)
		return
	}
	if e.key == "nvlink_domain" {
		t.Topology.NVLinkDomain = t.whole(e, domainHint)
		return
	}
	into, hint := &t.Topology.NetworkBandwidth, networkHint
	switch of := &t.Topology.Bandwidths; e.key {
	case "link_bandwidth":
		into, hint = &of.Links, bandwidthHint
	case "hbm_bandwidth":
		into, hint = &of.HBM, bandwidthHint
	case "host_link_bandwidth":
		into, hint = &of.HostLink, bandwidthHint
	}
	if !e.quoted {
		t.add(e.line, fmt.Sprintf("%s: %s has no unit", e.key, clip(e.value)), hint)
		return
	}
	b, err := unit.ParseBandwidth(e.value)
	if err != nil {
		t.add(e.line, e.key+": "+what(err), hint)
	}
	*into = b
}

// replicas reads the keys of sharding groups. Topology describes the whole cluster, with Replicas as the
// number of groups that it is to have.
func (t *topologyReader) replicas(e entry) {
	switch e.key {
	case "replicas":
		t.Topology.Replicas = t.whole(e, replicasHint)
	case "sync_every":
		t.Topology.SyncEvery = t.whole(e, syncHint)
	case "inter_host_allreduce":
		t.Topology.InterHostAllReduce = strings.EqualFold(e.value, "true")
	}
}

// share reads the key reserve_share.
func (t *topologyReader) share(e entry) {
	const hint = "it is a share of the memory: write 0.15 for 15 %"
	if e.quoted {
		t.add(e.line, fmt.Sprintf("reserve_share: %s where a number belongs", quote(e.value)), hint)
		return
	}
	share, complaint := number(e.value).real()
	if complaint != "" {
		t.add(e.line, "reserve_share: "+complaint, hint)
		return
	}
	t.Topology.ReserveShare = hardware.ReserveShare(share)
}

// multiplier reads a factor in TorchRec's formulas.
func (t *topologyReader) multiplier(e entry) {
	if e.quoted {
		t.add(e.line, fmt.Sprintf("%s: %s where a number belongs", e.key, quote(e.value)), multiplierHint)
		return
	}
	factor, complaint := number(e.value).real()
	if complaint == "" && !validMultiplier(factor) {
		complaint = fmt.Sprintf("%v is not above 0 and at most %d", factor, hardware.MaxMultiplier)
	}
	of := &t.Topology.Multipliers
	switch {
	case complaint != "":
		t.add(e.line, e.key+": "+complaint, multiplierHint)
	case e.key == "backward_multiplier":
		of.Backward = factor
	default:
		of.WeightedBackward = factor
	}
}

// multiplierHint is the hint for a factor that is out of range.
const multiplierHint = "it is a factor in TorchRec's formulas, such as 2.5: leave it out for TorchRec's default"

func validMultiplier(factor float64) bool { return factor > 0 && factor <= hardware.MaxMultiplier }

// named returns the value that an entry names, one of the known ones.
func named[T any](r *report, e entry, parse func(string) (T, error), known []string) T {
	value, err := parse(e.value)
	if err != nil || !e.quoted {
		r.add(e.line, fmt.Sprintf("%s %s is unknown", e.key, quote(e.value)), r.suggest(e.value, known))
	}
	return value
}

func (t *topologyReader) whole(e entry, hint string) int {
	if e.quoted {
		t.add(e.line, fmt.Sprintf("%s: %s where a whole number belongs", e.key, quote(e.value)), hint)
		return 0
	}
	value, complaint := number(e.value).whole()
	if complaint != "" {
		t.add(e.line, e.key+": "+complaint, hint)
	}
	return int(value)
}

func (t *topologyReader) profile(e entry) {
	if !e.quoted {
		t.add(e.line, fmt.Sprintf("device: the number %s where a profile's name belongs", clip(e.value)), t.suggest(e.value, hardware.Names()))
		return
	}
	for _, p := range t.own {
		if p.Name == e.value {
			t.Topology.Profile = p
			return
		}
	}
	profile, err := hardware.ByName(clip(e.value))
	if err != nil {
		t.add(e.line, err.Error(), profileHint)
	}
	t.Topology.Profile = profile
}

// above0 reads a size, and refuses 0.
func (t *topologyReader) above0(e entry) unit.Bytes {
	before := t.count()
	size := t.size(e)
	if size == 0 && t.count() == before {
		t.add(e.line, e.key+": 0 is no memory", "leave it out for the profile's own")
	}
	return size
}

var unitless = regexp.MustCompile(`^[-+]?[0-9.]+$`)

// size reads a size. Its unit is required: a bare 40 is hardly meant as bytes.
func (t *topologyReader) size(e entry) unit.Bytes {
	const hint = "write a number and its unit, such as 40GiB or 2GB"
	if !e.quoted || unitless.MatchString(e.value) {
		t.add(e.line, fmt.Sprintf("%s: %s has no unit", e.key, clip(e.value)), hint)
		return 0
	}
	size, err := unit.ParseBytes(e.value)
	if err != nil {
		message, _, _ := strings.Cut(err.Error(), ": ")
		t.add(e.line, e.key+": "+clip(message), hint)
	}
	return size
}
