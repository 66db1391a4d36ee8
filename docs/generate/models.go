package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
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

// cut halves the columns of each table until no slice has more cells than most.
func cut(p *problem.Problem, most float64) (parts []step.Holding) {
	for i := range p.Tables {
		t := &p.Tables[i]
		n := 1
		for float64(t.Rows)*float64(t.Dim)/float64(n) > most && t.Dim/n%(2*problem.ColumnGranule) == 0 {
			n *= 2
		}
		for range n {
			parts = append(parts, step.Holding{Table: i, Width: t.Dim / n})
		}
	}
	return parts
}

// deal gives the slices to the devices, those of the most cells first: forth over all devices
// and back again, so that all devices hold equal numbers of slices. NVIDIA's
// distributed-embeddings calls it memory_balanced; for equal tables it is any planner's.
func deal(p *problem.Problem, parts []step.Holding) [][]problem.Shard {
	cells := func(h step.Holding) float64 { return float64(p.Tables[h.Table].Rows) * float64(h.Width) }
	slices.SortStableFunc(parts, func(a, b step.Holding) int { return cmp.Compare(cells(b), cells(a)) })
	devices := p.Topology.Devices
	for i := range parts {
		device := i % (2 * devices)
		parts[i].Device = min(device, 2*devices-1-device)
	}
	return must(step.Place(p, parts))
}
