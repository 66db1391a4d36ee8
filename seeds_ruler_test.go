//go:build ruler

package neuroshard_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TestSeedsAgree plans workloads over two hosts, and one with rows in host memory, with ten
// seeds each.
func TestSeedsAgree(t *testing.T) {
	for _, c := range []seedsCase{
		{"hugectr-7", "h200", 8, 2 * unit.TiB, 1.6775, .05},
		{"mlperf-dlrm-dcnv2", "h200", 16, 0, 2.4518, .02},
		{"mlperf-dlrm-dcnv2", "a100-80", 16, 0, 4.1634, .02},
		{"criteo-1tb-uncapped", "a100-80", 16, 0, 2.3753, .02},
		{"criteo-1tb-uncapped", "h200", 16, 0, 1.4411, .025},
		{"nvidia-synthetic-medium", "a100-80", 16, 0, 15.6619, .02},
		{"nvidia-synthetic-large", "h200", 16, 0, 20.9898, .01},
		{"hugectr-7", "b200", 16, 0, 1.1352, .01},
		{"hugectr-510", "a100-80", 16, 0, 57.6266, .025},
		{"hugectr-200", "a100-80", 16, 0, 29.1928, .015},
		{"nvidia-synthetic-small", "a100-80", 16, 0, 2.7838, .015},
		{"mlperf-dlrm-dcnv2", "h200", 64, 0, 1.6709, .03},
		{"mlperf-dlrm-dcnv2", "a100-80", 64, 0, 2.3576, .09},
	} {
		seedsAgree(t, c, 10)
	}
}

// seedsCase is a workload on a cluster of hosts of eight devices. best is the cost in ms of the
// best plan known: the cheapest of twenty seeds. within
// is the share of best by which a plan with any seed may cost more.
type seedsCase struct {
	workload, device string
	devices          int
	hostMemory       unit.Bytes
	best, within     float64
}

// seedsAgree plans the workload with a number of seeds, and compares the most expensive plan with the
// best one known.
func seedsAgree(t *testing.T, c seedsCase, seeds uint64) {
	p := workloadNamed(t, c.workload)
	p.Topology.Profile = profileNamed(t, c.device)
	p.Topology.Devices, p.Topology.DevicesPerHost, p.Topology.HostMemory = c.devices, 8, c.hostMemory
	least, most := math.Inf(1), 0.
	for seed := range seeds {
		r := planned(t, &p, neuroshard.Options{Search: search.Options{Seed: seed, ShardingTypes: problem.ShardingTypes()}})
		least, most = min(least, float64(r.Predicted.Cost)), max(most, float64(r.Predicted.Cost))
	}
	t.Logf("%s on %d x %s: %.4f to %.4f ms, %.2f %% apart, at most %.2f %% above the best known", c.workload, c.devices, c.device, least, most, 100*(most/least-1), 100*(most/c.best-1))
	if most > c.best*(1+c.within) {
		t.Errorf("%s on %d x %s: got a plan of %.4f ms with some seed, want at most %.1f %% above %.4f", c.workload, c.devices, c.device, most, 100*c.within, c.best)
	}
}
