package simulate

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// compute.go prices one fused operator: the pooled forward over a group of
// tables, and the exact backward with the optimizer in it.
//
// Forward. One group of G lanes serves each bag (a sample of a feature): it
// reads the bag's offsets and indices, then row after row, and writes one pooled
// vector. G is 8, 16 or 32, by the widest table of the operator, so that a wide
// table idles most lanes of every narrow one beside it. Three limits hold, each
// a sum over the tables, and their p-norm is the time:
//
//	memory   misses * row bytes in granules of the memory, indices, outputs
//	cache    lookups * row bytes in sectors, indices, outputs
//	issue    lookups * steps a row * G/32 * 33 cycles
//
// Backward. Indices are made unique across tables, sorted with their bag
// numbers in 8-bit passes, and run-length encoded; then each distinct row
// gathers the gradients of its bags and is updated once, with its optimizer
// state. So lookups cost sorting and gradient reads, distinct rows cost row
// traffic, and the most used row sets a least time by its long walk.

// Op is one fused operator: tables of equal optimizer, precision and weighting
// that one pair of kernels serves on one device.
type Op struct {
	// Batch is the number of samples, at least 1.
	Batch int
	// WeightBytes, OutputBytes and IndexBytes are the sizes of an element of a
	// row, of a pooled vector, and of an index, offset or sort key. 0 means 4, 4
	// and 8.
	WeightBytes, OutputBytes, IndexBytes int
	Optimizer                            problem.Optimizer
	// Weighted is true where lookups carry per-sample weights.
	Weighted bool
	// Subwarp lets narrow tables use groups of 8 or 16 lanes. The kernels turn
	// this off for weighted operators; here the caller does.
	Subwarp bool
	Launch  LaunchMode
	Tables  []Table
}

// Compute returns the simulated times of the operator's forward and backward.
// An operator whose tables have no lookups costs nothing. Values outside the
// ranges that Op and Table state give meaningless times; RunCases checks them.
func (d Device) Compute(op Op) (forward, backward unit.Millis) {
	w := work{device: &d, settings: settings{
		batch:       float64(op.Batch),
		weightBytes: float64(orDefault(op.WeightBytes, 4)),
		outputBytes: float64(orDefault(op.OutputBytes, problem.OutputBytes)),
		indexBytes:  float64(orDefault(op.IndexBytes, problem.IndexBytes)),
		optimizer:   op.Optimizer,
		weighted:    op.Weighted,
		subwarp:     op.Subwarp,
		launch:      op.Launch,
	}}
	tables, widest := 0, 0
	for i := range op.Tables {
		if t := &op.Tables[i]; t.Counts.Lookups > 0 {
			tables++
			widest = max(widest, t.Dim)
		}
	}
	if tables == 0 {
		return 0, 0
	}
	w.start(tables, widest)
	for i := range op.Tables {
		if t := &op.Tables[i]; t.Counts.Lookups > 0 {
			u := newUsage(t.Counts)
			w.add(float64(t.Rows), float64(t.Dim), float64(orDefault(t.Features, 1)), &u)
		}
	}
	return w.times()
}

func orDefault(v, standard int) int {
	if v == 0 {
		return standard
	}
	return v
}

// settings are the parts of an Op that all its tables share.
type settings struct {
	batch, weightBytes, outputBytes, indexBytes float64
	optimizer                                   problem.Optimizer
	weighted, subwarp                           bool
	launch                                      LaunchMode
}

// work adds up an operator's traffic table by table.
type work struct {
	device *Device
	settings
	// lanes is G, and room the cache's bytes for the rows of one table: all
	// tables whose bags are in flight at a time share it.
	lanes, room float64
	// Bytes of memory and cache, and cycles, of the forward and the backward.
	memory, cache, cycles             float64
	memoryBack, cacheBack, cyclesBack float64
	lookups, unique, rows             float64
	highest                           int
}

// start readies w for an operator of that many tables with lookups, the widest
// of widest columns.
func (w *work) start(tables, widest int) {
	w.lanes = lanesPerWarp
	if w.subwarp {
		switch {
		case widest <= 32:
			w.lanes = 8
		case widest <= 64:
			w.lanes = 16
		}
	}
	bags := float64(w.device.profile.SMs) * warpsPerSM * (lanesPerWarp / w.lanes)
	inFlight := max(1, math.Ceil(bags/w.batch))
	w.room = w.device.cache / min(inFlight, float64(tables))
	w.highest = -1
}

