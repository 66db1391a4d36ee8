package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/workload"
)

func newBenchAnytimeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "anytime [NAME...]",
		Short: "Compare the plans that methods find within budgets of time",
		Long: `Compare the plans that methods find within budgets of time (--budgets), on one thread,
over the tasks of bench tasks: --count tasks for each of six settings. With a NAME the
tasks are workloads, each on its own cluster. A trained policy draws placements until its
budget ends. --annealing adds simulated annealing from a simple placement, with the changes
of the default method: one run that cools down over its budget. --beside adds plans of other
programs, each with the time that the file states.

A cost is divided by the least cost that any method reached with any budget. --predicted
compares the costs that the methods minimise and not those of the simulated device. The wall time
is that of the whole line, from tables to a validated plan with its costs: a method looks
at the clock between its steps, and the embedding of the slices comes before them. With
--workers 1 there is also the processor time, and the budgets are of processor time, so that
other programs on the machine change the result less.`,
		Example: `  neuroshard bench anytime --count 20 --workers 1 --plot anytime.svg
  neuroshard bench anytime --methods neuroshard,paper,lookup --budgets 10ms,1s
  neuroshard bench anytime hugectr-200 criteo-kaggle --annealing --predicted`,
	}
	var annealing, predicted bool
	f := benchFlags{budgets: bench.AnytimeBudgets()}
	f.contend = func(opt *bench.Options) error {
		opt.Budgets, opt.Predicted, opt.Processor = unique(f.budgets), predicted, processorSeconds
		if annealing {
			opt.Contenders = append(opt.Contenders, bench.Annealing())
		}
		return nil
	}
	benchDrawn(a, cmd, &f, "setting", paperTasks)
	drawn := cmd.RunE
	cmd.Args = cobra.ArbitraryArgs
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return workload.Names(), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if len(names) == 0 {
			return drawn(cmd, nil)
		}
		return f.workloads(cmd, a, names)
	}
	cmd.Flags().BoolVar(&annealing, "annealing", false, "compare simulated annealing from a simple placement as well")
	cmd.Flags().BoolVar(&predicted, "predicted", false, "compare predicted costs")
	cmd.Flags().StringSliceVar(&f.beside, "beside", nil, "compare the plans in these `files` of bench --json as well, with their times")
	cmd.Flags().DurationSliceVar(&f.budgets, "budgets", bench.AnytimeBudgets(), "`times` to search for a plan, separated by commas")
	return cmd
}

// workloads compares methods over workloads, each on its own cluster.
func (f *benchFlags) workloads(cmd *cobra.Command, a *app, names []string) error {
	for _, other := range []string{"count", "device"} {
		if cmd.Flags().Changed(other) {
			return usagef("leave one of them out", "%s: --%s is about drawn tasks and does not go with a workload", f.name, other)
		}
	}
	if err := f.check(); err != nil {
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
	tasks, err := workloadTasks(names, []string{bench.DefaultCluster})
	if err != nil {
		return err
	}
	return f.run(cmd.Context(), a, tasks, prices, defaultDevice)
}
