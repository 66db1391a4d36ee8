package nn_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/cost/nn"
)

// A small net learns, from sets of pairs of numbers, the sum of their
// differences |a - b|.
func ExampleSetTrainer() {
	net, err := nn.NewSetNet(nn.SetConfig{In: 2, Hidden: 32, Embed: 8, Head: 16, Out: 1, Biases: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	net.Init(1)
	trainer := nn.NewSetTrainer(net, 4, 2)
	adam := nn.NewAdam(0)
	random := rand.New(rand.NewPCG(1, 1))

	const steps, sets = 1500, 64
	var first, last float64
	for step := range steps {
		batch := nn.Sets{Offsets: []int32{0}}
		var targets []float32
		for range sets {
			var sum float32
			for range 1 + random.IntN(5) {
				a, b := random.Float32(), random.Float32()
				batch.X, batch.Scale = append(batch.X, a, b), append(batch.Scale, 1)
				sum += max(a-b, b-a)
			}
			batch.Offsets = append(batch.Offsets, int32(len(batch.X)/2))
			targets = append(targets, sum)
		}
		adam.LR = 0.01 * (1 - float64(step)/steps)
		last = trainer.Step(batch, adam, func(lo, hi int, out, dout []float32) float64 {
			var loss float64
			for i, y := range out {
				d := y - targets[lo+i]
				dout[i] = 2 * d / sets
				loss += float64(d*d) / sets
			}
			return loss
		})
		if step == 0 {
			first = last
		}
	}
	fmt.Println("mean square error starts above 0.1:", first > 0.1)
	fmt.Println("mean square error ends below 0.0001:", last < 1e-4)
	// Output:
	// mean square error starts above 0.1: true
	// mean square error ends below 0.0001: true
}

func ExampleMLP() {
	net, err := nn.NewMLP(2, 2, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	// |a - b| as relu(a-b) + relu(b-a).
	for _, p := range net.Params() {
		switch p.Name {
		case "0.weight":
			copy(p.Data, []float32{1, -1, -1, 1})
		case "2.weight":
			copy(p.Data, []float32{1, 1})
		}
	}
	out := make([]float32, 3)
	net.Forward(&nn.MLPWorkspace{}, 3, []float32{5, 2, 2, 5, 4, 4}, out)
	fmt.Println(out)
	// Output: [3 3 0]
}
