// Package hardware states facts about accelerators and clusters: what a device
// of a named profile can do, and how many of them are joined in which way. It
// knows nothing of tables.
package hardware

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/neuroshard/neuroshard/unit"
)

// Profile is one kind of device, as the simulated device and the features of
// the cost models see it. Bandwidths are in GB/s (10^9 bytes a second).
//
// The values are data-sheet figures but for HBMEfficiency, AllToAllLatencyUS,
// IntraGBps and NICGBps, which were fitted to published measurements or, for
// h100-80, h200, b200 and mi300x, extrapolated from them (docs/SIMULATED.md).
type Profile struct {
	// Name is the profile's key, such as "a100-80".
	Name string `json:"name"`
	// Memory is the device's HBM (GDDR6 for rtx2080ti).
	Memory unit.Bytes `json:"memory_bytes"`
	// HBMGBps is the peak memory bandwidth; HBMEfficiency the share of it that
	// a streaming kernel reaches, in (0, 1].
	HBMGBps       float64 `json:"hbm_gbps"`
	HBMEfficiency float64 `json:"hbm_efficiency"`
	// L2 is the last-level cache and L2GBps its bandwidth.
	L2     unit.Bytes `json:"l2_bytes"`
	L2GBps float64    `json:"l2_gbps"`
	// SMs is the number of multiprocessors (compute units on AMD, threads of a
	// CPU) and ClockGHz their sustained clock.
	SMs      int     `json:"sms"`
	ClockGHz float64 `json:"clock_ghz"`
	// WarpLanes is the lanes of a warp: the threads that run each instruction together, 32 on
	// NVIDIA's GPUs and 64 on AMD's (there called a wave). 0 means 32. The kernels let a bag
	// of narrow rows take a part of a warp on GPUs with warps of 32 lanes only.
	WarpLanes int `json:"warp_lanes,omitempty"`
	// Granule is the smallest transfer from memory, in bytes.
	Granule int `json:"granule_bytes"`
	// AllToAllLatencyUS is the time of an all-to-all of nothing inside a host,
	// in microseconds.
	AllToAllLatencyUS float64 `json:"alltoall_latency_us"`
	// IntraGBps is the bandwidth of a device to the others of its host, per
	// direction.
	IntraGBps float64 `json:"intra_gbps"`
	// NICGBps is a device's share of the network between hosts, per direction;
	// 0 for a profile without one, which then allows a single host only.
	NICGBps float64 `json:"nic_gbps"`
}

// profiles lists the devices in the order of the table in docs/SIMULATED.md.
var profiles = []Profile{
	{"rtx2080ti", 11 * unit.GiB, 616, .90, unit.Bytes(5.5 * (1 << 20)), 2178, 68, 1.545, 32, 32, 60, 5.5, 0},
	{"v100-16", 16 * unit.GiB, 900, .907, 6 * unit.MiB, 2289, 80, 1.38, 32, 32, 88, 58, 12.0},
	{"v100-32", 32 * unit.GiB, 900, .907, 6 * unit.MiB, 2289, 80, 1.38, 32, 32, 88, 58, 12.0},
	{"a100-40", 40 * unit.GiB, 1555, .894, 40 * unit.MiB, 2271, 108, 1.41, 32, 64, 45, 230, 23.5},
	{"a100-80", 80 * unit.GiB, 2039, .894, 40 * unit.MiB, 2271, 108, 1.41, 32, 64, 45, 230, 23.5},
	{"h100-80", 80 * unit.GiB, 3350, .90, 50 * unit.MiB, 3455, 132, 1.755, 32, 64, 40, 340, 48.5},
	{"h200", 140 * unit.GiB, 4800, .896, 60 * unit.MiB, 4950, 132, 1.755, 32, 64, 40, 340, 48.5},
	{"b200", 180 * unit.GiB, 8000, .90, 126 * unit.MiB, 8251, 148, 1.85, 32, 64, 40, 660, 48.5},
	{"mi300x", 192 * unit.GiB, 5300, .81, 256 * unit.MiB, 9521, 304, 2.1, 64, 64, 45, 300, 48.5},
}

