package main

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/simulate/bound"
)

// families are the sharding types that are allowed one family at a time, with slices of
// columns, to see which of them a gain comes from.
var families = [][]problem.ShardingType{{problem.RowWise}, {problem.TableRowWise, problem.Grid}, {problem.DataParallel}}

// gains prints, for each workload on one host and on several, what all sharding
// types save over table- and column-wise placement; and then what each family saves alone.
func gains(ctx context.Context, p *program) error {
	p.head("workload", "cluster", ">hosts", ">table- and column-wise, ms", ">all types, ms", ">gain %", ">compute, ms", ">exchanges, ms", "tables by sharding type", ">within %")
	type line struct {
		cells []string
		gains []string
	}
	var lines []line
	for _, name := range p.workloads {
		w, err := workload.ByName(name)
		if err != nil {
			return err
		}
		single, err := oneHost(ctx, w)
		if err != nil {
			return err
		}
		for _, q := range []*problem.Problem{single, severalHosts(w)} {
			columns, err := placed(ctx, q, columnsOnly)
			if err != nil {
				return err
			}
			all, err := placed(ctx, q, problem.ShardingTypes())
			if err != nil {
				return err
			}
			if all == nil {
				return fmt.Errorf("workload %s: no plan on %s in any kind", name, cluster(q.Topology))
			}
			within, err := certified(ctx, q, all)
			if err != nil {
				return err
			}
			where := []string{name, cluster(q.Topology), fmt.Sprint(q.Topology.Hosts())}
			p.row(append(where, cost(columns), cost(all), gain(columns, all), change(columns, all, compute), change(columns, all, exchanges), shardingTypesOf(all.Plan), within)...)
			l := line{cells: where}
			for _, family := range families {
				if len(family) > 1 && q.Topology.Hosts() == 1 { // one host is all devices
					l.gains = append(l.gains, "-")
					continue
				}
				one, err := placed(ctx, q, append([]problem.ShardingType{problem.TableWise, problem.ColumnWise}, family...))
				if err != nil {
					return err
				}
				if one == nil {
					l.gains = append(l.gains, "none")
					continue
				}
				l.gains = append(l.gains, gain(columns, one))
			}
			l.gains = append(l.gains, gain(columns, all))
			lines = append(lines, l)
		}
	}
	fmt.Fprintln(p.out)
	p.head("workload", "cluster", ">hosts", ">row_wise", ">table_row_wise, grid", ">data_parallel", ">all")
	for _, l := range lines {
		p.row(append(l.cells, l.gains...)...)
	}
	return nil
}

// certified returns how many percent a plan can be above the best one of all sharding types.
func certified(ctx context.Context, p *problem.Problem, r *neuroshard.Result) (string, error) {
	b, err := bound.Simulated(ctx, p, bound.Allowed{ShardingTypes: problem.ShardingTypes(), Host: p.Topology.HostMemory > 0, Operators: true})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.1f", 100*bound.Gap(r.Simulated.Cost, b.Total)), nil
}
