package neuroshard

import (
	"cmp"
	"context"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// Alternative is another place for one table of a plan, or for all tables of its
// co-location, while every other table stays.
type Alternative struct {
	// ShardingType and Shards are what the plan would state of the table. Shards is nil if
	// no other place that was tried is allowed and fits.
	ShardingType problem.ShardingType
	Shards       []plan.Shard
	// Cost is the predicted cost of the plan with the table there; 0 without Shards.
	Cost unit.Millis
}

// mostTried is the largest number of devices that are tried for each slice of a table: those
// that would compute the least with the slice.
const mostTried = 32

// Alternatives returns the predicted cost of a plan by opt.Prices, and for each of its tables
// the cheapest other place. It tries the whole table on each device; each slice alone on each
// other device; equal slices of columns on the least busy devices; row_wise, table_row_wise on
// each host, and data_parallel; and the slices in another memory. If there are more than 32
// devices, it tries the 32 that would be the least busy.
//
// If opt says nothing of hidden exchanges, the costs leave out what the plan assumes to be
// hidden. If neither opt.Step nor p states a hierarchical exchange, the costs count that of the plan. p must be valid, and pl valid for p. opt.Search.ShardingTypes restricts the places as it
// restricts the search; empty allows all types that opt.Prices estimates. Alternatives fails
// with *Unpriceable if opt.Prices does not estimate the plan.
func Alternatives(ctx context.Context, pl *plan.Plan, p *problem.Problem, opt Options) (cost unit.Millis, all []Alternative, err error) {
	e, err := NewExplainer(ctx, pl, p, opt)
	if err != nil {
		return 0, nil, err
	}
	all = make([]Alternative, len(pl.Tables))
	for i := range all {
		all[i] = e.Alternative(i)
	}
	return e.Cost(), all, nil
}

// Explainer finds the alternatives of single tables of one plan, for callers that do not want
// those of all tables. It is for one goroutine.
type Explainer struct {
	plan    *plan.Plan
	problem *problem.Problem
	prices  PriceList
	// types are the sharding types allowed; all if it is empty.
	types []problem.ShardingType
	// scorer holds the placement, used the bytes of its shards on each device, and shared those that every
	// device takes because of them.
	scorer search.Scorer
	used   []usage
	shared [problem.Phases]unit.Bytes
	// budget is what the shards of device 0 may take.
	budget [problem.Phases]unit.Bytes
	cost   unit.Millis
	// together has the tables of each co-location, by table.
	together map[int][]int
}

// usage is the bytes that shards take on a device, in each phase, and in its host's memory.
type usage struct {
	device [problem.Phases]unit.Bytes
	host   unit.Bytes
}

// NewExplainer returns the Explainer of a plan. Options and errors are those of Alternatives.
func NewExplainer(ctx context.Context, pl *plan.Plan, p *problem.Problem, opt Options) (*Explainer, error) {
	p = pl.Decided(p)
	if opt.Step == nil && opt.Hidden == (plan.Hidden{}) {
		opt.Hidden = pl.Provenance.Hidden
	}
	if opt.Step == nil && !p.Hierarchy.On() && pl.Provenance.Hierarchy.On() {
		own := *p
		own.Hierarchy = pl.Provenance.Hierarchy
		p = &own
	}
	opt, priced, err := opt.exposed(p)
	if err != nil {
		return nil, err
	}
	prices, err := opt.list(ctx, priced)
	if err != nil {
		return nil, err
	}
	if err := priceable(pl, prices); err != nil {
		return nil, err
	}
	e := &Explainer{
		plan: pl, problem: inPlannedWidths(pl, p), prices: prices, types: opt.Search.ShardingTypes,
		scorer: prices.NewScorer(), used: make([]usage, p.Topology.Devices), budget: p.ShardBudget(0), together: map[int][]int{},
	}
	for i := range pl.Tables {
		e.place(i, &pl.Tables[i], +1)
		e.together[i] = []int{i}
	}
	for _, c := range p.Colocations() {
		for _, i := range c.Tables {
			e.together[i] = c.Tables
		}
	}
	e.cost = unit.Millis(e.scorer.Cost())
	return e, nil
}

// Cost returns the predicted cost of the plan.
func (e *Explainer) Cost() unit.Millis { return e.cost }

// Alternative returns the cheapest other place of table i of the plan.
func (e *Explainer) Alternative(i int) (best Alternative) {
	for _, k := range e.together[i] {
		e.place(k, &e.plan.Tables[k], -1)
	}
	for _, other := range e.places(i) {
		for _, k := range e.together[i] {
			e.place(k, e.like(k, &other), +1)
		}
		if cost := unit.Millis(e.scorer.Cost()); (best.Shards == nil || cost < best.Cost) && e.fits() {
			best = Alternative{other.ShardingType, other.Shards, cost}
		}
		for _, k := range e.together[i] {
			e.place(k, e.like(k, &other), -1)
		}
	}
	for _, k := range e.together[i] {
		e.place(k, &e.plan.Tables[k], +1)
	}
	return best
}

// like returns table k in the place of a table of its co-location, which are all whole.
func (e *Explainer) like(k int, to *plan.Table) *plan.Table {
	t := e.plan.Tables[k]
	if t.ShardingType, t.Shards = to.ShardingType, slices.Clone(to.Shards); to.ShardingType == problem.TableWise {
		t.Shards[0].Rows, t.Shards[0].Columns = problem.Range{End: t.Rows}, problem.Range{End: int64(t.Dim)}
	}
	return &t
}

// fits reports whether no device holds more than it may, or nothing if the engine does not run that.
func (e *Explainer) fits() bool {
	idle := !e.problem.Engine.Rules().NoIdle
	for d, u := range e.used {
		if u.host > e.problem.HostBudget(d) || u == (usage{}) && !idle {
			return false
		}
		more := e.problem.Topology.Usable(d) - e.problem.Topology.Usable(0)
		for f, budget := range e.budget {
			if u.device[f]+e.shared[f] > budget+more {
				return false
			}
		}
	}
	return true
}

// shard returns a shard of table i as the problem states it.
func (e *Explainer) shard(i int, t *plan.Table, s plan.Shard) problem.Shard {
	return problem.Shard{
		Table: i, Rows: s.Rows, Columns: s.Columns, ShardingType: t.ShardingType, Tier: s.Tier, Cache: s.Cache,
		Operator: t.Operator, Blocks: t.Blocks(&e.plan.Cluster),
	}
}

// place adds table i to the placement, or takes it away if sign is -1.
func (e *Explainer) place(i int, t *plan.Table, sign unit.Bytes) {
	for k, s := range t.Shards {
		shard := e.shard(i, t, s)
		memory := e.problem.ShardMemory(shard)
		first, last := s.Device, s.Device
		if s.Device < 0 {
			first, last = 0, len(e.used)-1
		}
		for d := first; d <= last; d++ {
			for f, bytes := range memory.Used() {
				e.used[d].device[f] += sign * bytes
			}
			e.used[d].host += sign * memory[problem.ForwardExchange].Host
		}
		for f, bytes := range e.problem.SharedMemory(shard).Used() {
			e.shared[f] += sign * bytes
		}
		if k > 0 && shard.Blocks == 0 && t.ShardingType.ByRows() && s.Columns == t.Shards[k-1].Columns {
			continue // all blocks of one slice are one item
		}
		item := e.scorer.Item(i, shard.Dim(), e.problem.Form(shard))
		if sign > 0 {
			e.scorer.Add(max(0, s.Device), item)
		} else {
			e.scorer.Remove(max(0, s.Device), item)
		}
	}
}

// held returns what the devices hold of a table: which of several equal slices changes nothing.
func held(t *plan.Table) []plan.Shard {
	all := slices.Clone(t.Shards)
	for i := range all {
		all[i].Rows, all[i].Columns = problem.Range{End: all[i].Rows.Len()}, problem.Range{End: all[i].Columns.Len()}
	}
	slices.SortFunc(all, func(a, b plan.Shard) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Rows.End, b.Rows.End), cmp.Compare(a.Columns.End, b.Columns.End),
			cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Cache, b.Cache))
	})
	return all
}

