package main

import (
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/unit"
)

// Whole steps of MLPerf's systems: the fit of one constant to the systems of v3.0 with one
// host, and the comparison with all others.

// The targets that the project set itself.
var (
	targetOneHost = goal{median: 4, worst: 9}
	targetHosts   = goal{median: 4, worst: 10}
	targetPCIe    = goal{worst: 30}
)

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

// setOf returns the name and the target of the set that a system belongs to.
func (s *system) setOf() (name string, target goal) {
	switch {
	case s.use != "":
		return "out of sample, left out of the summaries", goal{}
	case s.onPCIe:
		return "out of sample, PCIe", targetPCIe
	case s.inFit():
		return "in the fit, one host of v3.0", goal{}
	case s.hosts == 1:
		return "out of sample, one host", targetOneHost
	case s.round == fitRound:
		return "out of sample, several hosts, first software", goal{}
	}
	return "out of sample, several hosts", targetHosts
}

// wholeSteps compares the steps of all configurations.
func wholeSteps() (*sheet, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	s := &sheet{folded: true, columns: []string{"round", "GPUs", ">hosts", ">batch", "exchange", "plan", ">systems", ">lookups", ">exchanges", ">dense", ">all-reduce", ">measured ms", ">predicted ms", ">error, %", "in the fit", "note"}}
	newest := map[string]*system{}
	for _, one := range all {
		t, err := one.own()
		if err != nil {
			return nil, err
		}
		name, target := one.setOf()
		if one.use == "" {
			s.set(name, target).add(float64(t.Step), one.ms)
		}
		if one.use == "" && one.hosts > 1 {
			newest[one.name()] = one
		}
		used := "no"
		if one.inFit() {
			used = "yes"
		}
		x := t.Terms
		s.rows = append(s.rows, []string{
			one.round, one.name(), fmt.Sprint(one.hosts), one.fact.text("batch"), one.fact.text("exchange"), one.plan, one.fact.text("systems"),
			millis(x.LookupForward + x.LookupBackward + x.Replicas), millis(x.ExchangeForward + x.ExchangeBackward - t.Hidden), millis(t.Dense), millis(t.AllReduce),
			fmt.Sprintf("%.3f", one.ms), fmt.Sprintf("%.3f", float64(t.Step)), signed(float64(t.Step)/one.ms - 1), used, one.use,
		})
	}
	for _, one := range all {
		if newest[one.name()] == one {
			t, err := one.own()
			if err != nil {
				return nil, err
			}
			s.set("out of sample, several hosts, newest software of each", targetHosts).add(float64(t.Step), one.ms)
		}
	}
	return s, nil
}

func millis(t unit.Millis) string { return fmt.Sprintf("%.2f", float64(t)) }

// A pair of systems that differ in one thing.
type pair struct {
	what          string
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
func planChanges() (*sheet, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	s := &sheet{columns: []string{"GPUs", "plans", ">measured ms", ">measured change, %", ">predicted change, %", ">difference, points"}}
	for _, p := range []pair{
		{"1 to 7", find(all, "v3.0", "4 x h100-80", "1"), find(all, "v3.1", "4 x h100-80", "7"), true},
		{"2 to 8", find(all, "v3.0", "8 x h100-80", "2"), find(all, "v3.1", "8 x h100-80", "8"), true},
		{"5 to 11", find(all, "v3.0", "64 x h100-80", "5"), find(all, "v3.1", "64 x h100-80", "11"), false},
		{"6 to 12", find(all, "v3.0", "128 x h100-80", "6"), find(all, "v3.1", "128 x h100-80", "12"), false},
	} {
		before, after, err := p.steps()
		if err != nil {
			return nil, err
		}
		measured, predicted := p.after.ms/p.before.ms, after/before
		name, target := "out of sample, several hosts", goal{points: 10}
		if p.oneHost {
			name, target = "one host, v3.0 in the fit", goal{points: 3}
		}
		s.set(name, target).add(predicted, measured)
		s.rows = append(s.rows, []string{
			p.before.name(), p.what, fmt.Sprintf("%.3f to %.3f", p.before.ms, p.after.ms),
			signed(measured - 1), signed(predicted - 1), signed(predicted - measured),
		})
	}
	return s, nil
}

// deviceRatios compares the ratios of steps of different GPUs at equal numbers of GPUs.
func deviceRatios() (*sheet, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	a100, h100 := find(all, "v3.0", "8 x a100-80", "2"), find(all, "v3.0", "8 x h100-80", "2")
	newer, h200 := find(all, "v4.0", "8 x h100-80", "8"), find(all, "v4.0", "8 x h200", "8")
	s := &sheet{columns: []string{"8 GPUs", "rounds", "plans", ">measured ratio", ">predicted ratio", ">error, %"}}
	for _, p := range []pair{
		{"the same", a100, h100, true},
		{"the same", newer, h200, true},
		{"other plan and software", a100, h200, true},
	} {
		before, after, err := p.steps()
		if err != nil {
			return nil, err
		}
		measured, predicted := p.before.ms/p.after.ms, before/after
		s.set("ratios of kinds", goal{worst: 8}).add(predicted, measured)
		s.rows = append(s.rows, []string{
			p.before.input.Problem.Topology.Profile.Name + " : " + p.after.input.Problem.Topology.Profile.Name,
			p.before.round + " : " + p.after.round, p.what,
			fmt.Sprintf("%.3f", measured), fmt.Sprintf("%.3f", predicted), signed(predicted/measured - 1),
		})
	}
	return s, nil
}

// oneMeasured predicts each system from the measured step of each other one.
func oneMeasured() (*sheet, error) {
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
	s := &sheet{folded: true, columns: []string{"measured once", "round", "plan", ">measured ms", ">worst error of the others with the same number of hosts, %", ">worst error with another, %"}}
	for _, known := range used {
		same, other := 0.0, 0.0
		for _, one := range used {
			if one == known {
				continue
			}
			got := calibrated(known, one, predicted)
			off := got/one.ms - 1
			worst, name, target := &other, "one measured step, another number of hosts", goal{worst: 15}
			if one.hosts == known.hosts {
				worst, name, target = &same, "one measured step, the same number of hosts", goal{worst: 5}
			}
			s.set(name, target).add(got, one.ms)
			if math.Abs(off) > math.Abs(*worst) {
				*worst = off
			}
		}
		cell := signed(same)
		if same == 0 {
			cell = "none"
		}
		s.rows = append(s.rows, []string{known.name(), known.round, known.plan, fmt.Sprintf("%.3f", known.ms), cell, signed(other)})
	}
	return s, nil
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
