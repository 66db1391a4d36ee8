package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// placing.go plans, and says in words what came out.

// hostSize is the devices of a host, as in a DGX or HGX.
const hostSize = 8

// columnsOnly is the option of the search for slices of columns only.
var columnsOnly = search.Columns()

// placed plans a problem with the given sharding types; nil if nothing fits.
func placed(ctx context.Context, p *problem.Problem, kinds []problem.ShardingType) (*neuroshard.Result, error) {
	result, err := neuroshard.Plan(ctx, p, neuroshard.Options{Search: search.Options{ShardingTypes: kinds, Brief: true}})
	var infeasible *search.Infeasible
	if errors.As(err, &infeasible) {
		return nil, nil
	}
	if err == nil && result.Status == search.Interrupted {
		err = context.Cause(ctx)
	}
	return result, err
}

// problemOn returns a workload on a number of devices of its own profile, with a number of
// devices on each host.
func problemOn(w workload.Workload, devices, perHost int) *problem.Problem {
	p := w.Problem()
	p.Topology.Devices, p.Topology.DevicesPerHost = devices, perHost
	return &p
}

// oneHost returns a workload on one host of eight devices. If these cannot hold its tables
// with any sharding type, the number is doubled until they can.
func oneHost(ctx context.Context, w workload.Workload) (*problem.Problem, error) {
	for n := hostSize; n <= hardware.MaxDevices; n *= 2 {
		p := problemOn(w, n, n)
		if all, err := placed(ctx, p, problem.ShardingTypes()); all != nil || err != nil {
			return p, err
		}
	}
	return nil, fmt.Errorf("workload %s: no host holds its tables", w.Name)
}

// severalHosts returns a workload on its own cluster, if that has several hosts, or
// on two of eight devices.
func severalHosts(w workload.Workload) *problem.Problem {
	if w.Cluster.Hosts() > 1 {
		return problemOn(w, w.Cluster.Devices, w.Cluster.PerHost())
	}
	return problemOn(w, 2*hostSize, hostSize)
}

// cluster returns what a topology is called in the tables.
func cluster(t hardware.Topology) string {
	return fmt.Sprintf("%d x %s", t.Devices, t.Profile.Name)
}

// compute returns the longest time that a device computes, and exchanges what a plan
// costs beyond that: exchanges, packing and waiting. Both SIMULATED.
func compute(r *neuroshard.Result) (longest unit.Millis) {
	for _, d := range r.Simulated.Devices {
		longest = max(longest, d.Forward+d.Backward)
	}
	return longest
}

func exchanges(r *neuroshard.Result) unit.Millis { return r.Simulated.Cost - compute(r) }

// shardingTypesOf returns the number of tables of each sharding type, in words.
func shardingTypesOf(pl *plan.Plan) string { return inWords(pl.ShardingTypes()) }

func inWords(count map[problem.ShardingType]int) string {
	var parts []string
	for _, k := range problem.ShardingTypes() {
		if count[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[k], k))
		}
	}
	return strings.Join(parts, ", ")
}

// cost returns a result's simulated cost, or none where nothing fits.
func cost(r *neuroshard.Result) string {
	if r == nil {
		return "none"
	}
	return millis(r.Simulated.Cost)
}

func millis(ms unit.Millis) string { return fmt.Sprintf("%.3f", float64(ms)) }

// gain returns by how many percent a cost is below another one.
func gain(before, after *neuroshard.Result) string {
	if before == nil || after == nil {
		return "-"
	}
	percent := fmt.Sprintf("%.1f", 100*(1-float64(after.Simulated.Cost/before.Simulated.Cost)))
	if percent == "-0.0" {
		return "0.0"
	}
	return percent
}

// change returns a quantity of two results, before and after.
func change(before, after *neuroshard.Result, of func(*neuroshard.Result) unit.Millis) string {
	switch {
	case after == nil:
		return "-"
	case before == nil:
		return millis(of(after))
	}
	return millis(of(before)) + " to " + millis(of(after))
}
