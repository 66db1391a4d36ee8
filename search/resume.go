package search

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// resume.go makes a placement of an old one (Options.From), without looking at times:
//
//	old        A 0-32 | B 0-64 | A 32-64 | C 0-16        device 1 is gone, table D is new
//	resumed    A 0-32 |        | A 32-64 | C 0-16        stay
//	left       B 0-64   D 0-32                           places are still to be found
//
// A table stays as it was if the problem still allows its devices, its form and the widths of its slices. If some columns are missing,
// they are new slices, unless the engine's rules forbid the widths. Any other table is left as a whole.

// resumer reads an old placement.
type resumer struct {
	r *run
	c *catalog
	// parts are the pieces that stay, and left those without a place.
	parts []placed
	left  []int32
	// mean is the mean over the devices of the times of the pieces that are left, each alone.
	mean float64
}

// resume returns the old placement as pieces.
func resume(r *run) *resumer {
	s := &resumer{r: r, c: r.catalog}
	for _, k := range s.c.whole() {
		if len(s.c.pieces[k].members) > 1 {
			s.together(k)
		} else if parts, left := s.table(k); len(parts) == 0 {
			s.left = append(s.left, s.first(k))
		} else {
			s.parts, s.left = append(s.parts, parts...), append(s.left, left...)
			if len(left) == 0 {
				s.settle(parts)
			}
		}
	}
	return s
}

// held returns the old shards of a table.
func (s *resumer) held(table int) []formerShard { return s.c.former.tables[table].parts }

// settle says that the parts are a co-location or all slices of a table as it was, in the order of its columns.
func (s *resumer) settle(parts []placed) {
	home := make([]columnSlice, len(parts))
	for i, p := range parts {
		home[i] = s.c.columnSlice(p.piece, p.device)
	}
	table := s.c.pieces[parts[0].piece].members[0].table
	s.c.former.settle(table, home, s.c.problem.Tables[table].Rows)
}

// together keeps a co-location on its device, or leaves it.
func (s *resumer) together(k int32) {
	device := int32(none)
	for i, m := range s.c.pieces[k].members {
		list := s.held(m.table)
		if len(list) != 1 || i > 0 && list[0].device != device || s.c.problem.Form(list[0].Shard).ShardingType != "" || list[0].Dim() != m.width {
			device = none
			break
		}
		device = list[0].device
	}
	if device == none || !slices.Contains(s.c.allowed(&s.c.pieces[k]), device) {
		s.left = append(s.left, k)
		return
	}
	if number := s.held(s.c.pieces[k].members[0].table)[0].Operator; mayNumber(s.r) {
		k = s.c.numbered(k, number)
	}
	s.parts = append(s.parts, placed{k, device})
	s.settle(s.parts[len(s.parts)-1:])
}

// first returns the piece of a table that is left as a whole: in the zero form, or else in the
// first form that the table may take.
func (s *resumer) first(k int32) int32 {
	m := s.c.pieces[k].members[0]
	if choices := s.r.forms.choices[m.table]; s.r.forms.barred[m.table] && len(choices) > 0 {
		return s.c.inForm(k, m.width, choices[0])
	}
	return k
}

// table returns the parts of a table that stay, in the order of their columns, and the pieces
// of its missing columns. If the table cannot stay, there are no parts.
func (s *resumer) table(k int32) (parts []placed, left []int32) {
	m := s.c.pieces[k].members[0]
	var slots []formerShard // the first shard of each slice, or all its blocks on chosen devices
	for _, shard := range s.held(m.table) {
		form := s.form(m.table, shard.Shard)
		if !s.allows(m.table, form) {
			return nil, nil
		}
		if n := len(slots); n == 0 || slots[n-1].Columns != shard.Columns || shard.Blocks > 0 {
			slots = append(slots, shard)
		} else if !form.ShardingType.Joint() {
			return nil, nil
		}
	}
	slots, ok := s.complete(m.table, slots)
	if !ok {
		return nil, nil
	}
	for _, slot := range slots {
		form := s.form(m.table, slot.Shard)
		piece := s.c.inForm(k, slot.Dim(), form)
		if slot.device == none {
			left = append(left, piece)
			continue
		}
		if form.ShardingType.Joint() {
			slot.device = s.c.columnSlice(piece, slot.device).first
		}
		parts = append(parts, placed{piece, slot.device})
	}
	if !s.valid(parts) {
		return nil, nil
	}
	return parts, left
}

