package verify_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// trio is a problem of three tables on two devices, and the placements in which one table is
// alone on device 0.
func trio(t testing.TB) (*problem.Problem, []neuroshard.Finalist) {
	t.Helper()
	p := &problem.Problem{Topology: hardware.Topology{Profile: profile(t), Devices: 2}, Batch: 1024}
	for _, name := range []string{"a", "b", "c"} {
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 1000, Dim: 16, Features: []problem.Feature{{PoolingFactor: 1}}})
	}
	var all []neuroshard.Finalist
	for alone := range p.Tables {
		held := [][]problem.Shard{{p.Whole(alone)}, nil}
		for i := range p.Tables {
			if i != alone {
				held[1] = append(held[1], p.Whole(i))
			}
		}
		all = append(all, neuroshard.Finalist{Method: "neuroshard", Seed: uint64(alone), Shards: held})
	}
	return p, all
}

// loaded is a backend whose tables take 1, 2 and 3 ms each, on a machine whose other load
// multiplies all times of a round by its factor.
func loaded(t testing.TB, factors []float64) *backend {
	m := newBackend(t)
	computes := 0
	m.onCompute = func(g *dataset.Group, timing *collect.Timing) error {
		round := computes / 6 // three finalists of two devices
		sum := 0.
		for _, member := range g.Members {
			sum += float64(member.Table + 1)
		}
		*timing = collect.Timing{Forward: unit.Millis(sum * factors[round])}
		computes++
		return nil
	}
	m.onComm = func(e *dataset.Exchange, timing *collect.CommTiming) error {
		last := slices.Max(e.Start)
		*timing = collect.CommTiming{Forward: []unit.Millis{last - e.Start[0], last - e.Start[1]}, Backward: []unit.Millis{0, 0}}
		return nil
	}
	return m
}

// Load that changes from round to round does not hide which finalist is faster: the first takes 5
// ms, the others 4 and 3, and the third is kept, though its slowest rounds take longer than the
// first's fastest.
func TestChooseOnALoadedMachine(t *testing.T) {
	p, finalists := trio(t)
	factors := []float64{1, 4, 1.5, 2, 1, 3, 1, 1}
	m := must.Get(verify.Choose(context.Background(), p, finalists, loaded(t, factors), verify.Options{Repeats: len(factors)}))(t)
	if m.Kept != 2 || !m.Trials[1].Faster || !m.Trials[2].Faster || m.Trials[0].Faster || m.Rounds != 8 || !m.Simulated {
		t.Fatalf("got %d kept of %+v, want the third", m.Kept, m.Trials)
	}
	for i, want := range []float64{0, -.2, -.4} {
		if got := m.Trials[i].Difference; math.Abs(got-want) > 1e-12 {
			t.Errorf("finalist %d: got difference %v, want %v", i, got, want)
		}
	}
	if got := m.Trials[2].PValue; got != 1./256 {
		t.Errorf("faster in 8 of 8 rounds: got p-value %v, want 1/256", got)
	}
	if first := m.Trials[0]; slices.Max(m.Trials[2].Runs) <= slices.Min(first.Runs) || first.PValue != 0 {
		t.Errorf("got runs %v and %v, want ranges that overlap, and no p-value of the first", m.Trials[2].Runs, first.Runs)
	}
	if !strings.Contains(m.Why, "40.0 % less time than neuroshard") {
		t.Errorf("got reason %q", m.Why)
	}
}

