package page_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/report/page"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// fixtures_test.go makes up plans. Their times are made up, too, so that no golden file depends
// on a cost model.

// cluster returns a problem of tables with the given names: table i has 1000 (i+1) rows, 32
// columns and 3+i lookups a sample.
func cluster(devices, perHost int, names ...string) *problem.Problem {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := &problem.Problem{Batch: 8192, Topology: hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: perHost, ReserveShare: hardware.DefaultReserveShare}}
	for i, name := range names {
		p.Tables = append(p.Tables, problem.Table{
			Name: name, Rows: int64(1000 * (i + 1)), Dim: 32, Optimizer: problem.RowwiseAdagrad,
			Features: []problem.Feature{{Name: name, PoolingFactor: float64(3 + i)}},
		})
	}
	return p
}

// shard is the shard of table i with all columns, and of the rows the block k of n.
func shard(p *problem.Problem, i, k, n int) problem.Shard {
	t := &p.Tables[i]
	s := p.Whole(i)
	s.Rows = problem.Range{Start: int64(k) * t.BlockRows(n), End: min(t.Rows, int64(k+1)*t.BlockRows(n))}
	return s
}

// columns returns the shard with other columns.
func columns(s problem.Shard, start, end int64) problem.Shard {
	s.Columns = problem.Range{Start: start, End: end}
	return s
}

// typed returns the shard with a sharding type.
func typed(s problem.Shard, k problem.ShardingType) problem.Shard {
	s.ShardingType = k
	return s
}

// planOf returns the plan of shards by device, with made-up times: device d is 1 + d/4 ms busy in
// the lookups.
func planOf(p *problem.Problem, shards [][]problem.Shard) *plan.Plan {
	pl := plan.New(p, shards)
	times := make([]plan.StepTimes, len(pl.Devices))
	last := len(times) - 1
	for d := range times {
		busy := 1 + unit.Millis(d)/4
		times[d] = plan.StepTimes{Forward: busy / 4, Backward: busy * 3 / 4, ForwardComm: 0.5 + unit.Millis(last-d)/4, BackwardComm: 0.5}
	}
	pl.SetBreakdown(plan.NewBreakdown(times))
	pl.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: "1.2.3", Method: "neuroshard", Seed: 7, Status: "complete", Model: "a100-80-0123456789ab",
		ModelSource: plan.Simulated, Input: plan.Digest(p), Warnings: []string{"no batch is stated"},
	}
	return pl
}

// plain returns a plan of whole tables and slices of columns.
func plain() (*plan.Plan, *problem.Problem) {
	p := cluster(2, 2, "whole", "wide", `</script><script>alert("1")</script>`)
	p.Tables[0].Constraint = problem.Constraint{Devices: []int{1}, NoSplit: true}
	return planOf(p, [][]problem.Shard{
		{columns(shard(p, 1, 0, 1), 0, 20), shard(p, 2, 0, 1)},
		{shard(p, 0, 0, 1), columns(shard(p, 1, 0, 1), 20, 32)},
	}), p
}

// forms returns a plan with a table of every sharding type and tier.
func forms() (*plan.Plan, *problem.Problem) {
	p := cluster(4, 2, "whole", "columns", "rows", "host_rows", "grid", "copies", "far", "near")
	p.Topology.HostMemory, p.CommPrecision = unit.GiB, problem.BF16
	far := shard(p, 6, 0, 1)
	far.Tier = problem.Host
	near := shard(p, 7, 0, 1)
	near.Tier, near.Cache = problem.HostCached, 0.25
	all := make([][]problem.Shard, 4)
	put := func(d int, s problem.Shard) { all[d] = append(all[d], s) }
	put(3, shard(p, 0, 0, 1))
	put(0, columns(shard(p, 1, 0, 1), 0, 12))
	put(1, columns(shard(p, 1, 0, 1), 12, 32))
	for d := range 4 {
		put(d, typed(shard(p, 2, d, 4), problem.RowWise))
		put(d, typed(columns(shard(p, 4, d%2, 2), int64(16-d/2*16), int64(32-d/2*16)), problem.Grid))
		put(d, typed(shard(p, 5, 0, 1), problem.DataParallel))
	}
	put(2, typed(shard(p, 3, 0, 2), problem.TableRowWise))
	put(3, typed(shard(p, 3, 1, 2), problem.TableRowWise))
	put(0, far)
	put(1, near)
	return planOf(p, all), p
}

