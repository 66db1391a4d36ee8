package hardware_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func ExampleByName() {
	p, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Name, p.Memory, p.HBMGBps, "GB/s")
	_, err = hardware.ByName("a100")
	fmt.Println(err)
	// Output:
	// a100-80 80.0 GiB 2039 GB/s
	// device profile "a100" is unknown (did you mean "a100-40" or "a100-80"?): choose one of rtx2080ti, v100-16, v100-32, a100-40, a100-80, h100-80, h200, b200, gb200, b300, gb300, mi300x, mi350x, mi355x
}

func ExampleTopology() {
	p, err := hardware.ByName("h100-80")
	if err != nil {
		panic(err)
	}
	t := hardware.Topology{Profile: p, Devices: 20, DevicesPerHost: 8, ReserveShare: 0.25, ReserveFixed: 4 * unit.GiB}
	fmt.Println(t.Hosts(), "hosts,", t.Budget(0), "a device for tables")

	t.Devices, t.ReserveShare = 0, 1.5
	for _, problem := range t.Problems() {
		fmt.Println(problem)
	}
	// Output:
	// 3 hosts, 56.0 GiB a device for tables
	// devices: 0 is not between 1 and 65536
	// reserve share: 1.5 is not at least 0 and below 1
}

// Names are exact, but the error says which one was probably meant.
func TestByNameSuggests(t *testing.T) {
	for word, want := range map[string]string{
		"H200":        `did you mean "h200"?`,
		"A100_80GB":   `did you mean "a100-80"?`,
		"v100":        `did you mean "v100-16" or "v100-32"?`,
		"2080":        `did you mean "rtx2080ti"?`,
		"nvidia-h100": `did you mean "h100-80"?`,
	} {
		_, err := hardware.ByName(word)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "choose one of rtx2080ti, v100-16,") {
			t.Errorf("%q: got %v, want an error with %s and all names", word, err, want)
		}
	}
	for _, word := range []string{"", "-", "tpu-v5", "0"} {
		if _, err := hardware.ByName(word); err == nil || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%q: got %v, want an error without a guess", word, err)
		}
	}
}

// The code and the page that documents it hold the same numbers, to the digit.
func TestProfilesAreAsDocumented(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/SIMULATED.md"))(t)
	_, table, found := strings.Cut(string(page), "| profile | HBM GiB | GB/s | eta | L2 MiB | L2 GB/s | SMs | GHz | W | A | alpha us | intra GB/s | NIC GB/s |\n")
	if !found {
		t.Fatal("docs/SIMULATED.md has no table of profiles with the columns that this test reads")
	}
	var names []string
	for _, line := range strings.Split(table, "\n")[1:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		names = append(names, cells[0])
		p, err := hardware.ByName(cells[0])
		if err != nil {
			t.Error(err)
			continue
		}
		got := []float64{
			p.Memory.GiB(), p.HBMGBps, p.HBMEfficiency, float64(p.L2) / float64(unit.MiB), p.L2GBps,
			float64(p.SMs), p.ClockGHz, float64(p.WarpLanes), float64(p.Granule), p.AllToAllLatencyUS, p.IntraGBps, p.NICGBps,
		}
		if len(cells) != 1+len(got) {
			t.Fatalf("%s: got %d columns, want %d", cells[0], len(cells), 1+len(got))
		}
		for i, cell := range cells[1:] {
			want := 0.0
			if cell != "-" {
				if want, err = strconv.ParseFloat(cell, 64); err != nil {
					t.Fatalf("%s, column %d: %v", cells[0], i+1, err)
				}
			}
			if got[i] != want {
				t.Errorf("%s, column %d: got %v, want %v", cells[0], i+1, got[i], want)
			}
		}
	}
	if got := hardware.Names(); !slices.Equal(got, names) {
		t.Errorf("got profiles %v, want %v", got, names)
	}
}

