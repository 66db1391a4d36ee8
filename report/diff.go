package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// mostChanges is the number of tables, and of devices, that Diff lists without
// Options.AllChanges.
const mostChanges = 15

// mostChanges returns the number of changes of each sort to list.
func (p *printer) mostChanges() int {
	if p.opt.AllChanges {
		return math.MaxInt
	}
	return mostChanges
}

// everyChange says how to list every change.
const everyChange = "list every change with --full"

// Diff writes what changed from one plan to another.
func Diff(w io.Writer, before, after *plan.Plan, opt Options) error {
	p := &printer{w: w, opt: opt}
	c := plan.Diff(before, after)
	p.headline(DiffHeadline(before, after, c))
	if all := DiffFacts(c); len(all) > 0 {
		p.printf("\n")
		p.facts(all)
	}
	if Same(c) {
		return p.err
	}
	nameList(p, "removed", c.OnlyBefore)
	nameList(p, "added", c.OnlyAfter)
	tableChanges(p, c)
	deviceChanges(p, c)
	return p.err
}

// DiffFacts says what differs beside the tables: the clusters, what the costs count, and the numbers of
// tables of each sharding type.
func DiffFacts(c plan.Changes) []Fact {
	all := []Fact{}
	add := func(name, format string, args ...any) { all = append(all, Fact{name, fmt.Sprintf(format, args...)}) }
	if c.Cluster != nil {
		add("cluster", "%s -> %s", cluster(c.Cluster.Before), cluster(c.Cluster.After))
	}
	if c.Hidden != nil {
		add("hidden", "%s -> %s: the costs leave out different times of exchanges", hidden(c.Hidden.Before), hidden(c.Hidden.After))
	}
	if c.Hierarchy != nil {
		add("exchange", "%s -> %s: the costs count different exchanges", exchange(c.Hierarchy.Before), exchange(c.Hierarchy.After))
	}
	if text := typeChanges(c); text != "" {
		add("sharding", "%s", text)
	}
	return all
}

// moves says how many bytes a change of plans moves.
func moves(c plan.Changes) string {
	if c.Transfer == nil {
		return "bytes not known: " + c.NoTransfer
	}
	return Transfer(c.Transfer)
}

// Transfer says how many bytes devices send each other, and how long the links take for them:
// "11.5 GiB (1.77 GiB for the busiest device; 8.09 ms inside hosts, 20.4 ms between)".
func Transfer(t *plan.Transfer) string {
	text := "nothing between devices"
	if t.Bytes > 0 {
		_, busiest := t.Busiest()
		text = fmt.Sprintf("%v (%v for the busiest device; %s)", t.Bytes, busiest, linkTimes(t))
	}
	if t.Added > 0 {
		text += fmt.Sprintf("; %v are new", t.Added)
	}
	if t.Lost > 0 {
		text += fmt.Sprintf("; %v are on no device and come from a checkpoint", t.Lost)
	}
	return text
}

// linkTimes says how long the links take for what a transfer moves.
func linkTimes(t *plan.Transfer) string {
	var times []string
	if t.Inside > 0 {
		times = append(times, fmt.Sprintf("%v inside hosts", t.Inside))
	}
	if t.Between > 0 {
		times = append(times, fmt.Sprintf("%v between", t.Between))
	}
	if !t.Timed {
		return "the links are not known, nor the time"
	}
	return strings.Join(times, ", ")
}

// typeChanges says how many tables of each sharding type both plans have, if the number changes.
func typeChanges(c plan.Changes) string {
	var parts []string
	for _, k := range c.ShardingTypes {
		if k.Before != k.After {
			parts = append(parts, fmt.Sprintf("%s %d -> %d", k.ShardingType, k.Before, k.After))
		}
	}
	return strings.Join(parts, ", ")
}

// hidden says what an engine hides of the exchanges.
func hidden(h plan.Hidden) string {
	if h == (plan.Hidden{}) {
		return "nothing"
	}
	lookups := ""
	if h.Replicas {
		lookups = " and the lookups of replicas"
	}
	return fmt.Sprintf("at most %v%s forward, %v backward", h.Forward, lookups, h.Backward)
}

// exchange names the exchange that costs count.
func exchange(h problem.Hierarchy) string {
	if !h.On() {
		return "flat"
	}
	return fmt.Sprintf("inside hosts first (%.3g of the vectors, bandwidths x %.3g and %.3g, %v between hosts)", h.Sent, h.Inside, h.Between, h.Latency)
}

