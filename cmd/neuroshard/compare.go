package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

// comparePackage is the Python package that plans a model with TorchRec's planner and ours.
const comparePackage = "neuroshard_compare"

func newCompareCommand(a *app) *cobra.Command {
	c := compareCommand{app: a, passed: pflag.NewFlagSet("", pflag.ContinueOnError)}
	cmd := &cobra.Command{
		Use:   "compare MODULE:FUNCTION",
		Short: "Plan a TorchRec model with TorchRec's planner as well, and compare the plans",
		Long: `Plan a TorchRec model with TorchRec's planner as well, and compare the plans: planning
times, costs on the SIMULATED device and by TorchRec's estimator, and the memory of the
fullest device as each counts it.

FUNCTION returns the model, or a tuple of the model, its sharders and a sample batch, or
a dict with some of the keys model, sharders, sample and constraints. MODULE is a module
that Python imports from this folder, or a file such as train.py. The model may be on
the meta device.

The command runs Python with the package neuroshard_compare, which needs TorchRec; no
GPU is needed. Python runs the function that you name, and no other code of yours. Words
after -- are flags of plan.`,
		Example: `  neuroshard compare train:make_model --gpu a100-80 --gpus 8 --batch-per-rank 8192
  neuroshard compare train.py:make_model --gpu h100-80 --gpus 16 --set python=venv/bin/python
  neuroshard compare train:make_model --gpu a100-80 --gpus 8 --json -- --types all`,
		Args: func(cmd *cobra.Command, args []string) error {
			own := len(args)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				own = dash
			}
			return exactArgs("MODULE:FUNCTION")(cmd, args[:own])
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1:]) },
	}
	f := c.passed
	f.String("gpu", "", "device `profile` of the cluster")
	f.Int("gpus", 0, "number of devices")
	f.Int("devices-per-host", 0, "devices of a host (default: 8, or all)")
	f.Int("batch-per-rank", 0, "samples of a step on one device (default: those of the sample batch)")
	f.String("memory", "", "memory of a device, a `size` such as 40GiB (default: the profile's)")
	f.Int("limit", 0, "`seconds` that TorchRec's planner is given (default: no limit)")
	f.Int("repeats", 3, "plans made by each planner, for the median of the times; one if it takes 10 s")
	f.Bool("json", false, "print one JSON object")
	cmd.Flags().AddFlagSet(f)
	cmd.Flags().StringVar(&c.python, "python", "python3", "`program` that runs Python")
	complete(cmd, "gpu", hardware.Names)
	return cmd
}

type compareCommand struct {
	*app
	// passed holds the flags that the Python package takes under the same names.
	passed *pflag.FlagSet
	python string
}

func (c *compareCommand) run(ctx context.Context, model string, plan []string) error {
	if err := c.check(model); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"-m", comparePackage, model, "--binary", program}
	c.passed.VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Changed && f.Value.Type() != "bool":
			args = append(args, "--"+strings.ReplaceAll(f.Name, "_", "-")+"="+f.Value.String())
		case f.Changed && f.Value.String() == "true":
			args = append(args, "--"+f.Name)
		}
	})
	if len(plan) > 0 {
		args = append(append(args, "--"), plan...)
	}
	var failure bytes.Buffer
	python := exec.CommandContext(ctx, c.python, args...)
	python.Cancel = func() error { return python.Process.Signal(os.Interrupt) }
	python.Stdin, python.Stdout, python.Stderr = nil, c.stdout, io.MultiWriter(c.stderr, &failure)
	// Without PYTHONSAFEPATH, -m would import files of this folder that have the name of a package.
	// TorchRec's planner iterates over sets of strings, whose order must be the same in each run.
	python.Env = append([]string{"PYTHONHASHSEED=0"}, append(os.Environ(), "PYTHONSAFEPATH=1")...)
	err = python.Run()
	ended := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &ended):
		return usagef("install Python 3, or name it with --set python=PROGRAM", "compare: %w", err)
	case strings.Contains(failure.String(), "No module named "+comparePackage):
		return usagef("install the package beside your TorchRec, from the checkout of neuroshard: "+c.python+" -m pip install ./python", "compare: %s has no package %s", c.python, comparePackage)
	case ended.ExitCode() == exitBad:
		return &exitError{code: exitBad} // printed already
	}
	return usagef("the lines above are those of Python", "compare: %s ended with %w", c.python, err)
}

// check reports what is wrong with the command line.
func (c *compareCommand) check(model string) error {
	module, function, ok := strings.Cut(model, ":")
	if !ok || module == "" || function == "" {
		return usagef("name a function that returns the model, such as train:make_model or train.py:make_model; plan --full compares with simple methods", "compare: %q is not MODULE:FUNCTION", model)
	}
	for _, needed := range []string{"gpu", "gpus"} {
		if !c.passed.Changed(needed) {
			return usagef("for example: --gpu a100-80 --gpus 8", "compare: --%s is missing", needed)
		}
	}
	var err error
	c.passed.VisitAll(func(f *pflag.Flag) {
		if n, wrong := strconv.Atoi(f.Value.String()); f.Changed && f.Value.Type() == "int" && (wrong != nil || n < 1) && err == nil {
			err = usagef("for example: --"+f.Name+" 8", "compare: --%s %s is not at least 1", f.Name, f.Value)
		}
	})
	return err
}
