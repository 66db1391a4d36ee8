package plan

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Changes are the differences between two plans.
type Changes struct {
	// Cost is the predicted cost; nil for a plan without predictions (Plan.Priced).
	Cost Change[*unit.Millis] `json:"cost_ms"`
	// Hidden is nil if both plans assume that the engine hides the same of the exchanges. If it
	// is not nil, Cost compares costs that leave out different times.
	Hidden *Change[Hidden] `json:"hidden,omitempty"`
	// Hierarchy is nil if the costs of both plans count the same exchange. If it is not nil, Cost
	// compares costs of different exchanges.
	Hierarchy *Change[problem.Hierarchy] `json:"hierarchy,omitempty"`
	// Cluster is nil if both plans are for the same cluster and batch.
	Cluster *Change[Cluster] `json:"cluster,omitempty"`
	// Devices has an entry for every device that one of the plans has.
	Devices []DeviceChange `json:"devices"`
	// Tables are the tables of both plans that are cut or placed in another way,
	// in the order of the first plan; Unchanged is the number of the others.
	Tables    []TableChange `json:"tables"`
	Unchanged int           `json:"unchanged"`
	// ShardingTypes counts the tables of each sharding type that either plan has, in the order of the
	// documentation; nil where both plans are Plain.
	ShardingTypes []ShardingTypeChange `json:"sharding_types,omitempty"`
	// OnlyBefore and OnlyAfter name the tables that only one of the plans has,
	// in its order.
	OnlyBefore []string `json:"only_before"`
	OnlyAfter  []string `json:"only_after"`
	// Transfer is the bytes that devices must send each other for the change, or nil if they are
	// not known; NoTransfer then says why.
	Transfer   *Transfer `json:"transfer"`
	NoTransfer string    `json:"no_transfer,omitempty"`
}

// Change is something in both plans.
type Change[T any] struct {
	Before T `json:"before"`
	After  T `json:"after"`
}

// ShardingTypeChange is the number of tables of a sharding type in both plans.
type ShardingTypeChange struct {
	ShardingType ShardingType `json:"sharding_type"`
	Before       int          `json:"before"`
	After        int          `json:"after"`
}

// DeviceChange is one device in both plans; nil for a plan whose cluster does not have the
// device.
type DeviceChange struct {
	Device int           `json:"device"`
	Before *DeviceTotals `json:"before"`
	After  *DeviceTotals `json:"after"`
}

// DeviceTotals is a summary of a device.
type DeviceTotals struct {
	Shards int `json:"shards"`
	DimSum int `json:"dim_sum"`
	// Memory is the bytes of the device that tables and their buffers take, without the
	// reserve; Cache is the part of Memory that caches rows of host memory.
	Memory unit.Bytes `json:"memory_bytes"`
	Cache  unit.Bytes `json:"cache_bytes,omitempty"`
	// Host is the bytes of host memory that tables take.
	Host unit.Bytes `json:"host_bytes,omitempty"`
	// Total is 0 if no cost model predicted the plan's times.
	Total unit.Millis `json:"total_ms"`
}

// TableChange is the difference of a table that both plans have. At least one of the five
// flags is set, or Module is not nil.
type TableChange struct {
	Name   string     `json:"name"`
	Before TableState `json:"before"`
	After  TableState `json:"after"`
	// Resized: rows or dim differ.
	Resized bool `json:"resized"`
	// Module is nil if both plans have the table in the same module, or if one of them
	// does not state the module.
	Module *Change[string] `json:"module,omitempty"`
	// Regrouped: the number of the table's operator differs.
	Regrouped bool `json:"operator_changed,omitempty"`
	// Retyped: the sharding type differs.
	Retyped bool `json:"sharding_type_changed"`
	// Recut: the table is cut into other rectangles.
	Recut bool `json:"recut"`
	// Moved: parts change their device, memory tier or cache. Transfer lists the rectangles that
	// devices receive.
	Moved bool `json:"moved"`
	// Bytes is what devices receive of the table, as Transfer states it.
	Bytes unit.Bytes `json:"-"`
}

// TableState is a summary of a table in one plan.
type TableState struct {
	Rows         int64        `json:"rows"`
	Dim          int          `json:"dim"`
	ShardingType ShardingType `json:"sharding_type"`
	Shards       int          `json:"shards"`
	// Devices are the devices that hold shards, ascending and each once; -1 means all
	// devices.
	Devices []int `json:"devices"`
	// Tiers are the tiers of the shards, each once; nil if all shards lie in HBM. Caches
	// are the cache shares of the shards that state one, ascending and each once.
	Tiers  []Tier    `json:"tiers,omitempty"`
	Caches []float64 `json:"cache_shares,omitempty"`
	// Operator is Table.Operator.
	Operator problem.Operator `json:"operator,omitempty"`
}

