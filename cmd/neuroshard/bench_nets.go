package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/problem/input"
)

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
		return nil, usagef("", "%s: the prototype's nets come in threes: compute_model, forward_model and backward_model", command)
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