// allows reports whether table i may have a place, whatever the other tables take.
func (e *Explainer) allows(i int, t *plan.Table) bool {
	table, k, rules := &e.problem.Tables[i], t.ShardingType, e.problem.Engine.Rules()
	c, per := &table.Constraint, e.problem.Topology.PerHost()
	if !problem.Permitted(e.types, k) || !table.Permits(k) || c.NoSplit && (k.ByColumns() || k.ByRows()) || k.Joint() && len(c.Devices) > 0 {
		return false
	}
	for _, s := range t.Shards {
		if !e.prices.Supports(e.problem.Form(e.shard(i, t, s))) || !c.PermitsCache(s.Tier, s.Cache) || rules.OnlyHBM && s.Tier != plan.HBM {
			return false
		}
	}
	return k != problem.ColumnWise || spread(t.Shards, c.OneHost, rules.OneSlice, per)
}

// spread reports whether slices lie on devices of one host, if they must, and each on a device of
// its own, if they must.
func spread(slices []plan.Shard, oneHost, oneSlice bool, perHost int) bool {
	taken := map[int]bool{}
	for _, s := range slices {
		if oneHost && s.Device/perHost != slices[0].Device/perHost || oneSlice && taken[s.Device] {
			return false
		}
		taken[s.Device] = true
	}
	return true
}

