package neuroshard

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// alternatives.go explains the place of a table: it tries other places for the table, while
// every other table stays, and keeps the cheapest place that fits.

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
	mover *mover
	cost  unit.Millis
	// together has the tables of each co-location of several tables, by table.
	together map[int][]int
}

// NewExplainer returns the Explainer of a plan. Options and errors are those of Alternatives.
func NewExplainer(ctx context.Context, pl *plan.Plan, p *problem.Problem, opt Options) (*Explainer, error) {
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
	m := &mover{plan: pl, problem: inPlannedWidths(pl, p), prices: prices, types: opt.Search.ShardingTypes, scorer: prices.NewScorer(), used: make([]usage, p.Topology.Devices)}
	for d := range m.used {
		m.limits = append(m.limits, usage{p.ShardBudget(0) - p.Topology.Usable(0) + p.Topology.Usable(d), p.HostBudget(d)})
	}
	for i := range pl.Tables {
		m.place(i, pl.Tables[i].ShardingType, pl.Tables[i].Shards, +1)
	}
	e := &Explainer{mover: m, cost: unit.Millis(m.scorer.Cost()), together: map[int][]int{}}
	for _, c := range p.Colocations() {
		if len(c.Tables) < 2 {
			continue
		}
		for _, i := range c.Tables {
			e.together[i] = c.Tables
		}
	}
	return e, nil
}

// Cost returns the predicted cost of the plan.
func (e *Explainer) Cost() unit.Millis { return e.cost }

// Alternative returns the cheapest other place of table i of the plan.
func (e *Explainer) Alternative(i int) Alternative {
	if tables := e.together[i]; len(tables) > 1 {
		return e.mover.cheapest(i, tables, e.mover.moves(i))
	}
	return e.mover.cheapest(i, []int{i}, e.mover.places(i))
}

// mover is a placement in which single tables change places.
type mover struct {
	plan    *plan.Plan
	problem *problem.Problem
	prices  PriceList
	// types are the sharding types allowed; all if it is empty.
	types  []problem.ShardingType
	scorer search.Scorer
	// used are the bytes of the shards on each device, and over is the number of devices that
	// hold more than their limits allow.
	used, limits []usage
	over         int
}

// usage is the bytes that shards take on a device, and in its host's memory.
type usage struct{ device, host unit.Bytes }

// exceeds returns 1 if a device holds more than it may, else 0.
func (m *mover) exceeds(d int) int {
	if u, l := &m.used[d], &m.limits[d]; u.device > l.device || u.host > l.host {
		return 1
	}
	return 0
}

// place adds the shards of table i to the placement, or takes them away if sign is -1.
func (m *mover) place(i int, shardingType problem.ShardingType, shards []plan.Shard, sign unit.Bytes) {
	blocks := m.blocks(i, shardingType, shards)
	for k, s := range shards {
		shard := problem.Shard{Table: i, Rows: s.Rows, Columns: s.Columns, ShardingType: shardingType, Tier: tier(s), Cache: s.Cache, Blocks: blocks}
		memory := m.problem.ShardMemory(shard)
		m.receive(sign * m.problem.ReceivedOf(shard))
		first, last := s.Device, s.Device
		if s.Device < 0 {
			first, last = 0, len(m.used)-1
		}
		for d := first; d <= last; d++ {
			u := &m.used[d]
			was := m.exceeds(d)
			u.device += sign * memory.Tables()
			u.host += sign * memory.Host
			m.over += m.exceeds(d) - was
		}
		// Blocks of one slice are one item.
		if k > 0 && blocks == 0 && shardingType.ByRows() && s.Columns == shards[k-1].Columns {
			continue
		}
		form := formOf(shardingType, s)
		if blocks > 0 {
			form = problem.Form{Blocks: blocks}
		}
		item := m.scorer.Item(i, int(s.Columns.Len()), m.numbered(i, form))
		if sign > 0 {
			m.scorer.Add(max(0, s.Device), item)
		} else {
			m.scorer.Remove(max(0, s.Device), item)
		}
	}
}

