package simulate

import (
	"cmp"
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// compute.go estimates one fused operator: the pooled forward over a group of
// tables, and the exact backward with the optimizer in it.
//
// Forward. One group of G lanes serves each bag (a sample of a feature): it
// reads the bag's offsets and indices, then row after row, and writes one pooled
// vector (lanes.go). Three limits hold, each a sum over the tables, and their p-norm is
// the time:
//
//	memory   misses * row bytes in granules of the memory and an overhead, indices, outputs
//	cache    lookups * row bytes in sectors, indices, outputs
//	issue    multiprocessors' time of row steps and bags, for the share of a warp that they take
//
// Backward. Indices are made unique across tables, sorted with their bag
// numbers in 8-bit passes, and run-length encoded; then each distinct row
// gathers the gradients of its bags and is updated once, with its optimizer
// state. So the lookups set the time of sorting and of gradient reads, and the distinct
// rows set the row traffic. A warp updates a row; whole blocks of warps share a row that is used
// often.
//
// Rows in the memory of a host take the time of their operator in HBM, and the time of
// the bytes that cross the link between device and host. Each device of a host has a link
// of its own [assumed]. In tier Host the kernels read and write the rows in host memory,
// in sectors and without a cache: every lookup crosses the link in the forward, and each
// distinct row crosses it both ways at the same time in the backward, with its optimizer
// state [assumed; checked against one published shape].
// In tier HostCached, HBM caches the most used rows with their state [RecShard's idea;
// that the cache holds these rows: assumed]. The distinct rows that the cache misses are
// fetched before the forward, and the same number of rows go back after the backward
// [assumed]. The backward then sorts twice: row numbers, and places of rows in the cache.

// Device is a simulated device, made by NewDevice. It does not change, so several
// goroutines may use it at the same time.
type Device struct {
	profile hardware.Profile
	Rates
	// pooled and apart are the times of kernels that pool rows, and of those that keep lookups
	// apart.
	pooled, apart kernelTimes
	// hostLink is the bandwidth of the link to the host, in bytes a millisecond.
	hostLink float64
}

// Rates are the speeds and sizes of a device that its compute times depend on.
type Rates struct {
	// Stream and L2 are the bandwidths of streaming through the memory and of the cache,
	// in bytes a millisecond; Gather, Update and Sort are those of memory in the forward, in the
	// update of rows and in the passes of the sort. Issue is the time of all multiprocessors, in ns
	// of one of them a millisecond.
	Stream, Gather, Update, Sort, L2, Issue float64
	// Cache is the bytes of the last-level cache that hold rows, Granule the bytes of a
	// memory transfer, and RowOverhead those that each row in memory costs in addition
	// (hardware.Profile.RowOverhead).
	Cache, Granule, RowOverhead float64
}

// NewDevice returns the simulated device of a profile.
func NewDevice(p hardware.Profile) Device {
	stream := p.HBMGBps * p.HBMEfficiency * 1e6
	return Device{
		profile: p,
		Rates: Rates{
			Stream: stream, Gather: gatherShare * stream, Update: updateShare * stream, Sort: sortShare * stream,
			L2:          p.L2GBps * 1e6,
			Issue:       float64(p.SMs) * 1e6,
			Cache:       CacheShare * float64(p.L2),
			Granule:     float64(p.Granule),
			RowOverhead: p.RowOverhead(),
		},
		pooled:   newKernelTimes(p.KernelTimes(true)),
		apart:    newKernelTimes(p.KernelTimes(false)),
		hostLink: p.HostLinkGBps() * 1e6,
	}
}

// Profile returns the profile that the device was made of.
func (d Device) Profile() hardware.Profile { return d.profile }

// timesOf returns the times of the kernels of operators of a pooling.
func (d *Device) timesOf(p problem.Pooling) *kernelTimes {
	if p == problem.PoolingNone {
		return &d.apart
	}
	return &d.pooled
}

// PrepareNanos returns the time that the backward takes for each bag of operators of a pooling,
// before it sorts indices, in ns of one multiprocessor.
func (d *Device) PrepareNanos(p problem.Pooling) float64 { return d.timesOf(p).Prepare }

// WithKernels returns the device with other times of its kernels.
func (d Device) WithKernels(pooled, apart hardware.KernelTimes) Device {
	d.pooled, d.apart = newKernelTimes(pooled), newKernelTimes(apart)
	return d
}

// LaunchMode says how an operator's kernels reach the device.
type LaunchMode uint8

// The launch modes.
const (
	// Graph replays a captured graph: kernels follow each other closely.
	Graph LaunchMode = iota
	// Eager launches each kernel from the host. An operator then takes at least the time
	// of the launches.
	Eager
)

// Table is one table, or column shard of one, in a fused operator.
type Table struct {
	// Rows is the number of the table's rows, and Dim the number of columns in this
	// shard. Both are above 0.
	Rows int64
	Dim  int
	// Bags is the bags of a sample that read the table, of all features. 0 means 1. Under
	// problem.PoolingNone each lookup is a bag, so they are the lookups of a sample.
	Bags float64
	// Counts are the accesses of a batch to the table; its Lookups are the batch times
	// the pooling factors of all features. A table without lookups costs nothing.
	Counts access.Counts
	// LengthCV is the coefficient of variation of the lengths of the bags; 0 means that all
	// are equally long.
	LengthCV float64
}

// Op is one fused operator: tables of equal optimizer, precision and weighting
// that one pair of kernels serves on one device.
type Op struct {
	// Batch is the number of samples, at least 1.
	Batch int
	// WeightBytes is the size of an element of a row, OutputBytes that of an element of
	// a pooled vector, and IndexBytes that of an index, offset or sort key. 0 means 4, 4
	// and 8.
	WeightBytes, OutputBytes, IndexBytes int
	Optimizer                            problem.Optimizer
	// Weighted is true if lookups carry per-sample weights.
	Weighted bool
	// Pooling is problem.PoolingNone for kernels that keep lookups apart. All others pool, in
	// the same time.
	Pooling problem.Pooling
	// LaneRule says how the kernels choose the lanes of a bag. If Lanes is above 0, each bag
	// has that number of lanes instead: at most those of a warp, which they divide. Lanes is
	// for kernels of other releases than the one that the rules describe.
	LaneRule problem.LaneRule
	Lanes    int
	// CachedRows is the number of rows that a cache in HBM holds of the tables, if the
	// tables are in a host's memory; otherwise 0. The backward then sorts the places of rows
	// in the cache, too. Transfers over the link to the host are no part of an Op: see
	// Device.HostLink.
	CachedRows int64
	Launch     LaunchMode
	Tables     []Table
}

// Compute returns the simulated times of the operator's forward and backward.
// An operator whose tables have no lookups costs nothing. Values outside the
// ranges that Op and Table state give meaningless times; RunCases checks them.
func (d Device) Compute(op Op) (forward, backward unit.Millis) {
	k := d.Kernels(op)
	return k.FixedForward + k.Forward, k.FixedBackward + k.Backward()
}

// Kernels are the times of an operator's kernels. Prepare numbers bags, makes indices unique and finds
// the runs of equal ones, Sort sorts them; both need the indices alone, not the gradients.
// Update gathers gradients and updates rows, and Weights takes the gradients of per-sample
// weights.
type Kernels struct {
	FixedForward, Forward                         unit.Millis
	FixedBackward, Prepare, Sort, Update, Weights unit.Millis
}

// Backward returns the time of the backward's kernels without the fixed time.
func (k Kernels) Backward() unit.Millis { return k.Prepare + k.Sort + k.Update + k.Weights }

// Kernels returns the simulated times of the operator's kernels, which add up to those of
// Compute.
func (d Device) Kernels(op Op) Kernels {
	w, ok := d.work(op)
	if !ok {
		return Kernels{}
	}
	return w.kernels()
}

// work returns what an operator moves; ok is false if its tables have no lookups.
func (d *Device) work(op Op) (w work, ok bool) {
	w = work{device: d, settings: settings{
		batch:       float64(op.Batch),
		weightBytes: float64(orDefault(op.WeightBytes, 4)),
		outputBytes: float64(orDefault(op.OutputBytes, problem.OutputBytes)),
		indexBytes:  float64(orDefault(op.IndexBytes, problem.IndexBytes)),
		optimizer:   op.Optimizer,
		weighted:    op.Weighted,
		pooling:     op.Pooling,
		rule:        op.LaneRule,
		lanes:       op.Lanes,
		cachedRows:  float64(op.CachedRows),
		launch:      op.Launch,
	}}
	tables, widest := 0, 0
	for i := range op.Tables {
		if t := &op.Tables[i]; t.Counts.Lookups > 0 {
			tables++
			widest = max(widest, t.Dim)
		}
	}
	w.start(tables, widest)
	for i := range op.Tables {
		if t := &op.Tables[i]; t.Counts.Lookups > 0 {
			u := NewUsage(t.Counts)
			w.add(part{rows: float64(t.Rows), dim: t.Dim, bags: cmp.Or(t.Bags, 1), lengthCV: t.LengthCV, Usage: &u})
		}
	}
	return w, tables > 0
}

// HostLink returns the times on the host link, forward and backward, of a table with
// the given counts, or of a slice of it that is width columns wide, in the tier and
// with the cache share of a form.
func (d Device) HostLink(t *problem.Table, c access.Counts, width int, form problem.Form) (forward, backward unit.Millis) {
	row := float64(int64(width) * t.Precision.Bytes())
	if form.Tier == problem.HostCached {
		missed := c.Uncached(t.Rows, problem.CachedRows(t.Rows, form.Cache))
		each := row + float64(t.Optimizer.StateBytes(1, width))
		fetch := unit.Millis(missed * each / d.hostLink)
		return fetch, fetch
	}
	read := roundUp(row, CacheLine)
	update := read + d.StateTraffic(t.Optimizer, float64(width))/2 // each way
	return unit.Millis(c.Lookups * read / d.hostLink), unit.Millis(c.Unique * update / d.hostLink)
}

// DenseUpdate returns the time of the dense work on a replica of a table, or of a slice
// of it that is width columns wide, in each step and whatever was looked up: the gradient
// is zeroed before the backward and read after the all-reduce, and all weights and all
// state are read and written [assumed].
func (d Device) DenseUpdate(t *problem.Table, width int) unit.Millis {
	elements := float64(t.Rows) * float64(width)
	bytes := elements*(2*problem.OutputBytes+2*float64(t.Precision.Bytes())) + 2*float64(t.Optimizer.StateBytes(t.Rows, width))
	return unit.Millis(bytes / d.Stream)
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
	weighted                                    bool
	pooling                                     problem.Pooling
	rule                                        problem.LaneRule
	lanes                                       int
	cachedRows                                  float64
	launch                                      LaunchMode
}

// part is a table in an operator, or a slice or block of one.
type part struct {
	rows           float64
	dim            int
	bags, lengthCV float64 // bags of a sample
	*Usage
}

// work adds up an operator's traffic table by table.
type work struct {
	device *Device
	settings
	// tables is the number of tables with lookups, and widest the dim of the widest one.
	tables, widest int
	// Bytes of memory and cache, and ns of a multiprocessor, of the forward and the backward.
	memory, cache, nanos             float64
	memoryBack, cacheBack, nanosBack float64
	lookups, unique, rows, bags      float64
}

// start prepares w for an operator with the given number of tables with lookups, where
// the widest table has widest columns.
func (w *work) start(tables, widest int) {
	w.tables, w.widest = tables, widest
}

// add adds a table with lookups.
func (w *work) add(t part) {
	n, unique := t.counts.Lookups, t.counts.Unique
	dim, bags := float64(t.dim), w.batch*t.bags
	row := roundUp(dim*w.weightBytes, CacheLine)
	rowInMemory := roundUp(dim*w.weightBytes, w.device.Granule) + w.device.RowOverhead
	pooled := roundUp(dim*w.outputBytes, CacheLine)

	rest := n*w.indexBytes + bags*w.indexBytes + bags*pooled
	if w.weighted {
		rest += n * LookupWeightBytes
	}
	misses := t.Misses(w.room(t.dim) / row)
	w.memory += misses*rowInMemory + rest
	w.cache += n*row + rest
	nanos, nanosBack := w.issue(t, bags, misses)
	w.nanos += nanos
	w.nanosBack += nanosBack

	state := w.device.StateTraffic(w.optimizer, dim)
	w.memoryBack += w.device.gradients(n, bags, pooled) + unique*(2*rowInMemory+state) + n*BagIDBytes
	w.cacheBack += n*pooled + unique*(2*row+state)

	w.lookups += n
	w.unique += unique
	w.rows += t.rows
	w.bags += bags
}

// gradients returns the bytes of memory of the gradients that lookups read: a vector of their bag
// each. Reads of a vector after the first may find it in the cache.
func (r *Rates) gradients(lookups, bags, vector float64) float64 {
	cached := min(1, r.Cache/(bags*vector))
	return min(bags, lookups)*vector + max(0, lookups-bags)*vector*(1-cached)
}

// StateTraffic returns the bytes of optimizer state that the update of one row of dim
// columns moves.
func (r *Rates) StateTraffic(o problem.Optimizer, dim float64) float64 {
	switch o {
	case problem.RowwiseAdagrad:
		return RowwiseState
	case problem.Adagrad:
		return 2 * roundUp(4*dim, r.Granule)
	case problem.Adam:
		return 4 * roundUp(4*dim, r.Granule)
	}
	return 0
}

// times returns the operator's times once all tables are added.
func (w *work) times() (forward, backward unit.Millis) {
	k := w.kernels()
	return k.FixedForward + k.Forward, k.FixedBackward + k.Backward()
}

// kernels returns the times of the operator's kernels once all tables are added.
func (w *work) kernels() Kernels {
	d, key := w.device, w.indexBytes
	fixed, fixedBack := ForwardFixedUS, BackwardFixedUS
	if w.launch == Eager {
		fixed, fixedBack = max(fixed, eagerForwardUS), max(fixedBack, eagerBackwardUS)
	}
	busy := norm(w.memory/d.Gather, w.cache/d.L2, w.nanos/d.Issue)

	prepare := (w.lookups*(w.indexBytes+key+BagIDBytes)+w.lookups*key+w.unique*(key+RunBytes))/d.Stream +
		w.bags*d.PrepareNanos(w.pooling)/d.Issue
	sort := w.lookups*(key+2*sortPasses(w.rows)*(key+BagIDBytes))/d.Sort + float64(d.SortPlaces(w.lookups, w.cachedRows))
	update := norm(w.memoryBack/d.Update, w.cacheBack/d.L2, w.nanosBack/d.Issue)
	k := Kernels{
		FixedForward: unit.Micros(fixed), Forward: unit.Millis(busy),
		FixedBackward: unit.Micros(fixedBack), Prepare: unit.Millis(prepare), Sort: unit.Millis(sort), Update: unit.Millis(update),
	}
	if w.weighted {
		k.Weights = unit.Millis(WeightedShare * busy)
	}
	return k
}

// SortPlaces returns the time in which the backward of an operator sorts the places that its
// lookups have in a cache of the given number of rows; 0 without a cache.
func (r *Rates) SortPlaces(lookups, cachedRows float64) unit.Millis {
	if cachedRows == 0 {
		return 0
	}
	return unit.Millis(lookups * (LocationBytes + 2*sortPasses(cachedRows)*(LocationBytes+BagIDBytes)) / r.Sort)
}

// sortPasses returns the 8-bit passes of the radix sort over row numbers that
// count through all tables of the operator, with a bit to spare.
func sortPasses(rows float64) float64 {
	bits := max(1, math.Ceil(math.Log2(max(2, rows)))+1)
	return math.Ceil(bits / 8)
}

// norm returns the p-norm of three times that overlap almost completely.
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
