package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// validate.go checks a plan against its problem.
//
// Cover is checked slice by slice. The shards of a table that have the same
// columns form a slice; a table is placed exactly once if its slices follow
// each other from column 0 to the last without gap or overlap, and inside each
// slice the shards' rows do the same:
//
//	columns  0      32      64     96
//	         +-------+-------+------+
//	    rows |       |       |      |    every sharding type of TorchRec
//	         |   A   +-------+  D   |    is of this form: one slice (table-wise,
//	         |       |   C   |      |    row-wise), slices of all rows
//	         +-------+-------+------+    (column-wise), or both (grid)
//	           slice   slice   slice
//
// The check sorts each table's shards once, in O(n log n). The only exact covers that it
// refuses are those that no sharding type allows, such as shards in a pinwheel.

// Rule names what a Violation breaks.
type Rule string

// The rules.
const (
	RuleCluster      Rule = "cluster"       // the plan was made for another cluster or batch
	RuleTables       Rule = "tables"        // the plan places other tables
	RuleCover        Rule = "cover"         // a part of a table is placed twice or not at all
	RuleShardingType Rule = "sharding_type" // the shards of a table do not fit its sharding type
	RuleRows         Rule = "rows"          // no engine cuts rows, or places blocks of rows, this way
	RuleWidth        Rule = "width"         // the width of a shard is too small or not valid
	RuleSplit        Rule = "split"         // a table that must stay whole is cut
	RuleDevice       Rule = "device"        // a shard lies on a device that is not allowed
	RuleColocation   Rule = "group"         // the tables of a co-location are on several devices
	RuleTier         Rule = "tier"          // a shard lies in a tier that cannot hold it
	RuleMemory       Rule = "memory"        // the shards of a device take more bytes than its memory has
	RuleStated       Rule = "stated"        // a sum stated in the plan is not the sum of its shards
	RuleOperator     Rule = "operator"      // no plan can give an operator that number
	RuleEngine       Rule = "engine"        // the engine that is to run the plan does not run it
	RulePredicted    Rule = "predicted"     // a time is not valid, or the cost is not the largest total
)

// Violation is one way in which a plan breaks a rule.
type Violation struct {
	Rule Rule `json:"rule"`
	// Table is the table's name; empty if no single table is at fault.
	Table string `json:"table,omitempty"`
	// Shard is the shard's position in Table.Shards, or -1.
	Shard int `json:"shard"`
	// Device is the device's number, or -1.
	Device int `json:"device"`
	// Message says what is wrong, with the numbers. It does not repeat the fields above.
	Message string `json:"message"`
}

// String prints the violation on one line.
func (v Violation) String() string {
	var place []string
	if v.Table != "" {
		place = append(place, fmt.Sprintf("table %q", v.Table))
	}
	if v.Shard >= 0 {
		place = append(place, fmt.Sprintf("shard %d", v.Shard))
	}
	if v.Device >= 0 {
		place = append(place, fmt.Sprintf("device %d", v.Device))
	}
	if len(place) == 0 {
		return v.Message
	}
	return strings.Join(place, ", ") + ": " + v.Message
}

// Invalid is the error of a plan that is not a placement of its problem. It has every
// violation found: those of the whole plan first, then those of tables, of co-locations
// and of devices.
type Invalid struct{ Violations []Violation }

// Error returns the violations, one on each line.
func (e *Invalid) Error() string {
	lines := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		lines[i] = v.String()
	}
	return strings.Join(lines, "\n")
}

type validator struct {
	pl *Plan
	p  *problem.Problem
	// index[i] is the table of p that table i of pl is, or -1. place is the inverse.
	index, place []int
	// foreign is true if the plan is for another cluster or other tables, so that its
	// stated sums cannot agree with the problem.
	foreign bool
	// alone is true if the problem is not known. Host memory, blocks of rows and cache
	// shares are then not checked.
	alone bool
	found []Violation
}

func (v *validator) add(rule Rule, table string, shard, device int, format string, args ...any) {
	v.found = append(v.found, Violation{rule, table, shard, device, fmt.Sprintf(format, args...)})
}