// places returns all other places to try for table i.
func (e *Explainer) places(i int) (all []plan.Table) {
	table, now := &e.problem.Tables[i], e.plan.Tables[i]
	mine := held(&now)
	add := func(k problem.ShardingType, shards []plan.Shard) {
		other := now
		other.ShardingType, other.Shards = k, shards
		if e.allows(i, &other) && (k != now.ShardingType || !slices.Equal(held(&other), mine)) {
			all = append(all, other)
		}
	}
	whole := plan.Shard{Rows: problem.Range{End: table.Rows}, Columns: problem.Range{End: int64(table.Dim)}, Tier: plan.HBM}
	hbm := whole
	if !table.Constraint.PermitsTier(plan.HBM) {
		whole.Tier, whole.Cache = now.Shards[0].Tier, now.Shards[0].Cache
	}
	for _, d := range e.devices(i, whole) {
		whole.Device = d
		add(problem.TableWise, []plan.Shard{whole})
	}
	if len(e.together[i]) > 1 {
		return all
	}
	if now.ShardingType == problem.ColumnWise {
		for k, s := range now.Shards {
			for _, d := range e.devices(i, s) {
				shards := slices.Clone(now.Shards)
				shards[k].Device = d
				add(problem.ColumnWise, shards)
			}
		}
	}
	for _, shards := range e.cuts(i, whole) {
		add(problem.ColumnWise, shards)
	}
	hbm.Device = -1
	add(problem.DataParallel, []plan.Shard{hbm})
	e.byRows(table, add)
	for _, tier := range []problem.Tier{plan.HBM, plan.Host} {
		if now.ShardingType.Joint() || e.problem.Topology.MostHostMemory() == 0 {
			continue
		}
		shards := slices.Clone(now.Shards)
		for k := range shards {
			shards[k].Tier, shards[k].Cache = tier, 0
		}
		add(now.ShardingType, shards)
	}
	return all
}

// byRows adds the places of a table that is cut by rows: over all devices, and over those of a host.
func (e *Explainer) byRows(table *problem.Table, add func(problem.ShardingType, []plan.Shard)) {
	n, per := len(e.used), e.problem.Topology.PerHost()
	if table.CutsByRows(n) {
		add(problem.RowWise, blocks(table, 0, n))
	}
	for first := 0; per < n && table.CutsByRows(per) && first+per <= n && first/per < mostTried; first += per {
		add(problem.TableRowWise, blocks(table, first, per))
	}
}

// cuts returns table i in 2, 4, 8, ... equal slices on the devices that would be the least busy.
func (e *Explainer) cuts(i int, whole plan.Shard) (all [][]plan.Shard) {
	t, per := &e.problem.Tables[i], e.problem.Topology.PerHost()
	for _, width := range t.EqualWidths() {
		n := t.Dim / width
		if n < 2 || n&(n-1) != 0 && width != t.OnlyWidth {
			continue
		}
		s := whole
		s.Columns.End = int64(width)
		devices := e.devices(i, s)
		if t.Constraint.OneHost && len(devices) > 0 {
			host := devices[0] / per
			devices = slices.DeleteFunc(devices, func(d int) bool { return d/per != host })
		}
		if len(devices) < n {
			break
		}
		var shards []plan.Shard
		for k := range n {
			s.Columns, s.Device = problem.Range{Start: int64(k * width), End: int64((k + 1) * width)}, devices[k]
			shards = append(shards, s)
		}
		all = append(all, shards)
	}
	return all
}

// devices returns the devices to try for a slice of table i, those first that would compute
// the least with the slice.
func (e *Explainer) devices(i int, s plan.Shard) []int {
	allowed := e.problem.Tables[i].Constraint.Devices
	var order []int32
	for d := range e.used {
		if len(allowed) == 0 || slices.Contains(allowed, d) {
			order = append(order, int32(d))
		}
	}
	form := problem.Form{Operator: e.plan.Tables[i].Operator}
	if s.Tier.OnHost() {
		form.Tier, form.Cache = s.Tier, s.Cache
	}
	busy := make([]float64, len(order))
	e.scorer.ComputeWith(e.scorer.Item(i, int(s.Columns.Len()), form), order, busy)
	devices := make([]int, len(order))
	for k := range devices {
		devices[k] = k
	}
	slices.SortStableFunc(devices, func(a, b int) int { return cmp.Compare(busy[a], busy[b]) })
	for k := range devices {
		devices[k] = int(order[devices[k]])
	}
	return devices[:min(mostTried, len(devices))]
}

// blocks returns the table cut by rows for n devices from first on.
func blocks(t *problem.Table, first, n int) []plan.Shard {
	var shards []plan.Shard
	rows := t.BlockRows(n)
	for k := range int64(n) {
		if start := k * rows; start < t.Rows {
			shards = append(shards, plan.Shard{
				Rows: problem.Range{Start: start, End: min(t.Rows, start+rows)}, Columns: problem.Range{End: int64(t.Dim)},
				Device: first + int(k), Tier: plan.HBM,
			})
		}
	}
	return shards
}
