package problem

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Fault is one thing wrong with a problem.
type Fault struct {
	// Table is the name of the table at fault, or its position ("#3") if the table has no
	// name; empty if the fault is not that of a single table.
	Table string
	// Message says what is wrong, with the offending value. Hint says what to do; it may
	// be empty.
	Message, Hint string
	// Tables are the indices of the tables at fault: that of Table, and after it that of another table
	// with its name; or those of a co-location.
	Tables []int
	// Key is that of the fault's field of the cluster or of the batch; empty for other faults.
	Key string
}

// String prints the fault on one line, without the hint.
func (f Fault) String() string {
	if f.Table == "" {
		return f.Message
	}
	return fmt.Sprintf("table %q: %s", f.Table, f.Message)
}

// Invalid is the error of a problem that is not valid, with every fault found.
type Invalid struct{ Faults []Fault }

// Error returns the faults, one on each line.
func (e *Invalid) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// maxTotalBytes bounds the bytes of all tables together, so that no sum over tables
// overflows an int64.
const maxTotalBytes = 1 << 60

// validate is Problem.Validate.
func validate(p *Problem) error {
	v := validator{problem: p}
	for _, message := range p.Topology.Problems() {
		field, _, _ := strings.Cut(message, ":")
		v.faults = append(v.faults, Fault{Message: message, Key: strings.ReplaceAll(field, " ", "_")})
	}
	if p.Batch < 1 || p.Batch > MaxBatch {
		v.add("", "batch is the number of samples of a step over all devices", "batch: %d is not between 1 and %d", p.Batch, MaxBatch)
		v.faults[len(v.faults)-1].Key = "batch"
	}
	v.cluster()
	if p.Topology.Activations > 0 && p.Accounting != CountAll {
		message := fmt.Sprintf("activations: only accounting all counts them, and the accounting is %v", p.Accounting)
		v.faults = append(v.faults, Fault{Message: message, Hint: "leave activations out, and state a reserve that holds them", Key: "activations"})
	}
	if len(p.Tables) == 0 || len(p.Tables) > MaxTables {
		v.add("", "", "%d tables: a problem has 1 to %d", len(p.Tables), MaxTables)
	}
	v.engine()
	if err := v.problem.Hierarchy.Check(); err != nil {
		v.add("", "", "%v", err)
	}
	v.tables()
	v.fixed()
	v.colocations()
	v.sharders()
	if len(v.faults) == 0 {
		v.total()
	}
	if len(v.faults) > 0 {
		return &Invalid{v.faults}
	}
	return nil
}

type validator struct {
	problem *Problem
	// index is that of the table being checked.
	index  int
	faults []Fault
}

func (v *validator) add(table, hint, format string, args ...any) {
	f := Fault{Table: table, Message: fmt.Sprintf(format, args...), Hint: hint}
	if table != "" {
		f.Tables = []int{v.index}
	}
	v.faults = append(v.faults, f)
}

// cluster checks the numbers of the cluster that are stated and that nothing else has reported.
func (v *validator) cluster() {
	for i := range clusterFields {
		f := &clusterFields[i]
		if n, _ := f.number(v.problem); n == 0 || slices.ContainsFunc(v.faults, func(one Fault) bool { return one.Key == f.Key }) {
			continue
		}
		if wrong := f.wrong(v.problem); wrong != "" {
			v.faults = append(v.faults, Fault{Message: strings.ReplaceAll(f.Key, "_", " ") + ": " + wrong, Key: f.Key})
		}
	}
}

// fixed reports tables to place that are also fixed loads.
func (v *validator) fixed() {
	loads := make(map[string]bool, len(v.problem.Topology.Fixed))
	for i := range v.problem.Topology.Fixed {
		loads[v.problem.Topology.Fixed[i].Name] = true
	}
	for i := range v.problem.Tables {
		v.index = i
		if name := v.problem.Tables[i].Name; loads[name] {
			v.add(name, "leave it out of the fixed loads, or out of the tables if somebody else places it", "it is also a fixed load")
		}
	}
}

