package input

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

// replicas.go turns the whole cluster that a user states into one sharding group of 2D
// parallelism, which is what a problem has (hardware.Topology.Replicated).

const memoriesHint = "state the same memory for all devices that hold replicas of the same shards, and for all hosts, or leave replicas out"

// unite turns a cluster that describes one sharding group into the whole cluster. Replicas stays the
// number of groups.
func (c *Cluster) unite() {
	n := c.Topology.ReplicaCount()
	if n > 1 {
		c.Topology = c.Topology.Whole()
		c.Topology.Replicas = n
		c.Batch *= n
	}
}

// replicate turns the whole cluster that c describes into one of its sharding groups. It returns the
// errors in what files and flags state of the groups.
func replicate(p *Parts, c *Cluster, file TopologyFile) error {
	o, t, n := p.Overrides, &c.Topology, 1
	if o.Has("replicas") || file.Has("replicas") || t.Replicas > 1 {
		n = t.Replicas
	}
	t.Replicas = 0
	var errs []error
	add := func(key, message, hint string) { errs = append(errs, file.fault(o, key, message, hint)) }
	if s := t.SyncEvery; (o.Has("sync_every") || file.Has("sync_every") && !file.open("sync_every")) && (s < 1 || s > hardware.MaxSyncEvery) {
		add("sync_every", fmt.Sprintf("sync every: %d steps are not between 1 and %d", s, hardware.MaxSyncEvery), clusterHint("sync_every"))
		t.SyncEvery = 0
	}
	if n == 1 {
		unused(t, o, add)
		t.SyncEvery, t.InterHostAllReduce = 0, false
		return Join(errs...)
	}
	if file.open("replicas") && !o.Has("replicas") {
		return Join(errs...) // the reading has reported it
	}
	part, wrong := t.Replicated(n)
	switch rest := c.Batch % max(1, n); {
	case wrong != "":
		add("replicas", wrong, hintOf(*t, n))
	case !divisible(*t):
		// Check reports what is wrong with the whole cluster, and groups could hide it.
	case rest != 0:
		less := max(n, c.Batch-rest)
		add("replicas", fmt.Sprintf("replicas: the batch of %d samples does not divide by %d sharding groups", c.Batch, n), fmt.Sprintf("state a batch of %d or %d", less, less+n))
	default:
		c.Topology, c.Batch = part, c.Batch/n
	}
	return Join(errs...)
}

// unused reports settings of the all-reduce of the replicas where there is one group. A flag --set replicas=1
// replaces everything that the file says of groups.
func unused(t *hardware.Topology, o Overrides, add func(key, message, hint string)) {
	for i, key := range []string{"sync_every", "inter_host_allreduce"} {
		if stated := []bool{t.SyncEvery != 0, t.InterHostAllReduce}[i]; stated && (!o.Has("replicas") || o.Has(key)) {
			add(key, strings.ReplaceAll(key, "_", " ")+": there are no replicas to average", "state replicas, the number of sharding groups, or leave "+key+" out")
		}
	}
}

// hintOf returns the hint of a cluster that has no such number of sharding groups: its memories may
// be all that is wrong. Else the hint names the smallest numbers that the cluster allows.
func hintOf(t hardware.Topology, replicas int) string {
	t.DeviceMemories, t.HostMemories = nil, nil
	if _, wrong := t.Replicated(replicas); wrong == "" {
		return memoriesHint
	}
	const most = 4
	var allowed []string
	for n := 2; n <= min(t.Devices, hardware.MaxDevices) && len(allowed) < most; n++ {
		if t.Devices%n != 0 {
			continue
		}
		if _, wrong := t.Replicated(n); wrong == "" {
			allowed = append(allowed, strconv.Itoa(n))
		}
	}
	if len(allowed) == 0 {
		return "this cluster cannot be divided into sharding groups: leave replicas out"
	}
	return "replicas is the number of sharding groups of 2D parallelism; this cluster allows, for example, " + strings.Join(allowed, ", ")
}

// divisible reports whether the fields of a whole cluster that groups divide are in their ranges.
func divisible(t hardware.Topology) bool {
	t.Devices = min(t.Devices, hardware.MaxDevices) // of one group
	return !slices.ContainsFunc(t.Problems(), func(problem string) bool {
		field, _, _ := strings.Cut(problem, ":")
		return field == "devices per host" || field == "nvlink domain" || field == "host memory"
	})
}