// A few facts of data sheets, so that page and code cannot drift together.
func TestProfileFacts(t *testing.T) {
	for _, c := range []struct {
		name            string
		memory, l2      unit.Bytes
		bandwidth       float64
		multiprocessors int
		granule         int
	}{
		{"rtx2080ti", 11 * unit.GiB, 5632 * unit.KiB, 616, 68, 32},
		{"v100-16", 16 * unit.GiB, 6 * unit.MiB, 900, 80, 32},
		{"v100-32", 32 * unit.GiB, 6 * unit.MiB, 900, 80, 32},
		{"a100-40", 40 * unit.GiB, 40 * unit.MiB, 1555, 108, 64},
		{"a100-80", 80 * unit.GiB, 40 * unit.MiB, 2039, 108, 64},
		{"h100-80", 80 * unit.GiB, 50 * unit.MiB, 3350, 132, 64},
		{"h200", 140 * unit.GiB, 60 * unit.MiB, 4800, 132, 64},
		{"b200", 180 * unit.GiB, 126 * unit.MiB, 8000, 148, 64},
		{"gb200", 186 * unit.GiB, 126 * unit.MiB, 8000, 152, 64},
		{"b300", 270 * unit.GiB, 126 * unit.MiB, 7700, 148, 64},
		{"gb300", 279 * unit.GiB, 126 * unit.MiB, 8000, 152, 64},
		{"mi300x", 192 * unit.GiB, 256 * unit.MiB, 5300, 304, 64},
		{"mi350x", 288 * unit.GiB, 256 * unit.MiB, 8000, 256, 64},
		{"mi355x", 288 * unit.GiB, 256 * unit.MiB, 8000, 256, 64},
	} {
		p, err := hardware.ByName(c.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Name != c.name || p.Memory != c.memory || p.L2 != c.l2 || p.HBMGBps != c.bandwidth || p.SMs != c.multiprocessors || p.Granule != c.granule {
			t.Errorf("got %+v, want %+v", p, c)
		}
	}
}

func TestProfilesAreTheCallers(t *testing.T) {
	hardware.Profiles()[0].Name = "changed"
	hardware.Names()[0] = "changed"
	if got := hardware.Names()[0]; got != "rtx2080ti" {
		t.Errorf("got first profile %q, want it unchanged", got)
	}
	if got := hardware.Profiles()[0].Name; got != "rtx2080ti" {
		t.Errorf("got first profile %q, want it unchanged", got)
	}
}

func TestPerHostAndHosts(t *testing.T) {
	for _, c := range []struct{ devices, perHost, wantPerHost, wantHosts int }{
		{1, 0, 1, 1},
		{8, 0, 8, 1},
		{8, 8, 8, 1},
		{8, 9, 8, 1},
		{8, 16, 8, 1}, // a host is never fuller than the cluster
		{8, -1, 8, 1},
		{16, 8, 8, 2},
		{17, 8, 8, 3}, // the last host may hold fewer
		{9, 8, 8, 2},
		{5, 1, 1, 5},
	} {
		topology := hardware.Topology{Devices: c.devices, DevicesPerHost: c.perHost}
		if got := topology.PerHost(); got != c.wantPerHost {
			t.Errorf("%d devices, %d a host: got %d a full host, want %d", c.devices, c.perHost, got, c.wantPerHost)
		}
		if got := topology.Hosts(); got != c.wantHosts {
			t.Errorf("%d devices, %d a host: got %d hosts, want %d", c.devices, c.perHost, got, c.wantHosts)
		}
	}
}

func TestReserveAndBudget(t *testing.T) {
	profile := hardware.Profile{Name: "test", Memory: 1000}
	for _, c := range []struct {
		name                        string
		memory, fixed               unit.Bytes
		share                       float64
		wantMemory, reserve, budget unit.Bytes
	}{
		{"the default share", 0, 0, 0, 1000, 150, 850},
		{"the default share and a fixed part", 0, 100, 0, 1000, 250, 750},
		{"nothing reserved", 0, 0, hardware.NoReserve, 1000, 0, 1000},
		{"a share of zero", 0, 0, hardware.ReserveShare(0), 1000, 0, 1000},
		{"a share", 0, 0, 0.15, 1000, 150, 850},
		{"a share of an override", 2000, 0, 0.15, 2000, 300, 1700},
		{"rounded up", 7, 0, 0.5, 7, 4, 3},
		{"a fixed part", 0, 100, hardware.NoReserve, 1000, 100, 900},
		{"both", 0, 100, 0.15, 1000, 250, 750},
		{"exactly all", 0, 850, 0.15, 1000, 1000, 0},
		{"more than all", 0, 2000, 0.15, 1000, 2150, 0},
	} {
		topology := hardware.Topology{Profile: profile, Devices: 1, Memory: c.memory, ReserveShare: c.share, ReserveFixed: c.fixed}
		if got := topology.DeviceMemory(0); got != c.wantMemory {
			t.Errorf("%s: got %d bytes of memory, want %d", c.name, got, c.wantMemory)
		}
		if got := topology.Reserve(0); got != c.reserve {
			t.Errorf("%s: got %d bytes of reserve, want %d", c.name, got, c.reserve)
		}
		if got := topology.Budget(0); got != c.budget {
			t.Errorf("%s: got a budget of %d bytes, want %d", c.name, got, c.budget)
		}
	}
}

func TestProblems(t *testing.T) {
	valid := func() hardware.Topology {
		p := must.Get(hardware.ByName("a100-80"))(t)
		return hardware.Topology{Profile: p, Devices: 16, DevicesPerHost: 8, ReserveShare: hardware.DefaultReserveShare}
	}
	for _, c := range []struct {
		name   string
		change func(*hardware.Topology)
		want   []string
	}{
		{"valid", func(*hardware.Topology) {}, nil},
		{"valid: the largest", func(t *hardware.Topology) {
			t.Devices, t.Memory, t.ReserveFixed = hardware.MaxDevices, hardware.MaxMemory, hardware.MaxMemory/2
		}, nil},
		{"no devices", func(t *hardware.Topology) { t.Devices = 0 }, []string{"devices: 0 is not between 1 and 65536"}},
		{"negative devices", func(t *hardware.Topology) { t.Devices = -4 }, []string{"devices: -4 is not between 1 and 65536"}},
		{"too many devices", func(t *hardware.Topology) { t.Devices = 65537 }, []string{"devices: 65537 is not between 1 and 65536"}},
		{"negative devices per host", func(t *hardware.Topology) { t.DevicesPerHost = -8 }, []string{"devices per host: -8 is negative"}},
		{"negative memory", func(t *hardware.Topology) { t.Memory = -1 }, []string{"memory: -1 bytes is negative"}},
		{"too much memory", func(t *hardware.Topology) { t.Memory = math.MaxInt64 }, []string{"memory: 8388608 TiB is above 1024 TiB a device"}},
		{"negative share", func(t *hardware.Topology) { t.ReserveShare = -0.1 }, []string{"reserve share: -0.1 is not at least 0 and below 1"}},
		{"share of one", func(t *hardware.Topology) { t.ReserveShare = 1 }, []string{"reserve share: 1 is not at least 0 and below 1"}},
		{"share not a number", func(t *hardware.Topology) { t.ReserveShare = math.NaN() }, []string{"reserve share: NaN is not at least 0 and below 1"}},
		{"negative reserve", func(t *hardware.Topology) { t.ReserveFixed = -5 }, []string{"reserve fixed: -5 bytes is negative"}},
		// Added to the share, this would overflow into a huge budget.
		{"huge reserve", func(t *hardware.Topology) { t.ReserveFixed = math.MaxInt64 }, []string{"reserve fixed: 8388608 TiB is above 1024 TiB a device"}},
		{"no profile", func(t *hardware.Topology) { t.Profile = hardware.Profile{} }, []string{"device profile: missing; choose one of rtx2080ti, v100-16, v100-32, a100-40, a100-80, h100-80, h200, b200, gb200, b300, gb300, mi300x, mi350x, mi355x"}},
		{"nothing left", func(t *hardware.Topology) { t.ReserveFixed = 80 * unit.GiB }, []string{"reserve: 92.0 GiB of 80.0 GiB leave nothing for tables"}},
		{"no network", func(t *hardware.Topology) { t.Profile.NICGBps = 0 }, []string{`devices per host: profile "a100-80" has no network between hosts, so all 16 devices must be on one host, or the network bandwidth must be stated`}},
		{"no network, one stated", func(t *hardware.Topology) { t.Profile.NICGBps, t.NetworkBandwidth = 0, 50*unit.Bandwidth(unit.GB) }, nil},
		{"no network, one domain", func(t *hardware.Topology) { t.Profile.NICGBps, t.NVLinkDomain = 0, 72 }, nil},
		{"domain of hosts", func(t *hardware.Topology) { t.DevicesPerHost, t.NVLinkDomain = 4, 8 }, nil},
		{"least host memory", func(t *hardware.Topology) { t.HostMemory = 8 }, nil},
		{"less host memory than devices", func(t *hardware.Topology) { t.HostMemory = 7 }, []string{"host memory: 7 B is less than one byte for each of the 8 devices of a host"}},
		{"domain below a host", func(t *hardware.Topology) { t.NVLinkDomain = 4 }, []string{"nvlink domain: 4 devices are fewer than the 8 of a host; state the devices per host that the links join"}},
		{"domain across a host", func(t *hardware.Topology) { t.Devices, t.NVLinkDomain = 24, 12 }, []string{"nvlink domain: 12 devices are not whole hosts of 8"}},
		{"negative domain", func(t *hardware.Topology) { t.NVLinkDomain = -8 }, []string{"nvlink domain: -8 is not between 0 and 65536"}},
		{"no network, none needed", func(t *hardware.Topology) { t.Profile.NICGBps, t.DevicesPerHost = 0, 16 }, nil},
		{"all at once", func(t *hardware.Topology) {
			*t = hardware.Topology{Devices: -1, DevicesPerHost: -2, Memory: -3, ReserveShare: 4, ReserveFixed: -5}
		}, []string{
			"devices: -1 is not between 1 and 65536",
			"devices per host: -2 is negative",
			"memory: -3 bytes is negative",
			"reserve share: 4 is not at least 0 and below 1",
			"reserve fixed: -5 bytes is negative",
			"device profile: missing; choose one of rtx2080ti, v100-16, v100-32, a100-40, a100-80, h100-80, h200, b200, gb200, b300, gb300, mi300x, mi350x, mi355x",
		}},
	} {
		topology := valid()
		c.change(&topology)
		if got := topology.Problems(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// Whatever the flags say, a topology without problems has a budget between one
// byte and its memory, and hosts that hold all its devices.
func TestValidTopologiesMakeSense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topology := hardware.Topology{
			Profile:        rapid.SampledFrom(hardware.Profiles()).Draw(t, "profile"),
			Devices:        rapid.IntRange(-1, hardware.MaxDevices+1).Draw(t, "devices"),
			DevicesPerHost: rapid.IntRange(-1, 16).Draw(t, "per host"),
			Memory:         unit.Bytes(rapid.Int64Range(-1, math.MaxInt64).Draw(t, "memory") >> rapid.IntRange(0, 40).Draw(t, "shift")),
			ReserveShare:   rapid.Float64Range(-0.1, 1.1).Draw(t, "share"),
			ReserveFixed:   unit.Bytes(rapid.Int64().Draw(t, "fixed") >> rapid.IntRange(0, 62).Draw(t, "fixed shift")),

			NetworkBandwidth: unit.Bandwidth(rapid.SampledFrom([]float64{0, -1, 5e10, 1e20}).Draw(t, "network")),
			NVLinkDomain:     rapid.IntRange(-1, 80).Draw(t, "domain"),
		}
		if len(topology.Problems()) > 0 {
			return
		}
		if got, most := topology.Budget(0), topology.DeviceMemory(0); got < 1 || got > most || got+topology.Reserve(0) != most {
			t.Fatalf("got a budget of %d beside a reserve of %d, want them to add up to %d", got, topology.Reserve(0), most)
		}
		hosts, perHost := topology.Hosts(), topology.PerHost()
		if hosts*perHost < topology.Devices || (hosts-1)*perHost >= topology.Devices {
			t.Fatalf("got %d hosts of %d, want them to hold %d devices with none to spare", hosts, perHost, topology.Devices)
		}
	})
}
