package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/unit"
)

// benchPrototype is what bench prototype reads.
type benchPrototype struct {
	*app
	benchFlags
	deviceName, tables string
	tasks              []string
	devices            int
	memory             size
}

func newBenchPrototypeCommand(a *app) *cobra.Command {
	f := benchPrototype{app: a}
	cmd := &cobra.Command{
		Use:   "prototype --tables FILE --tasks FILE,...",
		Short: "Compare methods over the task files of the published prototype",
		Long: `Compare methods over tasks in the form of the published NeuroShard prototype. The
memory of a device counts fp32 weights alone, as the prototype counts it.

Plans are found with our cost models, or with the prototype's nets (--compute-model,
--forward-model and --backward-model), which then judge the plans, too.`,
		Example: `  neuroshard bench prototype --tables table_configs.json --tasks d4_m16.txt --devices 4 --memory 4GiB \
      --compute-model compute.pt --forward-model comm_4_fw.pt --backward-model comm_4_bw.pt`,
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
			tasks, err := f.readTasks(hw)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), a, tasks, prices, hw.Name)
		},
	}
	f.register(cmd)
	f.registerSearch(cmd)
	f.nets.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.tables, "tables", "", "`file` of the tables that the tasks are drawn over: table_configs.json, gzipped or not")
	flags.StringSliceVar(&f.tasks, "tasks", nil, "`files` of tasks; each is a setting")
	flags.StringVar(&f.deviceName, "device", defaultDevice, "device `profile` of the tasks")
	flags.IntVar(&f.devices, "devices", 0, "number of devices (default: the task file's, else 4)")
	flags.Var(&f.memory, "memory", "memory of a device (default: the task file's, else 4GiB)")
	complete(cmd, "device", hardware.Names)
	return cmd
}

// prototypeNets are the files of the published prototype's nets.
type prototypeNets struct {
	compute, forward, backward string
}

// register adds the flags that name the files.
func (n *prototypeNets) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	defer manual.Section(flags, prototypeSection)()
	flags.StringVar(&n.compute, "compute-model", "", "the prototype's compute net: `file`, .pt or .json")
	flags.StringVar(&n.forward, "forward-model", "", "the prototype's net of the forward all-to-all: `file`, .pt or .json")
	flags.StringVar(&n.backward, "backward-model", "", "the prototype's net of the backward all-to-all: `file`, .pt or .json")
}

// given reports whether a flag names one of the files.
func (n *prototypeNets) given() bool { return n.compute != "" || n.forward != "" || n.backward != "" }

// load reads the nets. command is the name of the command, for the error if a flag is missing.
func (n *prototypeNets) load(a *app, command string) (neuroshard.Prices, error) {
	paths := []string{n.compute, n.forward, n.backward}
	if slices.Contains(paths, "") {
		return nil, usagef("", "%s: the prototype's nets come in threes: --compute-model, --forward-model and --backward-model", command)
	}
	files, end, err := prototypeFiles(a, paths)
	if err != nil {
		return nil, err
	}
	defer end()
	models, err := prototype.Load(files[0], files[1], files[2])
	if err != nil {
		return nil, bad(err, "the files are the prototype's checkpoints, or their JSON form")
	}
	return neuroshard.Prototype(models), nil
}

func (f *benchPrototype) readTasks(hw hardware.Profile) ([]bench.Task, error) {
	if f.tables == "" || len(f.tasks) == 0 {
		return nil, usagef("tasks name tables of a file by number", "%s: --tasks and --tables go together", f.name)
	}
	files, end, err := prototypeFiles(f.app, append([]string{f.tables}, f.tasks...))
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

// prototypeFiles opens files. The error reports all files that cannot be opened. The caller calls
// end after reading.
func prototypeFiles(a *app, paths []string) (files []prototype.File, end func(), err error) {
	var closers []func() error
	end = func() {
		for _, c := range closers {
			_ = c()
		}
	}
	var errs []error
	for _, path := range paths {
		name, r, err := a.open(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		closers = append(closers, r.Close)
		files = append(files, prototype.File{Name: name, Reader: r})
	}
	if len(errs) > 0 {
		end()
		return nil, nil, input.Join(errs...)
	}
	return files, end, nil
}
