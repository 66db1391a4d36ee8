package main

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// paperTasks is the number of tasks of each of the paper's settings that the means are of.
const paperTasks = 20

// total is the sum of results of type T over problems.
type total[T any] interface {
	*T
	// add adds the result of one more problem.
	add(result T)
	// row prints the means of the sum over n problems.
	row(p *program, name, cluster string, n int)
}

// eachProblem prints a row for each workload on its default cluster and on one of newer
// devices, with all sharding types, and for the mean of the tasks of each of the paper's
// settings, with slices of columns. resultOf computes the result of one problem.
func eachProblem[T any, S total[T]](ctx context.Context, p *program, resultOf func(context.Context, *problem.Problem, []problem.ShardingType) (T, error)) error {
	tasks, err := bench.WorkloadTasks(p.workloads, []string{bench.DefaultCluster, bench.OtherCluster})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		result, err := resultOf(ctx, &t.Problem, problem.ShardingTypes())
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		S(&result).row(p, t.Setting, cluster(t.Problem.Topology), 1)
	}
	for _, spec := range workload.PaperSettings() {
		var sum T
		for i := range paperTasks {
			w, err := workload.ByName(fmt.Sprintf("paper-%s-%d", spec.Name, i))
			if err != nil {
				return err
			}
			q := w.Problem()
			result, err := resultOf(ctx, &q, columnsOnly)
			if err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			S(&sum).add(result)
		}
		S(&sum).row(p, fmt.Sprintf("paper's %s, mean of %d tasks", spec.Name, paperTasks), fmt.Sprintf("%d x a100-80", spec.Devices), paperTasks)
	}
	return nil
}
