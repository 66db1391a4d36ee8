package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// Names of clusters that depend on the workload.
const (
	// DefaultCluster is the workload's own cluster.
	DefaultCluster = "default"
	// OtherCluster is a cluster of newer devices, about half their number: h200, or b200 where
	// the default is of h200. It has half the devices of the default, and
	// that number is doubled until the tables, unsplit and with their buffers, take at
	// most 85 % of the memory that shards may take. So the two clusters differ in
	// kernels, in network, in hosts and in how full they are. Devices older than the
	// default ones may be too small: 4 columns of one table of hugectr-7 take 75 GiB.
	OtherCluster = "other"
)

// Facts of the clusters. The hosts are those of a DGX or HGX: 8 devices each.
const (
	fullest        = .85
	devicesPerHost = 8
	newer, newest  = "h200", "b200"
)

// WorkloadTasks returns published or drawn workloads on clusters: a setting for
// each workload, with a task named "workload/8xa100-80" for each different
// cluster. A cluster is DefaultCluster, OtherCluster, or a number of devices of a
// profile, such as "16xh100-80", eight a host, all with the reserve of the default
// one.
func WorkloadTasks(names, clusters []string) ([]Task, error) {
	if len(clusters) == 0 {
		return nil, fmt.Errorf("no clusters are named: want %q, %q, or devices of a profile such as 16xh100-80", DefaultCluster, OtherCluster)
	}
	var tasks []Task
	for _, name := range names {
		w, err := workload.ByName(name)
		if err != nil {
			return nil, err
		}
		first := len(tasks)
		for _, cluster := range clusters {
			p := w.Problem()
			if p.Topology, err = clusterOf(&p, cluster); err != nil {
				return nil, fmt.Errorf("workload %s: cluster %q: %w", w.Name, cluster, err)
			}
			task := Task{w.Name, fmt.Sprintf("%s/%dx%s", w.Name, p.Topology.Devices, p.Topology.Profile.Name), p}
			if !slices.ContainsFunc(tasks[first:], func(t Task) bool { return t.Name == task.Name }) {
				tasks = append(tasks, task)
			}
		}
	}
	return tasks, nil
}

// clusterOf returns the cluster of that name for a workload's problem, whose topology is
// the default cluster.
func clusterOf(p *problem.Problem, name string) (hardware.Topology, error) {
	t := p.Topology
	switch name {
	case DefaultCluster:
		return t, nil
	case OtherCluster:
		return other(p)
	}
	number, profile, found := strings.Cut(name, "x")
	devices, err := strconv.Atoi(number)
	if !found || err != nil {
		return t, fmt.Errorf("want %q, %q, or devices of a profile such as 16xh100-80", DefaultCluster, OtherCluster)
	}
	if t.Profile, err = hardware.ByName(profile); err != nil {
		return t, err
	}
	t.Devices, t.DevicesPerHost = devices, devicesPerHost
	if problems := t.Problems(); len(problems) > 0 {
		return t, fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	return t, nil
}

// other returns the cluster that OtherCluster names.
func other(p *problem.Problem) (hardware.Topology, error) {
	profile := newer
	if p.Topology.Profile.Name == newer {
		profile = newest
	}
	resized := *p
	t := &resized.Topology
	var err error
	if t.Profile, err = hardware.ByName(profile); err != nil {
		return *t, err
	}
	t.DevicesPerHost = devicesPerHost
	for t.Devices = max(2, t.Devices/2); t.Devices <= hardware.MaxDevices; t.Devices *= 2 {
		if fullness(&resized) <= fullest {
			return *t, nil
		}
	}
	return *t, fmt.Errorf("no number of %s up to %d holds the tables", profile, hardware.MaxDevices)
}

// fullness returns the share that the tables, unsplit, take of the memory that shards
// may take; above 1 if there is no such memory.
func fullness(p *problem.Problem) float64 {
	room := float64(p.LargestBudget()[problem.ForwardExchange]) * float64(p.Topology.Devices)
	if room <= 0 {
		return 2
	}
	total := 0.0
	for i := range p.Tables {
		total += float64(p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used())
	}
	return total / room
}
