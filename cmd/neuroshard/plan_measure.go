package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// mostFinalists bounds measure.
const mostFinalists = 100

// measureFlags are the flags of a plan that is chosen among finalists by a measurement.
type measureFlags struct {
	finalists, rounds int
	backend           backendFlags
}

func (m *measureFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	inSection := manual.Section(f, searchSection)
	f.IntVar(&m.finalists, "measure", 0, "run this number of `finalists`, 2 to 100, on the backend, in turns, and keep the fastest: the plan of the search, that of the best greedy method, that of method paper, and plans of the same search with other seeds and risk penalties (default: none is run)")
	inSection()
	m.backend.ofPlan, m.backend.inTurns = true, true
	m.backend.register(cmd)
	inSection = manual.Section(f, backendSection)
	f.IntVar(&m.rounds, "runs", 12, fmt.Sprintf("runs of each finalist, with measure, at least %d", verify.LeastRounds))
	inSection()
}

// on reports whether finalists are to be measured.
func (m *measureFlags) on() bool { return m.finalists != 0 }

// checkMeasure reports all flags of a measurement that are wrong, or that are given without measure.
func checkMeasure(p *planCommand) error {
	m := &p.measure
	if !p.given("measure") {
		if found := m.backend.among("runs"); len(found) > 0 {
			return faulty("measure is missing: these keys need it: "+strings.Join(found, ", "), "say how many finalists to run, such as --set measure=6 --set backend=cpu, or leave them out")
		}
		return nil
	}
	var f faults
	f.add(m.finalists < 2 || m.finalists > mostFinalists, "leave the flag out to measure nothing", "measure: %d finalists are not between 2 and %d", m.finalists, mostFinalists)
	f.add(m.rounds < verify.LeastRounds || m.rounds > mostRuns, "state a number in this range, such as --set runs=12; a test of fewer cannot tell finalists apart", "measure: runs %d is not between %d and %d", m.rounds, verify.LeastRounds, mostRuns)
	f.add(search.Method(p.method) != search.Default, fmt.Sprintf("leave measure out, or plan with --set method=%s", search.Default), "measure: method %s has no finalists", search.Method(p.method))
	f.add(p.from != "", "leave measure or --from out", "measure: a search from an old plan has no finalists")
	f.add(p.cluster.autoReplicas || p.cluster.stated.Has("replicas") && p.cluster.stated["replicas"] != "1", "leave replicas or measure out", "measure: a backend runs the devices of one sharding group")
	joint := p.given("types") && slices.ContainsFunc(p.types.options(), problem.ShardingType.Joint)
	f.add(joint, "leave --types out, or state table_wise,column_wise", "measure: a backend runs tables that are whole or cut by columns only")
	if m.backend.name == backendSimulated {
		return f.err() // the profile is that of the cluster, which is not read yet
	}
	return f.err(asInput(m.backend.check("plan")))
}

// startMeasure starts the backend that finalists are run on, for the devices of the problem. The caller
// calls end after the measurement. Without measure it returns nil, and end does nothing.
func startMeasure(ctx context.Context, p *planCommand, l *loaded, bar *progressBar) (measure *neuroshard.Measure, end func(), err error) {
	m := &p.measure
	if !m.on() {
		return nil, func() {}, nil
	}
	profile := l.problem.Topology.Profile.Name
	if b := &m.backend; b.name != backendCPU || !hardware.Known(profile) {
		b.profile = profile
	}
	if err := m.backend.check("plan"); err != nil {
		return nil, nil, err
	}
	m.backend.network = l.problem.Topology.NetworkBandwidth
	bar.phase("starting the backend")
	backend, err := m.backend.start(ctx, false, p.stderr)
	if err != nil {
		return nil, nil, err
	}
	if of := backend.Provenance().Profile; of != profile {
		_ = backend.Close()
		return nil, nil, usagef("plan with a --model of times of this backend (docs/MEASURING.md), or measure on the device that the plan is for", "measure: the plan is for %q, and the backend's device is %q", profile, of)
	}
	run := func(ctx context.Context, of *problem.Problem, finalists []neuroshard.Finalist) (*neuroshard.Measured, error) {
		return choose(ctx, p, of, finalists, backend, bar)
	}
	return &neuroshard.Measure{Finalists: m.finalists, Run: run}, func() { _ = backend.Close() }, nil
}

// choose runs the finalists, and says which one to keep.
func choose(ctx context.Context, p *planCommand, of *problem.Problem, finalists []neuroshard.Finalist, backend collect.Backend, bar *progressBar) (*neuroshard.Measured, error) {
	measured, err := verify.Choose(ctx, of, finalists, backend, verify.Options{
		Repeats: p.measure.rounds, Fastest: p.measure.backend.fastest, Seed: p.search.Seed,
		OnProgress: func(done, of int) { bar.at(done, of, "running the finalists") },
	})
	_, forms := errors.AsType[*verify.Unmeasurable](err)
	_, exchanges := errors.AsType[*verify.NoExchanges](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return measured, err
	case forms:
		return nil, usagef("plan without host memory, or without measure", "measure: the plan cannot be run on a backend: %w", err)
	case exchanges:
		return nil, usagef(noExchanges, "measure: %w", err)
	}
	return nil, bad(err, measuringHint(err))
}
