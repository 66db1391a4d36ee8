// Package plan holds the outcome of planning: which shard lies on which device.
//
//	New                  a problem, shards by device -> Plan (build.go)
//	Plan.Validate        checks a plan against its problem (validate.go) and against the
//	                     rules of the problem's engine (engine.go), and names the
//	                     tables that changed since it was made (causes.go)
//	Breakdown            step times, device by device (breakdown.go)
//	Save, Write          the plan as versioned JSON, docs/PLAN.md (format.go)
//	Load, Read           the plan from that JSON (save.go, read.go)
//	Diff                 what changes from one plan to another (diff.go)
//	NewTransfer          the bytes that devices must send each other for that (transfer.go),
//	                     from what each device held before (held.go)
//	Renaming             the names of devices by which the fewest bytes move (rename.go),
//	                     among those that leave the plan valid (limits.go)
//	Digest               a digest of all fields of a problem (digest.go)
//
// The package does not know how a plan was found or what its predicted times
// mean; it only stores them.
package plan

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Version is the version of the plan format that this package writes, and the only one
// that it reads.
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

// Tier is the memory that a shard's rows lie in.
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
	Predicted unit.Millis
	// Sync is the all-reduce of the replicas; zero if the cluster has one sharding group.
	// Predicted leaves it out.
	Sync       Sync
	Provenance Provenance
}

// Sync is the all-reduce by which the replicas of each shard average their weights and optimizer
// states, every Cluster.SyncEvery steps.
type Sync struct {
	// Bytes is what the device with the most bytes averages.
	Bytes unit.Bytes `json:"bytes"`
	// Time is the time of one all-reduce on the simulated device. It is SIMULATED, not measured.
	Time unit.Millis `json:"simulated_ms"`
}

// SyncCost returns the SIMULATED time of the replicas' all-reduce that falls on one step, in the
// mean over Cluster.SyncEvery steps.
func (pl *Plan) SyncCost() unit.Millis {
	return pl.Sync.Time / unit.Millis(max(1, pl.Cluster.SyncEvery))
}

// Table is one placed table.
type Table struct {
	Name string `json:"name"`
	// Module is the problem's Table.Module: the module of the model that holds the
	// table; empty if the problem does not state it.
	Module       string       `json:"module,omitempty"`
	Rows         int64        `json:"rows"`
	Dim          int          `json:"dim"`
	ShardingType ShardingType `json:"kind"`
	// Precision and Optimizer are those of the problem's table.
	Precision problem.Precision `json:"precision"`
	Optimizer problem.Optimizer `json:"optimizer"`
	// Pooling is problem.PoolingNone for a table of sequences, where each lookup gives a vector, and
	// zero for all others. Vectors is the mean number of vectors that a sample gets from the table
	// (problem.Table.Bags); 0 for tables with one pooled vector for each feature.
	Pooling problem.Pooling `json:"pooling,omitempty"`
	Vectors float64         `json:"vectors,omitempty"`
	// IndexDedup is true if each device sends an index of its samples once.
	IndexDedup bool `json:"index_dedup,omitempty"`
	// Operator is the number of the operator that the table's shards are in, on each device,
	// among those that they could be in: below problem.Operators. Tables of different numbers
	// never share an operator.
	Operator problem.Operator `json:"operator,omitempty"`
	Shards   []Shard          `json:"-"`
}

// Sequences reports whether each lookup of the table gives a vector of its own.
func (t *Table) Sequences() bool { return t.Pooling == problem.PoolingNone }

// Shard is one placed rectangle of a table.
type Shard struct {
	Rows, Columns problem.Range
	// Device is the number of the device that holds the shard, from 0. A shard of a
	// data_parallel table lies on every device and has Device -1.
	Device int
	Tier   Tier
	// Cache is the cache share in tier HostCached: the share of the shard's rows that the
	// device's HBM caches, above 0 and below 1. It is 0 if the plan does not state it, as
	// plans of other tools may, and in all other tiers.
	Cache float64
}

// Device is what one device holds, with its predicted times.
type Device struct {
	// Shards is the number of shards. DimSum is the sum of their widths, each counted once
	// for each feature that reads the table. A replicated shard counts on every device.
	Shards, DimSum int
	// Phase is the phase of the step in which the device is the fullest, and Memory the bytes of that phase: the sum of
	// Problem.ShardMemory over the device's shards, of Problem.SharedMemory over all shards and of Problem.DeviceMemory.
	Phase  problem.Phase `json:"phase"`
	Memory problem.Memory
	// Pools is what PyTorch's caching allocator is estimated to reserve for these bytes (problem.StepMemory.Pools); 0 in plans
	// that do not state it.
	Pools unit.Bytes `json:"pools_bytes,omitempty"`
	// StepTimes are the predicted times of a step.
	StepTimes
}

