package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/search"
)

// score.go has bench --score price plan files: of workloads, or with --tables of
// any tables, on the cluster that the plan states.

// mostGiven is the size of the largest file to score: a plan. Readers of the others
// have their own, smaller limits.
const mostGiven = max(plan.MaxFile, int64(prototype.MaxFileBytes))

// isPlan reports whether a file is a plan, be it a broken one.
func isPlan(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		if key == "format" {
			value, err := d.Token()
			return err == nil && value == plan.Format
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// givenPlan returns the plan of a file, whose name stands for its method.
func givenPlan(name string, data []byte, tasks []bench.Task) ([]bench.Given, error) {
	pl, err := plan.Read(bytes.NewReader(data))
	if err != nil {
		return nil, usagef("plans are written by: neuroshard plan TABLES -o plan.json", "%s: %w", name, err)
	}
	given, err := bench.GivenPlan(tasks, search.Method(settingOf(name)), pl)
	if err != nil {
		return nil, bad(fmt.Errorf("%s: %w", name, err), "")
	}
	return []bench.Given{given}, nil
}

// planTask returns the task of the plans to score: the tables of --tables on the
// cluster of the first plan.
func (a *app) planTask(f *benchFlags) ([]bench.Task, error) {
	pl, err := a.readPlan(f.score[0])
	if err != nil {
		return nil, err
	}
	flags := &clusterFlags{set: pflag.NewFlagSet("", pflag.ContinueOnError)}
	own, err := clusterOf(pl, flags)
	if err != nil {
		return nil, err
	}
	var model *cost.Model
	if f.model != "" {
		if model, err = a.loadModel(f.model); err != nil {
			return nil, err
		}
		if hw := model.Hardware(); hw.Name == own.topology.Profile.Name {
			own.topology.Profile = hw
		}
	}
	l, err := a.load(f.tables, flags, own)
	if err != nil {
		return nil, err
	}
	name := settingOf(f.tables)
	return []bench.Task{{Setting: name, Name: name, Problem: *l.problem}}, nil
}
