package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func newBenchStressCommand(a *app) *cobra.Command {
	var (
		f      benchFlags
		device string
		count  int
	)
	cmd := &cobra.Command{
		Use:     "stress",
		Short:   "Compare methods over tasks whose tables nearly fill the memory",
		Long:    `Compare methods over tasks whose tables fill 80 to 99 % of the memory: --count tasks for each of ten families.`,
		Example: `  neuroshard bench stress --count 100`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if err := f.checkCount(count); err != nil {
				return err
			}
			hw, model, err := f.device(a, device)
			if err != nil {
				return err
			}
			prices, err := f.prices(a, model)
			if err != nil {
				return err
			}
			tasks, err := bench.StressTasks(hw, count, f.seed)
			if err != nil {
				return bad(err, "")
			}
			return f.run(cmd.Context(), a, tasks, prices, hw.Name)
		},
	}
	f.register(cmd)
	f.registerSearch(cmd)
	cmd.Flags().StringVar(&device, "device", defaultDevice, "device `profile` of the tasks")
	cmd.Flags().IntVar(&count, "count", 20, "tasks to draw for each family")
	complete(cmd, "device", hardware.Names)
	return cmd
}
