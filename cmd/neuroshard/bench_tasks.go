package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// ownDevices is the number of devices of tasks that are drawn for a device that no
// built-in profile describes.
const ownDevices = 4

// defaultDevice is the profile of the tasks of bench.
const defaultDevice = "a100-80"

func newBenchTasksCommand(a *app) *cobra.Command {
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
	}
	var f benchFlags
	benchDrawn(a, cmd, &f, "setting", paperTasks)
	f.nets.register(cmd)
	return cmd
}

// paperTasks draws the tasks of bench tasks.
func paperTasks(hw hardware.Profile, model *cost.Model, count int, seed uint64) ([]bench.Task, error) {
	if !hardware.Known(hw.Name) {
		return bench.OwnTasks(hw, model.Manifest().Domain, ownDevices, count, seed)
	}
	return bench.PaperTasks(hw, count, seed)
}

// benchDrawn completes a command that compares methods over tasks drawn for one device,
// --count tasks for each setting or family. The model is nil without --model.
func benchDrawn(a *app, cmd *cobra.Command, f *benchFlags, each string, draw func(hw hardware.Profile, model *cost.Model, count int, seed uint64) ([]bench.Task, error)) {
	var (
		device string
		count  int
	)
	cmd.Args = exactArgs()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
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
		tasks, err := draw(hw, model, count, f.seed)
		if err != nil {
			return bad(err, "")
		}
		if f.nets.given() {
			tasks = bench.Estimable(tasks, prices)
		}
		return f.run(cmd.Context(), a, tasks, prices, hw.Name)
	}
	f.register(cmd)
	f.registerSearch(cmd)
	cmd.Flags().StringVar(&device, "device", defaultDevice, "device `profile` of the tasks")
	cmd.Flags().IntVar(&count, "count", 20, "tasks to draw for each "+each)
	complete(cmd, "device", hardware.Names)
}