// engine checks that the engine is known, and that the problem asks for nothing that the
// engine does not run.
func (v *validator) engine() {
	e := v.problem.Engine
	rules := e.Rules()
	if rules.Engine != e {
		v.add("", "choose one of "+joined(Engines()), "engine: %q is unknown", e)
	}
	if n := v.problem.Topology.ReplicaCount(); rules.NoReplicas && n > 1 {
		v.add("", "leave replicas out, or plan for another engine", "engine: %s has no sharding groups, and the cluster states %d", e, n)
	}
	if rules.OnlyHBM && v.problem.Topology.MostHostMemory() > 0 {
		v.add("", "leave the host memory out, or plan for another engine", "engine: %s keeps all tables in the memory of the devices, and the cluster states host memory for tables", e)
	}
	v.pipeline()
	if v.problem.Topology.ReplicaCount() > 1 {
		v.averages(&rules)
	}
	if !rules.OneBag && !v.problem.Hierarchy.On() {
		return
	}
	for i := range v.problem.Tables {
		v.index = i
		t := &v.problem.Tables[i]
		if v.problem.Hierarchy.On() && t.Apart() {
			v.add(t.Name, "plan for a training system with flat exchanges", "pooling none or index_dedup: a hierarchical exchange adds up vectors inside hosts, and the lookups of the table travel apart")
		}
		if rules.OneBag && !t.OneBag() {
			v.add(t.Name, "plan for another engine", "engine: %s gives a sample one pooled vector for each feature, and the table has bags or pooling none", rules.Name)
		}
	}
}

// pipeline checks that the engine has the pipeline, if one is stated.
func (v *validator) pipeline() {
	stated := v.problem.Pipeline
	if err := stated.Check(); err != nil {
		v.faults = append(v.faults, Fault{Message: err.Error(), Key: "pipeline"})
	} else if stated != "" && stated != BasePipeline && v.problem.Engine == HugeCTR {
		v.faults = append(v.faults, Fault{Message: fmt.Sprintf("pipeline: %s has no pipeline but %s, and the cluster states %s", v.problem.Engine, BasePipeline, stated), Key: "pipeline"})
	}
}

// averages checks that the engine can average every table over several sharding groups.
func (v *validator) averages(rules *EngineRules) {
	for i := range v.problem.Tables {
		v.index = i
		t := &v.problem.Tables[i]
		replicated := len(t.Constraint.ShardingTypes) == 1 && t.Constraint.ShardingTypes[0] == DataParallel
		if rules.SumsOnly && t.Optimizer == Adam && !replicated {
			v.add(t.Name, "plan for one sharding group, with another optimizer, or with sharding type data_parallel alone", "optimizer: %s averages no state of adam, and there are %d sharding groups", rules.Name, v.problem.Topology.ReplicaCount())
		}
		if tiers := t.Constraint.Tiers; rules.UncachedReplicas && len(tiers) == 1 && tiers[0] == HostCached {
			v.add(t.Name, "add hbm or host to its tiers, or plan for one sharding group", "its tier is host_cached alone: %s averages the rows in host memory of %d sharding groups without those in caches", rules.Name, v.problem.Topology.ReplicaCount())
		}
	}
}

func (v *validator) tables() {
	seen := make(map[string]int, len(v.problem.Tables))
	for i := range v.problem.Tables {
		v.index = i
		t := &v.problem.Tables[i]
		name := t.Name
		if name == "" {
			name = fmt.Sprintf("#%d", i)
			v.add(name, "give every table a name of its own", "it has no name")
		} else if first, ok := seen[name]; ok {
			v.add(name, "give every table a name of its own", "the name is used twice, by tables #%d and #%d", first, i)
			last := &v.faults[len(v.faults)-1]
			last.Tables = append(last.Tables, first)
		} else {
			seen[name] = i
		}
		v.table(name, t)
		v.constraint(name, t)
	}
}