// vectors returns a plan with a table of one bag, one of several bags and one of sequences.
func vectors() (*plan.Plan, *problem.Problem) {
	p := cluster(2, 2, "pooled", "bags", "sequence")
	p.Tables[1].Features[0].Bags = 2.5
	p.Tables[2].Pooling = problem.PoolingNone
	return planOf(p, [][]problem.Shard{{shard(p, 0, 0, 1), shard(p, 1, 0, 1)}, {shard(p, 2, 0, 1)}}), p
}

// uneven returns a plan for devices and hosts of different memories: device 3 is the fullest,
// although device 0 uses the most bytes.
func uneven() (*plan.Plan, *problem.Problem) {
	p := cluster(4, 2, "whole", "wide", "small", "far")
	p.Topology.DeviceMemories = []unit.Bytes{48 * unit.MiB, 64 * unit.MiB, 32 * unit.MiB, 16 * unit.MiB}
	p.Topology.HostMemories = []unit.Bytes{unit.MiB, 2 * unit.MiB}
	far := shard(p, 3, 0, 1)
	far.Tier = problem.Host
	return planOf(p, [][]problem.Shard{
		{shard(p, 0, 0, 1), columns(shard(p, 1, 0, 1), 0, 20)}, {columns(shard(p, 1, 0, 1), 20, 32)}, {far}, {shard(p, 2, 0, 1)},
	}), p
}

// chosen returns a plan of HugeCTR with rows on devices that the plan chose.
func chosen() (*plan.Plan, *problem.Problem) {
	p := cluster(3, 3, "rows", "whole")
	p.Engine = problem.HugeCTR
	first, second := typed(shard(p, 0, 0, 2), problem.RowWise), typed(shard(p, 0, 1, 2), problem.RowWise)
	first.Blocks, second.Blocks = 2, 2
	return planOf(p, [][]problem.Shard{{first}, {shard(p, 1, 0, 1)}, {second}}), p
}

// hidden returns a plan whose training system hides a part of the exchanges.
func hidden() (*plan.Plan, *problem.Problem) {
	pl, p := plain()
	pl.Provenance.Hidden = plan.Hidden{Forward: 0.2, Backward: 0.125}
	b := pl.Breakdown()
	for i := range b.Devices {
		d := &b.Devices[i]
		d.ForwardComm, d.ForwardHidden = d.ForwardComm-0.2, 0.2
		d.BackwardComm, d.BackwardHidden = d.BackwardComm-0.125, 0.125
	}
	pl.SetBreakdown(plan.NewBreakdown(b.Devices))
	return pl, p
}

// unpriced returns a plan without times.
func unpriced() *plan.Plan {
	pl, _ := plain()
	pl.Provenance.Model, pl.Provenance.ModelSource, pl.Provenance.Method = "", plan.Unpriced, report.Imported
	pl.SetBreakdown(plan.NewBreakdown(make([]plan.StepTimes, len(pl.Devices))))
	return pl
}

// judged returns what judges a plan.
func judged(pl *plan.Plan) *neuroshard.Result {
	r := &neuroshard.Result{Plan: pl, Predicted: pl.Breakdown(), Simulated: pl.Breakdown(), Status: search.Complete}
	r.Simulated.Cost *= 1.01
	r.Bound = bound.Bound{Total: r.Simulated.Cost / 1.25}
	r.Baselines = []neuroshard.Baseline{{Method: search.Size, Valid: true, Predicted: 5, Simulated: 5.5}, {Method: search.Lookup}}
	return r
}

