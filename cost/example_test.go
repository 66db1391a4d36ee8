package cost_test

import (
	"context"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/simulate"
)

// Pricing a placement of a published workload with the model that ships for its
// device, and with the simulated device that the model was trained on.
func Example() {
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
	if err != nil {
		panic(err)
	}
	p := w.Problem()
	file, err := pretrained.File(p.Topology.Profile.Name)
	if err != nil {
		panic(err)
	}
	model, err := cost.Load(file)
	if err != nil {
		panic(err)
	}
	estimates, err := cost.NewEstimates(context.Background(), model, &p)
	if err != nil {
		panic(err)
	}

	// Tables dealt out like cards.
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		d := i % len(shards)
		shards[d] = append(shards[d], p.Whole(i))
	}
	predicted := estimates.Price(shards)
	simulated, err := simulate.NewPricer(&p).Price(shards)
	if err != nil {
		panic(err)
	}
	off := math.Abs(float64(predicted.Cost/simulated.Cost) - 1)
	fmt.Println("devices:", len(predicted.Devices))
	fmt.Println("within 3 % of the simulated cost:", off < 0.03)
	// Output:
	// devices: 8
	// within 3 % of the simulated cost: true
}

// A search keeps a Scorer and asks it as it goes.
func ExampleScorer() {
	w, err := workload.ByName("nvidia-synthetic-tiny")
	if err != nil {
		panic(err)
	}
	p := w.Problem()
	file, err := pretrained.File(p.Topology.Profile.Name)
	if err != nil {
		panic(err)
	}
	model, err := cost.Load(file)
	if err != nil {
		panic(err)
	}
	estimates, err := cost.NewEstimates(context.Background(), model, &p)
	if err != nil {
		panic(err)
	}
	s := estimates.NewScorer(0)
	fmt.Println("empty:", s.Compute(0))
	half := s.Item(0, p.Tables[0].Dim/2, problem.Form{})
	s.Add(0, half)
	before := s.Compute(0)
	s.Add(0, half)
	fmt.Println("two halves take longer:", s.Compute(0) > before)
	s.Remove(0, half)
	fmt.Println("back to the bit:", s.Compute(0) == before)
	// Output:
	// empty: 0
	// two halves take longer: true
	// back to the bit: true
}
