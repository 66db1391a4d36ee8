package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/bench"
)

func newBenchPlansCommand(a *app) *cobra.Command {
	var (
		f      benchFlags
		tables string
	)
	cmd := &cobra.Command{
		Use:   "plans PLAN... --tables TABLES",
		Short: "Estimate the costs of given plans of the same tables",
		Long: `Estimate the costs of given plans of the same tables, and compare them. Each plan
stands as a method under the name of its file. The cluster is that of the first plan.

TABLES is what was planned: a file or workload:NAME.`,
		Example: `  neuroshard lab bench plans ours.json theirs.json --tables tables.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("usage: "+cmd.UseLine(), "bench plans: PLAN is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.score = args; tables == "" {
				return usagef("name what was planned: --tables tables.json", "bench plans: --tables is missing")
			}
			if err := f.check(); err != nil {
				return err
			}
			for _, output := range []string{f.json, f.plot} {
				if err := a.overwrites(output, append(slices.Clone(args), tables, f.model)...); err != nil {
					return err
				}
			}
			model, err := a.givenModel(f.model)
			if err != nil {
				return err
			}
			prices, err := f.prices(a, model)
			if err != nil {
				return err
			}
			task, err := plannedTask(a, args[0], tables, model)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), a, []bench.Task{task}, prices, task.Problem.Topology.Profile.Name)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&tables, "tables", "", "the `tables` that the plans place: a file or workload:NAME")
	return cmd
}

// plannedTask returns the task that a plan is for: the tables on the cluster of the
// plan.
func plannedTask(a *app, path, tables string, model *cost.Model) (bench.Task, error) {
	pl, err := a.readPlan(path)
	if err != nil {
		return bench.Task{}, err
	}
	flags := &clusterFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
	own := clusterOf(pl, flags)
	if model != nil && model.Hardware().Name == own.Topology.Profile.Name {
		own.Topology.Profile = model.Hardware()
	}
	l, err := loadProblem(a, tables, flags, own)
	if err != nil {
		return bench.Task{}, err
	}
	name := bench.SettingOf(tables)
	return bench.Task{Setting: name, Name: name, Problem: *l.problem}, nil
}
