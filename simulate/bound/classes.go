package bound

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// classes.go counts what a table takes in each operator class of package problem: in the
// operators of the class, and in its exchanges.
//
//	ClassColumns     slices on single devices: table-wise and column-wise, in HBM or on hosts
//	ClassBlocks      blocks of rows on all devices: row-wise
//	ClassHostBlocks  blocks of rows on the devices of a host: table-row-wise and grid
//	ClassReplicas    on all devices: data-parallel
//
// An exchange takes a fixed time, if the class is in use, and a time for each pooled
// column, or weight, of the class.

// exchanging is the number of the classes above, which have exchanges of their own. The
// classes in host memory have the exchanges of ClassColumns.
const exchanging = 4

// set is a set of operator classes: bit c says that class c is in it.
type set uint8

// only returns the set of one class.
func only(c problem.OperatorClass) set { return 1 << c }

func (s set) has(c problem.OperatorClass) bool { return s>>c&1 == 1 }

// wires are the times of the exchanges of a problem.
type wires struct {
	// fixed is, by class, the fixed time of an operator and of the exchanges, in ms, of
	// a class that is in use. An operator of ClassColumns and one of ClassHostBlocks may
	// run on different devices. So both entries have the fixed time of an operator, and
	// wires.of counts it once.
	fixed [exchanging]float64
	// own is the time, in ms, that a pooled column adds on the device with the most
	// columns. shared is the time that a column on any device adds on every device.
	own, shared float64
	// block is the time, in ms, of a column of blocks on all devices, host that of a
	// column of blocks on the devices of a host, as a mean over the hosts, and weight that
	// of a replicated weight.
	// apart is that of a column of blocks on all devices whose lookups stay apart.
	block, host, weight, apart float64
	// latency is the fixed time, in ms, of a hierarchical exchange, which all classes except
	// replicas share; 0 for flat exchanges, whose fixed times are in fixed.
	latency float64
	// stream is the bandwidth of memory, in bytes a millisecond.
	stream float64
	// less is the time, in ms, that is hidden of the directions that count. beside says that
	// the forward lookups of replicas do not count.
	less   float64
	beside bool
}

// everyWires returns the times of the exchanges of the problem, for each choice of the
// directions that count. It fails if the devices span hosts and the profile has no network.
func everyWires(p *problem.Problem, hidden plan.Hidden) (all []wires, err error) {
	for _, there := range []float64{1, 0} {
		for _, back := range []float64{1, 0} {
			if there == 0 && hidden.Forward == 0 && !hidden.Replicas || back == 0 && hidden.Backward == 0 {
				continue // nothing is hidden of the direction
			}
			w, err := newWires(p, there, back)
			if err != nil {
				return nil, err
			}
			w.less = there*float64(hidden.Forward) + back*float64(hidden.Backward)
			if w.beside = there > 0 && hidden.Replicas; w.beside {
				w.fixed[problem.ClassReplicas] -= forwardFixedMS
			}
			all = append(all, w)
		}
	}
	return all, nil
}

// newWires returns the times of the exchanges of the problem, where the exchanges there
// (forward) and back count (1) or not (0). It fails if the devices span hosts and the profile
// has no network.
func newWires(p *problem.Problem, there, back float64) (wires, error) {
	t := p.Topology
	net, err := networkOf(p)
	if err != nil {
		return wires{}, err
	}
	w := wires{stream: net.Copy}
	for c := range w.fixed {
		w.fixed[c] = fixedMS
	}
	if t.Devices == 1 {
		return w, nil
	}
	// All times are linear in the columns, or weights, so the time of one is enough. The
	// device with the most columns sends at least its own columns.
	const one = 1
	pack := float64(net.Pack(one))
	reduceInHosts, reduceBetween := net.AllReduce(one)
	w.weight = back * float64(reduceInHosts.Moving()+reduceBetween.Moving())
	w.fixed[problem.ClassReplicas] += back * float64(reduceInHosts.Fixed+reduceBetween.Fixed)
	both := there + back
	if p.Hierarchy.On() {
		w.hierarchical(&net, p.Hierarchy, both)
		return w, nil
	}
	own, block, inHosts, between := net.AllToAll(net.Transfer(one, one, one)), net.Ring(one), net.InHosts(one), net.BetweenHosts(one, one, one)
	full := float64(t.Devices / t.PerHost()) // hosts that may hold tables by host
	moving := func(c simulate.Collective) float64 { return both * float64(c.Moving()) }
	w.own = moving(own) + there*pack
	w.shared = back * pack / float64(t.Devices)
	w.block = moving(block) + both*pack
	w.apart = moving(net.RowsApart(one)) + both*pack
	w.host = (moving(inHosts) + moving(between) + both*pack) / full
	w.fixed[problem.ClassColumns] += both * float64(own.Fixed)
	w.fixed[problem.ClassBlocks] += both * float64(block.Fixed)
	w.fixed[problem.ClassHostBlocks] += both * float64(inHosts.Fixed+between.Fixed)
	return w, nil
}

