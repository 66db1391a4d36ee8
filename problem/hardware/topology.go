package hardware

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/unit"
)

// topology.go says which devices there are, how they are joined, and how much memory each device and
// each host has. In most clusters all devices have the same memory, and the methods return the same
// bytes for each device. For numbers beyond the lists of memories, as where a larger cluster is
// tried, the lists repeat.

// DefaultReserveShare is the share of a device's memory that is kept free for the dense
// part of the model, activations and the allocator, where a Topology states no share.
// TorchRec's planner keeps the same share.
const DefaultReserveShare = 0.15

// NoReserve as Topology.ReserveShare keeps no share of a device's memory free. It is the
// least positive number, because 0 means DefaultReserveShare.
const NoReserve = math.SmallestNonzeroFloat64

// ReserveShare returns the value of Topology.ReserveShare that keeps exactly this share of
// a device's memory free: the share itself, or NoReserve for 0.
func ReserveShare(share float64) float64 {
	if share == 0 {
		return NoReserve
	}
	return share
}

// MaxDevices is the largest cluster a Topology may have, and MaxMemory the
// largest memory of one device: a device's lines then add up within an int64.
const (
	MaxDevices = 1 << 16
	MaxMemory  = 1024 * unit.TiB
)

// Topology is a cluster of devices of one profile, DevicesPerHost of them on each host. The
// devices differ in memory at most (memories.go).
type Topology struct {
	Profile Profile
	// Devices is the number of devices, 1 to MaxDevices.
	Devices int
	// DevicesPerHost is how many devices share a host's fast links; 0 means
	// all of them. The last host may hold fewer.
	DevicesPerHost int
	// Memory overrides the profile's memory per device, at most MaxMemory; 0 keeps
	// it.
	Memory unit.Bytes
	// DeviceMemories is the memory of each device where devices differ, in the place of Memory;
	// nil if they do not. It must not be modified.
	DeviceMemories []unit.Bytes
	// ReserveShare is the share of a device's memory, in [0, 1), kept free of tables; 0
	// means DefaultReserveShare, and NoReserve means none. ReserveFixed is a part kept free on
	// top of the share, for example six times the dense parameters.
	ReserveShare float64
	ReserveFixed unit.Bytes
	// HostMemory is the memory of a full host that its devices' tables may use, even
	// parts each; 0: none.
	HostMemory unit.Bytes
	// HostMemories is the memory of each host, as HostMemory has it, where hosts differ; nil if
	// they do not. The part of a device is the same on a host that is not full. It must not be
	// modified.
	HostMemories []unit.Bytes
	// NetworkBandwidth is a device's share of the network between hosts, per direction, in
	// bytes a second: what collectives reach, as Profile.NICGBps has it. 0 keeps the
	// profile's.
	NetworkBandwidth unit.Bandwidth
	// NVLinkDomain is the number of devices that the links inside hosts join, where they
	// join several hosts, as the racks of GB200 NVL72 do: a multiple of PerHost. 0 means
	// those of a host.
	NVLinkDomain int
	Numbers
	// Replicas is the number of sharding groups of 2D parallelism (replicas.go); 0 means 1. If
	// there are several, the other fields describe one group. ReplicasPerHost is the number of
	// replicas of a shard on one host, and ReplicasPerDomain that in one NVLink domain; 0 means 1.
	Replicas, ReplicasPerHost, ReplicasPerDomain int
	// InterHostAllReduce says that the devices of a group are consecutive, so that the all-reduce
	// of the replicas takes the network between hosts: TorchRec's use_inter_host_allreduce. If
	// it is false, the replicas of a shard are consecutive.
	InterHostAllReduce bool
	// SyncEvery is the number of steps from one all-reduce of the replicas to the next; 0 means 1.
	SyncEvery int
	// Fixed is what the devices hold and do beside the tables of a plan (fixed.go). It must not be
	// modified.
	Fixed []FixedLoad
}

