package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
)

// mostSplits is the number of split tables that are listed.
const mostSplits = 15

// splits lists the tables that were cut.
func (v *view) splits() {
	var rows [][]string
	split := 0
	for i := range v.plan.Tables {
		t := &v.plan.Tables[i]
		if len(t.Shards) < 2 {
			continue
		}
		split++
		if split <= mostSplits {
			rows = append(rows, []string{
				name(t.Name), fmt.Sprintf("%s x %d", count(t.Rows), t.Dim), string(t.Kind),
				count(int64(len(t.Shards))), widths(t), numbers(holders(t)),
			})
		}
	}
	if split == 0 {
		v.section("split tables: none")
		return
	}
	v.section("split tables: %d of %d", split, len(v.plan.Tables))
	v.grid([]string{"<table", "<rows x dim", "<kind", "slices", "<widths", "<devices"}, rows)
	if more := split - mostSplits; more > 0 {
		v.printf("and %d more\n", more)
	}
}

// widths prints the widths of a table's slices, equal neighbours together:
// "2 x 32, 64".
func widths(t *plan.Table) string {
	const longest = 6
	var parts []string
	for i := 0; i < len(t.Shards); {
		if len(parts) == longest {
			return strings.Join(parts, ", ") + ", ..."
		}
		width, n := t.Shards[i].Columns.Len(), 0
		for i < len(t.Shards) && t.Shards[i].Columns.Len() == width {
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

// holders returns the devices that hold a part of the table, ascending.
func holders(t *plan.Table) []int {
	var all []int
	for _, s := range t.Shards {
		all = append(all, s.Device)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