func (v *validator) table(name string, t *Table) {
	limited(v, name, tableFields, t)
	if t.Dim > 0 && t.Dim <= MaxDim && t.Dim%ColumnGranule != 0 {
		v.add(name, fmt.Sprintf("pad the table to %d columns", (t.Dim/ColumnGranule+1)*ColumnGranule), "dim %d is not a multiple of %d", t.Dim, ColumnGranule)
	}
	if len(t.Features) == 0 || len(t.Features) > MaxFeatures {
		v.add(name, "list the features that read the table", "%d features: a table is read by 1 to %d", len(t.Features), MaxFeatures)
	}
	v.features(name, t)
	if int(t.Precision) >= len(precisionNames) {
		v.add(name, "", "precision: unknown value %d", t.Precision)
	}
	if int(t.OutputPrecision) > len(precisionNames) {
		v.add(name, "", "output precision: unknown value %d", t.OutputPrecision)
	}
	if int(t.Optimizer) >= len(optimizerNames) {
		v.add(name, "", "optimizer: unknown value %d", t.Optimizer)
	}
	v.pooling(name, t)
	v.access(name, t.Access)
}

// pooling checks the pooling, and what only some poolings have.
func (v *validator) pooling(name string, t *Table) {
	if int(t.Pooling) >= len(poolingNames) {
		v.add(name, "", "pooling: unknown value %d", t.Pooling)
	}
	if t.Pooling == PoolingNone && t.Weighted {
		v.add(name, "leave weighted out, or pool the lookups by sum or mean", "weighted: lookups with pooling none carry no weights")
	}
	if rules := v.problem.Engine.Rules(); rules.SequenceDedup && t.poolsOwn() {
		v.add(name, "state index_dedup for sequences only, or plan for another engine", "index_dedup: %s does not deduplicate indices of a pooled table", rules.Name)
	}
}

// sharders checks that a plan decides of all sequences of a sharder whether their indices are deduplicated, if the
// engine does so of all or of none. One sharder has at least the tables of a module, and may have several modules.
func (v *validator) sharders() {
	rules := v.problem.Engine.Rules()
	chosen, first := map[string]bool{}, ""
	for i := range v.problem.Tables {
		if t := &v.problem.Tables[i]; t.ChooseDedup && t.Pooling == PoolingNone {
			chosen[t.Module], first = true, cmp.Or(first, t.Name)
		}
	}
	if !rules.SequenceDedup || len(chosen) == 0 {
		return
	}
	for i := range v.problem.Tables {
		v.index = i
		if t := &v.problem.Tables[i]; t.Pooling == PoolingNone && !t.ChooseDedup && (chosen[t.Module] || !t.IndexDedup) {
			v.add(t.Name, "state choose_dedup for all sequences or for none", "choose_dedup: %s deduplicates the indices of all sequences of a sharder or of none, and the plan decides those of %q but not of this table", rules.Name, first)
		}
	}
}

func (v *validator) features(name string, t *Table) {
	named := make(map[string]bool, len(t.Features))
	for _, f := range t.Features {
		if named[f.Name] {
			v.add(name, "list each feature once; bags states several bags a sample", "feature %q is listed twice", f.Name)
		}
		named[f.Name] = f.Name != ""
		limited(v, name, featureFields, &f)
		if f.Bags > 0 && t.Pooling == PoolingNone {
			v.add(name, "leave bags out: each lookup gives a vector of its own", "bags: %v is stated with pooling none", f.Bags)
		}
	}
}

// limited checks the numbers whose limits do not depend on the rest of the table. A number that is above
// its least value is not stated if it is 0.
func limited[T any](v *validator, name string, fields []Field[T], of *T) {
	for i := range fields {
		f := &fields[i]
		if n, ok := f.number(of); ok && f.In != InAccess && !(f.Above && n == 0) {
			if wrong := f.Wrong(n); wrong != "" {
				v.add(name, f.About, "%s: %s", f.Key, wrong)
			}
		}
	}
}

