package bound

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// lots.go counts what a table takes in each lot: the operators that tables of some
// kinds run in, and the exchanges that come with them.
//
//	columns   slices on single devices: table- and column-wise, in HBM or on hosts
//	blocks    blocks of rows on all devices: row-wise
//	byHostLot    blocks of rows on the devices of a host: table-row-wise and grid
//	replicas  on all devices: data-parallel
//
// What an exchange takes is a fixed time, once the lot is in use, and a price for
// each pooled column, or weight, of the lot.

// lot is a number of a lot.
type lot int

const (
	columnsLot lot = iota
	blocksLot
	byHostLot
	replicasLot
	lots
)

// mask is a set of lots.
type mask uint8

func (m mask) has(l lot) bool { return m>>l&1 == 1 }

// wires are what exchanges of a problem take.
type wires struct {
	// fixed is the time of a lot that is in use, in ms: an operator's and of its
	// exchanges'. An operator on single devices and one by host may be on devices of
	// their own, so that theirs is in columns and byHostLot counted, but once for both.
	fixed [lots]float64
	// own is the time, in ms, of a pooled column on the device with the most; shared
	// of the columns of a device in the mean.
	own, shared float64
	// column is the time, in ms, of a column of blocks, and of one by host in the
	// mean over hosts; weight that of a replicated weight.
	block, host, weight float64
	// stream is in bytes a millisecond.
	stream float64
}

// newWires returns what exchanges of the problem take. It fails where the devices span
// hosts and the profile has no network.
func newWires(p *problem.Problem) (wires, error) {
	t := p.Topology
	net, err := simulate.NewDevice(t.Profile).Network(simulate.Cluster{Devices: t.Devices, PerHost: t.PerHost(), Batch: p.Batch, ElementBytes: p.CommBytes()})
	if err != nil {
		return wires{}, err
	}
	w := wires{stream: net.Copy}
	for l := range w.fixed {
		w.fixed[l] = fixedMS
	}
	if t.Devices == 1 {
		return w, nil
	}
	// All times are linear in the columns, or weights: so each is that of one. The device
	// with the most columns sends no fewer bytes than its own columns have.
	const one = 1
	pack := float64(net.Pack(one))
	own, block, inHosts, between := net.AllToAll(net.Transfer(one, one, one)), net.Ring(one), net.InHosts(one), net.BetweenHosts(one, one, one)
	reduceInHosts, reduceBetween := net.AllReduce(one)
	full := float64(t.Devices / t.PerHost()) // hosts that may hold tables by host
	twice := func(c simulate.Collective) float64 { return 2 * float64(c.Moving()) }
	w.own = twice(own) + pack
	w.shared = pack / float64(t.Devices)
	w.block = twice(block) + 2*pack
	w.host = (twice(inHosts) + twice(between) + 2*pack) / full
	w.weight = float64(reduceInHosts.Moving() + reduceBetween.Moving())
	w.fixed[columnsLot] += 2 * float64(own.Fixed)
	w.fixed[blocksLot] += 2 * float64(block.Fixed)
	w.fixed[byHostLot] += 2 * float64(inHosts.Fixed+between.Fixed)
	w.fixed[replicasLot] += float64(reduceInHosts.Fixed + reduceBetween.Fixed)
	return w, nil
}

// of returns the fixed time of lots that are all in use, in ms.
func (w *wires) of(m mask) float64 {
	sum := 0.0
	for l := range lots {
		if m.has(l) {
			sum += w.fixed[l]
		}
	}
	if m.has(columnsLot) && m.has(byHostLot) {
		sum -= fixedMS
	}
	return sum
}

// everywhere is what a table takes of every device in the lot of blocks or of
// replicas.
type everywhere struct {
	// load is the time of its operator: with sorting, and with what is spent besides in
	// linear.
	load load
	// alone is the time of computing with nothing else in the lot, and exchange that of
	// its exchanges, without fixed times, in ms.
	alone, exchange float64
	// bytes is what it takes of each device in the mean.
	bytes float64
}

// linear is the place, in loads of lots, of the time of exchanges and of dense
// updates, in ms.
const linear = rows

