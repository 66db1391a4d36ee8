package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// ownDevices is the number of devices of tasks that are drawn for a device that no
// built-in profile describes.
const ownDevices = 4

func newBenchTasksCommand(a *app) *cobra.Command {
	var (
		f      benchFlags
		device string
		count  int
	)
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Compare methods over tasks drawn as the NeuroShard paper draws them",
		Long: `Compare methods over tasks drawn as the NeuroShard paper draws them: --count tasks
for each of six settings.

If the device of --model has no built-in profile, tasks are drawn for that device:
--count tasks of 12 to 24 tables and --count of 25 to 40, on four devices.

The published prototype's nets (--compute-model, --forward-model and --backward-model)
are for one number of devices, 4 or 8. With them, tasks are drawn for the three settings
of that number, and the nets plan and judge.`,
		Example: `  neuroshard bench tasks --count 20 --json out.json --plot out.svg
  neuroshard bench tasks --model cpu-model --backend cpu --count 10 --json measured.json`,
		Args: exactArgs(),
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
			draw := func() ([]bench.Task, error) { return bench.PaperTasks(hw, count, f.seed) }
			if !hardware.Known(hw.Name) {
				draw = func() ([]bench.Task, error) {
					return bench.OwnTasks(hw, model.Manifest().Domain, ownDevices, count, f.seed)
				}
			}
			tasks, err := draw()
			if err != nil {
				return bad(err, "")
			}
			if f.nets.given() {
				tasks = bench.Estimable(tasks, prices)
			}
			return f.run(cmd.Context(), a, tasks, prices, hw.Name)
		},
	}
	f.register(cmd)
	f.registerSearch(cmd)
	f.nets.register(cmd)
	cmd.Flags().StringVar(&device, "device", defaultDevice, "device `profile` of the tasks")
	cmd.Flags().IntVar(&count, "count", 20, "tasks to draw for each setting")
	complete(cmd, "device", hardware.Names)
	return cmd
}

// defaultDevice is the profile of the tasks of bench.
const defaultDevice = "a100-80"
