package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strings"

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

// export writes the plan in the file of path for an engine.
func (c *convertCommand) export(path string) error {
	options := export.Options{Accelerator: c.accelerator, Python: c.python, OnWarning: func(message string) { warn(c.stderr, "%s", message) }}
	if c.cluster.set.Changed("module") {
		options.Module = &c.module
	}
	write, known := engines[c.to]
	var f faults
	f.add(!known, "choose one of "+strings.Join(engineNames(), ", "), "--to: engine %q is unknown", c.to)
	c.unread(&f, "--from", "to", "module", "accelerator", "python", "output")
	f.add(c.accelerator != export.CUDA && c.accelerator != export.CPU, "choose cuda or cpu", "accelerator: %q is unknown", c.accelerator)
	for _, only := range []struct{ key, engine string }{{"module", "torchrec"}, {"accelerator", "torchrec"}, {"python", "hugectr"}} {
		f.add(known && c.cluster.set.Changed(only.key) && c.to != only.engine, "leave it out", "%s is for %s, not for %s", only.key, only.engine, c.to)
	}
	if err := f.err(c.checkOutput(c.output, path)); err != nil {
		return err
	}
	pl, err := c.readPlan(path)
	if err != nil {
		return err
	}
	var written bytes.Buffer
	if err := write(&written, pl, options); err != nil {
		return inFile(err, path)
	}
	c.doubt(path, pl)
	return c.writeOut(c.output, written.Bytes())
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
