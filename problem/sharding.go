package problem

import (
	"fmt"
	"slices"
	"strings"
)

// ShardingType is how a table is cut and placed, in TorchRec's words.
type ShardingType string

// The sharding types.
//
//	table_wise      whole, on one device
//	column_wise     slices of columns, each with all rows, on a device each
//	row_wise        equal blocks of rows, one on every device
//	table_row_wise  equal blocks of rows, one on every device of one host
//	grid            slices of columns, each of them table_row_wise on a host
//	data_parallel   whole, on every device
//
// If the engine allows it (EngineRules.AnyDevices), the blocks of row_wise and grid may lie on
// devices that the plan chooses: Form.Blocks.
//
// Tables of PoolingNone are never table_row_wise or grid (Table.Permits).
//
// docs/SHARDING.md draws what devices hold and what they send each other under each type.
const (
	TableWise    ShardingType = "table_wise"
	ColumnWise   ShardingType = "column_wise"
	RowWise      ShardingType = "row_wise"
	TableRowWise ShardingType = "table_row_wise"
	Grid         ShardingType = "grid"
	DataParallel ShardingType = "data_parallel"
)

// Span says how many devices hold a slice together.
type Span uint8

// The spans. With AllDevices, each device holds an equal part, or the same replica.
const (
	// OneDevice is a single device.
	OneDevice Span = iota
	// OneHost is all devices of one host.
	OneHost
	// AllDevices is all devices of the cluster.
	AllDevices
)

// shardingTypes describes each sharding type once, in the order of the documentation.
var shardingTypes = []shardingTypeFacts{
	{name: TableWise},
	{name: ColumnWise, byColumns: true},
	{name: RowWise, held: RowWise, span: AllDevices, byRows: true, class: ClassBlocks},
	{name: TableRowWise, held: TableRowWise, span: OneHost, byRows: true, class: ClassHostBlocks},
	{name: Grid, held: TableRowWise, span: OneHost, byRows: true, byColumns: true, class: ClassHostBlocks},
	{name: DataParallel, held: DataParallel, span: AllDevices, class: ClassReplicas},
}

// onOneDevice describes an empty or unknown sharding type.
var onOneDevice shardingTypeFacts

// shardingTypeFacts describes how tables of one sharding type are cut and held. The zero
// value describes a slice with all rows on one device.
type shardingTypeFacts struct {
	name ShardingType
	// held is the sharding type of the slices' Form; empty for a slice on one device.
	held ShardingType
	// span says how many devices hold a slice, and byRows that each of them holds a block
	// of the slice's rows.
	span   Span
	byRows bool
	// byColumns says that the table may have several slices.
	byColumns bool
	// class is the operator class of shards in device memory.
	class OperatorClass
}

// facts returns the description of the sharding type; the zero value for an empty or
// unknown one. The description must not be modified.
func (k ShardingType) facts() *shardingTypeFacts {
	for i := range shardingTypes {
		if shardingTypes[i].name == k {
			return &shardingTypes[i]
		}
	}
	return &onOneDevice
}

// ShardingTypes returns all sharding types, in the order of the documentation. The slice
// is the caller's.
func ShardingTypes() []ShardingType {
	names := make([]ShardingType, len(shardingTypes))
	for i := range shardingTypes {
		names[i] = shardingTypes[i].name
	}
	return names
}

// ParseShardingType reads a sharding type's name.
func ParseShardingType(s string) (ShardingType, error) {
	if k := ShardingType(s); slices.Contains(ShardingTypes(), k) {
		return k, nil
	}
	return "", fmt.Errorf("sharding type %q is unknown: choose one of %s", s, joined(ShardingTypes()))
}

// Permitted reports whether a list of sharding types allows the given one: the list is
// empty, or holds the type, or holds ColumnWise for TableWise, or Grid for TableRowWise.
func Permitted(list []ShardingType, k ShardingType) bool {
	return len(list) == 0 || slices.Contains(list, k) ||
		k == TableWise && slices.Contains(list, ColumnWise) || k == TableRowWise && slices.Contains(list, Grid)
}

// Known reports whether the sharding type is one of ShardingTypes.
func (k ShardingType) Known() bool { return k != "" && k.facts().name == k }

// ByRows reports whether shards of the sharding type hold a part of the rows.
func (k ShardingType) ByRows() bool { return k.facts().byRows }

// ByColumns reports whether a table of the sharding type is cut into slices of columns.
func (k ShardingType) ByColumns() bool { return k.facts().byColumns }

// Span returns how many devices hold a slice of a table of the sharding type;
// OneDevice for the empty sharding type.
func (k ShardingType) Span() Span { return k.facts().span }

