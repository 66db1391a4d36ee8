package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
)

func newBenchRankingCommand(a *app) *cobra.Command {
	var (
		device, folder, file string
		seed                 uint64
	)
	cmd := &cobra.Command{
		Use:     "ranking",
		Short:   "Judge whether a cost model orders plans as the simulated device does",
		Example: `  neuroshard bench ranking --device h200`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hw, err := hardware.ByName(device)
			if err != nil {
				return bad(err, "list the profiles with: neuroshard devices")
			}
			model, err := a.givenModel(folder)
			if err != nil {
				return err
			}
			if model != nil && model.Manifest().Profile != hw.Name {
				made := model.Manifest().Profile
				return usagef("add --device "+made, "bench ranking: model %s predicts for %s, not for %s", folder, made, hw.Name)
			}
			prices := neuroshard.Pretrained()
			if model != nil {
				prices = neuroshard.Trained(model, 0)
			}
			bar := a.newProgressBar()
			defer bar.clear()
			bar.phase("ranking plans")
			all, err := bench.Rankings(cmd.Context(), hw, prices, bench.RankingTasks, seed)
			if err != nil {
				return err
			}
			bar.clear()
			if file == "-" {
				return bad(a.printJSON(all), "")
			}
			if file != "" {
				if err := writeJSON(file, all); err != nil {
					return err
				}
			}
			return bad(report.Rankings(a.stdout, all, a.reportOptions()), "")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&device, "device", defaultDevice, "device `profile` of the tasks")
	flags.StringVar(&folder, "model", "", "`folder` of the cost model to judge, as train writes it (default: the one inside this binary)")
	flags.Uint64Var(&seed, "seed", 1, "seed of the tasks and of the plans")
	flags.StringVar(&file, "json", "", "`file` to write the result to; - prints it")
	complete(cmd, "device", hardware.Names)
	return cmd
}
