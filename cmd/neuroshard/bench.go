package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/bench"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
)

func newBenchCommand(a *app) *cobra.Command {
	var (
		device  string
		count   int
		names   []string
		records string
		ranking bool
		asJSON  bool
		opt     bench.Options
	)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare planning methods on tasks as the NeuroShard paper draws them",
		Long: `bench draws tasks as the NeuroShard paper does (4 and 8 devices of 4 GiB, largest
dims 16, 64 and 128), plans each with every method, prices each plan on the
simulated device, and sums up by setting: tasks solved, mean and median cost,
the mean over the tasks that all methods solve, the mean ratio to the paper's
search over tasks that both solve, the bias of the predicted cost, and the time
of a plan on one thread.

bench --ranking instead asks whether the cost model puts plans in the right
order: ten tasks of 40 tables on 8 devices.`,
		Example: `  neuroshard bench --count 20
  neuroshard bench --methods neuroshard,paper --count 200 --records out.json
  neuroshard bench --ranking --device h200`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			hw, err := hardware.ByName(device)
			if err != nil {
				return bad(err, "list the profiles with: neuroshard devices")
			}
			if count < 1 || count > bench.MaxTasks {
				return usagef("", "bench: --count %d is not between 1 and %d", count, bench.MaxTasks)
			}
			for _, name := range names {
				if !slices.Contains(search.Methods(), search.Method(name)) {
					return usagef(fmt.Sprintf("choose among %v", search.Methods()), "method %q is unknown", name)
				}
				opt.Methods = append(opt.Methods, search.Method(name))
			}
			bar := a.newMeter()
			defer bar.clear()
			if ranking {
				bar.phase("ranking plans")
				all, err := bench.Rank(cmd.Context(), hw, nil, bench.RankingTasks, opt.Seed)
				if err != nil {
					return err
				}
				bar.clear()
				if asJSON {
					return json.NewEncoder(a.stdout).Encode(all)
				}
				return report.Rankings(a.stdout, all, a.reportOptions())
			}
			tasks, err := bench.PaperTasks(hw, count, opt.Seed)
			if err != nil {
				return err
			}
			opt.OnRecord = func(done, of int) { bar.at(done, of, "planning") }
			all, err := bench.Run(cmd.Context(), tasks, opt)
			if err != nil {
				return err
			}
			bar.clear()
			if records != "" {
				text, err := json.MarshalIndent(all, "", " ")
				if err != nil {
					return err
				}
				if err := bad(os.WriteFile(records, append(text, '\n'), 0o666), "choose a file that can be written"); err != nil {
					return err
				}
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(bench.Summarise(all))
			}
			return report.Comparison(a.stdout, bench.Summarise(all), a.reportOptions())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&device, "device", "a100-80", "hardware `profile` of the devices")
	flags.IntVar(&count, "count", 20, "tasks for each of the six settings")
	flags.StringSliceVar(&names, "methods", nil, "`methods` to compare, separated by commas (default: all)")
	flags.IntVar(&opt.Workers, "workers", 0, "tasks planned at a time (default: all processors)")
	flags.Uint64Var(&opt.Seed, "seed", 1, "seed of the tasks")
	flags.StringVar(&records, "records", "", "`file` to write a JSON record of each task and method to")
	flags.BoolVar(&ranking, "ranking", false, "judge how well the cost model orders plans")
	flags.BoolVar(&asJSON, "json", false, "print the summary as JSON")
	complete(cmd, "device", hardware.Names)
	complete(cmd, "methods", methods)
	return cmd
}
