package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// Steps of kinds of GPUs that constants were not fitted to: each kind is predicted with the fixed time
// that systems of the other kinds fit, or those of the earlier kinds.

// fitFixed returns the fixed time that minimizes the sum of the logarithms of predicted over
// measured steps, without signs. Squares would let one slow system decide.
func fitFixed(all []*system) unit.Millis {
	var rest, measured []float64
	for _, s := range all {
		rest, measured = append(rest, s.with(0)), append(measured, s.ms)
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
	return unit.Millis((low + high) / 2)
}

// with returns the predicted step in ms with another fixed time.
func (s *system) with(fixed unit.Millis) float64 {
	in := s.input
	in.Stack.Constants.Fixed = fixed
	return float64(must(step.Price(in)).Step)
}

// gpu returns the name of the profile.
func (s *system) gpu() string { return s.input.Problem.Topology.Profile.Name }

// A family is the systems of one model and engine.
type family struct {
	model string
	// fit are the systems that the fixed time is fitted to, and judged all that are predicted.
	fit, judged []*system
	// changes are pairs of systems with other plans.
	changes []pair
}

func families() []family {
	dcn, oneHot := family{model: "DLRM-DCNv2", changes: planChanges()}, family{model: "one lookup a table", fit: oneHotSystems(), judged: oneHotSystems()}
	for _, s := range mlperfSystems() {
		if s.inFit() {
			dcn.fit = append(dcn.fit, s)
		}
		if s.use == "" && (s.hosts == 1 || s.round != firstRound) {
			dcn.judged = append(dcn.judged, s)
		}
	}
	return []family{dcn, oneHot}
}

// gpus returns the kinds of GPUs of the family, the oldest first.
func (f *family) gpus() (names []string) {
	for _, name := range []string{"a100-80", "h100-80", "h200"} {
		if slices.ContainsFunc(f.judged, func(s *system) bool { return s.gpu() == name }) {
			names = append(names, name)
		}
	}
	return names
}

// fixed returns the fixed time that the systems of some kinds of GPUs fit.
func (f *family) fixed(gpus []string) unit.Millis {
	return fitFixed(slices.DeleteFunc(slices.Clone(f.fit), func(s *system) bool { return !slices.Contains(gpus, s.gpu()) }))
}

// judge predicts the systems of a kind of GPU with the fixed time of other kinds, and adds the steps and
// changes of plan to sets.
func (f *family) judge(s *sets, name string, others []string, changes []pair) {
	fixed := f.fixed(others)
	from := ", " + name + " from " + strings.Join(others, " and ")
	for _, one := range f.judged {
		if one.gpu() == name {
			s.of(one.onHosts()+from).add(one.with(fixed), one.ms)
		}
	}
	for _, p := range changes {
		if p.after.gpu() == name {
			s.of("changes of plan, "+p.after.onHosts()).add(p.after.with(fixed)/p.before.with(fixed), p.after.ms/p.before.ms)
		}
	}
}

// onHosts says whether the system has one host.
func (s *system) onHosts() string {
	if s.hosts == 1 {
		return "one host"
	}
	return "several hosts"
}

// unseen returns the errors of kinds of GPUs that no constant was fitted to: each from all other
// kinds, and from earlier ones.
func unseen() (all []*set) {
	for _, f := range families() {
		s := sets{what: f.model}
		gpus := f.gpus()
		for i, name := range gpus {
			f.judge(&s, name, slices.Delete(slices.Clone(gpus), i, i+1), f.changes)
			if i > 0 && i < len(gpus)-1 {
				f.judge(&s, name, gpus[:i], nil)
			}
		}
		all = append(all, s.list...)
	}
	return all
}

// unseenTable returns the table in Markdown, and the fixed times that kinds of GPUs fit alone.
func unseenTable() string {
	var b strings.Builder
	fmt.Fprint(&b, "| model | steps | number | median error | mean | worst |\n|---|---|--:|--:|--:|--:|")
	for _, s := range unseen() {
		fmt.Fprintf(&b, "\n| %s | %s | %d | %s %% | %s %% | %s %% |", s.what, s.rows, len(s.ratios), percent(s.median()), signed(s.bias()), signed(s.worst()))
	}
	b.WriteString("\n\nFixed times of single kinds, in ms:")
	separator := " "
	for _, f := range families() {
		for _, name := range f.gpus() {
			fmt.Fprintf(&b, "%s%s %.2f", separator, name, float64(f.fixed([]string{name})))
			separator = ", "
		}
		fmt.Fprintf(&b, " (%s)", f.model)
	}
	b.WriteByte('.')
	return b.String()
}