// The values of a plan's ModelSource: where the predicted times come from.
const (
	// Simulated and Measured are the sources of a trained model's samples.
	Simulated = "simulated"
	Measured  = "measured"
	// Published stands for the nets of another project, whose samples are not known here.
	Published = "published"
	// ClosedForm stands for TorchRec's formulas.
	ClosedForm = "closed_form"
	// Custom stands for a cost model of the caller's (neuroshard.Scored).
	Custom = "custom"
	// Unpriced says that nothing has estimated the plan's times.
	Unpriced = "none"
)

// SimulatedNote is the warning of plans whose times a model of the simulated device predicted.
const SimulatedNote = "times are predicted by a model trained on SIMULATED kernels, not on measured ones"

// Estimator is the origin of a plan's predicted times.
type Estimator struct {
	// Model and ModelSource are those of Provenance.
	Model, ModelSource string
	// Error is the relative error, in percent, below which 95 % of the estimates stay, as the
	// model's card states it; 0 if it is not known. Plans do not state it.
	Error float64
	// Note is a sentence for Provenance.Warnings about every plan with these times; it
	// may be empty.
	Note string
}

// Validate checks that pl is a placement of p, which must be valid: the same cluster
// and batch; the same tables in the same order; each table placed exactly once, in
// shards that fit its sharding type, widths and constraints; every device within its
// memory; the rules of p's engine; and the sums that the plan states equal to those counted again from p. It
// returns nil or an *Invalid with all violations.
//
// It does not compare Provenance.Input with Digest(p), as MadeFrom does: a plan stays valid when
// only access statistics change, though its predicted times may then be wrong.
func (pl *Plan) Validate(p *problem.Problem) error {
	p = pl.Decided(p)
	v := &validator{pl: pl, p: p}
	v.cluster()
	v.match()
	for i := range pl.Tables {
		v.table(i)
	}
	v.colocations()
	v.found = append(v.found, pl.CheckEngine(p.Engine.Rules())...)
	v.memory()
	v.sync()
	v.predicted()
	if len(v.found) > 0 {
		return &Invalid{v.found}
	}
	return nil
}

// Origin says why a valid plan may be made from another problem than p; "" if it is made from p.
func (pl *Plan) Origin(p *problem.Problem) string {
	switch {
	case pl.MadeFrom(p):
		return ""
	case !hardware.Known(pl.Cluster.Profile) && p.Topology.Profile.HBMGBps == 0:
		return fmt.Sprintf("whether the plan was made from these tables is not known: it does not state the numbers of its device %q, which is not a listed one", pl.Cluster.Profile)
	}
	return otherInput
}

const otherInput = "provenance.input is not the digest of these tables and this cluster: the plan was made from others, such as other access statistics or constraints, and its predicted times are theirs"

// Decided returns the problem with the IndexDedup that the plan decides: that of the plan's tables, for tables with
// ChooseDedup. If the engine deduplicates all sequences or none, all have it if one does. It returns p itself if the
// plan decides nothing.
func (pl *Plan) Decided(p *problem.Problem) *problem.Problem {
	dedup := map[string]bool{}
	for i := range pl.Tables {
		dedup[pl.Tables[i].Name] = pl.Tables[i].IndexDedup
	}
	if p.Engine.Rules().SequenceDedup {
		sequence := func(t problem.Table) bool { return t.ChooseDedup && t.Pooling == problem.PoolingNone }
		all := slices.ContainsFunc(p.Tables, func(t problem.Table) bool { return sequence(t) && dedup[t.Name] })
		for _, t := range p.Tables {
			dedup[t.Name] = all && sequence(t)
		}
	}
	decided := p
	for i := range p.Tables {
		if t := &p.Tables[i]; t.ChooseDedup && t.IndexDedup != dedup[t.Name] {
			if decided == p {
				own := *p
				own.Tables = slices.Clone(p.Tables)
				decided = &own
			}
			decided.Tables[i].IndexDedup = dedup[t.Name]
		}
	}
	return decided
}