// Joint reports whether several devices hold each slice together, so that a change on one
// of the devices is a change on all of them.
func (k ShardingType) Joint() bool { return k.Span() != OneDevice }

// Class returns the operator class of shards of the sharding type in device memory;
// ClassColumns for the empty sharding type.
func (k ShardingType) Class() OperatorClass { return k.facts().class }

// Tier is the memory that a shard's rows lie in.
type Tier string

// The tiers. A Shard's empty Tier means HBM.
const (
	HBM Tier = "hbm"
	// Host is the memory of the device's host: kernels read it over the host link.
	Host Tier = "host"
	// HostCached is host memory with a cache in the device's HBM, for the rows that take
	// the most lookups.
	HostCached Tier = "host_cached"
)

// Tiers returns all tiers. The slice is the caller's.
func Tiers() []Tier { return []Tier{HBM, Host, HostCached} }

// OnHost reports whether the rows lie in the host's memory.
func (t Tier) OnHost() bool { return t == Host || t == HostCached }

func joined[T ~string](words []T) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// BlockRows returns the number of rows of each block if the table is cut by rows for the
// given number of devices. The last block may have fewer rows.
func (t *Table) BlockRows(devices int) int64 { return (t.Rows + int64(devices) - 1) / int64(devices) }

// NonEmptyBlocks returns the number of blocks that have rows if the table is cut by rows for the
// given number of devices, at least 1: the last devices of a table with few rows may have none.
func (t *Table) NonEmptyBlocks(devices int) int {
	block := t.BlockRows(devices)
	return int((t.Rows + block - 1) / block)
}

// Permits reports whether the table may have the sharding type: its constraint allows the type,
// and the vectors of its lookups do not travel apart, if its rows would be cut over the devices of one host.
// Such cuts add up partial sums inside the host, and lookups that travel apart have none. A pooled table with
// IndexDedup is no replica, because a replica exchanges no vectors.
func (t *Table) Permits(k ShardingType) bool {
	return t.Constraint.Permits(k) && !(t.Apart() && k.Span() == OneHost) && !(t.poolsOwn() && k == DataParallel)
}

// CutsByRows reports whether the table can be cut by rows for the given number of devices:
// there are at least two, and each gets a block of at least one row.
func (t *Table) CutsByRows(devices int) bool {
	return devices > 1 && t.BlockRows(devices)*int64(devices-1) < t.Rows
}

// EqualWidths returns the widths that all slices of the table may have if all of them
// have the same width: the table's dim, and the divisors of the dim that are wide enough.
// The widths fall.
func (t *Table) EqualWidths() []int {
	var widths []int
	for n := 1; n*ColumnGranule <= t.Dim; n++ {
		if width := t.Dim / n; n*width == t.Dim && t.AllowsWidth(width) {
			widths = append(widths, width)
		}
	}
	return widths
}

// AllowsWidth reports whether all slices of the table may have the given width, at least 1.
func (t *Table) AllowsWidth(width int) bool {
	return t.Dim%width == 0 && width%ColumnGranule == 0 && width >= t.MinWidth() &&
		(t.OnlyWidth == 0 || width == t.OnlyWidth || width == t.Dim)
}

// Form is how a slice of a table is held. The zero Form is a slice with all rows in
// one device's HBM.
type Form struct {
	// ShardingType is RowWise, DataParallel, TableRowWise (also for each slice of a Grid),
	// or empty for a slice on one device.
	ShardingType ShardingType
	// Tier is the memory that holds the rows; empty means HBM. Only a slice on one device
	// may be in host memory.
	Tier Tier
	// Cache is the cache share in tier HostCached, above 0 and below 1; it is 0 in other
	// tiers.
	Cache float64
	// Operator is the number of the slice's operator, among those that the slice could be
	// in on its device. 0 is the operator of all slices that a plan does not keep apart.
	Operator Operator
	// Blocks is the number of equal blocks that the slice's rows are cut into, at least 2, if
	// the plan chooses a device for each block, each block on a device of its own. The blocks
	// lie in HBM. Each device that trains on samples gets a vector for each block, and adds
	// the vectors up. Blocks is 0 for a slice with all rows, and if the sharding type says which
	// devices hold the blocks. EngineRules.AnyDevices says which engines run such plans.
	Blocks int
}

// Operator is the number of one of the operators that a plan divides the slices of an
// operator class and Operation into, 0 to Operators-1. All slices of a table are in
// operators of the same number.
type Operator uint8

// Operators is the largest number of operators that a plan divides the slices of one class
// and Operation on a device into: three, because the kernels of usual widths give a bag 8, 16
// or 32 lanes.
const Operators = 3