// Check returns the violations that the plan shows without its problem: those of CheckTables,
// tables that are listed twice, sums and times that contradict the rest of the plan, and
// devices whose stated bytes exceed their memory. Validate finds all of these and more.
func (pl *Plan) Check() []Violation {
	v := &validator{pl: pl, found: pl.CheckTables()}
	shards := v.listed()
	if has, want := len(pl.Devices), pl.Cluster.Devices; has != want {
		v.add(RuleCluster, "", -1, -1, "the plan lists %d devices, its cluster has %d", has, want)
	}
	t := pl.Cluster.Topology()
	for i := range pl.Devices {
		d := &pl.Devices[i]
		if d.Shards != shards[i] {
			v.add(RuleStated, "", -1, i, "the plan states %d shards, its tables give %d", d.Shards, shards[i])
		}
		if total := d.Memory.Total(); total > t.DeviceMemory(i) {
			v.add(RuleMemory, "", -1, i, "the plan states %s with the reserve, more than the device's memory of %s", exactly(total), exactly(t.DeviceMemory(i)))
		}
		if host := t.HostBudget(i); d.Memory.Host > host {
			v.add(RuleMemory, "", -1, i, "the plan states %s of host memory, and a device may use %s", exactly(d.Memory.Host), exactly(host))
		}
	}
	v.predicted()
	return v.found
}

// listed returns the number of shards on each device that the plan lists, and reports tables
// that are listed twice.
func (v *validator) listed() []int {
	seen, shards := make(map[string]bool, len(v.pl.Tables)), make([]int, len(v.pl.Devices))
	everywhere := 0
	for i := range v.pl.Tables {
		t := &v.pl.Tables[i]
		if seen[t.Name] {
			v.add(RuleTables, t.Name, -1, -1, "it is in the plan more than once")
		}
		seen[t.Name] = true
		for _, s := range t.Shards {
			switch {
			case s.Device == replicated:
				everywhere++
			case s.Device >= 0 && s.Device < len(shards):
				shards[s.Device]++
			}
		}
	}
	for d := range shards {
		shards[d] += everywhere
	}
	return shards
}

// exactly prints a size for people, and its bytes.
func exactly(b unit.Bytes) string {
	if b == 0 {
		return "none"
	}
	return fmt.Sprintf("%v (%d bytes)", b, int64(b))
}

func (v *validator) cluster() {
	has, want := v.pl.Cluster, clusterOf(v.p)
	for _, difference := range has.differences(&want) {
		v.foreign = true
		v.add(RuleCluster, "", -1, -1, "%s", difference)
	}
	if len(v.pl.Devices) != v.p.Topology.Devices {
		v.foreign = true
		v.add(RuleCluster, "", -1, -1, "the plan lists %d devices, the cluster has %d", len(v.pl.Devices), v.p.Topology.Devices)
	}
}

// match finds each table of the plan in the problem. It reports all differences of one
// sort in one violation, so a plan for entirely different tables takes a few lines only.
func (v *validator) match() {
	known := make(map[string]int, len(v.p.Tables))
	for i := range v.p.Tables {
		known[v.p.Tables[i].Name] = i
	}
	v.place = make([]int, len(v.p.Tables))
	for i := range v.place {
		v.place[i] = -1
	}
	v.index = make([]int, len(v.pl.Tables))
	var extra, different, twice, missing, renamed []string
	for i := range v.pl.Tables {
		t := &v.pl.Tables[i]
		v.index[i] = -1
		at, ok := known[t.Name]
		switch {
		case !ok:
			extra = append(extra, fmt.Sprintf("%q", t.Name))
		case v.place[at] >= 0:
			twice = append(twice, fmt.Sprintf("%q", t.Name))
		default:
			v.place[at] = i
			if want := &v.p.Tables[at]; t.Rows != want.Rows || t.Dim != want.Dim {
				different = append(different, fmt.Sprintf("%q of %d x %d instead of %d x %d", t.Name, t.Rows, t.Dim, want.Rows, want.Dim))
				continue
			}
			v.index[i] = at
			// A problem that states no module leaves it open.
			if want := v.p.Tables[at].Module; want != "" && t.Module != want {
				renamed = append(renamed, fmt.Sprintf("%q in %q instead of %q", t.Name, t.Module, want))
			}
		}
	}
	for i, at := range v.place {
		if at < 0 {
			missing = append(missing, fmt.Sprintf("%q", v.p.Tables[i].Name))
		}
	}
	v.reportTables(missing, extra, different, twice, renamed)
}

