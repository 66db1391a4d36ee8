package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// A system is one configuration of a published model: a cluster, a batch, the plan that it ran,
// and its measured step.
type system struct {
	// round is that of MLPerf Training, or the name of another model.
	round string
	// plan is the number of the plan; systems of equal plans ran the same placement.
	plan  string
	ms    float64
	input step.Input
	hosts int
	// own returns the predicted step under the stack's own constants.
	own func() (step.Times, error)
	// use is "" for systems that are compared, else the reason why not.
	use string
}

// name describes the configuration.
func (s *system) name() string {
	t := &s.input.Problem.Topology
	return fmt.Sprintf("%d x %s", t.Devices, t.Profile.Name)
}

// from returns the step in ms that is predicted from the measured step of another system.
func (s *system) from(known *system) (float64, error) {
	in := s.input
	if known.hosts > s.hosts { // a stack that sums inside hosts prices one host as the other stack does
		in.Stack = known.input.Stack
	}
	in.Measured = step.Measured{Step: unit.Millis(known.ms), Problem: known.input.Problem, Shards: known.input.Shards}
	t, err := step.Price(in)
	return float64(t.Step), err
}

// mlperfSystems returns the configurations with their plans, as they ran. All callers share
// them.
var mlperfSystems = sync.OnceValues(readMLPerf)

func readMLPerf() ([]*system, error) {
	plans, err := mlperfPlans()
	if err != nil {
		return nil, err
	}
	facts, err := readFacts("mlperf.csv")
	if err != nil {
		return nil, err
	}
	var all []*system
	for _, f := range facts {
		s, err := mlperfSystem(f, plans)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.where, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func mlperfSystem(f *fact, plans map[string][]string) (*system, error) {
	profile, err := hardware.ByName(f.text("profile"))
	if err != nil {
		return nil, err
	}
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
	if err != nil {
		return nil, err
	}
	p := w.Problem()
	p.Topology.Profile, p.Topology.Devices, p.Topology.DevicesPerHost, p.Batch = profile, f.count("devices"), f.count("per_host"), f.count("batch")
	p.Engine = problem.HugeCTR
	held, err := holdings(plans[f.text("plan")])
	if err != nil {
		return nil, err
	}
	shards, err := step.Place(&p, held)
	if err != nil {
		return nil, err
	}
	stack, err := step.StackByName(map[string]string{"uniform": "hugectr", "hierarchical": "hugectr-hierarchical"}[f.text("exchange")])
	if err != nil {
		return nil, err
	}
	stack.SHARP = f.text("sharp") == "1"
	dense, err := step.DenseByName("mlperf-dlrm-dcnv2")
	if err != nil {
		return nil, err
	}
	return priced(&system{
		round: f.text("round"), plan: f.text("plan"), use: f.text("left_out"), ms: f.number("ms"), hosts: p.Topology.Hosts(),
		input: step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack},
	}), f.err
}

// priced sets the predicted step of a system, which is computed once.
func priced(s *system) *system {
	s.own = sync.OnceValues(func() (step.Times, error) { return step.Price(s.input) })
	return s
}

// mlperfPlans returns the devices of each table, by plan.
func mlperfPlans() (map[string][]string, error) {
	facts, err := readFacts("mlperf_plans.csv")
	if err != nil {
		return nil, err
	}
	plans := map[string][]string{}
	for _, f := range facts {
		plan := f.text("plan")
		if f.count("table") != len(plans[plan]) || f.err != nil {
			return nil, fmt.Errorf("%s: table %s of plan %s: want table %d next", f.where, f.text("table"), plan, len(plans[plan]))
		}
		plans[plan] = append(plans[plan], f.text("devices"))
	}
	return plans, nil
}

// holdings reads the devices of each table: "all" for a replica, else devices and ranges
// of devices, each with an equal block of the rows.
func holdings(devices []string) (held []step.Holding, err error) {
	for table, list := range devices {
		if list == "all" {
			held = append(held, step.Holding{Table: table, Device: -1})
			continue
		}
		var all []int
		for _, part := range strings.Fields(list) {
			from, to, ranged := strings.Cut(part, "-")
			first, err := strconv.Atoi(from)
			if err != nil {
				return nil, fmt.Errorf("table %d: devices %q: %w", table, list, err)
			}
			last := first
			if ranged {
				if last, err = strconv.Atoi(to); err != nil {
					return nil, fmt.Errorf("table %d: devices %q: %w", table, list, err)
				}
			}
			for d := first; d <= last; d++ {
				all = append(all, d)
			}
		}
		for _, d := range all {
			held = append(held, step.Holding{Table: table, Device: d, Blocks: len(all)})
		}
	}
	return held, nil
}
