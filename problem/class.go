package problem

import "slices"

// OperatorClass says which shards can fuse into one operator. A device looks up the
// shards of each class in separate operators, one for each OperatorKey.
// (TorchRec has a module for each sharding type, with a group for each compute kernel.)
// The shards of a class also share exchanges: see docs/SHARDING.md.
type OperatorClass uint8

// The operator classes, in the order in which the times of a device are added up. The
// first four lie in device memory and have exchanges of their own; the last two share the
// exchanges of ClassColumns.
const (
	// ClassColumns holds slices of columns with all rows, each in one device's HBM:
	// table-wise and column-wise.
	ClassColumns OperatorClass = iota
	// ClassBlocks holds blocks of rows, one on each device: row-wise.
	ClassBlocks
	// ClassHostBlocks holds blocks of rows, one on each device of one host:
	// table-row-wise and grid.
	ClassHostBlocks
	// ClassReplicas holds whole tables, on each device: data-parallel.
	ClassReplicas
	// ClassHostMemory holds slices of columns in a host's memory.
	ClassHostMemory
	// ClassCached holds slices of columns in a host's memory with some rows cached in HBM.
	ClassCached
	// OperatorClasses is the number of classes, for arrays indexed by class.
	OperatorClasses = 6
)

// ClassOf returns the operator class of a slice in the form.
func ClassOf(f Form) OperatorClass {
	class := f.ShardingType.Class()
	switch {
	case class == ClassColumns && f.Tier == Host:
		return ClassHostMemory
	case class == ClassColumns && f.Tier == HostCached:
		return ClassCached
	}
	return class
}

// Joint reports whether several devices hold the shards of the class together, so that
// a change on one of the devices is a change on all of them.
func (c OperatorClass) Joint() bool {
	return c == ClassBlocks || c == ClassHostBlocks || c == ClassReplicas
}

// OnHost reports whether the rows of the class are in a host's memory.
func (c OperatorClass) OnHost() bool { return c == ClassHostMemory || c == ClassCached }

// Operation is what all shards of one fused kernel call have in common, as far as the times
// of the call depend on it. An engine fuses the shards of a device that have the same
// OperatorKey into one call. The calls of a device run one after the other.
type Operation struct {
	// Batch is the global batch, in samples.
	Batch     int
	Optimizer Optimizer
	Precision Precision
	// Weighted is true if each lookup carries a weight.
	Weighted bool
	// LaneRule says how the kernels of the call choose the lanes of a bag.
	LaneRule LaneRule
}

// OperatorKey tells the operators of a device apart: slices of a device that have the same
// key fuse into one operator. Fields that the problem's engine does not look at are zero.
type OperatorKey struct {
	Class     OperatorClass
	Operation Operation
	// Module, Pooling and Optimizer are those of the table. (Operation has the optimizer of
	// the backward, which is none for replicas.) Sequences have the pooling PoolingNone for every
	// engine, because a kernel pools the rows of all its tables, or of none.
	Module    string
	Pooling   Pooling
	Optimizer Optimizer
	// Settings are the KernelSettings of the table.
	Settings string
	// Cut says that the slice has fewer columns than its table.
	Cut bool
	// Prefetch is that of the table. Width is the number of columns of a slice of ClassCached
	// whose table has Prefetch.
	Prefetch bool
	Width    int
	// Operator is the number that the plan gives the slice's table.
	Operator Operator
}

// LaneRule says how the kernels of an operator choose the number of lanes that work on a
// bag. The code of FBGEMM's kernels says LanesByWidest; on an H200 narrow tables beside a wide
// one lose less by it than the simulated device says (docs/RESULTS.md).
type LaneRule uint8

// The lane rules.
const (
	// LanesByWidest gives all tables of an operator the lanes of its widest table.
	LanesByWidest LaneRule = iota
	// LanesByTable gives each table the lanes of its own width.
	LanesByTable
)

var laneRuleNames = []string{"widest", "own"}

// String returns the lane rule's name as used in files: "widest" or "own".
func (r LaneRule) String() string { return enumName(laneRuleNames, uint8(r), "LaneRule") }

// MarshalText writes the lane rule's name.
func (r LaneRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a name that MarshalText writes.
func (r *LaneRule) UnmarshalText(text []byte) (err error) {
	*r, err = ParseLaneRule(string(text))
	return err
}

// LaneRules returns the names of all lane rules. The slice is the caller's.
func LaneRules() []string { return slices.Clone(laneRuleNames) }

// ParseLaneRule reads a lane rule's name.
func ParseLaneRule(s string) (LaneRule, error) {
	i, err := parseEnum(laneRuleNames, s, "lane rule")
	return LaneRule(i), err
}
