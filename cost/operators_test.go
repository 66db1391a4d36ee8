package cost_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/problem"
)

// Changes of one slice to ten, half of them taken back, as an annealing makes them: whether a
// device's last times are kept or each group is predicted again, each time is to the last bit that
// of a Scorer that was given the slices at once.
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
	forgetful, keeping := estimates.NewScorer(0), estimates.NewScorer(0)
	forgetful.Forget()
	fresh := estimates.NewScorer(0)
	fresh.Forget()
	var on [devices][]int
	change := func(device int, come, gone []int) {
		for _, s := range []*cost.Scorer{forgetful, keeping} {
			for _, item := range come {
				s.Add(device, item)
			}
			for _, item := range gone {
				s.Remove(device, item)
			}
		}
	}
	check := func(step, device int) {
		fresh.Reset()
		for _, item := range on[device] {
			fresh.Add(device, item)
		}
		want := fresh.Compute(device)
		if a, b := forgetful.Compute(device), keeping.Compute(device); a != want || b != want {
			t.Fatalf("step %d: got %v and %v, want %v", step, a, b, want)
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
