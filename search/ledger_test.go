package search

import (
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TestLedgerKnowsBackwardRoom makes changes of placements in all forms and compares, after each of them, whether the devices
// have room with what the problem says (problem.LeavesBackwardRoom).
func TestLedgerKnowsBackwardRoom(t *testing.T) {
	roomy, partly, tight := 0, 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 5))
		p := drawn(random.IntN, 2+2*random.IntN(2), 3+random.IntN(5))
		p.Topology.DevicesPerHost, p.Batch = 2, 64<<random.IntN(4)
		for i := range p.Tables {
			p.Tables[i].Features[0].PoolingFactor++
		}
		bytes := unit.Bytes(0)
		for i := range p.Tables {
			bytes += p.ShardMemory(p.Whole(i)).Total()
		}
		p.Topology.Memory = p.DeviceMemory(0).Received + p.BackwardRoom()/2 + bytes/unit.Bytes(p.Topology.Devices)*unit.Bytes(4+random.IntN(5))/4
		opt := Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes(), BackwardRoom: true, Workers: 1}
		r := newRun(t.Context(), p, formlessFactory(p), opt)
		a := newAnnealer(r.catalog, r.scorer(), seed, r.forms)
		a.crowding, a.renumbers = 1, true
		var parts []placed
		for _, k := range r.catalog.whole() {
			on := r.catalog.allowed(&r.catalog.pieces[k])
			parts = append(parts, placed{k, on[random.IntN(len(on))]})
		}
		a.reset(parts)
		for range 200 {
			if !a.propose() {
				continue
			}
			a.try()
			a.accept()
			leaves := p.LeavesBackwardRoom(r.catalog.shards(a.all()))
			if fits := a.lack(false) == 0; fits != leaves {
				t.Fatalf("seed %d: got a placement that fits: %v, want %v", seed, fits, leaves)
			}
			if over := a.excesses(); over != a.over || over > 0 == leaves {
				t.Fatalf("seed %d: got %d bytes above the memory of devices, counted as %d, want some: %v", seed, over, a.over, !leaves)
			}
			switch bare := leavesAll(p, a.layout); {
			case bare:
				roomy++
			case leaves:
				partly++
			default:
				tight++
			}
		}
	}
	if min(roomy, partly, tight) < 100 {
		t.Errorf("got %d placements with all of the room on each device, %d with what the devices need, %d with less, want 100 of each", roomy, partly, tight)
	}
}

// leavesAll reports whether each device of a layout has all of the room for the backward free.
func leavesAll(p *problem.Problem, l *layout) bool {
	reserved := *p
	reserved.Topology.ReserveFixed += p.BackwardRoom()
	for d, held := range l.c.shards(l.all()) {
		m := reserved.DeviceMemory(d)
		for _, s := range held {
			m = m.Add(p.ShardMemory(s))
			m.Received += p.ReceivedOf(s)
		}
		if m.Total() > reserved.Topology.DeviceMemory(d) {
			return false
		}
	}
	return true
}
