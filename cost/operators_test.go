package cost_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// Changes of one slice to ten, half of them taken back, as an annealing makes them: each time is to the
// last bit that of a new Scorer that was given the slices at once.
func TestChangesThatStayAndThatDoNot(t *testing.T) {
	model, _ := load(t)
	const devices = 2
	p := mixed(t, 3, 12, devices, 2, true)
	estimates := newEstimates(t, model, p)
	var items []int
	for i := range p.Tables {
		for width := p.Tables[i].Dim; width >= 4; width /= 2 {
			items = append(items, estimates.Item(i, width, problem.Form{}))
		}
	}
	s := estimates.NewScorer(0)
	var on [devices][]int
	change := func(device int, come, gone []int) {
		for _, item := range come {
			s.Add(device, item)
		}
		for _, item := range gone {
			s.Remove(device, item)
		}
	}
	check := func(step, device int) {
		fresh := estimates.NewScorer(0)
		for _, item := range on[device] {
			fresh.Add(device, item)
		}
		if got, want := s.Compute(device), fresh.Compute(device); got != want {
			t.Fatalf("step %d: got %v, want %v", step, got, want)
		}
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for step := range 3000 {
		device := draw.IntN(devices)
		before := slices.Clone(on[device])
		var come, gone []int
		for range 1 + draw.IntN([]int{2, 10}[draw.IntN(2)]) {
			if n := len(on[device]); n > 0 && draw.IntN(12) < n {
				i := draw.IntN(n)
				gone = append(gone, on[device][i])
				on[device] = slices.Delete(on[device], i, i+1)
			} else {
				come = append(come, items[draw.IntN(len(items))])
				on[device] = append(on[device], come[len(come)-1])
			}
		}
		change(device, come, gone)
		check(step, device)
		if draw.IntN(2) == 0 {
			continue
		}
		change(device, gone, come)
		on[device] = before
		if draw.IntN(2) == 0 {
			check(step, device)
		}
	}
}
