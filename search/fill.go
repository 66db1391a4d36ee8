package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Stage fill finds a placement if slices of columns do not fit in HBM, or are not allowed for all tables. It looks at
// bytes only; later stages look at times. It takes the first placement that it finds:
//
//	1. the largest tables by rows             the smallest number that fits
//	2. the coldest tables in host memory      the smallest number that fits, for each cache share;
//	                                          first with no other table by rows, then with all
//	3. any form of any table (variants.go)    all placements of a small problem (room.go), or
//	                                          changes that remove overflow (repair.go)
//
// More memory never makes a problem infeasible. So a search that finds a placement with
// some memory should find one with more memory, too. That is certain if step 3 tries all
// placements: then the stage fails only if no placement fits. If step 3 does not get
// through all placements of a large problem, the search may find a placement with some
// memory and none with a little more. It fails for certain if the bound of function
// balanced is above the memory.

// fill is the stage that makes tables fit in other forms. It fails with *Infeasible or
// *NoShardingType if it finds no placement.
type fill struct{}

func (fill) apply(r *run, s state) (state, error) {
	if s.best.division != nil {
		return s, nil
	}
	var parts []placed
	ok, none := false, false
	if !tooLarge(r.catalog, &r.forms) {
		parts, ok = fitForms(r.catalog, &r.forms)
	}
	if !ok {
		parts, none = fitVariants(r.catalog, &r.forms, r.ended)
	}
	if len(parts) > 0 {
		s.best = r.offerPlaced(s.best, parts)
	}
	if s.best.division == nil {
		return s, r.unfilled(s, none)
	}
	return s, nil
}

// unfilled returns the error of a search that found no placement in any form. none says
// that there is no placement.
func (r *run) unfilled(s state, none bool) error {
	if r.ended() && !none {
		return r.unfinished()
	}
	if s.infeasible == nil {
		return r.forms.noRoom(r.catalog, none)
	}
	s.infeasible.Tried, s.infeasible.Proven = r.forms.tried(), none
	return s.infeasible
}

// fitVariants returns a placement that fits, with a variant of each table. none is true
// if there is no placement: the tables take more bytes than all devices have, whatever
// their forms, or all placements were tried.
func fitVariants(c *catalog, f *forms, ended func() bool) (parts []placed, none bool) {
	variants := variantsOf(c, f)
	if _, _, ok := balanced(c, variants, 1); !ok {
		return nil, !c.rules.EqualSlices // which may be cut into slices that were not tried
	}
	found, known := roomFor(c, variants, ended)
	if !known {
		found = repaired(c, variants, ended)
	}
	return partsOf(c, found), known && len(found) == 0 && !c.rules.EqualSlices
}

// tooLarge reports whether no form can help: the tables take more bytes than all devices have. It
// looks only if there is no host memory and the whole tables take too much, too.
func tooLarge(c *catalog, f *forms) bool {
	if c.hostBudget > 0 || c.total(c.whole()) <= c.room() {
		return false
	}
	_, _, ok := balanced(c, variantsOf(c, f), 1)
	return !ok
}

// fitForms returns a placement that fits, with the smallest number of the largest
// tables cut by rows, or of the coldest tables in host memory.
func fitForms(c *catalog, f *forms) (parts []placed, ok bool) {
	largest := c.whole()
	slices.SortStableFunc(largest, func(a, b int32) int { return cmp.Compare(c.pieces[b].bytes, c.pieces[a].bytes) })
	if fewestThat(largest, f.byRows(c), func(taken map[int32]problem.Form) bool {
		room := newLedger(c)
		parts, ok = fillForms(c, f, &room, c.whole(), taken, nil)
		return ok
	}) {
		return parts, true
	}
	return fitHosted(c, f)
}

