package problem

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/unit"
)

// The lines of a device's memory. B is the global batch and n the number of devices. The
// shard has R rows and D columns. The features that read it have F bags a sample together
// (Table.Bags), and their pooling factors add up to L. Under PoolingNone each lookup is a bag,
// so F is L, or, for a block of rows, the lookups of the block:
//
//	weights     R * D * bytes of the precision
//	optimizer   Optimizer.StateBytes(R, D)
//	outputs     ceil(B * F) * D * 4        pooled vectors, fp32, before the all-to-all
//	gradients   ceil(B * F) * D * 4        the vectors that are sent, later their gradients
//	            2 * R * D * 4              data_parallel: dense gradients, and no outputs
//	indices     ceil(B * L) * (8 + 24) + (ceil(B * F) + 1) * 8 [+ ceil(B * L) * 4 if weighted]
//	received    sum of ceil(ceil(B / n) * F) * D over ALL tables * 4   (n > 1)
//	            ceil(B / n) * F * D * 4 more for each block but the first, on every
//	            device, if a plan chose the devices of blocks (Form.Blocks)
//	            2 * ceil(B / n) * features * D * 4 more for each pooled table of a module
//	            one of whose tables has other bags than one a sample, on every device
//	            ceil(B / n * L) * (2 * D * 4 + 40) in the place of the table's part for each table
//	            with IndexDedup, on every device, also for n = 1
//	reserve     Topology.Reserve(device) + Topology.FixedBytes(device)
//
// Of a table with IndexDedup, all lines of a shard count the lookups that are left: for B samples n
// times the distinct rows of a device's part (dedup.go).
//
// The line indices holds the 64-bit row indices and bag offsets of the batch, and the
// buffers in which the exact backward sorts the indices: a pair (64-bit key, 32-bit bag)
// for each lookup, twice, because a radix sort does not write over its input. The line
// received holds the pooled vectors that a device receives for its own samples. It depends on
// the placement in one case: of a slice whose blocks of rows lie on devices of the plan's choice,
// a device receives a vector from each block (ReceivedOf).
//
// The vectors' lines are what TorchRec allocates in a training step on CPUs, as
// python/tests/test_torchrec_memory.py measures with 1, 2 and 4 processes. With O for the
// outputs of a device and V for the line received, the live bytes are
//
//	2 * O + V   in the forward all-to-all: outputs, their copy to be sent, room to receive
//	2 * V       after it: what was received, by device, and joined by sample
//	3 * V       before the backward all-to-all: the gradient that the dense part returns,
//	            its parts by device, and the parts joined to be sent
//	2 * V + O   in the backward all-to-all: the gradient, what is sent, room to receive
//	O           in the backward of the lookups
//
// Vectors that are not pooled (PoolingNone) have other lines in the backward. They are sent as
// they lie, and what comes back is sorted into the order of the lookups:
//
//	2 * O + V   in the forward all-to-all: vectors, the same sorted by device, room to receive
//	2 * V       after it, if blocks of rows sent them: what was received, and in the order of the
//	            lookups. V otherwise
//	3 * V       before the backward all-to-all: the vectors, which the dense part keeps, their
//	            gradients by feature, and those joined
//	V + 2 * O   after it: what was sent, what came back, and the same sorted
//
// so their peak is in the forward, too, for O >= V; a device with fewer outputs takes up to
// 2 * V - 2 * O more than its lines, and BackwardRoom holds V of it.
//
// The lookups of a block of rows are those of the block that holds the most used row, by the
// table's accesses (blocks.go), as cost models count them. Which block that is, a plan cannot know,
// so each block has room for them.
//
// With deduplicated indices, a device has two vectors for each lookup of its own samples before the
// backward all-to-all: the gradients by feature, and these joined. The expanded vectors and those of
// the exchange are then gone, and the gradients of the exchange not there yet.
//
// A feature with a batch of its own has fewer vectors than the batch has samples. TorchRec then
// gives each sample of the batch a copy of its vector, for all features of the module, and
// puts the columns in their order in another copy: with R for the samples of a device times the
// columns of the module's features,
//
//	V + 2 * R   after the forward all-to-all
//
// when O is free again. The line received counts V + 2 * R, which is enough on every device.
//
// Outputs and gradients never live together, but outputs and their copy do. The mean of O
// over the devices is V, and a device with O >= V has its peak in the forward. A device
// with O >= V / 2 takes no more in the backward than its lines say, if the dense part's own
// gradient of V bytes is left to the reserve. With fewer outputs a device may take up to
// BackwardRoom more; plans leave that room if the tables still fit. The gradients of a
// data_parallel table live twice, as autograd's tensor and in the bucket of the all-reduce.

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

