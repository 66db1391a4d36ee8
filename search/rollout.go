package search

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Methods AutoShard (Zha et al., KDD 2022) and DreamShard (Zha et al., NeurIPS 2022) place the pieces by a learned policy. It returns
// the order of the pieces and then chooses, for one piece after the other, a device among the devices with room. One rollout takes
// the best choice everywhere (greedy), and Options.Samples further ones draw their choices; the placement that the Scorer estimates
// as cheapest is the result. For P pieces on D devices, a rollout makes P choices among up to D devices.

// Policy chooses devices for slices, one after the other. Methods DreamShard and AutoShard
// need one. Many goroutines may call Begin at the same time.
type Policy interface {
	// Method names the method that the policy was trained for: a Method, as a string.
	Method() string
	// Begin starts a rollout, a greedy one if random is nil; otherwise each choice is drawn. Each piece is a slice of a table of
	// p, or the tables of a co-location; neither is modified or kept after the rollout. order is the order in which the pieces
	// are placed. choose is then called once at most for each piece, in that order, with the devices that have room for it,
	// ascending and not empty, returns one of them, and takes the piece as placed there.
	Begin(p *problem.Problem, pieces [][]problem.Shard, random *rand.Rand) (order []int32, choose func(piece int32, room []int32) int32)
}

// Learned returns the methods that need a Policy. The slice is the caller's.
func Learned() []Method { return []Method{DreamShard, AutoShard} }

// Untrained returns the methods that need no Policy, the default first. The slice is the
// caller's.
func Untrained() []Method { return slices.DeleteFunc(Methods(), Method.Learned) }

// Learned reports whether the method needs a Policy.
func (m Method) Learned() bool { return slices.Contains(Learned(), m) }

// checkPolicy reports a policy that is missing, or that the method does not take.
func (o *Options) checkPolicy() error {
	switch {
	case !o.Method.Learned() && o.Policy != nil:
		return fmt.Errorf("search method %q takes no policy: leave the policy out, or choose method %q", o.Method, o.Policy.Method())
	case !o.Method.Learned() && o.Samples > 0:
		return fmt.Errorf("search option samples: method %q has no policy to draw %d samples from: choose one of %q", o.Method, o.Samples, Learned())
	case o.Method.Learned() && o.Policy == nil:
		return fmt.Errorf("search method %q needs a policy: train one with neuroshard lab train-policy --set method=%s", o.Method, o.Method)
	case o.Method.Learned() && o.Policy.Method() != string(o.Method):
		return fmt.Errorf("search method %q: the policy is one of method %q: train another one with neuroshard lab train-policy --set method=%s", o.Method, o.Policy.Method(), o.Method)
	}
	return nil
}

// rollout is a method that a policy runs.
func rollout(r *run) (s state, err error) {
	pieces, err := r.forced()
	if err != nil {
		return s, err
	}
	s.forced = pieces
	shards := slicesOf(r.catalog, pieces)
	var lacking error
	for sample := 0; sample <= r.opt.Samples; sample++ {
		if sample > 0 && r.ended() {
			if s.best.parts == nil {
				return s, r.unfinished()
			}
			r.cutShort()
			break
		}
		if sample > 0 && r.most > 0 && r.stats.Evaluations >= r.most {
			r.exhausted()
			break
		}
		var random *rand.Rand
		if sample > 0 {
			random = rand.New(rand.NewPCG(r.opt.Seed, 0x726f6c6c6f7574+uint64(sample)))
		}
		order, choose := r.opt.Policy.Begin(r.catalog.problem, shards, random)
		devices, failed := placeInOrder(r.catalog, pieces, order, func(entry int32, _ *ledger, room []int32) int32 {
			return choose(entry, room)
		})
		if failed == none {
			s.best = r.offer(s.best, pair(s.forced, devices))
			continue
		}
		r.stats.Evaluations += int64(len(pieces)) // as offer counts, so that a budget ends failures, too
		if lacking == nil {
			lacking = infeasible(r.catalog, r.opt.Method, pieces, devices, failed)
		}
	}
	if s.best.parts == nil && lacking != nil {
		return s, lacking
	}
	return s, nil
}

// slicesOf returns the shards that each piece consists of, as if each slice were the first
// columns of its table.
func slicesOf(c *catalog, pieces []int32) [][]problem.Shard {
	all := make([][]problem.Shard, len(pieces))
	for i, k := range pieces {
		for _, m := range c.pieces[k].members {
			s := c.problem.Whole(m.table)
			s.Columns.End = int64(m.width)
			all[i] = append(all[i], s)
		}
	}
	return all
}
