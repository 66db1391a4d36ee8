package search

import (
	"cmp"
	"math"
	"slices"
)

// Method HugeCTR is the rule of the planner that HugeCTR's MLPerf submissions of DLRM-DCNv2 ran with --sharding_plan auto
// (sharding/planner.py of round v3.0). It knows neither batch nor bandwidth: a device costs, for each of its shards, its lookups and a
// constant for the vector that it sends.
//
//	1  by falling lookups, each shard goes on the device of least cost among those
//	   that have room and no shard of the same table
//	2  if a shard finds no room, the shards of its table are halved; else the plan
//	   is noted, and the shards of the table with the hottest shard are halved
//	3  after 20 rounds, the plan whose worst device is cheapest is the result
//
// A table is never cut into more shards than there are devices. The submissions' tables have one dim. Here a shard's cost is multiplied
// by the columns of its table, as in HugeCTR's later planners, and shards are slices of columns, not blocks of rows.

const (
	// hugeRounds is the planner's max_search_iter.
	hugeRounds = 20
	// sentVector is mem_comm_bw_ratio / mem_comm_work_ratio of the submissions on one host: the
	// cost of a sent vector, in lookups.
	sentVector = 9. / 4
)

// hugectr is method HugeCTR.
func hugectr(r *run) (s state, err error) {
	pieces, err := r.forced()
	if err != nil {
		return s, err
	}
	c := r.catalog
	var devices, best, bestDevices []int32
	failed, least := int32(none), math.Inf(1)
	for range hugeRounds {
		slices.SortStableFunc(pieces, func(a, b int32) int {
			return cmp.Or(cmp.Compare(columnsRead(c, b), columnsRead(c, a)), cmp.Compare(c.pieces[a].members[0].table, c.pieces[b].members[0].table))
		})
		var worst float64
		devices, failed, worst = placeByLookups(c, pieces)
		r.stats.Placements++
		if failed == none && worst < least {
			least, best, bestDevices = worst, slices.Clone(pieces), devices
		}
		candidates := pieces
		if failed != none {
			candidates = pieces[failed : failed+1]
		}
		finer := splitFirst(c, pieces, candidates)
		if finer == nil {
			break
		}
		if r.ended() {
			if best == nil {
				return s, r.unfinished()
			}
			r.cutShort()
			break
		}
		pieces = finer
	}
	if best == nil {
		return s, infeasible(c, HugeCTR, pieces, devices, failed)
	}
	s.forced = best
	s.best = r.offer(s.best, pair(s.forced, bestDevices))
	return s, nil
}

// columnsRead returns the columns that a sample looks up in the piece.
func columnsRead(c *catalog, k int32) (sum float64) {
	for _, m := range c.pieces[k].members {
		sum += c.problem.Tables[m.table].PoolingFactor() * float64(m.width)
	}
	return sum
}

// placeByLookups places the pieces in their order, and returns the cost of the most expensive
// device. failed is the index of the first piece without room, or none.
func placeByLookups(c *catalog, pieces []int32) (devices []int32, failed int32, worst float64) {
	cost := make([]float64, len(c.all))
	held := newHolders(c, true)
	devices, failed = placeInOrder(c, pieces, inOrder(len(pieces)), func(entry int32, _ *ledger, room []int32) int32 {
		k := &c.pieces[pieces[entry]]
		best := int32(none)
		for _, d := range room {
			if !held.bars(k, d) && (best == none || cost[d] < cost[best]) {
				best = d
			}
		}
		if best == none {
			return none
		}
		held.put(k, best)
		cost[best] += columnsRead(c, pieces[entry])
		for _, m := range k.members {
			cost[best] += sentVector * float64(c.problem.Tables[m.table].Dim)
		}
		return best
	})
	return devices, failed, slices.Max(cost)
}

// splitFirst returns the pieces, with all slices halved of the first table of the candidates
// whose slices can be halved; nil if there is no such table.
func splitFirst(c *catalog, pieces, candidates []int32) []int32 {
	type cuts struct {
		slices int
		never  bool
	}
	of := map[int]cuts{}
	for _, k := range pieces {
		t := of[c.pieces[k].members[0].table]
		_, _, ok := c.cut(k)
		of[c.pieces[k].members[0].table] = cuts{t.slices + 1, t.never || !ok}
	}
	at := slices.IndexFunc(candidates, func(k int32) bool {
		t := of[c.pieces[k].members[0].table]
		return !t.never && 2*t.slices <= len(c.all)
	})
	if at < 0 {
		return nil
	}
	table := c.pieces[candidates[at]].members[0].table
	var finer []int32
	for _, k := range pieces {
		if c.pieces[k].members[0].table != table {
			finer = append(finer, k)
			continue
		}
		finer = append(finer, c.parts(k)...)
	}
	return finer
}
