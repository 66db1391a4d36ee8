package input

import (
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/problem/access"
)

// PrototypeBatch is the batch on which the prototype's histograms are counted.
const PrototypeBatch = 65536

// prototypeShape is a table as the published prototype writes it. bin_0 to bin_16 are read apart.
var prototypeShape = renamed("a table of the prototype's format", []string{"row", "pooling_factor"}, "row", "rows", "dim", "dim", "pooling_factor", "pooling_factor")

// renamed returns an object with some fields of a table, each a key and the table's own.
func renamed(what string, required []string, pairs ...string) *shape[table] {
	s := &shape[table]{what: what, required: required}
	for pair := range slices.Chunk(pairs, 2) {
		s.keys = append(s.keys, pair[0])
		i := slices.IndexFunc(tableFields, func(f *field[table]) bool { return f.key == pair[1] })
		s.fields = append(s.fields, tableFields[i])
	}
	return s
}

// readPrototype reads a list of tables, as the published prototype writes it, into b. dim is that of
// tables that state none; 0 or less: none is given.
func readPrototype(b *builder, s *scanner, dim int) {
	shape := *prototypeShape
	shape.keys, shape.required = slices.Clone(shape.keys), slices.Clone(shape.required)
	for i := range access.Classes {
		bin := fmt.Sprintf("bin_%d", i)
		shape.keys, shape.required = append(shape.keys, bin), append(shape.required, bin)
		shape.fields = append(shape.fields, &field[table]{id: 63, hint: "bin_0 to bin_16 hold the share of distinct rows in each use-count class", read: func(r *reading, n *node, hint string, t *table) {
			t.Access.Reuse[i], _ = anyReal.read(r.report, n, hint)
		}})
	}
	dimless, first, all := 0, 0, 0
	b.each(s, &shape, fileShape.what, func(n *node, i int) *table {
		all++
		t := b.newTable(n, i)
		t.Name, t.Dim = fmt.Sprintf("t%d", i), dim
		t.Access = access.Distribution{Kind: access.Histogram, Batch: PrototypeBatch}
		if n.get("dim") == nil {
			if dimless++; dimless == 1 {
				first = n.line
			}
		}
		return t
	})
	s.End()
	b.dimUsed = dimless > 0
	if dimless > 0 && dim == 0 {
		b.add(first, fmt.Sprintf("%d of %d tables state no dim", dimless, all), "give the dim of such tables with --set dim=N, for example --set dim=64")
	}
}