// hierarchical sets the times of the vectors' exchange, where both is the number of directions
// that count. The device with the most columns of its own has the columns of blocks on all
// devices, too. The host with the most columns has at least the mean over the hosts: every host
// has the columns of blocks on all devices. What blocks on the devices of a host add inside it
// counts only if the cluster is one host, because another host may have the device with the
// most columns.
func (w *wires) hierarchical(net *simulate.Network, h problem.Hierarchy, both float64) {
	const one = 1
	first, second := net.Hierarchical(h, one, one)
	inside, between, domains := both*float64(first.Moving()), both*float64(second.Moving()), float64(net.Domains())
	w.own, w.shared = inside, between/domains
	w.block = inside + between
	if w.host = between / domains; net.Hosts() == 1 {
		w.host += inside
	}
	w.latency = both * float64(second.Fixed)
}

// of returns the fixed time of a set of classes that are all in use, in ms.
func (w *wires) of(s set) float64 {
	sum := 0.0
	for c := range w.fixed {
		if s.has(problem.OperatorClass(c)) {
			sum += w.fixed[c]
		}
	}
	if s.has(problem.ClassColumns) && s.has(problem.ClassHostBlocks) {
		sum -= fixedMS
	}
	if s&^only(problem.ClassReplicas) != 0 {
		sum += w.latency
	}
	return sum
}

// everywhere is what a table takes of every device in the class of blocks or of
// replicas.
type everywhere struct {
	// load is the load of the operator. Its entry linear is the time of exchanges and of
	// dense updates.
	load load
	// alone is the time of computing with nothing else in the class. exchange is the time
	// of the exchanges without fixed times. Both are in ms.
	alone, exchange float64
	// bytes is the least memory that the table takes on any device.
	bytes float64
}

// linear is the place, in loads of classes, of the time of exchanges and of dense
// updates, in ms.
const linear = rows

// otherClasses is what the tables of a relaxation take in the classes beyond slices on
// single devices.
type otherClasses struct {
	wires
	// blocks and replicas are by table; nil if the table has no such way.
	blocks, replicas []*everywhere
	// columns is, by table, the least time that its all-to-alls add, and hostColumns
	// that of its exchanges by host, in ms.
	columns, hostColumns []float64
	// alone is, by table and slice, the time that a slice on a single device computes
	// with nothing else in its operator.
	alone [][][laneClasses]float64
	// shortest is, by table, the least of these times, and hostShortest that of a slice
	// of a host's block; +Inf for none.
	shortest, hostShortest []float64
	// hosts has the blocks of a host as tables, in the order of the relaxation's tables;
	// byRows says which tables may be cut that way.
	hosts  *relaxation
	byRows []bool
}

