// Package torchrec estimates placements as TorchRec's planner does: by the closed
// formulas of its EmbeddingPerfEstimator, with its default bandwidths or
// those of the topology. The search can then minimise the same cost as TorchRec's own planner, and any plan can be rated as
// that planner rates it.
//
// The formulas and constants are those of a release of TorchRec, to the rounding of float64
// (testdata/estimator*.json holds the real packages' results). problem.TorchRecRelease says in
// what releases differ. A problem's device profile, its rows' use counts and its optimizers do not
// matter to the formulas, and they leave out fusion, launches and waiting. docs/SEARCH.md says how
// far to trust them.
//
// With W devices, L a host, M in a pod (TorchRecRelease.TimePod), G pods (TimePods),
// B = batch / W samples a device, a table of F features with pooling factors p, a
// shard with d of its columns of e bytes each:
//
//	I = sum of p * B        lookups of one device's samples
//	O = F * B               vectors of one device's samples: F is the bags of a sample that the
//	                        release counts (TorchRecRelease.Bags), and
//	                        without pooling O is I. A feature with a batch of its own, of b
//	                        samples a device, has b in the place of B
//	c                       bytes of an element that travels: those of the problem's
//	                        CommPrecision, or e where that is fp32, the default
//	net(w, l)               intra-host bandwidth if w <= l, else inter-host; a topology that
//	                        states its network replaces inter-host
//	BW                      bandwidth of the kernel: HBM's, a tenth of the host link's for rows
//	                        in host memory, and a tenth of both, weighted by the cache share,
//	                        for cached rows, or HBM's if they are prefetched
//
// the forward computes (input + lookup + output) * penalty / BW, the backward twice
// that. Weighted lookups add 1.1 times the forward to the backward. If the topology states
// Multipliers, Backward takes the place of the 2, and WeightedBackward multiplies the backward of
// weighted lookups before the 1.1 are added. A weighted input counts twice. An exchange takes its bytes / bandwidth, and copying adds 2.455 * output / BW.
//
//	table_wise, column_wise   input 8 I W, lookup I W max(d, 32) e, output O W d c
//	                          penalty 1 where d >= 128, 1.15 where d >= 64, else 1.75
//	                          each way: output / net(W, L)
//	row_wise                  input 8 I, lookup I d e, output O W d c, no penalty; without
//	                          pooling, output O d c
//	                          forward: output / net(W, L); backward: that and copying
//	table_row_wise, grid      input 8 I W/M, lookup I W/M d e, output O W d c, no penalty
//	                          each way: output / net(M, L), and O G d c / net(G, 1) if G > 1;
//	                          backward: and copying
//	data_parallel             input 8 I, lookup I d e, output O d e, no penalty
//	                          backward, with T = rows * d * e and n = min(W/L, 2):
//	                          T (2n - 1) / n / (inter L), twice that if W > 2 L,
//	                          and 9.22 T / BW
//
// A device takes the sum of its shards' times, and a plan the time of its slowest
// device.
//
// Estimates holds the times of a problem's slices (estimates.go), and Scorer a placement of them
// (scorer.go), in sums that do not depend on the order of adding (sum.go).
package torchrec

