package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// This file is a second implementation of docs/SIMULATED.md, which only tests use. It is
// written from the page, without the code that it checks, in the symbols of the page: all
// constants are written out, the cache model is solved by bisection.

// refTable is a table of an operator: R, D, F, n, U and the shares p_j of the page.
type refTable struct {
	rows, dim, features, lookups, unique float64
	reuse                                [17]float64
	lengthCV                             float64
}

// refOp is an operator on a device. cached is the rows that HBM holds of all tables of a
// cached operator, 0 in other operators.
type refOp struct {
	device                    hardware.Profile
	batch                     float64
	weight, output, index     float64 // bytes of an element
	optimizer                 string
	weighted, eager, ownLanes bool
	apart                     bool // lookups stay apart
	cached                    float64
	tables                    []refTable
}

// refUses returns c_j.
func refUses(j int) float64 {
	if j < 2 {
		return float64(j + 1)
	}
	return math.Pow(2, float64(j-1)) / math.Log(2)
}

// refMeanUses returns the sum of p_j c_j.
func refMeanUses(reuse [17]float64) float64 {
	sum := 0.0
	for j, p := range reuse {
		sum += p * refUses(j)
	}
	return sum
}

// refMisses returns m, with room for the given number of rows.
func refMisses(t refTable, room float64) float64 {
	if room >= t.unique {
		return t.unique
	}
	k := func(j int) float64 { return refUses(j) * t.lookups / (t.unique * refMeanUses(t.reuse)) }
	low, high := 0.0, 1000.0 // tau/n
	for range 90 {
		tau, held := (low+high)/2, 0.0
		for j, p := range t.reuse {
			held += t.unique * p * -math.Expm1(-k(j)*tau)
		}
		if held < room {
			low = tau
		} else {
			high = tau
		}
	}
	misses := t.unique
	for j, p := range t.reuse {
		misses += t.unique * p * math.Max(0, k(j)-1) * math.Exp(-k(j)*low)
	}
	return misses
}

// refLanes returns the lanes of a width: G.
func refLanes(warp, width float64) float64 {
	switch {
	case warp == 64:
		return 64
	case width <= 32:
		return 8
	case width <= 64:
		return 16
	}
	return 32
}

// refLongest returns kappa: the bags that share a warp wait for the longest of them.
func refLongest(bags, lengthCV float64) float64 {
	above := map[float64]float64{1: 0, 2: .5642, 4: 1.0294}[bags]
	return math.Min(bags, 1+above*2.9*lengthCV)
}

func up(x, to float64) float64 { return math.Ceil(x/to) * to }

func norm6(h, z, i float64) float64 {
	return math.Pow(math.Pow(h, 6)+math.Pow(z, 6)+math.Pow(i, 6), 1./6)
}

// compute returns the times of the operator in ms.
func (o refOp) compute() (forward, backward float64) {
	var tables []refTable
	widest := 0.0
	for _, t := range o.tables {
		if t.lookups > 0 {
			tables = append(tables, t)
			widest = math.Max(widest, t.dim)
		}
	}
	if len(tables) == 0 {
		return 0, 0
	}
	forwardFixed, backwardFixed := .014, .093
	if o.eager {
		forwardFixed, backwardFixed = .020, .100
	}
	moving := o.forward(tables, widest)
	forward = forwardFixed + moving
	backward = backwardFixed + o.prepare(tables) + o.update(tables, widest)
	if o.weighted {
		backward += 1.8 * moving
	}
	return forward, backward
}

func (o refOp) warp() float64 {
	if o.device.WarpLanes == 64 {
		return 64
	}
	return 32
}

// scale returns s.
func (o refOp) scale() float64 {
	if o.warp() == 32 {
		return 1
	}
	return 289 / 2.1 / (6.2 + 5.3 + 49)
}

// bag returns the time of a bag with some lanes: t_bag (G/W)^a.
func (o refOp) bag(lanes float64) float64 {
	switch {
	case o.apart:
		return o.scale() * 18 * lanes / o.warp()
	case o.warp() == 32:
		return 49 * math.Pow(lanes/32, .20)
	}
	return o.scale() * 49 * lanes / 64
}

// lanes returns G of a table in an operator by the kernels that share a warp among bags.
func (o refOp) lanes(t refTable, widest float64) float64 {
	if o.ownLanes {
		return refLanes(o.warp(), t.dim)
	}
	return refLanes(o.warp(), widest)
}

