package simulate

import (
	"cmp"
	"context"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// operators.go divides the shards of one device into fused operators. The shards fall
// into operator classes by sharding type and memory (problem.OperatorClass): an engine
// looks up each class separately [read: TorchRec makes a module for each sharding type
// and a group for each compute kernel]. A class has one operator for each
// problem.OperatorKey: for each combination of optimizer, precision, weighting, what else the
// engine keeps apart, and the number in the plan. The times of all operators add up. Each
// kind of shard is estimated as a table:
//
//	a slice of columns   the table with fewer columns
//	a block of rows      a table with fewer rows and lookups, and the bags of the whole
//	                     table: each pooled vector is the sum of the block's rows alone.
//	                     Where lookups stay apart, each of the block's lookups is a bag.
//	                     On devices that a plan chose, it fuses with slices of columns
//	a replica            the table with the device's own samples; gradients are written,
//	                     not applied, and a dense update of all rows follows
//	in a host's memory   the operator in HBM, and the bytes over the host link
//
// Which block of rows has the most used row depends on how indices are hashed. Every
// block is estimated as the one that has it, which is the slowest [assumed].

// classOf returns the operator class of a shard without faults.
func classOf(p *problem.Problem, s *problem.Shard) problem.OperatorClass {
	if s.Tier == "" && !s.ShardingType.Joint() && s.Rows.Len() == p.Tables[s.Table].Rows {
		return problem.ClassColumns // most shards
	}
	return problem.ClassOf(p.Form(*s))
}

// fusions number the sets of tables whose whole slices fuse, in each class.
type fusions [problem.OperatorClasses][]int32

func newFusions(p *problem.Problem) (f fusions) {
	f[problem.ClassColumns] = fusionsOf(p, problem.Form{})
	for class := range f {
		f[class] = f[problem.ClassColumns]
	}
	f[problem.ClassReplicas] = fusionsOf(p, problem.Form{ShardingType: problem.DataParallel})
	return f
}

// fusionsOf returns the numbers of the tables as slices of a form. They rise with the
// optimizer, precision and weighting, so that the times of operators are added up in the same
// order whatever the order of the tables.
func fusionsOf(p *problem.Problem, form problem.Form) []int32 {
	keys, of := make([]problem.OperatorKey, len(p.Tables)), make([]int32, len(p.Tables))
	for i := range keys {
		keys[i] = p.OperatorKey(i, p.Tables[i].Dim, form)
	}
	order := slices.Clone(keys)
	slices.SortFunc(order, compareKeys)
	order = slices.Compact(order)
	for i := range keys {
		at, _ := slices.BinarySearchFunc(order, keys[i], compareKeys)
		of[i] = int32(at)
	}
	return of
}

// compareKeys orders the keys of one class and number.
func compareKeys(a, b problem.OperatorKey) int {
	return cmp.Or(
		cmp.Compare(a.Operation.Optimizer, b.Operation.Optimizer),
		cmp.Compare(a.Operation.Precision, b.Operation.Precision),
		compareBools(a.Operation.Weighted, b.Operation.Weighted),
		cmp.Compare(a.Optimizer, b.Optimizer),
		cmp.Compare(a.Pooling, b.Pooling),
		cmp.Compare(a.Module, b.Module),
		cmp.Compare(a.Settings, b.Settings),
		compareBools(a.Prefetch, b.Prefetch))
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// operator returns the number of the operator that serves a shard of a class. Shards of a
// class are in one operator if their numbers are equal: if problem.OperatorKey says so.
func (p *Pricer) operator(s *problem.Shard, class problem.OperatorClass) int {
	t := &p.problem.Tables[s.Table]
	k := int(p.fusions[class][s.Table]) * 2
	if p.rules.WholeApart && s.Dim() < t.Dim {
		k++
	}
	k *= problem.MaxDim/problem.ColumnGranule + 1
	if p.rules.PrefetchedApart && t.Prefetch && class == problem.ClassCached {
		k += s.Dim() / problem.ColumnGranule
	}
	return k*problem.Operators + int(s.Operator)
}

// optimizer returns what the fused backward of a class applies to the table's rows.
// Gradients of replicas are written as SGD writes rows.
func optimizer(t *problem.Table, class problem.OperatorClass) problem.Optimizer {
	if class == problem.ClassReplicas {
		return problem.SGD
	}
	return t.Optimizer
}

// contents is the number of shards of each class on a device.
type contents [problem.OperatorClasses]int

func (p *Pricer) contents(shards []problem.Shard) (c contents) {
	for i := range shards {
		c[classOf(p.problem, &shards[i])]++
	}
	return c
}

// nextOperator returns the least number above last of an operator of a class that has
// lookups, or -1 if there is none.
func (p *Pricer) nextOperator(shards []problem.Shard, class problem.OperatorClass, last int) int {
	next := -1
	for i := range shards {
		s := &shards[i]
		if p.tables[s.Table].counts.Lookups == 0 || classOf(p.problem, s) != class {
			continue
		}
		if k := p.operator(s, class); k > last && (next < 0 || k < next) {
			next = k
		}
	}
	return next
}

// computeTimes are the times of one class on a device.
type computeTimes struct{ forward, backward unit.Millis }

func (t *computeTimes) add(forward, backward unit.Millis) {
	t.forward += forward
	t.backward += backward
}

// compute returns the compute times of all devices. A class that devices hold together is
// usually alike on one device and the next; then it is estimated once for both.
func (p *Pricer) compute(shards [][]problem.Shard) []computeTimes {
	devices := make([]computeTimes, len(shards))
	var last [problem.OperatorClasses]computeTimes
	for r, group := range shards {
		held := p.contents(group)
		for i := range held {
			class := problem.OperatorClass(i)
			if held[i] == 0 {
				continue
			}
			if r == 0 || !class.Joint() || !p.alike(shards[r-1], group, class) {
				last[i] = p.classTimes(group, class)
			}
			devices[r].add(last[i].forward, last[i].backward)
		}
	}
	return devices
}

// alike reports whether the shards of a class on two devices take equally long: the
// blocks may hold other rows, and nothing else differs.
func (p *Pricer) alike(a, b []problem.Shard, class problem.OperatorClass) bool {
	next := func(list []problem.Shard, from int) int {
		for from < len(list) && classOf(p.problem, &list[from]) != class {
			from++
		}
		return from
	}
	for i, j := next(a, 0), next(b, 0); ; i, j = next(a, i+1), next(b, j+1) {
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if x, y := &a[i], &b[j]; x.Table != y.Table || x.Columns != y.Columns || x.Rows.Len() != y.Rows.Len() || x.Operator != y.Operator {
			return false
		}
	}
}

// classTimes returns the times of the shards of a class.
func (p *Pricer) classTimes(shards []problem.Shard, class problem.OperatorClass) (t computeTimes) {
	for k := p.nextOperator(shards, class, -1); k >= 0; k = p.nextOperator(shards, class, k) {
		t.add(p.operatorTimes(shards, class, k))
	}
	if class != problem.ClassReplicas && !class.OnHost() {
		return t
	}
	for i := range shards {
		s := &shards[i]
		if classOf(p.problem, s) != class {
			continue
		}
		if table := &p.problem.Tables[s.Table]; class == problem.ClassReplicas {
			t.backward += p.device.DenseUpdate(table, s.Dim())
		} else {
			t.add(p.device.HostLink(table, p.tables[s.Table].counts, s.Dim(), p.problem.Form(*s)))
		}
	}
	return t
}

// operatorTimes returns the times of the shards that one operator of a class serves.
func (p *Pricer) operatorTimes(shards []problem.Shard, class problem.OperatorClass, number int) (forward, backward unit.Millis) {
	serves := func(s *problem.Shard) bool {
		return p.tables[s.Table].counts.Lookups > 0 && classOf(p.problem, s) == class && p.operator(s, class) == number
	}
	tables, widest, cached := 0, 0, int64(0)
	var sample *problem.Table
	for i := range shards {
		if s := &shards[i]; serves(s) {
			tables++
			widest = max(widest, s.Dim())
			sample = &p.problem.Tables[s.Table]
			if class == problem.ClassCached {
				cached += problem.CachedRows(sample.Rows, s.Cache)
			}
		}
	}
	w := work{device: &p.device, settings: settings{
		batch:       float64(p.problem.Batch),
		weightBytes: float64(sample.Precision.Bytes()),
		outputBytes: problem.OutputBytes,
		indexBytes:  problem.IndexBytes,
		optimizer:   optimizer(sample, class),
		weighted:    sample.Weighted,
		pooling:     sample.Pooling,
		rule:        p.problem.LaneRule,
		cachedRows:  float64(cached),
	}}
	counted := p.tables
	if class == problem.ClassReplicas {
		replicas := p.replicas()
		w.batch, counted = float64(replicas.batch), replicas.tables
	}
	w.start(tables, widest)
	for i := range shards {
		s := &shards[i]
		if !serves(s) {
			continue
		}
		t := &p.problem.Tables[s.Table]
		held := part{
			rows: float64(s.Rows.Len()), dim: s.Dim(), bags: t.Bags(),
			lengthCV: t.LengthCV(), Usage: &counted[s.Table],
		}
		if s.Blocks > 0 || class == problem.ClassBlocks || class == problem.ClassHostBlocks {
			block := p.block(s)
			held.Usage = &block
			held.lengthCV = t.BlockLengthCV(block.counts.Lookups / p.tables[s.Table].counts.Lookups)
			if t.Pooling == problem.PoolingNone {
				held.bags = block.counts.Lookups / w.batch
			}
		}
		w.add(held)
	}
	return w.times()
}

// block returns the usage of a block of rows that holds the most used row.
func (p *Pricer) block(s *problem.Shard) Usage {
	rows := float64(s.Rows.Len())
	c := p.tables[s.Table].counts.Part(rows / float64(p.problem.Tables[s.Table].Rows))
	c.Unique = min(c.Unique, rows, c.Lookups)
	return NewUsage(c)
}

// replicas are the tables of a problem as replicas: each device serves its own samples.
type replicas struct {
	batch  int
	tables []Usage
}

// countReplicas counts the accesses of one device's samples to each table.
func countReplicas(p *problem.Problem) replicas {
	own := problem.ReplicasOf(p)
	return replicas{batch: own.Batch, tables: countTables(context.Background(), own)}
}
