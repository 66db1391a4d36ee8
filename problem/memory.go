package problem

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/unit"
)

// The lines of a device's memory. B is the global batch and n the number of devices. The
// shard has R rows and D columns. The features that read it have F bags a sample together
// (Table.Bags), and their pooling factors add up to L. Under PoolingNone each lookup is a bag,
// so F is L, or, for a block of rows, the lookups of the block. What lives in the whole step:
//
//	weights     R * D * bytes of the precision
//	optimizer   Optimizer.StateBytes(R, D)
//	gradients   R * D * 4                  data_parallel: dense gradients in the bucket of the all-reduce, and
//	                                       in the backward of the lookups autograd's own tensor beside it
//	cache       rows of host memory in HBM
//	allocator   Topology.AllocatorOverhead times the buffers, rounded up for each shard
//	reserve     Topology.Reserve(device) + Topology.FixedBytes(device)
//
// The other lines come and go. A device is as full as the fullest Phase of its step, and no plan exceeds
// its memory in any. Inputs live as the pipeline says (phases.go), vectors as
// follows. O is the vectors of the device's shards, ceil(B * F) * D * 4 bytes each, and V those that it
// receives for its own samples, ceil(ceil(B / n) * F) * D * 4 bytes for each table:
//
//	forward exchange     2 O + V   outputs, their copy to be sent, room to receive
//	                     O + V     of tables cut by rows, which are sent as they are
//	dense forward        V         and Topology.Activations
//	backward of the loss 3 V       the gradient that the dense part returns, its parts by device, and
//	                               these joined to be sent. 2 V of sequences (PoolingNone) and replicas
//	backward exchange    2 V + O   the gradient, what is sent, room to receive
//	                     V + O     of tables cut by rows
//	                     2 O       of sequences: what came back, and the same by lookup
//	backward of lookups  O         and what sorts the indices: a pair (64-bit key, 32-bit bag) for each
//	                               lookup, twice, as a radix sort does not write over its input
//
// If what devices send each other is encoded in two bytes a number (CommPrecision), there is also a copy in the range of
// that format, and the encoded one, each before its exchange and without room to receive:
//
//	forward exchange     2.5 O, and 3.5 O of sequences
//	backward of the loss 3.5 V, 3 V of tables cut by rows, and 2.5 V of sequences
//	backward exchange    1.5 V + 1.5 O, and 2.5 O of sequences
//
// If several modules have pooled tables, the backward of the loss holds another V of one of them, counted as the
// largest. If the tables of one module have several sharding types, TorchRec holds up to V and O of one of them more,
// which is left to the reserve. Copies that gloo makes for itself do not count.
//
// V is the same on each device, with one exception: of a slice whose blocks of rows lie on devices of the plan's
// choice (Form.Blocks), each device receives a vector from each block. On one device there is no exchange, and no V:
// the dense part reads O.
//
// A feature with a batch of its own has fewer vectors than the batch has samples. TorchRec then
// gives each sample of the batch a copy of its vector, for all features of the module, and
// puts the columns in their order in another copy. Both count in the loss.
//
// Of a table with IndexDedup, all lines of a shard count the lookups that are left: for B samples n
// times the distinct rows of a device's part (dedup.go). In the backward of the loss there are two vectors for each
// lookup of the device's own samples, also for n = 1.
//
// The lookups of a block of rows are those of the block that holds the most used row, by the
// table's accesses (blocks.go), as cost models count them. Which block that is, a plan cannot know,
// so each block has room for them. If rows are sorted by use, later blocks have room for the lookups of the
// second one, but on devices that the plan chooses.
//
// The lines are what TorchRec allocates in training steps on CPUs, as
// python/tests/test_torchrec_memory.py measures.

// Sizes of the buffers' elements, in bytes.
const (
	// IndexBytes is the size of a row index and of a bag offset.
	IndexBytes = 8
	// OutputBytes is the size of an element of a pooled vector or its gradient.
	OutputBytes = 4

	sortPairBytes = 2 * (8 + 4)
	weightBytes   = 4

	// A cache takes cacheRowBytes more for each row of the slice, and cacheSlotBytes more
	// for each cached row.
	cacheRowBytes, cacheSlotBytes = 4, 16
)