// Problems lists what is wrong with a profile that is not one of Profiles;
// empty means valid. Each line names the field as JSON does.
func (p Profile) Problems() []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if p.Name == "" {
		add("name: missing")
	}
	for _, v := range []struct {
		name  string
		value unit.Bytes
	}{{"memory_bytes", p.Memory}, {"l2_bytes", p.L2}} {
		if v.value <= 0 || v.value > MaxMemory {
			add("%s: %d is not between 1 and %d", v.name, int64(v.value), int64(MaxMemory))
		}
	}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"hbm_gbps", p.HBMGBps},
		{"hbm_efficiency", p.HBMEfficiency},
		{"l2_gbps", p.L2GBps},
		{"clock_ghz", p.ClockGHz},
		{"alltoall_latency_us", p.AllToAllLatencyUS},
		{"intra_gbps", p.IntraGBps},
	} {
		if !(v.value > 0 && v.value <= 1e9) {
			add("%s: %v is not above 0", v.name, v.value)
		}
	}
	if p.HBMEfficiency > 1 {
		add("hbm_efficiency: %v is above 1", p.HBMEfficiency)
	}
	for _, v := range []struct {
		name  string
		value int
	}{{"sms", p.SMs}, {"granule_bytes", p.Granule}} {
		if v.value < 1 || v.value > 1<<20 {
			add("%s: %d is not at least 1", v.name, v.value)
		}
	}
	if !slices.Contains([]int{0, 32, 64}, p.WarpLanes) {
		add("warp_lanes: %d is not 32 or 64", p.WarpLanes)
	}
	if !(p.NICGBps >= 0 && p.NICGBps <= 1e9) {
		add("nic_gbps: %v is negative or not a number", p.NICGBps)
	}
	return found
}

// Known reports whether a profile of that name is one of Profiles.
func Known(name string) bool {
	for _, p := range profiles {
		if p.Name == name {
			return true
		}
	}
	return false
}

// Profiles returns every known profile. The slice is the caller's.
func Profiles() []Profile { return append([]Profile(nil), profiles...) }

// Names returns the names of all profiles, in the order of Profiles.
func Names() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.Name
	}
	return names
}

// ByName returns the profile of exactly that name. The error names those that
// come near and lists all.
func ByName(name string) (Profile, error) {
	for _, p := range profiles {
		if p.Name == name {
			return p, nil
		}
	}
	guess := ""
	if similar := near(name); len(similar) > 0 {
		guess = fmt.Sprintf(" (did you mean %s?)", strings.Join(similar, " or "))
	}
	return Profile{}, fmt.Errorf("device profile %q is unknown%s: choose one of %s", name, guess, strings.Join(Names(), ", "))
}