// Diff returns what changes from plan before to plan after. Tables are matched
// by name. Both plans must be placements (Validate).
func Diff(before, after *Plan) Changes {
	c := Changes{
		Cost:       Change[*unit.Millis]{cost(before), cost(after)},
		Devices:    devices(before, after),
		Tables:     []TableChange{},
		OnlyBefore: []string{},
		OnlyAfter:  []string{},
	}
	if !before.Plain() || !after.Plain() {
		a, b := before.ShardingTypes(), after.ShardingTypes()
		for _, shardingType := range shardingTypes {
			if a[shardingType]+b[shardingType] > 0 {
				c.ShardingTypes = append(c.ShardingTypes, ShardingTypeChange{shardingType, a[shardingType], b[shardingType]})
			}
		}
	}
	if a, b := before.Provenance.Hidden, after.Provenance.Hidden; a != b {
		c.Hidden = &Change[Hidden]{a, b}
	}
	if a, b := before.Provenance.Hierarchy, after.Provenance.Hierarchy; a != b {
		c.Hierarchy = &Change[problem.Hierarchy]{a, b}
	}
	if !before.Cluster.Equal(after.Cluster) {
		c.Cluster = &Change[Cluster]{before.Cluster, after.Cluster}
	}
	received := map[string]unit.Bytes{}
	if transfer, err := NewTransfer(before, after); err != nil {
		c.NoTransfer = err.Error()
	} else {
		c.Transfer = transfer
		for i := range transfer.Tables {
			received[transfer.Tables[i].Name] = transfer.Tables[i].Bytes
		}
	}
	later := byName(after)
	for i := range before.Tables {
		t := &before.Tables[i]
		other, ok := later[t.Name]
		if !ok {
			c.OnlyBefore = append(c.OnlyBefore, t.Name)
			continue
		}
		if change, changed := compareTables(t, other, received[t.Name]); changed {
			c.Tables = append(c.Tables, change)
		} else {
			c.Unchanged++
		}
	}
	earlier := byName(before)
	for i := range after.Tables {
		if name := after.Tables[i].Name; earlier[name] == nil {
			c.OnlyAfter = append(c.OnlyAfter, name)
		}
	}
	return c
}

// cost returns the predicted cost; nil if no cost model predicted it.
func cost(pl *Plan) *unit.Millis {
	if !pl.Priced() {
		return nil
	}
	predicted := pl.Predicted
	return &predicted
}

func byName(pl *Plan) map[string]*Table {
	tables := make(map[string]*Table, len(pl.Tables))
	for i := range pl.Tables {
		tables[pl.Tables[i].Name] = &pl.Tables[i]
	}
	return tables
}

func devices(before, after *Plan) []DeviceChange {
	list := make([]DeviceChange, max(len(before.Devices), len(after.Devices)))
	for i := range list {
		list[i] = DeviceChange{i, totals(before, i), totals(after, i)}
	}
	return list
}

func totals(pl *Plan, i int) *DeviceTotals {
	if i >= len(pl.Devices) {
		return nil
	}
	d := pl.Devices[i]
	return &DeviceTotals{d.Shards, d.DimSum, d.Memory.Used(), d.Memory.Cache, d.Memory.Host, d.Total()}
}

// compareTables returns the change from table a to table b, and whether there is one. Devices receive some
// bytes by it.
func compareTables(a, b *Table, received unit.Bytes) (TableChange, bool) {
	c := TableChange{Name: a.Name, Before: state(a), After: state(b), Bytes: received}
	c.Resized = a.Rows != b.Rows || a.Dim != b.Dim
	c.Retyped = a.ShardingType != b.ShardingType
	c.Regrouped = a.Operator != b.Operator
	x := slices.SortedFunc(slices.Values(a.Shards), compareShards)
	y := slices.SortedFunc(slices.Values(b.Shards), compareShards)
	c.Recut = !slices.EqualFunc(x, y, func(s, t Shard) bool { return s.Rows == t.Rows && s.Columns == t.Columns })
	c.Moved = received > 0 || !c.Recut && !slices.Equal(x, y) || !c.Before.liesAs(c.After)
	if a.Module != b.Module && a.Module != "" && b.Module != "" {
		c.Module = &Change[string]{a.Module, b.Module}
	}
	return c, c.Resized || c.Retyped || c.Regrouped || c.Recut || c.Moved || c.Module != nil
}

// liesAs reports whether shards lie on the same devices, in the same tiers, with the same caches.
func (s TableState) liesAs(o TableState) bool {
	return slices.Equal(s.Devices, o.Devices) && slices.Equal(s.Tiers, o.Tiers) && slices.Equal(s.Caches, o.Caches)
}

func state(t *Table) TableState {
	s := TableState{Rows: t.Rows, Dim: t.Dim, ShardingType: t.ShardingType, Shards: len(t.Shards), Devices: Holders(t.Shards), Operator: t.Operator}
	hosted := func(s Shard) bool { return s.Tier != HBM }
	if slices.ContainsFunc(t.Shards, hosted) {
		for _, shard := range t.Shards {
			s.Tiers = append(s.Tiers, shard.Tier)
			if shard.Cache > 0 {
				s.Caches = append(s.Caches, shard.Cache)
			}
		}
		slices.Sort(s.Tiers)
		s.Tiers = slices.Compact(s.Tiers)
		slices.Sort(s.Caches)
		s.Caches = slices.Compact(s.Caches)
	}
	return s
}

func meet(a, b problem.Range) problem.Range {
	return problem.Range{Start: max(a.Start, b.Start), End: min(a.End, b.End)}
}
