package hardware_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func ExampleParseMemories() {
	m, err := hardware.ParseMemories("0-1=40GiB,3=24GiB")
	if err != nil {
		panic(err)
	}
	list, _ := m.Of(4, nil, 80*unit.GiB)
	fmt.Println(hardware.FormatMemories(list))
	_, wrong := m.Of(3, nil, 80*unit.GiB)
	fmt.Println(wrong)
	// Output:
	// 0-1=40.0 GiB, 2=80.0 GiB, 3=24.0 GiB
	// number 3 is not below 3
}

func TestParseMemoriesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"40":                         "",
		"40GiB,,80GiB":               "",
		"0B":                         "is not above 0",
		"2000TiB":                    "at most 1024 TiB",
		"40GiB,1=80GiB":              "mixes sizes in order",
		"0=40GiB,80GiB":              "mixes sizes in order",
		"3-1=40GiB":                  `"3-1" is not a number`,
		"-1=40GiB":                   `"-1" is not a number`,
		"a=40GiB":                    `"a" is not a number`,
		"1=40GiB,0=40GiB":            "do not rise",
		"0-3=40GiB,3=80GiB":          "do not rise",
		"0-65536=40GiB":              "65536 is not below 65536",
		"99999999999999=40GiB":       "is not below",
		"999999999999999999999=1GiB": "is not a number",
	} {
		m, err := hardware.ParseMemories(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v (%+v), want an error with %q", text, err, m, want)
		}
	}
}

// The reserve share is one of each device's own memory, and a topology of equal lists is that of one
// memory.
func TestUnevenMemories(t *testing.T) {
	const g = unit.GiB
	p := must.Get(hardware.ByName("a100-80"))(t)
	even := hardware.Topology{Profile: p, Devices: 4, DevicesPerHost: 2, ReserveShare: .25, ReserveFixed: g}
	one := even
	one.DeviceMemories, one.HostMemories = []unit.Bytes{40 * g, 80 * g, 16 * g, 80 * g}, []unit.Bytes{100 * g, 50 * g}
	for d, want := range []struct{ memory, reserve, budget, host unit.Bytes }{
		{40 * g, 11 * g, 29 * g, 50 * g}, {80 * g, 21 * g, 59 * g, 50 * g}, {16 * g, 5 * g, 11 * g, 25 * g}, {80 * g, 21 * g, 59 * g, 25 * g},
	} {
		if m, r, b, h := one.DeviceMemory(d), one.Reserve(d), one.Budget(d), one.HostBudget(d); m != want.memory || r != want.reserve || b != want.budget || h != want.host {
			t.Errorf("device %d: got %v, %v reserved, %v and %v of the host for tables, want %+v", d, m, r, b, h, want)
		}
	}
	if one.Largest() != 1 || one.Smallest() != 2 || !one.Uneven() || one.Alike(1, 3) || even.Uneven() || !even.Alike(1, 3) || even.Largest() != 0 {
		t.Errorf("got largest %d, smallest %d", one.Largest(), one.Smallest())
	}
	equal := even
	equal.DeviceMemories, equal.HostMemories = slices.Repeat([]unit.Bytes{80 * g}, 4), slices.Repeat([]unit.Bytes{0}, 2)
	if got := equal.Even(); got.DeviceMemories != nil || got.HostMemories != nil || got.Memory != 80*g || got.Budget(3) != even.Budget(3) {
		t.Errorf("got %+v, want one memory", got)
	}
	if got := one.Problems(); len(got) > 0 {
		t.Errorf("got %q, want nothing wrong", got)
	}
	one.DeviceMemories, one.HostMemories = one.DeviceMemories[:3], []unit.Bytes{0, g}
	if got := strings.Join(one.Problems(), "\n"); got != "device memories: 3 are stated for 4 devices\nhost memories: 0 B of host 0 is not above 0 and at most 1024 TiB" {
		t.Errorf("got %s", got)
	}
	one.DeviceMemories, one.HostMemories = one.DeviceMemories[:1], nil
	if got := strings.Join(one.Problems(), "\n"); got != "device memories: 1 is stated for 4 devices" {
		t.Errorf("got %s", got)
	}
}

// Sharding groups have the memories of the whole cluster; devices with replicas of the same shards
// need the same memory.
func TestReplicasOfUnevenDevices(t *testing.T) {
	const g = unit.GiB
	p := must.Get(hardware.ByName("a100-80"))(t)
	whole := hardware.Topology{Profile: p, Devices: 4, DevicesPerHost: 4, DeviceMemories: []unit.Bytes{40 * g, 40 * g, 80 * g, 80 * g}}
	one, wrong := whole.Replicated(2)
	if want := []unit.Bytes{40 * g, 80 * g}; wrong != "" || !slices.Equal(one.DeviceMemories, want) {
		t.Errorf("got %v (%s), want %v", one.DeviceMemories, wrong, want)
	}
	if got := one.Whole().DeviceMemories; !slices.Equal(got, whole.DeviceMemories) {
		t.Errorf("got %v, want %v again", got, whole.DeviceMemories)
	}
	whole.InterHostAllReduce = true
	if _, wrong := whole.Replicated(2); wrong != "replicas: devices 0 and 2 hold replicas of the same shards, and have 40.0 GiB and 80.0 GiB of memory" {
		t.Errorf("got %q", wrong)
	}
	whole.DeviceMemories = []unit.Bytes{40 * g, 80 * g, 40 * g, 80 * g}
	if one, wrong = whole.Replicated(2); wrong != "" || !slices.Equal(one.Whole().DeviceMemories, whole.DeviceMemories) {
		t.Errorf("got %v (%s), want %v again", one.Whole().DeviceMemories, wrong, whole.DeviceMemories)
	}
	whole.DeviceMemories, whole.HostMemories = nil, []unit.Bytes{g}
	if _, wrong := whole.Replicated(2); wrong != "replicas: hosts of 2 groups have the same memory, and the host memories differ" {
		t.Errorf("got %q", wrong)
	}
}
