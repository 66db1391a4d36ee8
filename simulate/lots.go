package simulate

import (
	"math/bits"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// lots.go prices what one device computes. Its shards fall into lots, by kind and by
// memory: an engine looks up each lot on its own [read: TorchRec makes a module for
// each sharding type and a group for each compute kernel]. Within a lot there is one
// operator for each (optimizer, precision, weighting), and all times add up.
//
//	a slice of columns   the table with fewer columns
//	a block of rows      a table with fewer rows and lookups, and as many bags: all
//	                     pooled vectors, each the sum of the block's rows alone
//	a replica            the table with the device's own samples; gradients are written,
//	                     not applied, and a dense update of all rows follows
//	in a host's memory   as in HBM, and the way over the host link (tier.go)
//
// Which block of rows has the most used row depends on how indices are hashed. Every
// block is priced as the one that has it, which is as slow as any [assumed].

// lot numbers the lots of a device.
type lot uint8

const (
	lotSlices     lot = iota // of columns, in HBM
	lotRowWise               // blocks of rows, one on each device
	lotByHost                // blocks of rows, one on each device of a host
	lotReplicated            // whole tables, on each device
	lotHost                  // slices of columns in a host's memory
	lotCached                // and cached in HBM
	lots          int = iota
)

// spread reports whether devices hold the shards of the lot together.
func (l lot) spread() bool { return l == lotRowWise || l == lotByHost || l == lotReplicated }

// lotOf returns the lot of a shard without faults.
func (p *Pricer) lotOf(s *problem.Shard) lot {
	switch s.Kind {
	case problem.RowWise:
		return lotRowWise
	case problem.TableRowWise, problem.Grid:
		return lotByHost
	case problem.DataParallel:
		return lotReplicated
	}
	switch s.Tier {
	case problem.Host:
		return lotHost
	case problem.HostCached:
		return lotCached
	}
	if s.Kind == "" && s.Rows.Len() < p.problem.Tables[s.Table].Rows {
		return lotRowWise // by its shape
	}
	return lotSlices
}

// kinds of operators a lot may have: one for each combination.
const (
	precisions = 3
	weightings = 2
)

// operator returns the number of the operator that serves the table in a lot.
func operator(t *problem.Table, l lot) int {
	k := (int(optimizer(t, l))*precisions + int(t.Precision)) * weightings
	if t.Weighted {
		k++
	}
	return k
}

// optimizer returns what the fused backward of a lot applies to the table's rows.
// Gradients of replicas are written as SGD writes rows.
func optimizer(t *problem.Table, l lot) problem.Optimizer {
	if l == lotReplicated {
		return problem.SGD
	}
	return t.Optimizer
}

// contents says what a device holds, by lot.
type contents [lots]struct {
	shards int
	// operators has a bit for each operator with lookups.
	operators uint64
}

func (p *Pricer) contents(shards []problem.Shard) (c contents) {
	for i := range shards {
		s := &shards[i]
		l := p.lotOf(s)
		c[l].shards++
		if p.tables[s.Table].counts.Lookups > 0 {
			c[l].operators |= 1 << operator(&p.problem.Tables[s.Table], l)
		}
	}
	return c
}

// computeTimes are the times of one lot on a device.
type computeTimes struct{ forward, backward unit.Millis }

// GroupCost returns the simulated compute times of shards on one device, which
// may be none: launched as a graph, with 8-byte indices, fp32 pooled vectors,
// and sub-warps unless weighted. Shards may be of all kinds and in all memories. It
// does not ask whether other devices hold what belongs to them, but panics where one
// is none of the problem's (a slice that is none, a block of other rows than its kind
// has): use Price for placements that were not checked.
func (p *Pricer) GroupCost(shards []problem.Shard) (forward, backward unit.Millis) {
	for i := range shards {
		if message := p.fault(&shards[i]); message != "" {
			panic("simulate: " + message)
		}
	}
	held := p.contents(shards)
	for l := range lots {
		if held[l].shards > 0 {
			t := p.lotTimes(shards, lot(l), held[l].operators)
			forward += t.forward
			backward += t.backward
		}
	}
	return forward, backward
}

// compute writes the compute times of all devices. Most of a spread lot is alike on
// one device and the next, and priced once.
func (p *Pricer) compute(shards [][]problem.Shard, devices []DeviceCost) {
	var last [lots]computeTimes
	for r, group := range shards {
		held := p.contents(group)
		for l := range lots {
			switch {
			case held[l].shards == 0:
				continue
			case r > 0 && lot(l).spread() && p.alike(shards[r-1], group, lot(l)):
			default:
				last[l] = p.lotTimes(group, lot(l), held[l].operators)
			}
			devices[r].Forward += last[l].forward
			devices[r].Backward += last[l].backward
		}
	}
}

// alike reports whether two devices' shards of a lot differ in nothing that has a
// price: in which rows their blocks hold, at most.
func (p *Pricer) alike(a, b []problem.Shard, l lot) bool {
	next := func(list []problem.Shard, from int) int {
		for from < len(list) && p.lotOf(&list[from]) != l {
			from++
		}
		return from
	}
	for i, j := next(a, 0), next(b, 0); ; i, j = next(a, i+1), next(b, j+1) {
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if x, y := &a[i], &b[j]; x.Table != y.Table || x.Columns != y.Columns || x.Rows.Len() != y.Rows.Len() {
			return false
		}
	}
}

// lotTimes prices those of the shards that are of a lot, which has the given
// operators.
func (p *Pricer) lotTimes(shards []problem.Shard, l lot, operators uint64) (t computeTimes) {
	for ; operators != 0; operators &= operators - 1 {
		forward, backward := p.operatorCost(shards, l, bits.TrailingZeros64(operators))
		t.forward += forward
		t.backward += backward
	}
	switch l {
	case lotReplicated:
		for i := range shards {
			if s := &shards[i]; p.lotOf(s) == l {
				t.backward += p.device.DenseUpdate(&p.problem.Tables[s.Table], s.Dim())
			}
		}
	case lotHost, lotCached:
		for i := range shards {
			if s := &shards[i]; p.lotOf(s) == l {
				forward, backward := p.device.HostLink(&p.problem.Tables[s.Table], p.tables[s.Table].counts, s.Dim(), p.problem.Form(*s))
				t.forward += forward
				t.backward += backward
			}
		}
	}
	return t
}

// operatorCost prices those of the shards that one operator of a lot serves.
func (p *Pricer) operatorCost(shards []problem.Shard, l lot, kind int) (forward, backward unit.Millis) {
	serves := func(s *problem.Shard) bool {
		return p.tables[s.Table].counts.Lookups > 0 && p.lotOf(s) == l && operator(&p.problem.Tables[s.Table], l) == kind
	}
	tables, widest := 0, 0
	var sample *problem.Table
	for i := range shards {
		if s := &shards[i]; serves(s) {
			tables++
			widest = max(widest, s.Dim())
			sample = &p.problem.Tables[s.Table]
		}
	}
	w := work{device: &p.device, settings: settings{
		batch:       float64(p.problem.Batch),
		weightBytes: float64(sample.Precision.Bytes()),
		outputBytes: problem.OutputBytes,
		indexBytes:  problem.IndexBytes,
		optimizer:   optimizer(sample, l),
		weighted:    sample.Weighted,
		subwarp:     !sample.Weighted,
	}}
	counted := p.tables
	if l == lotReplicated {
		replicas := p.replicas()
		w.batch, counted = float64(replicas.batch), replicas.tables
	}
	w.start(tables, widest)
	for i := range shards {
		s := &shards[i]
		if !serves(s) {
			continue
		}
		rows, features := float64(s.Rows.Len()), float64(len(p.problem.Tables[s.Table].Features))
		if l == lotRowWise || l == lotByHost {
			u := p.block(s)
			w.add(rows, float64(s.Dim()), features, &u)
		} else {
			w.add(rows, float64(s.Dim()), features, &counted[s.Table])
		}
	}
	return w.times()
}

// block returns what a batch does to a block of rows, if the most used row is in it.
func (p *Pricer) block(s *problem.Shard) usage {
	rows := float64(s.Rows.Len())
	c := p.tables[s.Table].counts.Part(rows / float64(p.problem.Tables[s.Table].Rows))
	c.Unique = min(c.Unique, rows, c.Lookups)
	return newUsage(c)
}

// replicas are the tables as a device serves them that holds them for itself.
type replicas struct {
	batch  int
	tables []usage
}

// countReplicas counts what the samples of one device do to each table.
func countReplicas(p *problem.Problem) replicas {
	own := p.OfReplicas()
	return replicas{batch: own.Batch, tables: countTables(own)}
}

// DenseUpdate returns the time of what a replica of a table, or of a slice of it that is
// width columns wide, does once a step, whatever was looked up: its gradient is zeroed before the backward and read after the
// all-reduce, and all weights and all state are read and written [assumed].
func (d Device) DenseUpdate(t *problem.Table, width int) unit.Millis {
	elements := float64(t.Rows) * float64(width)
	bytes := elements*(2*problem.OutputBytes+2*float64(t.Precision.Bytes())) + 2*float64(t.Optimizer.StateBytes(t.Rows, width))
	return unit.Millis(bytes / d.stream)
}