// spreading is what the tables of a relaxation take in the other lots.
type spreading struct {
	wires
	// spread is by table, for blocks and replicas; nil where it has no such way.
	blocks, replicas []*everywhere
	// columns is, by table, the time that its all-to-alls add at least, and hostColumns
	// that of its exchanges by host, in ms.
	columns, hostColumns []float64
	// alone is, by table and slice, the time that a slice on a single device computes
	// with nothing else in its operator.
	alone [][][classes]float64
	// shortest is the least of these, and hostShortest that of a slice of a host's
	// block; +Inf for none.
	shortest, hostShortest []float64
	// hosts has the blocks of a host as tables, in the order of the relaxation's;
	// byRows says which may be cut so.
	hosts  *relaxation
	byRows []bool
}

// newSpreading returns what r's tables take in the lots allowed, with exchanges w.
func newSpreading(p *problem.Problem, w wires, r *relaxation, counts *simulate.Pricer) *spreading {
	n, l := p.Topology.Devices, p.Topology.PerHost()
	s := &spreading{
		wires: w, blocks: make([]*everywhere, len(r.tables)), replicas: make([]*everywhere, len(r.tables)),
		byRows: make([]bool, len(r.tables)),
	}
	d := newRates(p.Topology.Profile)
	budget := float64(p.ShardBudget())
	if budget <= 0 {
		budget = math.Inf(1)
	}
	copies := p.OfReplicas()
	ofCopies := simulate.NewPricer(copies)
	s.hosts = &relaxation{devices: n, budget: math.Inf(1)}
	for i := range r.tables {
		at := r.tables[i].index
		t := &p.Tables[at]
		columns := float64(t.Dim * len(t.Features))
		s.columns = append(s.columns, columns*(s.own/float64(n)+s.shared))
		s.hostColumns = append(s.hostColumns, columns*s.host)
		s.alone = append(s.alone, nil)
		for j := range r.tables[i].slices {
			s.alone[i] = append(s.alone[i], r.tables[i].slices[j].alone)
		}
		if t.CutsByRows(n) {
			shard := p.Whole(at)
			shard.Kind, shard.Rows.End = problem.RowWise, t.BlockRows(n)
			shortest := shard
			shortest.Rows.Start, shortest.Rows.End = t.BlockRows(n)*int64(n-1), t.Rows
			if float64(p.ShardMemory(shard).Tables()) <= budget {
				block := newBlock(&d, p, at, n, counts.Counts(at))
				e := everywhereOf(&block, t.Weighted)
				e.spend(0, columns*s.block)
				e.bytes = float64(p.ShardMemory(shortest).Tables())
				s.blocks[i] = e
			}
		}
		shard := p.Whole(at)
		shard.Kind = problem.DataParallel
		if held := float64(p.ShardMemory(shard).Tables()); held <= budget {
			replica := newTable(&d, copies, at, ofCopies.Counts(at))
			e := everywhereOf(&replica, t.Weighted)
			weights := float64(t.Rows) * float64(t.Dim)
			update := weights*(2*4+2*float64(t.Precision.Bytes())) + 2*float64(t.Optimizer.StateBytes(t.Rows, t.Dim))
			e.spend(update/s.stream, weights*s.weight)
			e.bytes = held
			s.replicas[i] = e
		}
		host := table{granules: 1, least: 1, passes: 1}
		if s.byRows[i] = t.CutsByRows(l); s.byRows[i] {
			host = newBlock(&d, p, at, l, counts.Counts(at))
		}
		host.count, host.operator = r.tables[i].count, r.tables[i].operator
		s.hosts.tables = append(s.hosts.tables, host)
	}
	s.hosts.of = make([][]int, len(r.of))
	for o := range r.of {
		s.hosts.addKinds(o, r.kinds[r.of[o][0]].forwards > 1)
	}
	s.hosts.prices, s.hosts.open = make([]load, len(s.hosts.kinds)), make([]bool, len(s.hosts.kinds))
	for k := range s.hosts.open {
		s.hosts.open[k] = true
	}
	for i := range r.tables {
		s.shortest = append(s.shortest, r.leastAlone(&r.tables[i]))
		host := math.Inf(1)
		if s.byRows[i] {
			host = s.hosts.leastAlone(&s.hosts.tables[i])
		}
		s.hostShortest = append(s.hostShortest, host)
	}
	return s
}