// Numbers are the numbers of a cluster that its plans state as the topology does, under the keys of
// their tags. 0 states none. The limits are in problem.ClusterFields.
type Numbers struct {
	// Bandwidths and Multipliers are what TorchRec's formulas read; other estimates refuse them.
	Bandwidths
	Multipliers
	// AllocatorOverhead is what the caching allocator reserves beyond the buffers of a step, as a share of
	// them, from 0 to MaxAllocatorOverhead.
	AllocatorOverhead float64 `json:"allocator_overhead,omitempty"`
	// Activations is what a device keeps of its samples in the dense part from its forward to its backward,
	// with the copy that joins the tables' vectors, at most MaxMemory.
	Activations unit.Bytes `json:"activations,omitempty"`
}

// MaxAllocatorOverhead is the largest Numbers.AllocatorOverhead.
const MaxAllocatorOverhead = 10

// Bandwidths are bandwidths of a device, in bytes a second, in the place of TorchRec's defaults.
// 0 keeps a default.
type Bandwidths struct {
	// Links is to the other devices of the host, HBM to the device's own memory, and HostLink to
	// the memory of the host.
	Links    unit.Bandwidth `json:"link_bytes_per_second,omitempty"`
	HBM      unit.Bandwidth `json:"hbm_bytes_per_second,omitempty"`
	HostLink unit.Bandwidth `json:"host_link_bytes_per_second,omitempty"`
}

// Multipliers are factors in TorchRec's formulas in the place of its defaults, above 0 and at most
// MaxMultiplier. 0 keeps a default.
type Multipliers struct {
	// Backward is the time of the kernels of the backward over that of the forward, TorchRec's
	// bwd_compute_multiplier. WeightedBackward multiplies this time if lookups carry weights:
	// weighted_feature_bwd_compute_multiplier.
	Backward         float64 `json:"backward_multiplier,omitempty"`
	WeightedBackward float64 `json:"weighted_backward_multiplier,omitempty"`
}

// MaxMultiplier is the largest of the Multipliers that a topology states.
const MaxMultiplier = 1000

// NetworkShare returns the share of the network cards' bandwidth (Profile.NICGBps) that a
// collective between the given number of hosts, or of NVLink domains, reaches. It was fitted to
// published all-to-alls (docs/SIMULATED.md).
func NetworkShare(hosts int) float64 {
	switch {
	case hosts <= 2:
		return 0.80
	case hosts <= 4:
		return 0.95
	case hosts <= 8:
		return 0.93
	}
	return 0.89
}

// MinNetworkBandwidth and MaxNetworkBandwidth limit Topology.NetworkBandwidth and Bandwidths.
const (
	MinNetworkBandwidth = unit.Bandwidth(unit.MB)
	MaxNetworkBandwidth = 100 * unit.Bandwidth(unit.TB)
)

// Device returns the profile with the network that the topology states in the place of the
// profile's own.
func (t Topology) Device() Profile {
	p := t.Profile
	if t.NetworkBandwidth > 0 {
		p.NICGBps = t.NetworkBandwidth.GBps()
	}
	return p
}

// LinkDomain returns the number of devices of a full NVLink domain, from PerHost to
// Devices.
func (t Topology) LinkDomain() int {
	return min(t.Devices, max(t.PerHost(), t.NVLinkDomain))
}

// LinkDomains returns the number of NVLink domains. Devices must be at least 1.
func (t Topology) LinkDomains() int { return (t.Devices + t.LinkDomain() - 1) / t.LinkDomain() }

// PerHost returns the number of devices a full host holds, at most Devices.
func (t Topology) PerHost() int {
	if t.DevicesPerHost <= 0 || t.DevicesPerHost > t.Devices {
		return t.Devices
	}
	return t.DevicesPerHost
}

