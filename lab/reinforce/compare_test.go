package reinforce

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/search/policy/dreamshard"
	"github.com/neuroshard/neuroshard/search/searchtest"
)

func TestCompare(t *testing.T) {
	tests := tasks(t, Tasks{Tables: 6, Seed: 2}, true, 3)
	got, err := Compare(context.Background(), tests, searchtest.WithPolicy(search.Options{Method: search.DreamShard}).Policy, Simulated(), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Method != policy.DreamShard || got[1].Method != "random" || got[2].Method != "lookup" {
		t.Fatalf("got %+v, want the policy, random and lookup", got)
	}
	for _, one := range got {
		if one.Solved != 3 || !(one.CostMS > 0) {
			t.Errorf("got %+v, want three tasks solved", one)
		}
	}
	tests[0].Topology.Memory = 4096
	if got, err = Compare(context.Background(), tests, searchtest.WithPolicy(search.Options{Method: search.DreamShard}).Policy, Simulated(), 1, 1); err != nil || got[2].Solved != 2 {
		t.Errorf("got %+v and error %v, want two tasks solved", got, err)
	}
}

// With a cost model in the place of the cost net, no plan is measured, the cost net stays as it
// is, and the policy places by the model's estimates.
func TestPredict(t *testing.T) {
	of := tasks(t, Tasks{Tables: 6, Seed: 2}, false, 3)
	predict := Predict(neuroshard.Pretrained())
	o := Options{Iterations: 1, Tasks: Tasks{Seed: 1}, Workers: 2, Progress: func(int, int, string) {}}
	got := must.Get(trainDreamShard(context.Background(), &o, of, predict))(t)
	if card := got.Manifest.Card; card.Plans != 0 || card.Losses[0].Cost != 0 || card.Episodes == 0 {
		t.Errorf("got the card %+v, want episodes without measured plans", card)
	}
	net := must.Get(dreamshard.Load(got))(t)
	placed := must.Get(neuroshard.Plan(context.Background(), &of[0], neuroshard.Options{Search: search.Options{Method: search.DreamShard, Policy: dreamshard.NewPolicy(net, predict), Brief: true}}))(t)
	// The reward of the greedy episode is the cost that the line predicts for the placement.
	p := predict(&of[0], Pieces(&of[0]))
	for d, held := range placed.Shards {
		for _, s := range held {
			p.Put(int32(s.Table), int32(d))
		}
	}
	if got, want := p.Overall(), float64(placed.Predicted.Cost); got < .999*want || got > 1.001*want {
		t.Errorf("got overall cost %v of the placement, want %v as the line predicts", got, want)
	}
	if err := Predictable(neuroshard.Pretrained(), &of[0]); err != nil {
		t.Error(err)
	}
	other := of[0]
	other.Topology.Profile.Name = "desk"
	if err := Predictable(neuroshard.Pretrained(), &other); err == nil {
		t.Error("got no error for a profile without a model")
	}
}
