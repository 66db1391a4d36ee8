// Package problem states what is to be planned, in exact bytes: embedding tables, the cluster
// that holds them, the constraints on where they may go.
//
//	Problem                tables, topology, batch, constraints
//	Problem.Validate       the last word on what is allowed
//	Problem.ShardMemory    the bytes that a shard takes on its device (memory.go)
//	BlocksOf, ReplicasOf  tables as their blocks of rows, or their replicas (blocks.go)
//
// The package knows nothing of time: package cost predicts what is fast; what fits is
// counted here.
//
// The rules of Validate are in validate.go, and the number formats and optimizers that
// a table may have in precision.go. sharding.go says how a table can be cut and placed,
// class.go which shards fuse into one operator, and what they must have in common for it.
package problem

import (
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The limits of a valid problem. They are far beyond anything published and
// keep every sum of this package inside an int64.
const (
	MaxTables        = 1 << 20
	MaxRows          = 1 << 40
	MaxDim           = 1 << 14
	MaxFeatures      = 1 << 12
	MaxPoolingFactor = 1 << 20
	MaxBatch         = 1 << 24
	// ColumnGranule is what every shard's width is a multiple of: the fused
	// kernels read rows four floats at a time.
	ColumnGranule = 4
)

// Problem is one planning problem. It must not be modified once it is planned.
type Problem struct {
	Tables   []Table
	Topology hardware.Topology
	// Batch is the global batch: samples of one training step over all devices.
	Batch int
	// Accounting says which bytes count against a device's budget.
	Accounting Accounting
	// CommPrecision is the number format in which pooled vectors and their gradients
	// travel between devices. Computation is always in fp32.
	CommPrecision Precision
}

// Validate returns nil or an *Invalid with every fault found (validate.go).
func (p *Problem) Validate() error { return validate(p) }

// CommBytes returns the size of an element that travels between devices.
func (p *Problem) CommBytes() int { return int(p.CommPrecision.Bytes()) }

// Table is one embedding table.
type Table struct {
	// Name is unique within the problem.
	Name string
	// Module is the path, inside the model, of the module that holds the table, as
	// engines name it ("sparse.ebc"); empty where it is not stated. Two modules may
	// hold tables of one name: here they are then called by the module, a slash and
	// that name, and engines get the name alone (LocalName).
	Module string
	Rows   int64
	// Dim is the number of columns, a multiple of ColumnGranule.
	Dim int
	// Features lists the features that read the table, at least one. Each yields
	// a pooled vector of its own.
	Features []Feature
	// Weighted is true where lookups carry a per-sample weight.
	Weighted bool
	// Access says how often a batch uses each row.
	Access    access.Distribution
	Precision Precision
	Optimizer Optimizer
	// Constraint limits where and how the table may be placed.
	Constraint Constraint
}

// Feature is one sparse feature reading a table.
type Feature struct {
	Name string
	// PoolingFactor is the mean number of lookups per sample, at least 0.
	PoolingFactor float64
}

// Constraint limits one table's placement; the zero value allows everything.
type Constraint struct {
	// Devices lists the allowed devices; empty allows all. A pin is a list of one.
	Devices []int
	// Colocation names a co-location group: all tables of a group are placed, whole,
	// on one device. Empty: none.
	Colocation string
	// NoSplit forbids splitting the table.
	NoSplit bool
	// MinWidth is the narrowest column slice allowed, a multiple of
	// ColumnGranule; 0 means ColumnGranule.
	MinWidth int
}

// LocalName returns the name that a module knows its table by: the table's name,
// less the module and a slash where it begins with them. module may be empty, and
// the name is then the table's own.
func LocalName(module, name string) string {
	if module == "" {
		return name
	}
	return strings.TrimPrefix(name, module+"/")
}

// PoolingFactor returns the lookups per sample of all features together.
func (t *Table) PoolingFactor() float64 {
	sum := 0.0
	for _, f := range t.Features {
		sum += f.PoolingFactor
	}
	return sum
}

// Counts returns what one batch of the given size does to the table.
func (t *Table) Counts(batch int) access.Counts {
	return t.Access.At(t.Rows, t.PoolingFactor(), batch)
}

// MinWidth returns the narrowest slice the table may be cut into. It is the
// table's whole width where splitting is forbidden, by NoSplit or by a
// co-location group.
func (t *Table) MinWidth() int {
	c := t.Constraint
	if c.NoSplit || c.Colocation != "" {
		return t.Dim
	}
	return min(t.Dim, max(ColumnGranule, c.MinWidth))
}

// Range is the half-open interval [Start, End).
type Range struct{ Start, End int64 }

// Len returns the number of elements of the range.
func (r Range) Len() int64 { return r.End - r.Start }

// Shard is a rectangle of one table: some of its rows, some of its columns.
type Shard struct {
	// Table is an index into Problem.Tables.
	Table int
	// Rows and Columns are the part of the table the shard holds.
	Rows, Columns Range
	// ShardingType is how the table is placed. Empty means what the shape says: table- or
	// column-wise with all rows, row-wise with all columns.
	ShardingType ShardingType
	// Tier is the memory that holds the rows; empty means HBM.
	Tier Tier
	// Cache is, in tier HostCached, the share of the rows that HBM caches, above 0
	// and below 1.
	Cache float64
}

// ByRows reports whether the shard is one of a table that is cut by rows.
func (p *Problem) ByRows(s Shard) bool {
	return s.ShardingType.ByRows() || s.ShardingType == "" && s.Rows.Len() < p.Tables[s.Table].Rows
}

// Form returns the form of the slice that a shard of p is, or is a block of.
func (p *Problem) Form(s Shard) Form {
	shardingType := s.ShardingType
	if shardingType == "" && p.ByRows(s) {
		shardingType = RowWise
	}
	if held := shardingType.facts().held; held != "" {
		return Form{ShardingType: held}
	}
	if s.Tier.OnHost() {
		return Form{Tier: s.Tier, Cache: s.Cache}
	}
	return Form{}
}

// Dim returns the shard's width in columns.
func (s Shard) Dim() int { return int(s.Columns.Len()) }

// Whole returns the shard that is all of table i.
func (p *Problem) Whole(i int) Shard {
	t := &p.Tables[i]
	return Shard{Table: i, Rows: Range{0, t.Rows}, Columns: Range{0, int64(t.Dim)}}
}

// DimSum returns the pooled columns that a shard contributes to a sample: its
// width once for each feature that reads it.
func (p *Problem) DimSum(s Shard) int { return s.Dim() * len(p.Tables[s.Table].Features) }

// Operation returns the operation that shards of table i belong to.
func (p *Problem) Operation(i int) Operation {
	t := &p.Tables[i]
	return Operation{Batch: p.Batch, Optimizer: t.Optimizer, Precision: t.Precision, Weighted: t.Weighted}
}

// Colocation is tables that are placed together: a co-location group, or one table.
type Colocation struct {
	// Tables are indices into Problem.Tables, ascending.
	Tables []int
	// Devices are the allowed devices, ascending; nil allows all.
	Devices []int
}

// Colocations partitions the tables into what is placed together, in the order of
// each group's first table.
func (p *Problem) Colocations() []Colocation {
	var groups []Colocation
	index := map[string]int{}
	for i := range p.Tables {
		c := p.Tables[i].Constraint
		var allowed []int
		if len(c.Devices) > 0 {
			allowed = slices.Clone(c.Devices)
			slices.Sort(allowed)
		}
		at, ok := index[c.Colocation]
		if c.Colocation == "" || !ok {
			index[c.Colocation] = len(groups)
			groups = append(groups, Colocation{Tables: []int{i}, Devices: allowed})
			continue
		}
		groups[at].Tables = append(groups[at].Tables, i)
		groups[at].Devices = intersect(groups[at].Devices, allowed)
	}
	return groups
}

// intersect returns the devices in both lists, nil standing for all devices.
func intersect(a, b []int) []int {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	common := []int{}
	for _, d := range a {
		if slices.Contains(b, d) {
			common = append(common, d)
		}
	}
	return common
}
