package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// ownDevices is the number of devices of tasks that are drawn for a device that no
// built-in profile describes.
const ownDevices = 4

// defaultDevice is the profile of the tasks of bench.
const defaultDevice = "a100-80"

// benchTasks is what bench tasks reads.
type benchTasks struct {
	*app
	benchFlags
	deviceName         string
	count              int
	larger, nearlyFull bool

	// tables and files are those of the published prototype.
	tables  string
	files   []string
	devices int
	memory  size
}

func newBenchTasksCommand(a *app) *cobra.Command {
	f := benchTasks{app: a}
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Compare methods over drawn tasks, or those of the published prototype's files",
		Long: `Compare methods over tasks drawn as the NeuroShard paper draws them: --count tasks
for each of six settings.

With larger tasks have 50 tables on 4 devices, 100 on 8 and 200 on 16: --count tasks
of each. train-policy trains on 50 tables and 4 devices by default. A policy that was
trained with another seed than --seed has not seen the tables. With nearly_full the
tables fill 80 to 99 % of the memory: --count tasks for each of ten families.

If the device of --model has no built-in profile, tasks are drawn for that device:
--count tasks of 12 to 24 tables and --count of 25 to 40, on four devices.

With --tables and --tasks, tasks are read from files in the form of the published
NeuroShard prototype. The memory of a device then counts fp32 weights alone, as the
prototype counts it.

The prototype's nets (compute_model, forward_model and backward_model) plan and
judge. They are for one number of devices, 4 or 8, and tasks are drawn for that number.`,
		Example: `  neuroshard lab bench tasks --count 20 --json out.json --plot out.svg
  neuroshard lab bench tasks --model cpu-model --backend cpu --count 10 --json measured.json
  neuroshard lab bench tasks --methods neuroshard,paper,lookup --budgets 10ms,1s --set threads=1
  neuroshard lab bench tasks --tables table_configs.json --tasks d4_m16.txt --set task_devices=4 --memory \
      4GiB --set compute_model=compute.pt --set forward_model=comm_4_fw.pt --set \
      backward_model=comm_4_bw.pt`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			hw, model, err := f.device(a, f.deviceName)
			if err != nil {
				return err
			}
			prices, err := f.prices(a, model)
			if err != nil {
				return err
			}
			tasks, err := f.suite(hw, model)
			if err != nil {
				return err
			}
			if f.nets.given() && f.files == nil {
				tasks = bench.Estimable(tasks, prices)
			}
			return f.run(cmd.Context(), a, tasks, prices, hw.Name)
		},
	}
	f.backend.ofTasks = true
	f.register(cmd)
	f.registerSearch(cmd)
	f.nets.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.deviceName, "gpu", defaultDevice, "device `profile` of the tasks")
	flags.IntVar(&f.count, "count", 20, "tasks to draw for each setting or family")
	flags.BoolVar(&f.larger, "larger", false, "draw tasks larger than those that policies are trained on")
	flags.BoolVar(&f.nearlyFull, "nearly-full", false, "draw tasks whose tables nearly fill the memory")
	flags.StringVar(&f.tables, "tables", "", "`file` of the tables that the tasks of --tasks are drawn over: table_configs.json, gzipped or not")
	flags.StringSliceVar(&f.files, "tasks", nil, "`files` of the prototype's tasks; each is a setting")
	flags.IntVar(&f.devices, "task-devices", 0, "number of devices of these tasks (default: the task file's, else 4)")
	flags.Var(&f.memory, "memory", "memory of a device of these tasks (default: the task file's, else 4GiB)")
	complete(cmd, "gpu", hardware.Names)
	return cmd
}

// check reports flags that are wrong or do not go together.
func (f *benchTasks) check() error {
	var all faults
	all = append(all, f.benchFlags.check(), f.alone("tasks", "larger", "nearly-full", "count"), f.alone("larger", "nearly-full"))
	all.add((f.tables == "") != (f.files == nil), "tasks name tables of a file by number", "%s: --tasks and --tables go together", f.name)
	for _, name := range []string{"task-devices", "memory"} {
		all.add(f.files == nil && f.cmd.Flags().Changed(name), "name the files of the tasks: --tables FILE --tasks FILE", "%s: %s is for tasks of files", f.name, keyOf(name))
	}
	all.add(f.count < 1 || f.count > bench.MaxTasks, "", "%s: --count %d is not between 1 and %d", f.name, f.count, bench.MaxTasks)
	return all.err()
}

// suite draws or reads the tasks. The model is nil without --model.
func (f *benchTasks) suite(hw hardware.Profile, model *cost.Model) (tasks []bench.Task, err error) {
	switch {
	case f.files != nil:
		return f.read(hw)
	case f.larger:
		tasks, err = bench.TransferTasks(hw, f.count, f.seed)
	case f.nearlyFull:
		tasks, err = bench.StressTasks(hw, f.count, f.seed)
	case hardware.Known(hw.Name):
		tasks, err = bench.PaperTasks(hw, f.count, f.seed)
	default:
		tasks, err = bench.OwnTasks(hw, model.Manifest().Domain, ownDevices, f.count, f.seed)
	}
	return tasks, bad(err, "")
}

// read reads the tasks of the prototype's files.
func (f *benchTasks) read(hw hardware.Profile) ([]bench.Task, error) {
	files, end, err := prototypeFiles(f.app, append([]string{f.tables}, f.files...))
	if err != nil {
		return nil, err
	}
	defer end()
	pool, err := bench.ReadPool(files[0])
	if err != nil {
		return nil, bad(err, "")
	}
	tasks, err := bench.ReadTasks(files[1:], pool, bench.FileOptions{Profile: hw, Devices: f.devices, Memory: unit.Bytes(f.memory)})
	return tasks, bad(err, "")
}