// fitHosted returns a placement that fits, with the smallest number of the coldest tables in host
// memory. For each cache share in turn, it first cuts no other table by rows, and then all other tables that
// may be cut.
func fitHosted(c *catalog, f *forms) (parts []placed, ok bool) {
	if c.hostBudget == 0 {
		return nil, false
	}
	whole, rows := c.whole(), f.byRows(c)
	coldest := coldestFirst(c, whole)
	for _, share := range cacheShares {
		hosted := func(k int32) (problem.Form, bool) {
			own := c.problem.Tables[c.pieces[k].members[0].table].Constraint.CacheShare
			return f.choice(c, k, func(form problem.Form) bool {
				return form.Tier.OnHost() && (form.Cache == share || share > 0 && form.Cache == own)
			})
		}
		for _, all := range []bool{false, true} {
			if fewestThat(coldest, hosted, func(taken map[int32]problem.Form) bool {
				cut := map[int32]problem.Form{}
				for _, k := range whole {
					if to, ok := rows(k); ok && all {
						if _, is := taken[k]; !is {
							cut[k] = to
						}
					}
				}
				room := newLedger(c)
				parts, ok = fillForms(c, f, &room, whole, cut, taken)
				return ok
			}) {
				return parts, true
			}
		}
	}
	return nil, false
}

// coldestFirst returns the pieces in order of rising lookups for each row.
func coldestFirst(c *catalog, whole []int32) []int32 {
	coldest := slices.Clone(whole)
	heat := func(k int32) float64 {
		t := &c.problem.Tables[c.pieces[k].members[0].table]
		return t.PoolingFactor() / float64(t.Rows)
	}
	slices.SortStableFunc(coldest, func(a, b int32) int { return cmp.Compare(heat(a), heat(b)) })
	return coldest
}

