package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

const (
	// shortShare is the HBM of a memory-short cluster, as a share of what the tables
	// take with their optimizer state; hostMemory is what each of its hosts has.
	shortShare = .6
	hostMemory = 2048 * unit.GiB
	// leastShort is the size of tables, with state, from which on a workload is in the
	// table.
	leastShort = 10 * unit.GiB
)

// short prints, for each workload on its own cluster with too little HBM, the plan that
// uses the hosts' memory, beside the smallest cluster that holds all in HBM, and beside
// the same cluster with the HBM of its profile.
func short(ctx context.Context, p *program) error {
	p.head("workload", "cluster", ">tables, GiB", ">HBM, GiB each", ">with host memory, ms", ">in HBM, ms", "smallest in HBM", ">ms", "tables by sharding type", "in host memory")
	for _, name := range p.workloads {
		w, err := workload.ByName(name)
		if err != nil {
			return err
		}
		enough := w.Problem()
		bytes := tableBytes(&enough)
		if bytes < leastShort {
			continue
		}
		q := enough
		q.Topology.HostMemory = hostMemory
		q.Topology.Memory = unit.Bytes(shortShare * float64(bytes) / float64(q.Topology.Devices))
		cells := []string{name, cluster(q.Topology), fmt.Sprintf("%.0f", float64(bytes)/float64(unit.GiB)), fmt.Sprintf("%.1f", float64(q.Topology.Memory)/float64(unit.GiB))}
		hosted, err := placed(ctx, &q, problem.ShardingTypes())
		if err != nil {
			return err
		}
		full, err := placed(ctx, &enough, problem.ShardingTypes())
		if err != nil {
			return err
		}
		least, leastOn, err := smallest(ctx, enough)
		if err != nil {
			return err
		}
		kinds, tiers := "-", "-"
		if hosted != nil {
			kinds, tiers = shardingTypesOf(hosted.Plan), hostOf(hosted.Plan)
		}
		p.row(append(cells, cost(hosted), cost(full), cluster(leastOn), cost(least), kinds, tiers)...)
	}
	return nil
}

// tableBytes returns what all tables take with their optimizer state, and without
// buffers.
func tableBytes(p *problem.Problem) (sum unit.Bytes) {
	for i := range p.Tables {
		m := p.ShardMemory(p.Whole(i))
		sum += m.Weights + m.Optimizer
	}
	return sum
}

// smallest returns the plan on the fewest devices of the problem's profile, with all
// their HBM and eight a host, that hold all tables in HBM.
func smallest(ctx context.Context, p problem.Problem) (*neuroshard.Result, hardware.Topology, error) {
	p.Topology.Memory, p.Topology.DevicesPerHost = 0, hostSize
	bytes := tableBytes(&p)
	first := max(1, int(math.Ceil(float64(bytes)/float64(p.Topology.Budget(0)))))
	most := search.DevicesNeeded(&p)
	for n := first; n <= most; n++ {
		p.Topology.Devices = n
		p.Topology.DevicesPerHost = min(n, hostSize)
		if found, err := placed(ctx, &p, problem.ShardingTypes()); found != nil || err != nil {
			return found, p.Topology, err
		}
	}
	return nil, p.Topology, fmt.Errorf("no number of %s holds the tables", p.Topology.Profile.Name)
}

// hostOf says which shards lie in host memory, by tier and cache share.
func hostOf(pl *plan.Plan) string {
	type key struct {
		tier  plan.Tier
		cache float64
	}
	tables := map[key]int{}
	for _, t := range pl.Tables {
		seen := map[key]bool{}
		for _, s := range t.Shards {
			if s.Tier.OnHost() {
				seen[key{s.Tier, s.Cache}] = true
			}
		}
		for k := range seen {
			tables[k]++
		}
	}
	keys := slices.SortedFunc(maps.Keys(tables), func(a, b key) int {
		if a.tier != b.tier {
			return strings.Compare(string(a.tier), string(b.tier))
		}
		if a.cache < b.cache {
			return -1
		}
		return 1
	})
	var parts []string
	for _, k := range keys {
		text := fmt.Sprintf("%d %s", tables[k], k.tier)
		if k.tier == problem.HostCached {
			text += fmt.Sprintf(" (%.3g)", k.cache)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