// receive adds bytes that every device receives.
func (m *mover) receive(bytes unit.Bytes) {
	if bytes == 0 {
		return
	}
	for d := range m.used {
		u := &m.used[d]
		was := m.exceeds(d)
		u.device += bytes
		m.over += m.exceeds(d) - was
	}
}

// blocks returns the number of blocks of rows of table i in a place, if a plan chose their devices.
func (m *mover) blocks(i int, shardingType problem.ShardingType, shards []plan.Shard) int {
	there := plan.Table{Rows: m.problem.Tables[i].Rows, Dim: m.problem.Tables[i].Dim, ShardingType: shardingType, Shards: shards}
	return there.Blocks(&m.plan.Cluster)
}

// tier returns the tier of a shard as a problem.Shard states it: empty for HBM.
func tier(s plan.Shard) problem.Tier {
	if s.Tier == plan.HBM {
		return ""
	}
	return s.Tier
}

// formOf returns the form of a table's shard.
func formOf(shardingType problem.ShardingType, s plan.Shard) problem.Form {
	switch shardingType {
	case problem.RowWise, problem.DataParallel:
		return problem.Form{ShardingType: shardingType}
	case problem.TableRowWise, problem.Grid:
		return problem.Form{ShardingType: problem.TableRowWise}
	}
	return problem.Form{Tier: tier(s), Cache: s.Cache}
}

// numbered returns the form with the number of the operator that table i has in the plan. The
// table keeps this number in each place.
func (m *mover) numbered(i int, form problem.Form) problem.Form {
	form.Operator = m.plan.Tables[i].Operator
	return form
}

// place is a place of one table.
type place struct {
	shardingType problem.ShardingType
	shards       []plan.Shard
}

// same reports whether each device holds as much of the table in both places. Which of several
// equal slices it holds changes nothing.
func (p place) same(other place) bool {
	return p.shardingType == other.shardingType && slices.Equal(p.held(), other.held())
}

// held returns what the devices hold of the table, in order, without where the shards start.
func (p place) held() []plan.Shard {
	all := slices.Clone(p.shards)
	for i := range all {
		all[i].Rows, all[i].Columns = problem.Range{End: all[i].Rows.Len()}, problem.Range{End: all[i].Columns.Len()}
	}
	slices.SortFunc(all, func(a, b plan.Shard) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Rows.End, b.Rows.End), cmp.Compare(a.Columns.End, b.Columns.End),
			cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Cache, b.Cache))
	})
	return all
}

// cheapest tries places of table i, each for all of the tables, and returns the cheapest that fits
// and is not the plan's, as table i would have it.
func (m *mover) cheapest(i int, tables []int, places iter.Seq[place]) Alternative {
	for _, i := range tables {
		m.place(i, m.plan.Tables[i].ShardingType, m.plan.Tables[i].Shards, -1)
	}
	var best Alternative
	now := place{m.plan.Tables[i].ShardingType, m.plan.Tables[i].Shards}
	for other := range places {
		if now.same(other) {
			continue
		}
		for _, i := range tables {
			m.place(i, other.shardingType, m.resized(i, other), +1)
		}
		if m.over == 0 {
			if cost := unit.Millis(m.scorer.Cost()); best.Shards == nil || cost < best.Cost {
				best = Alternative{ShardingType: other.shardingType, Shards: other.shards, Cost: cost}
			}
		}
		for _, i := range tables {
			m.place(i, other.shardingType, m.resized(i, other), -1)
		}
	}
	for _, i := range tables {
		m.place(i, m.plan.Tables[i].ShardingType, m.plan.Tables[i].Shards, +1)
	}
	return best
}

// resized returns the shards of a place for table i: whole tables of a co-location have
// different shapes.
func (m *mover) resized(i int, other place) []plan.Shard {
	if other.shardingType != problem.TableWise {
		return other.shards
	}
	s := other.shards[0]
	whole := m.problem.Whole(i)
	s.Rows, s.Columns = whole.Rows, whole.Columns
	return []plan.Shard{s}
}