// form returns the form that a shard's slice may stay in.
func (s *resumer) form(table int, shard problem.Shard) problem.Form {
	form := s.c.problem.Form(shard)
	if shard.ShardingType == "" && shard.Rows.Start == 0 && len(s.held(table)) == 1 {
		form.ShardingType = "" // a table that has more rows now
	}
	if !mayNumber(s.r) {
		form.Operator = 0
	}
	if form.Tier.OnHost() && !s.r.forms.barred[table] && !s.allows(table, form) {
		form.Tier, form.Cache = "", 0 // there is no host memory now, or the table may not lie there
	}
	if share := s.c.problem.Tables[table].Constraint.CacheShare; share > 0 && form.Tier == problem.HostCached {
		form.Cache = share
	}
	return form
}

// allows reports whether a table may take a form. A form with any cache share is allowed, unless the
// table's constraint states a share (form).
func (s *resumer) allows(table int, form problem.Form) bool {
	if form.Blocks > 0 {
		return s.r.forms.chosen[table] && s.c.problem.Tables[table].CutsByRows(form.Blocks)
	}
	if !form.ShardingType.Joint() && form.Tier == "" {
		return !s.r.forms.barred[table]
	}
	return slices.ContainsFunc(s.r.forms.choices[table], func(f problem.Form) bool {
		return f.ShardingType == form.ShardingType && f.Tier == form.Tier
	})
}

// complete returns the slices of a table with those of its missing columns, which have no
// device. ok is false if slices overlap, or if they cannot be completed.
func (s *resumer) complete(table int, slots []formerShard) (all []formerShard, ok bool) {
	if len(slots) == 0 {
		return nil, false
	}
	if slots[0].Blocks > 0 {
		return slots, s.inBlocks(table, slots)
	}
	dim, end, least := int64(s.c.problem.Tables[table].Dim), int64(0), int64(s.c.least(table))
	for i := 0; i <= len(slots); i++ {
		next := dim
		if i < len(slots) {
			next = slots[i].Columns.Start
		}
		switch missing := next - end; {
		case missing >= least:
			all = append(all, s.missing(end, next, slots[min(i, len(slots)-1)])...)
		case missing != 0:
			return nil, false
		}
		if i < len(slots) {
			all, end = append(all, slots[i]), slots[i].Columns.End
		}
	}
	for _, slot := range all {
		width := slot.Columns.Len()
		if width%problem.ColumnGranule != 0 || width < int64(s.c.problem.Tables[table].MinWidth()) || s.c.rules.EqualSlices && (width != all[0].Columns.Len() || !s.c.problem.Tables[table].AllowsWidth(int(width))) {
			return nil, false
		}
	}
	return all, true
}

// inBlocks reports whether shards are all blocks of the slices of a table, as the engine cuts them.
func (s *resumer) inBlocks(table int, shards []formerShard) bool {
	t, first := &s.c.problem.Tables[table], &shards[0]
	slice := columnSlice{width: first.Columns.Len(), blocks: int64(first.Blocks), blockRows: t.BlockRows(first.Blocks)}
	for i, shard := range shards {
		at := slice.part(int64(i)*slice.width, 0, t.Rows)
		if shard.Blocks != first.Blocks || (rectangle{shard.Rows, shard.Columns}) != at {
			return false
		}
	}
	return t.AllowsWidth(int(slice.width)) && int64(len(shards))*slice.width == int64(t.Dim)*slice.blocks
}

// missing returns slices without a device for missing columns, like another slice: a single
// one, or equal ones if the rules of the engine demand that.
func (s *resumer) missing(from, to int64, like formerShard) (all []formerShard) {
	width := like.Columns.Len()
	if !s.c.rules.EqualSlices || (to-from)%width != 0 {
		width = to - from
	}
	for ; from < to; from += width {
		like.device, like.Columns = none, problem.Range{Start: from, End: from + width}
		all = append(all, like)
	}
	return all
}

// valid reports whether slices of a table may lie together on their devices.
func (s *resumer) valid(parts []placed) bool {
	first := &s.c.pieces[parts[0].piece]
	for _, p := range parts {
		k, lies := &s.c.pieces[p.piece], len(parts) == 1
		switch k.span {
		case oneDevice:
			lies = slices.Contains(s.c.allowed(k), p.device)
		case oneHost:
			lies = int(p.device)+s.c.devicesOf(oneHost) <= len(s.c.all) && (lies || s.r.forms.sliced[k.members[0].table])
		}
		if !lies || k.form.Operator != first.form.Operator || k.span != first.span {
			return false
		}
	}
	return !clash(s.c, parts)
}

// formsOf returns the pieces that may take the place of a piece that is left: itself, or the
// same columns in another form that the table may take.
func (s *resumer) formsOf(k int32) []int32 {
	piece := s.c.pieces[k]
	all := []int32{k}
	if m := piece.members[0]; len(piece.members) == 1 && m.width == s.c.problem.Tables[m.table].Dim {
		for _, form := range s.r.forms.choices[m.table] {
			if other := s.c.inForm(k, m.width, form); other != k {
				all = append(all, other)
			}
		}
	}
	return all
}