// Memory is the bytes of one shard, or of all shards of a device, line by line.
type Memory struct {
	Weights   unit.Bytes `json:"weights_bytes"`
	Optimizer unit.Bytes `json:"optimizer_bytes"`
	Outputs   unit.Bytes `json:"outputs_bytes"`
	Gradients unit.Bytes `json:"gradients_bytes"`
	Indices   unit.Bytes `json:"indices_bytes"`
	// Cache is the bytes of device memory that cache rows of host memory.
	Cache unit.Bytes `json:"cache_bytes,omitempty"`
	// Received and Reserve belong to a device, not to a shard (but see Problem.ReceivedOf).
	Received unit.Bytes `json:"received_bytes"`
	Reserve  unit.Bytes `json:"reserve_bytes"`
	// Host is the bytes in host memory, which do not count against the device's memory.
	Host unit.Bytes `json:"host_bytes,omitempty"`
}

// Tables returns the bytes of device memory that shards take: all lines except Received,
// Reserve and Host.
func (m Memory) Tables() unit.Bytes {
	return m.Weights + m.Optimizer + m.Outputs + m.Gradients + m.Indices + m.Cache
}

// Total returns the bytes of device memory: all lines except Host.
func (m Memory) Total() unit.Bytes { return m.Tables() + m.Received + m.Reserve }

// Add returns the line-wise sum of m and o.
func (m Memory) Add(o Memory) Memory {
	m.Weights += o.Weights
	m.Optimizer += o.Optimizer
	m.Outputs += o.Outputs
	m.Gradients += o.Gradients
	m.Indices += o.Indices
	m.Cache += o.Cache
	m.Host += o.Host
	m.Received += o.Received
	m.Reserve += o.Reserve
	return m
}