// allows reports whether table i may have the sharding type.
func (m *mover) allows(i int, k problem.ShardingType) bool {
	t := &m.problem.Tables[i]
	if !problem.Permitted(m.types, k) || !t.Permits(k) {
		return false
	}
	cut := k.ByColumns() || k.ByRows()
	switch pinned := len(t.Constraint.Devices); {
	case k.Joint() && 0 < pinned && pinned < len(m.used), cut && t.Constraint.NoSplit:
		return false
	}
	return m.prices.Supports(formOf(k, plan.Shard{}))
}

// devices returns the devices to try for a slice of table i, those first that would compute
// the least with the slice.
func (m *mover) devices(i, width int, form problem.Form) []int {
	allowed := m.problem.Tables[i].Constraint.Devices
	var order []int32
	for d := range m.used {
		if len(allowed) == 0 || slices.Contains(allowed, d) {
			order = append(order, int32(d))
		}
	}
	busy := make([]float64, len(order))
	m.scorer.ComputeWith(m.scorer.Item(i, width, m.numbered(i, form)), order, busy)
	var devices []int // the least busy so far, in order
	least := make([]float64, 0, mostTried+1)
	for k, d := range order {
		if len(least) == mostTried && busy[k] >= least[mostTried-1] {
			continue
		}
		at, _ := slices.BinarySearchFunc(least, busy[k], func(a, b float64) int {
			if a <= b { // behind equal ones
				return -1
			}
			return 1
		})
		least, devices = slices.Insert(least, at, busy[k]), slices.Insert(devices, at, int(d))
		least, devices = least[:min(mostTried, len(least))], devices[:min(mostTried, len(devices))]
	}
	return devices
}

// moves yields the other devices for a whole table.
func (m *mover) moves(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		whole := m.problem.Whole(i)
		if !m.allows(i, problem.TableWise) {
			return
		}
		s := plan.Shard{Rows: whole.Rows, Columns: whole.Columns}
		s.Tier, s.Cache = m.memory(i)
		for _, d := range m.devices(i, whole.Dim(), formOf(problem.TableWise, s)) {
			s.Device = d
			if !yield(place{problem.TableWise, []plan.Shard{s}}) {
				return
			}
		}
	}
}

// permits reports whether the constraint of table i allows the memory of all shards.
func (m *mover) permits(i int, other place) bool {
	c := &m.problem.Tables[i].Constraint
	if per := m.problem.Topology.PerHost(); c.OneHost && other.shardingType == problem.ColumnWise &&
		slices.ContainsFunc(other.shards, func(s plan.Shard) bool { return s.Device/per != other.shards[0].Device/per }) {
		return false
	}
	return !slices.ContainsFunc(other.shards, func(s plan.Shard) bool { return !c.PermitsCache(s.Tier, s.Cache) })
}

// memory returns the memory of a table that is placed anew: HBM, or that of its first shard if its
// constraint does not allow HBM.
func (m *mover) memory(i int) (tier problem.Tier, cache float64) {
	if m.problem.Tables[i].Constraint.PermitsTier(plan.HBM) {
		return plan.HBM, 0
	}
	s := m.plan.Tables[i].Shards[0]
	return s.Tier, s.Cache
}

// places yields all places to try for table i.
func (m *mover) places(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		for _, some := range []iter.Seq[place]{m.moves(i), m.slices(i), m.cuts(i), m.joint(i), m.hosts(i), m.memories(i)} {
			for other := range some {
				if m.permits(i, other) && !yield(other) {
					return
				}
			}
		}
	}
}

