package problem

import (
	"math"
	"strings"

	"github.com/neuroshard/neuroshard/unit"
)

// phases.go counts the buffers that come and go during a training step. The inputs are
//
//	R   the raw batch of a device: values and lengths of all features
//	Q   the same in the order in which it is sent, values and lengths once for each slice of columns
//	P   the same by blocks of rows, if a table is cut by them: values once, lengths once for each block
//	U   the order of the lookups before that, of sequences
//	X   what the device's shards receive: values and lengths
//	F   what their lookups keep until the backward: values and offsets
//
// The following live in the forward exchange, in the dense forward and in the backward:
//
//	             pooled                                                        sequences have in the place of Q
//	base         R + X + F            R + F              F                     Q + U          U            U
//	sparse-dist  3 R + 2 Q + 2 X + F  3 R + Q + X + F    3 R + Q + X + F       2 (Q + P + U)  Q + P + 2 U  Q + P + 2 U
//	prefetch     3 R + Q + 2 X + F    3 R + Q + 2 X + F  3 R + X + F           2 Q + P + 2 U  Q + P + 2 U  U
//	semi-sync    3 R + 3 Q + 3 X + 2 F, always                                 3 (Q + P + U)
//
// A table that is pooled and cut by rows has P in the place of Q. While the X of the same batch lives, F counts
// no values but under semi-sync, as they are those of X. Sequences keep three times the offsets, four times under semi-sync. Q is
// counted even where the features of a batch are in the order of the plan, which needs no copy: a plan
// does not know that. Semi-sync also keeps the vectors that are trained while those of the next batch come: V of
// pooled tables, with another V of slices of columns in the backward, and 2 V of sequences.

// Phase is a time of a training step at which a device's memory may be the fullest.
type Phase uint8

// The phases, in the order of a step.
const (
	ForwardExchange Phase = iota
	DenseForward
	LossBackward
	BackwardExchange
	LookupsBackward
	// Phases is the number of phases.
	Phases = iota
)

var phaseNames = []string{"forward_exchange", "dense_forward", "loss_backward", "backward_exchange", "lookups_backward"}

// String returns the phase's name as used in files, such as "forward_exchange".
func (f Phase) String() string { return enumName(phaseNames, uint8(f), "Phase") }

// Words returns the phase's name in sentences, such as "forward exchange".
func (f Phase) Words() string { return strings.ReplaceAll(f.String(), "_", " ") }

// MarshalText writes the phase's name.
func (f Phase) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads a name that MarshalText writes.
func (f *Phase) UnmarshalText(text []byte) error {
	i, err := parseEnum(phaseNames, string(text), "phase")
	*f = Phase(i)
	return err
}

// StepMemory is the memory of each phase of a step.
type StepMemory [Phases]Memory

// steady returns the memory of what lives in the whole step.
func steady(m Memory) (all StepMemory) {
	for f := range all {
		all[f] = m
	}
	return all
}

// Add returns the line-wise sum of m and o.
func (m StepMemory) Add(o StepMemory) StepMemory {
	for f := range m {
		m[f] = m[f].Add(o[f])
	}
	return m
}

// Peak returns the phase with the most bytes of device memory, the first of several, and its lines.
func (m StepMemory) Peak() (Phase, Memory) {
	most := ForwardExchange
	for f := range m {
		if m[f].Total() > m[most].Total() {
			most = Phase(f)
		}
	}
	return most, m[most]
}