// explained adds made-up alternatives: a table on another device, none, and one that was not
// computed.
func explained(in page.Input) page.Input {
	in.AlternativesOf = in.Plan.Predicted
	in.Alternatives = make([]*neuroshard.Alternative, len(in.Plan.Tables))
	for i := range in.Alternatives {
		switch i % 4 {
		case 0, 1:
			s := plan.Shard{Rows: problem.Range{End: in.Plan.Tables[i].Rows}, Columns: problem.Range{End: 32}, Device: i % len(in.Plan.Devices), Tier: plan.HBM}
			in.Alternatives[i] = &neuroshard.Alternative{ShardingType: plan.TableWise, Shards: []plan.Shard{s}, Cost: in.Plan.Predicted * unit.Millis(1+float64(i)/20)}
		case 2:
			in.Alternatives[i] = &neuroshard.Alternative{}
		}
	}
	return in
}

// swept returns a sweep with a cell that does not fit, and one with a price.
func swept() *sweep.Results {
	file := sweep.File{Head: sweep.Head{
		Format: sweep.Format, Version: sweep.FormatVersion, Name: "tables.json", Tables: 26, Cells: 3, Part: sweep.Part{Index: 1, Count: 1}, Prices: "catalog.csv",
		Axes: []sweep.Axis{{Name: "device", Values: []string{"a100-80"}}, {Name: "devices", Values: []string{"2", "4", "8"}}},
	}}
	for i := range file.Cells {
		o := sweep.Outcome{Status: sweep.Fits, Cell: sweep.Cell{
			Number: i + 1, Scale: "none", Batch: 65536, Precision: "fp32", CommPrecision: "fp32", ShardingTypes: "all", Engine: "any",
			Device: "a100-80", DevicesPerHost: 2 << i, Devices: 2 << i,
		}}
		if i == 0 {
			o.Status, o.Reason, o.Remedy = sweep.Infeasible, "the tables do\nnot fit", "try 4 devices"
		} else {
			o.Plan = &sweep.Planned{
				Simulated: 16 / float64(i), Step: 16 / float64(i), Predicted: 16, SamplesPerSecond: 1e6 * float64(i), ErrorPercent: 1.75, Memory: 17 * unit.GiB, Budget: 68 * unit.GiB,
				Binds: sweep.HBM, PricePerHour: 10, PricePerBillion: 3, Warnings: []string{"a doubt"},
			}
		}
		file.Outcomes = append(file.Outcomes, o)
	}
	return sweep.NewResults(file, "")
}

// replanned reads a re-plan that package report writes in its tests.
func replanned(tb testing.TB) *report.ReplanObject {
	tb.Helper()
	f := must.Get(os.Open("../testdata/report/replan_json.golden"))(tb)
	defer f.Close()
	r, _ := must.Get2(report.ReadReplan(f))(tb)
	return r
}

// large returns a plan of many tables: most whole, some cut, some on all devices.
func large(tables, devices int) (*plan.Plan, *problem.Problem) {
	names := make([]string, tables)
	for i := range names {
		names[i] = fmt.Sprintf("table_%05d", i)
	}
	p := cluster(devices, 8, names...)
	all := make([][]problem.Shard, devices)
	for i := range tables {
		d := i % devices
		switch {
		case i%1000 == 0:
			for d := range all {
				all[d] = append(all[d], typed(shard(p, i, 0, 1), problem.DataParallel))
			}
		case i%3 == 0:
			e := (i + 1) % devices
			all[d], all[e] = append(all[d], columns(shard(p, i, 0, 1), 0, 16)), append(all[e], columns(shard(p, i, 0, 1), 16, 32))
		default:
			all[d] = append(all[d], shard(p, i, 0, 1))
		}
	}
	return planOf(p, all), p
}