// slices yields each slice of a column_wise table on each other device.
func (m *mover) slices(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		t := &m.plan.Tables[i]
		if t.ShardingType != problem.ColumnWise || !m.allows(i, problem.ColumnWise) {
			return
		}
		for k, s := range t.Shards {
			for _, d := range m.devices(i, int(s.Columns.Len()), formOf(t.ShardingType, s)) {
				if d == s.Device || m.problem.Engine.Rules().OneSlice && slices.ContainsFunc(t.Shards, func(o plan.Shard) bool { return o.Device == d }) {
					continue
				}
				shards := slices.Clone(t.Shards)
				shards[k].Device = d
				if !yield(place{problem.ColumnWise, shards}) {
					return
				}
			}
		}
	}
}

// cuts yields the table in 2, 4, 8, ... equal slices on the devices that would be the least
// busy.
func (m *mover) cuts(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		t := &m.problem.Tables[i]
		if !m.allows(i, problem.ColumnWise) {
			return
		}
		for _, width := range t.EqualWidths() {
			n := t.Dim / width
			if n < 2 || n&(n-1) != 0 && width != t.OnlyWidth {
				continue
			}
			tier, cache := m.memory(i)
			devices := m.devices(i, t.Dim/n, formOf(problem.ColumnWise, plan.Shard{Tier: tier, Cache: cache}))
			if t.Constraint.OneHost && len(devices) > 0 {
				per := m.problem.Topology.PerHost()
				host := devices[0] / per
				devices = slices.DeleteFunc(devices, func(d int) bool { return d/per != host })
			}
			if len(devices) < n {
				return
			}
			shards := make([]plan.Shard, n)
			whole := m.problem.Whole(i)
			for k := range shards {
				start := int64(k * t.Dim / n)
				shards[k] = plan.Shard{Rows: whole.Rows, Columns: problem.Range{Start: start, End: start + int64(t.Dim/n)}, Device: devices[k], Tier: tier, Cache: cache}
			}
			if !yield(place{problem.ColumnWise, shards}) {
				return
			}
		}
	}
}

// joint yields the forms that all devices hold together.
func (m *mover) joint(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		t, now, n := &m.problem.Tables[i], m.plan.Tables[i].ShardingType, len(m.used)
		if now != problem.DataParallel && m.allows(i, problem.DataParallel) {
			whole := m.problem.Whole(i)
			if !yield(place{problem.DataParallel, []plan.Shard{{Rows: whole.Rows, Columns: whole.Columns, Device: -1, Tier: plan.HBM}}}) {
				return
			}
		}
		everywhere := now == problem.RowWise && len(m.plan.Tables[i].Shards) == n
		if !everywhere && t.CutsByRows(n) && m.allows(i, problem.RowWise) {
			yield(place{problem.RowWise, blocks(t, 0, n)})
		}
	}
}

// hosts yields the table in blocks of rows on each other host.
func (m *mover) hosts(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		t, now, n := &m.problem.Tables[i], &m.plan.Tables[i], len(m.used)
		per := m.problem.Topology.PerHost()
		if per == n || !t.CutsByRows(per) || !m.allows(i, problem.TableRowWise) {
			return
		}
		for first := 0; first+per <= n && first/per < mostTried; first += per {
			there := now.ShardingType == problem.TableRowWise && now.Shards[0].Device == first
			if !there && !yield(place{problem.TableRowWise, blocks(t, first, per)}) {
				return
			}
		}
	}
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

// memories yields the table's slices where they are, all in HBM or all in host memory.
func (m *mover) memories(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
		t := &m.plan.Tables[i]
		if t.ShardingType.Joint() || m.problem.Topology.MostHostMemory() == 0 || !m.allows(i, t.ShardingType) {
			return
		}
		for _, tier := range []problem.Tier{plan.HBM, plan.Host} {
			if tier == plan.Host && (m.problem.Engine.Rules().OnlyHBM || !m.prices.Supports(problem.Form{Tier: tier})) {
				continue
			}
			shards := slices.Clone(t.Shards)
			for k := range shards {
				shards[k].Tier, shards[k].Cache = tier, 0
			}
			if !slices.Equal(shards, t.Shards) && !yield(place{t.ShardingType, shards}) {
				return
			}
		}
	}
}