// reportTables reports the tables that do not match. If all tables match, it reports the
// first table that is out of order.
func (v *validator) reportTables(missing, extra, different, twice, renamed []string) {
	report := func(names []string, format string) {
		if len(names) > 0 {
			v.foreign = true
			v.add(RuleTables, "", -1, -1, format, words.Plural(len(names), "table"), words.List(names, mostNames))
		}
	}
	report(missing, "the plan lacks %s of the problem: %s")
	report(extra, "the plan has %s that the problem lacks: %s")
	report(different, "the plan has %s in another shape (rows x dim): %s")
	report(twice, "the plan has %s more than once: %s")
	foreign := v.foreign
	report(renamed, "the plan has %s in another module: %s")
	v.foreign = foreign // sums of shards do not depend on modules
	if v.foreign {
		return
	}
	for i, at := range v.index {
		if at != i {
			v.add(RuleTables, v.pl.Tables[i].Name, -1, -1, "it is number %d in the plan and number %d in the problem: a plan has the problem's order", i, at)
			return
		}
	}
}

// mostNames is the largest number of names that a violation lists.
const mostNames = 5

func (v *validator) table(i int) {
	t := &v.pl.Tables[i]
	if len(t.Shards) == 0 {
		v.add(RuleCover, t.Name, -1, -1, "it has no shard: it is placed nowhere")
		return
	}
	if t.Operator >= problem.Operators {
		v.add(RuleOperator, t.Name, -1, -1, "it is in operator %d: operators are numbered from 0 to %d", t.Operator, problem.Operators-1)
	}
	before, outside := len(v.found), false
	for k, s := range t.Shards {
		if !t.inside(s) {
			outside = true
			v.add(RuleCover, t.Name, k, -1, "%s is not a part of the table's %d rows and %d columns", shape(s), t.Rows, t.Dim)
		}
		v.tier(i, t, k)
	}
	if !outside {
		v.cover(t)
	}
	v.shardingType(t)
	v.permitted(i, t)
	if len(v.found) == before && !v.alone && !v.foreign {
		v.blocks(t)
	}
	v.devices(i, t)
	v.columnsOnHost(i, t)
	v.widths(i, t)
}

// tier checks that shard k of table i lies in a memory that exists and that its constraints allow.
func (v *validator) tier(i int, t *Table, k int) {
	s := t.Shards[k]
	if !slices.Contains(tiers, s.Tier) {
		v.add(RuleTier, t.Name, k, -1, "memory tier %q is unknown: known are %s", s.Tier, join(tiers))
		return
	}
	if s.Tier.OnHost() && !v.alone {
		switch {
		case v.p.Topology.MostHostMemory() == 0:
			v.add(RuleTier, t.Name, k, -1, "it lies in host memory, and this problem has none")
			return
		case t.ShardingType == DataParallel:
			v.add(RuleTier, t.Name, k, -1, "it lies in host memory: a data_parallel table lies in hbm")
			return
		}
	}
	cached := 0 < s.Cache && s.Cache < 1
	open := v.alone && s.Cache == 0
	switch {
	case s.Tier == HostCached && !cached && !open:
		v.add(RuleTier, t.Name, k, -1, "the share of its rows that is cached, %v, is not above 0 and below 1", s.Cache)
	case s.Tier != HostCached && s.Cache != 0:
		v.add(RuleTier, t.Name, k, -1, "a share of its rows, %v, is cached, but it lies in %s", s.Cache, s.Tier)
	case !v.alone:
		v.permittedTier(i, t, k)
	}
}

// permittedTier checks that the constraints of table i allow the tier and cache share of shard k.
func (v *validator) permittedTier(i int, t *Table, k int) {
	if v.index[i] < 0 {
		return
	}
	s, c := t.Shards[k], &v.p.Tables[v.index[i]].Constraint
	switch {
	case !c.PermitsTier(s.Tier):
		v.add(RuleTier, t.Name, k, -1, "it lies in %s, and its constraints allow only %s", s.Tier, join(c.Tiers))
	case !c.PermitsCache(s.Tier, s.Cache):
		v.add(RuleTier, t.Name, k, -1, "the share of its rows that is cached is %v, and its constraints want %v", s.Cache, c.CacheShare)
	}
}

func shape(s Shard) string {
	return fmt.Sprintf("rows %s of columns %s", interval(s.Rows), interval(s.Columns))
}

func interval(r problem.Range) string { return fmt.Sprintf("[%d, %d)", r.Start, r.End) }

// where says which device holds a shard.
func where(s Shard) string {
	if s.Device == replicated {
		return "every device"
	}
	return fmt.Sprintf("device %d", s.Device)
}

