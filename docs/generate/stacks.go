package main

import (
	"math"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// sliceCells is the number of cells above which the published command of NVIDIA's synthetic
// models cuts a table by columns.
const sliceCells = 1280 << 20

// syntheticSystems returns the published steps of NVIDIA's synthetic models on DGX A100: a training
// system whose constants nobody published.
func syntheticSystems() []*system {
	stack := must(step.StackByName("torchrec-base"))
	stack.Overlaps.Input = true // each device reads the indices of its own tables
	profile := must(hardware.ByName("a100-80"))
	var all []*system
	for _, w := range workload.All() {
		for _, published := range w.Steps {
			p := w.Problem()
			p.Topology = cluster(profile, published.Devices, 8)
			dense := must(step.DenseByName(w.Name))
			shards := deal(&p, cut(&p, sliceCells))
			all = append(all, priced(&system{
				round: w.Name, ms: float64(published.Time),
				input: step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack},
			}))
		}
	}
	return all
}

// nearest returns the system of the same model with the nearest number of devices, counted in
// doublings; nil if the model has one step only.
func nearest(all []*system, s *system) *system {
	var best *system
	least := math.Inf(1)
	for _, q := range all {
		doublings := math.Abs(math.Log2(float64(q.input.Problem.Topology.Devices) / float64(s.input.Problem.Topology.Devices)))
		if q != s && q.round == s.round && doublings < least {
			best, least = q, doublings
		}
	}
	return best
}

// stacks compares the steps of a training system with unknown constants: as they are, and with
// one measured step of the model on another number of GPUs.
func stacks() []*set {
	all := syntheticSystems()
	s := sets{what: "whole steps of a system with unknown constants"}
	unknown, carried := s.of("no constant of it"), s.of(carriedRows)
	for _, one := range all {
		unknown.add(one.own(), one.ms)
		if known := nearest(all, one); known != nil {
			carried.add(one.from(known), one.ms)
		}
	}
	return s.list
}

// carriedRows names the steps that are predicted from one measured step of the same model.
const carriedRows = "one measured step on another number of GPUs"