func (v *validator) access(name string, d access.Distribution) {
	if !slices.Contains(access.Laws(), d.Law) {
		v.add(name, "", "access: unknown index law %d", d.Law)
	}
	switch d.Kind {
	case access.Unstated, access.Uniform:
	case access.Zipf:
		v.accessNumber(name, "zipf", d.Exponent)
	case access.Histogram:
		sum := 0.0
		for _, share := range d.Reuse {
			if !(share >= 0 && share <= 1) {
				v.add(name, "reuse holds the share of distinct rows in each use-count class", "reuse: share %v is not between 0 and 1", share)
				sum = 1 // do not report the sum as well
				break
			}
			sum += share
		}
		if math.Abs(sum-1) > 0.01 {
			v.add(name, "reuse holds the share of distinct rows in each use-count class; the shares add up to 1", "reuse: the shares add up to %.4g", sum)
		}
		v.accessNumber(name, "batch", float64(d.Batch))
		v.accessNumber(name, "unique_rows", d.UniqueRows)
	default:
		v.add(name, "", "access: unknown kind %d", d.Kind)
	}
}

// accessNumber checks a number of the key access.
func (v *validator) accessNumber(name, key string, n float64) {
	f := tableFields[slices.IndexFunc(tableFields, func(f Field[Table]) bool { return f.In == InAccess && f.Key == key })]
	if wrong := f.Wrong(n); wrong != "" {
		v.add(name, f.About, "%s: %s", cmp.Or(f.Column, f.Key), wrong)
	}
}

func (v *validator) constraint(name string, t *Table) {
	c := t.Constraint
	// If the number of devices is itself a fault, check against the largest cluster.
	devices := v.problem.Topology.Devices
	has := "the cluster has " + words.Plural(devices, "device")
	if v.problem.Topology.ReplicaCount() > 1 {
		has = "a sharding group has " + words.Plural(devices, "device")
	}
	if devices < 1 || devices >= hardware.MaxDevices {
		devices = hardware.MaxDevices
		has = fmt.Sprintf("a cluster has at most %d devices", devices)
	}
	seen := map[int]bool{}
	for _, d := range c.Devices {
		if d < 0 || d >= devices {
			v.add(name, "devices are numbered from 0", "allowed device %d does not exist: %s", d, has)
		} else if seen[d] {
			v.add(name, "", "allowed device %d is listed twice", d)
		}
		seen[d] = true
	}
	switch {
	case c.MinWidth < 0 || c.MinWidth > MaxDim: // reported
	case c.MinWidth%ColumnGranule != 0:
		v.add(name, "", "min_width: %d is not a multiple of %d", c.MinWidth, ColumnGranule)
	case c.MinWidth > t.Dim && t.Dim > 0:
		v.add(name, "", "min_width: %d is above the table's dim %d", c.MinWidth, t.Dim)
	}
	v.shardingTypes(name, t)
	v.tiers(name, t)
}

// tiers checks the memory tiers that a table may lie in, also against the cluster and the table's
// other constraints.
func (v *validator) tiers(name string, t *Table) {
	c := &t.Constraint
	for i, tier := range c.Tiers {
		if !slices.Contains(Tiers(), tier) {
			v.add(name, "choose from "+joined(Tiers()), "memory tier %q is unknown", tier)
			return
		}
		if slices.Contains(c.Tiers[:i], tier) {
			v.add(name, "", "memory tier %s is listed twice", tier)
		}
	}
	list := joined(c.Tiers)
	if c.CacheShare > 0 && !c.PermitsTier(HostCached) {
		v.add(name, "add host_cached to its tiers, or leave the cache share out", "a cache share is stated, and its tiers %s have no cache", list)
	}
	switch {
	case c.PermitsTier(HBM):
	case v.problem.Topology.MostHostMemory() == 0:
		v.add(name, "state the host memory for tables of each device, or add hbm to the table's tiers", "its tiers %s are in host memory, and the cluster states none", list)
	case c.Colocation != "":
		v.add(name, "add hbm to its tiers, or take it out of the co-location", "a co-location lies in hbm, and its tiers are %s", list)
	case !c.Permits(TableWise):
		v.add(name, "add table_wise or column_wise to its sharding types, or hbm to its tiers", "tables of its sharding types %s lie in hbm, and its tiers are %s", joined(c.ShardingTypes), list)
	}
}

