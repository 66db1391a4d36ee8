//go:build long

package reinforce

import "testing"

// The policy learns to balance: seeds get from about 0.53 to 0.95 and more.
func TestAutoShardLearns(t *testing.T) {
	for seed := range uint64(2) {
		_, updates := train(t, Options{Decisions: 40_000, Tasks: Tasks{Seed: seed}})
		first, last := updates[0], updates[len(updates)-1]
		if first.reward > 0.65 || last.reward < 0.85 {
			t.Errorf("seed %d: got a balance of %v at first and of %v at last, want about 0.53 and 0.95", seed, first.reward, last.reward)
		}
		if last.losses.Cost > first.losses.Cost/100 {
			t.Errorf("seed %d: loss of the costs: got %v after %v, want less than a hundredth", seed, last.losses.Cost, first.losses.Cost)
		}
	}
}
