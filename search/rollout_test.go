package search_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
)

// first is a policy that takes the pieces backwards and the last device with room. It
// records what it was asked.
type first struct {
	method search.Method
	rooms  *[][]int32
	pieces *[][]problem.Shard
}

func (f first) Method() string { return string(f.method) }

func (f first) Begin(_ *problem.Problem, pieces [][]problem.Shard, _ *rand.Rand) ([]int32, func(int32, []int32) int32) {
	var order []int32
	for i := range pieces {
		order = append([]int32{int32(i)}, order...)
	}
	*f.pieces = pieces
	return order, func(_ int32, room []int32) int32 {
		*f.rooms = append(*f.rooms, append([]int32{}, room...))
		return room[len(room)-1]
	}
}

// A policy is asked for one device for each piece, among the devices with room, in its own
// order; a table that no device holds whole comes as slices, and tables of a co-location as one
// piece.
func TestRolloutAsksForDevicesWithRoom(t *testing.T) {
	p := pool(5, 5, 2, 64)
	for i := range p.Tables {
		p.Tables[i].Rows, p.Tables[i].Dim = 1000, 16
	}
	p.Tables[0].Dim = 64
	p.Tables[1].Constraint = problem.Constraint{Devices: []int{0}}
	p.Tables[2].Constraint = problem.Constraint{Colocation: "together"}
	p.Tables[3].Constraint = problem.Constraint{Colocation: "together"}
	p.Tables[4].Dim = 4
	// A device has room for 60 columns, so only half of table 0 fits on one.
	p.Accounting, p.Topology.ReserveShare = problem.CountWeights, hardware.NoReserve
	p.Topology.Memory = 60 * p.ShardMemory(p.Whole(4))[problem.ForwardExchange].Used() / 4
	var rooms [][]int32
	var pieces [][]problem.Shard
	_, err := search.Run(context.Background(), p, factory(p), search.Options{Method: search.DreamShard, Policy: first{search.DreamShard, &rooms, &pieces}})
	var widths [][]int64
	for _, piece := range pieces {
		var w []int64
		for _, s := range piece {
			w = append(w, s.Columns.Len())
		}
		widths = append(widths, w)
	}
	if want := [][]int64{{32}, {32}, {16}, {16, 16}, {4}}; !reflect.DeepEqual(widths, want) {
		t.Errorf("got pieces of %v columns, want %v", widths, want)
	}
	// Backwards: 4 and 32 columns go to device 1, 16 to device 0, where table 1 is pinned. Device 1
	// then has room for 24 columns, so both slices of 32 go to device 0: only one fits.
	want := [][]int32{{0, 1}, {0, 1}, {0}, {0}}
	if !reflect.DeepEqual(rooms, want) {
		t.Errorf("got devices with room %v, want %v", rooms, want)
	}
	var infeasible *search.Infeasible
	if !errors.As(err, &infeasible) || infeasible.Width != 32 || infeasible.Method != search.DreamShard {
		t.Errorf("got error %v, want infeasible for the last slice of 32 columns", err)
	}
}

func TestRolloutRefusesPolicies(t *testing.T) {
	p := pool(5, 6, 2, 64)
	shard, dream := searchtest.WithPolicy(search.Options{Method: search.AutoShard}).Policy, searchtest.WithPolicy(search.Options{Method: search.DreamShard}).Policy
	for _, c := range []struct {
		opt  search.Options
		want string
	}{
		{search.Options{Method: search.DreamShard}, `search method "dreamshard" needs a policy: train one with neuroshard lab train-policy --set method=dreamshard`},
		{search.Options{Method: search.AutoShard, Policy: dream}, `search method "autoshard": the policy is one of method "dreamshard"`},
		{search.Options{Method: search.Dim, Policy: shard}, `search method "dim" takes no policy: leave the policy out, or choose method "autoshard"`},
		{search.Options{Samples: 3}, `search option samples: method "neuroshard" has no policy to draw 3 samples from`},
		{search.Options{Method: search.AutoShard, Policy: shard, Samples: -1}, "search option samples: -1 is negative"},
	} {
		if _, err := search.Run(context.Background(), p, factory(p), c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %q in it", err, c.want)
		}
	}
}

// More samples never cost more, the same seed gives the same placement, and a drawn rollout
// can find room where the greedy one finds none.
func TestRolloutSamples(t *testing.T) {
	p := pool(7, 8, 4, 64)
	cost := func(samples int, seed uint64) float64 {
		r := must.Get(search.Run(context.Background(), p, factory(p), searchtest.WithPolicy(search.Options{Method: search.DreamShard, Samples: samples, Seed: seed})))(t)
		if r.Stats.Placements != 1+samples {
			t.Errorf("%d samples: got %d placements, want %d", samples, r.Stats.Placements, 1+samples)
		}
		return r.Cost
	}
	best := cost(0, 1)
	for _, samples := range []int{4, 16, 64} {
		next := cost(samples, 1)
		if next > best || next != cost(samples, 1) {
			t.Errorf("%d samples: got cost %v, want at most %v, and the same again", samples, next, best)
		}
		best = next
	}
	if greedy := cost(0, 1); best >= greedy {
		t.Errorf("got %v of 64 samples, want less than the greedy %v", best, greedy)
	}
}

// Without a number of samples that a run can reach, the limit of evaluations ends the run.
func TestRolloutSamplesWithoutEnd(t *testing.T) {
	p := pool(7, 8, 4, 64)
	opt := searchtest.WithPolicy(search.Options{Method: search.DreamShard, Samples: math.MaxInt, MaxEvaluations: 40})
	r := must.Get(search.Run(context.Background(), p, factory(p), opt))(t)
	if r.Status != search.OutOfBudget || r.Stats.Placements < 2 {
		t.Errorf("got status %q after %d placements, want %q after at least 2", r.Status, r.Stats.Placements, search.OutOfBudget)
	}
	// Rollouts that find no room count, too.
	p.Topology.Memory, p.Topology.ReserveShare = 1<<20, hardware.NoReserve
	for i := range p.Tables {
		p.Tables[i].Rows, p.Tables[i].Dim = 60_000, 4 // 0.92 of the memory: eight tables on four devices
	}
	p.Accounting = problem.CountWeights
	var infeasible *search.Infeasible
	if _, err := search.Run(context.Background(), p, factory(p), opt); !errors.As(err, &infeasible) {
		t.Errorf("got error %v, want an *Infeasible", err)
	}
}
