package problem

import (
	"fmt"
	"slices"
)

// Engine is the name of the training system that is to run a plan. The empty name stands
// for any system, and has no rules.
type Engine string

// The engines.
const (
	TorchRec Engine = "torchrec"
	HugeCTR  Engine = "hugectr"
)

// EngineRules are what an engine demands of a plan, so that it trains the plan, stores
// checkpoints of it, and resumes from them. The zero value demands nothing.
type EngineRules struct {
	Engine Engine
	// Name is the engine's name in texts.
	Name string
	// EqualSlices says that all slices of a table have the same width.
	EqualSlices bool
	// OneWidth says that the slices of all column_wise tables of a module have the same width if
	// the tables have PoolingNone (OneWidths).
	OneWidth bool
	// MeansTogether says that a table of MeanPooling is never Grid, and that all tables of its module
	// are RowWise or TableRowWise if it is (MeanCuts).
	MeansTogether bool
	// OneSlice says that a device holds at most one slice of a table.
	OneSlice bool
	// OneTier says that all shards of a table lie in the same tier, with the same cache
	// share.
	OneTier bool
	// OnlyHBM says that no table lies in host memory.
	OnlyHBM bool
	// NoReplicas says that the engine has no sharding groups (hardware.Topology.Replicas).
	NoReplicas bool
	// UncachedReplicas says that, with several sharding groups, no rows lie in tier HostCached.
	UncachedReplicas bool
	// SumsOnly says that, with several sharding groups, the only optimizer state that the engine
	// averages is the sum of Adagrad or row-wise Adagrad: tables of Adam are DataParallel.
	SumsOnly bool
	// NoIdle says that every device holds a part of a table.
	NoIdle bool
	// OneBag says that each feature has exactly one pooled vector a sample: no Feature.Bags,
	// and no PoolingNone.
	OneBag bool
	// SequenceDedup says that only tables of PoolingNone deduplicate their indices, and that those with
	// ChooseDedup do so all or not at all.
	SequenceDedup bool
	// AnyDevices says that the engine cuts the rows of a table over any devices that a plan
	// chooses (Form.Blocks), not only over all devices of the cluster or of a host.
	AnyDevices bool

	// The rules below say which slices of a device with the same operator class and Operation
	// the engine keeps in different operators. The zero value keeps none apart.

	// WholeApart says that whole tables are apart from slices of columns: table_wise from
	// column_wise, and table_row_wise from grid.
	WholeApart bool
	// ModulesApart, PoolingsApart and OptimizersApart say that tables of different modules,
	// of different poolings, or of different optimizers are apart, replicas among them.
	ModulesApart, PoolingsApart, OptimizersApart bool
	// PrefetchedApart says that tables with Prefetch are apart from tables without, and that
	// their cached slices are apart from cached slices of other widths.
	PrefetchedApart bool
	// Undivided says that a plan cannot divide the operators any further: Form.Operator is 0.
	Undivided bool
}

// engines holds the rules of each engine. The search, Problem.Validate, Plan.Validate and
// the exports read them. docs/PLAN.md gives the reasons.
var engines = []EngineRules{
	{Engine: TorchRec, Name: "TorchRec", EqualSlices: true, OneWidth: true, SequenceDedup: true, MeansTogether: true, OneTier: true, UncachedReplicas: true, SumsOnly: true, WholeApart: true, ModulesApart: true, PoolingsApart: true, OptimizersApart: true, PrefetchedApart: true},
	{Engine: HugeCTR, Name: "HugeCTR", EqualSlices: true, OneTier: true, OneSlice: true, OnlyHBM: true, NoReplicas: true, NoIdle: true, OneBag: true, AnyDevices: true, Undivided: true},
}

// Rules returns the rules of the engine; the zero value for the empty name and for an
// unknown one.
func (e Engine) Rules() EngineRules {
	i := slices.IndexFunc(engines, func(r EngineRules) bool { return r.Engine == e })
	if i < 0 {
		return EngineRules{}
	}
	return engines[i]
}

// Engines returns the names of all engines. The slice is the caller's.
func Engines() []string {
	var names []string
	for _, r := range engines {
		names = append(names, string(r.Engine))
	}
	return names
}

// ParseEngine reads an engine's name.
func ParseEngine(s string) (Engine, error) {
	if slices.Contains(Engines(), s) {
		return Engine(s), nil
	}
	return "", fmt.Errorf("engine %q is unknown: choose one of %s", s, joined(Engines()))
}
