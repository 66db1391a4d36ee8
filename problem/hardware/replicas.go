package hardware

import (
	"fmt"

	"github.com/neuroshard/neuroshard/unit"
)

// replicas.go divides a cluster into sharding groups, as TorchRec's DMPCollection does (2D
// parallelism). Each group holds all tables by the same plan and trains on its part of the batch.
// Device r of one group and device r of the others hold the same shards: they are replicas of each
// other, and average their weights and optimizer states.
//
// With 2 hosts of 4 devices and 2 groups, a digit is the group of a device, and a letter says
// which shards the device holds:
//
//	replicas are neighbours               InterHostAllReduce
//	1a 2a 1b 2b | 1c 2c 1d 2d             1a 1b 1c 1d | 2a 2b 2c 2d
//	exchanges of a group take the         the all-reduce of the replicas
//	network, the all-reduce does not      takes the network, the exchanges do not
//
// A Topology describes one group, so whatever plans for a Topology plans for one group.
// Topology.Replicated makes the group of a whole cluster, and Topology.Whole is the way back.

// MaxSyncEvery is the largest Topology.SyncEvery.
const MaxSyncEvery = 1_000_000

// ReplicaCount returns the number of sharding groups, at least 1.
func (t Topology) ReplicaCount() int { return max(1, t.Replicas) }

// Interval returns the number of steps from one all-reduce of the replicas to the next, at least 1.
func (t Topology) Interval() int { return max(1, t.SyncEvery) }

// Whole returns the whole cluster of a sharding group. Without replicas it returns t.
func (t Topology) Whole() Topology {
	if t.ReplicaCount() == 1 {
		return t
	}
	w, perHost := t, max(1, t.ReplicasPerHost)
	if len(t.DeviceMemories) > 0 {
		w.DeviceMemories = make([]unit.Bytes, t.Devices*t.Replicas)
		for d := range w.DeviceMemories {
			w.DeviceMemories[d] = t.DeviceMemory(t.place(d, t.Devices, t.Replicas))
		}
	}
	w.Devices *= t.Replicas
	w.DevicesPerHost = t.PerHost() * perHost
	w.HostMemory *= unit.Bytes(perHost)
	if w.NVLinkDomain = t.LinkDomain() * max(1, t.ReplicasPerDomain); w.NVLinkDomain <= w.DevicesPerHost {
		w.NVLinkDomain = 0
	}
	w.Replicas, w.ReplicasPerHost, w.ReplicasPerDomain = 0, 0, 0
	return w
}

// Replicated returns one sharding group of a whole cluster with the given number of groups. wrong
// says why the cluster cannot be divided into them, and is empty if it can. Devices, DevicesPerHost,
// HostMemory and NVLinkDomain of t are those of the whole cluster. t.InterHostAllReduce says how the
// groups lie.
// With one group it returns t.
func (t Topology) Replicated(replicas int) (one Topology, wrong string) {
	if replicas == 1 || t.Devices < 1 {
		return t, ""
	}
	per := t.PerHost()
	switch {
	case replicas < 1 || replicas > t.Devices:
		if t.Devices == 1 {
			return t, fmt.Sprintf("replicas: one device cannot be divided into %d groups", replicas)
		}
		return t, fmt.Sprintf("replicas: %d is not between 1 and the %d devices", replicas, t.Devices)
	case t.Devices%replicas != 0:
		return t, fmt.Sprintf("replicas: %d does not divide the %d devices into equal groups", replicas, t.Devices)
	case t.Devices%per != 0:
		return t, fmt.Sprintf("replicas: the last host has %d of %d devices, and groups need full hosts", t.Devices%per, per)
	}
	one = t
	one.Replicas, one.Devices = replicas, t.Devices/replicas
	whole := t.LinkDomain()
	var domain int
	var ok, fits bool
	one.DevicesPerHost, one.ReplicasPerHost, ok = t.divided(per, replicas)
	domain, one.ReplicasPerDomain, fits = t.divided(whole, replicas)
	switch {
	case !ok:
		return t, fmt.Sprintf("replicas: %d groups of %d devices do not divide hosts of %d devices evenly", replicas, one.Devices, per)
	case !fits:
		return t, fmt.Sprintf("replicas: %d groups of %d devices do not divide NVLink domains of %d devices evenly", replicas, one.Devices, whole)
	case t.fixedUnevenly():
		return t, "replicas: a fixed load is on some of the devices only: with several groups it is on all, so leave its devices out"
	case len(t.HostMemories) > 0:
		return t, fmt.Sprintf("replicas: hosts of %d groups have the same memory, and the host memories differ", replicas)
	}
	if one.DeviceMemories, wrong = t.sharedMemories(replicas); wrong != "" {
		return t, wrong
	}
	if one.NVLinkDomain = 0; domain > one.DevicesPerHost {
		one.NVLinkDomain = domain
	}
	one.HostMemory /= unit.Bytes(one.ReplicasPerHost)
	return one, ""
}

// place returns the number that a device of the whole cluster has in its group.
func (t Topology) place(device, size, replicas int) int {
	if t.InterHostAllReduce {
		return device % size
	}
	return device / replicas
}

// sharedMemories returns the device memories of one group of a whole cluster, and what is wrong: the
// replicas of a shard need the same memory.
func (t Topology) sharedMemories(replicas int) (memories []unit.Bytes, wrong string) {
	if len(t.DeviceMemories) != t.Devices {
		return t.DeviceMemories, ""
	}
	size := t.Devices / replicas
	memories, first := make([]unit.Bytes, size), make([]int, size)
	for d, m := range t.DeviceMemories {
		i := t.place(d, size, replicas)
		if memories[i] == 0 {
			memories[i], first[i] = m, d
		}
		if memories[i] != m {
			return t.DeviceMemories, fmt.Sprintf("replicas: devices %d and %d hold replicas of the same shards, and have %v and %v of memory", first[i], d, memories[i], m)
		}
	}
	return memories, ""
}

// divided returns the devices of one group and the replicas of one shard among the given
// consecutive devices, a host or a domain. ok is false if other such devices would have other
// numbers.
func (t Topology) divided(devices, replicas int) (own, copies int, ok bool) {
	size := replicas // of a run of devices that hosts and domains must not cut: replicas, or a group
	if t.InterHostAllReduce {
		size = t.Devices / replicas
	}
	inside, ok := min(size, devices), size%devices == 0 || devices%size == 0
	if t.InterHostAllReduce {
		return inside, devices / inside, ok
	}
	return devices / inside, inside, ok
}

// replicas reports fields of the sharding groups that no cluster has.
func (t Topology) replicas(add func(format string, args ...any)) {
	if t.Replicas < 0 || t.Replicas > MaxDevices {
		add("replicas: %d is not between 1 and %d", t.Replicas, MaxDevices)
	}
	if t.SyncEvery < 0 || t.SyncEvery > MaxSyncEvery {
		add("sync every: %d steps are not between 1 and %d", t.SyncEvery, MaxSyncEvery)
	}
	if t.ReplicaCount() == 1 {
		return
	}
	if n := t.ReplicasPerHost; n < 0 || n > t.Replicas {
		add("replicas per host: %d is not between 0 and the %d replicas", n, t.Replicas)
	}
	if n := t.ReplicasPerDomain; n < 0 || n > t.Replicas {
		add("replicas per NVLink domain: %d is not between 0 and the %d replicas", n, t.Replicas)
	}
}