// newBlock returns what slices take of a block of the rows of table i, which is cut
// into blocks for so many devices, with the accesses of a batch to the whole table: the
// least of the block that all devices have but the last, and of the last one.
func newBlock(d *rates, p *problem.Problem, i, devices int, c access.Counts) table {
	q := *p
	q.Tables = slices.Clone(p.Tables[i : i+1])
	of := func(rows int64) table {
		part := c.Part(float64(rows) / float64(p.Tables[i].Rows))
		part.Unique = min(part.Unique, float64(rows), part.Lookups)
		q.Tables[0].Rows = rows
		return newTable(d, &q, 0, part)
	}
	block := p.Tables[i].BlockRows(devices)
	last := p.Tables[i].Rows - block*int64(devices-1)
	t := of(last)
	if last == block {
		return t
	}
	other := of(block)
	lower := func(x *float64, y float64) { *x = min(*x, y) }
	for k := range t.sorted {
		lower(&t.sorted[k], other.sorted[k])
	}
	lower(&t.issue, other.issue)
	lower(&t.issueBack, other.issueBack)
	for j := range t.slices {
		s, o := &t.slices[j], &other.slices[j]
		lower(&s.memory, o.memory)
		lower(&s.cache, o.cache)
		lower(&s.memoryBack, o.memoryBack)
		lower(&s.cacheBack, o.cacheBack)
		for class := range s.alone {
			lower(&s.alone[class], o.alone[class])
		}
	}
	return t
}

// everywhereOf returns what a whole table takes of a device, in the narrowest lanes
// and the fewest sort passes.
func everywhereOf(t *table, weighted bool) *everywhere {
	k := kind{passes: t.passes, forwards: 1}
	if weighted {
		k.class, k.forwards = classes-1, 1+weightedShare
	}
	for t.granules > widest(k.class) {
		k.class++
	}
	last := &t.slices[len(t.slices)-1]
	e := &everywhere{load: t.load(last, &k), alone: last.alone[k.class]}
	for j := forward; j < backward; j++ {
		e.load[j] *= k.forwards
	}
	e.load[rows], e.load[columns], e.load[bytes] = 0, 0, 0
	return e
}

// spend adds time that is spent besides the operator, computing (of replicas: dense
// gradients are zeroed and read, weights and state read and written) and in exchanges.
func (e *everywhere) spend(computing, exchange float64) {
	e.load[linear] += computing + exchange
	e.alone += computing
	e.exchange += exchange
}

// Allowed says which ways to place tables a bound is for. The zero value is those of
// Simulated: whole or cut by columns, in HBM.
type Allowed struct {
	// Kinds are those that tables may be placed in; empty means TableWise and
	// ColumnWise. Each of these two stands for both, and each of TableRowWise and
	// Grid.
	Kinds []problem.Kind
	// Host is true where tables may lie in the memory of hosts, if the topology states
	// any.
	Host bool
}

// mask returns the lots that are allowed.
func (a Allowed) mask() mask {
	if len(a.Kinds) == 0 {
		return 1 << columnsLot
	}
	in := func(kinds ...problem.Kind) bool {
		return slices.ContainsFunc(kinds, func(k problem.Kind) bool { return slices.Contains(a.Kinds, k) })
	}
	var m mask
	for l, allowed := range []bool{
		columnsLot:  in(problem.TableWise, problem.ColumnWise),
		blocksLot:   in(problem.RowWise),
		byHostLot:   in(problem.TableRowWise, problem.Grid),
		replicasLot: in(problem.DataParallel),
	} {
		if allowed {
			m |= 1 << l
		}
	}
	return m
}

// onHosts reports whether slices may lie in host memory.
func (a Allowed) onHosts(t hardware.Topology) bool { return a.Host && t.HostMemory > 0 }
