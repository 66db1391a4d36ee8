package input

import (
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// PrototypeBatch is the batch on which the prototype's histograms are counted.
const PrototypeBatch = 65536

// prototypeTable names a table of the prototype's format in messages.
const prototypeTable = "a table of the prototype's format"

// prototypeKeys returns row, dim, pooling_factor, bin_0, ..., bin_16.
func prototypeKeys() []string {
	keys := []string{"row", "dim", "pooling_factor"}
	for i := range access.Classes {
		keys = append(keys, fmt.Sprintf("bin_%d", i))
	}
	return keys
}

// prototypeReader is a list of tables being read as the published prototype writes
// it.
type prototypeReader struct {
	*builder
	s *scanner
	// dim is the dim of tables that state none; 0 or less: none is given.
	dim            int
	keys, required []string
	// dimless counts the tables that state no dim, from line first on.
	dimless, first int
}

// readPrototype reads a list of tables, as the published prototype writes it, into b.
func readPrototype(b *builder, s *scanner, opt Options) {
	keys := prototypeKeys()
	r := &prototypeReader{builder: b, s: s, dim: opt.DefaultDim, keys: keys, required: append([]string{"row", "pooling_factor"}, keys[3:]...)}
	n := 0
	for i := range s.List("the file") {
		if s.Next(); b.full(s.Line()) {
			s.Stop()
			break
		}
		n++
		r.table(i)
	}
	s.End()
	b.dimUsed = r.dimless > 0
	if r.dimless > 0 && opt.DefaultDim == 0 {
		b.add(r.first, fmt.Sprintf("%d of %d tables state no dim", r.dimless, n), "give the dim of such tables with --dim, for example --dim 64")
	}
}

// table reads the table at position i.
func (r *prototypeReader) table(i int) {
	s := r.s
	line, before, named := s.Line(), s.count(), len(s.report.list)
	var bad unread
	t := problem.Table{
		Name:   fmt.Sprintf("t%d", i),
		Dim:    r.dim,
		Access: access.Distribution{Kind: access.Histogram, Batch: PrototypeBatch},
	}
	pooling := 0.0
	o := s.Object(prototypeTable, r.keys)
	for key := range o.Keys() {
		ok, part := true, unread(0)
		switch key {
		case "row":
			t.Rows, ok = s.whole("row", rowsHint)
			part = unreadRows
		case "dim":
			t.Dim, ok = s.dim()
			part = unreadDim
		case "pooling_factor":
			pooling, _ = s.real("pooling_factor", poolingHint)
		default:
			bin := slices.Index(r.keys, key) - 3
			t.Access.Reuse[bin], _ = s.real(key, "bin_0 to bin_16 hold the share of distinct rows in each use-count class")
		}
		if !ok {
			bad |= part
		}
	}
	if o.Opened() && !s.Failed() {
		s.require(o, line, r.required...)
	}
	s.name(named, t.Name)
	if !o.Opened() || s.Failed() {
		return
	}
	if !o.Has("row") {
		bad |= unreadRows
	}
	if !o.Has("dim") {
		r.withoutDim(line, &bad)
	}
	if s.count() > before {
		t.Access.Reuse = mendedReuse(t.Access.Reuse)
	}
	t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: pooling}}
	r.builder.table(t, line, statedPooling|statedAccess, bad, t.Name)
}

// withoutDim counts a table that states no dim.
func (r *prototypeReader) withoutDim(line int, bad *unread) {
	if r.dim <= 0 {
		*bad |= unreadDim
	}
	if r.dimless == 0 {
		r.first = line
	}
	r.dimless++
}
