package cost_test

import (
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// TestChosenBlocksAreTables: a block of rows on a chosen device is estimated as a slice of columns
// of the table that the block is to the device, and its columns count on each device that holds a
// block.
func TestChosenBlocksAreTables(t *testing.T) {
	model, _ := load(t)
	p := problem.Deduplicated(readOnOneHost(t))
	blocks := *p
	blocks.Tables = make([]problem.Table, len(p.Tables))
	for i := range p.Tables {
		blocks.Tables[i] = problem.BlockOf(p, i, 3)
	}
	var chosen, tables [][]problem.Shard
	for d := range p.Topology.Devices {
		var held, whole []problem.Shard
		for i := range p.Tables {
			if k := d - i%2; k >= 0 && k < 3 && p.Tables[i].CutsByRows(3) {
				s, rows := p.Whole(i), p.Tables[i].BlockRows(3)
				s.ShardingType, s.Blocks = problem.RowWise, 3
				s.Rows = problem.Range{Start: int64(k) * rows, End: min(p.Tables[i].Rows, int64(k+1)*rows)}
				held, whole = append(held, s), append(whole, blocks.Whole(i))
			}
		}
		chosen, tables = append(chosen, held), append(tables, whole)
	}
	got, want := newEstimates(t, model, p).Price(chosen), newEstimates(t, model, &blocks).Price(tables)
	if !near(float64(got.Cost), float64(want.Cost), 1e-4) || got.Cost == 0 {
		t.Errorf("got cost %v, want %v", got.Cost, want.Cost)
	}
	for d := range got.Devices {
		if !near(float64(got.Devices[d].Forward), float64(want.Devices[d].Forward), 1e-3) || !near(float64(got.Devices[d].BackwardComm), float64(want.Devices[d].BackwardComm), 1e-9) {
			t.Errorf("device %d: got %+v, want %+v", d, got.Devices[d], want.Devices[d])
		}
	}
}

// readOnOneHost returns a problem of tables that are read, on one host of four devices.
func readOnOneHost(t *testing.T) *problem.Problem {
	p := *formProblems(t)["one host"]
	p.Topology = hardware.Topology{Profile: p.Topology.Profile, Devices: 4}
	p.Tables = slices.DeleteFunc(slices.Clone(p.Tables), func(t problem.Table) bool { return t.PoolingFactor() == 0 })
	return &p
}