func (o refOp) stream() float64 { return o.device.HBMGBps * o.device.HBMEfficiency * 1e6 } // bytes/ms

// slowest returns the norm of the three limits, in ms.
func (o refOp) slowest(memory, share, cache, ns float64) float64 {
	return norm6(memory/(share*o.stream()), cache/(o.device.L2GBps*1e6), ns/(float64(o.device.SMs)*1e6))
}

// forward returns the norm of the forward: t_f without the fixed time.
func (o refOp) forward(tables []refTable, widest float64) float64 {
	var h, z, i float64
	for _, t := range tables {
		width := t.dim * o.weight
		bags := o.batch * t.features
		rest := t.lookups*o.index + bags*o.index + bags*up(t.dim*o.output, 32)
		if o.weighted {
			rest += 4 * t.lookups
		}
		misses := refMisses(t, o.room(t, widest, len(tables)))
		h += misses*(up(width, float64(o.device.Granule))+o.overhead()) + rest
		z += t.lookups*up(width, 32) + rest
		i += o.forwardIssue(t, bags, misses, widest)
	}
	return o.slowest(h, .90, z, i)
}

// overhead returns o.
func (o refOp) overhead() float64 { return 82 * float64(o.device.Granule) / 64 }

// room returns X.
func (o refOp) room(t refTable, widest float64, tables int) float64 {
	inFlight := math.Max(1, math.Ceil(float64(o.device.SMs)*45*o.warp()/o.lanes(t, widest)/o.batch))
	return .9 * float64(o.device.L2) / (math.Min(inFlight, float64(tables)) * up(t.dim*o.weight, 32))
}

// forwardIssue returns a table's part of I.
func (o refOp) forwardIssue(t refTable, bags, misses, widest float64) float64 {
	warp := o.warp()
	if warp == 32 && widest > 1024 && !o.ownLanes { // the other kernel: a warp for each bag
		lanes := warp
		if !o.weighted && t.lookups > 8*bags {
			lanes = refLanes(warp, t.dim)
		}
		return o.scale()*(t.lookups*6.2+misses*5.3)*math.Ceil(t.dim/(4*lanes))*lanes/warp + bags*o.bag(warp)
	}
	lanes := o.lanes(t, widest)
	rows := t.lookups*6.2*refLongest(warp/lanes, t.lengthCV) + misses*5.3
	return o.scale()*rows*math.Ceil(t.dim/(4*lanes))*lanes/warp + bags*o.bag(lanes)
}

// update returns the norm of the backward.
func (o refOp) update(tables []refTable, widest float64) float64 {
	var h, z, i float64
	for _, t := range tables {
		bags, width, gradient := o.batch*t.features, t.dim*o.weight, up(t.dim*o.output, 32)
		a := float64(o.device.Granule)
		state := map[string]float64{"sgd": 0, "rowwise_adagrad": 64, "adagrad": 2 * up(4*t.dim, a), "adam": 4 * up(4*t.dim, a)}[o.optimizer]
		q := math.Min(1, .9*float64(o.device.L2)/(bags*gradient))
		again := math.Max(0, t.lookups-bags) * gradient * (1 - q)
		h += math.Min(bags, t.lookups)*gradient + again + t.unique*(2*(up(width, a)+o.overhead())+state) + 4*t.lookups
		z += t.lookups*gradient + t.unique*(2*up(width, 32)+state)

		lanes := o.lanes(t, widest)
		lookups := t.lookups
		if o.optimizer == "rowwise_adagrad" && o.warp() == 64 && widest <= 128 {
			often := 0.0 // the share of lookups of rows used 33 times or more
			for j := 6; j < 17; j++ {
				often += t.reuse[j] * refUses(j) / refMeanUses(t.reuse)
			}
			lookups *= 1 - often + often*math.Pow(.5, .76)
		}
		row := 42.0
		if o.optimizer != "sgd" {
			row += 35.8
		}
		if o.weight == 2 {
			row += 21
		}
		blocks := 0.0
		for j := 6; j < 17; j++ {
			blocks += t.unique * t.reuse[j] * math.Max(1, refUses(j)/1024)
		}
		i += o.scale() * (4.7*lookups + row*t.unique + 3810*blocks) * math.Ceil(t.dim/(4*lanes)) * math.Pow(lanes/o.warp(), .87)
	}
	return o.slowest(h, .74, z, i)
}

