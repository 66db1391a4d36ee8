package main

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// oneHotSystems returns the configurations of MLPerf's DLRM v1 on HugeCTR, with one lookup a table.
// The sources state no plans: the tables are dealt out evenly, in slices of equal width.
func oneHotSystems() ([]*system, error) {
	facts, err := readFacts("one_hot.csv")
	if err != nil {
		return nil, err
	}
	var all []*system
	for _, f := range facts {
		s, err := oneHotSystem(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.where, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func oneHotSystem(f *fact) (*system, error) {
	profile, err := hardware.ByName(f.text("profile"))
	if err != nil {
		return nil, err
	}
	w, err := workload.ByName("mlperf-dlrm-dcnv2") // the same rows and widths
	if err != nil {
		return nil, err
	}
	p := w.Problem()
	p.Topology.Profile, p.Topology.Devices, p.Topology.DevicesPerHost, p.Batch = profile, f.count("devices"), f.count("per_host"), f.count("batch")
	for i := range p.Tables {
		t := &p.Tables[i]
		t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: 1}}
		t.Optimizer = problem.SGD
	}
	shards, err := step.Place(&p, evenly(&p))
	if err != nil {
		return nil, err
	}
	dense, err := step.DenseByName("mlperf-dlrm-v1")
	if err != nil {
		return nil, err
	}
	dense.Precision = step.Format(f.text("precision"))
	stack, err := step.StackByName(hybrid)
	if err != nil {
		return nil, err
	}
	return priced(&system{
		round: f.text("round"), ms: f.number("ms"), hosts: p.Topology.Hosts(),
		input: step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack},
	}), f.err
}

// evenly deals out the tables in slices that are narrow enough for at least three on each
// device.
func evenly(p *problem.Problem) (held []step.Holding) {
	width := 128
	for width > 8 && len(p.Tables)*128/width < 3*p.Topology.Devices {
		width /= 2
	}
	for i := range p.Tables {
		for range 128 / width {
			held = append(held, step.Holding{Table: i, Device: len(held) % p.Topology.Devices, Width: width})
		}
	}
	return held
}

// inHybridFit reports whether the constants of the hybrid stack are fitted to the system.
func inHybridFit(s *system) bool { return s.round == "v1.1" }

// hybrid is the stack that is a preset.
const hybrid = "hugectr-hybrid"

// oneHot compares the steps of models with one lookup a table.
func oneHot() ([]*set, error) {
	all, err := oneHotSystems()
	if err != nil {
		return nil, err
	}
	s := sets{what: "whole steps with one lookup a table"}
	in, out := s.of("in the fit"), s.of("out of the fit")
	for _, one := range all {
		t, err := one.own()
		switch {
		case err != nil:
			return nil, err
		case inHybridFit(one):
			in.add(float64(t.Step), one.ms)
		default:
			out.add(float64(t.Step), one.ms)
		}
	}
	return s.list, nil
}
