package problem

import (
	"fmt"
	"math"
	"strconv"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// fields.go lists the fields that a table, a feature and a cluster have in all formats. Files are read and
// written, flags and the service's overrides are read, numbers are checked, the digest of a problem is
// made, and the schema and the document of the formats are written from these lists: whoever adds a field
// adds it to its struct and to one list. A number of a cluster that plans state is a field of hardware.Numbers.

// Field is a value of a T that files state.
type Field[T any] struct {
	Key string
	// About says what the value is, in hints, schemas and documents.
	About string
	// In is the key of the object that has the field in JSON; empty: that of the T itself.
	In string
	// Column is the column of CSV files; empty: that of the key.
	Column string
	// ForAll says that a file may state the value once, for all T that do not state it.
	ForAll bool
	Limits
	// At returns a pointer to the value.
	At func(*T) any
}

// Limits are those of a number: from Least to Most, without Least if Above and without Most if Below. The
// zero value limits nothing.
type Limits struct {
	Least, Most  float64
	Above, Below bool
}

// Wrong says how v is outside of the limits; "" if it is not.
func (l Limits) Wrong(v float64) string {
	return l.wrong(v, func(v float64) string {
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return fmt.Sprint(v)
	})
}

func (l Limits) wrong(v float64, number func(float64) string) string {
	inside := v >= l.Least && v <= l.Most && !(l.Above && v == l.Least) && !(l.Below && v == l.Most)
	switch {
	case inside || l == Limits{}:
		return ""
	case l.Below:
		return fmt.Sprintf("%s is not above %s and below %s", number(v), number(l.Least), number(l.Most))
	case l.Above:
		return fmt.Sprintf("%s is not above %s and at most %s", number(v), number(l.Least), number(l.Most))
	}
	return fmt.Sprintf("%s is not between %s and %s", number(v), number(l.Least), number(l.Most))
}

// number returns the value of the field if it is a number.
func (f *Field[T]) number(of *T) (float64, bool) {
	switch v := f.At(of).(type) {
	case *int:
		return float64(*v), true
	case *int64:
		return float64(*v), true
	case *float64:
		return *v, true
	case *unit.Bandwidth:
		return float64(*v), true
	}
	return 0, false
}

// wrong says how the value of the field is outside of the limits; "" if it is not, or is no number.
func (f *Field[T]) wrong(of *T) string {
	n, ok := f.number(of)
	if !ok {
		return ""
	}
	if _, ok := f.At(of).(*unit.Bandwidth); ok {
		return f.Limits.wrong(n, func(v float64) string { return unit.Bandwidth(v).String() })
	}
	return f.Wrong(n)
}

// TableFields lists the fields of a table but for its features. It must not be modified.
func TableFields() []Field[Table] { return tableFields }

// FeatureFields lists the fields of a feature. It must not be modified.
func FeatureFields() []Field[Feature] { return featureFields }

// ClusterFields lists the fields of a problem that a topology file states. It must not be modified.
func ClusterFields() []Field[Problem] { return clusterFields }

// bandwidths are the limits of a bandwidth.
var bandwidths = Limits{Least: float64(hardware.MinNetworkBandwidth), Most: float64(hardware.MaxNetworkBandwidth)}

var clusterFields = []Field[Problem]{
	{Key: "devices", About: "devices is the number of devices of the cluster", Limits: Limits{Least: 1, Most: hardware.MaxDevices}, At: func(p *Problem) any { return &p.Topology.Devices }},
	{Key: "devices_per_host", About: "devices_per_host is how many devices share a host's fast links, or 0 for all; 8, or 4 for gb200 and gb300, if left out, or all, if they are fewer or have no network between hosts", At: func(p *Problem) any { return &p.Topology.DevicesPerHost }},
	{Key: "device", About: "device is the name of the device profile, such as a100-80; describe them with: neuroshard list devices", At: func(p *Problem) any { return &p.Topology.Profile }},
	{Key: "memory", About: "memory is each device's memory, such as 40GiB; the profile's if left out", Limits: Limits{Most: float64(hardware.MaxMemory), Above: true}, At: func(p *Problem) any { return &p.Topology.Memory }},
	{Key: "device_memories", About: "state the memory of each device where devices differ, such as 40GiB,80GiB for two, or of some, such as 0-3=40GiB", At: func(p *Problem) any { return &p.Topology.DeviceMemories }},
	{Key: "reserve_share", About: "reserve_share is the share of each device's memory kept free of tables: write 0.15, the default, for 15 %", At: func(p *Problem) any { return &p.Topology.ReserveShare }},
	{Key: "reserve_fixed", About: "reserve_fixed is memory of each device kept free on top of the share, such as 2GiB", At: func(p *Problem) any { return &p.Topology.ReserveFixed }},
	{Key: "host_memory", About: "host_memory is the memory of a full host that its devices' tables may use, such as 1TiB; none if left out", At: func(p *Problem) any { return &p.Topology.HostMemory }},
	{Key: "host_memories", About: "state the memory of each host where hosts differ, such as 512GiB,1TiB for two, or of some, such as 0=512GiB", At: func(p *Problem) any { return &p.Topology.HostMemories }},
	{Key: "batch", About: "batch is the number of samples of a step over all devices", Limits: Limits{Least: 1, Most: MaxBatch}, At: func(p *Problem) any { return &p.Batch }},
	{Key: "accounting", About: "accounting says which bytes count against a device's memory: all, the default, or those that TorchRec's storage estimator counts, in the newest known release or in a stated one", At: func(p *Problem) any { return &p.Accounting }},
	{Key: "comm_precision", About: "comm_precision is the number format of what devices send each other; fp32 if left out", At: func(p *Problem) any { return &p.CommPrecision }},
	{Key: "engine", About: "engine is what runs the plan; any if left out", At: func(p *Problem) any { return &p.Engine }},
	{Key: "lanes", About: "lanes says which table sets the lanes of a bag: the widest of the operator, the default, or each its own", At: func(p *Problem) any { return &p.LaneRule }},
	{Key: "network_bandwidth", About: "network_bandwidth is what a device sends to other hosts, such as 50GB/s; the profile's if left out", Limits: bandwidths, At: func(p *Problem) any { return &p.Topology.NetworkBandwidth }},
	{Key: "nvlink_domain", About: "nvlink_domain is how many devices the links inside hosts join, where they join several hosts; 72 for gb200 and gb300, and those of a host for others, if left out", Limits: Limits{Most: hardware.MaxDevices}, At: func(p *Problem) any { return &p.Topology.NVLinkDomain }},
	{Key: "link_bandwidth", About: "link_bandwidth is that of a device to the others of its host, such as 300GB/s, for TorchRec's formulas; 600GiB/s if left out", Limits: bandwidths, At: func(p *Problem) any { return &p.Topology.Bandwidths.Links }},
	{Key: "hbm_bandwidth", About: "hbm_bandwidth is that of a device's memory, such as 2TB/s, for TorchRec's formulas; 897GiB/s if left out", Limits: bandwidths, At: func(p *Problem) any { return &p.Topology.Bandwidths.HBM }},
	{Key: "host_link_bandwidth", About: "host_link_bandwidth is that of a device to its host's memory, such as 25GB/s, for TorchRec's formulas; 32GiB/s if left out", Limits: bandwidths, At: func(p *Problem) any { return &p.Topology.Bandwidths.HostLink }},
	{Key: "backward_multiplier", About: "backward_multiplier is the time of the kernels of the backward over that of the forward, such as 2.5, for TorchRec's formulas; 2 if left out", Limits: Limits{Most: hardware.MaxMultiplier, Above: true}, At: func(p *Problem) any { return &p.Topology.Multipliers.Backward }},
	{Key: "weighted_backward_multiplier", About: "weighted_backward_multiplier is a factor of the time of the backward for weighted lookups, such as 1.5, for TorchRec's formulas; 1 if left out", Limits: Limits{Most: hardware.MaxMultiplier, Above: true}, At: func(p *Problem) any { return &p.Topology.Multipliers.WeightedBackward }},
	{Key: "replicas", About: "replicas is the number of sharding groups of 2D parallelism: a divisor of the devices, such as 2; one if left out", Limits: Limits{Least: 1, Most: hardware.MaxDevices}, At: func(p *Problem) any { return &p.Topology.Replicas }},
	{Key: "sync_every", About: "sync_every is the number of steps from one all-reduce of the replicas to the next; 1 if left out", Limits: Limits{Least: 1, Most: hardware.MaxSyncEvery}, At: func(p *Problem) any { return &p.Topology.SyncEvery }},
	{Key: "inter_host_allreduce", About: "inter_host_allreduce is true if the devices of a sharding group are consecutive, as use_inter_host_allreduce of TorchRec's DMPCollection", At: func(p *Problem) any { return &p.Topology.InterHostAllReduce }},
	{Key: "pipeline", About: "pipeline is how the training loop overlaps steps: base, sparse-dist, prefetch or semi-sync, with options such as sparse-dist+clear_data_dist_inputs; sparse-dist if left out, and base for HugeCTR", At: func(p *Problem) any { return &p.Pipeline }},
	{Key: "allocator_overhead", About: "allocator_overhead is what the caching allocator reserves beyond a step's buffers, as a share of them, such as 0.1; 0 if left out", Limits: Limits{Most: hardware.MaxAllocatorOverhead}, At: func(p *Problem) any { return &p.Topology.AllocatorOverhead }},
	{Key: "activations", About: "activations is what a device keeps of its samples in the dense part until the backward, such as 12GiB; that of the dense part if one is stated, and else left to the reserve", Limits: Limits{Most: float64(hardware.MaxMemory)}, At: func(p *Problem) any { return &p.Topology.Activations }},
}

// Keys of objects in a table.
const (
	InAccess      = "access"
	InConstraints = "constraints"
)

var tableFields = []Field[Table]{
	{Key: "name", About: "name is unique among the tables", At: func(t *Table) any { return &t.Name }},
	{Key: "module", About: "module is the path of the module that holds the table, such as sparse.ebc: leave it out if none is known", At: func(t *Table) any { return &t.Module }},
	{Key: "rows", About: "rows is the table's hash size", Limits: Limits{Least: 1, Most: MaxRows}, At: func(t *Table) any { return &t.Rows }},
	{Key: "dim", About: "dim is the table's number of columns", Limits: Limits{Least: ColumnGranule, Most: MaxDim}, At: func(t *Table) any { return &t.Dim }},
	{Key: "pooling", About: "pooling says how a bag's rows become one vector, or, with none, that each lookup gives one: the mean number of lookups per sample is pooling_factor", ForAll: true, At: func(t *Table) any { return &t.Pooling }},
	{Key: "weighted", About: "weighted is true if lookups carry a weight", ForAll: true, At: func(t *Table) any { return &t.Weighted }},
	{Key: "prefetch", About: "prefetch is true if the engine prefetches the rows of a cached table (TorchRec's prefetch_pipeline)", ForAll: true, At: func(t *Table) any { return &t.Prefetch }},
	{Key: "index_dedup", About: "index_dedup is true if each device sends an index of its samples once (TorchRec's use_index_dedup, HugeCTR's CompressionStrategy.Unique)", ForAll: true, At: func(t *Table) any { return &t.IndexDedup }},
	{Key: "choose_dedup", About: "choose_dedup is true if the plan decides index_dedup, by its cost; re-plans keep it", ForAll: true, At: func(t *Table) any { return &t.ChooseDedup }},
	{Key: "kernel_settings", About: "kernel_settings names settings of the engine's kernels: tables of different ones are never in one operator", At: func(t *Table) any { return &t.KernelSettings }},
	{Key: "precision", About: "precision is the number format of the weights; the default is fp32", ForAll: true, At: func(t *Table) any { return &t.Precision }},
	{Key: "output_precision", About: "output_precision is the number format of the table's vectors, for accounting torchrec; the default is that of the weights", At: func(t *Table) any { return &t.OutputPrecision }},
	{Key: "optimizer", About: "optimizer is what updates the rows; the default is sgd, with a warning", ForAll: true, At: func(t *Table) any { return &t.Optimizer }},

	{Key: "reuse", About: "reuse holds the shares of distinct rows that are used 1, 2, 3-4, 5-8, ..., 16385-32768 and more than 32768 times in a batch; they add up to 1", In: InAccess, Limits: Limits{Most: 1}, At: func(t *Table) any { return &t.Access.Reuse }},
	{Key: "batch", Column: "reuse_batch", About: "state the number of samples that the histogram was counted on", In: InAccess, Limits: Limits{Least: 1, Most: MaxBatch}, At: func(t *Table) any { return &t.Access.Batch }},
	{Key: "unique_rows", About: "unique_rows is the number of distinct rows in the batch of the histogram", In: InAccess, Limits: Limits{Most: MaxRows}, At: func(t *Table) any { return &t.Access.UniqueRows }},
	{Key: "zipf", About: "zipf is the exponent a: the i-th most used row is drawn with a probability proportional to i^-a; published tables lie between 0.5 and 2", In: InAccess, ForAll: true, Limits: Limits{Most: 10, Above: true}, At: func(t *Table) any { return &t.Access.Exponent }},
	{Key: "index_law", About: "index_law says how the indices of a bag come about: each drawn by itself, or as the fixed rows of one one-hot id; the default is independent", In: InAccess, ForAll: true, At: func(t *Table) any { return &t.Access.Law }},

	{Key: "sorted_rows", About: "sorted_rows is true if rows are numbered by falling use, so that the first block of rows has the most used ones: leave it out if indices are hashed", ForAll: true, At: func(t *Table) any { return &t.Access.Sorted }},

	{Key: "devices", About: "devices are those allowed, numbered from 0", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.Devices }},
	{Key: "group", About: "tables of one group are placed, whole, on one device: leave it out for a table in no group", In: InConstraints, At: func(t *Table) any { return &t.Constraint.Colocation }},
	{Key: "no_split", About: "no_split forbids splitting the table", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.NoSplit }},
	{Key: "min_width", About: "min_width is the narrowest column slice allowed", In: InConstraints, ForAll: true, Limits: Limits{Most: MaxDim}, At: func(t *Table) any { return &t.Constraint.MinWidth }},
	{Key: "one_host", About: "one_host keeps all slices of a column_wise table on devices of one host", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.OneHost }},
	{Key: "sharding_types", About: "sharding_types are those that the table may have; column_wise allows table_wise, too, and grid allows table_row_wise", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.ShardingTypes }},
	{Key: "tiers", About: "tiers are the memories that the table may lie in", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.Tiers }},
	{Key: "cache_share", About: "cache_share is the share of the table's rows that HBM caches", In: InConstraints, ForAll: true, Limits: Limits{Most: 1, Above: true, Below: true}, At: func(t *Table) any { return &t.Constraint.CacheShare }},
}

var featureFields = []Field[Feature]{
	{Key: "name", About: "name is that of the feature", At: func(f *Feature) any { return &f.Name }},
	{Key: "pooling_factor", About: "pooling_factor is the mean number of lookups per sample", ForAll: true, Limits: Limits{Most: MaxPoolingFactor}, At: func(f *Feature) any { return &f.PoolingFactor }},
	{Key: "length_cv", About: "length_cv is the standard deviation of the lengths of a feature's bags over their mean", ForAll: true, Limits: Limits{Most: MaxLengthCV}, At: func(f *Feature) any { return &f.LengthCV }},
	{Key: "bags", About: "bags is the mean number of bags per sample: leave it out for one", Limits: Limits{Most: MaxBags, Above: true}, At: func(f *Feature) any { return &f.Bags }},
}
