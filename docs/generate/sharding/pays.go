package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// pays prints what equal tables cost, all of them in one form, by their rows and
// lookups: which form pays for which tables. Then, the same of a single table.
func pays(_ context.Context, p *program) error {
	if err := inEach(p, 32, []shape{{1e3, 64, 1, 1}, {1e3, 64, 30, 1}, {1e5, 64, 1, 1}, {1e5, 64, 30, 1}, {1e7, 64, 1, 1}, {1e7, 64, 30, 1}}); err != nil {
		return err
	}
	fmt.Fprintln(p.out)
	return inEach(p, 1, []shape{{1e7, 4, 30, 1}, {1e7, 4, 200, 1}, {1e7, 16, 30, 1}, {1e7, 16, 200, 1}, {1e7, 128, 30, 1}, {1e7, 128, 200, 1}})
}

// vectors prints what equal tables cost, all of them in one form, by the vectors that a sample gets
// from each: of one bag, of five bags, and as a sequence. Then, the same of a single table.
func vectors(_ context.Context, p *program) error {
	if err := inEach(p, 32, []shape{{1e5, 64, 30, 1}, {1e5, 64, 30, 5}, {1e5, 64, 30, 0}}); err != nil {
		return err
	}
	fmt.Fprintln(p.out)
	return inEach(p, 1, []shape{{1e7, 128, 30, 1}, {1e7, 128, 30, 5}, {1e7, 128, 30, 0}})
}

// shape is a table's rows, columns, and lookups and bags a sample; 0 bags stand for pooling none.
type shape struct {
	rows          int64
	dim           int
	lookups, bags float64
}

// table returns the table of a shape.
func (s shape) table(name string) problem.Table {
	t := problem.Table{
		Name: name, Rows: s.rows, Dim: s.dim, Optimizer: problem.SGD,
		Features: []problem.Feature{{Name: name, PoolingFactor: s.lookups, Bags: s.bags}},
		Access:   access.Distribution{Kind: access.Zipf, Exponent: 1.05},
	}
	if s.bags == 0 {
		t.Pooling = problem.PoolingNone
	}
	return t
}

// inEach prints the cost of a number of equal tables, for each shape, in each form.
func inEach(p *program, tables int, shapes []shape) error {
	const batch = 65536
	forms := []struct {
		name string
		form problem.Form
	}{
		{"table_wise", problem.Form{}},
		{"column_wise", problem.Form{}},
		{"row_wise", problem.Form{ShardingType: problem.RowWise}},
		{"table_row_wise", problem.Form{ShardingType: problem.TableRowWise}},
		{"data_parallel", problem.Form{ShardingType: problem.DataParallel}},
		{"host_cached, a tenth", problem.Form{Tier: problem.HostCached, Cache: .1}},
		{"host", problem.Form{Tier: problem.Host}},
	}
	head := []string{">hosts", ">rows", ">columns", ">lookups"}
	byVectors := slices.ContainsFunc(shapes, func(s shape) bool { return s.bags != 1 })
	if byVectors {
		head = append(head, ">vectors")
	}
	for _, f := range forms {
		head = append(head, ">"+f.name)
	}
	p.head(head...)
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		return err
	}
	for _, devices := range []int{hostSize, 2 * hostSize} {
		for _, s := range shapes {
			q := &problem.Problem{Batch: batch, Topology: hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: hostSize, HostMemory: hostMemory, ReserveShare: hardware.NoReserve}}
			for i := range tables {
				q.Tables = append(q.Tables, s.table(fmt.Sprintf("t%02d", i)))
			}
			if err := q.Validate(); err != nil {
				return err
			}
			judge := simulate.NewPricer(q)
			cells := []string{fmt.Sprint(q.Topology.Hosts()), fmt.Sprint(s.rows), fmt.Sprint(s.dim), fmt.Sprint(s.lookups)}
			if byVectors {
				cells = append(cells, fmt.Sprint(q.Tables[0].Bags()))
			}
			cheapest, at := unit.Millis(math.Inf(1)), 0
			for _, f := range forms {
				cost, why, err := inForm(q, judge, f.name, f.form)
				if err != nil {
					return err
				}
				if why != "" {
					cells = append(cells, why)
					continue
				}
				if cost < cheapest {
					cheapest, at = cost, len(cells)
				}
				cells = append(cells, millis(cost))
			}
			cells[at] = "**" + cells[at] + "**"
			p.row(cells...)
		}
	}
	return nil
}

// inForm returns the cost of all tables in one form, or why there is none.
func inForm(q *problem.Problem, judge *simulate.Pricer, name string, form problem.Form) (cost unit.Millis, why string, err error) {
	if q.Tables[0].Pooling == problem.PoolingNone && form.ShardingType.Span() == problem.OneHost {
		return 0, "–", nil
	}
	shards := inTurn(q, form)
	if name == "column_wise" {
		shards = inSlices(q)
	}
	if !fits(q, shards) {
		return 0, "too large", nil
	}
	b, err := judge.Price(shards)
	return b.Cost, "", err
}

// inTurn places all tables in one form: on one device or host after the other.
func inTurn(p *problem.Problem, form problem.Form) [][]problem.Shard {
	n, l := p.Topology.Devices, p.Topology.PerHost()
	shards := make([][]problem.Shard, n)
	for i := range p.Tables {
		s := p.Whole(i)
		s.ShardingType, s.Tier, s.Cache = form.ShardingType, form.Tier, form.Cache
		first, devices := i%n, 1
		switch form.ShardingType {
		case problem.RowWise, problem.DataParallel:
			first, devices = 0, n
		case problem.TableRowWise:
			first, devices = i%p.Topology.Hosts()*l, l
		}
		block := p.Tables[i].BlockRows(devices)
		for d := range devices {
			if form.ShardingType.ByRows() {
				s.Rows.Start, s.Rows.End = int64(d)*block, min(p.Tables[i].Rows, int64(d+1)*block)
			}
			shards[first+d] = append(shards[first+d], s)
		}
	}
	return shards
}

// inSlices cuts every table by columns for all devices, or for fewer if it is too narrow,
// all of equal width.
func inSlices(p *problem.Problem) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	next := 0
	for i := range p.Tables {
		s := p.Whole(i)
		dim := int64(p.Tables[i].Dim)
		width := max(problem.ColumnGranule, dim/int64(len(shards)))
		for at := int64(0); at < dim; at += width {
			s.Columns.Start, s.Columns.End = at, at+width
			shards[next] = append(shards[next], s)
			next = (next + 1) % len(shards)
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
		if m.Tables() > p.ShardBudget(0) || m.Host > p.HostBudget(0) {
			return false
		}
	}
	return true
}