// newOtherClasses returns what the tables of r take in the other classes, with the
// exchanges w, if the tables may have the given sharding types.
func newOtherClasses(p *problem.Problem, w wires, r *relaxation, counts *simulate.Pricer, types []problem.ShardingType) *otherClasses {
	c := counter{problem: p, pricer: counts, device: simulate.NewDevice(p.Topology.Device()), budget: budgetsOf(p, p.Topology.Smallest())[0], wires: w, copies: problem.ReplicasOf(p)}
	if c.budget <= 0 {
		c.budget = math.Inf(1)
	}
	c.ofCopies = simulate.NewPricer(c.copies)
	s := &otherClasses{wires: w, byRows: make([]bool, len(r.tables)), hosts: &relaxation{devices: p.Topology.Devices, budget: math.Inf(1)}}
	for i := range r.tables {
		at := r.tables[i].index
		t := &p.Tables[at]
		columns := r.tables[i].columns * float64(r.tables[i].granules)
		s.columns = append(s.columns, columns*(s.own/float64(p.Topology.Devices)+s.shared))
		s.hostColumns = append(s.hostColumns, columns*s.host)
		var alone [][laneClasses]float64
		for j := range r.tables[i].slices {
			alone = append(alone, r.tables[i].slices[j].alone)
		}
		s.alone = append(s.alone, alone)
		lanes := r.lanes[r.tables[i].operation]
		s.blocks = append(s.blocks, c.block(at, lanes))
		s.replicas = append(s.replicas, c.replica(at, lanes))
		perHost := p.Topology.PerHost()
		host := table{granules: 1, least: 1, passes: 1}
		if s.byRows[i] = t.CutsByRows(perHost) && t.Pooling != problem.PoolingNone; s.byRows[i] {
			if host = newBlock(&c.device, p, at, perHost, counts.Counts(at), lanes); whole(p, at, types, problem.Grid) {
				host.least = host.granules
			}
			host.bytesOnce, host.bytes = lastBlock(p, at, perHost)
		}
		host.count, host.operation = r.tables[i].count, r.tables[i].operation
		s.hosts.tables = append(s.hosts.tables, host)
	}
	s.hosts.lanes = r.lanes
	s.hosts.addOperators()
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

// restore sets the time that each slice of r takes with nothing else in its operator,
// without exchanges.
func (s *otherClasses) restore(r *relaxation) {
	for i := range r.tables {
		for j := range r.tables[i].slices {
			r.tables[i].slices[j].alone = s.alone[i][j]
		}
	}
}

// counter counts what tables of a problem take as blocks and as replicas.
type counter struct {
	problem *problem.Problem
	pricer  *simulate.Pricer
	device  simulate.Device
	// budget is the memory of the device with the least, in bytes, +Inf for any: what lies on all
	// devices must fit that one, too.
	budget float64
	wires  wires
	// copies has the tables as replicas, and ofCopies their counts.
	copies   *problem.Problem
	ofCopies *simulate.Pricer
}

// block returns what table i of the problem takes as blocks of rows on all devices; nil
// if the table cannot be cut into such blocks or a block does not fit.
func (c *counter) block(i int, lanes []laneClass) *everywhere {
	p, t, n := c.problem, &c.problem.Tables[i], c.problem.Topology.Devices
	if !t.CutsByRows(n) {
		return nil
	}
	shard := p.Whole(i)
	shard.ShardingType, shard.Rows.End = problem.RowWise, t.BlockRows(n)
	if bytesOf(p, shard) > c.budget && !c.blocksFit(shard) {
		return nil
	}
	shortest := shard
	shortest.Rows.Start, shortest.Rows.End = t.BlockRows(n)*int64(n-1), t.Rows
	block := newBlock(&c.device, p, i, n, c.pricer.Counts(i), lanes)
	e := everywhereOf(&block, lanes)
	e.spend(0, c.blockExchange(i))
	e.bytes = bytesOf(p, shortest)
	return e
}

// blocksFit reports whether each block of rows of a table fits its device. The last blocks may be
// shorter than the given first one, or have no rows.
func (c *counter) blocksFit(first problem.Shard) bool {
	t, block := &c.problem.Topology, first
	room := largestBudget(c.problem) - float64(t.Usable(t.Largest()))
	rows, all := first.Rows.End, c.problem.Tables[first.Table].Rows
	for d := range t.Devices {
		block.Rows = problem.Range{Start: int64(d) * rows, End: min(all, int64(d+1)*rows)}
		if block.Rows.Len() > 0 && bytesOf(c.problem, block) > room+float64(t.Usable(d)) {
			return false
		}
	}
	return true
}

// blockExchange returns the least time of the exchanges of table i as blocks of rows on all
// devices, in ms, without fixed times.
func (c *counter) blockExchange(i int) float64 {
	t, p := &c.problem.Tables[i], c.problem
	if t.Pooling != problem.PoolingNone {
		return float64(problem.Columns(t.Dim, t.Bags())) * c.wires.block
	}
	counts := c.pricer.Counts(i)
	busiest := counts.Part(float64(t.BlockRows(p.Topology.Devices))/float64(t.Rows)).Lookups / float64(p.Batch)
	return float64(problem.Columns(t.Dim, busiest)) * c.wires.apart
}

// replica returns what table i of the problem takes as a replica on all devices; nil if
// it does not fit.
func (c *counter) replica(i int, lanes []laneClass) *everywhere {
	t, shard := &c.problem.Tables[i], c.problem.Whole(i)
	shard.ShardingType = problem.DataParallel
	held := bytesOf(c.problem, shard)
	if held > c.budget {
		return nil
	}
	replica := newTable(&c.device, c.copies, i, c.ofCopies.Counts(i), lanes)
	e := everywhereOf(&replica, lanes)
	if c.wires.beside {
		clear(e.load[forward:backward])
		e.alone = 0
	}
	weights := float64(t.Rows) * float64(t.Dim)
	update := weights*(2*problem.OutputBytes+2*float64(t.Precision.Bytes())) + 2*float64(t.Optimizer.StateBytes(t.Rows, t.Dim))
	e.spend(update/c.wires.stream, weights*c.wires.weight)
	e.bytes = held
	return e
}

// newBlock returns what slices of a block of table i take, if the rows of the table are
// cut into blocks for the given number of devices. c counts a batch's accesses to the
// whole table. Each number is the lesser of that of the last block and that of the other
// blocks, which are equal.
func newBlock(d *simulate.Device, p *problem.Problem, i, devices int, c access.Counts, lanes []laneClass) table {
	q := *p
	q.Tables = slices.Clone(p.Tables[i : i+1])
	q.Tables[0].Features = slices.Clone(p.Tables[i].Features)
	of := func(rows int64) table {
		part := c.Part(float64(rows) / float64(p.Tables[i].Rows))
		part.Unique = min(part.Unique, float64(rows), part.Lookups)
		q.Tables[0].Rows = rows
		for f := range q.Tables[0].Features {
			q.Tables[0].Features[f].LengthCV = p.Tables[i].BlockLengthCV(part.Lookups / c.Lookups)
			if p.Tables[i].Pooling == problem.PoolingNone { // each lookup of the block is a bag
				q.Tables[0].Features[f].PoolingFactor = p.Tables[i].Features[f].PoolingFactor * part.Lookups / c.Lookups
			}
		}
		return newTable(d, &q, 0, part, lanes)
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
	for j := range t.slices {
		s, o := &t.slices[j], &other.slices[j]
		lower(&s.memory, o.memory)
		lower(&s.cache, o.cache)
		lower(&s.memoryBack, o.memoryBack)
		lower(&s.cacheBack, o.cacheBack)
		for l := range s.alone {
			lower(&s.issue[l], o.issue[l])
			lower(&s.issueBack[l], o.issueBack[l])
			lower(&s.alone[l], o.alone[l])
		}
	}
	return t
}

// lastBlock returns the bytes of slices of the block with the fewest rows, the last one, if the rows of
// table i are cut over the devices of a host: once, and for each granule.
func lastBlock(p *problem.Problem, i, perHost int) (once, each float64) {
	s, rows := p.Whole(i), p.Tables[i].BlockRows(perHost)
	s.ShardingType, s.Rows.Start = problem.TableRowWise, rows*int64(perHost-1)
	return heldBytes(p, s)
}

// everywhereOf returns what a whole table takes of a device, with the fewest sort passes
// and, number by number, the least of all lane classes that the table may run in.
func everywhereOf(t *table, lanes []laneClass) *everywhere {
	last := &t.slices[len(t.slices)-1]
	e := &everywhere{alone: math.Inf(1)}
	for l := range lanes {
		if t.granules > lanes[l].widest {
			continue
		}
		o := operator{lanes: l, passes: t.passes}
		of := t.load(last, &o)
		if !math.IsInf(e.alone, 1) {
			for j := range of {
				of[j] = min(of[j], e.load[j])
			}
		}
		e.load, e.alone = of, min(e.alone, last.alone[l])
	}
	for j := forward; j < backward; j++ {
		e.load[j] *= lanes[0].forwards
	}
	e.load[rows], e.load[columns], e.load[bytes] = 0, 0, 0
	return e
}

// spend adds time beyond the operator: of computing (the dense updates of replicas:
// gradients are zeroed and read, weights and state read and written), and of exchanges.
func (e *everywhere) spend(computing, exchange float64) {
	e.load[linear] += computing + exchange
	e.alone += computing
	e.exchange += exchange
}