// ShardMemory returns the bytes that shard s takes on its device, and in the memory of
// its host. The problem must be valid.
func (p *Problem) ShardMemory(s Shard) Memory {
	t := &p.Tables[s.Table]
	rows, dim := s.Rows.Len(), int64(s.Dim())
	if p.Accounting == CountWeights {
		weights := unit.Bytes(rows * dim * FP32.Bytes())
		switch s.Tier {
		case Host:
			return Memory{Host: weights}
		case HostCached:
			return Memory{Host: weights, Cache: unit.Bytes(CachedRows(rows, s.Cache) * dim * FP32.Bytes())}
		}
		return Memory{Weights: weights}
	}
	if r, ok := p.Accounting.TorchRec(); ok {
		return torchRecMemory(p, s, r)
	}
	batch := int64(p.Batch)
	if s.ShardingType == DataParallel {
		batch = p.localBatch()
	}
	lookups := math.Ceil(float64(batch) * exchanged(p, t))
	if p.ByRows(s) {
		lookups = math.Ceil(lookups * p.blockShare(t, rows))
	}
	n := int64(lookups)
	vectors := n
	if t.Pooling != PoolingNone {
		vectors = t.vectors(batch)
	}
	m := Memory{
		Weights:   unit.Bytes(rows * dim * t.Precision.Bytes()),
		Optimizer: unit.Bytes(t.Optimizer.StateBytes(rows, int(dim))),
		Outputs:   unit.Bytes(vectors * dim * OutputBytes),
		Gradients: unit.Bytes(vectors * dim * OutputBytes),
		Indices:   unit.Bytes(n*(IndexBytes+sortPairBytes) + (vectors+1)*IndexBytes),
	}
	if t.Weighted {
		m.Indices += unit.Bytes(n * weightBytes)
	}
	if s.ShardingType == DataParallel {
		m.Outputs, m.Gradients = 0, unit.Bytes(2*rows*dim*OutputBytes)
	}
	if s.Tier.OnHost() {
		m.Host = m.Weights + m.Optimizer
		m.Weights, m.Optimizer = 0, 0
		if s.Tier == HostCached {
			cached := CachedRows(rows, s.Cache)
			m.Cache = unit.Bytes(cached*(dim*t.Precision.Bytes()+cacheSlotBytes) + t.Optimizer.StateBytes(cached, int(dim)) + cacheRowBytes*rows)
		}
	}
	return m
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

// DeviceMemory returns the lines of a device's memory that do not depend on the
// placement: Received and Reserve.
func (p *Problem) DeviceMemory(device int) Memory {
	m := Memory{Reserve: p.Reserved(device)}
	if p.Accounting == CountAll {
		m.Received = p.received() + p.copied() + expanded(p)
	}
	return m
}

// Reserved returns the Reserve of a device's memory: what its topology keeps free, and fixed loads.
func (p *Problem) Reserved(device int) unit.Bytes {
	return p.Topology.Reserve(device) + p.Topology.FixedBytes(device)
}

// received returns the bytes of the vectors that a device receives from other devices and itself
// for its own samples.
func (p *Problem) received() unit.Bytes {
	if p.Topology.Devices == 1 {
		return 0
	}
	elements, samples := int64(0), p.localBatch()
	for i := range p.Tables {
		if t := &p.Tables[i]; !t.IndexDedup { // expanded counts the others
			elements += int64(t.Dim) * t.vectors(samples)
		}
	}
	return unit.Bytes(elements * OutputBytes)
}

// copied returns the bytes of the copies that give each sample a vector of each feature, in
// modules with features of batches of their own.
func (p *Problem) copied() unit.Bytes {
	several := map[string]bool{}
	for i := range p.Tables {
		if t := &p.Tables[i]; t.Pooling != PoolingNone && !t.OneBag() {
			several[t.Module] = true
		}
	}
	columns := int64(0)
	for i := range p.Tables {
		if t := &p.Tables[i]; t.Pooling != PoolingNone && several[t.Module] {
			columns += int64(t.Dim) * int64(len(t.Features))
		}
	}
	return unit.Bytes(2 * p.localBatch() * columns * OutputBytes)
}

// ReceivedOf returns the bytes that every device receives because of shard s, beyond those that
// DeviceMemory counts: the pooled vectors of a block of rows that is not the first of its slice,
// if a plan chose the devices of the blocks. It is 0 for all other shards.
func (p *Problem) ReceivedOf(s Shard) unit.Bytes {
	if s.Blocks == 0 || s.Rows.Start == 0 || p.Accounting != CountAll || p.Topology.Devices == 1 {
		return 0
	}
	return unit.Bytes(p.Tables[s.Table].vectors(p.localBatch()) * int64(s.Dim()) * OutputBytes)
}

// BackwardRoom returns the bytes that a device without pooled vectors of its own takes in
// the backward all-to-all beyond the lines of its memory: as much as it receives. It is 0 unless
// all lines are counted.
func (p *Problem) BackwardRoom() unit.Bytes {
	if p.Accounting != CountAll {
		return 0
	}
	return p.received()
}

// LeavesBackwardRoom reports whether each device of a placement has the part of BackwardRoom free that it needs: nothing
// if its outputs take the bytes that it receives or more, and all of the room if they take half of them or less.
func (p *Problem) LeavesBackwardRoom(shards [][]Shard) bool {
	for device, held := range shards {
		m := p.DeviceMemory(device)
		for _, s := range held {
			m = m.Add(p.ShardMemory(s))
			m.Received += p.ReceivedOf(s)
		}
		need := min(max(0, 2*(p.BackwardRoom()-m.Outputs)), p.BackwardRoom())
		if m.Total()+need > p.Topology.DeviceMemory(device) {
			return false
		}
	}
	return true
}

// ShardBudget returns the bytes that the shards of a device may take: the device's memory minus
// DeviceMemory. If it is not above 0 for any device, no placement fits.
func (p *Problem) ShardBudget(device int) unit.Bytes {
	return p.Topology.DeviceMemory(device) - p.DeviceMemory(device).Total()
}

// LargestBudget returns the ShardBudget of the device with the most memory.
func (p *Problem) LargestBudget() unit.Bytes { return p.ShardBudget(p.Topology.Largest()) }