// fewestThat returns true if try succeeds for some number of tables from the start of
// the list, when those take a form. It finds the smallest such number, and the last
// call of try is with that number.
func fewestThat(list []int32, form func(k int32) (problem.Form, bool), try func(taken map[int32]problem.Form) bool) bool {
	taken := func(n int) map[int32]problem.Form {
		m := map[int32]problem.Form{}
		for _, k := range list[:n] {
			if to, ok := form(k); ok {
				m[k] = to
			}
		}
		return m
	}
	low, high := -1, 0
	for ; !try(taken(high)); high = min(len(list), max(1, 2*high)) {
		if low = high; high == len(list) {
			return false
		}
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; try(taken(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return try(taken(high))
}

// fillForms places tables by falling bytes: the tables in byRows and hosted in their
// form, the others in slices, each on the device with the most room. room must be empty
// at the start, and counts all that is placed. A table that may not take the zero form takes the
// first form that it may take.
func fillForms(c *catalog, f *forms, room *ledger, whole []int32, byRows, hosted map[int32]problem.Form) ([]placed, bool) {
	var parts []placed
	var rest []int32
	for _, k := range whole {
		m := c.pieces[k].members[0]
		form, ok := byRows[k]
		if to, is := hosted[k]; is {
			rest = append(rest, c.inForm(k, m.width, to))
			continue
		}
		if !ok && !f.barred[m.table] {
			rest = append(rest, k)
			continue
		}
		if !ok {
			form = f.choices[m.table][0]
		}
		if form.Tier.OnHost() {
			rest = append(rest, c.inForm(k, m.width, form))
			continue
		}
		parts = append(parts, onSeveral(c, f, room, k, form)...)
	}
	return level(c, room, parts, rest)
}

// onSeveral places an unsplit table in a form in which several devices hold it together,
// and counts it in room: on all devices, or on the host with the most room, in slices of
// columns if it may be cut and a host has no room for the whole table.
func onSeveral(c *catalog, f *forms, room *ledger, k int32, form problem.Form) (parts []placed) {
	m := c.pieces[k].members[0]
	pieces := []int32{c.inForm(k, m.width, form)}
	if spanOf(form) == oneHost && f.sliced[m.table] {
		pieces = c.above(pieces, c.freeOn(oneHost))
	}
	if len(pieces) > int(room.fullHosts()) {
		pieces = []int32{c.inForm(k, m.width, form)}
	}
	for _, k := range pieces {
		p := placed{k, 0}
		if spanOf(form) == oneHost {
			p.device = emptiestHost(room, parts)
		}
		room.count(&c.pieces[k], p.device, 1)
		parts = append(parts, p)
	}
	return parts
}

// emptiestHost returns the first device of the full host with the most room, among the
// hosts that hold none of the parts.
func emptiestHost(room *ledger, parts []placed) int32 {
	least, taken := int32(none), int64(0)
	for h := range room.fullHosts() {
		holds := slices.ContainsFunc(parts, func(p placed) bool { return room.hostOf[p.device] == h })
		if now := room.onHost[h] + slices.Max(room.start[h*room.local:(h+1)*room.local]); !holds && (least == none || now < taken) {
			least, taken = h, now
		}
	}
	return least * room.local
}

// level places pieces by falling bytes, each on the device with the most room, beside
// parts that room counts already. Each piece lies on one device. The pieces are cut
// into halves as often as needed to fit.
func level(c *catalog, room *ledger, parts []placed, rest []int32) ([]placed, bool) {
	free := c.budget - room.everywhere
	if len(room.onHost) > 0 {
		free -= slices.Max(room.onHost)
	}
	for divisor := int64(1); divisor <= 64 && free > 0; divisor *= 2 {
		room.clearDevices()
		pieces := c.halved(rest, func(k int32) bool {
			piece := &c.pieces[k]
			return piece.bytes > free/divisor || piece.hostBytes > room.hostBudget/divisor
		})
		slices.SortStableFunc(pieces, func(a, b int32) int {
			return cmp.Compare(max(c.pieces[b].bytes, c.pieces[b].hostBytes), max(c.pieces[a].bytes, c.pieces[a].hostBytes))
		})
		if all, ok := levelPieces(c, room, parts, pieces); ok && room.lack(false) == 0 {
			return all, true
		}
		if !slices.ContainsFunc(pieces, func(k int32) bool { _, _, ok := c.cut(k); return ok }) {
			break
		}
	}
	if len(rest) == 0 && room.lack(false) == 0 {
		return parts, true
	}
	return nil, false
}

// levelPieces places the pieces in the given order, each on the device with the most
// room. It returns parts and the pieces with their devices; ok is false if a piece
// finds no room. Slices of a table go to devices and hosts that the rules allow beside the other slices.
func levelPieces(c *catalog, room *ledger, parts []placed, pieces []int32) (all []placed, ok bool) {
	all = slices.Clone(parts)
	held, scratch := newHolders(c), make([]int32, 0, len(c.all))
	free := func(d int32) int64 { return c.budget - room.own[d] - room.shared(d) }
	for _, k := range pieces {
		piece := &c.pieces[k]
		devices := c.allowed(piece)
		if held.needed() {
			devices = held.open(piece, devices, scratch, free)
		}
		d := roomiest(c, room, piece, devices)
		if d == none {
			return nil, false
		}
		held.put(piece, d)
		room.count(piece, d, 1)
		all = append(all, placed{k, d})
	}
	return all, true
}

// roomiest returns the device of a list that has the most room left after it takes the
// piece: room in host memory, if the piece's rows lie there. It returns none if no
// device has room.
func roomiest(c *catalog, room *ledger, piece *piece, devices []int32) int32 {
	best, most := int32(none), 0.0
	for _, d := range devices {
		left := c.budget - room.own[d] - room.shared(d) - piece.bytes
		leftHost := room.hostBudget - room.host[d] - piece.hostBytes
		if left < 0 || leftHost < 0 && piece.hostBytes > 0 {
			continue
		}
		score := float64(left) / float64(c.budget)
		if piece.hostBytes > 0 {
			score = float64(leftHost) / float64(room.hostBudget)
		}
		if best == none || score > most {
			best, most = d, score
		}
	}
	return best
}
