package problem

import (
	"math"
	"math/bits"

	"github.com/neuroshard/neuroshard/unit"
)

// torchrec.go counts the bytes of shards as the EmbeddingStorageEstimator of a release of TorchRec
// does (testdata/storage*.json holds the real packages' results; release.go says in what the
// releases differ). With B samples a device, W devices and L of them in a pod (TorchRecRelease.MemoryPod), and
// for a table of R rows and D columns of e bytes, whose features have pooling factors that add up
// to P, and F bags a sample that are not empty (TorchRecRelease.Bags), a shard of r rows and d
// columns takes
//
//	weights     r d e                           R D e for a replica
//	optimizer   weights * 0, 1 / D, 1 or 2      SGD, row-wise Adagrad, Adagrad, Adam
//	inputs      B P W * 8                       / L for table_row_wise and grid, / W for a
//	                                            replica; 8 bytes for a lookup
//	outputs     B F W d o                       / W for a replica; under PoolingNone, the
//	                                            inputs' lookups in the place of B F W; o is
//	                                            the bytes of a number of the vectors: e, or
//	                                            those of the table's OutputPrecision
//	cache       the weights and optimizer of a share c of the rows, and r (4 + 16 c)
//
// each rounded up. A feature with a batch of its own has its samples in the place of B. With a tier
// on the host, weights and optimizer are bytes of host memory.
// TorchRec counts no gradients and no buffers that receive vectors: its reserve must hold them.

// torchRecMemory returns the bytes that a release of TorchRec counts for shard s. Memory.Indices
// has the inputs.
func torchRecMemory(p *Problem, s Shard, r TorchRecRelease) Memory {
	t := &p.Tables[s.Table]
	inputs, outputs := torchRecSizes(p, s, r)
	m := Memory{Indices: unit.Bytes(math.Ceil(inputs)), Outputs: unit.Bytes(math.Ceil(outputs))}
	rows, dim := s.Rows.Len(), int64(s.Dim())
	storage := t.Rows * int64(t.Dim) * t.Precision.Bytes()
	weights := storage
	if s.ShardingType != DataParallel {
		weights = rows * dim * t.Precision.Bytes()
	}
	state := torchRecState(t, weights)
	switch s.Tier {
	case Host, HostCached:
		m.Host = unit.Bytes(weights + state)
	default:
		m.Weights, m.Optimizer = unit.Bytes(weights), unit.Bytes(state)
	}
	if s.Tier == HostCached {
		all := int64(math.RoundToEven(float64(storage) * s.Cache))
		cached := ceilQuotient(uint64(all), uint64(rows*dim), uint64(t.Rows)*uint64(t.Dim))
		held := math.Ceil(float64(rows) * (cacheRowBytes + float64(s.Cache*cacheSlotBytes)))
		m.Cache = unit.Bytes(cached + torchRecState(t, cached) + int64(held))
	}
	return m
}

// torchRecSizes returns the bytes of a shard's inputs and outputs, before they are rounded.
// The operations come in TorchRec's order, because the results are rounded up.
func torchRecSizes(p *Problem, s Shard, r TorchRecRelease) (inputs, outputs float64) {
	t := &p.Tables[s.Table]
	devices := float64(p.Topology.Devices)
	local := float64(p.Batch) / devices
	for i := range t.Features {
		f := &t.Features[i]
		inputs += float64(f.PoolingFactor * local)
		outputs += float64(r.Bags(f) * local)
	}
	served := devices
	switch {
	case s.ShardingType == DataParallel:
		served = 1
	case s.ShardingType.Span() == OneHost:
		inputs /= float64(r.MemoryPod(p.Topology))
	case p.ByRows(s):
		inputs /= devices
	}
	if t.Pooling == PoolingNone {
		outputs = inputs
	}
	return inputs * served * IndexBytes, outputs * served * float64(s.Dim()) * float64(t.OutputPrecision.Of(t.Precision).Bytes())
}

// torchRecState returns the bytes of optimizer state that TorchRec counts for weights of that
// number of bytes.
func torchRecState(t *Table, weights int64) int64 {
	factor := 1.0
	switch t.Optimizer {
	case SGD:
		return 0
	case RowwiseAdagrad:
		factor = 1 / float64(t.Dim)
	case Adam:
		factor = 2
	}
	return int64(math.Ceil(float64(weights) * factor))
}

// ceilQuotient returns a * b / c, rounded to a float64 and then up, for b at most c.
func ceilQuotient(a, b, c uint64) int64 {
	high, low := bits.Mul64(a, b)
	whole, rest := bits.Div64(high, low, c)
	return int64(math.Ceil(float64(whole) + float64(rest)/float64(c)))
}