// Pools returns the bytes that PyTorch's caching allocator is estimated to reserve for the lines on a GPU. It keeps what it
// once took, so its pools count as they are at their fullest. Inputs, copies of them and indices come from streams of their
// own. What goes through the forward exchange is in use on another stream, too, so the host, which runs ahead, does not get
// it back in the same step. Gradients, activations and what sorts lookups take each other's place.
func (m StepMemory) Pools() (all unit.Bytes) {
	sorts := m[LookupsBackward].Indices - m[BackwardExchange].Indices
	m[LookupsBackward].Indices -= sorts
	m[LookupsBackward].Gradients += sorts
	for _, pool := range []func(m *Memory) unit.Bytes{
		func(m *Memory) unit.Bytes { return m.Held() },
		func(m *Memory) unit.Bytes { return m.Inputs },
		func(m *Memory) unit.Bytes { return m.Permuted },
		func(m *Memory) unit.Bytes { return m.Indices },
		func(m *Memory) unit.Bytes { return m.Outputs },
		func(m *Memory) unit.Bytes { return m.Received },
		func(m *Memory) unit.Bytes { return m.Gradients + m.Activations },
	} {
		most := unit.Bytes(0)
		for f := range m {
			most = max(most, pool(&m[f]))
		}
		all += most
	}
	return all
}

// Used returns the bytes of Memory.Used in each phase.
func (m StepMemory) Used() (bytes [Phases]unit.Bytes) {
	for f := range m {
		bytes[f] = m[f].Used()
	}
	return bytes
}

// inputs are the bytes of inputs, or how many of each live: R, Q, P, U, X, and the values and offsets of F.
type inputs struct{ raw, permuted, bucketized, order, received, values, offsets int64 }

// batches says what of several batches lives in the forward exchange, in the dense forward and in the backward.
type batches struct{ exchange, dense, backward inputs }

var pooledBatches = map[Pipeline]batches{
	BasePipeline: {inputs{raw: 1, received: 1, offsets: 1}, inputs{raw: 1, values: 1, offsets: 1}, inputs{values: 1, offsets: 1}},
	SparseDistPipeline: {
		inputs{raw: 3, permuted: 2, bucketized: 2, received: 2, offsets: 1},
		inputs{raw: 3, permuted: 1, bucketized: 1, received: 1, values: 1, offsets: 1},
		inputs{raw: 3, permuted: 1, bucketized: 1, received: 1, values: 1, offsets: 1},
	},
	PrefetchPipeline: {
		inputs{raw: 3, permuted: 1, bucketized: 1, received: 2, offsets: 1},
		inputs{raw: 3, permuted: 1, bucketized: 1, received: 2, offsets: 1},
		inputs{raw: 3, received: 1, values: 1, offsets: 1},
	},
	SemiSyncPipeline: {
		inputs{raw: 3, permuted: 3, bucketized: 3, received: 3, values: 2, offsets: 2},
		inputs{raw: 3, permuted: 3, bucketized: 3, received: 3, values: 2, offsets: 2},
		inputs{raw: 3, permuted: 3, bucketized: 3, received: 3, values: 2, offsets: 2},
	},
}

// sequenceBatches are the Q, P and U of tables whose lookups travel apart (Table.Apart).
var sequenceBatches = map[Pipeline]batches{
	BasePipeline:       {inputs{permuted: 1, order: 1}, inputs{order: 1}, inputs{order: 1}},
	SparseDistPipeline: {inputs{permuted: 2, bucketized: 2, order: 2}, inputs{permuted: 1, bucketized: 1, order: 2}, inputs{permuted: 1, bucketized: 1, order: 2}},
	PrefetchPipeline:   {inputs{permuted: 2, bucketized: 1, order: 2}, inputs{permuted: 1, bucketized: 1, order: 2}, inputs{order: 1}},
	SemiSyncPipeline:   {inputs{permuted: 3, bucketized: 3, order: 3}, inputs{permuted: 3, bucketized: 3, order: 3}, inputs{permuted: 3, bucketized: 3, order: 3}},
}

