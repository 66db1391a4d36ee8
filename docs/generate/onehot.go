package main

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// oneHotSystems returns the configurations of MLPerf's DLRM v1 on HugeCTR, with one lookup a table.
// The sources state no plans: the tables are dealt out evenly, in slices of equal width.
func oneHotSystems() []*system {
	var all []*system
	for _, f := range readFacts("one_hot.csv") {
		all = append(all, oneHotSystem(f))
	}
	return all
}

func oneHotSystem(f fact) *system {
	profile := must(hardware.ByName(f.text("profile")))
	w := must(workload.ByName("mlperf-dlrm-dcnv2")) // the same rows and widths
	p := w.Problem()
	p.Topology.Profile, p.Topology.Devices, p.Topology.DevicesPerHost, p.Batch = profile, f.count("devices"), f.count("per_host"), f.count("batch")
	for i := range p.Tables {
		t := &p.Tables[i]
		t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: 1}}
		t.Optimizer = problem.SGD
	}
	shards := byDevice(&p, evenly(&p))
	dense := must(step.DenseByName("mlperf-dlrm-v1"))
	dense.Precision = step.Format(f.text("precision"))
	stack := must(step.StackByName(hybrid))
	return priced(&system{
		round: f.text("round"), ms: f.number("ms"), hosts: p.Topology.Hosts(),
		input: step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack},
	})
}

// evenly deals out the tables in slices that are narrow enough for at least three on each
// device.
func evenly(p *problem.Problem) (parts []held) {
	width := 128
	for width > 8 && len(p.Tables)*128/width < 3*p.Topology.Devices {
		width /= 2
	}
	for i := range p.Tables {
		for _, h := range slicesOf(p, i, 128/width) {
			h.device = len(parts) % p.Topology.Devices
			parts = append(parts, h)
		}
	}
	return parts
}

// inHybridFit reports whether the constants of the hybrid stack are fitted to the system.
func inHybridFit(s *system) bool { return s.round == "v1.1" }

// hybrid is the stack that is a preset.
const hybrid = "hugectr-hybrid"

// oneHot compares the steps of models with one lookup a table.
func oneHot() []*set {
	s := sets{what: "whole steps with one lookup a table"}
	for _, one := range oneHotSystems() {
		s.of("some in the fit").add(one.own(), one.ms)
	}
	return s.list
}
