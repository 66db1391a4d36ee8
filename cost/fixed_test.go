package cost_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
)

// TestFixedComputeConforms: a Scorer's estimates are the same whatever comes and goes beside fixed
// compute, with exchanges that are hidden and that are not.
func TestFixedComputeConforms(t *testing.T) {
	model, _ := load(t)
	for _, c := range searchtest.Cases(model.Hardware()) {
		c.Problem.Topology.Fixed = []hardware.FixedLoad{{Name: "all", Time: .25}, {Name: "one", Devices: []int{c.Problem.Topology.Devices - 1}, Time: .5}}
		estimates := newEstimates(t, model, c.Problem)
		searchtest.Conform(t, c.Problem, func() search.Scorer { return estimates.NewScorer(0) }, searchtest.Forms(c.Problem.Topology))
	}
}