// MadeFrom reports whether Provenance.Input is the digest of p, or that of a problem that states
// the cluster of p in other words: defaults, or bytes in place of a share.
func (pl *Plan) MadeFrom(p *problem.Problem) bool {
	own := &p.Topology
	largest := own.Largest()
	memory, reserve := own.DeviceMemory(largest), own.Reserve(largest)
	rounded := math.Round(1e4*float64(reserve)/float64(memory)) / 1e4 // people state few digits
	for _, perHost := range []int{own.DevicesPerHost, own.PerHost(), own.Profile.FullHost(), 0} {
		for _, stated := range []unit.Bytes{own.Memory, memory, 0} {
			for _, share := range []float64{own.ReserveShare, hardware.DefaultReserveShare, hardware.ReserveShare(rounded), hardware.NoReserve} {
				other := *p
				t := &other.Topology
				t.DevicesPerHost, t.Memory, t.ReserveShare, t.ReserveFixed = perHost, stated, share, 0
				t.ReserveFixed = reserve - t.Reserve(largest)
				for _, domain := range []int{own.NVLinkDomain, t.InUsualDomains().NVLinkDomain, t.PerHost()} {
					t.NVLinkDomain = domain
					if clusterOf(&other).Equal(clusterOf(p)) && Digest(&other) == pl.Provenance.Input {
						return true
					}
				}
			}
		}
	}
	return false
}

// CheckTables returns the violations that can be found without the problem: parts of
// tables that are placed twice or not at all, shards that do not fit the sharding type or
// have no valid width, and devices that the plan's cluster does not have. It accepts
// shards in host memory, and rows that are cut into other blocks than engines cut them.
func (pl *Plan) CheckTables() []Violation {
	v := pl.alone(pl.Cluster.Engine)
	for i := range pl.Tables {
		v.index[i] = -1
		v.table(i)
	}
	return v.found
}

// CheckRows returns, of each table, the first block of rows that an engine does not look for where it
// lies. CheckTables must find nothing.
func (pl *Plan) CheckRows(engine problem.Engine) []Violation {
	v := pl.alone(engine)
	for i := range pl.Tables {
		v.blocks(&pl.Tables[i])
	}
	return v.found
}

// alone returns a validator of the plan without its problem.
func (pl *Plan) alone(engine problem.Engine) *validator {
	v := &validator{pl: pl, p: &problem.Problem{Engine: engine}, index: make([]int, len(pl.Tables)), alone: true}
	v.p.Topology.Devices, v.p.Topology.DevicesPerHost = pl.Cluster.Devices, pl.Cluster.DevicesPerHost
	return v
}