// Accounting says which bytes count against a device's budget.
type Accounting uint8

const (
	// CountAll counts every line of Memory.
	CountAll Accounting = iota
	// CountWeights counts only weights, in fp32, as the NeuroShard paper and its
	// prototype do. Use it to compare with them: such a plan may not fit a real device.
	CountWeights
	// countTorchRec is the accounting of the oldest of TorchRecReleases; those of the others
	// follow.
	countTorchRec
)

// CountTorchRec returns the accounting that counts what the storage estimator of a release of
// TorchRec counts (torchrec.go), so that a plan fits here if it fits in TorchRec's planner.
func CountTorchRec(r TorchRecRelease) Accounting {
	return countTorchRec + Accounting(slices.Index(torchRecReleases[:], r))
}

// TorchRec returns the release of TorchRec whose bytes count; false if all bytes or only those of
// weights count.
func (a Accounting) TorchRec() (TorchRecRelease, bool) {
	if a < countTorchRec {
		return TorchRecRelease{}, false
	}
	return torchRecReleases[a-countTorchRec], true
}

// accountingNames returns the names of all accountings, in order.
func accountingNames() []string {
	names := []string{"all", "weights"}
	for _, r := range torchRecReleases {
		names = append(names, r.String())
	}
	return names
}

// String returns the accounting's name as used in files.
func (a Accounting) String() string { return enumName(accountingNames(), uint8(a), "Accounting") }

// MarshalText writes the accounting's name.
func (a Accounting) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a name that MarshalText writes.
func (a *Accounting) UnmarshalText(text []byte) error {
	i, err := parseEnum(accountingNames(), string(text), "accounting")
	*a = Accounting(i)
	return err
}

// ChosenAccountings returns the names of the accountings that a user may choose. CountWeights is
// not among them: published workloads that are planned so choose it. The slice is the caller's.
func ChosenAccountings() []string { return append([]string{CountAll.String()}, TorchRecNames()...) }

// ParseAccounting reads one of ChosenAccountings.
func ParseAccounting(s string) (Accounting, error) {
	if r, ok := ParseTorchRec(s); ok {
		return CountTorchRec(r), nil
	}
	_, err := parseEnum(ChosenAccountings(), s, "accounting")
	return CountAll, err
}

// Memory is the bytes of one shard, or of all shards of a device, line by line, in one phase of the step.
type Memory struct {
	Weights   unit.Bytes `json:"weights_bytes"`
	Optimizer unit.Bytes `json:"optimizer_bytes"`
	// Inputs are raw batches, and Permuted their copies in the order of the devices that they are sent to.
	Inputs   unit.Bytes `json:"inputs_bytes,omitempty"`
	Permuted unit.Bytes `json:"permuted_bytes,omitempty"`
	// Indices are what the device's lookups read and what sorts it.
	Indices   unit.Bytes `json:"indices_bytes"`
	Outputs   unit.Bytes `json:"outputs_bytes"`
	Received  unit.Bytes `json:"received_bytes"`
	Gradients unit.Bytes `json:"gradients_bytes"`
	// Activations are those of the dense part.
	Activations unit.Bytes `json:"activations_bytes,omitempty"`
	// Cache is the bytes of device memory that cache rows of host memory.
	Cache unit.Bytes `json:"cache_bytes,omitempty"`
	// Allocator is what the allocator reserves beyond the buffers.
	Allocator unit.Bytes `json:"allocator_bytes,omitempty"`
	// Reserve belongs to a device, not to a shard.
	Reserve unit.Bytes `json:"reserve_bytes"`
	// Host is the bytes in host memory, which do not count against the device's memory.
	Host unit.Bytes `json:"host_bytes,omitempty"`
}

// Used returns the bytes of device memory: all lines except Reserve and Host.
func (m Memory) Used() unit.Bytes {
	return m.Held() + m.Buffers() + m.Allocator
}

// Held returns the bytes of device memory that live between steps, too: weights, optimizer state and cache.
func (m Memory) Held() unit.Bytes { return m.Weights + m.Optimizer + m.Cache }

// Buffers returns the bytes of a step's buffers.
func (m Memory) Buffers() unit.Bytes {
	return m.Inputs + m.Permuted + m.Indices + m.Outputs + m.Received + m.Gradients + m.Activations
}

