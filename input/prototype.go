package input

import (
	"fmt"

	"github.com/neuroshard/neuroshard/access"
	"github.com/neuroshard/neuroshard/problem"
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
	for i := range s.list("the file") {
		if s.peek(); b.full(s.line) {
			s.failed = true
			break
		}
		n++
		line, before, named := s.line, s.count(), len(s.report.list)
		t := problem.Table{
			Name:   fmt.Sprintf("t%d", i),
			Dim:    opt.DefaultDim,
			Access: access.Distribution{Kind: access.Histogram, Batch: PrototypeBatch},
		}
		pooling := 0.0
		o := s.object(prototypeTable, keys)
		for key := range o.keys() {
			switch key {
			case "row":
				t.Rows, _ = s.whole("row", rowsHint)
			case "dim":
				dim, _ := s.whole("dim", dimHint)
				t.Dim = int(dim)
			case "pooling_factor":
				pooling, _ = s.real("pooling_factor", poolingHint)
			default:
				t.Access.Reuse[bins[key]], _ = s.real(key, "bin_0 to bin_16 hold the share of distinct rows in each use-count class")
			}
		}
		if o.opened && !s.failed {
			s.require(o, line, required...)
		}
		if s.count() > before || s.failed {
			s.name(named, t.Name)
			continue
		}
		if !o.has("dim") && opt.DefaultDim == 0 {
			if dimless == 0 {
				firstDimless = line
			}
			dimless++
			continue
		}
		t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: pooling}}
		b.table(t, line, statedPooling|statedAccess)
	}
	s.end()
	if dimless > 0 {
		b.add(firstDimless, fmt.Sprintf("%d of %d tables state no dim", dimless, n), "give the dim of such tables with --dim, for example --dim 64")
	}
}