// ByDevice returns the plan's shards by device. New makes the same tables from them. A
// replicated shard is listed on every device. A shard states its sharding type if New would
// derive another one from the shapes, and its tier if the tier is not HBM. Shard.Table
// counts the tables in the plan's order, which in a valid plan is the problem's order.
func (pl *Plan) ByDevice() [][]problem.Shard {
	held := make([][]problem.Shard, len(pl.Devices))
	for i := range pl.Tables {
		t := &pl.Tables[i]
		shardingType := t.ShardingType
		if !shardingType.Joint() && shardingType == impliedType(t) {
			shardingType = ""
		}
		blocks := t.Blocks(&pl.Cluster)
		for _, s := range t.Shards {
			shard := s.of(i, shardingType, blocks)
			shard.Operator = t.Operator
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
// It panics if b has another number of devices than the plan.
func (pl *Plan) SetBreakdown(b Breakdown) {
	if len(b.Devices) != len(pl.Devices) {
		panic("plan: the breakdown has another number of devices than the plan")
	}
	pl.Predicted = b.Cost
	for i, d := range b.Devices {
		pl.Devices[i].StepTimes = d
	}
}

// Priced reports whether the plan's times are predictions. If they are not, they are 0 and
// mean nothing.
func (pl *Plan) Priced() bool { return pl.Provenance.ModelSource != Unpriced }

// Table returns the placed table of a name, which belongs to the plan, or nil if the plan
// has no such table. It looks at all tables: a caller with many names makes an index.
func (pl *Plan) Table(name string) *Table {
	i := slices.IndexFunc(pl.Tables, func(t Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &pl.Tables[i]
}

// ShardingTypes returns the number of tables of each sharding type.
func (pl *Plan) ShardingTypes() map[ShardingType]int {
	count := map[ShardingType]int{}
	for i := range pl.Tables {
		count[pl.Tables[i].ShardingType]++
	}
	return count
}

// Hosted returns the number of tables with a shard in host memory, and the number of those
// with a cache.
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

// Tiers returns the number of tables with shards in each tier. A table with shards in two
// tiers counts in both.
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

// Chosen returns the number of tables whose rows are cut over devices that the plan chose
// (Table.Blocks).
func (pl *Plan) Chosen() (tables int) {
	for i := range pl.Tables {
		if pl.Tables[i].Blocks(&pl.Cluster) > 0 {
			tables++
		}
	}
	return tables
}

// Divided returns the number of tables whose Operator is not 0.
func (pl *Plan) Divided() (tables int) {
	for i := range pl.Tables {
		if pl.Tables[i].Operator != 0 {
			tables++
		}
	}
	return tables
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
	// not use. If devices differ, these are those of the device with the most memory.
	DeviceMemory unit.Bytes `json:"device_memory_bytes"`
	Reserve      unit.Bytes `json:"reserve_bytes"`
	// WeightsOnly is true if only fp32 weights counted as memory (problem.CountWeights).
	WeightsOnly bool `json:"weights_only"`
	// HostMemory is the memory of a full host that tables may use; 0 if they may use none. If
	// hosts differ, it is the largest.
	HostMemory unit.Bytes `json:"host_memory_bytes,omitempty"`
	// DeviceMemories is the memory of each device if devices differ, and ReserveShare the share of
	// each device's own memory that belongs to its reserve; nil and 0 if devices do not differ.
	// HostMemories is the memory of each host if hosts differ. The lists must not be modified.
	DeviceMemories []unit.Bytes `json:"device_memories_bytes,omitempty"`
	ReserveShare   float64      `json:"reserve_share,omitempty"`
	HostMemories   []unit.Bytes `json:"host_memories_bytes,omitempty"`
	// Fixed is what the devices hold and do beside the plan's tables. Reserve leaves its bytes out,
	// and the Memory.Reserve of a device and the times of a device have them. It must not be modified.
	Fixed []hardware.FixedLoad `json:"fixed,omitempty"`
	// CommPrecision is the number format of vectors and gradients that travel between
	// devices.
	CommPrecision problem.Precision `json:"comm_precision,omitempty"`
	// Engine is the engine that the plan was made for; empty if the plan was made for any.
	Engine problem.Engine `json:"engine,omitempty"`
	// LaneRule says how kernels choose the lanes of a bag, in the estimates of the plan.
	LaneRule problem.LaneRule `json:"lanes,omitempty"`
	// Pipeline is the training loop's, by which memory was counted, if the problem states it.
	Pipeline problem.Pipeline `json:"pipeline,omitempty"`
	// NetworkBandwidth is a device's share of the network between hosts, in whole bytes a
	// second, in the estimates of the plan; 0 if it is the profile's.
	NetworkBandwidth unit.Bandwidth `json:"network_bytes_per_second,omitempty"`
	// NVLinkDomain is the number of devices that the links inside hosts join; 0 if these are
	// the devices of a host.
	NVLinkDomain int `json:"nvlink_domain,omitempty"`
	// Numbers are those of the topology, with bandwidths in whole bytes a second.
	hardware.Numbers
	// TorchRecBytes is true if the bytes are those that TorchRec's storage estimator counts
	// (problem.CountTorchRec). TorchRecRelease is then the release, such as "1.9"; empty for
	// problem.UnstatedTorchRec.
	TorchRecBytes   bool   `json:"torchrec_bytes,omitempty"`
	TorchRecRelease string `json:"torchrec_release,omitempty"`
	// Replicas is the number of sharding groups; 0 if there is one. All other fields are
	// those of one group. ReplicasPerHost and ReplicasPerDomain are the numbers of replicas of a
	// shard on one host and in one NVLink domain; 0 if that is one.
	Replicas          int `json:"replicas,omitempty"`
	ReplicasPerHost   int `json:"replicas_per_host,omitempty"`
	ReplicasPerDomain int `json:"replicas_per_domain,omitempty"`
	// InterHostAllReduce is true if the devices of a group are consecutive, and false if the
	// replicas of a shard are.
	InterHostAllReduce bool `json:"inter_host_allreduce,omitempty"`
	// SyncEvery is the number of steps from one all-reduce of the replicas to the next; 0 if
	// that is one.
	SyncEvery int `json:"sync_every,omitempty"`
}

// Accounting returns which bytes counted against the devices' memory when the plan was made.
func (c *Cluster) Accounting() problem.Accounting {
	switch {
	case c.WeightsOnly:
		return problem.CountWeights
	case c.TorchRecBytes:
		if r, ok := problem.ReleaseOfTorchRec(cmp.Or(c.TorchRecRelease, problem.UnstatedTorchRec)); ok {
			return problem.CountTorchRec(r)
		}
	}
	return problem.CountAll
}

// withAccounting returns the cluster with an accounting in the place of its own.
func (c Cluster) withAccounting(a problem.Accounting) Cluster {
	r, torchRec := a.TorchRec()
	c.WeightsOnly, c.TorchRecBytes, c.TorchRecRelease = a == problem.CountWeights, torchRec, ""
	if r.Name != problem.UnstatedTorchRec {
		c.TorchRecRelease = r.Name
	}
	return c
}

// Topology returns the cluster as a topology that has all but the profile: the bytes of each device
// and host are those of the problem that the plan was made for.
func (c *Cluster) Topology() hardware.Topology {
	t := hardware.Topology{
		Devices: c.Devices, DevicesPerHost: c.DevicesPerHost,
		Memory: c.DeviceMemory, DeviceMemories: c.DeviceMemories, ReserveShare: hardware.ReserveShare(c.ReserveShare),
		HostMemory: c.HostMemory, HostMemories: c.HostMemories, NetworkBandwidth: c.NetworkBandwidth, NVLinkDomain: c.NVLinkDomain,
		Numbers:  c.Numbers,
		Replicas: c.Replicas, ReplicasPerHost: c.ReplicasPerHost, ReplicasPerDomain: c.ReplicasPerDomain,
		InterHostAllReduce: c.InterHostAllReduce, SyncEvery: c.SyncEvery,
	}
	t.ReserveFixed = c.Reserve - t.Reserve(t.Largest())
	t.Fixed = c.Fixed
	return t
}

// Problem returns the cluster as a problem that has all but the tables and the profile.
func (c *Cluster) Problem() problem.Problem {
	return problem.Problem{
		Topology: c.Topology(), Batch: c.Batch, Accounting: c.Accounting(), CommPrecision: c.CommPrecision,
		Engine: c.Engine, LaneRule: c.LaneRule, Pipeline: c.Pipeline,
	}
}

// WithMemories returns the cluster with the memories, the reserve and the fixed loads of a topology.
func (c Cluster) WithMemories(t hardware.Topology) Cluster {
	c.Fixed, t.Fixed = t.Fixed, nil
	t = t.Even()
	d := t.Largest()
	c.DeviceMemory, c.Reserve, c.HostMemory = t.DeviceMemory(d), t.Reserve(d), t.MostHostMemory()
	c.DeviceMemories, c.HostMemories, c.ReserveShare = t.DeviceMemories, t.HostMemories, 0
	if len(t.DeviceMemories) > 0 {
		c.ReserveShare = t.KeptShare()
	}
	return c
}

// Equal reports whether two clusters have the same fields.
func (c Cluster) Equal(o Cluster) bool { return reflect.DeepEqual(c, o) }

// ReplicaCount returns the number of sharding groups, at least 1.
func (c *Cluster) ReplicaCount() int { return max(1, c.Replicas) }

// Provenance says how a plan was made, with what is needed to make the plan again.
type Provenance struct {
	// Tool and Version name the program. Method, Seed and Status are those of the search:
	// Status is "complete", "budget", "time" or "interrupted", or empty if no search made
	// the plan.
	Tool    string `json:"tool"`
	Version string `json:"version"`
	Method  string `json:"method"`
	Seed    uint64 `json:"seed"`
	Status  string `json:"status"`
	// Model is the id of the cost model. ModelSource is the source of its samples,
	// Simulated or Measured; Published for the prototype's nets; ClosedForm for TorchRec's
	// formulas. If nothing predicted the times, ModelSource is Unpriced, Model is empty,
	// and the times are 0 and mean nothing.
	Model       string `json:"model"`
	ModelSource string `json:"-"`
	// Input is the SHA-256 of the problem in canonical form (Digest), in hex.
	Input string `json:"input"`
	// Hidden is what the predicted times assume that the engine hides of the exchanges.
	Hidden Hidden `json:"hidden,omitzero"`
	// Hierarchy is the hierarchical exchange that the predicted times count; zero if exchanges
	// are flat.
	Hierarchy problem.Hierarchy `json:"hierarchy,omitzero"`
	// Policy is the id of the policy that placed the tables; empty for methods without one.
	Policy string `json:"policy,omitempty"`
	// Warnings are the doubts about the inputs and predictions of this plan.
	Warnings []string `json:"warnings"`
}
