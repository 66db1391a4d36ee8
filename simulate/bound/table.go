package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
)

// table.go counts what slices of a table take, by the formulas of docs/SIMULATED.md.
// table_test.go compares the counts with the simulated device.

// The times of the simulated device, in ms: fixedMS is the fixed time of an operator,
// forward and backward, and forwardFixedMS its part in the forward.
const (
	fixedMS        = (simulate.ForwardFixedUS + simulate.BackwardFixedUS) / 1000
	forwardFixedMS = simulate.ForwardFixedUS / 1000
)

const (
	// maxPasses is more than the sort passes of any valid problem.
	maxPasses = 8
	// maxGranules is the widest slice with a price of its own, in granules.
	maxGranules = 64
)

// table holds what slices of one table, or of one of several equal tables, take.
type table struct {
	// count is the number of equal tables, and index the place of the first one in the
	// problem.
	count float64
	index int
	// operation is the number of the operation that looks the table up.
	operation int
	// forms are the operator classes that the table may have, and hosted what its slices take in
	// host memory.
	forms  forms
	hosted []hosted
	// granules is the width of the table and least that of its narrowest slice, in
	// granules of columns.
	granules, least int
	// guest is the number of the table among the guests of a relaxation, from 1; 0 means that it is
	// none. If pieces is above 0, the table is cut into exactly that number of slices, or into
	// at least that number if it is no guest (guests.go).
	guest, pieces int
	rows          float64
	// passes is the least number of sort passes of a device with a slice of the table.
	passes int
	// sorted is the time of sorting and preparing, in ms, by the number of passes.
	sorted [maxPasses + 1]float64
	// columns is the least pooled columns of a granule. A slice takes bytes for each
	// granule, and bytesOnce in addition.
	columns, bytes, bytesOnce float64
	// slices lists the slices of 1, 2, ... granules. A table of more than maxGranules has
	// one more entry: see wide.
	slices []slice
	// lean is the least that a pooled column takes, by lane class.
	lean [laneClasses]leanest
}

// slice is what a slice takes of an operator in any mode.
type slice struct {
	granules float64
	// Times, in ms, in which memory and cache are busy, forward and backward.
	memory, cache, memoryBack, cacheBack float64
	// issue and issueBack are the times, in ms, in which warps issue, forward and backward,
	// by lane class.
	issue, issueBack [laneClasses]float64
	// alone is the time of an operator with no other slice, by lane class and without
	// the fixed time.
	alone [laneClasses]float64
}

// newTable returns what slices of table i take in the given lane classes, where c counts the
// accesses of a batch.
func newTable(d *simulate.Device, p *problem.Problem, i int, c access.Counts, lanes []laneClass) table {
	const index = problem.IndexBytes
	t := &p.Tables[i]
	n, unique := c.Lookups, c.Unique
	once, each := heldBytes(p, p.Whole(i))
	s := table{
		count:     1,
		granules:  t.Dim / problem.ColumnGranule,
		least:     granulesOf(t.MinWidth()),
		rows:      float64(t.Rows),
		passes:    sortPasses(float64(t.Rows)),
		columns:   leastColumns(t),
		bytes:     each,
		bytesOnce: once,
	}
	prepare := (n*(3*index+simulate.BagIDBytes)+unique*(index+simulate.RunBytes))/d.Stream +
		float64(p.Batch)*t.Bags()*d.PrepareNanos(t.Pooling)/d.Issue
	for k := range s.sorted {
		s.sorted[k] = prepare + n*(index+2*float64(k)*(index+simulate.BagIDBytes))/d.Sort
	}
	w := newWidths(d, p, i, c, lanes)
	for g := 1; g <= min(s.granules, maxGranules); g++ {
		s.slices = append(s.slices, w.slice(g))
	}
	if s.granules > maxGranules {
		s.slices = append(s.slices, w.wide(s.granules))
	}
	for j := range s.slices {
		for l := range lanes {
			s.slices[j].alone[l] = s.alone(j, l, t.Weighted)
		}
	}
	return s
}

// heldBytes returns the bytes of HBM of slices like shard s: once, and for each granule.
func heldBytes(p *problem.Problem, s problem.Shard) (once, each float64) {
	of := func(granules int64) float64 {
		s.Columns.End = s.Columns.Start + granules*problem.ColumnGranule
		return bytesOf(p, s)
	}
	first, second := of(1), of(2)
	once, each = 2*first-second, second-first
	if _, ok := p.Accounting.TorchRec(); ok {
		// TorchRec rounds inputs, outputs and state up, so the differences are off by up to 3 bytes.
		once, each = max(0, once-6), max(0, each-3)
	}
	return once, each
}

// granulesOf returns the granules of a number of columns, rounded up.
func granulesOf(columns int) int {
	return (columns + problem.ColumnGranule - 1) / problem.ColumnGranule
}

// leastColumns returns the fewest pooled columns that any slice of the table has for each granule
// of its width. A slice has its width times the bags, rounded to a whole number.
func leastColumns(t *problem.Table) float64 {
	bags := t.Bags()
	exact := bags * problem.ColumnGranule
	if exact == math.Trunc(exact) {
		return exact
	}
	least := math.Inf(1)
	for width := t.MinWidth(); width <= t.Dim; width += problem.ColumnGranule {
		least = min(least, float64(problem.Columns(width, bags))/float64(width/problem.ColumnGranule))
	}
	return least
}

