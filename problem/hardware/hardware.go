// Package hardware states facts about accelerators and clusters: what a device of a named profile
// can do (hardware.go, lanes.go), and how many of them are joined in which way (topology.go,
// replicas.go), each with which memory (memories.go) and which fixed loads (fixed.go). It knows nothing of
// the tables of a plan.
package hardware

import (
	"cmp"
	"fmt"
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
// IntraGBps and NICGBps, which were fitted to published measurements or, from
// h100-80 on, extrapolated from them (docs/SIMULATED.md).
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
	// CPU) and ClockGHz their sustained clock, which no time depends on (KernelTimes).
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
	// HostGBps is the bandwidth to the memory of the host, per direction; 0 means
	// that of PCI Express (HostLinkGBps).
	HostGBps float64 `json:"host_gbps,omitempty"`
	// PerHost is the number of devices of a full host, and NVLinkDomain that of a rack whose
	// links inside hosts join all hosts, where nobody states them. 0 means UsualPerHost, and that the
	// links join no hosts.
	PerHost      int `json:"devices_per_host,omitempty"`
	NVLinkDomain int `json:"nvlink_domain,omitempty"`
}

// profiles lists the devices in the order of the table in docs/SIMULATED.md.
var profiles = []Profile{
	{"rtx2080ti", 11 * unit.GiB, 616, .90, unit.Bytes(5.5 * (1 << 20)), 2178, 68, 1.545, 32, 32, 60, 5.5, 0, 0, 0, 0},
	{"v100-16", 16 * unit.GiB, 900, .907, 6 * unit.MiB, 2289, 80, 1.38, 32, 32, 88, 58, 12.0, 0, 0, 0},
	{"v100-32", 32 * unit.GiB, 900, .907, 6 * unit.MiB, 2289, 80, 1.38, 32, 32, 88, 58, 12.0, 0, 0, 0},
	{"a100-40", 40 * unit.GiB, 1555, .894, 40 * unit.MiB, 2271, 108, 1.41, 32, 64, 45, 230, 23.5, 0, 0, 0},
	{"a100-80", 80 * unit.GiB, 2039, .894, 40 * unit.MiB, 2271, 108, 1.41, 32, 64, 45, 230, 23.5, 0, 0, 0},
	{"h100-80", 80 * unit.GiB, 3350, .90, 50 * unit.MiB, 3455, 132, 1.755, 32, 64, 40, 340, 48.5, 0, 0, 0},
	{"h200", 140 * unit.GiB, 4800, .896, 60 * unit.MiB, 4950, 132, 1.755, 32, 64, 40, 340, 48.5, 0, 0, 0},
	{"b200", 180 * unit.GiB, 8000, .90, 126 * unit.MiB, 8251, 148, 1.85, 32, 64, 40, 660, 48.5, 0, 0, 0},
	{"gb200", 186 * unit.GiB, 8000, .90, 126 * unit.MiB, 8251, 152, 1.85, 32, 64, 40, 660, 48.5, 180, 4, 72},
	{"b300", 270 * unit.GiB, 7700, .90, 126 * unit.MiB, 7941, 148, 1.85, 32, 64, 40, 660, 97, 0, 0, 0},
	{"gb300", 279 * unit.GiB, 8000, .90, 126 * unit.MiB, 8251, 152, 1.85, 32, 64, 40, 660, 97, 180, 4, 72},
	{"mi300x", 192 * unit.GiB, 5300, .81, 256 * unit.MiB, 9521, 304, 2.1, 64, 64, 45, 300, 48.5, 0, 0, 0},
	{"mi350x", 288 * unit.GiB, 8000, .81, 256 * unit.MiB, 14371, 256, 2.2, 64, 64, 45, 360, 48.5, 0, 0, 0},
	{"mi355x", 288 * unit.GiB, 8000, .81, 256 * unit.MiB, 14371, 256, 2.4, 64, 64, 45, 360, 48.5, 0, 0, 0},
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
	p.optional(add)
	return found
}

// optional reports what is wrong with the fields that may be 0.
func (p Profile) optional(add func(format string, args ...any)) {
	if !slices.Contains([]int{0, 32, 64}, p.WarpLanes) {
		add("warp_lanes: %d is not 32 or 64", p.WarpLanes)
	}
	for _, v := range []struct {
		name  string
		value float64
	}{{"nic_gbps", p.NICGBps}, {"host_gbps", p.HostGBps}} {
		if !(v.value >= 0 && v.value <= 1e9) {
			add("%s: %v is negative or not a number", v.name, v.value)
		}
	}
	if most := MaxDevices; p.PerHost < 0 || p.PerHost > most || p.NVLinkDomain < 0 || p.NVLinkDomain > most {
		add("devices_per_host and nvlink_domain: %d and %d are not between 0 and %d", p.PerHost, p.NVLinkDomain, most)
	}
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

// torchrec is the profile of the devices of TorchRec's formulas, if a job states no other: it has the
// memory and the bandwidths of the GPU that TorchRec's defaults are of. It is none of Profiles, so
// nothing is simulated on it.
var torchrec = func() Profile {
	p := profiles[slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == "v100-32" })]
	p.Name = "torchrec"
	return p
}()

// ByName returns the profile of exactly that name: one of Profiles, or "torchrec" for the devices of
// TorchRec's formulas. The error names those that come near and lists all of Profiles.
func ByName(name string) (Profile, error) {
	if name == torchrec.Name {
		return torchrec, nil
	}
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

// UsualPerHost is the number of devices of a full host of most profiles with a network: their boards
// have eight.
const UsualPerHost = 8

// FullHost returns the number of devices of a full host: PerHost, or UsualPerHost.
func (p Profile) FullHost() int { return cmp.Or(p.PerHost, UsualPerHost) }

// HostLinkGBps returns the bandwidth of a device to its host's memory, in GB/s per
// direction: HostGBps, or 80 % of the sixteen lanes of the PCI Express generation that the named
// device has (15.75, 31.5 and 63 GB/s by the standard; the share is assumed), and
// of the oldest for devices that are not among Profiles. HostGBps of gb200 and gb300 is 80 % of half of
// NVLink-C2C, 450 GB/s per direction, because two devices share a Grace host.
func (p Profile) HostLinkGBps() float64 {
	const pcie3, pcie4, pcie5 = 12.6, 25.2, 50.4
	if p.HostGBps > 0 {
		return p.HostGBps
	}
	switch p.Name {
	case "a100-40", "a100-80":
		return pcie4
	case "h100-80", "h200", "b200", "b300", "mi300x", "mi350x", "mi355x":
		return pcie5
	}
	return pcie3
}
