package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/bench"
)

func newBenchAnytimeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "anytime",
		Short: "Compare the plans that methods find within budgets of time",
		Long: `Compare the plans that methods find within budgets of time (--budgets), on one thread,
over the tasks of bench tasks: --count tasks for each of six settings. A trained policy
draws placements until its budget ends.

A cost is divided by the least cost that any method reached with any budget. The wall time
is that of the whole line, from tables to a validated plan with its costs: a method looks
at the clock between its steps, and the embedding of the slices comes before them.`,
		Example: `  neuroshard bench anytime --count 20 --workers 1 --plot anytime.svg
  neuroshard bench anytime --methods neuroshard,paper,lookup --budgets 10ms,1s`,
	}
	f := benchFlags{budgets: bench.AnytimeBudgets()}
	f.contend = func(opt *bench.Options) error {
		opt.Budgets = unique(f.budgets)
		return nil
	}
	benchDrawn(a, cmd, &f, "setting", paperTasks)
	cmd.Flags().DurationSliceVar(&f.budgets, "budgets", bench.AnytimeBudgets(), "`times` to search for a plan, separated by commas")
	return cmd
}
