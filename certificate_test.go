package neuroshard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// ending is a context that ends when it is asked for the nth time whether it ended.
type ending struct {
	context.Context
	left *atomic.Int64
}

func (e ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestContextsEndEstimates ends the context while the tables are described, which takes most of the
// time of a large problem, and at each later moment.
func TestContextsEndEstimates(t *testing.T) {
	p := drawnTask(t, 4)
	shards := make([][]problem.Shard, 4)
	for i := range p.Tables {
		shards[i%4] = append(shards[i%4], p.Whole(i))
	}
	opt := neuroshard.Options{}
	r := must.Get(neuroshard.Evaluate(t.Context(), p, shards, opt))(t)
	after := func(n int) context.Context {
		e := ending{t.Context(), new(atomic.Int64)}
		e.left.Store(int64(n))
		return e
	}
	for n := range 2 * len(p.Tables) {
		_, list := neuroshard.Pretrained().List(after(n), p)
		_, evaluate := neuroshard.Evaluate(after(n), p, shards, opt)
		price := neuroshard.Price(after(n), r.Plan, p, opt)
		_, _, alternatives := neuroshard.Alternatives(after(n), r.Plan, p, opt)
		_, judge := simulate.NewPricerContext(after(min(n, len(p.Tables)/2)), p)
		for what, err := range map[string]error{"List": list, "Evaluate": evaluate, "Price": price, "Alternatives": alternatives, "NewPricerContext": judge} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s, ended after %d of %d tables: got error %v, want %v", what, n, len(p.Tables), err, context.Canceled)
			}
		}
	}
}
