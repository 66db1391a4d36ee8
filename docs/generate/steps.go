package main

// Whole steps of MLPerf's systems: the fit of one constant to the systems with one host, and the
// comparison with all others.

// firstRound is the round of the first software.
const firstRound = "v3.0"

// inFit reports whether the fixed time is fitted to the system.
func (s *system) inFit() bool { return s.hosts == 1 && s.use == "" }

// rowsOf returns the set of rows that a system belongs to, or "" if it is left out.
func (s *system) rowsOf() string {
	switch {
	case s.use != "":
		return ""
	case s.inFit():
		return "in the fit, one host"
	case s.round == firstRound:
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

// A pair is two systems whose steps are compared.
type pair struct{ before, after *system }

// planChanges returns configurations that ran with two plans: in one round, or the next, of newer software.
func planChanges() []pair {
	all := mlperfSystems()
	return []pair{
		{find(all, "v3.0", "8 x h100-80", "2"), find(all, "v3.0", "8 x h100-80", "4")},
		{find(all, "v3.1", "8 x h100-80", "8"), find(all, "v3.1", "8 x h100-80", "9")},
		{find(all, "v3.0", "4 x h100-80", "1"), find(all, "v3.1", "4 x h100-80", "7")},
		{find(all, "v3.0", "8 x h100-80", "2"), find(all, "v3.1", "8 x h100-80", "8")},
		{find(all, "v3.0", "64 x h100-80", "5"), find(all, "v3.1", "64 x h100-80", "11")},
		{find(all, "v3.0", "128 x h100-80", "6"), find(all, "v3.1", "128 x h100-80", "12")},
	}
}

// oneMeasured predicts each system from the measured step of each other one.
func oneMeasured() []*set {
	all := mlperfSystems()
	var used []*system
	for _, one := range all {
		if one.use == "" && (one.round != firstRound || one.hosts == 1) {
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