// batches returns how many batches of the inputs of a table live.
func (p *Problem) batches(t *Table) batches {
	pipeline := p.TrainPipeline()
	b := pooledBatches[pipeline.Kind()]
	if t.Apart() {
		own := sequenceBatches[pipeline.Kind()]
		for _, of := range []struct{ all, own *inputs }{{&b.exchange, &own.exchange}, {&b.dense, &own.dense}, {&b.backward, &own.backward}} {
			of.all.permuted, of.all.bucketized, of.all.order = of.own.permuted, of.own.bucketized, of.own.order
		}
	}
	if pipeline.has(enqueueAfterForward) {
		b.exchange.raw--
	}
	if pipeline.has(freeFeaturesEarly) {
		b.exchange.raw -= 2
		b.dense.raw -= 2
		b.backward.raw -= 2
	}
	if pipeline.has(clearInputs) {
		b.exchange.permuted--
		b.exchange.bucketized--
	}
	return b
}

// at returns the batches of inputs that live in a phase.
func (b *batches) at(f int) inputs {
	switch Phase(f) {
	case ForwardExchange:
		return b.exchange
	case DenseForward:
		return b.dense
	default:
		return b.backward
	}
}

// lines returns the lines of bytes of inputs that live that many times.
func (n inputs) lines(bytes inputs) Memory {
	return Memory{
		Inputs:   unit.Bytes(n.raw * bytes.raw),
		Permuted: unit.Bytes(n.permuted*bytes.permuted + n.bucketized*bytes.bucketized + n.order*bytes.order),
		Indices:  unit.Bytes(n.received*bytes.received + n.values*bytes.values + n.offsets*bytes.offsets),
	}
}

// inputsOf returns the bytes of some lookups of the table and of the lengths of some samples.
func (t *Table) inputsOf(lookups float64, samples int64) (values, lengths int64) {
	each := int64(IndexBytes)
	if t.Weighted {
		each += weightBytes
	}
	return each * int64(lookups), IndexBytes * int64(math.Ceil(float64(samples)*t.Lists()))
}

// shardBuffers returns the buffers that shard s takes on its device.
func (p *Problem) shardBuffers(s Shard) (m StepMemory) {
	t := &p.Tables[s.Table]
	replica, batch := s.ShardingType == DataParallel, int64(p.Batch)
	if replica {
		batch = p.localBatch()
	}
	lookups := math.Ceil(float64(batch) * exchanged(p, t))
	if p.ByRows(s) {
		lookups = math.Ceil(lookups * p.blockShare(t, s))
	}
	values, lengths := t.sent(lookups, batch)
	in := inputs{received: values + lengths, values: values, offsets: lengths + IndexBytes}
	vectors := int64(lookups)
	if !t.Apart() {
		vectors = t.vectors(batch)
	} else {
		in.offsets = 3*lengths + IndexBytes
		if p.TrainPipeline().Kind() == SemiSyncPipeline {
			in.offsets += lengths
		}
	}
	if replica {
		in.received = 0 // it reads the raw batch
	}
	b, out := p.batches(t), unit.Bytes(vectors*int64(s.Dim())*OutputBytes)
	for f := range m {
		m[f] = b.at(f).lines(in)
	}
	m[LookupsBackward].Gradients = out
	if p.Topology.Devices == 1 {
		m[DenseForward].Outputs = out
	}
	m[LookupsBackward].Indices += unit.Bytes(int64(lookups) * sortPairBytes)
	if replica {
		return m
	}
	m[ForwardExchange].Outputs, m[BackwardExchange].Gradients = 2*out, out
	if t.Apart() {
		m[BackwardExchange].Gradients = 2 * out
	} else if p.ByRows(s) {
		m[ForwardExchange].Outputs = out
	}
	if p.encodes() {
		m[ForwardExchange].Outputs = out / 2 * 5
		if t.Apart() {
			m[ForwardExchange].Outputs += out
		}
		m[BackwardExchange].Gradients += out / 2
	}
	if p.TrainPipeline().Kind() == SemiSyncPipeline {
		m[DenseForward].Outputs = m[ForwardExchange].Outputs
		for f := LossBackward; f < Phases; f++ {
			m[f].Outputs += out
		}
	}
	return m
}

