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
	// own returns the predicted step in ms under the stack's own constants.
	own func() float64
	// use is "" for systems that are compared, else the reason why not.
	use string
}

// name describes the configuration.
func (s *system) name() string {
	t := &s.input.Problem.Topology
	return fmt.Sprintf("%d x %s", t.Devices, t.Profile.Name)
}

// from returns the step in ms that is predicted from the measured step of another system.
func (s *system) from(known *system) float64 {
	in := s.input
	if known.hosts > s.hosts { // a stack that sums inside hosts prices one host as the other stack does
		in.Stack = known.input.Stack
	}
	in.Measured = step.Measured{Step: unit.Millis(known.ms), Problem: known.input.Problem, Shards: known.input.Shards}
	return float64(must(step.Price(in)).Step)
}

// mlperfSystems returns the configurations with their plans, as they ran. All callers share
// them.
var mlperfSystems = sync.OnceValue(readMLPerf)

func readMLPerf() []*system {
	plans := mlperfPlans()
	var all []*system
	for _, f := range readFacts("mlperf.csv") {
		all = append(all, mlperfSystem(f, plans))
	}
	return all
}

func mlperfSystem(f fact, plans map[string][]string) *system {
	profile := must(hardware.ByName(f.text("profile")))
	w := must(workload.ByName("mlperf-dlrm-dcnv2"))
	p := w.Problem()
	p.Topology.Profile, p.Topology.Devices, p.Topology.DevicesPerHost, p.Batch = profile, f.count("devices"), f.count("per_host"), f.count("batch")
	p.Engine = problem.HugeCTR
	shards := byDevice(&p, holdings(&p, plans[f.text("plan")]))
	stack := must(step.StackByName(map[string]string{"uniform": "hugectr", "hierarchical": "hugectr-hierarchical"}[f.text("exchange")]))
	stack.SHARP = f.text("sharp") == "1"
	dense := must(step.DenseByName("mlperf-dlrm-dcnv2"))
	return priced(&system{
		round: f.text("round"), plan: f.text("plan"), use: f.text("left_out"), ms: f.number("ms"), hosts: p.Topology.Hosts(),
		input: step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack},
	})
}

// priced sets the predicted step of a system, which is computed once.
func priced(s *system) *system {
	s.own = sync.OnceValue(func() float64 { return float64(must(step.Price(s.input)).Step) })
	return s
}

// mlperfPlans returns the devices of the tables, which are in order, by plan.
func mlperfPlans() map[string][]string {
	plans := map[string][]string{}
	for _, f := range readFacts("mlperf_plans.csv") {
		plans[f.text("plan")] = append(plans[f.text("plan")], f.text("devices"))
	}
	return plans
}

// holdings reads the devices of each table: "all" for a replica, else devices and ranges
// of devices, each with an equal block of the rows.
func holdings(p *problem.Problem, devices []string) (parts []held) {
	for table, list := range devices {
		if list == "all" {
			replica := held{p.Whole(table), -1}
			replica.ShardingType = problem.DataParallel
			parts = append(parts, replica)
			continue
		}
		var all []int
		for _, part := range strings.Fields(list) {
			from, to, ranged := strings.Cut(part, "-")
			first := must(strconv.Atoi(from))
			last := first
			if ranged {
				last = must(strconv.Atoi(to))
			}
			for d := first; d <= last; d++ {
				all = append(all, d)
			}
		}
		for k, d := range all {
			s, rows := p.Whole(table), p.Tables[table].BlockRows(len(all))
			if len(all) > 1 {
				s.ShardingType = problem.RowWise
				s.Rows = problem.Range{Start: min(int64(k)*rows, s.Rows.End), End: min(int64(k+1)*rows, s.Rows.End)}
				if len(all) != p.Topology.Devices || d != k {
					s.Blocks = len(all) // on devices of the list's choice
				}
			}
			parts = append(parts, held{s, d})
		}
	}
	return parts
}