// near returns the names, quoted, that were probably meant: letters and digits
// of a word and of a name are compared, and the first of these rules decides
// that any name meets. The word holds the name ("H200", "a100-80gb"); the name
// holds the word, of two letters or more ("a100", "2080"); the word holds the
// name without its memory ("nvidia-h100").
func near(word string) []string {
	w := letters(word)
	for _, meets := range []func(name string) bool{
		func(name string) bool { return strings.Contains(w, letters(name)) },
		func(name string) bool { return len(w) >= 2 && strings.Contains(letters(name), w) },
		func(name string) bool {
			family, _, _ := strings.Cut(name, "-")
			return strings.Contains(w, family)
		},
	} {
		var found []string
		for _, name := range Names() {
			if meets(name) {
				found = append(found, strconv.Quote(name))
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// letters returns the letters and digits of s, in lower case.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

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

// Topology is a cluster: equal devices, DevicesPerHost of them on each host.
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
	// ReserveShare is the share of a device's memory, in [0, 1), kept free of tables; 0
	// means DefaultReserveShare, and NoReserve means none. ReserveFixed is a part kept free on
	// top of the share, for example six times the dense parameters.
	ReserveShare float64
	ReserveFixed unit.Bytes
	// HostMemory is the memory of a full host that its devices' tables may use, even
	// parts each; 0: none.
	HostMemory unit.Bytes
	// NetworkBandwidth is a device's share of the network between hosts, per direction, in
	// bytes a second: what collectives reach, as Profile.NICGBps has it. 0 keeps the
	// profile's.
	NetworkBandwidth unit.Bandwidth
	// NVLinkDomain is the number of devices that the links inside hosts join, where they
	// join several hosts, as the racks of GB200 NVL72 do: a multiple of PerHost. 0 means
	// those of a host.
	NVLinkDomain int
	// Bandwidths are what TorchRec's formulas read; other estimates refuse them.
	Bandwidths Bandwidths
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
}

// Bandwidths are bandwidths of a device, in bytes a second, in the place of TorchRec's defaults.
// 0 keeps a default.
type Bandwidths struct {
	// Links is to the other devices of the host, HBM to the device's own memory, and HostLink to
	// the memory of the host.
	Links, HBM, HostLink unit.Bandwidth
}

// check reports bandwidths that no device has.
func (b Bandwidths) check(add func(format string, args ...any)) {
	for _, v := range []struct {
		name  string
		value unit.Bandwidth
	}{{"link", b.Links}, {"hbm", b.HBM}, {"host link", b.HostLink}} {
		if v.value != 0 && !(v.value >= MinNetworkBandwidth && v.value <= MaxNetworkBandwidth) {
			add("%s bandwidth: %v is not between %v and %v", v.name, v.value, MinNetworkBandwidth, MaxNetworkBandwidth)
		}
	}
}

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

// HostBudget returns the host memory that the tables of one device may use.
func (t Topology) HostBudget() unit.Bytes { return t.HostMemory / unit.Bytes(t.PerHost()) }

// HostLinkGBps returns the bandwidth of a device to its host's memory, in GB/s per
// direction: 80 % of the sixteen lanes of the PCI Express generation that the named
// device has (15.75, 31.5 and 63 GB/s by the standard; the share is assumed), and
// of the oldest for devices that are not among Profiles.
func (p Profile) HostLinkGBps() float64 {
	const pcie3, pcie4, pcie5 = 12.6, 25.2, 50.4
	switch p.Name {
	case "a100-40", "a100-80":
		return pcie4
	case "h100-80", "h200", "b200", "mi300x":
		return pcie5
	}
	return pcie3
}

// PerHost returns the number of devices a full host holds, at most Devices.
func (t Topology) PerHost() int {
	if t.DevicesPerHost <= 0 || t.DevicesPerHost > t.Devices {
		return t.Devices
	}
	return t.DevicesPerHost
}

// Hosts returns the number of hosts. Devices must be at least 1.
func (t Topology) Hosts() int { return (t.Devices + t.PerHost() - 1) / t.PerHost() }

// DeviceMemory returns the memory of one device.
func (t Topology) DeviceMemory() unit.Bytes {
	if t.Memory > 0 {
		return t.Memory
	}
	return t.Profile.Memory
}

// Reserve returns the bytes of each device that tables may not use, rounded up.
func (t Topology) Reserve() unit.Bytes {
	return unit.Bytes(math.Ceil(t.KeptShare()*float64(t.DeviceMemory()))) + t.ReserveFixed
}

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

// Budget returns the bytes of each device that tables and their buffers may
// use. It is never negative.
func (t Topology) Budget() unit.Bytes { return max(0, t.DeviceMemory()-t.Reserve()) }

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
	if share := t.KeptShare(); !(share >= 0 && share < 1) {
		add("reserve share: %v is not at least 0 and below 1", t.ReserveShare)
	}
	size("reserve fixed", t.ReserveFixed, "device")
	size("host memory", t.HostMemory, "host")
	t.hosts(add)
	t.links(add)
	t.Bandwidths.check(add)
	t.replicas(add)
	if t.Profile.Name == "" {
		add("device profile: missing; choose one of %s", strings.Join(Names(), ", "))
	}
	if len(found) == 0 && t.Budget() == 0 {
		add("reserve: %v of %v leave nothing for tables", t.Reserve(), t.DeviceMemory())
	}
	if len(found) == 0 && t.Whole().LinkDomains() > 1 && t.Device().NICGBps == 0 {
		add("devices per host: profile %q has no network between hosts, so all %d devices must be on one host, or the network bandwidth must be stated", t.Profile.Name, t.Whole().Devices)
	}
	return found
}

// hosts reports host memory of which a device has nothing.
func (t Topology) hosts(add func(format string, args ...any)) {
	if t.HostMemory > 0 && t.Devices > 0 && t.HostBudget() == 0 {
		add("host memory: %v is less than one byte for each of the %d devices of a host", t.HostMemory, t.PerHost())
	}
}

// links reports a network bandwidth that no cluster has, and an NVLink domain that does not
// hold whole hosts.
func (t Topology) links(add func(format string, args ...any)) {
	if b := t.NetworkBandwidth; b != 0 && !(b >= MinNetworkBandwidth && b <= MaxNetworkBandwidth) {
		add("network bandwidth: %v is not between %v and %v", b, MinNetworkBandwidth, MaxNetworkBandwidth)
	}
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