// OnUsualHosts returns the topology with the devices on full hosts (Profile.FullHost), if they are
// more and Profiles has their profile. Devices without a network between hosts stay on one host.
func (t Topology) OnUsualHosts() Topology {
	if per := t.Profile.FullHost(); t.Devices > per && (t.Profile.PerHost > 0 || Known(t.Profile.Name)) && t.Device().NICGBps > 0 {
		t.DevicesPerHost = per
	}
	return t
}

// InUsualDomains returns the topology with the profile's NVLink domain: the whole hosts of it.
func (t Topology) InUsualDomains() Topology {
	t.NVLinkDomain = t.Profile.NVLinkDomain / t.PerHost() * t.PerHost()
	return t
}

// Hosts returns the number of hosts. Devices must be at least 1.
func (t Topology) Hosts() int { return (t.Devices + t.PerHost() - 1) / t.PerHost() }

// KeptShare returns the share of a device's memory, in [0, 1), that ReserveShare keeps free
// of tables.
func (t Topology) KeptShare() float64 {
	switch t.ReserveShare {
	case 0:
		return DefaultReserveShare
	case NoReserve:
		return 0
	}
	return t.ReserveShare
}

// Problems lists what is wrong with the topology; empty means valid. Each line
// names the field as the command line does and says what would be right.
func (t Topology) Problems() []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if t.Devices < 1 || t.Devices > MaxDevices {
		add("devices: %d is not between 1 and %d", t.Devices, MaxDevices)
	}
	if t.DevicesPerHost < 0 {
		add("devices per host: %d is negative", t.DevicesPerHost)
	}
	size := func(name string, bytes unit.Bytes, of string) {
		if bytes < 0 {
			add("%s: %d bytes is negative", name, int64(bytes))
		} else if bytes > MaxMemory {
			add("%s: %v is above %v a %s", name, bytes, MaxMemory, of)
		}
	}
	size("memory", t.Memory, "device")
	each(add, "device memories", "device", t.DeviceMemories, t.Devices)
	if share := t.KeptShare(); !(share >= 0 && share < 1) {
		add("reserve share: %v is not at least 0 and below 1", t.ReserveShare)
	}
	size("reserve fixed", t.ReserveFixed, "device")
	size("host memory", t.HostMemory, "host")
	if t.Devices > 0 {
		each(add, "host memories", "host", t.HostMemories, t.Hosts())
	}
	t.hosts(add)
	t.links(add)
	t.replicas(add)
	t.fixed(add)
	if t.Profile.Name == "" {
		add("device profile: missing; choose one of %s", strings.Join(Names(), ", "))
	}
	if len(found) > 0 {
		return found
	}
	t.room(add)
	if len(found) == 0 && t.Whole().LinkDomains() > 1 && t.Device().NICGBps == 0 {
		add("devices per host: profile %q has no network between hosts, so all %d devices must be on one host, or the network bandwidth must be stated", t.Profile.Name, t.Whole().Devices)
	}
	return found
}

// room reports memory that is not for tables and leaves none for them.
func (t Topology) room(add func(format string, args ...any)) {
	if d := t.Largest(); t.Budget(d) == 0 {
		add("%s: %v of %v leave nothing for tables", t.kept(), t.DeviceMemory(d)-t.Usable(d), t.DeviceMemory(d))
	} else if t.Activations >= t.Budget(d) {
		add("activations: %v of the %v beside the reserve leave nothing for tables", t.Activations, t.Budget(d))
	}
}

// kept names what keeps memory free of tables.
func (t Topology) kept() string {
	if len(t.Fixed) > 0 {
		return "reserve and fixed loads"
	}
	return "reserve"
}

// hosts reports host memory that is too little to divide.
func (t Topology) hosts(add func(format string, args ...any)) {
	if t.Devices < 1 || t.Devices > MaxDevices { // 1e18 hosts would take years
		return
	}
	for h := range t.Hosts() {
		if d := h * t.PerHost(); t.HostMemoryOf(h) > 0 && t.HostBudget(d) == 0 {
			add("host memory: %v is less than one byte for each of the %d devices of a host", t.HostMemoryOf(h), t.PerHost())
			return
		}
	}
}

