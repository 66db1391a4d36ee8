package main

import (
	"context"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/access"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// pays prints what equal tables cost, all of them in one form, by their rows and
// lookups: which form pays for which tables.
func (p *program) pays(context.Context) error {
	const tables, dim, batch, zipf = 32, 64, 65536, 1.05
	forms := []struct {
		name string
		form problem.Form
	}{
		{"table_wise", problem.Form{}},
		{"row_wise", problem.Form{Kind: problem.RowWise}},
		{"table_row_wise", problem.Form{Kind: problem.TableRowWise}},
		{"data_parallel", problem.Form{Kind: problem.DataParallel}},
		{"host_cached, a tenth", problem.Form{Tier: problem.HostCached, Cache: .1}},
		{"host", problem.Form{Tier: problem.Host}},
	}
	head := []string{">hosts", ">rows", ">lookups"}
	for _, f := range forms {
		head = append(head, ">"+f.name)
	}
	p.head(head...)
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		return err
	}
	for _, devices := range []int{hostSize, 2 * hostSize} {
		for _, rows := range []int64{1e3, 1e5, 1e7} {
			for _, lookups := range []float64{1, 30} {
				q := &problem.Problem{Batch: batch, Topology: hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: hostSize, HostMemory: hostMemory}}
				for i := range tables {
					name := fmt.Sprintf("t%02d", i)
					q.Tables = append(q.Tables, problem.Table{
						Name: name, Rows: rows, Dim: dim, Optimizer: problem.SGD,
						Features: []problem.Feature{{Name: name, PoolingFactor: lookups}},
						Access:   access.Distribution{Kind: access.Zipf, Exponent: zipf},
					})
				}
				if err := q.Validate(); err != nil {
					return err
				}
				judge := simulate.NewPricer(q)
				cells := []string{fmt.Sprint(q.Topology.Hosts()), fmt.Sprint(rows), fmt.Sprint(lookups)}
				cheapest, at := unit.Millis(math.Inf(1)), 0
				for _, f := range forms {
					shards := inTurn(q, f.form)
					if !fits(q, shards) {
						cells = append(cells, "too large")
						continue
					}
					b, err := neuroshard.Simulate(judge, shards)
					if err != nil {
						return err
					}
					if b.Cost < cheapest {
						cheapest, at = b.Cost, len(cells)
					}
					cells = append(cells, millis(b.Cost))
				}
				cells[at] = "**" + cells[at] + "**"
				p.row(cells...)
			}
		}
	}
	return nil
}

// inTurn places all tables in one form: on one device or host after the other.
func inTurn(p *problem.Problem, form problem.Form) [][]problem.Shard {
	n, l := p.Topology.Devices, p.Topology.PerHost()
	shards := make([][]problem.Shard, n)
	for i := range p.Tables {
		s := p.Whole(i)
		s.Kind, s.Tier, s.Cache = form.Kind, form.Tier, form.Cache
		first, devices := i%n, 1
		switch form.Kind {
		case problem.RowWise, problem.DataParallel:
			first, devices = 0, n
		case problem.TableRowWise:
			first, devices = i%p.Topology.Hosts()*l, l
		}
		block := p.Tables[i].BlockRows(devices)
		for d := range devices {
			if form.Kind.ByRows() {
				s.Rows.Start, s.Rows.End = int64(d)*block, min(p.Tables[i].Rows, int64(d+1)*block)
			}
			shards[first+d] = append(shards[first+d], s)
		}
	}
	return shards
}

// fits reports whether each device has room for its shards, in HBM and on its host.
func fits(p *problem.Problem, shards [][]problem.Shard) bool {
	for _, list := range shards {
		var m problem.Memory
		for _, s := range list {
			m = m.Add(p.ShardMemory(s))
		}
		if m.Tables() > p.ShardBudget() || m.Host > p.HostBudget() {
			return false
		}
	}
	return true
}
