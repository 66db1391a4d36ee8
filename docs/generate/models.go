package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// equalTables describes tables of one size, each read by one feature with uniform draws.
type equalTables struct {
	count   int
	rows    int64
	dim     int
	pooling float64
}

// tables returns the tables, with SGD.
func (e *equalTables) tables() (all []problem.Table) {
	for i := range e.count {
		name := fmt.Sprintf("t%d", i)
		all = append(all, problem.Table{
			Name: name, Rows: e.rows, Dim: e.dim, Optimizer: problem.SGD,
			Features: []problem.Feature{{Name: name, PoolingFactor: e.pooling}},
			Access:   access.Distribution{Kind: access.Uniform},
		})
	}
	return all
}

// cluster returns devices of a profile with all of their memory for tables.
func cluster(profile hardware.Profile, devices, perHost int) hardware.Topology {
	return hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: min(devices, perHost), ReserveShare: hardware.NoReserve}
}

// held is a shard on a device; device -1 is all devices.
type held struct {
	problem.Shard
	device int
}

// byDevice returns the shards of each device.
func byDevice(p *problem.Problem, parts []held) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for _, h := range parts {
		for d := range shards {
			if d == h.device || h.device < 0 {
				shards[d] = append(shards[d], h.Shard)
			}
		}
	}
	return shards
}

// slicesOf cuts the columns of a table into n equal slices.
func slicesOf(p *problem.Problem, table, n int) (parts []held) {
	width := int64(p.Tables[table].Dim / n)
	for k := range int64(n) {
		s := p.Whole(table)
		s.Columns = problem.Range{Start: k * width, End: (k + 1) * width}
		parts = append(parts, held{Shard: s})
	}
	return parts
}

// cut halves the columns of each table until no slice has more cells than most.
func cut(p *problem.Problem, most float64) (parts []held) {
	for i := range p.Tables {
		t := &p.Tables[i]
		n := 1
		for float64(t.Rows)*float64(t.Dim)/float64(n) > most && t.Dim/n%(2*problem.ColumnGranule) == 0 {
			n *= 2
		}
		parts = append(parts, slicesOf(p, i, n)...)
	}
	return parts
}

// deal gives the slices to the devices, those of the most cells first: forth over all devices
// and back again, so that all devices hold equal numbers of slices. NVIDIA's
// distributed-embeddings calls it memory_balanced; for equal tables it is any planner's.
func deal(p *problem.Problem, parts []held) [][]problem.Shard {
	cells := func(h held) float64 { return float64(p.Tables[h.Table].Rows) * float64(h.Columns.Len()) }
	slices.SortStableFunc(parts, func(a, b held) int { return cmp.Compare(cells(b), cells(a)) })
	devices := p.Topology.Devices
	for i := range parts {
		device := i % (2 * devices)
		parts[i].device = min(device, 2*devices-1-device)
	}
	return byDevice(p, parts)
}
