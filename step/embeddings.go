package step

import (
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// embeddings.go says what a placement makes each device do in a step.
//
// Under the flat exchange, the placement costs what package simulate says, with every
// sharding type and tier. Under HugeCTR's exchanges, a shard with a part of the rows is a
// table with that part of the rows and lookups, and with all bags: it sends a vector for
// each sample. With V_r the bytes of the vectors of one sample on device r, and V their sum:
//
//	uniform       M = max(B (G-1)/G V_r, B/G (V - V_r)), the largest over the devices
//	              M (1-f) / inside + M f / between + latency        f = (G-l)/(G-1)
//	hierarchical  B (l-1)/l max V_r / inside
//	              + B/l (h-1)/h max V_host / between + latency
//
// where V_host counts each table with a shard on the host once. The hierarchical formula is
// simulate.Network.Hierarchical, which searches and bounds count, too. Pooled tables with index_dedup have a
// uniform exchange of their own under either, in which V counts a vector for each index sent.

// Embeddings is what the embeddings of a placement take in a step.
type Embeddings struct {
	// Forward and Backward are the lookups of the device that takes longest for both.
	Forward, Backward unit.Millis
	// ReplicaForward and ReplicaBackward are the lookups of replicas, the same on all
	// devices. Under the flat exchange they are part of Forward and Backward.
	ReplicaForward, ReplicaBackward unit.Millis
	// ExchangeForward and ExchangeBackward are the exchanges of vectors and of gradients, and
	// Input is the exchange of indices.
	ExchangeForward, ExchangeBackward, Input unit.Millis
	// Columns has, for each device, the columns of the vectors that it sends for each
	// sample: one vector for each shard and feature.
	Columns []int
	// Replicated is the weights of replicas whose gradients join the all-reduce of the
	// dense part. Under the flat exchange it is 0: their all-reduce is in ExchangeBackward.
	Replicated float64
	// InputBytes is the bytes of a sample's indices, lengths and label in the input.
	InputBytes float64
}

// EmbeddingsOf returns what the embeddings of a placement take under a stack. It fails if
// the stack cannot hold the placement, or the cluster has several hosts and no network.
func EmbeddingsOf(p *problem.Problem, shards [][]problem.Shard, s Stack) (Embeddings, error) {
	if len(shards) != p.Topology.Devices {
		return Embeddings{}, fmt.Errorf("step: the placement is for %d devices, and the cluster has %d", len(shards), p.Topology.Devices)
	}
	var e Embeddings
	var err error
	input := inputBytes(p, &s)
	fixed := p.Topology.FixedTime(0)
	p = problem.Deduplicated(p)
	if s.Exchange == Flat {
		e, err = flat(p, shards, &s)
	} else if e, err = summed(p, shards, &s); err == nil {
		pooling := p.Topology.FixedTime(0) - fixed // of vectors that travel apart
		e.Forward, e.Backward = e.Forward+pooling/2, e.Backward+pooling/2
	}
	e.InputBytes = input
	return e, err
}

// inputBytes returns the bytes of a sample's indices, lengths and label.
func inputBytes(p *problem.Problem, s *Stack) float64 {
	bytes := float64(labelBytes)
	for i := range p.Tables {
		t := &p.Tables[i]
		bytes += t.PoolingFactor()*float64(s.IndexBytes) + t.Lists()*float64(s.LengthBytes)
	}
	return bytes
}

// flat returns the embeddings of a placement as package simulate estimates it.
func flat(p *problem.Problem, shards [][]problem.Shard, s *Stack) (e Embeddings, err error) {
	there, back := s.precisions(p)
	own := *p
	own.CommPrecision, own.Hierarchy = there, problem.Hierarchy{}
	pricer := simulate.NewPricer(&own)
	b, err := pricer.Price(shards)
	if err != nil {
		return e, err
	}
	if e.Input, err = pricer.Input(shards); err != nil {
		return e, err
	}
	at, exchange := 0, b.Devices[0].ForwardComm
	for i, d := range b.Devices {
		// ForwardComm contains the wait for the slowest device, which waits least.
		exchange = min(exchange, d.ForwardComm)
		if w := b.Devices[at]; d.Forward+d.Backward > w.Forward+w.Backward {
			at = i
		}
	}
	worst := b.Devices[at]
	lookups := b.Cost - exchange - worst.BackwardComm
	e.ExchangeForward, e.ExchangeBackward = exchange, worst.BackwardComm
	scale := unit.Millis(s.Constants.Lookups)
	e.Forward, e.Backward = worst.Forward*scale, (lookups-worst.Forward)*scale
	if s.Overlaps.Sort {
		e.Backward -= min(e.Backward, lookupsOf(p, s).sorting(shards[at]))
	}
	e.Columns = simulate.ColumnsOf(p, shards).Devices
	if there != back {
		own.CommPrecision = back
		if b, err = simulate.NewPricer(&own).Price(shards); err != nil {
			return e, err
		}
		e.ExchangeBackward = b.Devices[b.Critical].BackwardComm
	}
	return e, nil
}

// summed returns the embeddings of a placement under HugeCTR's exchanges.
func summed(p *problem.Problem, shards [][]problem.Shard, s *Stack) (e Embeddings, err error) {
	for d, held := range shards {
		for i := range held {
			if t := &p.Tables[held[i].Table]; t.Pooling == problem.PoolingNone && (t.Stated == nil || t.Stated.Pooling == problem.PoolingNone) {
				return e, fmt.Errorf("step: table %q has pooling none, and the exchange %s adds up vectors: choose a torchrec stack", t.Name, s.Exchange)
			}
			if held[i].Tier.OnHost() {
				return e, fmt.Errorf("step: device %d holds table %q in host memory, which the exchange %s does not know: plan --engine hugectr, or choose a torchrec stack", d, p.Tables[held[i].Table].Name, s.Exchange)
			}
		}
	}
	l := lookupsOf(p, s)
	own := replicated(shards)
	worst := computeTimes{}
	for _, held := range shards {
		if t := l.times(held, p.Batch, false); t.forward+t.backward > worst.forward+worst.backward {
			worst = t
		}
	}
	e.Forward, e.Backward = worst.forward, worst.backward
	if len(own) > 0 {
		t := l.times(own, (p.Batch+p.Topology.Devices-1)/p.Topology.Devices, true)
		e.ReplicaForward, e.ReplicaBackward = t.forward, t.backward
		for _, shard := range own {
			e.Replicated += float64(shard.Rows.Len()) * float64(shard.Dim())
		}
	}
	columns := simulate.ColumnsOf(p, shards)
	if e.Columns = columns.Devices; p.Topology.Devices == 1 {
		return e, nil
	}
	net, err := networkOf(p)
	if err != nil {
		return e, err
	}
	e.exchanged(net, p, shards, s)
	return e, nil
}

// exchanged adds the exchanges of vectors: of those that are added up, and of those that travel apart.
func (e *Embeddings) exchanged(net simulate.Network, p *problem.Problem, shards [][]problem.Shard, s *Stack) {
	there, back := s.precisions(p)
	together, apart := make([][]problem.Shard, len(shards)), make([][]problem.Shard, len(shards))
	for d, held := range shards {
		for _, shard := range held {
			if p.Tables[shard.Table].Apart() {
				apart[d] = append(apart[d], shard)
			} else {
				together[d] = append(together[d], shard)
			}
		}
	}
	summed, unique := simulate.ColumnsOf(p, together), simulate.ColumnsOf(p, apart)
	alone := slices.Max(unique.Devices) == 0
	if alone || slices.Max(summed.Devices) > 0 {
		e.ExchangeForward, e.ExchangeBackward = exchange(net, summed, s, s.Hierarchy(), there), exchange(net, summed, s, s.Hierarchy(), back)
	}
	if !alone {
		e.ExchangeForward += exchange(net, unique, s, problem.Hierarchy{}, there)
		e.ExchangeBackward += exchange(net, unique, s, problem.Hierarchy{}, back)
	}
}

// replicated returns the replicas of a device.
func replicated(shards [][]problem.Shard) (own []problem.Shard) {
	for _, s := range shards[0] {
		if s.ShardingType == problem.DataParallel {
			own = append(own, s)
		}
	}
	return own
}

// networkOf returns the simulated device's network. It takes an NVLink domain as one host. It
// fails if the devices span domains and the profile has no network.
func networkOf(p *problem.Problem) (simulate.Network, error) {
	t := &p.Topology
	net, err := simulate.NewDevice(t.Device()).Network(simulate.Cluster{Devices: t.Devices, PerHost: t.PerHost(), Domain: t.NVLinkDomain, Replicas: t.Replicas, ReplicasPerDomain: t.ReplicasPerDomain, Batch: p.Batch})
	if err != nil {
		return net, fmt.Errorf("step: %w", err)
	}
	return net, nil
}

// exchange returns the time of one of HugeCTR's exchanges of vectors in a number format, which is uniform without a
// hierarchy.
func exchange(net simulate.Network, columns simulate.Columns, s *Stack, h problem.Hierarchy, format problem.Precision) unit.Millis {
	net.ElementBytes = int(format.Bytes())
	if h.On() {
		inside, between := net.Hierarchical(h, float64(slices.Max(columns.Devices)), float64(slices.Max(columns.Hosts)))
		return inside.Time() + between.Time()
	}
	devices, perHost := float64(net.Devices), float64(net.Joined())
	batch, element := float64(net.Batch)*s.Constants.Sent, net.Element()
	all := 0
	for _, c := range columns.Devices {
		all += c
	}
	most := 0.0
	for _, c := range columns.Devices {
		most = max(most, batch*(devices-1)/devices*float64(c)*element, batch/devices*float64(all-c)*element)
	}
	inside, between := net.Intra*s.Constants.Inside, net.NIC*s.Constants.Between
	if net.Domains() == 1 {
		return unit.Millis(most / inside)
	}
	away := (devices - perHost) / (devices - 1)
	return unit.Millis(most*(1-away)/inside+most*away/between) + s.Constants.Latency
}

// lookups estimates the lookups of devices under HugeCTR's exchanges.
type lookups struct {
	problem *problem.Problem
	device  simulate.Device
	stack   *Stack
	output  int
	counts  map[countKey]access.Counts
}

// countKey tells tables with different accesses apart.
type countKey struct {
	access  access.Distribution
	rows    int64
	pooling float64
	batch   int
}

func lookupsOf(p *problem.Problem, s *Stack) *lookups {
	there, _ := s.precisions(p)
	return &lookups{
		problem: p, device: simulate.NewDevice(p.Topology.Profile), stack: s, output: int(there.Bytes()),
		counts: map[countKey]access.Counts{},
	}
}

// computeTimes are times of lookups.
type computeTimes struct{ forward, backward unit.Millis }

// times returns the times of the shards of a device: of the replicas, or of the others.
// Shards of equal optimizer, precision and weighting are one operator, if all of them pool or
// none does.
func (l *lookups) times(held []problem.Shard, batch int, replicas bool) (t computeTimes) {
	type operator struct {
		problem.Operation
		apart bool // keeps lookups apart
	}
	var keys []operator
	ops := map[operator]*simulate.Op{}
	for _, s := range held {
		if (s.ShardingType == problem.DataParallel) != replicas {
			continue
		}
		pooling := l.problem.Tables[s.Table].Pooling
		key := operator{l.problem.Operation(s.Table), pooling == problem.PoolingNone}
		if replicas {
			key.Optimizer = problem.SGD // the dense update applies the gradients
		}
		op := ops[key]
		if op == nil {
			op = &simulate.Op{
				Batch: batch, WeightBytes: int(key.Precision.Bytes()), OutputBytes: l.output, IndexBytes: l.stack.IndexBytes,
				Optimizer: key.Optimizer, Weighted: key.Weighted, Pooling: pooling, LaneRule: key.LaneRule, Launch: l.stack.Launch,
			}
			ops[key] = op
			keys = append(keys, key)
		}
		op.Tables = append(op.Tables, l.part(s, batch))
	}
	scale := unit.Millis(l.stack.Constants.Lookups)
	for _, key := range keys {
		k := l.kernels(*ops[key], replicas)
		if l.stack.Overlaps.Sort {
			k.Prepare, k.Sort, k.FixedForward, k.FixedBackward = 0, 0, 0, 0
		}
		t.forward += scale * (k.FixedForward + k.Forward)
		t.backward += scale * (k.FixedBackward + k.Backward())
	}
	return t
}

// kernels returns the times of an operator's kernels in the stack.
func (l *lookups) kernels(op simulate.Op, replicas bool) simulate.Kernels {
	if l.stack.HugeCTR {
		return l.device.HugeCTR(op, replicas)
	}
	return l.device.Kernels(op)
}

// sorting returns the time that a device's lookups save if the engine sorts indices beside the
// dense part.
func (l *lookups) sorting(held []problem.Shard) unit.Millis {
	with, without := *l.stack, *l.stack
	with.Overlaps.Sort, without.Overlaps.Sort = true, false
	own := *l
	own.stack = &without
	all := own.times(held, l.problem.Batch, false)
	own.stack = &with
	rest := own.times(held, l.problem.Batch, false)
	return all.forward + all.backward - rest.forward - rest.backward
}

// part returns a shard as a table: one with a part of the rows has that part of the
// lookups and of the distinct rows.
func (l *lookups) part(s problem.Shard, batch int) simulate.Table {
	t := &l.problem.Tables[s.Table]
	key := countKey{t.Access, t.Rows, t.PoolingFactor(), batch}
	c, ok := l.counts[key]
	if !ok {
		c = t.Counts(batch)
		l.counts[key] = c
	}
	rows := s.Rows.Len()
	share := float64(rows) / float64(t.Rows)
	if share < 1 {
		c.Lookups *= share
		c.Unique = min(c.Unique*share, float64(rows))
	}
	bags := t.Bags()
	if t.Pooling == problem.PoolingNone {
		bags *= share // each lookup of the block is a bag
	}
	return simulate.Table{
		Rows: rows, Dim: s.Dim(), Bags: bags, Counts: c, LengthCV: t.BlockLengthCV(share),
	}
}