import (
	"cmp"
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TorchRec's default bandwidths, in bytes a millisecond as it keeps them: a number of
// GiB by a second of 1000 milliseconds.
const (
	gibPerSecond = float64(1<<30) / 1000

	// Unless the topology states others:
	defaultHBM      = 897 * gibPerSecond
	defaultHostLink = 32 * gibPerSecond // between HBM and the host's memory
	defaultIntra    = 600 * gibPerSecond
	inter           = 12.5 * gibPerSecond
)

// TorchRec's other constants.
const (
	indexBytes      = 8
	narrowestLookup = 32 // columns
	copyFactor      = 2.455
	backwardFactor  = 2 // unless the topology states another
	weightedFactor  = 1.1
	denseFactor     = .5 // of HBM's bandwidth, for the kernel of replicated tables
	elementwise     = 9.22
	hostPenalty     = 10 // of kernels that read the host's memory
)

// Estimate is TorchRec's estimate of the time of one shard in a step.
type Estimate struct {
	// Forward and Backward are the times of the lookups and the update, ForwardComm and
	// BackwardComm the times of the exchanges.
	Forward, ForwardComm, BackwardComm, Backward unit.Millis
}

// Total returns the shard's part of its device's time.
func (e Estimate) Total() unit.Millis { return e.Forward + e.Backward + e.ForwardComm + e.BackwardComm }

// estimator holds what the shards of one problem have in common.
type estimator struct {
	problem            *problem.Problem
	devices, perHost   float64
	pod, pods          float64 // M and G
	replicaHosts       float64 // n in the formula of replicated tables
	local              float64 // B
	between            float64 // bandwidth between hosts
	intra, hbm, host   float64 // bandwidths inside hosts, of HBM and to the host's memory
	exchange           float64 // net(W, L)
	inPod, betweenPods float64 // net(M, L) and net(G, 1)
	backward, weighted float64 // the Multipliers of the topology, or TorchRec's defaults
	commBytes          float64 // 0: as the weights
	tables             []usage
}

// usage is what one device's samples do with a table.
type usage struct{ inputs, outputs float64 }

func newEstimator(p *problem.Problem, r problem.TorchRecRelease) *estimator {
	n, l := p.Topology.Devices, p.Topology.PerHost()
	e := &estimator{
		problem: p, devices: float64(n), perHost: float64(l),
		pod: float64(r.TimePod(p.Topology)), pods: r.TimePods(p.Topology),
		local:  float64(p.Batch) / float64(n),
		tables: make([]usage, len(p.Tables)),
	}
	stated := p.Topology.Bandwidths
	e.intra = orDefault(stated.Links, defaultIntra)
	e.hbm, e.host = orDefault(stated.HBM, defaultHBM), orDefault(stated.HostLink, defaultHostLink)
	e.backward = cmp.Or(p.Topology.Multipliers.Backward, backwardFactor)
	e.weighted = cmp.Or(p.Topology.Multipliers.WeightedBackward, 1)
	e.between = orDefault(p.Topology.NetworkBandwidth, inter)
	e.exchange = e.net(e.devices, e.perHost)
	e.inPod = e.net(e.pod, e.perHost)
	e.betweenPods = e.net(math.Floor(e.pods), 1)
	e.replicaHosts = min(e.devices/e.perHost, 2)
	if p.CommPrecision != problem.FP32 {
		e.commBytes = float64(p.CommBytes())
	}
	for i := range p.Tables {
		u := &e.tables[i]
		t := &p.Tables[i]
		for _, f := range t.Features {
			u.inputs += float64(f.PoolingFactor * e.local) // rounded before it is added
			u.outputs += float64(r.Bags(&f) * e.local)
		}
		if t.Pooling == problem.PoolingNone {
			u.outputs = u.inputs
		}
	}
	return e
}

// net returns the bandwidth of an exchange of w devices, l of them on a host.
func (e *estimator) net(w, l float64) float64 {
	if w <= l {
		return e.intra
	}
	return e.between
}

// orDefault returns a bandwidth in bytes a millisecond; 0 stands for the default one.
func orDefault(stated unit.Bandwidth, usual float64) float64 {
	if stated == 0 {
		return usual
	}
	return float64(stated) / 1000
}

// kernel returns the bandwidth of the kernel that the lookups of a table's shard run in.
func (e *estimator) kernel(t *problem.Table, shardingType problem.ShardingType, tier problem.Tier, cache float64) float64 {
	switch {
	case shardingType == problem.DataParallel:
		return denseFactor * e.hbm
	case tier == problem.Host:
		return e.host / hostPenalty
	case tier == problem.HostCached && !t.Prefetch:
		return (cache*e.hbm + (1-cache)*e.host) / hostPenalty
	}
	return e.hbm
}

// penalty returns TorchRec's penalty for slices narrower than a block of threads.
func penalty(dim int) float64 {
	switch {
	case dim >= 128:
		return 1
	case dim >= 64:
		return 1.15
	}
	return 1.75
}

// shard returns the estimate of a shard of the table with dim columns. The number of
// its rows matters only for replicas, which hold all rows.
func (e *estimator) shard(table, dim int, shardingType problem.ShardingType, tier problem.Tier, cache float64) Estimate {
	t, u := &e.problem.Tables[table], e.tables[table]
	width, weight := float64(dim), float64(t.Precision.Bytes())
	comm := weight
	if e.commBytes > 0 {
		comm = e.commBytes
	}
	bandwidth := e.kernel(t, shardingType, tier, cache)

	// number of devices whose samples the shard serves as if it held all rows
	served, wide, penalised := e.devices, width, 1.0
	inputs := u.inputs
	outputs := u.outputs
	if t.Pooling == problem.PoolingNone && shardingType == problem.RowWise {
		outputs /= e.devices
	}
	output := outputs * e.devices * width * comm
	switch shardingType {
	case problem.RowWise:
		inputs /= e.devices
	case problem.TableRowWise, problem.Grid:
		inputs /= e.pod
	case problem.DataParallel:
		served = 1
		output = u.outputs * width * weight
	default:
		wide, penalised = max(width, narrowestLookup), penalty(dim)
	}
	input := math.Ceil(inputs * served * indexBytes)
	if t.Weighted {
		input *= 2
	}
	forward := (input + inputs*served*wide*weight + output) * penalised / bandwidth
	backward := e.backward * forward
	if t.Weighted {
		backward = backward*e.weighted + weightedFactor*forward
	}

	var there, back float64
	switch shardingType {
	case problem.RowWise:
		there = output / e.exchange
		back = there + output*copyFactor/bandwidth
	case problem.TableRowWise, problem.Grid:
		there = output / e.inPod
		if e.pods > 1 {
			there += u.outputs * e.pods * width * comm / e.betweenPods
		}
		back = there + output*copyFactor/bandwidth
	case problem.DataParallel:
		bytes := float64(t.Rows) * width * weight
		back = bytes * (2*e.replicaHosts - 1) / e.replicaHosts / (e.between * e.perHost)
		if e.devices > 2*e.perHost {
			back *= 2
		}
		back += bytes * elementwise / bandwidth
	default:
		there = output / e.exchange
		back = there
	}
	return Estimate{
		Forward: unit.Millis(forward), ForwardComm: unit.Millis(there),
		BackwardComm: unit.Millis(back), Backward: unit.Millis(backward),
	}
}

// of returns the estimate of a shard of the problem.
func (e *estimator) of(s problem.Shard) Estimate {
	shardingType := s.ShardingType
	if shardingType == "" && e.problem.ByRows(s) {
		shardingType = problem.RowWise
	}
	return e.shard(s.Table, s.Dim(), shardingType, s.Tier, s.Cache)
}
