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

// equalTables describes tables of one size, each read by one feature.
type equalTables struct {
	count     int
	rows      int64
	dim       int
	pooling   float64
	lengthCV  float64
	weighted  bool
	precision problem.Precision
}

// tablesOf returns tables of some sizes with uniform draws.
func tablesOf(optimizer problem.Optimizer, sizes ...equalTables) []problem.Table {
	var tables []problem.Table
	for _, e := range sizes {
		for range e.count {
			name := fmt.Sprintf("t%d", len(tables))
			tables = append(tables, problem.Table{
				Name: name, Rows: e.rows, Dim: e.dim, Weighted: e.weighted, Optimizer: optimizer, Precision: e.precision,
				Features: []problem.Feature{{Name: name, PoolingFactor: e.pooling, LengthCV: e.lengthCV}},
				Access:   access.Distribution{Kind: access.Uniform},
			})
		}
	}
	return tables
}

// cluster returns devices of a profile with all of their memory for tables.
func cluster(profile hardware.Profile, devices, perHost int) hardware.Topology {
	return hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: min(devices, perHost), ReserveShare: hardware.NoReserve}
}

// part is some columns of a table, for the device that is to hold them.
type part struct{ table, width, device int }

// cut halves the columns of each table until no slice has more cells than most.
func cut(p *problem.Problem, most float64) []part {
	var parts []part
	for i := range p.Tables {
		t := &p.Tables[i]
		n := 1
		for float64(t.Rows)*float64(t.Dim)/float64(n) > most && t.Dim/n%(2*problem.ColumnGranule) == 0 {
			n *= 2
		}
		for range n {
			parts = append(parts, part{table: i, width: t.Dim / n})
		}
	}
	return parts
}

// deal gives the slices to the devices, those of the most cells first: forth over all devices
// and back again, so that all devices hold equal numbers of slices. NVIDIA's
// distributed-embeddings calls it memory_balanced; for equal tables it is any planner's.
func deal(p *problem.Problem, parts []part) ([][]problem.Shard, error) {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(float64(p.Tables[parts[b].table].Rows)*float64(parts[b].width), float64(p.Tables[parts[a].table].Rows)*float64(parts[a].width))
	})
	devices := p.Topology.Devices
	for i, at := range order {
		device := i % (2 * devices)
		parts[at].device = min(device, 2*devices-1-device)
	}
	held := make([]step.Holding, len(parts))
	for i, one := range parts {
		held[i] = step.Holding{Table: one.table, Device: one.device, Width: one.width}
	}
	return step.Place(p, held)
}