// A finalist that is faster in the mean, but not in enough rounds, does not replace the first.
func TestChooseKeepsTheFirstInDoubt(t *testing.T) {
	p, finalists := trio(t)
	finalists = finalists[:2]
	factors := make([]float64, 64)
	for i := range factors {
		factors[i] = 1
	}
	// The second takes 4 ms beside 5 ms. In every other round of its four computes, it takes 5.5 ms.
	m := loaded(t, factors)
	unloaded, computes := m.onCompute, 0
	m.onCompute = func(g *dataset.Group, timing *collect.Timing) error {
		err := unloaded(g, timing)
		if second := len(g.Members) == 2 && g.Members[0].Table == 0; second && computes/4%2 == 1 {
			timing.Forward += 1.5
		}
		computes++
		return err
	}
	got := must.Get(verify.Choose(context.Background(), p, finalists, m, verify.Options{Repeats: 8}))(t)
	if got.Kept != 0 || got.Trials[1].Faster || !(got.Trials[1].PValue > .05) {
		t.Errorf("faster in 4 of 8 rounds: got %d kept, %+v, want the first", got.Kept, got.Trials[1])
	}
	if !strings.Contains(got.Why, "no other finalist was faster") {
		t.Errorf("got reason %q", got.Why)
	}
}

// Each finalist runs once in each round, in an order that differs between rounds and depends on
// the seed alone.
func TestInTurns(t *testing.T) {
	p, finalists := trio(t)
	var placements []verify.Placement
	for _, f := range finalists {
		placements = append(placements, verify.Placement{Shards: f.Shards})
	}
	const rounds = 6
	order := func(seed uint64, fastest bool) []int {
		m := newBackend(t)
		var all []int
		m.onCompute = func(g *dataset.Group, _ *collect.Timing) error {
			if len(g.Members) == 1 {
				all = append(all, int(g.Members[0].Table)) // the table that is alone
			}
			return nil
		}
		seen, last := 0, 0
		turns := must.Get(verify.InTurns(context.Background(), p, placements, m, verify.Options{
			Repeats: rounds, Seed: seed, Fastest: fastest,
			OnProgress: func(done, of int) { seen++; last = of - done },
		}))(t)
		if len(turns) != 3 || seen != 3*rounds*4 || last != 0 {
			t.Errorf("got %d turns and progress of %d requests, %d missing, want 3, %d and 0", len(turns), seen, last, 3*rounds*4)
		}
		for i, turn := range turns {
			if turn.Err != nil || len(turn.Result.Costs) != rounds {
				t.Errorf("plan %d: got error %v, %d costs", i, turn.Err, len(turn.Result.Costs))
			}
		}
		return all
	}
	first := order(1, false)
	for round := range rounds {
		if got := slices.Sorted(slices.Values(first[3*round : 3*round+3])); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("round %d: got plans %v, want each once", round, first[3*round:3*round+3])
		}
	}
	if slices.Equal(first[:3], first[3:6]) && slices.Equal(first[:3], first[6:9]) && slices.Equal(first[:3], first[9:12]) {
		t.Errorf("got order %v, want one that changes", first)
	}
	if again := order(1, true); !slices.Equal(first, again) {
		t.Errorf("the same seed, fastest runs: got order %v, want %v", again, first)
	}
	if other := order(2, false); slices.Equal(first, other) {
		t.Errorf("another seed: got the same order %v", other)
	}
}

// A finalist that the backend has no memory for is left out. If it is the first, nothing can be
// chosen, and no other failure is passed over.
func TestChooseWithoutMemory(t *testing.T) {
	p, finalists := trio(t)
	refuse := func(code string, alone int32) *backend {
		m := newBackend(t)
		m.onCompute = func(g *dataset.Group, _ *collect.Timing) error {
			if len(g.Members) == 1 && g.Members[0].Table == alone {
				return &protocol.Error{Code: code, Message: "no room"}
			}
			return nil
		}
		return m
	}
	m := must.Get(verify.Choose(context.Background(), p, finalists, refuse(protocol.CodeMemory, 1), verify.Options{Repeats: 5}))(t)
	if m.Trials[0].Refused != "" || m.Trials[2].Refused != "" || !strings.Contains(m.Trials[1].Refused, "do not fit the backend's memory") || m.Kept == 1 || m.Trials[1].Runs != nil {
		t.Errorf("got %+v, want only the second left out", m.Trials)
	}
	for name, b := range map[string]*backend{"the first": refuse(protocol.CodeMemory, 0), "a broken request": refuse(protocol.CodeBadRequest, 1)} {
		if _, err := verify.Choose(context.Background(), p, finalists, b, verify.Options{Repeats: 5}); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Errorf("%s: got error %v, want the backend's", name, err)
		}
	}
}

