package input

import (
	"fmt"

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

// readPrototype reads a list of tables as the published prototype writes it.
func (b *builder) readPrototype(s *scanner, opt Options) {
	keys := prototypeKeys()
	bins := make(map[string]int, access.Classes)
	for i, key := range keys[3:] {
		bins[key] = i
	}
	required := append([]string{"row", "pooling_factor"}, keys[3:]...)
	dimless, firstDimless, n := 0, 0, 0
	for i := range s.List("the file") {
		if s.Next(); b.full(s.Line()) {
			s.Stop()
			break
		}
		n++
		line, before, named := s.Line(), s.count(), len(s.report.list)
		var bad unread
		check := func(ok bool, part unread) {
			if !ok {
				bad |= part
			}
		}
		t := problem.Table{
			Name:   fmt.Sprintf("t%d", i),
			Dim:    opt.DefaultDim,
			Access: access.Distribution{Kind: access.Histogram, Batch: PrototypeBatch},
		}
		pooling, ok := 0.0, false
		o := s.Object(prototypeTable, keys)
		for key := range o.Keys() {
			switch key {
			case "row":
				t.Rows, ok = s.whole("row", rowsHint)
				check(ok, unreadRows)
			case "dim":
				var dim int64
				dim, ok = s.whole("dim", dimHint)
				t.Dim = int(dim)
				check(ok, unreadDim)
			case "pooling_factor":
				pooling, _ = s.real("pooling_factor", poolingHint)
			default:
				t.Access.Reuse[bins[key]], _ = s.real(key, "bin_0 to bin_16 hold the share of distinct rows in each use-count class")
			}
		}
		if o.Opened() && !s.Failed() {
			s.require(o, line, required...)
		}
		s.name(named, t.Name)
		if !o.Opened() || s.Failed() {
			continue
		}
		check(o.Has("row"), unreadRows)
		check(o.Has("dim") || opt.DefaultDim > 0, unreadDim)
		if !o.Has("dim") {
			if dimless == 0 {
				firstDimless = line
			}
			dimless++
		}
		if s.count() > before {
			t.Access.Reuse = mendedReuse(t.Access.Reuse)
		}
		t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: pooling}}
		b.table(t, line, statedPooling|statedAccess, bad, t.Name)
	}
	s.End()
	b.dimUsed = dimless > 0
	if dimless > 0 && opt.DefaultDim == 0 {
		b.add(firstDimless, fmt.Sprintf("%d of %d tables state no dim", dimless, n), "give the dim of such tables with --dim, for example --dim 64")
	}
}