// add adds a table with lookups.
func (w *work) add(rows, dim, features float64, u *usage) {
	n, unique := u.counts.Lookups, u.counts.Unique
	bags := w.batch * features
	row := roundUp(dim*w.weightBytes, cacheLine)
	rowInMemory := roundUp(dim*w.weightBytes, w.device.granule)
	pooled := roundUp(dim*w.outputBytes, cacheLine)
	warpSteps := math.Ceil(dim/(floatsPerLane*w.lanes)) * (w.lanes / lanesPerWarp)

	rest := n*w.indexBytes + bags*w.indexBytes + bags*pooled
	if w.weighted {
		rest += n * weightLookupSize
	}
	w.memory += u.misses(w.room/row)*rowInMemory + rest
	w.cache += n*row + rest
	w.cycles += n * warpSteps * stepCycles

	// A gradient vector is read once for each lookup of its bag; those after the
	// first may find it in the cache.
	cached := min(1, w.device.cache/(bags*pooled))
	gradients := min(bags, n)*pooled + max(0, n-bags)*pooled*(1-cached)
	state := w.device.stateTraffic(w.optimizer, dim)
	w.memoryBack += gradients + unique*(2*rowInMemory+state) + n*bagIDBytes
	w.cacheBack += n*pooled + unique*(2*row+state)
	w.cyclesBack += stepCycles * warpSteps * (n + 2*unique)

	w.lookups += n
	w.unique += unique
	w.rows += rows
	w.highest = max(w.highest, u.highest)
}

// stateTraffic returns the bytes of optimizer state moved for a row update.
func (d *Device) stateTraffic(o problem.Optimizer, dim float64) float64 {
	switch o {
	case problem.RowwiseAdagrad:
		return rowwiseState
	case problem.Adagrad:
		return 2 * roundUp(4*dim, d.granule)
	case problem.Adam:
		return 4 * roundUp(4*dim, d.granule)
	}
	return 0
}

// times returns the operator's times once all tables are added.
func (w *work) times() (forward, backward unit.Millis) {
	d, key := w.device, w.indexBytes
	fixed, fixedBack := forwardFixedUS, backwardFixedUS
	if w.launch == Eager {
		fixed, fixedBack = max(fixed, eagerForwardUS), max(fixedBack, eagerBackwardUS)
	}
	busy := norm(w.memory/(d.stream*gatherShare), w.cache/d.l2, w.cycles/d.issue)

	prepare := (w.lookups*(w.indexBytes+key+bagIDBytes) + w.lookups*key + w.unique*(key+runBytes)) / d.stream
	sort := w.lookups * (key + 2*sortPasses(w.rows)*(key+bagIDBytes)) / (d.stream * sortShare)
	update := norm(w.memoryBack/(d.stream*updateShare), w.cacheBack/d.l2, w.cyclesBack/d.issue)
	busyBack := prepare + sort + max(update, w.longestRun())
	if w.weighted {
		busyBack += weightedShare * busy
	}
	return unit.Micros(fixed) + unit.Millis(busy), unit.Micros(fixedBack) + unit.Millis(busyBack)
}

// longestRun returns the least time, in ms, of updating the most used row.
func (w *work) longestRun() float64 {
	if w.highest < 0 {
		return 0
	}
	return float64(unit.Micros(min(means[w.highest], maxRun) / runWarps * gatherStepUS))
}

// sortPasses returns the 8-bit passes of the radix sort over row numbers that
// count through all tables of the operator, with a bit to spare.
func sortPasses(rows float64) float64 {
	bits := max(1, math.Ceil(math.Log2(max(2, rows)))+1)
	return math.Ceil(bits / 8)
}

// norm returns the p-norm of three times that overlap all but wholly.
func norm(a, b, c float64) float64 {
	most := max(a, b, c)
	if most == 0 {
		return 0
	}
	power := func(x float64) float64 { x /= most; x *= x; return x * x * x }
	return most * math.Pow(power(a)+power(b)+power(c), 1.0/normPower)
}

// roundUp rounds x up to a multiple of step, a power of two.
func roundUp(x, step float64) float64 { return math.Ceil(x/step) * step }