// cover checks that the shards, all inside the table, cover it exactly once.
func (v *validator) cover(t *Table) {
	order := make([]int, len(t.Shards))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := t.Shards[a], t.Shards[b]
		return cmp.Or(
			cmp.Compare(x.Columns.Start, y.Columns.Start),
			cmp.Compare(x.Columns.End, y.Columns.End),
			cmp.Compare(x.Rows.Start, y.Rows.Start),
			cmp.Compare(x.Rows.End, y.Rows.End),
			cmp.Compare(a, b))
	})
	widest := problem.Range{} // the columns of the slice that ends last, so far
	for len(order) > 0 {
		columns := t.Shards[order[0]].Columns
		n := 1
		for n < len(order) && t.Shards[order[n]].Columns == columns {
			n++
		}
		v.follows(t, widest, columns)
		v.slice(t, columns, order[:n])
		if columns.End > widest.End {
			widest = columns
		}
		order = order[n:]
	}
	if end := int64(t.Dim); widest.End < end {
		v.add(RuleCover, t.Name, -1, -1, "columns %s are placed nowhere", interval(problem.Range{Start: widest.End, End: end}))
	}
}

// slice checks that the shards with the given positions, which all have the given
// columns, cover the table's rows exactly once.
func (v *validator) slice(t *Table, columns problem.Range, order []int) {
	last := -1 // the shard that ends last
	end := int64(0)
	for _, k := range order {
		rows := t.Shards[k].Rows
		switch {
		case last >= 0 && rows.Start < end:
			both := problem.Range{Start: rows.Start, End: min(end, rows.End)}
			v.add(RuleCover, t.Name, k, -1, "rows %s of columns %s are placed twice: on %s and on %s",
				interval(both), interval(columns), where(t.Shards[last]), where(t.Shards[k]))
		case rows.Start > end:
			v.add(RuleCover, t.Name, -1, -1, "rows %s of columns %s are placed nowhere", interval(problem.Range{Start: end, End: rows.Start}), interval(columns))
		}
		if rows.End > end {
			last, end = k, rows.End
		}
	}
	if end < t.Rows {
		v.add(RuleCover, t.Name, -1, -1, "rows %s of columns %s are placed nowhere", interval(problem.Range{Start: end, End: t.Rows}), interval(columns))
	}
}

// follows reports a gap or an overlap between two slices' columns.
func (v *validator) follows(t *Table, before, next problem.Range) {
	switch {
	case next.Start < before.End:
		v.add(RuleCover, t.Name, -1, -1, "its slices of columns %s and %s overlap", interval(before), interval(next))
	case next.Start > before.End:
		v.add(RuleCover, t.Name, -1, -1, "columns %s are placed nowhere", interval(problem.Range{Start: before.End, End: next.Start}))
	}
}

// shardingType checks that the shards fit the table's sharding type.
func (v *validator) shardingType(t *Table) {
	allRows, allColumns := uncut(t.ShardingType)
	several := !allRows || !allColumns
	if n := len(t.Shards); several && n == 1 || !several && n > 1 {
		v.add(RuleShardingType, t.Name, -1, -1, "a %s table does not have %d shards", t.ShardingType, n)
	}
	v.shapes(t)
	switch t.ShardingType {
	case TableWise, ColumnWise, RowWise, DataParallel:
	case TableRowWise:
		v.oneHost(t, t.Shards)
	case Grid:
		if v.mayChoose(t) {
			return // blocks reports what is wrong
		}
		for slice := range t.Slices() {
			v.oneHost(t, slice)
		}
	default:
		if !t.ShardingType.Known() {
			v.add(RuleShardingType, t.Name, -1, -1, "sharding type %q is unknown: known are %s", t.ShardingType, join(shardingTypes))
			return
		}
		v.add(RuleShardingType, t.Name, -1, -1, "no rule checks tables of sharding type %q yet", t.ShardingType)
	}
}

// permitted checks that the constraints of the table allow its sharding type.
func (v *validator) permitted(i int, t *Table) {
	if v.index[i] < 0 || !t.ShardingType.Known() {
		return
	}
	table := &v.p.Tables[v.index[i]]
	switch c := &table.Constraint; {
	case !c.Permits(t.ShardingType):
		v.add(RuleShardingType, t.Name, -1, -1, "it is %s, and its constraints allow only %s", t.ShardingType, join(c.ShardingTypes))
	case table.ChooseDedup && table.IndexDedup != t.IndexDedup && table.Pooling == problem.PoolingNone:
		v.add(RuleEngine, t.Name, -1, -1, "its indices are not deduplicated, and those of other sequences are: %s does so of all or of none", v.p.Engine.Rules().Name)
	case !table.Permits(t.ShardingType):
		v.add(RuleShardingType, t.Name, -1, -1, "it is %s, and no table with pooling none or pooled with index_dedup is", t.ShardingType)
	case table.Apart() && v.p.Engine.Rules().AnyDevices && v.chooses(t):
		v.add(RuleShardingType, t.Name, -1, -1, "its rows lie on chosen devices, and those of no table with index_dedup do")
	}
}

