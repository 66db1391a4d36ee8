package reinforce

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func profile(t testing.TB) hardware.Profile {
	t.Helper()
	return must.Get(hardware.ByName("a100-80"))(t)
}

func tasks(t testing.TB, of Tasks, tests bool, n int) []problem.Problem {
	t.Helper()
	of.Profile = profile(t)
	return must.Get(of.Draw(tests, n))(t)
}

// Training and test tasks share no table, tasks fit, and a task does not depend on the others.
func TestDraw(t *testing.T) {
	of := Tasks{Tables: 30, Devices: 8, MaxDim: 128, Memory: 4 * unit.GiB, Seed: 3}
	base := func(all []problem.Problem) map[string]bool {
		names := map[string]bool{}
		for i := range all {
			if got := len(all[i].Tables); got != 30 || all[i].Topology.Devices != 8 {
				t.Errorf("task %d: got %d tables on %d devices, want 30 on 8", i, got, all[i].Topology.Devices)
			}
			for _, table := range all[i].Tables {
				name, _, _ := strings.Cut(table.Name, "#")
				names[name] = true
			}
		}
		return names
	}
	training, tests := tasks(t, of, false, 12), tasks(t, of, true, 12)
	used := base(training)
	for name := range base(tests) {
		if used[name] {
			t.Errorf("table %s is in a training task and in a test task", name)
		}
	}
	again := tasks(t, of, false, 5)
	for i := range again {
		if again[i].Tables[7].Name != training[i].Tables[7].Name || again[i].Tables[7].Dim != training[i].Tables[7].Dim {
			t.Errorf("task %d: got another one among fewer tasks", i)
		}
	}
	for _, c := range []struct {
		of   Tasks
		want string
	}{
		{Tasks{Tables: 429}, "tables: 429 is not between 1 and 428"},
		{Tasks{MaxDim: 48}, "largest dim: 48 is not a power of two"},
		{Tasks{Devices: -1}, "devices: -1"},
		{Tasks{Memory: 1000}, "none of 10000 draws of 50 tables fits 4 devices"},
	} {
		if _, err := c.of.Draw(false, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %q in it", err, c.want)
		}
	}
}

// The weights do not depend on the number of workers, but on the seed.
func TestDreamShardForAnyWorkers(t *testing.T) {
	of := tasks(t, Tasks{Tables: 8, Seed: 1}, false, 6)
	train := func(seed uint64, workers int) []float32 {
		o := Options{Measure: Simulated(), Iterations: 1, Tasks: Tasks{Seed: seed}, Workers: workers, Progress: func(int, int, string) {}}
		got := must.Get(trainDreamShard(context.Background(), &o, of, nil))(t)
		if card := got.Manifest.Card; card.Plans != plansPerIteration || card.Episodes != policyUpdatesEach*episodesPerUpdate || len(card.Losses) != 1 || !(card.Losses[0].Cost > 0) {
			t.Errorf("got the card %+v", card)
		}
		var all []float32
		for _, tensor := range got.Tensors {
			all = append(all, tensor.Data...)
		}
		return all
	}
	one := train(1, 1)
	if !slices.Equal(train(1, 3), one) {
		t.Error("got other weights on 3 workers")
	}
	if slices.Equal(train(2, 1), one) {
		t.Error("got the same weights from another seed")
	}
}