func TestChooseRefuses(t *testing.T) {
	p, finalists := trio(t)
	if _, err := verify.Choose(context.Background(), p, finalists, newBackend(t), verify.Options{Repeats: 4}); err == nil {
		t.Error("4 rounds: got no error")
	}
	mute := newBackend(t)
	mute.onComm = func(*dataset.Exchange, *collect.CommTiming) error {
		return &protocol.Error{Code: protocol.CodeUnsupported, Message: "one device"}
	}
	_, err := verify.Choose(context.Background(), p, finalists, mute, verify.Options{Repeats: 5})
	if _, ok := errors.AsType[*verify.NoExchanges](err); !ok || !strings.Contains(err.Error(), "one device") {
		t.Errorf("no all-to-alls: got error %v", err)
	}
	hosted := slices.Clone(finalists)
	hosted[1].Shards = [][]problem.Shard{{p.Whole(0), p.Whole(1)}, {p.Whole(2)}}
	hosted[1].Shards[0][0].Tier = problem.Host
	if m, err := verify.Choose(context.Background(), p, hosted, newBackend(t), verify.Options{Repeats: 5}); err != nil || !strings.Contains(m.Trials[1].Refused, "in host memory") || m.Trials[2].Refused != "" {
		t.Errorf("a finalist in host memory: got %+v and error %v, want only that one left out", m, err)
	}
	hosted[0], hosted[1] = hosted[1], hosted[0]
	_, err = verify.Choose(context.Background(), p, hosted, newBackend(t), verify.Options{Repeats: 5})
	if _, ok := errors.AsType[*verify.Unmeasurable](err); !ok {
		t.Errorf("the first in host memory: got error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := verify.Choose(ctx, p, finalists, newBackend(t), verify.Options{Repeats: 5}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got error %v", err)
	}
}

// With Fastest the pairs are blocks of rounds. Noise that hits another device in each round hides
// the difference of single rounds, but not that of the shortest times of a block.
func TestChooseByShortestTimes(t *testing.T) {
	p, finalists := trio(t)
	finalists = finalists[:2]
	for rounds, blocks := range map[int]int{5: 5, 8: 5, 10: 5, 15: 5, 16: 5, 24: 8} {
		noisy := newBackend(t)
		computes := 0
		noisy.onCompute = func(g *dataset.Group, timing *collect.Timing) error {
			sum := unit.Millis(0)
			for _, member := range g.Members {
				sum += unit.Millis(member.Table + 1)
			}
			if computes/4%2 == 0 { // every other round
				sum += 7
			}
			*timing = collect.Timing{Forward: sum}
			computes++
			return nil
		}
		noisy.onComm = loaded(t, nil).onComm
		var placements []verify.Placement
		for _, f := range finalists {
			placements = append(placements, verify.Placement{Shards: f.Shards})
		}
		turns := must.Get(verify.InTurns(context.Background(), p, placements, noisy, verify.Options{Repeats: rounds, Fastest: true}))(t)
		for i, want := range []unit.Millis{5, 4} {
			got := turns[i].Result
			if len(got.Costs) != rounds || len(got.Paired) != blocks || got.Measured != want {
				t.Errorf("%d rounds, plan %d: got %d costs, pairs %v, cost %v, want %d pairs and cost %v", rounds, i, len(got.Costs), got.Paired, got.Measured, blocks, want)
			}
			if rounds >= 10 && slices.Max(got.Paired) != want {
				t.Errorf("%d rounds, plan %d: got pairs %v, want the cost %v without noise in each block", rounds, i, got.Paired, want)
			}
		}
	}
}
