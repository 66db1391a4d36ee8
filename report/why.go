package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// why.go reports the device that the others wait for, what makes it slow, and the
// tables to look at.

// mostNamed is the number of tables that are named.
const mostNamed = 3

// why writes what makes the busiest device of a plan slow.
func why(v *view) {
	if len(v.loads) < 2 {
		return
	}
	mean, slow := meanLoad(v.loads), v.loads[v.critical]
	if mean.busy() <= 0 {
		return
	}
	wait := fmt.Sprintf("; devices wait %v for it on average", mean.wait)
	if v.formulas() {
		wait = ""
	}
	v.section("device %d is critical%s: its busy time is %v, %s%s", v.critical, alike(v.loads, v.critical), slow.busy(), against(slow.busy(), mean.busy()), wait)
	if texts := excesses(slow, mean); len(texts) > 0 {
		v.printf("compared with the mean device: %s\n", strings.Join(texts, ", "))
	}
	longest(v, slow)
	c := contents{v.plan, v.opt.Problem}
	pieces, sum := c.of(v.critical)
	if len(pieces) == 0 {
		return
	}
	what := "its largest tables, by weights"
	if c.problem != nil {
		what = "the tables that it reads most, by bytes"
	}
	v.printf("%s:\n", what)
	for _, p := range pieces[:min(mostNamed, len(pieces))] {
		v.printf("  %s\n", c.describe(p, sum))
	}
}

// longest says which device has the longest total time, which is the cost, if the busiest
// device's is shorter: then another device sends more columns.
func longest(v *view, slow load) {
	last := 0
	for i, l := range v.loads {
		if l.total() > v.loads[last].total() {
			last = i
		}
	}
	more := v.loads[last].total() - slow.total()
	if !noticeable(more, slow) {
		return
	}
	reason := ""
	if a, b := v.plan.Devices[last].DimSum, v.plan.Devices[v.critical].DimSum; a > b {
		reason = fmt.Sprintf(", which sends less in the all-to-alls: its dim sum is %s, not %s", count(int64(b)), count(int64(a)))
	}
	v.printf("the cost is the total time of device %d, %v longer than that of device %d%s\n", last, more, v.critical, reason)
}

// against compares a busy time with the mean.
func against(busy, mean unit.Millis) string {
	if asLong(busy, mean) {
		return "the mean of all devices"
	}
	return percent(float64(busy-mean), float64(mean)) + " above the mean"
}

// excesses returns by how much the parts of a device's time are above the mean, the
// largest first.
func excesses(slow, mean load) []string {
	parts := []part{
		{"forward", slow.forward - mean.forward},
		{"backward", slow.backward - mean.backward},
		{"backward all-to-all", slow.backwardComm - mean.backwardComm},
		{"forward all-to-all", slow.forwardComm - mean.forwardComm},
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.excess, a.excess) })
	var texts []string
	for _, p := range parts {
		if noticeable(p.excess, slow) {
			texts = append(texts, p.name+" "+signed(p.excess))
		}
	}
	return texts
}

// noticeable reports whether a difference is at least a thousandth of a device's time.
// The backward all-to-all, for example, takes the same time on all devices.
func noticeable(difference unit.Millis, of load) bool {
	return math.Abs(float64(difference)) >= float64(of.total())/1000
}

// part is a part of a device's time and how far it is above the mean.
type part struct {
	name   string
	excess unit.Millis
}

// alike returns the number of other devices whose busy time is practically that of the
// given device.
func alike(loads []load, device int) string {
	others := -1
	for _, l := range loads {
		if l.busy() >= 0.999*loads[device].busy() {
			others++
		}
	}
	switch others {
	case 0:
		return ""
	case 1:
		return " (1 other is equally busy)"
	}
	return fmt.Sprintf(" (%s are equally busy)", plural(others, "other"))
}

func signed(m unit.Millis) string {
	if m < 0 {
		return m.String()
	}
	return "+" + m.String()
}

// piece is a shard, and the bytes or weights of it.
type piece struct {
	table, shard int
	amount       float64
}

// contents reads what devices hold from a plan and, if problem is not nil, from its problem.
type contents struct {
	plan    *plan.Plan
	problem *problem.Problem
}

// of returns the pieces on a device, those with the largest amounts first, and the sum of
// their amounts. The amounts are the bytes that a batch reads if the problem is known, else
// weights, because a plan file has no lookups.
func (c contents) of(device int) (pieces []piece, sum float64) {
	for i := range c.plan.Tables {
		for k, s := range c.plan.Tables[i].Shards {
			if s.Device != device && s.Device >= 0 {
				continue
			}
			amount := float64(s.Rows.Len()) * float64(s.Columns.Len())
			if c.known(i) {
				t := &c.problem.Tables[i]
				amount = t.PoolingFactor() * float64(s.Columns.Len()*t.Precision.Bytes())
				switch { // a block of rows has its share of the lookups; a copy has the lookups of its device's samples
				case c.plan.Tables[i].ShardingType.ByRows():
					amount *= float64(s.Rows.Len()) / float64(t.Rows)
				case s.Device < 0:
					amount /= float64(len(c.plan.Devices))
				}
			}
			pieces = append(pieces, piece{i, k, amount})
			sum += amount
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(b.amount, a.amount) })
	return pieces, sum
}

// known reports whether the plan's table i is also in the problem.
func (c contents) known(i int) bool {
	p := c.problem
	return p != nil && i < len(p.Tables) && p.Tables[i].Name == c.plan.Tables[i].Name
}

// describe names a piece, and its share of the sum of a device's amounts.
func (c contents) describe(p piece, sum float64) string {
	t := &c.plan.Tables[p.table]
	s := t.Shards[p.shard]
	text := name(t.Name)
	if t.ShardingType.ByRows() {
		text += " rows " + interval(s.Rows)
	}
	if len(t.Shards) > 1 && t.ShardingType.ByColumns() {
		text += " columns " + interval(s.Columns)
	}
	if s.Tier.OnHost() {
		text += " in host memory"
	}
	if c.known(p.table) {
		source := &c.problem.Tables[p.table]
		return fmt.Sprintf("%s (%s of the bytes read, %s a sample x %d columns)",
			text, percent(p.amount, sum), lookups(source.PoolingFactor()), s.Columns.Len())
	}
	return fmt.Sprintf("%s (%s of its weights, %s rows x %d columns)", text, percent(p.amount, sum), count(s.Rows.Len()), s.Columns.Len())
}

func interval(r problem.Range) string { return count(r.Start) + "-" + count(r.End-1) }

// decimal prints a number with at most one digit behind the point.
func decimal(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// lookups prints a pooling factor as a number of lookups.
func lookups(pooling float64) string {
	if text := decimal(pooling); text != "1" {
		return text + " lookups"
	}
	return "1 lookup"
}
