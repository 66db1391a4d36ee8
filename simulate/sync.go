package simulate

import (
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// sync.go estimates the all-reduce by which the replicas of a shard average their weights and
// optimizer states (hardware.Topology.Replicas). TorchRec's DMPCollection runs one for each
// number format of the weights and one for the states, in place, on all weights of the device
// [read]. Device r of all groups is one ring: the devices with the most bytes end last.
//
//	R replicas, k of them joined by the links inside hosts, S bytes
//	2 (k-1)/k S / intra, and 2 (R/k-1)/(R/k) S/k / nic      AllReduce of exchange.go
//	at least the bytes in host memory / host link           [assumed]

// SyncOf returns the bytes of the all-reduce of the replicas, on the device with the most, and its
// time on the simulated device; both are 0 if the problem has one sharding group. The shards are those of each device. It
// fails if replicas are on several hosts and the profile has no network.
func SyncOf(p *problem.Problem, shards [][]problem.Shard) (plan.Sync, error) {
	t := &p.Topology
	d := NewDevice(t.Device())
	if t.ReplicaCount() == 1 {
		return plan.Sync{}, nil
	}
	ring, err := d.Network(Cluster{Devices: t.Replicas, PerHost: max(1, t.ReplicasPerHost), Domain: t.ReplicasPerDomain, Batch: 1, ElementBytes: 1})
	if err != nil {
		return plan.Sync{}, err
	}
	var most plan.Sync
	for _, held := range shards {
		bytes, time := syncOf(&d, p, &ring, held)
		most.Bytes, most.Time = max(most.Bytes, bytes), max(most.Time, time)
	}
	return most, nil
}

// syncOf returns the bytes and the time of the all-reduce of one device's shards.
func syncOf(d *Device, p *problem.Problem, ring *Network, held []problem.Shard) (bytes unit.Bytes, time unit.Millis) {
	collectives, host, states := map[problem.Precision]bool{}, unit.Bytes(0), false
	for _, s := range held {
		all, weights, onHost := p.SyncBytes(s)
		bytes += all
		host += onHost
		if weights > 0 {
			collectives[p.Tables[s.Table].Precision] = true
		}
		states = states || all > weights
	}
	if bytes == 0 {
		return 0, 0
	}
	count := len(collectives)
	if states {
		count++
	}
	inside, between := ring.AllReduce(float64(bytes))
	moving := inside.Moving() + between.Moving()
	moving = unit.Millis(math.Max(float64(moving), float64(host)/d.hostLink))
	return bytes, unit.Millis(count)*(inside.Fixed+between.Fixed) + moving
}
