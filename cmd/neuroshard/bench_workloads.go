package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/workload"
)

func newBenchWorkloadsCommand(a *app) *cobra.Command {
	var (
		f        = benchFlags{gains: true, certificate: true}
		clusters []string
	)
	cmd := &cobra.Command{
		Use:   "workloads [NAME...]",
		Short: "Compare methods over workloads known by name",
		Long: `Compare methods over workloads, each on two clusters (--clusters). Without a NAME
all published workloads are planned.

It prints a line for each task: the cost of the plans of neuroshard, of paper and of
the best baseline, how much less the plan of neuroshard costs than the others, how far
that plan can be from the best possible plan, and the time to find it. The line says
which methods found no plan, or none within time_limit. Means and medians follow,
each with the number of its tasks.

With the published prototype's nets (compute_model, forward_model and
backward_model), name clusters of the number of devices that the nets are for. The
nets then plan and judge.`,
		Example: `  neuroshard lab bench workloads --json workloads.json
  neuroshard lab bench workloads hugectr-200 --clusters default,8xh100-80 --methods neuroshard,paper
  neuroshard lab bench workloads hugectr-200 criteo-kaggle --clusters default --set annealing --set predicted --budgets 10ms,1s
  neuroshard lab bench workloads criteo-kaggle --set score=plan.json`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return workload.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			all := faults{f.check(), f.alone("budgets", "time-limit")}
			all.add(f.timeLimit <= 0, "", "%s: time_limit %v is not above 0", f.name, f.timeLimit)
			if err := all.err(); err != nil {
				return err
			}
			model, err := a.givenModel(f.model)
			if err != nil {
				return err
			}
			prices, err := f.prices(a, model)
			if err != nil {
				return err
			}
			tasks, err := workloadTasks(names, clusters)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), a, tasks, prices, defaultDevice)
		},
	}
	f.register(cmd)
	f.registerSearch(cmd)
	f.nets.register(cmd)
	cmd.Flags().StringSliceVar(&clusters, "clusters", []string{bench.DefaultCluster, bench.OtherCluster}, "`clusters` to plan on: default, other, or devices of a profile such as 16xh100-80")
	cmd.Flags().DurationVar(&f.timeLimit, "time-limit", time.Minute, "`time` after which the search for a plan is ended, such as 90s")
	complete(cmd, "clusters", func() []string { return []string{bench.DefaultCluster, bench.OtherCluster} })
	return cmd
}

// workloadTasks returns the tasks of planning workloads on clusters: of all published
// workloads if there are no names.
func workloadTasks(names, clusters []string) ([]bench.Task, error) {
	if len(names) == 0 {
		names = workload.Names()
	}
	known := make([]string, len(names))
	for i, name := range names {
		w, err := workload.ByName(name)
		if err != nil {
			return nil, bad(err, "list them with: neuroshard list workloads")
		}
		known[i] = w.Name
	}
	tasks, err := bench.WorkloadTasks(unique(known), unique(clusters))
	return tasks, bad(err, "list the device profiles with: neuroshard list devices")
}
