package hardware

import (
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/unit"
)

func withLoads(loads ...FixedLoad) Topology {
	profile, _ := ByName("a100-80")
	return Topology{Profile: profile, Devices: 4, ReserveShare: NoReserve, Fixed: loads}
}

func TestFixedLoadsOfDevices(t *testing.T) {
	topology := withLoads(FixedLoad{Name: "all", Bytes: unit.GiB, Time: .25}, FixedLoad{Name: "some", Devices: []int{0, 3}, Bytes: 2 * unit.GiB, Time: .5})
	if found := topology.Problems(); len(found) > 0 {
		t.Fatal(found)
	}
	for d, want := range []unit.Bytes{77, 79, 79, 77} {
		if got := topology.Usable(d); got != want*unit.GiB {
			t.Errorf("device %d: got %v for tables, want %v", d, got, want*unit.GiB)
		}
	}
	if got, want := topology.FixedTimes(), []unit.Millis{.75, .25, .25, .75}; !slices.Equal(got, want) {
		t.Errorf("got times %v, want %v", got, want)
	}
	if got := topology.LeastFixedTime(); got != .25 {
		t.Errorf("got a least time of %v, want 0.25 ms", got)
	}
	if topology.Largest() != 1 || topology.Smallest() != 0 || !topology.Uneven() || !topology.UnevenMemory() {
		t.Errorf("got largest %d, smallest %d, want 1, 0 of uneven devices", topology.Largest(), topology.Smallest())
	}
	if topology.Alike(0, 1) || !topology.Alike(0, 3) || !topology.Alike(1, 2) {
		t.Error("want devices 0 and 3 alike, and 1 and 2")
	}
	timed := withLoads(FixedLoad{Name: "a", Devices: []int{2}, Time: 1})
	if timed.Alike(1, 2) || !timed.Alike(0, 1) {
		t.Error("want a device with fixed compute unlike others of the same memory")
	}
	if alike := withLoads(FixedLoad{Name: "a", Bytes: 1}); alike.Uneven() || alike.FixedTimes() != nil {
		t.Error("want devices alike without times if the load is on all of them and takes bytes only")
	}
}

func TestWrongFixedLoads(t *testing.T) {
	long := make([]FixedLoad, MaxFixed+1)
	for _, test := range []struct {
		loads []FixedLoad
		want  string
	}{
		{[]FixedLoad{{Bytes: 1}}, "load 0 has no name"},
		{[]FixedLoad{{Name: "a"}}, "neither bytes nor time"},
		{[]FixedLoad{{Name: "a", Bytes: -1}}, "-1 bytes are not between"},
		{[]FixedLoad{{Name: "a", Time: -1}}, "-1 ms are not between"},
		{[]FixedLoad{{Name: "a", Bytes: 1, Devices: []int{4}}}, "device 4 is not one of the 4 devices"},
		{[]FixedLoad{{Name: "a", Bytes: 1, Devices: []int{1, 1}}}, "twice on one device"},
		{[]FixedLoad{{Name: "a", Bytes: 1, Devices: []int{1}}, {Name: "a", Bytes: 1}}, "twice on one device"},
		{[]FixedLoad{{Name: "a", Bytes: 1}, {Name: "a", Bytes: 1, Devices: []int{1}}}, "twice on one device"},
		{[]FixedLoad{{Name: "a", Bytes: 80 * unit.GiB}}, "reserve and fixed loads: 80.0 GiB of 80.0 GiB leave nothing for tables"},
		{long, "4097 loads are more than 4096"},
	} {
		if got := strings.Join(withLoads(test.loads...).Problems(), "; "); !strings.Contains(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if found := withLoads(FixedLoad{Name: "a", Bytes: 1, Devices: []int{1}}, FixedLoad{Name: "a", Bytes: 2, Devices: []int{2}}).Problems(); len(found) > 0 {
		t.Errorf("a load that differs by device: got %v, want none", found)
	}
	if _, wrong := withLoads(FixedLoad{Name: "a", Bytes: 1, Devices: []int{1}}).Replicated(2); !strings.Contains(wrong, "leave its devices out") {
		t.Errorf("groups: got %q", wrong)
	}
	if one, wrong := withLoads(FixedLoad{Name: "a", Bytes: 1}).Replicated(2); wrong != "" || one.FixedBytes(1) != 1 {
		t.Errorf("groups with a load on all devices: got %q and %v bytes, want 1", wrong, one.FixedBytes(1))
	}
}