// refPasses returns the passes of a radix sort whose keys are the numbers of rows.
func refPasses(rows float64) float64 {
	bits := math.Max(1, math.Ceil(math.Log2(math.Max(2, rows)))+1)
	return math.Ceil(bits / 8)
}

// prepare returns t_sort, t_sort2 and t_prep.
func (o refOp) prepare(tables []refTable) float64 {
	var n, unique, rows, bags float64
	for _, t := range tables {
		n, unique, rows, bags = n+t.lookups, unique+t.unique, rows+t.rows, bags+o.batch*t.features
	}
	if o.apart {
		bags = 0
	}
	sorted := n * (o.index + 2*refPasses(rows)*(o.index+4))
	if o.cached > 0 {
		sorted += n * (4 + 2*refPasses(o.cached)*(4+4))
	}
	return sorted/(.42*o.stream()) + (n*(3*o.index+4)+unique*(o.index+12))/o.stream() +
		10.3*o.scale()*bags/(float64(o.device.SMs)*1e6)
}

// refOf returns the operator in the symbols of the page.
func refOf(d Device, op Op) refOp {
	bytes := func(stated, standard int) float64 {
		if stated == 0 {
			stated = standard
		}
		return float64(stated)
	}
	o := refOp{
		device: d.Profile(), batch: float64(op.Batch),
		weight: bytes(op.WeightBytes, 4), output: bytes(op.OutputBytes, 4), index: bytes(op.IndexBytes, 8),
		optimizer: op.Optimizer.String(), weighted: op.Weighted, eager: op.Launch == Eager,
		ownLanes: op.LaneRule == problem.LanesByTable, cached: float64(op.CachedRows),
		apart: op.Pooling == problem.PoolingNone,
	}
	for _, t := range op.Tables {
		o.tables = append(o.tables, refTable{
			rows: float64(t.Rows), dim: float64(t.Dim), features: cmp.Or(t.Bags, 1),
			lookups: t.Counts.Lookups, unique: t.Counts.Unique, reuse: t.Counts.Reuse, lengthCV: t.LengthCV,
		})
	}
	return o
}

// refDraws draws operators of every kind.
type refDraws struct{ *rand.Rand }

func (r refDraws) pick(of ...int) int     { return of[r.IntN(len(of))] }
func (r refDraws) log(to float64) float64 { return math.Exp(r.Float64() * math.Log(to)) }

// op draws an operator. Half of the operators have dims of one width class, and an eighth a
// table of more than 1,024 columns.
func (r refDraws) op() (Device, Op) {
	op := Op{
		Batch:       r.pick(1, 512, 8192, 65536),
		WeightBytes: r.pick(0, 2, 4), OutputBytes: r.pick(0, 2, 4), IndexBytes: r.pick(0, 4, 8),
		Optimizer: problem.Optimizer(r.IntN(4)), Weighted: r.IntN(4) == 0,
		LaneRule: problem.LaneRule(r.IntN(2)), Launch: LaunchMode(r.IntN(2)),
	}
	widest := r.pick(32, 64, 128, 1024)
	if r.IntN(5) == 0 {
		op.Pooling = problem.PoolingNone
	}
	rows := int64(0)
	for range r.pick(1, 1, 2, 3, 5, 8, 12) {
		t := r.table(op.Batch, widest)
		if op.Pooling == problem.PoolingNone {
			t.Bags, t.LengthCV = t.Counts.Lookups/float64(op.Batch), 0
		}
		rows += t.Rows
		op.Tables = append(op.Tables, t)
	}
	if r.IntN(8) == 0 {
		op.Tables[0].Dim = 4 * (257 + r.IntN(512))
	}
	if r.IntN(6) == 0 {
		op.CachedRows = 1 + r.Int64N(rows)
	}
	profiles := hardware.Profiles()
	return NewDevice(profiles[r.IntN(len(profiles))]), op
}

// table draws a table, or the block of a table's rows with the most used row.
func (r refDraws) table(batch, widest int) Table {
	t := Table{Rows: int64(r.log(1e9)), Dim: 4 * (1 + r.IntN(widest/4)), Bags: float64(r.IntN(8)) / 2}
	d := access.Distribution{Kind: access.Kind(r.IntN(4)), Exponent: .5 + r.Float64(), Batch: r.pick(512, 8192, 65536)}
	shares, peak := 0.0, 8*r.Float64()
	for j := range d.Reuse {
		d.Reuse[j] = math.Exp(-math.Abs(float64(j) - peak))
		shares += d.Reuse[j]
	}
	for j := range d.Reuse {
		d.Reuse[j] /= shares
	}
	pooling := max(1, t.Bags) * r.log(100) * float64(r.pick(0, 1, 1, 1, 1, 1, 1, 1)) / 2
	t.Counts = d.At(t.Rows, pooling, batch)
	if r.IntN(4) == 0 && t.Counts.Lookups > 0 {
		t.Counts = t.Counts.Part(r.Float64()/2 + .01)
	}
	if r.IntN(2) == 0 {
		t.LengthCV = 4 * r.Float64()
	}
	return t
}

