package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// The baselines place the pieces by one number each, the key, as the NeuroShard paper's
// baselines do (its section 5): in order of falling keys, each piece goes on the device
// with the least sum of keys among the devices with room. They see no predicted cost
// and split only pieces that are too large for a device. One baseline costs O(P D) for
// P pieces on D devices.

// Baselines returns the methods that place tables without predicted costs. The slice is
// the caller's.
func Baselines() []Method { return []Method{Size, Dim, Lookup, SizeLookup, Random} }

// baseline places the tables by a baseline.
func baseline(r *run, m Method) (s state, err error) {
	pieces, err := r.forced()
	if err != nil {
		return s, err
	}
	devices, failed := placeByKey(r.catalog, m, pieces, r.opt.Seed)
	if failed != none {
		return s, infeasible(r.catalog, m, pieces, devices, failed)
	}
	s.forced = pieces
	s.best = r.offer(s.best, pair(s.forced, devices))
	return s, nil
}

// keys computes the key of a table slice for each baseline, from the table's rows, the
// slice's width in columns and the table's pooling factor.
var keys = map[Method]func(rows, dims, pooling float64) float64{
	Size:       func(rows, dims, _ float64) float64 { return rows * dims },
	Dim:        func(_, dims, _ float64) float64 { return dims },
	Lookup:     func(_, dims, pooling float64) float64 { return dims * pooling },
	SizeLookup: func(rows, dims, pooling float64) float64 { return dims * pooling * math.Log10(rows) },
}

// placeByKey returns the device of each piece by index, or none for a piece that finds
// no room. failed is the index of the first such piece, or none.
func placeByKey(c *catalog, m Method, pieces []int32, seed uint64) (devices []int32, failed int32) {
	if m == Random { // in order, each on a device drawn from those with room
		random := rand.New(rand.NewPCG(seed, 0x72616e646f6d))
		return placeInOrder(c, pieces, inOrder(len(pieces)), func(_ int32, _ *ledger, room []int32) int32 {
			return room[random.IntN(len(room))]
		})
	}
	key := make([]float64, len(pieces))
	order := make([]int32, len(pieces))
	for i, k := range pieces {
		order[i] = int32(i)
		for _, member := range c.pieces[k].members {
			t := &c.problem.Tables[member.table]
			key[i] += keys[m](float64(t.Rows), float64(member.width), t.PoolingFactor())
		}
	}
	// Of pieces with equal keys, the larger goes first, then the later, as in the
	// prototype, which sorts upwards and takes from the end.
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(key[b], key[a]), cmp.Compare(c.bytes(pieces[b]), c.bytes(pieces[a])), cmp.Compare(b, a))
	})
	sum := make([]float64, len(c.all))
	return placeInOrder(c, pieces, order, func(entry int32, l *ledger, room []int32) int32 {
		best := room[0]
		for _, d := range room {
			if c.lighter(sum, l, d, best) {
				best = d
			}
		}
		sum[best] += key[entry]
		return best
	})
}