// shardingTypes checks the sharding types that a table may have, also against its other
// constraints.
func (v *validator) shardingTypes(name string, t *Table) {
	c := &t.Constraint
	for i, k := range c.ShardingTypes {
		if !k.Known() {
			v.add(name, "choose from "+joined(ShardingTypes()), "sharding type %q is unknown", k)
			return
		}
		if slices.Contains(c.ShardingTypes[:i], k) {
			v.add(name, "", "sharding type %s is listed twice", k)
		}
	}
	if c.Permits(TableWise) {
		return // nothing forbids a whole table on one device
	}
	list := joined(c.ShardingTypes)
	switch {
	case t.Pooling == PoolingNone && !t.Permits(RowWise) && !t.Permits(DataParallel):
		v.add(name, "add table_wise, column_wise, row_wise or data_parallel to its sharding types", "tables with pooling none are never table_row_wise or grid, and its sharding types are %s", list)
	case t.poolsOwn() && !t.Permits(RowWise):
		v.add(name, "add table_wise, column_wise or row_wise to its sharding types, or leave index_dedup out", "pooled tables with index_dedup are never table_row_wise, grid or data_parallel, and its sharding types are %s", list)
	case c.Colocation != "":
		v.add(name, "add table_wise to its sharding types, or take it out of the co-location", "a co-location keeps the table whole on one device, and its sharding types %s do not", list)
	case len(c.Devices) > 0:
		v.add(name, "add table_wise or column_wise to its sharding types, or allow all devices", "only some devices are allowed, and tables of its sharding types %s lie on all devices of a host or of the cluster", list)
	case c.NoSplit && !c.Permits(DataParallel):
		v.add(name, "add table_wise or data_parallel to its sharding types, or allow it to be split", "the table may not be split, and its sharding types %s split it", list)
	}
}

// total reports tables that are so large that a sum of bytes could overflow in some
// placement. It counts all lines of Memory, whatever the problem's Accounting, because
// times are sums over lookups and rows, too.
func (v *validator) total() {
	all := *v.problem
	all.Accounting = CountAll
	overhead := 1 + all.Topology.AllocatorOverhead
	sum := overhead * float64(all.Topology.Activations) * float64(all.Topology.Devices)
	for i := range all.Tables {
		t := &all.Tables[i]
		// Vectors of many bags could overflow by themselves.
		vectors := float64(all.Batch) * max(t.Bags(), float64(len(t.Features))) * float64(t.Dim) * OutputBytes
		if vectors > maxTotalBytes {
			sum += vectors
			continue
		}
		// Every slice has its own copy of the index buffers, and, with RowwiseAdagrad,
		// its own number of state for each row.
		slices := float64(t.Dim / ColumnGranule)
		whole := all.Whole(i)
		own, shared := all.ShardMemory(whole), all.SharedMemory(whole)
		_, m := own.Peak()
		_, sent := shared.Peak()
		state := float64(m.Optimizer)
		if t.Optimizer == RowwiseAdagrad {
			state *= slices
		}
		sum += float64(m.Weights) + state + overhead*(float64(m.Outputs)+float64(m.Gradients)+slices*float64(m.Indices+sent.Permuted))
	}
	if sum > maxTotalBytes {
		v.add("", "", "the tables and their buffers add up to %.3g bytes: more than the %.3g that can be planned", sum, float64(maxTotalBytes))
	}
}

// colocations reports co-locations whose tables have no allowed device in common.
func (v *validator) colocations() {
	for _, g := range v.problem.Colocations() {
		if len(g.Tables) < 2 {
			continue
		}
		if g.Devices != nil && len(g.Devices) == 0 {
			names := make([]string, len(g.Tables))
			for i, t := range g.Tables {
				names[i] = v.problem.Tables[t].Name
			}
			v.add("", "widen the allowed devices of one of them, or take it out of the co-location",
				"co-location %q: its tables %s have no allowed device in common", v.problem.Tables[g.Tables[0]].Constraint.Colocation, strings.Join(names, ", "))
			v.faults[len(v.faults)-1].Tables = g.Tables
		}
	}
}