// Total returns the bytes of device memory with the reserve: all lines except Host.
func (m Memory) Total() unit.Bytes { return m.Used() + m.Reserve }

// Add returns the line-wise sum of m and o.
func (m Memory) Add(o Memory) Memory {
	m.Weights += o.Weights
	m.Optimizer += o.Optimizer
	m.Inputs += o.Inputs
	m.Permuted += o.Permuted
	m.Indices += o.Indices
	m.Outputs += o.Outputs
	m.Received += o.Received
	m.Gradients += o.Gradients
	m.Activations += o.Activations
	m.Cache += o.Cache
	m.Allocator += o.Allocator
	m.Reserve += o.Reserve
	m.Host += o.Host
	return m
}

// ShardMemory returns the bytes that shard s takes on its device, and in the memory of
// its host. The problem must be valid.
func (p *Problem) ShardMemory(s Shard) StepMemory {
	t := &p.Tables[s.Table]
	rows, dim := s.Rows.Len(), int64(s.Dim())
	if p.Accounting == CountWeights {
		weights := unit.Bytes(rows * dim * FP32.Bytes())
		switch s.Tier {
		case Host:
			return steady(Memory{Host: weights})
		case HostCached:
			return steady(Memory{Host: weights, Cache: unit.Bytes(CachedRows(rows, s.Cache) * dim * FP32.Bytes())})
		}
		return steady(Memory{Weights: weights})
	}
	if r, ok := p.Accounting.TorchRec(); ok {
		return steady(torchRecMemory(p, s, r))
	}
	m := Memory{
		Weights:   unit.Bytes(rows * dim * t.Precision.Bytes()),
		Optimizer: unit.Bytes(t.Optimizer.StateBytes(rows, int(dim))),
	}
	if s.ShardingType == DataParallel {
		m.Gradients = unit.Bytes(rows * dim * OutputBytes)
	}
	if s.Tier.OnHost() {
		m.Host = m.Weights + m.Optimizer
		m.Weights, m.Optimizer = 0, 0
		if s.Tier == HostCached {
			cached := CachedRows(rows, s.Cache)
			m.Cache = unit.Bytes(cached*(dim*t.Precision.Bytes()+cacheSlotBytes) + t.Optimizer.StateBytes(cached, int(dim)) + cacheRowBytes*rows)
		}
	}
	all := steady(m).Add(p.shardBuffers(s))
	if s.ShardingType == DataParallel {
		all[LookupsBackward].Gradients += m.Gradients
	}
	return p.reserving(all)
}

// SyncBytes returns the bytes of shard s that the all-reduce of the replicas averages
// (hardware.Topology.Replicas): the weights and the optimizer states, in device memory and in
// host memory. It is 0 for shards of data_parallel tables, whose gradients have an all-reduce of
// their own in each step. weights is the part of both that is weights.
func (p *Problem) SyncBytes(s Shard) (all, weights, host unit.Bytes) {
	if s.ShardingType == DataParallel {
		return 0, 0, 0
	}
	t := &p.Tables[s.Table]
	rows, dim := s.Rows.Len(), int64(s.Dim())
	weights = unit.Bytes(rows * dim * t.Precision.Bytes())
	all = weights + unit.Bytes(t.Optimizer.StateBytes(rows, int(dim)))
	if s.Tier.OnHost() {
		host = all
	}
	return all, weights, host
}

// CachedRows returns the number of rows that the cache of a slice with the given rows and
// cache share holds.
func CachedRows(rows int64, share float64) int64 {
	return int64(math.Ceil(share * float64(rows)))
}

// localBatch returns the number of samples that a device trains on, rounded up.
func (p *Problem) localBatch() int64 {
	n := int64(p.Topology.Devices)
	return (int64(p.Batch) + n - 1) / n
}

// HostBudget returns the bytes of host memory that the shards of a device may take: an even part of
// its host's memory, and 0 if that is 0.
func (p *Problem) HostBudget(device int) unit.Bytes { return p.Topology.HostBudget(device) }

// Reserved returns the Reserve of a device's memory: what its topology keeps free, and fixed loads.
func (p *Problem) Reserved(device int) unit.Bytes {
	return p.Topology.Reserve(device) + p.Topology.FixedBytes(device)
}