// links reports an NVLink domain that does not hold whole hosts.
func (t Topology) links(add func(format string, args ...any)) {
	per := t.PerHost()
	switch n := t.NVLinkDomain; {
	case n < 0 || n > MaxDevices:
		add("nvlink domain: %d is not between 0 and %d", n, MaxDevices)
	case n == 0 || t.Devices < 1 || per < 1 || n >= t.Devices:
	case n < per:
		add("nvlink domain: %d devices are fewer than the %d of a host; state the devices per host that the links join", n, per)
	case n%per != 0:
		add("nvlink domain: %d devices are not whole hosts of %d", n, per)
	}
}

// DeviceMemory returns the memory of a device.
func (t Topology) DeviceMemory(device int) unit.Bytes {
	if n := len(t.DeviceMemories); n > 0 {
		return t.DeviceMemories[device%n]
	}
	if t.Memory > 0 {
		return t.Memory
	}
	return t.Profile.Memory
}

// Reserve returns the bytes of a device that tables may not use, rounded up. The reserve share is
// a share of the device's own memory.
func (t Topology) Reserve(device int) unit.Bytes {
	return unit.Bytes(math.Ceil(t.KeptShare()*float64(t.DeviceMemory(device)))) + t.ReserveFixed
}

// Usable returns the memory of a device minus its reserve and its fixed loads. It is negative if
// these are larger than the memory.
func (t Topology) Usable(device int) unit.Bytes {
	return t.DeviceMemory(device) - t.Reserve(device) - t.FixedBytes(device)
}

// Budget returns the bytes of a device that tables and their buffers may use. It is never
// negative.
func (t Topology) Budget(device int) unit.Bytes { return max(0, t.Usable(device)) }

// HostMemoryOf returns the memory of a host that the tables of its devices may use, if the host is
// full.
func (t Topology) HostMemoryOf(host int) unit.Bytes {
	if n := len(t.HostMemories); n > 0 {
		return t.HostMemories[host%n]
	}
	return t.HostMemory
}

// HostBudget returns the host memory that the tables of a device may use: an even part of its
// host's.
func (t Topology) HostBudget(device int) unit.Bytes {
	per := max(1, t.PerHost())
	return t.HostMemoryOf(device/per) / unit.Bytes(per)
}

// Largest returns the first of the devices with the most memory, and Smallest the first of those
// with the least memory. Fixed loads are not in this memory. Both are 0 where devices do not differ.
func (t Topology) Largest() int {
	return first(t.memories(), t.Devices, func(a, b unit.Bytes) bool { return a > b })
}

// Smallest returns the first of the devices with the least memory.
func (t Topology) Smallest() int {
	return first(t.memories(), t.Devices, func(a, b unit.Bytes) bool { return a < b })
}

// memories returns the memory of each device that fixed loads leave, less what all devices have
// alike; nil where devices do not differ.
func (t Topology) memories() []unit.Bytes {
	if !t.fixedUnevenly() {
		return t.DeviceMemories
	}
	list := make([]unit.Bytes, t.Devices)
	for d := range list {
		list[d] = t.Usable(d)
	}
	return list
}

// MostHostMemory returns the largest memory of a host; 0 if tables may use none.
func (t Topology) MostHostMemory() unit.Bytes {
	if len(t.HostMemories) > 0 {
		return slices.Max(t.HostMemories)
	}
	return t.HostMemory
}

// Alike reports whether two devices have the same budgets, in their own memory and in that of
// their hosts, and the same fixed compute.
func (t Topology) Alike(a, b int) bool {
	return t.Usable(a) == t.Usable(b) && t.HostBudget(a) == t.HostBudget(b) && t.FixedTime(a) == t.FixedTime(b)
}

// Uneven reports whether devices may differ in their budgets or in their fixed loads.
func (t Topology) Uneven() bool {
	return len(t.DeviceMemories) > 0 || len(t.HostMemories) > 0 || t.fixedUnevenly()
}

