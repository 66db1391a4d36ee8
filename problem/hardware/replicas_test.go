package hardware_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// ranks lists the ranks of all groups as DMPCollection of TorchRec 1.6.1 makes them: rank i of
// group g.
func ranks(devices, replicas int, interHost bool) [][]int {
	groups, size := make([][]int, replicas), devices/replicas
	for g := range groups {
		for i := range size {
			rank := replicas*i + g
			if interHost {
				rank = g*size + i
			}
			groups[g] = append(groups[g], rank)
		}
	}
	return groups
}

// runs returns the most ranks that share a host of the given size.
func runs(list []int, perHost int) int {
	on, most := map[int]int{}, 0
	for _, rank := range list {
		on[rank/perHost]++
		most = max(most, on[rank/perHost])
	}
	return most
}

// The numbers of a group are those of the ranks that TorchRec puts into it, for every cluster that
// can be divided, and Whole is the way back.
func TestGroup(t *testing.T) {
	profile := must.Get(hardware.ByName("a100-80"))(t)
	rapid.Check(t, func(t *rapid.T) {
		hosts, perHost := rapid.IntRange(1, 8).Draw(t, "hosts"), rapid.SampledFrom([]int{1, 2, 3, 4, 8}).Draw(t, "devices a host")
		whole := hardware.Topology{
			Profile: profile, Devices: hosts * perHost, DevicesPerHost: perHost, HostMemory: unit.Bytes(24*perHost) * unit.GiB,
			InterHostAllReduce: rapid.Bool().Draw(t, "between hosts"), SyncEvery: rapid.IntRange(0, 3).Draw(t, "every"),
		}
		domain := perHost
		if k := rapid.IntRange(1, 4).Draw(t, "hosts of a domain"); hosts%k == 0 && k > 1 {
			whole.NVLinkDomain = k * perHost
			domain = whole.NVLinkDomain
		}
		replicas := rapid.IntRange(2, 12).Draw(t, "replicas")
		group, wrong := whole.Replicated(replicas)
		if wrong != "" {
			if !group.Equal(whole) || !strings.HasPrefix(wrong, "replicas: ") {
				t.Fatalf("got %q and %+v, want the cluster unchanged", wrong, group)
			}
			return
		}
		if problems := group.Problems(); len(problems) > 0 {
			t.Fatalf("the group %+v of %+v is not valid: %v", group, whole, problems)
		}
		all := ranks(whole.Devices, replicas, whole.InterHostAllReduce)
		for g := range all {
			if got, want := group.PerHost(), runs(all[g], perHost); got != want {
				t.Fatalf("group %d: got %d devices a host, want %d: %v", g, got, want, all[g])
			}
			if got, want := group.LinkDomain(), runs(all[g], domain); got != want {
				t.Fatalf("group %d: got %d devices a domain, want %d: %v", g, got, want, all[g])
			}
		}
		for i := range all[0] {
			var same []int
			for g := range all {
				same = append(same, all[g][i])
			}
			if got, want := group.ReplicasPerHost, runs(same, perHost); got != want {
				t.Fatalf("got %d replicas a host, want %d: %v", got, want, same)
			}
			if got, want := group.ReplicasPerDomain, runs(same, domain); got != want {
				t.Fatalf("got %d replicas a domain, want %d: %v", got, want, same)
			}
		}
		if got, want := group.HostBudget(0), whole.HostBudget(0); got != want {
			t.Fatalf("got %v of host memory a device, want %v as without groups", got, want)
		}
		back := group.Whole()
		if back.ReserveShare, back.Profile = whole.ReserveShare, whole.Profile; !back.Equal(whole) {
			t.Fatalf("got %+v back, want %+v", back, whole)
		}
		if again, _ := back.Replicated(replicas); !again.Equal(group) {
			t.Fatalf("got the group %+v of %+v, want %+v again", again, back, group)
		}
		if (group.NVLinkDomain != 0) != (group.LinkDomain() > group.PerHost()) {
			t.Fatalf("got an NVLink domain of %d stated, and %d linked devices of %d a host", group.NVLinkDomain, group.LinkDomain(), group.PerHost())
		}
		if back.Devices != whole.Devices || back.PerHost() != whole.PerHost() || back.LinkDomain() != whole.LinkDomain() || back.HostMemory != whole.HostMemory {
			t.Fatalf("got %+v back, want %+v", back, whole)
		}
	})
}

// Clusters that cannot be divided say why, and one group is the cluster itself.
func TestGroupFaults(t *testing.T) {
	whole := hardware.Topology{Devices: 24, DevicesPerHost: 4}
	if got, wrong := whole.Replicated(1); !got.Equal(whole) || wrong != "" {
		t.Errorf("one group: got %+v, %q", got, wrong)
	}
	for _, c := range []struct {
		whole    hardware.Topology
		replicas int
		want     string
	}{
		{whole, 0, "0 is not between 1 and the 24 devices"},
		{whole, 25, "25 is not between 1 and the 24 devices"},
		{hardware.Topology{Devices: 1}, 2, "one device cannot be divided into 2 groups"},
		{whole, 5, "5 does not divide the 24 devices into equal groups"},
		{whole, 3, "3 groups of 8 devices do not divide hosts of 4 devices evenly"},
		{hardware.Topology{Devices: 24, DevicesPerHost: 4, NVLinkDomain: 12}, 8, "8 groups of 3 devices do not divide NVLink domains of 12 devices evenly"},
		{hardware.Topology{Devices: 6, DevicesPerHost: 4}, 2, "the last host has 2 of 4 devices, and groups need full hosts"},
	} {
		if _, wrong := c.whole.Replicated(c.replicas); wrong != "replicas: "+c.want {
			t.Errorf("%d groups of %d devices: got %q, want %q", c.replicas, c.whole.Devices, wrong, c.want)
		}
	}
	bad := hardware.Topology{Devices: 2, Replicas: 2, ReplicasPerHost: 3, ReplicasPerDomain: 4, SyncEvery: -1}
	large := hardware.Topology{Devices: 2, Replicas: hardware.MaxDevices + 1, ReplicasPerHost: -3, ReplicasPerDomain: -4, SyncEvery: hardware.MaxSyncEvery + 1}
	for _, c := range []struct {
		topology hardware.Topology
		want     []string
	}{
		{bad, []string{"sync every: -1", "replicas per host: 3", "replicas per NVLink domain: 4"}},
		{large, []string{"replicas: 65537", "sync every: 1000001", "replicas per host: -3", "replicas per NVLink domain: -4"}},
		{hardware.Topology{Devices: 2, Replicas: -1}, []string{"replicas: -1"}},
	} {
		found := strings.Join(c.topology.Problems(), "\n")
		for _, want := range c.want {
			if !strings.Contains(found, want) {
				t.Errorf("got %q, want a line with %q", found, want)
			}
		}
	}
	most := hardware.Topology{Devices: 2, Replicas: hardware.MaxDevices, ReplicasPerHost: 2, ReplicasPerDomain: 2, SyncEvery: hardware.MaxSyncEvery}
	if found := strings.Join(most.Problems(), "\n"); strings.Contains(found, "replicas") || strings.Contains(found, "sync every") {
		t.Errorf("got %q, want nothing of replicas at the limits", found)
	}
}
