package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// tables.go lists every table of a plan, one line each: where the table lies, and the cheapest
// other place, which says what the place of the table is worth.

// Elsewhere is what neuroshard.Alternatives returns for a plan.
type Elsewhere struct {
	// Cost is the predicted cost of the plan.
	Cost unit.Millis
	// Tables has the alternative of each table. It is nil if nothing was computed; Missing
	// then says why, in a sentence.
	Tables  []neuroshard.Alternative
	Missing string
}

// Tables lists all tables of a plan, one line each, in the plan's order. Names are whole, so
// that each line can be found by its name.
func Tables(w io.Writer, pl *plan.Plan, other Elsewhere, opt Options) error {
	p := &printer{w: w, opt: opt}
	hosted, _ := pl.Hosted()
	titles := []string{"<table", "?<rows x dim", "<sharding type", "?<widths", "<devices"}
	if hosted > 0 {
		titles = append(titles, "<memory")
	}
	several := slices.ContainsFunc(pl.Tables, func(t plan.Table) bool { return VectorsOf(&t) != "" })
	if several {
		titles = append(titles, "<vectors a sample")
	}
	divided := pl.Divided()
	if divided > 0 {
		titles = append(titles, "fused kernel")
	}
	if other.Tables != nil {
		titles = append(titles, "<cheapest other place", "its cost", "against the plan")
	}
	rows := make([][]string, len(pl.Tables))
	for i := range pl.Tables {
		t := &pl.Tables[i]
		row := []string{whole256(t.Name), fmt.Sprintf("%s x %d", count(t.Rows), t.Dim), string(t.ShardingType), cut(t), devicesOf(t)}
		if hosted > 0 {
			row = append(row, memoryOf(t.Shards))
		}
		if several {
			row = append(row, cmp.Or(VectorsOf(t), "one for each feature"))
		}
		if divided > 0 {
			row = append(row, strconv.Itoa(int(t.Operator)))
		}
		if other.Tables != nil {
			row = append(row, elsewhere(t, other.Tables[i], other.Cost)...)
		}
		rows[i] = row
	}
	p.section("tables: all %s", count(int64(len(pl.Tables))))
	p.grid(titles, rows)
	if other.Tables == nil {
		p.printf("why a table lies there: %s\n", OneLine(other.Missing))
		return p.err
	}
	p.printf("cheapest other place: of the whole table, of one slice, or in another form, while all other tables stay; its cost is that of the whole plan, predicted, and the plan's is %v\n", other.Cost)
	if pl.Priced() && math.Abs(float64(pl.Predicted-other.Cost)) > 0.001*float64(other.Cost) {
		p.printf("the plan states %v: it was made for other lookups, or with another model\n", pl.Predicted)
	}
	return p.err
}

// whole256 prints a name as name does, but not shortened up to 256 bytes.
func whole256(s string) string { return shortened(s, 256) }

// devicesOf prints the devices that hold a table, all of them.
func devicesOf(t *plan.Table) string {
	if t.ShardingType == plan.DataParallel {
		return "all"
	}
	return ranges(plan.Holders(t.Shards), math.MaxInt)
}

// memoryOf prints the memories that hold a table's shards.
func memoryOf(shards []plan.Shard) string {
	var text string
	for _, tier := range problem.Tiers() {
		if slices.ContainsFunc(shards, func(s plan.Shard) bool { return s.Tier == tier }) {
			if text != "" {
				text += ", "
			}
			text += string(tier)
		}
	}
	return text
}

// elsewhere prints a table's cheapest other place, the cost of the plan with it, and by how
// much that is above the plan's cost.
func elsewhere(t *plan.Table, a neuroshard.Alternative, cost unit.Millis) []string {
	if a.Shards == nil {
		return []string{"none that is allowed and fits", "-", "-"}
	}
	above := "-"
	if cost > 0 {
		above = unsigned(strconv.FormatFloat(100*float64(a.Cost/cost-1), 'f', 1, 64))
		if a.Cost > cost && above != "0.0" {
			above = "+" + above
		}
		above += " %"
	}
	return []string{OtherPlace(t, a), a.Cost.String(), above}
}

// OtherPlace says in words where an alternative places a table, such as "column_wise 2 x 32 on
// 2, 5". It is empty if the alternative has no place.
func OtherPlace(t *plan.Table, a neuroshard.Alternative) string {
	if a.Shards == nil {
		return ""
	}
	text := string(a.ShardingType)
	if len(a.Shards) > 1 && a.ShardingType.ByColumns() {
		text += " " + widths(a.Shards)
	}
	text += " on " + ranges(plan.Holders(a.Shards), 8)
	if a.ShardingType == plan.DataParallel {
		text = string(a.ShardingType)
	}
	if memory := memoryOf(a.Shards); memory != memoryOf(t.Shards) {
		text += " in " + memory
	}
	return text
}

// WorthOf says in one sentence what the cheapest other place of a table would cost: why the
// table lies where it does. cost is the predicted cost of the plan.
func WorthOf(t *plan.Table, a neuroshard.Alternative, cost unit.Millis) string {
	if a.Shards == nil {
		return "no other place is allowed and fits"
	}
	place := "the cheapest other place, " + OtherPlace(t, a) + ","
	switch share := percent(math.Abs(float64(a.Cost-cost)), float64(cost)); {
	case !(cost > 0) || share == "0.0 %":
		return place + " costs as much"
	case a.Cost > cost:
		return fmt.Sprintf("%s costs %s more", place, share)
	default:
		return fmt.Sprintf("%s costs %s less as predicted: the search did not try it, or took a placement that is cheaper otherwise", place, share)
	}
}
