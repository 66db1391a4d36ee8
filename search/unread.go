package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// A table without lookups may take no time: no row of a sequence is read and no vector is sent, and
// TorchRec's formulas say the same of a bag. So costs do not say where such a table should lie, and the
// search may put all of them on one device. They still take memory. So bytes break the tie at the end:
// these tables are placed again, whole, by falling bytes, each on the device with the most free bytes.

// sameCost is the largest share by which the costs of two placements differ that are alike but for
// tables without lookups, or for numbers: sums are taken in another order.
const sameCost = 1e-9

// unreadByBytes returns the placement with the tables without lookups spread by bytes, or else with the
// sequences among them. It returns best if there are no such tables, if they do not fit so, or if that
// costs more.
func unreadByBytes(r *run, best placement) placement {
	if r.opt.Method != NeuroShard || r.opt.From != nil || best.parts == nil {
		return best
	}
	for _, bags := range []bool{true, false} {
		if even := spreadUnread(r, best, bags); even.parts != nil {
			return even
		}
	}
	return best
}

// spreadUnread returns the placement with the sequences without lookups spread by bytes, and with bags
// without lookups if the argument says so; the zero placement if there are none, if they do not fit so,
// or if that costs more. If all tables are sequences without lookups, the cost does not matter.
func spreadUnread(r *run, best placement, bags bool) placement {
	c := r.catalog
	loose, unread := unreadTables(r, bags)
	if len(loose) == 0 {
		return placement{}
	}
	free := make([]int64, len(c.all))
	for d := range free {
		free[d] = c.budget[c.phase] - c.short[d]
	}
	var parts []placed
	for _, p := range best.parts {
		if k := &c.pieces[p.piece]; !unread[k.members[0].table] {
			parts = append(parts, p)
			c.eachOf(k.span, p.device, func(d int32) { free[d] -= k.own[c.phase] })
		}
	}
	slices.SortStableFunc(loose, func(a, b int32) int { return cmp.Compare(c.bytes(b), c.bytes(a)) })
	for _, k := range loose {
		to := slices.MaxFunc(c.allowed(&c.pieces[k]), func(a, b int32) int { return cmp.Compare(free[a], free[b]) })
		if free[to] -= c.bytes(k); free[to] < 0 {
			return placement{}
		}
		parts = append(parts, placed{k, to})
	}
	even := r.offer(placement{}, parts)
	if even.cost > best.cost*(1+sameCost) && (bags || len(loose) < len(c.problem.Tables)) {
		return placement{}
	}
	return even
}

// unreadTables returns the sequences without lookups, and also the bags if the argument says so, that may
// lie whole in the HBM of a device, and which tables these are. Tables of co-locations are none of them.
func unreadTables(r *run, bags bool) (whole []int32, is []bool) {
	is = make([]bool, len(r.catalog.problem.Tables))
	for _, k := range r.catalog.whole() {
		m := r.catalog.pieces[k].members
		t := &r.catalog.problem.Tables[m[0].table]
		if len(m) == 1 && (bags || t.Pooling == problem.PoolingNone) && t.PoolingFactor() == 0 && !r.forms.barred[m[0].table] {
			whole, is[m[0].table] = append(whole, k), true
		}
	}
	return whole, is
}
