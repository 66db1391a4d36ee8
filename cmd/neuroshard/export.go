package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem/input"
)

// engines are the functions that write a plan for an engine, by its name.
var engines = map[string]func(io.Writer, *plan.Plan, export.Options) error{
	"torchrec": export.TorchRec,
	"hugectr":  export.HugeCTR,
}

func engineNames() []string { return []string{"torchrec", "hugectr"} }

func newExportCommand(a *app) *cobra.Command {
	var to, output, module, accelerator string
	var python bool
	cmd := &cobra.Command{
		Use:   "export PLAN",
		Short: "Write a plan in the form of the engine that runs it",
		Long: `Write a plan in the form of the engine that runs it.

For TorchRec it is the JSON of a ShardingPlan. For HugeCTR it is the shard matrix
and the shard strategy of an embedding collection, as JSON or as Python. Each shard that
the engine cannot run is an error that names the table and the shard; then nothing is
written. docs/PLAN.md draws the forms.`,
		Example: `  neuroshard export plan.json --to torchrec -o torchrec_plan.json
  neuroshard export plan.json --to torchrec --module sparse.ebc --accelerator cpu
  neuroshard export plan.json --to hugectr --python -o shards.py`,
		Args: exactArgs("PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			options := export.Options{Accelerator: accelerator, Python: python, OnWarning: func(message string) { fmt.Fprintln(a.stderr, "neuroshard: warning:", message) }}
			if flags.Changed("module") {
				options.Module = &module
			}
			write, known := engines[to]
			var f faults
			f.add(to == "", "choose an engine: --to "+strings.Join(engineNames(), " or --to "), "--to is missing")
			f.add(to != "" && !known, "choose one of "+strings.Join(engineNames(), ", "), "--to: engine %q is unknown", to)
			f.add(accelerator != export.CUDA && accelerator != export.CPU, "choose cuda or cpu", "--accelerator: %q is unknown", accelerator)
			for _, only := range []struct{ flag, engine string }{{"module", "torchrec"}, {"accelerator", "torchrec"}, {"python", "hugectr"}} {
				f.add(known && flags.Changed(only.flag) && to != only.engine, "leave it out", "--%s is for %s, not for %s", only.flag, only.engine, to)
			}
			if err := f.err(); err != nil {
				return err
			}
			if err := a.checkOutput(output, args[0]); err != nil {
				return err
			}
			pl, err := a.readPlan(args[0])
			if err != nil {
				return err
			}
			var written bytes.Buffer
			if err := write(&written, pl, options); err != nil {
				return inFile(err, args[0])
			}
			a.doubt(args[0], pl)
			return a.writeOut(output, written.Bytes())
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "the `engine`: "+strings.Join(engineNames(), " or "))
	f.StringVarP(&output, "output", "o", "", "write to this `file`; - is standard output, the default")
	f.StringVar(&module, "module", "", "`path` of the module of the tables that do not state one (torchrec)")
	f.StringVar(&accelerator, "accelerator", export.CUDA, "where the shards are placed: `cuda` or cpu (torchrec)")
	f.BoolVar(&python, "python", false, "write Python instead of JSON (hugectr)")
	complete(cmd, "to", engineNames)
	complete(cmd, "accelerator", func() []string { return []string{export.CUDA, export.CPU} })
	return cmd
}

// inFile puts the file's name on errors that have none.
func inFile(err error, path string) error {
	var list *input.Errors
	if !errors.As(err, &list) {
		return err
	}
	for i := range list.List {
		list.List[i].File = cmp.Or(list.List[i].File, path)
	}
	return list
}
