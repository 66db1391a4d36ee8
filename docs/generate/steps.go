package main

import (
	"math"

	"github.com/neuroshard/neuroshard/unit"
)

// Whole steps of MLPerf's systems: the fit of one constant to the systems of v3.0 with one
// host, and the comparison with all others.

// fitRound is the round whose systems of one host the fixed time is fitted to.
const fitRound = "v3.0"

// inFit reports whether the fixed time is fitted to the system.
func (s *system) inFit() bool {
	return s.round == fitRound && s.hosts == 1 && !s.onPCIe && s.use == ""
}

// fitFixed returns the fixed time that minimizes the sum of the logarithms of predicted over
// measured steps, without signs. Squares would let one slow system decide.
func fitFixed(all []*system) (unit.Millis, error) {
	var rest, measured []float64
	for _, s := range all {
		c := s.input.Stack.Constants
		c.Fixed = 0
		t, err := s.predict(c)
		if err != nil {
			return 0, err
		}
		rest, measured = append(rest, float64(t.Step)), append(measured, s.ms)
	}
	misfit := func(fixed float64) (sum float64) {
		for i := range rest {
			sum += math.Abs(math.Log((rest[i] + fixed) / measured[i]))
		}
		return sum
	}
	low, high := 0.0, 20.0
	for high-low > 1e-6 {
		a, b := low+(high-low)/3, high-(high-low)/3
		if misfit(a) < misfit(b) {
			high = b
		} else {
			low = a
		}
	}
	return unit.Millis((low + high) / 2), nil
}

// rowsOf returns the set of rows that a system belongs to, or "" if it is left out.
func (s *system) rowsOf() string {
	switch {
	case s.use != "":
		return ""
	case s.onPCIe:
		return "out of the fit, PCIe"
	case s.inFit():
		return "in the fit, one host of v3.0"
	case s.hosts == 1:
		return "out of the fit, one host"
	case s.round == fitRound:
		return "out of the fit, several hosts, first software"
	}
	return "out of the fit, several hosts"
}

// wholeSteps compares the steps of all configurations.
func wholeSteps() ([]*set, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	s := sets{what: "whole steps of MLPerf's DLRM-DCNv2"}
	for _, one := range all {
		t, err := one.own()
		if err != nil {
			return nil, err
		}
		if rows := one.rowsOf(); rows != "" {
			s.of(rows).add(float64(t.Step), one.ms)
		}
	}
	return s.list, nil
}

// A pair of systems that differ in one thing.
type pair struct {
	before, after *system
	oneHost       bool
}

// steps returns the predicted steps of both systems.
func (p *pair) steps() (before, after float64, err error) {
	a, err := p.before.own()
	if err != nil {
		return 0, 0, err
	}
	b, err := p.after.own()
	return float64(a.Step), float64(b.Step), err
}

// find returns the first system of a round, GPUs and plan that is compared and has full
// hosts.
func find(all []*system, round, name, plan string) *system {
	for _, s := range all {
		t := &s.input.Problem.Topology
		if s.use == "" && s.round == round && s.name() == name && s.plan == plan && t.PerHost() == min(8, t.Devices) {
			return s
		}
	}
	panic("reality: no system " + round + " " + name + " " + plan)
}

// planChanges compares the four configurations whose plan changed between v3.0 and v3.1.
func planChanges() ([]*set, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	s := sets{what: "changes of plan", points: true}
	for _, p := range []pair{
		{find(all, "v3.0", "4 x h100-80", "1"), find(all, "v3.1", "4 x h100-80", "7"), true},
		{find(all, "v3.0", "8 x h100-80", "2"), find(all, "v3.1", "8 x h100-80", "8"), true},
		{find(all, "v3.0", "64 x h100-80", "5"), find(all, "v3.1", "64 x h100-80", "11"), false},
		{find(all, "v3.0", "128 x h100-80", "6"), find(all, "v3.1", "128 x h100-80", "12"), false},
	} {
		before, after, err := p.steps()
		if err != nil {
			return nil, err
		}
		rows := "out of the fit, several hosts"
		if p.oneHost {
			rows = "one host, v3.0 in the fit"
		}
		s.of(rows).add(after/before, p.after.ms/p.before.ms)
	}
	return s.list, nil
}

// deviceRatios compares the ratios of steps of different GPUs at equal numbers of GPUs.
func deviceRatios() ([]*set, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	a100, h100 := find(all, "v3.0", "8 x a100-80", "2"), find(all, "v3.0", "8 x h100-80", "2")
	newer, h200 := find(all, "v4.0", "8 x h100-80", "8"), find(all, "v4.0", "8 x h200", "8")
	s := sets{what: "ratios of GPU kinds"}
	for _, p := range []pair{{a100, h100, true}, {newer, h200, true}, {a100, h200, true}} {
		before, after, err := p.steps()
		if err != nil {
			return nil, err
		}
		s.of("eight GPUs").add(before/after, p.before.ms/p.after.ms)
	}
	return s.list, nil
}

// oneMeasured predicts each system from the measured step of each other one.
func oneMeasured() ([]*set, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	predicted := map[*system]float64{}
	var used []*system
	for _, one := range all {
		if one.use != "" || one.onPCIe || one.round == fitRound && one.hosts > 1 {
			continue
		}
		t, err := one.own()
		if err != nil {
			return nil, err
		}
		predicted[one] = float64(t.Step)
		used = append(used, one)
	}
	s := sets{what: "from one measured step"}
	same, other := s.of("the same number of hosts"), s.of("another number of hosts")
	for _, known := range used {
		for _, one := range used {
			if one == known {
				continue
			}
			in := other
			if one.hosts == known.hosts {
				in = same
			}
			in.add(calibrated(known, one, predicted), one.ms)
		}
	}
	return s.list, nil
}

// calibrated returns the step of a system that step.Price predicts from the measured step of
// another one (TestCalibrated compares them). On the same cluster and batch, the difference
// of the predictions is added.
func calibrated(known, one *system, predicted map[*system]float64) float64 {
	if known.input.Problem.Topology.Equal(one.input.Problem.Topology) && known.input.Problem.Batch == one.input.Problem.Batch {
		return known.ms + predicted[one] - predicted[known]
	}
	factor := math.Sqrt(known.ms / predicted[known])
	return known.ms + factor*(predicted[one]-predicted[known])
}