// shapes checks the shape of each shard of a table, and that only shards of
// data_parallel tables lie on every device.
func (v *validator) shapes(t *Table) {
	for k, s := range t.Shards {
		if (s.Device == replicated) != (t.ShardingType == DataParallel) && s.Device >= replicated {
			v.add(RuleShardingType, t.Name, k, -1, "a shard of a %s table does not lie on %s", t.ShardingType, where(s))
		}
		if needRows, needColumns := uncut(t.ShardingType); needRows && !t.allRows(s) || needColumns && !t.allColumns(s) {
			v.add(RuleShardingType, t.Name, k, -1, "%s of %d x %d is not the shape of a shard of a %s table", shape(s), t.Rows, t.Dim, t.ShardingType)
		}
	}
}

// uncut reports whether each shard of a table with that sharding type has all rows of
// the table, and whether it has all columns.
func uncut(k ShardingType) (rows, columns bool) {
	return k.Known() && !k.ByRows(), k.Known() && !k.ByColumns()
}

// oneHost checks that all of the shards are on the same host.
func (v *validator) oneHost(t *Table, shards []Shard) {
	per := v.p.Topology.PerHost()
	for _, s := range shards[1:] {
		if s.Device/per != shards[0].Device/per {
			v.add(RuleShardingType, t.Name, -1, -1, "a %s table's rows of columns %s lie on one host, but %s is of host %d and %s of host %d",
				t.ShardingType, interval(s.Columns), where(shards[0]), shards[0].Device/per, where(s), s.Device/per)
			return
		}
	}
}

// blocks checks that a table that is cut by rows, and covered, is cut as engines cut
// it. An engine computes from a row's number which device holds the row: n devices,
// in order, have blocks of Table.BlockRows(n) rows each. If the rows end before the
// last device, the remaining devices have none.
func (v *validator) blocks(t *Table) {
	switch topology := v.p.Topology; {
	case !t.ShardingType.ByRows():
	case t.Blocks(&v.pl.Cluster) > 0:
		v.chosen(t)
	case v.p.Engine.Rules().AnyDevices && v.chooses(t):
		v.wrongBlocks(t)
	case t.ShardingType.Span() == problem.AllDevices:
		v.inBlocks(t, t.Shards, 0, topology.Devices)
	default:
		per := topology.PerHost()
		for slice := range t.Slices() {
			host := slice[0].Device / per
			if full := (host + 1) * per; full > topology.Devices {
				v.add(RuleRows, t.Name, -1, -1, "a %s table's rows lie on all %d devices of a full host, but host %d has only %d", t.ShardingType, per, host, topology.Devices-host*per)
			} else {
				v.inBlocks(t, slice, host*per, per)
			}
		}
	}
}

// inBlocks compares shards of the same columns with the blocks of n devices from
// first on, and reports the first that differs.
func (v *validator) inBlocks(t *Table, shards []Shard, first, n int) {
	i := t.differs(shards, first, n)
	if i < 0 {
		return
	}
	table := problem.Table{Rows: t.Rows}
	shards = ordered(shards, compareShards)
	s := shards[min(i, len(shards)-1)]
	v.add(RuleRows, t.Name, slices.Index(t.Shards, s), -1, "rows %s of columns %s lie on %s, but the %d rows of a %s table are cut into blocks of %d in the order of %d devices: device %d has rows %s",
		interval(s.Rows), interval(s.Columns), where(s), t.Rows, t.ShardingType, table.BlockRows(n), n, first+i, interval(blockAt(&table, n, i)))
}

// chosen checks that a table whose blocks of rows lie on devices that the plan chose is not in a
// plan for any engine. The rules of an engine say whether the engine runs it.
func (v *validator) chosen(t *Table) {
	if v.p.Engine == "" {
		v.add(RuleRows, t.Name, -1, -1, "its rows are cut over devices %s: in a plan for any engine, rows are cut over all devices of the cluster or of a host; only %s lets a plan choose the devices (--engine %s)",
			numbers(Holders(t.Shards)), problem.HugeCTR.Rules().Name, problem.HugeCTR)
	}
}

