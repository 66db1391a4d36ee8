package main

// Whole steps of MLPerf's systems: the fit of one constant to the systems of v3.0 with one
// host, and the comparison with all others.

// fitRound is the round whose systems of one host the fixed time is fitted to.
const fitRound = "v3.0"

// inFit reports whether the fixed time is fitted to the system.
func (s *system) inFit() bool {
	return s.round == fitRound && s.hosts == 1 && s.use == ""
}

// rowsOf returns the set of rows that a system belongs to, or "" if it is left out.
func (s *system) rowsOf() string {
	switch {
	case s.use != "":
		return ""
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
func wholeSteps() []*set {
	all := mlperfSystems()
	s := sets{what: "whole steps of MLPerf's DLRM-DCNv2"}
	for _, one := range all {
		if rows := one.rowsOf(); rows != "" {
			s.of(rows).add(one.own(), one.ms)
		}
	}
	return s.list
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
	panic("generate: no system " + round + " " + name + " " + plan)
}

// pairs compares ratios of steps: the four configurations whose plan changed between v3.0 and v3.1,
// and different GPUs at equal numbers of GPUs.
func pairs() []*set {
	all := mlperfSystems()
	a100, h100, newer := find(all, "v3.0", "8 x a100-80", "2"), find(all, "v3.0", "8 x h100-80", "2"), find(all, "v4.0", "8 x h100-80", "8")
	h200 := find(all, "v4.0", "8 x h200", "8")
	changes, kinds := sets{what: "ratios of steps after a change of plan"}, sets{what: "ratios of steps of two kinds of GPUs"}
	for _, p := range []struct {
		in            *set
		before, after *system
	}{
		{changes.of("one host, v3.0 in the fit"), find(all, "v3.0", "4 x h100-80", "1"), find(all, "v3.1", "4 x h100-80", "7")},
		{changes.of("one host, v3.0 in the fit"), h100, find(all, "v3.1", "8 x h100-80", "8")},
		{changes.of("out of the fit, several hosts"), find(all, "v3.0", "64 x h100-80", "5"), find(all, "v3.1", "64 x h100-80", "11")},
		{changes.of("out of the fit, several hosts"), find(all, "v3.0", "128 x h100-80", "6"), find(all, "v3.1", "128 x h100-80", "12")},
		{kinds.of("eight GPUs"), h100, a100},
		{kinds.of("eight GPUs"), h200, newer},
		{kinds.of("eight GPUs"), h200, a100},
	} {
		p.in.add(p.after.own()/p.before.own(), p.after.ms/p.before.ms)
	}
	return append(changes.list, kinds.list...)
}

// oneMeasured predicts each system from the measured step of each other one.
func oneMeasured() []*set {
	all := mlperfSystems()
	var used []*system
	for _, one := range all {
		if one.use == "" && (one.round != fitRound || one.hosts == 1) {
			used = append(used, one)
		}
	}
	s := sets{what: "from one measured step"}
	same, other := s.of("the same number of hosts"), s.of("another number of hosts")
	for _, known := range used {
		for _, one := range used {
			if one == known {
				continue
			}
			rows := other
			if one.hosts == known.hosts {
				rows = same
			}
			rows.add(one.from(known), one.ms)
		}
	}
	return s.list
}
