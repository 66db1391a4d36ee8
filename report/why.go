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

// reasons say what makes the busiest device slow.
type reasons struct {
	// head is a sentence about the device without a full stop. It is empty if there is nothing to
	// say: the plan has one device, or no predicted times.
	head string
	// lines compare the device with the others, a sentence each.
	lines []string
	// tables are the device's tables to look at, with the largest first; what says what
	// makes them the largest. binds are the tables in fewer words.
	what          string
	tables, binds []string
}

// why writes what makes the busiest device of a plan slow.
func why(v *view) {
	c := reasonsOf(v.plan, v.opt.Problem, v.loads)
	if c.head == "" {
		return
	}
	v.section("%s", c.head)
	for _, line := range c.lines {
		v.printf("%s\n", line)
	}
	if len(c.tables) == 0 {
		return
	}
	v.printf("%s:\n", c.what)
	for _, t := range c.tables {
		v.printf("  %s\n", t)
	}
}

// reasonsOf returns what is said of the busiest device. With the plan's problem, which may be nil, it
// names the tables that the device reads most; without, those with most weights.
func reasonsOf(pl *plan.Plan, p *problem.Problem, all []Load) (c reasons) {
	if len(all) < 2 {
		return c
	}
	device := busiestOf(all)
	mean, slow := meanLoad(all), all[device]
	if mean.Busy() <= 0 {
		return c
	}
	wait := fmt.Sprintf("; devices wait %v for it on average", mean.Wait)
	if formulas(pl) {
		wait = ""
	}
	c.head = fmt.Sprintf("device %d is critical%s: its busy time is %v, %s%s", device, alike(all, device), slow.Busy(), against(slow.Busy(), mean.Busy()), wait)
	if texts := excesses(slow, mean); len(texts) > 0 {
		c.lines = append(c.lines, "compared with the mean device: "+strings.Join(texts, ", "))
	}
	if text := longest(pl, all, device); text != "" {
		c.lines = append(c.lines, text)
	}
	held := contents{pl, p}
	pieces, sum := held.of(device)
	c.what = "its largest tables, by weights"
	if p != nil {
		c.what = "the tables that it reads most, by bytes"
	}
	for _, one := range pieces[:min(mostNamed, len(pieces))] {
		c.tables = append(c.tables, held.describe(one, sum))
		if len(c.binds) > 0 && one.amount < leastBinding*sum {
			continue
		}
		c.binds = append(c.binds, fmt.Sprintf("%s (%s)", held.name(one), percent(one.amount, sum)))
	}
	return c
}

// leastBinding is the least share of what a device reads that a part which binds has, unless it is the largest.
const leastBinding = 0.005

// longest says which device has the longest total time, which is the cost, if the busiest
// device's is shorter: then another device sends more columns.
func longest(pl *plan.Plan, all []Load, critical int) string {
	last := 0
	for i, l := range all {
		if l.Total() > all[last].Total() {
			last = i
		}
	}
	slow := all[critical]
	more := all[last].Total() - slow.Total()
	if more < noticeableTotal*slow.Total() {
		return ""
	}
	reason := ""
	if a, b := pl.Devices[last].DimSum, pl.Devices[critical].DimSum; a > b {
		reason = fmt.Sprintf(", which sends less in the all-to-alls: its dim sum is %s, not %s", count(int64(b)), count(int64(a)))
	}
	return fmt.Sprintf("the cost is the total time of device %d, %v longer than that of device %d%s", last, more, critical, reason)
}

// noticeableTotal is the share of a device's time by which the total of another one must be longer to
// be named.
const noticeableTotal = 0.02

// against compares a busy time with the mean.
func against(busy, mean unit.Millis) string {
	if asLong(busy, mean) {
		return "the mean of all devices"
	}
	return percent(float64(busy-mean), float64(mean)) + " above the mean"
}

// excesses returns by how much the parts of a device's time are above the mean, the
// largest first.
func excesses(slow, mean Load) []string {
	parts := []part{
		{"forward", slow.Forward - mean.Forward},
		{"backward", slow.Backward - mean.Backward},
		{"backward all-to-all", slow.BackwardComm - mean.BackwardComm},
		{"forward all-to-all", slow.ForwardComm - mean.ForwardComm},
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
func noticeable(difference unit.Millis, of Load) bool {
	return math.Abs(float64(difference)) >= float64(of.Total())/1000
}

// part is a part of a device's time and how far it is above the mean.
type part struct {
	name   string
	excess unit.Millis
}

// alike returns the number of other devices whose busy time is practically that of the
// given device.
func alike(loads []Load, device int) string {
	others := -1
	for _, l := range loads {
		if l.Busy() >= 0.999*loads[device].Busy() {
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
			amount := c.amount(i, k)
			pieces = append(pieces, piece{i, k, amount})
			sum += amount
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(b.amount, a.amount) })
	return pieces, sum
}

// amount returns the bytes that a batch reads of a shard, for each sample, or its weights.
func (c contents) amount(table, shard int) float64 {
	placed := &c.plan.Tables[table]
	s := placed.Shards[shard]
	if !c.known(table) {
		return float64(s.Rows.Len()) * float64(s.Columns.Len())
	}
	t := &c.problem.Tables[table]
	amount := t.PoolingFactor() * float64(s.Columns.Len()*t.Precision.Bytes())
	switch { // a block of rows has its share of the lookups; a copy has the lookups of its device's samples
	case placed.ShardingType.ByRows():
		amount *= float64(s.Rows.Len()) / float64(t.Rows)
	case s.Device < 0:
		amount /= float64(len(c.plan.Devices))
	}
	return amount
}

// BytesRead returns the bytes that the device of a shard reads of it for each sample of the
// batch, in the mean: of a replica, the bytes that each device reads. The plan must be valid for
// the problem.
func BytesRead(pl *plan.Plan, p *problem.Problem, table, shard int) float64 {
	return contents{pl, p}.amount(table, shard)
}

// known reports whether the plan's table i is also in the problem.
func (c contents) known(i int) bool {
	p := c.problem
	return p != nil && i < len(p.Tables) && p.Tables[i].Name == c.plan.Tables[i].Name
}

// name names a piece.
func (c contents) name(p piece) string {
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
	return text
}

// describe names a piece with its share, its lookups or rows, and its columns.
func (c contents) describe(p piece, sum float64) string {
	s := c.plan.Tables[p.table].Shards[p.shard]
	if c.known(p.table) {
		source := &c.problem.Tables[p.table]
		return fmt.Sprintf("%s (%s of the bytes read, %s a sample x %d columns)",
			c.name(p), percent(p.amount, sum), lookups(source.PoolingFactor()), s.Columns.Len())
	}
	return fmt.Sprintf("%s (%s of its weights, %s rows x %d columns)", c.name(p), percent(p.amount, sum), count(s.Rows.Len()), s.Columns.Len())
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