// price prints a cost, or that it is not known.
func price(cost *unit.Millis) string {
	if cost == nil {
		return "not known"
	}
	return cost.String()
}

// Same reports whether two plans place all tables alike on the same cluster. Predicted costs
// may differ.
func Same(c plan.Changes) bool {
	return c.Cluster == nil && len(c.Tables) == 0 && len(c.OnlyBefore) == 0 && len(c.OnlyAfter) == 0
}

// joined says what joins devices, if it is not what the profile and the hosts say.
func joined(c plan.Cluster) (text string) {
	if c.NVLinkDomain > 0 {
		text += fmt.Sprintf(", %d in an NVLink domain", c.NVLinkDomain)
	}
	if c.NetworkBandwidth > 0 {
		text += fmt.Sprintf(", a network of %v a device", c.NetworkBandwidth)
	}
	for _, b := range []struct {
		value unit.Bandwidth
		what  string
	}{{c.Links, "inside hosts"}, {c.HBM, "of device memory"}, {c.HostLink, "to host memory"}} {
		if b.value > 0 {
			text += fmt.Sprintf(", %v %s", b.value, b.what)
		}
	}
	for _, m := range []struct {
		value float64
		what  string
	}{{c.Backward, "the backward"}, {c.WeightedBackward, "the backward of weighted lookups"}} {
		if m.value > 0 {
			text += fmt.Sprintf(", %s times %g", m.what, m.value)
		}
	}
	return text
}

// torchRecBytes is the note on bytes that are not all that a step takes; empty if TorchRec did not
// count them.
func torchRecBytes(c plan.Cluster) string {
	if r, ok := c.Accounting().TorchRec(); ok {
		return fmt.Sprintf(", bytes as TorchRec %s counts them", r.Name)
	}
	return ""
}

func cluster(c plan.Cluster) string {
	t := c.Topology()
	t.Fixed = nil
	small, large := t.Smallest(), t.Largest()
	text := fmt.Sprintf("%d x %s (%d a host, %s each, %s reserved), batch %s", c.Devices, name(c.Profile), c.DevicesPerHost,
		memories(c.DeviceMemories, between(t.DeviceMemory(small), t.DeviceMemory(large))), between(t.Reserve(small), t.Reserve(large)), count(int64(c.Batch)))
	text += joined(c)
	if c.ReplicaCount() > 1 {
		text += fmt.Sprintf(", %d sharding groups, an all-reduce of the replicas every %s", c.ReplicaCount(), words.Plural(max(1, c.SyncEvery), "step"))
		if c.InterHostAllReduce {
			text += " between hosts"
		}
	}
	if c.WeightsOnly {
		text += ", weights alone counted"
	}
	text += torchRecBytes(c)
	if c.HostMemory > 0 {
		text += fmt.Sprintf(", %s of memory a host", memories(c.HostMemories, c.HostMemory.String()))
	}
	for i := range c.Fixed {
		text += ", " + Fixed(&c.Fixed[i])
	}
	if c.Engine != "" {
		text += ", for " + c.Engine.Rules().Name
	}
	if c.CommPrecision != problem.FP32 {
		text += fmt.Sprintf(", exchanges in %v", c.CommPrecision)
	}
	if c.Pipeline != "" {
		text += ", pipeline " + string(c.Pipeline)
	}
	if c.AllocatorOverhead > 0 {
		text += fmt.Sprintf(", allocator overhead %s", percent(c.AllocatorOverhead, 1))
	}
	if c.LaneRule != problem.LanesByWidest {
		text += ", each table with its own lanes"
	}
	return text
}

// memories prints memories that differ, each run of equal ones as FIRST-LAST=SIZE; other where they do
// not.
func memories(list []unit.Bytes, other string) string {
	if len(list) == 0 {
		return other
	}
	return hardware.FormatMemories(list)
}

// nameList prints the names of tables after a title, unless there are none.
func nameList(p *printer, what string, names []string) {
	if len(names) > 0 {
		p.facts([]Fact{{what, p.names(names)}})
	}
}

// names lists the names of tables, the first of many.
func (p *printer) names(all []string) string {
	var shown []string
	for _, n := range all[:min(len(all), p.mostChanges())] {
		shown = append(shown, name(n))
	}
	more := words.More(" ", len(all)-len(shown))
	if more != "" {
		more += ": " + everyChange
	}
	return strings.Join(shown, ", ") + more
}