// mayChoose reports whether the engine runs rows on chosen devices, and the rows of a grid table lie
// on such devices.
func (v *validator) mayChoose(t *Table) bool {
	return v.p.Engine.Rules().AnyDevices && (t.Blocks(&v.pl.Cluster) > 0 || !v.alone && !v.foreign && v.chooses(t))
}

// chooses reports whether the rows of a row_wise or grid table lie on devices that the plan chose.
// They do not if all devices of the cluster hold them, or if all devices of one host hold those of
// each slice of a grid; the last devices may hold none of a table with few rows.
func (v *validator) chooses(t *Table) bool {
	n, per := v.p.Topology.Devices, v.p.Topology.PerHost()
	table := problem.Table{Rows: t.Rows}
	if t.ShardingType == RowWise {
		return len(Holders(t.Shards)) != table.NonEmptyBlocks(n)
	}
	if t.ShardingType != Grid {
		return false
	}
	for slice := range t.Slices() {
		devices := Holders(slice)
		if len(devices) != table.NonEmptyBlocks(per) || devices[0]/per != devices[len(devices)-1]/per {
			return true
		}
	}
	return false
}

// wrongBlocks reports the first reason why the rows of a table on devices that the plan chose
// (problem.Form.Blocks) are not cut as the engine cuts them. Rule tier reports blocks outside
// HBM.
func (v *validator) wrongBlocks(t *Table) {
	table, n, first := problem.Table{Rows: t.Rows}, 0, ""
	for slice := range t.Slices() {
		columns := interval(slice[0].Columns)
		if n == 0 {
			n, first = len(slice), columns
		}
		if len(slice) != n {
			v.add(RuleRows, t.Name, -1, -1, "columns %s are cut into %s and columns %s into %d: on devices that the plan chooses, all slices of a table have the same number of blocks of rows", first, words.Plural(n, "block"), columns, len(slice))
			return
		}
		if n < 2 || !table.CutsByRows(n) {
			v.add(RuleRows, t.Name, -1, -1, "its %d rows cannot be cut into %s: blocks of %d rows leave none for the last", t.Rows, words.Plural(n, "block"), table.BlockRows(n))
			return
		}
		for i, s := range slice {
			if fault := v.wrongBlock(&table, slice, i); fault != "" {
				v.add(RuleRows, t.Name, slices.Index(t.Shards, s), -1, "rows %s of columns %s lie on %s%s", interval(s.Rows), columns, where(s), fault)
				return
			}
		}
	}
	v.add(RuleRows, t.Name, -1, -1, "its rows are cut over devices %s, which are all devices of a host: the table is %s, not %s", numbers(Holders(t.Shards)), TableRowWise, t.ShardingType)
}

// wrongBlock says what is wrong with block i of a slice; "" if nothing is.
func (v *validator) wrongBlock(t *problem.Table, slice []Shard, i int) string {
	s, n := slice[i], len(slice)
	switch want := blockAt(t, n, i); {
	case s.Rows != want:
		return fmt.Sprintf(", but the %d rows of a table in %d blocks are cut into blocks of %d: block %d has rows %s", t.Rows, n, t.BlockRows(n), i, interval(want))
	case i > 0 && s.Device == slice[i-1].Device:
		return fmt.Sprintf(", too: rows %s lie there already, and the blocks of a slice lie on different devices", interval(slice[i-1].Rows))
	case i > 0 && s.Device < slice[i-1].Device:
		return fmt.Sprintf(" and rows %s on %s: the blocks of a slice lie in the order of the devices", interval(slice[i-1].Rows), where(slice[i-1]))
	}
	return ""
}

func join[T ~string](words []T) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// devices checks that the shards lie on devices that exist and are allowed.
func (v *validator) devices(i int, t *Table) {
	n := v.p.Topology.Devices
	var allowed []int
	if v.index[i] >= 0 {
		allowed = slices.Sorted(slices.Values(v.p.Tables[v.index[i]].Constraint.Devices))
	}
	for k, s := range t.Shards {
		switch {
		case s.Device >= n || s.Device < replicated:
			v.add(RuleDevice, t.Name, k, s.Device, "there is no device %d: the cluster has %d", s.Device, n)
		case len(allowed) == 0:
		case s.Device == replicated:
			if len(allowed) < n {
				v.add(RuleDevice, t.Name, k, -1, "it lies on every device, but only %d of %d are allowed", len(allowed), n)
			}
		default:
			if _, ok := slices.BinarySearch(allowed, s.Device); !ok {
				v.add(RuleDevice, t.Name, k, s.Device, "the table is not allowed on device %d, only on %s", s.Device, numbers(allowed))
			}
		}
	}
}