// SharedMemory returns the bytes that every device takes because of shard s, wherever s lies, beyond those that
// DeviceMemory counts: the part of its own inputs that it sends to the shard, and the gradients that it sends there. Of a slice
// cut by rows, the first block has what the device sends once. A replica sends nothing.
func (p *Problem) SharedMemory(s Shard) (m StepMemory) {
	if p.Accounting != CountAll || s.ShardingType == DataParallel {
		return m
	}
	t, samples := &p.Tables[s.Table], p.localBatch()
	lookups := math.Ceil(float64(samples) * exchanged(p, t))
	values, lengths := t.sent(lookups, samples)
	in := inputs{permuted: values + lengths}
	if p.ByRows(s) {
		in = inputs{bucketized: lengths}
		if s.Rows.Start == 0 {
			in.bucketized += values
			if t.Apart() {
				in.permuted, in.order = values+lengths, int64(lookups)*IndexBytes
			}
		}
	}
	b := p.batches(t)
	for f := range m {
		m[f] = b.at(f).lines(in)
	}
	if t.Apart() || p.Topology.Devices == 1 {
		return p.reserving(m)
	}
	return p.reserving(m.Add(p.sentGradients(s, unit.Bytes(t.vectors(samples)*int64(s.Dim())*OutputBytes))))
}

// sentGradients returns what SharedMemory counts of gradients of pooled vectors, of a shard for which a device has some bytes
// of vectors.
func (p *Problem) sentGradients(s Shard, vectors unit.Bytes) (m StepMemory) {
	if s.Rows.Start == 0 && s.Dim() < p.Tables[s.Table].Dim && p.TrainPipeline().Kind() == SemiSyncPipeline {
		m[LossBackward].Received = vectors
		m[BackwardExchange].Received = vectors
	}
	if s.Rows.Start == 0 {
		encoded := unit.Bytes(0)
		if p.encodes() {
			encoded = vectors / 2
		}
		m[LossBackward].Gradients, m[BackwardExchange].Gradients = vectors, encoded
		if !p.ByRows(s) {
			m[LossBackward].Gradients += encoded
			m[BackwardExchange].Gradients = vectors - encoded
		}
	} else if s.Blocks > 0 {
		m[ForwardExchange].Received = vectors
		m[LossBackward].Gradients = vectors
		m[BackwardExchange].Gradients = vectors
	}
	return m
}

// encodes reports whether vectors are encoded in two bytes a number before they are sent, which takes another two copies of
// them: one in range of the format, and the encoded one. Under semi-sync this fits in what is counted without.
func (p *Problem) encodes() bool {
	return p.CommPrecision != FP32 && p.Engine != HugeCTR && p.TrainPipeline().Kind() != SemiSyncPipeline
}

// DeviceMemory returns the bytes of a device that do not depend on the placement: the raw
// batches, the vectors that it receives for its own samples, and the reserve.
func (p *Problem) DeviceMemory(device int) StepMemory {
	all := steady(Memory{Reserve: p.Reserved(device)})
	if p.Accounting != CountAll {
		return all
	}
	for i := range p.Tables {
		all = all.Add(p.ownSamples(&p.Tables[i]))
	}
	all[DenseForward].Activations = p.Topology.Activations
	for f := DenseForward; f <= LossBackward; f++ {
		all[f].Received += p.copied()
	}
	all[LossBackward].Gradients += p.ofOneModule()
	return p.reserving(all)
}

// reserving returns m with what the allocator reserves beyond its buffers, rounded up.
func (p *Problem) reserving(m StepMemory) StepMemory {
	for f := range m {
		m[f].Allocator = unit.Bytes(math.Ceil(p.Topology.AllocatorOverhead * float64(m[f].Buffers())))
	}
	return m
}

