package reinforce

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/search/policy/autoshard"
	"github.com/neuroshard/neuroshard/unit"
)

// tinyTask returns a task of unequal tables on two devices.
func tinyTask(tables int, shift int) problem.Problem {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := problem.Problem{
		Topology: hardware.Topology{Profile: profile, Devices: 2, Memory: unit.GiB, ReserveShare: hardware.NoReserve},
		Batch:    4096, Accounting: problem.CountWeights,
	}
	for i := range tables {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint(i), Rows: int64(1000 * (1 + i)), Dim: 16, Precision: problem.FP32,
			Features: []problem.Feature{{Name: fmt.Sprint(i), PoolingFactor: float64(1 + (i+shift)%4*5)}},
		})
	}
	return p
}

// byPooling measures a plan: a device takes a millisecond for each 10 lookups of a
// sample, and the exchange takes the same for all.
func byPooling(p *problem.Problem, shards [][]problem.Shard) (plan.Breakdown, error) {
	devices := make([]plan.StepTimes, len(shards))
	for d, held := range shards {
		for _, s := range held {
			devices[d].Forward += unit.Millis(p.Tables[s.Table].PoolingFactor() / 10)
		}
		devices[d].ForwardComm = 1
	}
	return plan.NewBreakdown(devices), nil
}

// train trains on two tiny tasks.
func train(t *testing.T, o Options) (*policy.Folder, []update) {
	t.Helper()
	o.Measure, o.Progress = byPooling, func(int, int, string) {}
	f, updates := must.Get2(trainAutoShard(context.Background(), &o, []problem.Problem{tinyTask(8, 0), tinyTask(8, 1)}))(t)
	return f, updates
}

func TestAutoShardSameWeights(t *testing.T) {
	weights := func(workers int, seed uint64) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
		f, updates := train(t, Options{Decisions: 801, Tasks: Tasks{Seed: seed}})
		// Each of 8 actors places 100 tables for an update, and a task has 8 tables.
		if len(updates) != 2 || f.Manifest.Card.Plans != 200 {
			t.Fatalf("got %d updates and %d plans, want 2 and 200", len(updates), f.Manifest.Card.Plans)
		}
		if first, last := updates[0].losses.Cost, updates[1].losses.Cost; !(last < first) {
			t.Errorf("loss of the costs: got %v after %v, want less", last, first)
		}
		var all []float32
		for _, tensor := range f.Tensors {
			all = append(all, tensor.Data...)
		}
		return all
	}
	one := weights(1, 1)
	if !slices.Equal(one, weights(4, 1)) {
		t.Error("another number of processors gives other weights")
	}
	if slices.Equal(one, weights(1, 2)) {
		t.Error("another seed gives the same weights")
	}
}

func TestAutoShardRewards(t *testing.T) {
	task := tinyTask(4, 0) // 1, 6, 11 and 16 lookups
	scenes, x, scaling := scenesOf([]problem.Problem{task})
	s := scenes[0]
	if got, want := scaling, autoshard.NewScaling(vectors(&task)); got != want {
		t.Errorf("got constants %v, want %v", got, want)
	}
	if got := len(x) / policy.Features; got != 5 {
		t.Errorf("got features of %d tables, want 4 and the zero row", got)
	}
	o := &Options{Measure: byPooling}
	s.reference = 4
	for _, c := range []struct {
		what    string
		by      []int32
		cost    bool
		budget  int64
		reward  float64
		over    bool
		devices []float64
	}{
		{"balance", []int32{0, 0, 0, 1}, false, 1 << 30, 1.6 / 1.8, false, []float64{1.8, 1.6}},
		{"an empty device", []int32{1, 1, 1, 1}, false, 1 << 30, 0, false, []float64{0, 3.4}},
		{"cost", []int32{0, 0, 0, 1}, true, 1 << 30, 4 / 2.8, false, []float64{1.8, 1.6}},
		// Device 0 holds 6,000 rows of 16 columns, 4 bytes each.
		{"over memory", []int32{0, 0, 0, 1}, false, 300_000, -84_000. / 300_000, true, []float64{1.8, 1.6}},
		{"over memory, by cost", []int32{0, 0, 0, 1}, true, 300_000, -84_000. / 300_000, true, []float64{1.8, 1.6}},
	} {
		if s.budget, o.Reward = c.budget, ""; c.cost {
			o.Reward = ByCost
		}
		reward, times, over, err := s.judge(o, c.by)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(reward-c.reward) > 1e-9 || over != c.over || math.Abs(times[0]-c.devices[0]) > 1e-9 || math.Abs(times[1]-c.devices[1]) > 1e-9 {
			t.Errorf("%s: got reward %v, over %v and times %v, want %v, %v and %v", c.what, reward, over, times, c.reward, c.over, c.devices)
		}
	}
}

func vectors(p *problem.Problem) []policy.Vector {
	return policy.Describe(p, Pieces(p)).Vectors
}
