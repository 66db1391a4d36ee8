package searchtest

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Case is a problem that every implementation of search.Scorer is run on.
type Case struct {
	// Name describes the shape of the cluster.
	Name string
	// Problem is valid and belongs to the caller.
	Problem *problem.Problem
}

// Cases returns the problems that Conform is run on. Their tables have all optimizers
// and precisions, are narrow and wide, are read by one feature and by several, are
// weighted or not, have no lookups, or have fewer rows than there are devices; a table has
// several bags, another less than one, and one is of pooling none. Their clusters have all
// shapes, with devices of the profile, with and without host memory.
// The problems are new for each call, so the caller may change them.
func Cases(profile hardware.Profile) []Case {
	var all []Case
	for _, c := range []struct {
		name             string
		devices, perHost int
		domain           int
		host             unit.Bytes
		comm             problem.Precision
	}{
		{"one device", 1, 0, 0, 0, problem.FP32},
		{"one device, host memory", 1, 0, 0, unit.TiB, problem.FP32},
		{"one host", 4, 0, 0, 0, problem.FP32},
		{"one host, host memory", 4, 0, 0, unit.TiB, problem.FP32},
		{"two hosts, host memory", 8, 4, 0, unit.TiB, problem.FP32},
		{"two hosts, fp16", 8, 4, 0, unit.TiB, problem.FP16},
		{"three hosts, one partial", 5, 2, 0, unit.TiB, problem.FP32},
		{"hosts of one device", 3, 1, 0, 0, problem.FP32},
		{"two NVLink domains of two hosts", 8, 2, 4, 0, problem.FP32},
		{"one NVLink domain of two hosts", 4, 2, 72, 0, problem.FP32},
	} {
		all = append(all, Case{c.name, &problem.Problem{
			Tables:        caseTables(),
			Topology:      hardware.Topology{Profile: profile, Devices: c.devices, DevicesPerHost: c.perHost, NVLinkDomain: c.domain, HostMemory: c.host, ReserveShare: hardware.NoReserve},
			Batch:         8192,
			CommPrecision: c.comm,
		}})
	}
	// Where devices differ in memory, costs do not.
	last := Case{"uneven devices of two hosts, host memory", &problem.Problem{Tables: caseTables(), Batch: 8192, Topology: all[4].Problem.Topology}}
	last.Problem.Topology.DeviceMemories = []unit.Bytes{40 * unit.GiB, 80 * unit.GiB, 80 * unit.GiB, 24 * unit.GiB, 80 * unit.GiB, 80 * unit.GiB, 40 * unit.GiB, 40 * unit.GiB}
	last.Problem.Topology.HostMemory, last.Problem.Topology.HostMemories = 0, []unit.Bytes{unit.TiB, unit.TiB / 2}
	return append(all, last)
}

func caseTables() []problem.Table {
	read := func(pooling ...float64) (features []problem.Feature) {
		for _, f := range pooling {
			features = append(features, problem.Feature{PoolingFactor: f})
		}
		return features
	}
	zipf := func(exponent float64) access.Distribution {
		return access.Distribution{Kind: access.Zipf, Exponent: exponent}
	}
	return []problem.Table{
		{Name: "narrow", Rows: 50_000, Dim: 4, Features: read(30), Access: zipf(1.1)},
		{Name: "wide", Rows: 1_000_000, Dim: 256, Features: read(3), Access: zipf(.9), Optimizer: problem.RowwiseAdagrad},
		{Name: "two features", Rows: 200_000, Dim: 64, Features: read(8, .4), Access: zipf(1.3)},
		{Name: "three rows", Rows: 3, Dim: 16, Features: read(1), Access: zipf(1)},
		{Name: "no lookups", Rows: 10_000, Dim: 32, Features: read(0), Access: zipf(1)},
		{Name: "adam", Rows: 80_000, Dim: 128, Features: read(12), Access: zipf(1.6), Optimizer: problem.Adam},
		{Name: "weighted", Rows: 30_000, Dim: 48, Features: read(20), Access: zipf(1.05), Optimizer: problem.Adagrad, Weighted: true},
		{Name: "half", Rows: 400_000, Dim: 32, Features: read(50), Access: zipf(1.2), Precision: problem.FP16},
		{Name: "bags", Rows: 60_000, Dim: 24, Features: []problem.Feature{{PoolingFactor: 12, LengthCV: .3, Bags: 2.5}, {PoolingFactor: 1}}, Access: zipf(1.15)},
		{Name: "a batch of its own", Rows: 9_000, Dim: 16, Features: []problem.Feature{{PoolingFactor: .6, Bags: .25}}, Access: zipf(1)},
		{Name: "sequence", Rows: 70_000, Dim: 64, Features: read(40, .5), Pooling: problem.PoolingNone, Access: zipf(1.05), Optimizer: problem.RowwiseAdagrad},
		{Name: "deduplicated", Rows: 70_000, Dim: 64, Features: read(30, 8), Pooling: problem.PoolingNone, IndexDedup: true, Access: zipf(1.05), Optimizer: problem.RowwiseAdagrad},
		{Name: "pooled after the exchange", Rows: 2_000, Dim: 32, Features: []problem.Feature{{PoolingFactor: 6, Bags: 1.5}, {PoolingFactor: 1}}, IndexDedup: true, Access: zipf(1.05), Weighted: true, Optimizer: problem.Adagrad},
		{Name: "unlike reads", Rows: 5_000, Dim: 8, Features: read(2), Access: access.Distribution{Kind: access.Uniform}},
	}
}
