package search

import (
	"cmp"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Where slices of columns do not fit in HBM, other forms are taken for as few tables as
// will do, by bytes alone; times come later.

// fitForms returns a placement that fits, where column slices alone have none: with as
// few of the largest tables cut by rows as will do, or of the coldest in host memory.
func (s *run) fitForms() (parts []placed, ok bool) {
	c, f := s.catalog, s.forms
	whole := c.whole()
	rows := func(k int32) (problem.Form, bool) {
		return f.choice(c, k, func(form problem.Form) bool { return form.Kind.ByRows() })
	}
	largest := slices.Clone(whole)
	slices.SortStableFunc(largest, func(a, b int32) int { return cmp.Compare(c.pieces[b].bytes, c.pieces[a].bytes) })
	attempt := func(byRows, hosted map[int32]problem.Form) bool {
		parts, ok = f.fill(c, whole, byRows, hosted)
		return ok
	}
	// fewest finds the smallest number of tables of a list for which an attempt works.
	fewest := func(list []int32, form func(k int32) (problem.Form, bool), try func(taken map[int32]problem.Form) bool) bool {
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
	if fewest(largest, rows, func(taken map[int32]problem.Form) bool { return attempt(taken, nil) }) {
		return parts, true
	}
	if f.hostBudget == 0 {
		return nil, false
	}
	coldest := slices.Clone(whole)
	heat := func(k int32) float64 {
		t := &c.problem.Tables[c.pieces[k].members[0].table]
		return t.PoolingFactor() / float64(t.Rows)
	}
	slices.SortStableFunc(coldest, func(a, b int32) int { return cmp.Compare(heat(a), heat(b)) })
	for _, share := range cacheShares {
		hosted := func(k int32) (problem.Form, bool) {
			return f.choice(c, k, func(form problem.Form) bool { return form.Tier.OnHost() && form.Cache == share })
		}
		for _, all := range []bool{false, true} {
			if fewest(coldest, hosted, func(taken map[int32]problem.Form) bool {
				others := map[int32]problem.Form{}
				for _, k := range whole {
					if to, ok := rows(k); ok && all {
						if _, is := taken[k]; !is {
							others[k] = to
						}
					}
				}
				return attempt(others, taken)
			}) {
				return parts, true
			}
		}
	}
	return nil, false
}

// choice returns the first form that an unsplit piece may have and that suits.
func (f *forms) choice(c *catalog, k int32, suits func(problem.Form) bool) (problem.Form, bool) {
	members := c.pieces[k].members
	if len(members) != 1 {
		return problem.Form{}, false
	}
	choices := f.choices[members[0].table]
	if i := slices.IndexFunc(choices, suits); i >= 0 {
		return choices[i], true
	}
	return problem.Form{}, false
}

// fill places tables by falling bytes: those by rows where they belong, the others in
// slices, each on the device with the most room. The host memory of devices is
// filled as well.
func (f *forms) fill(c *catalog, whole []int32, byRows, hosted map[int32]problem.Form) ([]placed, bool) {
	f.clear()
	defer f.clear()
	var parts []placed
	var rest []int32
	for _, k := range whole {
		m := c.pieces[k].members[0]
		form, ok := byRows[k]
		if to, is := hosted[k]; is {
			rest = append(rest, c.inForm(k, m.width, to))
			continue
		}
		if !ok && f.columns {
			rest = append(rest, k)
			continue
		}
		if !ok {
			form = f.choices[m.table][0]
		}
		pieces := []int32{c.inForm(k, m.width, form)}
		if spanOf(form) == oneHost && f.sliced {
			pieces = c.refine(pieces, func(k int32) bool { return c.pieces[k].bytes > c.budget })
		}
		for _, k := range pieces {
			p := placed{k, 0}
			if spanOf(form) == oneHost { // the host with the most room
				least := int32(0)
				for h := range f.fullHosts(len(c.all)) {
					if f.onHost[h] < f.onHost[least] {
						least = h
					}
				}
				p.device = least * f.local
			}
			f.count(&c.pieces[k], p.device, 1)
			parts = append(parts, p)
		}
	}
	return f.level(c, parts, rest)
}

// level places pieces that are each on one device beside parts that are counted already,
// by falling bytes and each where there is most room, cut into halves as finely as that
// takes.
func (f *forms) level(c *catalog, parts []placed, rest []int32) ([]placed, bool) {
	bytes := make([]int64, len(c.all))
	free := c.budget - f.everywhere
	if len(f.onHost) > 0 {
		free -= slices.Max(f.onHost)
	}
	for divisor := int64(1); divisor <= 64; divisor *= 2 {
		if free <= 0 {
			break
		}
		all := slices.Clone(parts)
		clear(bytes)
		clear(f.hostBytes)
		entries := c.refine(rest, func(k int32) bool {
			piece := &c.pieces[k]
			return piece.bytes > free/divisor || piece.hostBytes > f.hostBudget/divisor
		})
		slices.SortStableFunc(entries, func(a, b int32) int {
			return cmp.Compare(max(c.pieces[b].bytes, c.pieces[b].hostBytes), max(c.pieces[a].bytes, c.pieces[a].hostBytes))
		})
		fits := true
		for _, k := range entries {
			piece := &c.pieces[k]
			best, room := int32(none), 0.0
			for _, d := range c.allowed(piece) {
				left := c.budget - bytes[d] - f.on(d) - piece.bytes
				leftHost := f.hostBudget - f.hostBytes[d] - piece.hostBytes
				if left < 0 || leftHost < 0 && piece.hostBytes > 0 {
					continue
				}
				score := float64(left) / float64(c.budget)
				if piece.hostBytes > 0 {
					score = float64(leftHost) / float64(f.hostBudget)
				}
				if best == none || score > room {
					best, room = d, score
				}
			}
			if best == none {
				fits = false
				break
			}
			bytes[best] += piece.bytes
			f.hostBytes[best] += piece.hostBytes
			all = append(all, placed{k, best})
		}
		if fits && f.lack(bytes, c.budget) == 0 {
			return all, true
		}
		if !slices.ContainsFunc(entries, func(k int32) bool { _, _, ok := c.cut(k); return ok }) {
			break
		}
	}
	if len(rest) == 0 && f.lack(bytes, c.budget) == 0 {
		return parts, true
	}
	return nil, false
}
