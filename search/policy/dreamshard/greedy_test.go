package dreamshard

import (
	"testing"

	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy"
)

var _ search.Policy = (*Greedy)(nil)

// Each piece goes where the costs of the device, with the piece, are least: as rollouts say that
// place all pieces so far again.
func TestGreedy(t *testing.T) {
	const devices = 3
	p, pieces := drawn(t, 12, devices)
	trained := NewPolicy(New(5), nil)
	control, ok := trained.Greedy()
	if !ok || control.Method() != trained.Method() {
		t.Fatalf("got %v and method %q, want a control", ok, control.Method())
	}
	order, choose := control.Begin(p, pieces, nil)
	task := NewTask(policy.Describe(p, pieces))
	type placed struct{ piece, device int32 }
	var all []placed
	cost := func(piece, device int32) (sum float32) {
		r := trained.frozen.rollout(trained.net, task, devices, nil)
		for _, x := range append(all[:len(all):len(all)], placed{piece, device}) {
			r.put(x.piece, x.device)
		}
		for _, c := range r.cost(int(device)) {
			sum += c
		}
		return sum
	}
	used := map[int32]bool{}
	for i, piece := range order {
		room := []int32{0, 1, 2}
		if i%4 == 3 {
			room = []int32{1, 2}
		}
		got := choose(piece, room)
		for _, d := range room {
			if cost(piece, d) < cost(piece, got)-1e-5 {
				t.Errorf("piece %d: got device %d of %v ms, but device %d has %v ms", piece, got, cost(piece, got), d, cost(piece, d))
			}
		}
		all, used[got] = append(all, placed{piece, got}), true
	}
	if len(used) != devices {
		t.Errorf("got devices %v, want all %d used", used, devices)
	}
}
