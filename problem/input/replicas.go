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
	g := replicaFaults{file: file, flags: o}
	if s := t.SyncEvery; (o.Has("sync_every") || file.Has("sync_every") && !file.open("sync_every")) && (s < 1 || s > hardware.MaxSyncEvery) {
		g.add("sync_every", fmt.Sprintf("sync every: %d steps are not between 1 and %d", s, hardware.MaxSyncEvery), syncHint)
		t.SyncEvery = 0
	}
	if n == 1 {
		g.unused(t)
		t.SyncEvery, t.InterHostAllReduce = 0, false
		return Join(g.errs...)
	}
	if file.open("replicas") && !o.Has("replicas") {
		return Join(g.errs...) // the reading has reported it
	}
	part, wrong := t.Replicated(n)
	switch rest := c.Batch % max(1, n); {
	case wrong != "":
		g.add("replicas", wrong, hintOf(*t, n))
	case !divisible(*t):
		// Check reports what is wrong with the whole cluster, and groups could hide it.
	case rest != 0:
		less := max(n, c.Batch-rest)
		g.add("replicas", fmt.Sprintf("replicas: the batch of %d samples does not divide by %d sharding groups", c.Batch, n), fmt.Sprintf("state a batch of %d or %d", less, less+n))
	default:
		c.Topology, c.Batch = part, c.Batch/n
	}
	return Join(g.errs...)
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

// replicaFaults collects what is wrong with the sharding groups that a file or flags state.
type replicaFaults struct {
	file  TopologyFile
	flags Overrides
	errs  []error
}

// add adds an error of the key, at its line if the file states the value.
func (g *replicaFaults) add(key, message, hint string) {
	one := Error{Message: message, Hint: hint}
	if g.file.Has(key) && !g.flags.Has(key) {
		one.File, one.Line = g.file.Name, g.file.lines[key]
	}
	g.errs = append(g.errs, &Errors{List: []Error{one}})
}

// unused adds an error for each setting of the all-reduce of the replicas if there is one group only.
// A flag --replicas 1 replaces everything that the file says of groups.
func (g *replicaFaults) unused(t *hardware.Topology) {
	byFile := !g.flags.Has("replicas")
	if t.SyncEvery != 0 && (byFile || g.flags.Has("sync_every")) {
		g.add("sync_every", "sync every: there are no replicas to average", "state replicas, the number of sharding groups, or leave sync_every out")
	}
	if t.InterHostAllReduce && (byFile || g.flags.Has("inter_host_allreduce")) {
		g.add("inter_host_allreduce", "inter host allreduce: there are no replicas to average", "state replicas, the number of sharding groups, or leave inter_host_allreduce out")
	}
}