// TestOperatorsEqualReference compares 500 operators with the second implementation.
func TestOperatorsEqualReference(t *testing.T) {
	draws := refDraws{rand.New(rand.NewPCG(3, 4))}
	for i := range 500 {
		d, op := draws.op()
		o := refOf(d, op)
		forward, backward := d.Compute(op)
		wantForward, wantBackward := o.compute()
		what := fmt.Sprintf("%+v on %s", op, d.Profile().Name)
		difference(t, "forward of "+what, i, float64(forward), wantForward)
		difference(t, "backward of "+what, i, float64(backward), wantBackward)
	}
}

// refUncached returns M: the rows that a cache of the most used rows misses. Of the rows used
// once, it holds the share of its room that the higher classes leave.
func refUncached(t refTable, room float64) float64 {
	missed, others := 0.0, t.rows
	for j := 16; j > 0; j-- {
		rows := t.unique * t.reuse[j]
		held := math.Min(rows, room)
		missed, room, others = missed+rows-held, room-held, others-rows
	}
	once := t.unique * t.reuse[0]
	if room > 0 && others > 0 {
		once *= 1 - math.Min(1, room/others)
	}
	return missed + once
}

// TestHostAndReplicasEqualReference compares 300 tables in a host's memory, and as replicas.
func TestHostAndReplicasEqualReference(t *testing.T) {
	draws := refDraws{rand.New(rand.NewPCG(7, 8))}
	for i := range 300 {
		d, op := draws.op()
		o, p := refOf(d, op), d.Profile()
		if op.WeightBytes == 0 {
			op.WeightBytes, o.weight = 4, 4
		}
		in, x := op.Tables[0], o.tables[0]
		table := problem.Table{Rows: in.Rows, Dim: in.Dim, Optimizer: op.Optimizer, Precision: problem.FP32}
		if op.WeightBytes == 2 {
			table.Precision = problem.FP16
		}
		state := map[string]float64{"sgd": 0, "rowwise_adagrad": 4, "adagrad": 4 * x.dim, "adam": 8 * x.dim}[o.optimizer]
		want := (2*4*x.rows*x.dim + 2*o.weight*x.rows*x.dim + 2*state*x.rows) / o.stream()
		difference(t, "dense update", i, float64(d.DenseUpdate(&table, in.Dim)), want)

		link := p.HostLinkGBps() * 1e6
		a := float64(p.Granule)
		moved := map[string]float64{"sgd": 0, "rowwise_adagrad": 64, "adagrad": 2 * up(4*x.dim, a), "adam": 4 * up(4*x.dim, a)}[o.optimizer]
		forward, backward := d.HostLink(&table, in.Counts, in.Dim, problem.Form{Tier: problem.Host})
		difference(t, "host forward", i, float64(forward), x.lookups*up(x.dim*o.weight, 32)/link)
		difference(t, "host backward", i, float64(backward), x.unique*(up(x.dim*o.weight, 32)+moved/2)/link)

		share := draws.Float64()
		forward, backward = d.HostLink(&table, in.Counts, in.Dim, problem.Form{Tier: problem.HostCached, Cache: share})
		// A millionth of all rows is added, because a cache that holds nearly all of them misses
		// what rounding leaves.
		little := 1e-6 * x.unique * (x.dim*o.weight + state) / link
		want = refUncached(x, math.Ceil(share*x.rows))*(x.dim*o.weight+state)/link + little
		difference(t, "cached forward", i, float64(forward)+little, want)
		difference(t, "cached backward", i, float64(backward)+little, want)
	}
}

// difference fails the test if two times differ by more than 1e-9 of the second.
func difference(t *testing.T, what string, id int, got, want float64) {
	if got == want {
		return
	}
	if off := math.Abs(got-want) / math.Max(math.Abs(want), 1e-300); !(off <= 1e-9) {
		t.Errorf("%s of case %d: got %v ms, want %v ms", what, id, got, want)
	}
}