// columnsOnHost checks that the slices of a column_wise table lie on one host, if its constraints
// want that.
func (v *validator) columnsOnHost(i int, t *Table) {
	if v.index[i] < 0 || t.ShardingType != ColumnWise || !v.p.Tables[v.index[i]].Constraint.OneHost {
		return
	}
	per := v.p.Topology.PerHost()
	for _, s := range t.Shards[1:] {
		if first := t.Shards[0]; s.Device/per != first.Device/per {
			v.add(RuleDevice, t.Name, -1, -1, "its slices lie on hosts %d and %d, and its constraints want one host", first.Device/per, s.Device/per)
			return
		}
	}
}

func numbers(list []int) string {
	const most = 8
	return fmt.Sprint(list[:min(most, len(list))]) + words.More(" ", len(list)-most)
}

// widths checks whether the table may be cut, and that its slices are wide enough.
func (v *validator) widths(i int, t *Table) {
	least := problem.ColumnGranule
	if v.index[i] >= 0 {
		want := v.p.Tables[v.index[i]]
		want.Constraint.ShardingTypes = nil // permitted reports a cut that they forbid
		c := want.Constraint
		whole := len(t.Shards) == 1 && t.whole(t.Shards[0])
		switch {
		case c.NoSplit && !whole:
			v.add(RuleSplit, t.Name, -1, -1, "it may not be split, but its %d shards are not the whole table", len(t.Shards))
		case c.Colocation != "" && !whole:
			v.add(RuleSplit, t.Name, -1, -1, "it is of co-location %q and may not be split, but its %d shards are not the whole table", c.Colocation, len(t.Shards))
		case !whole:
			least = want.MinWidth()
		case c.Colocation != "" && t.Shards[0].Device == replicated:
			v.add(RuleColocation, t.Name, -1, -1, "it lies on every device, but it is of co-location %q, which lies on one", c.Colocation)
		}
	}
	for k, s := range t.Shards {
		width := s.Columns.Len()
		switch {
		case width%problem.ColumnGranule != 0:
			v.add(RuleWidth, t.Name, k, -1, "width %d is not a multiple of %d", width, problem.ColumnGranule)
		case width < int64(least):
			v.add(RuleWidth, t.Name, k, -1, "width %d is below the minimum of %d", width, least)
		case s.Columns.Start%problem.ColumnGranule != 0:
			v.add(RuleWidth, t.Name, k, -1, "first column %d is not a multiple of %d", s.Columns.Start, problem.ColumnGranule)
		}
	}
}

// colocations checks that the tables of a co-location are on one device.
func (v *validator) colocations() {
	for _, g := range v.p.Colocations() {
		if len(g.Tables) < 2 {
			continue
		}
		first := map[int]bool{}
		var apart []string
		for _, i := range g.Tables {
			if v.place[i] < 0 {
				continue
			}
			t := &v.pl.Tables[v.place[i]]
			for _, s := range t.Shards {
				if !first[s.Device] {
					first[s.Device] = true
					apart = append(apart, fmt.Sprintf("%q on %s", t.Name, where(s)))
				}
			}
		}
		if len(apart) > 1 {
			v.add(RuleColocation, "", -1, -1, "co-location %q lies on %d devices instead of one: %s",
				v.p.Tables[g.Tables[0]].Constraint.Colocation, len(apart), words.List(apart, mostNames))
		}
	}
}

// memory counts the bytes of every device again, and compares them with the device's
// memory and with the numbers that the plan states.
func (v *validator) memory() {
	t := &v.p.Topology
	counted := tally(v.pl, v.p, v.index, v.p.Topology.Devices)
	planned := counted
	if !v.foreign {
		planned = v.causes(counted)
	}
	follow := 0
	for i, want := range counted {
		budget, hostBudget := t.DeviceMemory(i)-want.Memory.Reserve, v.p.HostBudget(i)
		if used := want.Memory.Used(); used > budget {
			v.add(RuleMemory, "", -1, i, "it holds %d bytes (%v) in the %s, %d more than the %d that %v of memory less %v of reserve leave",
				int64(used), used, want.Phase.Words(), int64(used-budget), int64(budget), t.DeviceMemory(i), want.Memory.Reserve)
		}
		if used := want.Memory.Host; used > hostBudget && hostBudget > 0 {
			v.add(RuleMemory, "", -1, i, "its shards take %d bytes (%v) of host memory, %d more than the %d that a device may use, an even part of the %v of a host of %d devices",
				int64(used), used, int64(used-hostBudget), int64(hostBudget), t.HostMemoryOf(i/t.PerHost()), t.PerHost())
		}
		if v.foreign || i >= len(v.pl.Devices) {
			continue
		}
		stated, made := &v.pl.Devices[i], planned[i].Device
		if stated.Pools == 0 { // a plan of an earlier program does not state them
			want.Pools, made.Pools = 0, 0
		}
		has, then := sums(stated, stated.Memory), sums(&made, planned[i].step[stated.Phase])
		for k, sum := range sums(&want.Device, want.step[stated.Phase]) {
			switch {
			case has[k].value != then[k].value:
				v.add(RuleStated, "", -1, i, "the plan states %s of %d, its shards give %d", sum.name, has[k].value, then[k].value)
			case has[k].value != sum.value:
				follow++
			}
		}
	}
	if follow > 0 {
		v.add(RuleStated, "", -1, -1, "the changed tables explain %s between the sums that the plan states for its devices and those counted now", words.Plural(follow, "more difference"))
	}
}

