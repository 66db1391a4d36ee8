// Package plan holds the outcome of planning: which shard lies on which device.
//
//	New                  a problem, shards by device -> Plan (build.go)
//	Plan.Validate        the plan against its problem; the last word on a plan (validate.go)
//	Breakdown            step times, device by device (breakdown.go)
//	Save, Write          the plan as versioned JSON, docs/PLAN.md (format.go)
//	Load, Read           the plan from that JSON (save.go, read.go)
//	Diff                 what changes from one plan to another (diff.go)
//	Digest               a problem's identity (digest.go)
//
// The package does not know how a plan was found or what its predicted times
// mean; it only keeps them.
package plan

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Version is the version of the plan format this package writes. It reads only
// versions it knows.
const Version = 1

// ShardingType is how a table is cut and placed, in TorchRec's words.
type ShardingType = problem.ShardingType

// The sharding types.
const (
	TableWise    = problem.TableWise
	ColumnWise   = problem.ColumnWise
	RowWise      = problem.RowWise
	TableRowWise = problem.TableRowWise
	Grid         = problem.Grid
	DataParallel = problem.DataParallel
)

// shardingTypes lists all of them, in the order of the documentation.
var shardingTypes = problem.ShardingTypes()

// Tier is the memory a shard lies in.
type Tier = problem.Tier

// The tiers.
const (
	HBM        = problem.HBM
	Host       = problem.Host
	HostCached = problem.HostCached
)

// tiers lists all of them.
var tiers = problem.Tiers()

// replicated is the Device of a shard that lies on every device.
const replicated = -1

// Plan is a complete placement of a problem's tables.
type Plan struct {
	// Tables are the placed tables, in the problem's order, each with its shards
	// in the order of their first column, then first row.
	Tables []Table
	// Devices has an entry for each device of the cluster.
	Devices []Device
	// Cluster is what the plan was made for.
	Cluster Cluster
	// Predicted is the predicted cost of the plan, the maximum over Devices.
	Predicted  unit.Millis
	Provenance Provenance
}

// Table is one placed table.
type Table struct {
	Name string
	// Module is the problem's Table.Module: the module of the model that holds the
	// table, empty where it is not stated.
	Module       string
	Rows         int64
	Dim          int
	ShardingType ShardingType
	Shards       []Shard
}

// Shard is one placed rectangle of a table.
type Shard struct {
	Rows, Columns problem.Range
	// Device is the holder's number, from 0. A shard of a replicated
	// (data-parallel) table lies on every device and has Device -1.
	Device int
	Tier   Tier
	// Cache is, in tier HostCached, the share of the shard's rows that the device's
	// HBM caches, above 0 and below 1; 0 where it is not stated, as in plans of
	// other tools. In all other tiers it is 0.
	Cache float64
}

// Device is what one device holds, with its predicted times.
type Device struct {
	// Shards is the number of shards and DimSum their pooled columns (a shard
	// counts once for each feature that reads it). A replicated shard counts on
	// every device.
	Shards, DimSum int
	// Memory is the sum of Problem.ShardMemory over the shards, and
	// Problem.DeviceMemory.
	Memory problem.Memory
	// StepTimes are the predicted times of a step.
	StepTimes
}

// The values of a plan's ModelSource: where the predicted times come from.
const (
	// Simulated and Measured are the sources of a trained model's samples.
	Simulated = "simulated"
	Measured  = "measured"
	// Published says that the nets are another project's, made of samples that are
	// not known here.
	Published = "published"
	// ClosedForm stands for TorchRec's formulas.
	ClosedForm = "closed_form"
	// Unpriced says that no cost model has priced the plan.
	Unpriced = "none"
)

// Estimator names what predicted a plan's times.
type Estimator struct {
	// Model and ModelSource are those of Provenance.
	Model, ModelSource string
	// Note is a sentence for Provenance.Warnings about every plan with these times; it
	// may be empty.
	Note string
}

// Validate checks that pl is a placement of p, which must be valid: the same cluster
// and batch; the same tables in the same order; each table placed exactly once, in
// shards that fit its sharding type, widths and constraints; every device within its
// memory; and the sums that the plan states equal to those counted again from p. It
// returns nil or an *Invalid with all violations.
//
// It does not compare Provenance.Input with Digest(p): a plan stays valid when only
// access statistics change, though its predicted times may then be wrong.
func (pl *Plan) Validate(p *problem.Problem) error {
	v := &validator{pl: pl, p: p}
	v.cluster()
	v.match()
	for i := range pl.Tables {
		v.table(i)
	}
	v.colocations()
	v.memory()
	v.predicted()
	if len(v.found) > 0 {
		return &Invalid{v.found}
	}
	return nil
}

// CheckTables returns what is wrong with the plan's tables for every problem: parts
// that are placed twice or not at all, shards that do not fit the sharding type or
// have no valid width, devices that the plan's cluster does not have. It is for plans
// whose problem is not known: it accepts shards in host memory, and rows that are cut
// into other blocks than engines cut them.
func (pl *Plan) CheckTables() []Violation {
	v := &validator{pl: pl, p: &problem.Problem{}, index: make([]int, len(pl.Tables)), alone: true}
	v.p.Topology.Devices, v.p.Topology.DevicesPerHost = pl.Cluster.Devices, pl.Cluster.DevicesPerHost
	for i := range pl.Tables {
		v.index[i] = -1
		v.table(i)
	}
	return v.found
}

