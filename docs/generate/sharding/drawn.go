package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

const (
	// drawnProblems are drawn for each share of HBM.
	drawnProblems = 25
	// noticed is the least share by which a plan must cost more than another one to be counted.
	noticed = .005
)

// drawn prints, for small drawn problems whose tables have little HBM, how often the
// search among all sharding types ends at a more expensive plan, by the model, than one that is
// restricted: to slices of columns in HBM and host memory, or in HBM alone.
func drawn(ctx context.Context, p *program) error {
	p.head(">HBM for tables, % of their bytes", ">problems", ">without a plan", ">gain over slices, %", fmt.Sprintf(">more than %.1f %% more expensive", 100*noticed), ">by at most, %")
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		return err
	}
	for _, share := range []float64{.4, .6, .8, .95, 1.02, 1.1, 1.3} {
		none, worse, most, gains, planned := 0, 0, 0., 0., 0.
		for i := range uint64(drawnProblems) {
			q := drawnProblem(profile, i, share)
			all, err := placed(ctx, q, problem.ShardingTypes())
			if err != nil {
				return err
			}
			if all == nil {
				none++
				continue
			}
			least := math.Inf(1)
			for _, host := range []unit.Bytes{hostMemory, 0} {
				q.Topology.HostMemory = host
				slices, err := placed(ctx, q, columnsOnly)
				if err != nil {
					return err
				}
				if slices != nil {
					least = min(least, float64(slices.Predicted.Cost))
				}
			}
			over := float64(all.Predicted.Cost)/least - 1
			if most = max(most, over); over > noticed {
				worse++
			}
			if !math.IsInf(least, 1) {
				gains += math.Log1p(over)
				planned++
			}
		}
		p.row(fmt.Sprintf("%.0f", 100*share), fmt.Sprint(drawnProblems), fmt.Sprint(none), fmt.Sprintf("%.1f", 100*(1-math.Exp(gains/max(1, planned)))), fmt.Sprint(worse), fmt.Sprintf("%.1f", 100*most))
	}
	return nil
}

// drawnProblem draws 3 to 24 tables and a cluster of 2 to 16 devices on one host or two,
// which for tables have a share of the HBM that these take, and much host memory.
func drawnProblem(profile hardware.Profile, seed uint64, share float64) *problem.Problem {
	random := rand.New(rand.NewPCG(seed, 7))
	perHost, hosts := 2<<random.IntN(3), 1+random.IntN(2)
	p := &problem.Problem{
		Batch:    []int{4096, 65536}[random.IntN(2)],
		Topology: hardware.Topology{Profile: profile, Devices: perHost * hosts, DevicesPerHost: perHost, HostMemory: hostMemory, ReserveShare: hardware.NoReserve},
	}
	for i := range 3 + random.IntN(22) {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprintf("t%d", i), Rows: int64(math.Exp(5 + 13*random.Float64())), Dim: 16 << random.IntN(4),
			Features: []problem.Feature{{PoolingFactor: math.Exp(4 * random.Float64())}},
		})
	}
	all := unit.Bytes(0)
	for i := range p.Tables {
		all += p.ShardMemory(p.Whole(i)).Total() // with what the shard sends
	}
	p.Topology.Memory = p.DeviceMemory(0).Total() + unit.Bytes(share*float64(all)/float64(p.Topology.Devices))
	return p
}