// tableChanges lists the tables that are cut or placed in another way.
func tableChanges(p *printer, c plan.Changes) {
	if len(c.Tables) == 0 {
		return
	}
	p.section("tables that changed")
	var rows [][]string
	for _, t := range c.Tables[:min(len(c.Tables), p.mostChanges())] {
		before, after := TableStates(t)
		rows = append(rows, []string{name(t.Name), before, after, t.Bytes.String()})
	}
	p.grid([]string{"<table", "<before", "<after", "moved"}, rows)
	p.more(len(c.Tables)-len(rows), everyChange)
}

// TableStates says how a table is cut and where it lies, before and after a change.
func TableStates(t plan.TableChange) (before, after string) {
	before, after = state(t.Before, t.Resized), state(t.After, t.Resized)
	if t.Module != nil {
		before, after = before+" in "+name(t.Module.Before), after+" in "+name(t.Module.After)
	}
	return before, after
}

// state prints how a table is cut and where it lies.
func state(s plan.TableState, shape bool) string {
	where := numbers(s.Devices)
	if len(s.Devices) == 1 && s.Devices[0] < 0 {
		where = "all"
	}
	text := fmt.Sprintf("%s on %s", s.ShardingType, where)
	if s.Shards > 1 {
		text = fmt.Sprintf("%s in %d on %s", s.ShardingType, s.Shards, where)
	}
	if len(s.Tiers) > 0 {
		tiers := make([]string, len(s.Tiers))
		for i, tier := range s.Tiers {
			tiers[i] = string(tier)
		}
		text += " in " + strings.Join(tiers, " and ")
	}
	if n := len(s.Caches); n > 0 {
		text += ", " + shares(s.Caches[0], s.Caches[n-1]) + " cached"
	}
	if s.Operator > 0 {
		text += fmt.Sprintf(" in fused kernel %d", s.Operator)
	}
	if shape {
		text = fmt.Sprintf("%s x %d, %s", count(s.Rows), s.Dim, text)
	}
	return text
}

// deviceChanges lists the devices whose totals changed.
func deviceChanges(p *printer, c plan.Changes) {
	var rows [][]string
	changed, hosts := 0, false
	for _, d := range c.Devices {
		for _, t := range []*plan.DeviceTotals{d.Before, d.After} {
			hosts = hosts || t != nil && t.Host > 0
		}
	}
	for _, d := range c.Devices {
		if d.Before != nil && d.After != nil && *d.Before == *d.After {
			continue
		}
		changed++
		if len(rows) == p.mostChanges() {
			continue
		}
		row := []string{
			fmt.Sprint(d.Device),
			arrow(d, func(t *plan.DeviceTotals) string { return count(int64(t.Shards)) }),
			arrow(d, func(t *plan.DeviceTotals) string { return count(int64(t.DimSum)) }),
			arrow(d, func(t *plan.DeviceTotals) string { return t.Memory.String() }),
		}
		if hosts {
			row = append(row, arrow(d, func(t *plan.DeviceTotals) string { return t.Host.String() }))
		}
		rows = append(rows, append(row, arrowOf(d, c.Cost, func(t *plan.DeviceTotals) string { return unit.Millis(t.Total).String() })))
	}
	if changed == 0 {
		return
	}
	p.section("devices that changed: %d of %d", changed, len(c.Devices))
	titles := []string{"device", "?shards", "?dim sum", "memory", "predicted total"}
	if hosts {
		titles = slices.Insert(titles, 4, "host memory")
	}
	p.grid(titles, rows)
	p.more(changed-len(rows), everyChange)
}

// arrowOf prints a time before and after; "-" stands for a time that is not known, and for
// a device that did not exist.
func arrowOf(d plan.DeviceChange, known plan.Change[*unit.Millis], value func(*plan.DeviceTotals) string) string {
	if known.Before == nil {
		d.Before = nil
	}
	if known.After == nil {
		d.After = nil
	}
	return arrow(d, value)
}

// arrow prints a value before and after; "-" stands for a device that did not exist.
func arrow(d plan.DeviceChange, value func(*plan.DeviceTotals) string) string {
	before, after := "-", "-"
	if d.Before != nil {
		before = value(d.Before)
	}
	if d.After != nil {
		after = value(d.After)
	}
	if before == after {
		return before
	}
	return before + " -> " + after
}
