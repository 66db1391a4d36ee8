// Package problem states what is to be planned, in exact bytes: embedding tables, the
// cluster that holds the tables, and the constraints on where each table may be placed.
//
//	Problem                tables, topology, batch, constraints
//	Problem.Validate       decides what is allowed
//	Problem.ShardMemory    the bytes that a shard takes on its device (memory.go)
//	BlocksOf, ReplicasOf   problems whose tables are blocks of rows, or replicas (blocks.go)
//	Deduplicated           problems whose tables' indices are deduplicated (dedup.go)
//
// This package counts what fits. It knows nothing about time: package cost estimates
// what is fast.
//
// The rules of Validate are in validate.go, and the number formats, optimizers and
// poolings that a table may have in precision.go. torchrec.go counts bytes as TorchRec does, and
// release.go says in what its releases differ. widths.go says which tables need slices of one
// width, and means.go which tables of means need cuts by rows together. sharding.go says how a table
// can be cut and placed, and engine.go what engines demand of a plan. class.go says which shards
// fuse into one operator, and what such shards have in common. hierarchy.go describes the exchange of
// training systems that reduce vectors inside hosts first.
package problem

import (
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The limits of a valid problem. They are far above the sizes of published models, and
// low enough that no sum in this package overflows an int64.
const (
	MaxTables        = 1 << 20
	MaxRows          = 1 << 40
	MaxDim           = 1 << 14
	MaxFeatures      = 1 << 12
	MaxPoolingFactor = 1 << 20
	// MaxBags is the largest number of bags a sample of a feature.
	MaxBags = 1 << 20
	// MaxLengthCV is the largest coefficient of variation of bag lengths.
	MaxLengthCV = 1000
	MaxBatch    = 1 << 24
	// ColumnGranule divides the width of every shard, because the fused kernels read
	// rows four floats at a time.
	ColumnGranule = 4
)

// Problem is one planning problem. It must not be modified once planning has started.
type Problem struct {
	Tables   []Table
	Topology hardware.Topology
	// Batch is the global batch: the samples of one training step, over all devices.
	Batch int
	// Accounting says which bytes count against a device's budget.
	Accounting Accounting
	// CommPrecision is the number format in which pooled vectors and their gradients
	// travel between devices. Computation is always in fp32.
	CommPrecision Precision
	// Engine is the engine that is to run the plan; empty allows plans for any engine. Plans
	// keep to its rules.
	Engine Engine
	// LaneRule says how kernels choose the lanes of a bag.
	LaneRule LaneRule
	// Pipeline is the training loop's, by which memory is counted; empty stands for DefaultPipeline.
	Pipeline Pipeline
	// Hierarchy is the exchange of vectors, if the training system reduces them inside hosts
	// first; zero means flat exchanges.
	Hierarchy Hierarchy
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
	// engines name it ("sparse.ebc"); empty if the path is not known. If two modules hold
	// tables of the same name, Name is the module, a slash and that name, and engines get
	// the name alone (LocalName).
	Module string
	// Rows is the number of rows, at least 1.
	Rows int64
	// Dim is the number of columns, a multiple of ColumnGranule.
	Dim int
	// Features lists the features that read the table, at least one. Each feature has
	// vectors of its own: one for each of its bags, or, under PoolingNone, for each lookup.
	Features []Feature
	// Weighted is true if each lookup carries a weight.
	Weighted bool
	// Pooling is how a bag's rows become one vector, or that they stay apart.
	Pooling Pooling
	// Prefetch is true if the engine copies the rows that the next batch reads into the cache
	// while the current batch is computed (TorchRec's prefetch_pipeline). It matters only to
	// engines that keep such tables in other operators (EngineRules.PrefetchedApart).
	Prefetch bool
	// IndexDedup is true if each device sends every index of its part of the batch once, however
	// often the part has it, and expands or pools the vectors that come back (TorchRec's
	// use_index_dedup, HugeCTR's CompressionStrategy.Unique; dedup.go). A pooled table with it is
	// never DataParallel.
	IndexDedup bool
	// ChooseDedup is true if the plan decides IndexDedup (DedupChoices). What the input states of it then does not count.
	ChooseDedup bool
	// KernelSettings names settings of the engine's kernels, such as how they check indices;
	// empty stands for the engine's own. Tables of different KernelSettings are never in one
	// operator.
	KernelSettings string
	// Access says how often a batch uses each row.
	Access    access.Distribution
	Precision Precision
	// OutputPrecision is the number format of the table's vectors. CountTorchRec counts their
	// bytes in it. CountAll counts four bytes for each number of a vector, whatever the format.
	OutputPrecision OutputPrecision
	Optimizer       Optimizer
	// Constraint limits where and how the table may be placed.
	Constraint Constraint
	// OnlyWidth is the width of all slices if the table is cut by columns; 0 allows every width.
	// Only InSlicesOf sets it: it is a step of a search, and no input.
	OnlyWidth int
	// Stated is the table as its problem states it, if Deduplicated has made this one. It is nil for
	// all other tables, and only Deduplicated sets it.
	Stated *Table
}

// Feature is one sparse feature that reads a table.
type Feature struct {
	Name string
	// PoolingFactor is the mean number of lookups per sample, in all bags of the feature
	// together, at least 0.
	PoolingFactor float64
	// LengthCV is the coefficient of variation of the lengths of the feature's bags: their
	// standard deviation over their mean, 0 to MaxLengthCV. At 0, all bags are of the same
	// length. Under PoolingNone nothing waits for the longest bag, and LengthCV changes
	// nothing.
	LengthCV float64
	// Bags is the mean number of bags per sample, above 0 and at most MaxBags; 0 means 1. A
	// feature that is pooled several times a sample has more than one. A feature with a batch
	// of its own, of b samples while the problem's batch is B, has b / B. Under PoolingNone
	// each lookup is a bag, and Bags is 0.
	Bags float64
}

// bags returns the bags per sample of a feature with sums or means.
func (f *Feature) bags() float64 {
	if f.Bags == 0 {
		return 1
	}
	return f.Bags
}

// Constraint limits one table's placement; the zero value allows everything.
type Constraint struct {
	// Devices lists the allowed devices; empty allows all. A pin is a list of one.
	Devices []int
	// Colocation names the table's co-location, whose tables are all placed, whole, on
	// one device; empty if the table has none.
	Colocation string
	// NoSplit forbids splitting the table.
	NoSplit bool
	// MinWidth is the width of the narrowest slice of columns allowed, a multiple of
	// ColumnGranule; 0 means ColumnGranule.
	MinWidth int
	// OneHost says that, if the table is ColumnWise, all its slices lie on devices of one host, as
	// under TorchRec's sharding type table_column_wise. It does not limit other sharding types.
	OneHost bool
	// ShardingTypes are the sharding types that the table may have; empty allows all.
	// ColumnWise allows TableWise, too, and Grid allows TableRowWise (Permits).
	ShardingTypes []ShardingType
	// Tiers are the memory tiers that the table may lie in; empty allows all. All sharding types
	// but TableWise and ColumnWise lie in HBM.
	Tiers []Tier
	// CacheShare is the cache share that the table has in tier HostCached, above 0 and below 1;
	// 0 allows every share.
	CacheShare float64
}

// PermitsTier reports whether the constraint's tiers allow the given one. The empty Tier is HBM.
func (c *Constraint) PermitsTier(t Tier) bool {
	if t == "" {
		t = HBM
	}
	return len(c.Tiers) == 0 || slices.Contains(c.Tiers, t)
}

// PermitsTier reports whether a table may lie in a memory tier, by its constraint and by the engine
// (EngineRules.UncachedReplicas). The empty Tier is HBM.
func (p *Problem) PermitsTier(table int, t Tier) bool {
	cached := t == HostCached && p.Topology.ReplicaCount() > 1 && p.Engine.Rules().UncachedReplicas
	return !cached && p.Tables[table].Constraint.PermitsTier(t)
}

// PermitsCache reports whether the constraint allows rows in tier t with the given cache share,
// which is 0 in other tiers than HostCached.
func (c *Constraint) PermitsCache(t Tier, share float64) bool {
	return c.PermitsTier(t) && (t != HostCached || c.CacheShare == 0 || share == c.CacheShare)
}

// Permits reports whether the constraint's sharding types allow the given one.
func (c *Constraint) Permits(k ShardingType) bool { return Permitted(c.ShardingTypes, k) }

// LocalName returns the name of a table inside its module: if name begins with the
// module and a slash, it returns the rest of name, and name itself otherwise. If module
// is empty, it returns name.
func LocalName(module, name string) string {
	if module == "" {
		return name
	}
	return strings.TrimPrefix(name, module+"/")
}

// PoolingFactor returns the mean lookups per sample, summed over the table's features.
func (t *Table) PoolingFactor() float64 {
	sum := 0.0
	for _, f := range t.Features {
		sum += f.PoolingFactor
	}
	return sum
}

// Bags returns the vectors that a sample gets from the table: the bags of all features, or, under
// PoolingNone, the lookups.
func (t *Table) Bags() float64 {
	if t.Pooling == PoolingNone {
		return t.PoolingFactor()
	}
	sum := 0.0
	for i := range t.Features {
		sum += t.Features[i].bags()
	}
	return sum
}

// Apart reports whether the vectors of the table's lookups travel apart: of sequences, and of tables with IndexDedup.
func (t *Table) Apart() bool { return t.Pooling == PoolingNone || t.IndexDedup }

// poolsOwn reports whether each device pools the vectors of its own samples.
func (t *Table) poolsOwn() bool { return t.IndexDedup && statedOf(t).Pooling != PoolingNone }

// vectors returns the vectors that the samples get from the table, rounded up.
func (t *Table) vectors(samples int64) int64 {
	return int64(math.Ceil(float64(samples) * t.Bags()))
}

// OneBag reports whether each feature has exactly one pooled vector per sample.
func (t *Table) OneBag() bool {
	return t.Pooling != PoolingNone && !slices.ContainsFunc(t.Features, func(f Feature) bool { return f.bags() != 1 })
}

// LengthCV returns the mean of the features' LengthCV, each weighted by its pooling factor. It is
// 0 under PoolingNone, where each bag is one lookup.
func (t *Table) LengthCV() float64 { return t.BlockLengthCV(1) }

// BlockLengthCV returns the LengthCV of a block of the table's rows that has the given share
// of the table's lookups, above 0 and at most 1.
func (t *Table) BlockLengthCV(share float64) float64 {
	if t.Pooling == PoolingNone {
		return 0
	}
	sum, lookups := 0.0, 0.0
	for _, f := range t.Features {
		sum += f.PoolingFactor * thinned(f, share)
		lookups += f.PoolingFactor
	}
	if lookups == 0 {
		return 0
	}
	return sum / lookups
}

// Counts returns how many lookups a batch of the given size makes in the table, and how
// many distinct rows it reads.
func (t *Table) Counts(batch int) access.Counts {
	pooling, samples := t.drawn(batch)
	return t.Access.At(t.Rows, pooling, samples)
}

// distinct returns how many distinct rows a batch of the given size reads, as Counts does.
func (t *Table) distinct(batch int) float64 {
	pooling, samples := t.drawn(batch)
	return t.Access.Distinct(t.Rows, pooling, samples)
}

// drawn returns a batch of the given size in the words of package access: the lookups of a sample, and
// the number of samples.
func (t *Table) drawn(batch int) (pooling float64, samples int) {
	if n := t.Lists(); t.Access.Law == access.MultiHot && t.Access.Kind != access.Histogram && n != 1 {
		// Each bag draws an id. Features of unequal pooling factors are counted by their mean.
		ids := max(1, math.Round(float64(batch)*n))
		return t.PoolingFactor() * float64(batch) / ids, int(ids)
	}
	return t.PoolingFactor(), batch
}

// Lists returns the lists of lookups that a sample has in the table: one for each bag, and under
// PoolingNone one for each feature. Each list has a length, and under access.MultiHot it is that of
// one one-hot id.
func (t *Table) Lists() float64 {
	if t.Pooling == PoolingNone {
		return float64(len(t.Features))
	}
	return t.Bags()
}

// Reuse returns the histogram of reuse in a batch: the share of the distinct rows in each
// use-count class. It is the table's own histogram if that was counted on such a batch.
func (t *Table) Reuse(batch int) [access.Classes]float64 {
	if t.Access.Kind == access.Histogram && t.Access.Batch == batch {
		return t.Access.Reuse
	}
	return t.Counts(batch).Reuse
}

// MinWidth returns the width of the narrowest slice that the table may be cut into. It is
// the table's dim if NoSplit, a co-location or the sharding types forbid to split the table
// by columns, or if the table cannot be cut into slices of its width (OnlyWidth).
func (t *Table) MinWidth() int {
	c := &t.Constraint
	if c.NoSplit || c.Colocation != "" || !c.Permits(ColumnWise) && !c.Permits(Grid) {
		return t.Dim
	}
	if t.OnlyWidth == 0 {
		return min(t.Dim, max(ColumnGranule, c.MinWidth))
	}
	if t.Dim%t.OnlyWidth != 0 || t.OnlyWidth < c.MinWidth {
		return t.Dim
	}
	return t.OnlyWidth
}

// Range is the half-open interval [Start, End).
type Range struct{ Start, End int64 }

// Len returns the number of elements of the range.
func (r Range) Len() int64 { return r.End - r.Start }

// Shard is a rectangle of one table: some of its rows, some of its columns.
type Shard struct {
	// Table is an index into Problem.Tables.
	Table int
	// Rows and Columns are the part of the table that the shard holds.
	Rows, Columns Range
	// ShardingType is how the table is placed. If it is empty, the shape decides: a shard
	// with all rows is table_wise or column_wise, another shard row_wise.
	ShardingType ShardingType
	// Tier is the memory that holds the rows; empty means HBM.
	Tier Tier
	// Cache is the cache share in tier HostCached: the share of the rows that HBM caches,
	// above 0 and below 1. It is 0 in other tiers.
	Cache float64
	// Operator is as in Form.
	Operator Operator
	// Blocks is as in Form, for a shard of a row_wise or grid table: the shard is one of that
	// number of blocks of its slice.
	Blocks int
}

// ByRows reports whether the shard belongs to a table that is cut by rows.
func (p *Problem) ByRows(s Shard) bool {
	return s.ShardingType.ByRows() || s.ShardingType == "" && s.Rows.Len() < p.Tables[s.Table].Rows
}

// Form returns the form of the slice that the shard belongs to: the shard is the whole
// slice, or one of its blocks or replicas.
func (p *Problem) Form(s Shard) Form {
	if s.Blocks > 0 {
		return Form{Blocks: s.Blocks, Operator: s.Operator}
	}
	shardingType := s.ShardingType
	if shardingType == "" && p.ByRows(s) {
		shardingType = RowWise
	}
	if held := shardingType.facts().held; held != "" {
		return Form{ShardingType: held, Operator: s.Operator}
	}
	if s.Tier.OnHost() {
		return Form{Tier: s.Tier, Cache: s.Cache, Operator: s.Operator}
	}
	return Form{Operator: s.Operator}
}

// Dim returns the shard's number of columns.
func (s Shard) Dim() int { return int(s.Columns.Len()) }

// Whole returns table i as one shard.
func (p *Problem) Whole(i int) Shard {
	t := &p.Tables[i]
	return Shard{Table: i, Rows: Range{0, t.Rows}, Columns: Range{0, int64(t.Dim)}}
}

// DimSum returns the columns that a shard adds to each sample: the shard's width times the
// table's Bags, rounded as Columns does. Of a table of PoolingNone, a block of rows
// has only the vectors of its own lookups; DimSum counts all rows as equally used.
func (p *Problem) DimSum(s Shard) int {
	t := &p.Tables[s.Table]
	bags := bagsOf(p, t)
	if t.Apart() && s.Rows.Len() < t.Rows {
		bags *= float64(s.Rows.Len()) / float64(t.Rows)
	}
	return Columns(s.Dim(), bags)
}

// Columns returns the columns that a slice, width columns wide, adds to each sample if it gives the
// given number of vectors: their product, rounded to the nearest whole number, and at least 1 if
// there are vectors. A slice without columns would take part in no exchange.
func Columns(width int, vectors float64) int {
	if vectors <= 0 {
		return 0
	}
	return max(1, int(math.Round(float64(width)*vectors)))
}

// Operation returns the operation that shards of table i belong to.
func (p *Problem) Operation(i int) Operation {
	t := &p.Tables[i]
	return Operation{Batch: p.Batch, Optimizer: t.Optimizer, Precision: t.Precision, Weighted: t.Weighted, LaneRule: p.LaneRule}
}

// OperatorKey returns the key of a slice of the table, width columns wide, in the form.
func (p *Problem) OperatorKey(table, width int, form Form) OperatorKey {
	t, rules := &p.Tables[table], p.Engine.Rules()
	k := OperatorKey{Class: ClassOf(form), Operation: p.Operation(table), Operator: form.Operator}
	if k.Class == ClassReplicas {
		k.Operation.Optimizer = SGD // the backward of a replica only writes gradients
	}
	if rules.ModulesApart {
		k.Module = t.Module
	}
	if rules.PoolingsApart || t.Pooling == PoolingNone {
		k.Pooling = t.Pooling // a kernel pools the rows of all its tables, or of none
	}
	if rules.OptimizersApart {
		k.Optimizer = t.Optimizer
	}
	k.Settings = t.KernelSettings
	k.Cut = rules.WholeApart && width < t.Dim
	if k.Prefetch = rules.PrefetchedApart && t.Prefetch; k.Prefetch && k.Class == ClassCached {
		k.Width = width
	}
	return k
}

// Colocation is a set of tables that are placed together on one device: the tables of a
// co-location constraint, or a single table without one.
type Colocation struct {
	// Tables are indices into Problem.Tables, ascending.
	Tables []int
	// Devices are the allowed devices, ascending; nil allows all.
	Devices []int
}

// Colocations divides the tables into sets that are placed together, in the order of
// the first table of each set. A table without a constraint is a set of its own.
func (p *Problem) Colocations() []Colocation {
	var sets []Colocation
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
			index[c.Colocation] = len(sets)
			sets = append(sets, Colocation{Tables: []int{i}, Devices: allowed})
			continue
		}
		sets[at].Tables = append(sets[at].Tables, i)
		sets[at].Devices = intersect(sets[at].Devices, allowed)
	}
	return sets
}

// intersect returns the devices that are in both lists; nil means all devices.
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
