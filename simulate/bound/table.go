package bound

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// table.go counts what slices of a table take, by the formulas of
// docs/SIMULATED.md. table_test.go holds them against the simulated device.

// The constants of the simulated device.
const (
	gatherShare   = 0.86
	updateShare   = 0.60
	sortShare     = 0.68
	stepCycles    = 33
	cacheShare    = 0.9
	weightedShare = 1.1
	fixedMS       = 45e-3 // of an operator, forward and backward
	cacheLine     = 32
	bagIDBytes    = 4
	runBytes      = 12
	rowwiseState  = 64
	weightBytes   = 4
	maxRun        = 1024
	runStepMS     = 0.5e-3 / 16 // of one use of the most used row
)

const (
	// classes is the number of lane classes: groups of 8, 16 and 32 lanes, each
	// of a granule of columns.
	classes = 3
	// maxPasses is more passes than a valid problem's rows are sorted in.
	maxPasses = 8
	// maxGranules is the widest slice that is priced by itself, in granules.
	maxGranules = 64
)

// rates are what a device does in a millisecond, in bytes or cycles.
type rates struct{ stream, l2, issue, cache, granule float64 }

func newRates(p hardware.Profile) rates {
	return rates{
		stream:  p.HBMGBps * p.HBMEfficiency * 1e6,
		l2:      p.L2GBps * 1e6,
		issue:   float64(p.SMs) * p.ClockGHz * 1e6,
		cache:   cacheShare * float64(p.L2),
		granule: float64(p.Granule),
	}
}

// table is what slices of a table take, of one or more equal tables.
type table struct {
	count float64
	// index is that of the first of them in the problem.
	index int
	// operator is the number of the operator that serves it.
	operator int
	// granules is its width and least that of its narrowest slice, in granules of
	// columns.
	granules, least int
	rows            float64
	// passes is the least that a device with a slice of it sorts in.
	passes int
	// sorted is the time of sorting and preparing, in ms, by the passes.
	sorted [maxPasses + 1]float64
	// issue and issueBack are the time, in ms, of one row step of a full warp for
	// every lookup.
	issue, issueBack float64
	// run is the time of the walk through the most used row, in ms.
	run float64
	// columns is the pooled columns of a granule. A slice takes bytes for each
	// granule and bytesOnce besides.
	columns, bytes, bytesOnce float64
	// slices are those of 1, 2, ... granules. A table of more than maxGranules has
	// one more: see wide.
	slices []slice
}

// slice is what a slice takes in any kind of operator.
type slice struct {
	granules float64
	// Times, in ms, in which memory and cache are busy, forward and backward.
	memory, cache, memoryBack, cacheBack float64
	// steps is the row steps of a full warp, by the lane class.
	steps [classes]float64
	// alone is the time of an operator of nothing else, by its lane class and
	// without the fixed time.
	alone [classes]float64
}

// newTable returns what slices of table i take, with the accesses of a batch.
func newTable(d *rates, p *problem.Problem, i int, c access.Counts) table {
	const index = problem.IndexBytes
	t := &p.Tables[i]
	n, unique := c.Lookups, c.Unique
	one, two := p.Whole(i), p.Whole(i)
	one.Columns.End, two.Columns.End = problem.ColumnGranule, 2*problem.ColumnGranule
	first, second := float64(p.ShardMemory(one).Tables()), float64(p.ShardMemory(two).Tables())
	s := table{
		count:     1,
		granules:  t.Dim / problem.ColumnGranule,
		least:     (t.MinWidth() + problem.ColumnGranule - 1) / problem.ColumnGranule,
		rows:      float64(t.Rows),
		passes:    sortPasses(float64(t.Rows)),
		issue:     n * stepCycles / d.issue,
		issueBack: stepCycles * (n + 2*unique) / d.issue,
		columns:   float64(problem.ColumnGranule * len(t.Features)),
		bytes:     second - first,
		bytesOnce: 2*first - second,
	}
	prepare := (n*(3*index+bagIDBytes) + unique*(index+runBytes)) / d.stream
	for k := range s.sorted {
		s.sorted[k] = prepare + n*(index+2*float64(k)*(index+bagIDBytes))/(d.stream*sortShare)
	}
	if h := c.Highest(); h >= 0 {
		s.run = min(access.ClassMean(h), maxRun) * runStepMS
	}
	w := newWidths(d, p.Batch, t, c)
	for g := 1; g <= min(s.granules, maxGranules); g++ {
		s.slices = append(s.slices, w.slice(g))
	}
	if s.granules > maxGranules {
		s.slices = append(s.slices, w.wide(s.granules))
	}
	for j := range s.slices {
		for class := range classes {
			s.slices[j].alone[class] = s.alone(j, class, t.Weighted)
		}
	}
	return s
}

