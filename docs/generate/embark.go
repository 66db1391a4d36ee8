package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// embark prints the comparison with EMBark (RecSys 2024) of one workload, in Markdown: how many times as long the
// step takes if all tables are table_row_wise, without and with deduplication in the plan. As in HugeCTR's
// benchmarks/embedding_collection, the tables lie on the hosts in turn, and the dense part is that of DLRM-DCNv2.
func embark(name string) {
	p, dense := must(workload.ByName(name)).Problem(), must(step.DenseByName(dcn))
	dense.Vectors, dense.Columns = 0, 0
	in := step.Input{Dense: &dense, Stack: must(step.StackByName("torchrec-base"))}
	p.Tables = slices.Clone(p.Tables)
	for i := range p.Tables {
		p.Tables[i].ChooseDedup = true
	}
	fmt.Printf("| %s |", name)
	for devices := 8; devices <= 128; devices *= 2 {
		p.Topology = hardware.Topology{Profile: must(hardware.ByName("h100-80")), Devices: devices, DevicesPerHost: 8}
		opt := neuroshard.Options{Step: &in}
		theirs, err := neuroshard.Evaluate(context.Background(), &p, inTurn(&p), opt)
		if err != nil { // they exceed the memory
			fmt.Print(" none |")
			continue
		}
		own, step := must(neuroshard.Plan(context.Background(), &p, opt)), theirs.Step.Times.Step
		fmt.Printf(" %.2f/%.2f |", step/own.Dedup[0].Time, step/own.Step.Times.Step)
	}
	fmt.Println()
}

// inTurn cuts each table by rows over the devices of one host. A table of few rows lies on one device.
func inTurn(p *problem.Problem) [][]problem.Shard {
	perHost, shards := p.Topology.PerHost(), make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		t, first, s := &p.Tables[i], i%p.Topology.Hosts()*perHost, p.Whole(i)
		if !t.CutsByRows(perHost) {
			d := first + i/p.Topology.Hosts()%perHost
			shards[d] = append(shards[d], s)
			continue
		}
		s.ShardingType = problem.TableRowWise
		for d := range perHost {
			rows := t.BlockRows(perHost)
			s.Rows = problem.Range{Start: int64(d) * rows, End: min(t.Rows, int64(d+1)*rows)}
			shards[first+d] = append(shards[first+d], s)
		}
	}
	return shards
}
