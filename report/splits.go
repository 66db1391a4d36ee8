package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
)

// mostSplits is the number of split tables that are listed.
const mostSplits = 15

// wideEnough is the width below which people and some kernels find a slice narrow. The search does not:
// on 11 of 24 drawn problems with giant tables, plans of slices this wide cost 16 to 64 % more.
const wideEnough = 16

// splits lists the tables that were cut, and says which slices are narrow and what forbids them.
func splits(p *printer, pl *plan.Plan) {
	split, thin, narrowest := 0, 0, wideEnough
	columns := func(t *plan.Table) ([]string, bool) {
		if len(t.Shards) < 2 {
			return nil, false
		}
		least := t.Dim
		for _, s := range t.Shards {
			least = min(least, int(s.Columns.Len()))
		}
		split++
		if least < min(wideEnough, t.Dim) {
			thin++
		}
		narrowest = min(narrowest, least)
		return []string{string(t.ShardingType), count(int64(len(t.Shards))), cut(t), numbers(plan.Holders(t.Shards))}, true
	}
	p.tableList(pl, "split tables", []string{"<sharding type", "shards", "<widths", "<devices"}, columns)
	if split == 0 {
		p.section("split tables: none")
	}
	if thin > 0 {
		p.printf("%s in slices of fewer than %d columns, the narrowest of %d: such slices balance devices or their memory; --set min_width=%d forbids them\n",
			plural(thin, "table"), wideEnough, narrowest, wideEnough)
	}
}

// cut prints the widths of a table's slices, and the rows of its blocks if the table is cut
// by rows.
func cut(t *plan.Table) string {
	if !t.ShardingType.ByRows() {
		return widths(t.Shards)
	}
	var slice []plan.Shard // one shard for each slice of columns
	most := int64(0)
	for i, s := range t.Shards {
		if i == 0 || s.Columns != t.Shards[i-1].Columns {
			slice = append(slice, s)
		}
		most = max(most, s.Rows.Len())
	}
	return fmt.Sprintf("%s, in blocks of %s", widths(slice), plural(int(most), "row"))
}

// tableList lists the tables for which columns returns what stands behind their names and sizes, the
// first of many.
func (p *printer) tableList(pl *plan.Plan, what string, titles []string, columns func(t *plan.Table) ([]string, bool)) {
	var rows [][]string
	all := 0
	for i := range pl.Tables {
		t := &pl.Tables[i]
		more, listed := columns(t)
		if !listed {
			continue
		}
		if all++; all <= mostSplits {
			rows = append(rows, append([]string{name(t.Name), fmt.Sprintf("%s x %d", count(t.Rows), t.Dim)}, more...))
		}
	}
	if all == 0 {
		return
	}
	p.section("%s: %d of %d", what, all, len(pl.Tables))
	p.grid(append([]string{"<table", "?<rows x dim"}, titles...), rows)
	p.more(all-mostSplits, p.everyTable())
}

// replicas lists the tables that every device holds.
func replicas(p *printer, pl *plan.Plan) {
	p.tableList(pl, "tables on every device (data_parallel)", nil, func(t *plan.Table) ([]string, bool) {
		return nil, t.ShardingType == plan.DataParallel
	})
}

// vectors lists the tables that give other than one pooled vector for each feature.
func vectors(p *printer, pl *plan.Plan) {
	p.tableList(pl, "sequences and tables of several bags", []string{"<vectors a sample"}, func(t *plan.Table) ([]string, bool) {
		given := VectorsOf(t)
		return []string{given}, given != ""
	})
}

// VectorsOf says how many vectors a sample gets from a table and why, such as "50, a sequence: one for
// each lookup". It is empty for a table with one pooled vector for each feature, and for tables of
// plan files that do not state it.
func VectorsOf(t *plan.Table) string {
	switch vectors := fmt.Sprintf("%.4g", t.Vectors); {
	case t.Sequences():
		return vectors + ", a sequence: one for each lookup"
	case t.Vectors > 0:
		return vectors + ", one for each bag"
	}
	return ""
}

// hosted lists the tables that lie in host memory.
func hosted(p *printer, pl *plan.Plan) {
	p.tableList(pl, "tables in host memory", []string{"<sharding type", "shards", "<rows cached", "<devices"}, func(t *plan.Table) ([]string, bool) {
		part := *t
		part.Shards = slices.DeleteFunc(slices.Clone(t.Shards), func(s plan.Shard) bool { return !s.Tier.OnHost() })
		n := len(part.Shards)
		return []string{string(t.ShardingType), fmt.Sprintf("%d of %d", n, len(t.Shards)), cached(part.Shards), numbers(plan.Holders(part.Shards))}, n > 0
	})
}

// cached prints the shares of rows that are cached.
func cached(held []plan.Shard) string {
	low, high := 1.0, 0.0
	for _, s := range held {
		low, high = min(low, s.Cache), max(high, s.Cache)
	}
	if high == 0 {
		return "none"
	}
	return shares(low, high)
}

// shares prints the least and the largest of some shares, or one number if both are equal.
func shares(low, high float64) string {
	if low == high {
		return percent(low, 1)
	}
	return percent(low, 1) + " to " + percent(high, 1)
}

// widths prints the widths of a table's slices, equal neighbours together:
// "2 x 32, 64".
func widths(shards []plan.Shard) string {
	const longest = 6
	var parts []string
	for i := 0; i < len(shards); {
		if len(parts) == longest {
			return strings.Join(parts, ", ") + ", ..."
		}
		width, n := shards[i].Columns.Len(), 0
		for i < len(shards) && shards[i].Columns.Len() == width {
			i++
			n++
		}
		if n == 1 {
			parts = append(parts, fmt.Sprint(width))
		} else {
			parts = append(parts, fmt.Sprintf("%d x %d", n, width))
		}
	}
	return strings.Join(parts, ", ")
}
