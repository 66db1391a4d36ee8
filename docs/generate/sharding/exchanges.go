package main

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// exchanging are the workloads of the tables of precision and traffic, unless others
// are named: each on several hosts.
var exchanging = []string{"mlperf-dlrm-dcnv2", "nvidia-synthetic-medium", "hugectr-510", "nvidia-synthetic-jumbo"}

// precision prints what plans over several hosts cost whose pooled vectors and gradients
// travel in fp32, fp16 and bf16.
func precision(ctx context.Context, p *program) error {
	p.head("workload", "cluster", ">hosts", ">fp32, ms", ">fp16, ms", ">bf16, ms", ">saved by fp16 %", ">compute, ms", ">exchanges, ms", "tables by sharding type, fp16")
	return eachExchanging(p.workloads, func(name string, q *problem.Problem) error {
		var of [3]*neuroshard.Result
		for i, precision := range []problem.Precision{problem.FP32, problem.FP16, problem.BF16} {
			q.CommPrecision = precision
			r, err := placed(ctx, q, problem.ShardingTypes())
			if err != nil {
				return err
			}
			if of[i] = r; r == nil {
				return fmt.Errorf("workload %s: no plan on %s", name, cluster(q.Topology))
			}
		}
		p.row(name, cluster(q.Topology), fmt.Sprint(q.Topology.Hosts()), cost(of[0]), cost(of[1]), cost(of[2]), gain(of[0], of[1]),
			change(of[0], of[1], compute), change(of[0], of[1], exchanges), shardingTypesOf(of[1].Plan))
		return nil
	})
}

// traffic prints, for plans over several hosts, how many bytes the exchanges of a step
// move between devices, and which share of them stays inside hosts.
func traffic(ctx context.Context, p *program) error {
	p.head("workload", "cluster", ">hosts", "sharding types", ">between devices, GB", ">inside hosts %", ">between hosts, GB", ">cost, ms", "tables by sharding type")
	return eachExchanging(p.workloads, func(name string, q *problem.Problem) error {
		for _, kinds := range []struct {
			name string
			list []problem.ShardingType
		}{{"table- and column-wise", columnsOnly}, {"all", problem.ShardingTypes()}, {"table_row_wise, grid, data_parallel", []problem.ShardingType{problem.TableRowWise, problem.Grid, problem.DataParallel}}} {
			r, err := placed(ctx, q, kinds.list)
			if err != nil {
				return err
			}
			if r == nil {
				p.row(name, cluster(q.Topology), fmt.Sprint(q.Topology.Hosts()), kinds.name, "-", "-", "-", "none", "-")
				continue
			}
			inside, between := moved(q, r.Shards)
			p.row(name, cluster(q.Topology), fmt.Sprint(q.Topology.Hosts()), kinds.name, fmt.Sprintf("%.2f", (inside+between)/1e9),
				fmt.Sprintf("%.1f", 100*inside/(inside+between)), fmt.Sprintf("%.2f", between/1e9), cost(r), shardingTypesOf(r.Plan))
		}
		return nil
	})
}

// eachExchanging calls f with each of the named workloads on several hosts. If all
// workloads are named, it takes exchanging instead.
func eachExchanging(names []string, f func(name string, q *problem.Problem) error) error {
	if len(names) == len(workload.Names()) {
		names = exchanging
	}
	for _, name := range names {
		w, err := workload.ByName(name)
		if err != nil {
			return err
		}
		if err := f(name, severalHosts(w)); err != nil {
			return err
		}
	}
	return nil
}

// moved returns the bytes that the exchanges of a step move between devices of one host
// and between those of different ones, forward and backward together, by the collectives
// that docs/SIMULATED.md prices. All hosts must be full.
func moved(p *problem.Problem, shards [][]problem.Shard) (inside, between float64) {
	n, l := float64(p.Topology.Devices), float64(p.Topology.PerHost())
	hosts := float64(p.Topology.Hosts())
	element := float64(p.CommBytes())
	vectors := float64(p.Batch) * element
	var slices, byRows, byHost, replicated float64
	for d, list := range shards {
		for _, s := range list {
			columns := float64(s.Dim()) * float64(len(p.Tables[s.Table].Features))
			switch p.Form(s).ShardingType {
			case problem.RowWise:
				if d == 0 {
					byRows += columns
				}
			case problem.TableRowWise:
				if d%p.Topology.PerHost() == 0 {
					byHost += columns
				}
			case problem.DataParallel:
				if d == 0 {
					replicated += float64(s.Rows.Len()) * float64(s.Dim())
				}
			default:
				slices += columns
			}
		}
	}
	// An all-to-all sends each device an equal part of every column; backward the same.
	inside += 2 * slices * vectors / n * (l - 1)
	between += 2 * slices * vectors / n * (n - l)
	// Rings over all devices, host by host: of a host's l ways one leads out of it.
	ring := 2 * (n - 1) * byRows * vectors
	inside += ring * (n - hosts) / n
	between += ring * hosts / n
	// Rings in each host, and then the sums to those that train on them.
	inside += 2 * (l - 1) * byHost * vectors
	between += 2 * (hosts - 1) / hosts * byHost * vectors
	// All-reduce in the hosts, and between them each device its part.
	inside += n * 2 * (l - 1) / l * replicated * element
	between += n * 2 * (hosts - 1) / hosts / l * replicated * element
	return inside, between
}