// sync compares the bytes of the replicas' all-reduce with those counted again.
func (v *validator) sync() {
	if v.foreign || len(v.found) > 0 {
		return
	}
	if want := syncBytes(v.pl, v.p, v.index, v.p.Topology.Devices); v.pl.Sync.Bytes != want {
		v.add(RuleStated, "", -1, -1, "the plan states %d bytes in the all-reduce of the replicas, its shards give %d", int64(v.pl.Sync.Bytes), int64(want))
	}
}

// statement is a number that a plan states for a device.
type statement struct {
	name  string
	value int64
}

// sums returns what a plan states for a device, with the bytes of one phase.
func sums(d *Device, m problem.Memory) []statement {
	return []statement{
		{"shards", int64(d.Shards)},
		{"a dim sum", int64(d.DimSum)},
		{"weights bytes", int64(m.Weights)},
		{"optimizer bytes", int64(m.Optimizer)},
		{"inputs bytes", int64(m.Inputs)},
		{"permuted bytes", int64(m.Permuted)},
		{"outputs bytes", int64(m.Outputs)},
		{"gradients bytes", int64(m.Gradients)},
		{"activations bytes", int64(m.Activations)},
		{"indices bytes", int64(m.Indices)},
		{"cache bytes", int64(m.Cache)},
		{"allocator bytes", int64(m.Allocator)},
		{"host bytes", int64(m.Host)},
		{"received bytes", int64(m.Received)},
		{"reserve bytes", int64(m.Reserve)},
		{"pools bytes", int64(d.Pools)},
	}
}

// predicted checks that all times are finite and not negative, and that the cost is the
// largest device total.
func (v *validator) predicted() {
	most, hidden := unit.Millis(0), v.pl.Provenance.Hidden
	bad := false
	time := func(device int, what string, ms unit.Millis) {
		if !valid(ms) {
			bad = true
			v.add(RulePredicted, "", -1, device, "the predicted %s of %v ms is not a finite number of at least 0", what, float64(ms))
		}
	}
	for i, d := range v.pl.Devices {
		time(i, "forward", d.Forward)
		time(i, "forward communication", d.ForwardComm)
		time(i, "backward communication", d.BackwardComm)
		time(i, "backward", d.Backward)
		time(i, "hidden forward communication", d.ForwardHidden)
		time(i, "hidden backward communication", d.BackwardHidden)
		forward := hidden.Forward
		if hidden.Replicas {
			forward += d.Forward // the lookups of replicas are a part of it
		}
		if d.BackwardHidden > hidden.Backward || d.ForwardHidden > forward {
			v.add(RulePredicted, "", -1, i, "the hidden communication of %v ms forward and %v ms backward is more than the plan's provenance says is hidden", float64(d.ForwardHidden), float64(d.BackwardHidden))
		}
		most = max(most, d.Total())
	}
	time(-1, "cost", v.pl.Predicted)
	if !bad && !same(v.pl.Predicted, most) {
		v.add(RulePredicted, "", -1, -1, "the predicted cost of %v ms is not the largest device total, %v ms", float64(v.pl.Predicted), float64(most))
	}
}

// valid reports whether a time is finite and not negative.
func valid(ms unit.Millis) bool { return ms >= 0 && !math.IsInf(float64(ms), 1) }

// same reports whether two times agree, except for the rounding of sums.
func same(a, b unit.Millis) bool {
	return math.Abs(float64(a-b)) <= 1e-9*float64(max(a, b))
}