// ownSamples returns the bytes of a device's own samples in a table, wherever the table lies.
func (p *Problem) ownSamples(t *Table) (m StepMemory) {
	samples, stated, b := p.localBatch(), statedOf(t), p.batches(t)
	lookups := math.Ceil(float64(samples) * stated.PoolingFactor())
	values, lengths := stated.inputsOf(lookups, samples)
	for f := range m {
		m[f] = b.at(f).lines(inputs{raw: values + lengths})
	}
	received := unit.Bytes(0)
	if p.Topology.Devices > 1 {
		received = unit.Bytes(int64(math.Ceil(float64(samples)*bagsOf(p, t))) * int64(t.Dim) * OutputBytes)
	}
	m[ForwardExchange].Received, m[DenseForward].Received, m[LossBackward].Gradients = received, received, 2*received
	if !t.Apart() || t.poolsOwn() {
		m[BackwardExchange].Gradients = received
	}
	if p.encodes() {
		m[ForwardExchange].Received = 0
		if t.Apart() {
			m[LossBackward].Gradients += received / 2
		}
	}
	expanded := received
	if t.IndexDedup {
		m = m.Add(p.deduplication(t, b))
		expanded = unit.Bytes(stated.vectors(samples) * int64(t.Dim) * OutputBytes)
		m[DenseForward].Received, m[LossBackward].Gradients = expanded, 2*expanded
		if t.poolsOwn() {
			m[DenseForward].Received += received
			m[LossBackward].Received = received
		}
	}
	if p.TrainPipeline().Kind() == SemiSyncPipeline {
		kept := received
		if t.Apart() {
			kept = 2 * expanded
			m[LossBackward].Gradients = expanded + received
		}
		m[ForwardExchange].Received += kept
		m[DenseForward].Received = 0
		for f := DenseForward; f < Phases; f++ {
			m[f].Received += received + kept
		}
	}
	return m
}

// ofOneModule returns the bytes of a device's vectors of the module with the most, if several have pooled tables.
func (p *Problem) ofOneModule() (most unit.Bytes) {
	modules := map[string]unit.Bytes{}
	for i := range p.Tables {
		if t := &p.Tables[i]; !t.Apart() && p.Topology.Devices > 1 {
			modules[t.Module] += unit.Bytes(t.vectors(p.localBatch()) * int64(t.Dim) * OutputBytes)
			most = max(most, modules[t.Module])
		}
	}
	if len(modules) < 2 {
		return 0
	}
	return most
}

// copied returns the bytes of the copies that give each sample a vector of each feature, in
// modules with features of batches of their own.
func (p *Problem) copied() unit.Bytes {
	several := map[string]bool{}
	for i := range p.Tables {
		if t := statedOf(&p.Tables[i]); t.Pooling != PoolingNone && !t.OneBag() {
			several[t.Module] = true
		}
	}
	columns := int64(0)
	for i := range p.Tables {
		if t := statedOf(&p.Tables[i]); t.Pooling != PoolingNone && several[t.Module] {
			columns += int64(t.Dim) * int64(len(t.Features))
		}
	}
	return unit.Bytes(2 * p.localBatch() * columns * OutputBytes)
}

// ShardBudget returns the bytes that the shards of a device may take in each phase, without what SharedMemory counts:
// the device's memory minus DeviceMemory. If one is not above 0 for any device, no placement fits.
func (p *Problem) ShardBudget(device int) (budget [Phases]unit.Bytes) {
	for f, m := range p.DeviceMemory(device) {
		budget[f] = p.Topology.DeviceMemory(device) - m.Total()
	}
	return budget
}

// LargestBudget returns the ShardBudget of the device with the most memory.
func (p *Problem) LargestBudget() [Phases]unit.Bytes { return p.ShardBudget(p.Topology.Largest()) }

// FullestPhase returns the phase in which all devices together hold the most bytes if each table lies whole on
// one device. What counts one number of bytes for each shard counts those of this phase: tables that do not fit so do
// not fit.
func (p *Problem) FullestPhase() Phase {
	var all StepMemory
	for f, m := range p.DeviceMemory(0) {
		m.Reserve = 0
		n := unit.Bytes(p.Topology.Devices)
		all[f] = Memory{Weights: n * m.Used()}
	}
	for i := range p.Tables {
		all = all.Add(p.ShardMemory(p.Whole(i)))
	}
	f, _ := all.Peak()
	return f
}