// UnevenMemory reports whether devices may differ in the memory that tables may use.
func (t Topology) UnevenMemory() bool { return len(t.DeviceMemories) > 0 || t.fixedUnevenly() }

// FixedBytes returns the bytes of a device that fixed loads take.
func (t Topology) FixedBytes(device int) (sum unit.Bytes) {
	for i := range t.Fixed {
		if t.Fixed[i].On(device) {
			sum += t.Fixed[i].Bytes
		}
	}
	return sum
}

// FixedTime returns the compute of the fixed loads of a device in a step.
func (t Topology) FixedTime(device int) (sum unit.Millis) {
	for i := range t.Fixed {
		if t.Fixed[i].On(device) {
			sum += t.Fixed[i].Time
		}
	}
	return sum
}

// FixedTimes returns FixedTime of each device; nil if no load takes time.
func (t Topology) FixedTimes() []unit.Millis {
	if !slices.ContainsFunc(t.Fixed, func(l FixedLoad) bool { return l.Time > 0 }) {
		return nil
	}
	times := make([]unit.Millis, t.Devices)
	for d := range times {
		times[d] = t.FixedTime(d)
	}
	return times
}

// LeastFixedTime returns the FixedTime of the device where it is least.
func (t Topology) LeastFixedTime() unit.Millis {
	if times := t.FixedTimes(); len(times) > 0 {
		return slices.Min(times)
	}
	return 0
}

// fixed reports fixed loads that the cluster cannot have.
func (t Topology) fixed(add func(format string, args ...any)) {
	if err := CheckFixed(t.Fixed, t.Devices); err != nil {
		add("fixed: %v", err)
	}
	if t.ReplicaCount() > 1 && t.fixedUnevenly() {
		add("fixed: with several sharding groups a load is on all devices: leave its devices out")
	}
}

// fixedUnevenly reports whether a fixed load is on a list of devices.
func (t Topology) fixedUnevenly() bool {
	return slices.ContainsFunc(t.Fixed, func(l FixedLoad) bool { return len(l.Devices) > 0 })
}

// Even returns the topology without lists of memories that are all the same: the memory of all
// devices, or of all hosts, is then in the field for it. Beside a list that stays, that field is 0.
func (t Topology) Even() Topology {
	if len(t.DeviceMemories) > 0 {
		t.Memory = 0
	}
	if same(t.DeviceMemories) {
		t.Memory, t.DeviceMemories = t.DeviceMemories[0], nil
	}
	if len(t.HostMemories) > 0 {
		t.HostMemory = 0
	}
	if same(t.HostMemories) {
		t.HostMemory, t.HostMemories = t.HostMemories[0], nil
	}
	return t
}

// Equal reports whether two topologies have the same fields.
func (t Topology) Equal(o Topology) bool {
	return reflect.DeepEqual(t, o)
}

// same reports whether a list has elements, and all are equal.
func same(list []unit.Bytes) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(m unit.Bytes) bool { return m != list[0] })
}

// first returns the least index of an element that comes before all others by the given order, among
// the first n of the list; 0 for an empty list.
func first(list []unit.Bytes, n int, before func(a, b unit.Bytes) bool) int {
	best := 0
	for i := 1; i < min(n, len(list)); i++ {
		if before(list[i], list[best]) {
			best = i
		}
	}
	return best
}

// each reports lists of memories that no cluster has.
func each(add func(format string, args ...any), name, one string, memories []unit.Bytes, n int) {
	if len(memories) == 0 {
		return
	}
	if len(memories) != n {
		if n != 1 {
			one += "s"
		}
		add("%s: %s stated for %d %s", name, howMany(len(memories)), n, one)
	}
	for i, m := range memories {
		if m <= 0 || m > MaxMemory {
			add("%s: %v of %s %d is not above 0 and at most %v", name, m, one, i, MaxMemory)
			return
		}
	}
}
