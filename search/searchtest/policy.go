package searchtest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// WithPolicy returns the options with a Policy that learned nothing, if the method needs
// one: slices are taken by falling rows times columns. A greedy rollout puts each on the
// device with the fewest slices; a drawn one on any device with room.
func WithPolicy(opt search.Options) search.Options {
	if opt.Method.Learned() {
		opt.Policy = fewest{opt.Method}
	}
	return opt
}

type fewest struct{ method search.Method }

func (f fewest) Method() string { return string(f.method) }

func (f fewest) Begin(p *problem.Problem, pieces [][]problem.Shard, random *rand.Rand) (order []int32, choose func(piece int32, room []int32) int32) {
	elements := make([]int64, len(pieces))
	for i, piece := range pieces {
		order = append(order, int32(i))
		for _, s := range piece {
			elements[i] += s.Rows.Len() * s.Columns.Len()
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(elements[b], elements[a]) })
	held := make([]int, p.Topology.Devices)
	return order, func(piece int32, room []int32) int32 {
		d := slices.MinFunc(room, func(a, b int32) int { return cmp.Compare(held[a], held[b]) })
		if random != nil {
			d = room[random.IntN(len(room))]
		}
		held[d] += len(pieces[piece])
		return d
	}
}