// alone returns the time of slice j with nothing else in its operator, in ms.
func (t *table) alone(j, class int, weighted bool) float64 {
	if j == maxGranules {
		// A wider slice takes no less than the widest that is priced by itself.
		j--
	}
	s := &t.slices[j]
	forward := norm(s.memory, s.cache, t.issue*s.steps[class])
	if weighted {
		forward *= 1 + weightedShare
	}
	return forward + t.sorted[t.passes] + max(t.run, norm(s.memoryBack, s.cacheBack, t.issueBack*s.steps[class]))
}

// widths counts a table's traffic by the width of a slice.
type widths struct {
	*rates
	n, unique, bags, element float64
	// once is the bytes that every slice reads whatever its width: indices,
	// offsets and weights.
	once      float64
	optimizer problem.Optimizer
	cached    *cache
	// row and missed are the last row's bytes in the cache and its misses.
	row, missed float64
}

func newWidths(d *rates, batch int, t *problem.Table, c access.Counts) *widths {
	w := &widths{rates: d, n: c.Lookups, unique: c.Unique, bags: float64(batch) * float64(len(t.Features)), element: float64(t.Precision.Bytes()), optimizer: t.Optimizer, cached: newCache(c)}
	w.once = (w.n + w.bags) * problem.IndexBytes
	if t.Weighted {
		w.once += w.n * weightBytes
	}
	return w
}

// slice returns what a slice of so many granules takes.
func (w *widths) slice(granules int) slice {
	dim := float64(granules * problem.ColumnGranule)
	row, rowInMemory := roundUp(dim*w.element, cacheLine), roundUp(dim*w.element, w.granule)
	pooled := roundUp(dim*problem.OutputBytes, cacheLine)
	if row != w.row {
		w.row, w.missed = row, w.cached.misses(w.cache/row)
	}
	state := 0.0
	switch w.optimizer {
	case problem.RowwiseAdagrad:
		state = rowwiseState
	case problem.Adagrad:
		state = 2 * roundUp(4*dim, w.granule)
	case problem.Adam:
		state = 4 * roundUp(4*dim, w.granule)
	}
	s := w.times(w.once, row, rowInMemory, pooled, state, w.bags*pooled)
	s.granules = float64(granules)
	for class := range classes {
		s.steps[class] = steps(class, granules)
	}
	return s
}

// wide returns what stands for every slice of more than maxGranules, in a table
// of so many: what the whole table takes at least, so that each granule of any
// such slice takes a granule's part of it or more. Widths are not rounded up,
// misses and uncached gradients are those of maxGranules, of which a granule of
// a wider slice has no fewer.
func (w *widths) wide(granules int) slice {
	w.slice(maxGranules)
	dim := float64(granules * problem.ColumnGranule)
	pooled := dim * problem.OutputBytes
	state := 0.0
	switch w.optimizer {
	case problem.RowwiseAdagrad:
		state = rowwiseState
	case problem.Adagrad:
		state = 2 * 4 * dim
	case problem.Adam:
		state = 4 * 4 * dim
	}
	s := w.times(w.once, dim*w.element, dim*w.element, pooled, state, w.bags*maxGranules*problem.ColumnGranule*problem.OutputBytes)
	s.granules = float64(granules)
	for class := range classes {
		s.steps[class] = float64(granules) / lanesPerWarp
	}
	return s
}

// times returns the times of memory and cache. vectors is the bytes of all
// gradient vectors, of which the cache holds a part.
func (w *widths) times(once, row, rowInMemory, pooled, state, vectors float64) slice {
	rest := once + w.bags*pooled
	cached := min(1, w.cache/vectors)
	gradients := min(w.bags, w.n)*pooled + max(0, w.n-w.bags)*pooled*(1-cached)
	return slice{
		memory:     (w.missed*rowInMemory + rest) / (w.stream * gatherShare),
		cache:      (w.n*row + rest) / w.l2,
		memoryBack: (gradients + w.unique*(2*rowInMemory+state) + w.n*bagIDBytes) / (w.stream * updateShare),
		cacheBack:  (w.n*pooled + w.unique*(2*row+state)) / w.l2,
	}
}

const lanesPerWarp = 32

// steps returns the row steps, of a full warp, that a row of so many granules
// takes in a lane class.
func steps(class, granules int) float64 {
	lanes := 8 << class
	return float64((granules+lanes-1)/lanes) * float64(lanes) / lanesPerWarp
}

// widest returns the widest slice that runs in a lane class, in granules.
func widest(class int) int {
	if class == classes-1 {
		return math.MaxInt
	}
	return 8 << class
}

// sortPasses returns the passes in which so many rows are sorted, at most
// maxPasses.
func sortPasses(rows float64) int {
	k := 1
	for k < maxPasses && rows > maxRows(k) {
		k++
	}
	return k
}

// maxRows returns the most rows that are sorted in so many passes of 8 bits, with
// a bit to spare.
func maxRows(passes int) float64 { return math.Ldexp(1, 8*passes-1) }

// norm is the simulated device's.
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
