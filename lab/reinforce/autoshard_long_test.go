//go:build long

package reinforce

import "testing"

// The policy learns to balance: three seeds get from about 0.53 to 0.95 and more.
func TestAutoShardLearns(t *testing.T) {
	for seed := range uint64(3) {
		o := tinyOptions(40_000)
		o.Seed = seed
		updates := train(t, o).Updates
		first, last := updates[0], updates[len(updates)-1]
		if first.Reward > 0.65 || last.Reward < 0.85 {
			t.Errorf("seed %d: got a balance of %v at first and of %v at last, want about 0.53 and 0.95", seed, first.Reward, last.Reward)
		}
		if last.Losses.Cost > first.Losses.Cost/100 {
			t.Errorf("seed %d: loss of the costs: got %v after %v, want less than a hundredth", seed, last.Losses.Cost, first.Losses.Cost)
		}
	}
}