// alone returns the time of slice j with nothing else in its operator, in ms.
func (t *table) alone(j, lanes int, weighted bool) float64 {
	if j == maxGranules {
		// A wider slice takes at least the time of the widest one with a price of its own.
		j--
	}
	s := &t.slices[j]
	forward := norm(s.memory, s.cache, s.issue[lanes])
	if weighted {
		forward *= 1 + simulate.WeightedShare
	}
	return forward + t.sorted[t.passes] + norm(s.memoryBack, s.cacheBack, s.issueBack[lanes])
}

// widths counts a table's traffic by the width of a slice.
type widths struct {
	*simulate.Device
	n, unique, bags, element float64
	// once is the bytes that a slice of any width reads: indices, offsets and weights.
	once      float64
	optimizer problem.Optimizer
	issuing   issuing
	lanes     []laneClass
	usage     simulate.Usage
	// row is the bytes in the cache of the last row, and missed its misses.
	row, missed float64
}

func newWidths(d *simulate.Device, p *problem.Problem, i int, c access.Counts, lanes []laneClass) *widths {
	t := &p.Tables[i]
	w := &widths{
		Device: d, n: c.Lookups, unique: c.Unique, bags: float64(p.Batch) * t.Bags(), element: float64(t.Precision.Bytes()),
		optimizer: t.Optimizer, issuing: newIssuing(d, p, i, c), lanes: lanes, usage: simulate.NewUsage(c),
	}
	w.once = (w.n + w.bags) * problem.IndexBytes
	if t.Weighted {
		w.once += w.n * simulate.LookupWeightBytes
	}
	return w
}

// slice returns what a slice of the given granules takes.
func (w *widths) slice(granules int) slice {
	dim := float64(granules * problem.ColumnGranule)
	row, rowInMemory := roundUp(dim*w.element, simulate.CacheLine), roundUp(dim*w.element, w.Granule)+w.RowOverhead
	pooled := roundUp(dim*problem.OutputBytes, simulate.CacheLine)
	if row != w.row {
		w.row, w.missed = row, w.usage.Misses(w.Cache/row)
	}
	s := w.times(w.once, row, rowInMemory, pooled, w.StateTraffic(w.optimizer, dim), w.bags*pooled)
	s.granules = float64(granules)
	for l := range w.lanes {
		s.issue[l], s.issueBack[l] = w.issuing.slice(&w.lanes[l], granules*problem.ColumnGranule, w.missed)
	}
	return s
}

// wide returns the entry for all slices of more than maxGranules, in a table of the
// given granules. The entry is a lower bound on what the whole table takes. Divided by the
// granules of the table, it is also a lower bound on what each granule of a wide slice
// takes: widths are not rounded up, and misses and uncached gradients are those of a slice
// of maxGranules, because a granule of a wider slice never has fewer.
func (w *widths) wide(granules int) slice {
	w.slice(maxGranules)
	dim := float64(granules * problem.ColumnGranule)
	pooled := dim * problem.OutputBytes
	state := 0.0
	switch w.optimizer {
	case problem.RowwiseAdagrad:
		state = simulate.RowwiseState
	case problem.Adagrad:
		state = 2 * 4 * dim
	case problem.Adam:
		state = 4 * 4 * dim
	}
	s := w.times(w.once, dim*w.element, dim*w.element+w.RowOverhead, pooled, state, w.bags*maxGranules*problem.ColumnGranule*problem.OutputBytes)
	s.granules = float64(granules)
	for l := range w.lanes {
		s.issue[l], s.issueBack[l] = w.issuing.wide(&w.lanes[l], granules*problem.ColumnGranule, w.missed)
	}
	return s
}

// times returns the times of memory and cache. vectors is the bytes of all gradient
// vectors; the cache holds a part of them.
func (w *widths) times(once, row, rowInMemory, pooled, state, vectors float64) slice {
	rest := once + w.bags*pooled
	cached := min(1, w.Cache/vectors)
	gradients := min(w.bags, w.n)*pooled + max(0, w.n-w.bags)*pooled*(1-cached)
	return slice{
		memory:     (w.missed*rowInMemory + rest) / w.Gather,
		cache:      (w.n*row + rest) / w.L2,
		memoryBack: (gradients + w.unique*(2*rowInMemory+state) + w.n*simulate.BagIDBytes) / w.Update,
		cacheBack:  (w.n*pooled + w.unique*(2*row+state)) / w.L2,
	}
}

// sortPasses returns the number of passes that sort the given rows, at most maxPasses.
func sortPasses(rows float64) int {
	k := 1
	for k < maxPasses && rows > maxRows(k) {
		k++
	}
	return k
}

// maxRows returns the most rows that the given number of passes sort, with 8 bits a pass
// and a bit to spare.
func maxRows(passes int) float64 { return math.Ldexp(1, 8*passes-1) }

// norm returns the p-norm of the simulated device. It takes two roots, because they are
// faster than one power.
func norm(a, b, c float64) float64 {
	most := max(a, b, c)
	if most == 0 {
		return 0
	}
	sixth := func(x float64) float64 { x /= most; x *= x; return x * x * x }
	return most * math.Cbrt(math.Sqrt(sixth(a)+sixth(b)+sixth(c)))
}

// roundUp rounds x up to a multiple of step.
func roundUp(x, step float64) float64 { return math.Ceil(x/step) * step }