// ByDevice returns the plan's shards by device, as New takes them: New makes the
// same tables of them. A replicated shard is on every device. A shard states its
// sharding type if New would derive another from the shapes, and its tier if that is
// not HBM. Tables are in the plan's order, which is the problem's in a valid plan.
func (pl *Plan) ByDevice() [][]problem.Shard {
	held := make([][]problem.Shard, len(pl.Devices))
	for i := range pl.Tables {
		t := &pl.Tables[i]
		shardingType := t.ShardingType
		if !shardingType.Joint() && shardingType == impliedType(t) {
			shardingType = ""
		}
		for _, s := range t.Shards {
			shard := s.of(i, shardingType)
			if s.Device != replicated {
				held[s.Device] = append(held[s.Device], shard)
				continue
			}
			for d := range held {
				held[d] = append(held[d], shard)
			}
		}
	}
	return held
}

// Breakdown returns the predicted times that the plan carries. The times of a plan that is
// not Priced are 0.
func (pl *Plan) Breakdown() Breakdown {
	devices := make([]StepTimes, len(pl.Devices))
	for i := range pl.Devices {
		devices[i] = pl.Devices[i].StepTimes
	}
	return NewBreakdown(devices)
}

// SetBreakdown writes predicted times into the plan: its cost, and the times of its devices.
// It panics where b has another number of devices than the plan.
func (pl *Plan) SetBreakdown(b Breakdown) {
	if len(b.Devices) != len(pl.Devices) {
		panic("plan: the breakdown has another number of devices than the plan")
	}
	pl.Predicted = b.Cost
	for i, d := range b.Devices {
		pl.Devices[i].StepTimes = d
	}
}

// Priced reports whether the plan's times are predictions. The times of a plan
// without a cost model are 0 and mean nothing.
func (pl *Plan) Priced() bool { return pl.Provenance.ModelSource != Unpriced }

// ShardingTypes returns how many tables the plan has of each sharding type.
func (pl *Plan) ShardingTypes() map[ShardingType]int {
	count := map[ShardingType]int{}
	for i := range pl.Tables {
		count[pl.Tables[i].ShardingType]++
	}
	return count
}

// Hosted returns how many tables have a shard in host memory, and how many of those
// tables are partly cached.
func (pl *Plan) Hosted() (tables, cached int) {
	for i := range pl.Tables {
		host, cache := false, false
		for _, s := range pl.Tables[i].Shards {
			host = host || s.Tier.OnHost()
			cache = cache || s.Tier == HostCached
		}
		if host {
			tables++
		}
		if cache {
			cached++
		}
	}
	return tables, cached
}

// Tiers returns how many tables have shards in each memory; a table that lies in two
// counts in both.
func (pl *Plan) Tiers() map[Tier]int {
	count := map[Tier]int{}
	for i := range pl.Tables {
		in := map[Tier]bool{}
		for _, s := range pl.Tables[i].Shards {
			in[s.Tier] = true
		}
		for tier := range in {
			count[tier]++
		}
	}
	return count
}

// Plain reports whether all tables are table_wise or column_wise in HBM.
func (pl *Plan) Plain() bool {
	count := pl.ShardingTypes()
	hosted, _ := pl.Hosted()
	return hosted == 0 && count[TableWise]+count[ColumnWise] == len(pl.Tables)
}

// Cluster names the topology and batch of a plan.
type Cluster struct {
	Profile string `json:"profile"`
	Devices int    `json:"devices"`
	// DevicesPerHost is the number of devices of a full host (Topology.PerHost).
	DevicesPerHost int `json:"devices_per_host"`
	// Batch is the global batch, in samples.
	Batch int `json:"batch"`
	// DeviceMemory is the memory of a device; Reserve is the part of it that tables may
	// not use.
	DeviceMemory unit.Bytes `json:"device_memory_bytes"`
	Reserve      unit.Bytes `json:"reserve_bytes"`
	// WeightsOnly is true where only fp32 weights were counted as memory
	// (problem.CountWeights).
	WeightsOnly bool `json:"weights_only"`
	// HostMemory is the memory of a full host that its devices' tables may use; 0:
	// none.
	HostMemory unit.Bytes `json:"host_memory_bytes,omitempty"`
	// CommPrecision is the number format of vectors and gradients that travel between
	// devices.
	CommPrecision problem.Precision `json:"comm_precision,omitempty"`
}

// Provenance says how a plan was made, in enough detail to make it again.
type Provenance struct {
	// Tool and its version; Method and Seed of the search; Status it ended with.
	Tool, Version, Method string
	Seed                  uint64
	Status                string
	// Model is the id of the cost model and ModelSource where its samples came
	// from: Simulated or Measured; ClosedForm if TorchRec's formulas predicted the
	// times. Without a model, ModelSource is Unpriced, Model is empty, and the
	// predicted times are 0 and mean nothing.
	Model, ModelSource string
	// Input is the SHA-256 of the problem in canonical form (Digest), in hex.
	Input string
	// Warnings are the doubts about inputs or predictions that hold for this plan.
	Warnings []string
}
