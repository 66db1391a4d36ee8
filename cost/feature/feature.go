// Package feature turns a shard and its context into the named, versioned
// vector that the compute cost model reads, and a group of shards into a few
// scalars.
//
// The features are physical: sizes, shares, and ratios of times. A time is bytes
// over bandwidth, or instructions over issue rate. The steps:
//
//	Describe   the accesses of one batch to a table, once for each table
//	Vector     the shard's features for one lane class, and its scale
//	Sums       running sums of a group, from which Scalars come
//
// The scale is the time of the shard by itself, by a closed form. The net
// multiplies the shard's embedding by the scale and learns dimensionless
// corrections, so that predicted cost grows with work far beyond the training
// samples.
package feature

import (
	"math"
	"strconv"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Version names the meaning of Vector and Scalars. A model that was trained on
// another version cannot be used.
const Version = "physical-4"

// Lanes is the lane class of a fused operator: how its kernels choose the lanes that work
// on a bag. The widest slice of the operator decides the class, so one wide slice can slow
// the narrow slices in the same operator.
type Lanes uint8

// The lane classes. On devices with warps of 64 lanes, each bag has a whole warp, and only
// LanesFull and LanesWide occur.
const (
	// Lanes8 and Lanes16 give each bag a part of a warp.
	Lanes8 Lanes = iota
	Lanes16
	// LanesFull gives each bag a whole warp.
	LanesFull
	// LanesWide is the class of operators with a slice so wide that other kernels run. With
	// warps of 32 lanes: above 1,024 columns, where in the forward each table with many
	// lookups has lanes of its own. With warps of 64 lanes: above 128 columns, where in the
	// backward of row-wise Adagrad often used rows take a whole warp instead of half of one.
	LanesWide
	// LanesOwn gives each bag the lanes of its own table (problem.LanesByTable).
	LanesOwn
	// LaneClasses is the number of classes.
	LaneClasses = 5
)

var laneNames = [LaneClasses]string{"8", "16", "full", "wide", "own"}

// String returns the name of the class.
func (l Lanes) String() string { return laneNames[l] }

// The widest slices of operators that are not of class LanesWide.
const (
	widestV1   = 1024 // with warps of 32 lanes
	widestHalf = 128  // with warps of 64 lanes
)

// LanesOf returns the lane class on device hw of an operator whose widest slice with
// lookups has dim columns. It never falls as dim rises.
func LanesOf(hw *hardware.Profile, op problem.Operation, dim int) Lanes {
	lanes := hw.Lanes(dim)
	switch {
	case hw.Warp() != subWarps:
		if op.Optimizer == problem.RowwiseAdagrad && dim > widestHalf {
			return LanesWide
		}
		return LanesFull
	case op.LaneRule == problem.LanesByTable:
		return LanesOwn
	case dim > widestV1:
		return LanesWide
	case lanes == 8:
		return Lanes8
	case lanes == 16:
		return Lanes16
	}
	return LanesFull
}

// subWarps is the number of lanes of the warps that several bags can share.
const subWarps = 32

// Table holds what the features depend on, for a table at one batch size.
type Table struct {
	Rows int64
	Bags float64 // the bags of a sample, of all features that read the table
	// LengthCV is the coefficient of variation of the lengths of the bags, at least 0.
	LengthCV float64
	// Pooling is problem.PoolingNone for a table whose lookups stay apart, so that each is a
	// bag. All other poolings take as long as each other.
	Pooling problem.Pooling
	Counts  access.Counts
	// hot is the highest use-count class of any row in the batch.
	hot int
}

// Describe returns the description of a table with its accesses of one batch.
func Describe(table *problem.Table, counts access.Counts) Table {
	t := Table{Rows: table.Rows, Bags: table.Bags(), LengthCV: table.LengthCV(), Pooling: table.Pooling, Counts: counts}
	for j, share := range counts.Reuse {
		if share*counts.Unique >= 0.5 {
			t.hot = j
		}
	}
	return t
}

// Names returns the names of Vector's entries, in order. The slice is the
// caller's.
func Names() []string {
	names := []string{
		"log_rows", "log_dim", "log_pooling", "log_features",
		"log_lookups", "log_unique_rows", "log_lookups_per_unique", "log_occupancy",
		"log_row_bytes", "granule_waste", "sector_waste", "lane_waste", "log_steps",
		"log_lanes", "log_longest_bag",
		"log_working_set_per_l2", "log_lookup_bytes_per_l2", "log_gradient_bytes_per_l2",
		"resident_share", "miss_share", "gradient_resident_share",
		"log_batch", "log_waves", "half_precision", "weighted",
		"sgd", "rowwise_adagrad", "adagrad", "adam",
		"forward_memory_share", "forward_l2_share", "forward_issue_share",
		"backward_memory_share", "backward_l2_share", "backward_issue_share",
		"sort_share", "state_share", "output_share", "metadata_share", "bag_share",
	}
	for _, name := range laneNames {
		names = append(names, "lanes_"+name)
	}
	for j := range access.Classes {
		names = append(names, "reuse_"+strconv.Itoa(j))
	}
	return names
}

// Width is the length of Vector: the number of Names.
const Width = 40 + LaneClasses + access.Classes

// Constants of the fused kernels: byte counts read in FBGEMM's source (docs/SIMULATED.md).
const (
	sectorBytes = 32
	sortedBytes = 160 // a lookup's share of index handling and a two-pass sort, as bytes of a stream
)

// Vector writes the features of a shard of dim columns of table t into dst
// (length Width) and returns the shard's scale in ms. The shard is in operation
// op, of the given lane class, on device hw. A table without lookups has no
// vector: the scale is then 0 and dst is zeroed.
func Vector(dst []float32, hw *hardware.Profile, op problem.Operation, t Table, dim int, lanes Lanes) (scale float64) {
	_ = dst[Width-1]
	n, unique := t.Counts.Lookups, t.Counts.Unique
	if n <= 0 || unique <= 0 {
		clear(dst[:Width])
		return 0
	}
	weightBytes := float64(op.Precision.Bytes())
	width := float64(dim)
	row := width * weightBytes
	sector := ceilTo(row, sectorBytes)
	granule := ceilTo(row, float64(hw.Granule))
	moved := granule + hw.RowOverhead()
	gradient := ceilTo(width*problem.OutputBytes, sectorBytes)
	bags := float64(op.Batch) * t.Bags
	state := stateBytes(op.Optimizer, width, float64(hw.Granule))
	l2 := float64(hw.L2)
	memory := hw.HBMGBps * hw.HBMEfficiency * 1e6 // bytes per ms
	cache := hw.L2GBps * 1e6
	issue := float64(hw.SMs) * 1e6 // ns of one multiprocessor per ms

	resident := math.Min(1, l2/(unique*sector))
	gradientResident := math.Min(1, l2/(bags*gradient))
	misses := t.misses(l2 / sector)
	work := t.issued(hw, op, dim, lanes, bags, misses)
	metadata := (n + bags) * problem.IndexBytes
	if op.Weighted {
		metadata += 4 * n
	}
	output := bags * gradient
	forward := [3]float64{
		(misses*moved + metadata + output) / memory,
		(n*sector + metadata + output) / cache,
		(work.rows + work.bags) / issue,
	}
	gathered := math.Min(bags, n)*gradient + math.Max(0, n-bags)*gradient*(1-gradientResident)
	update := unique * (2*moved + state)
	backward := [3]float64{
		(gathered + update + 4*n) / memory,
		(n*gradient + unique*(2*sector+state)) / cache,
		work.backward / issue,
	}
	sort := n*sortedBytes/memory + work.prepare/issue
	scale = max(forward[0], forward[1], forward[2]) + max(backward[0], backward[1], backward[2]) + sort

	at := 0
	put := func(v float64) { dst[at] = float32(v); at++ }
	put(math.Log(float64(t.Rows)))
	put(math.Log(width))
	put(math.Log1p(n / float64(op.Batch)))
	put(math.Log(t.Bags))
	put(math.Log(n))
	put(math.Log(unique))
	put(math.Log(n / unique))
	put(math.Log(unique / float64(t.Rows)))
	put(math.Log(row))
	put(row / granule)
	put(row / sector)
	put(width / (work.steps * 4 * work.lanes))
	put(math.Log(work.steps))
	put(math.Log(work.lanes))
	put(math.Log(work.longest))
	put(math.Log(unique * sector / l2))
	put(math.Log(n * sector / l2))
	put(math.Log(bags * gradient / l2))
	put(resident)
	put(misses / n)
	put(gradientResident)
	put(math.Log(float64(op.Batch)))
	put(math.Log(waves(hw, op.Batch, work.lanes)))
	put(indicator(weightBytes == 2))
	put(indicator(op.Weighted))
	for o := problem.SGD; o <= problem.Adam; o++ {
		put(indicator(op.Optimizer == o))
	}
	for _, v := range forward {
		put(v / scale)
	}
	for _, v := range backward {
		put(v / scale)
	}
	put(sort / scale)
	put(unique * state / memory / scale)
	put(output / memory / scale)
	put(metadata / memory / scale)
	put(work.bags / issue / scale)
	for l := range Lanes(LaneClasses) {
		put(indicator(lanes == l))
	}
	for _, share := range t.Counts.Reuse {
		put(share)
	}
	return scale
}

// misses returns the number of lookups that go to memory if a cache of the given
// number of rows holds the most used rows. A row in the cache is read from memory
// once, and any other row at every use.
func (t *Table) misses(room float64) float64 {
	counts := &t.Counts
	missed := counts.Unique
	for j := access.Classes - 1; j > 0; j-- {
		rows := counts.Reuse[j] * counts.Unique
		held := math.Min(rows, room)
		room -= held
		missed += (rows - held) * (access.ClassMean(j) - 1)
	}
	return math.Min(missed, counts.Lookups)
}

// issued is the time that a shard's kernels take of the multiprocessors, in ns of one of them.
type issued struct {
	// rows and bags are those of the forward: for rows and for the bags' own work. prepare is
	// that of the backward for bags, before indices are sorted.
	rows, bags        float64
	backward, prepare float64
	// lanes is the number of lanes that work on a bag in the forward, and steps the number
	// of steps that a row takes them. longest is the mean length of the longest of the bags
	// that share a warp, over the mean length of a bag.
	lanes, steps, longest float64
}

// halfExponent is the power of the share of a warp of 64 lanes by which the time falls of kernels
// that give often used rows half of it. [measured on AMD's GPUs]
const (
	halfExponent = 0.76
	// manyLookups is the mean bag length above which kernels for wide operators give a bag
	// the lanes of its table.
	manyLookups = 8
)

// issued returns the times of a shard of dim columns, in an operator of the given lane
// class, with that number of bags and of row reads that go to memory.
func (t *Table) issued(hw *hardware.Profile, op problem.Operation, dim int, lanes Lanes, bags, misses float64) issued {
	times := hw.KernelTimes(t.Pooling != problem.PoolingNone)
	warp := float64(hw.Warp())
	forward, backward := warp, warp
	alone := false // whether each bag has a warp for itself, whatever its lanes
	switch {
	case warp != subWarps || lanes == LanesFull:
	case lanes == Lanes8 || lanes == Lanes16:
		forward = float64(int(8) << lanes)
		backward = forward
	case lanes == LanesOwn:
		forward = float64(hw.Lanes(dim))
		backward = forward
	case !op.Weighted && t.Counts.Lookups > manyLookups*bags:
		forward, alone = float64(hw.Lanes(dim)), true
	}
	steps := func(lanes float64) float64 { return math.Ceil(float64(dim) / (4 * lanes)) }
	w := issued{lanes: forward, steps: steps(forward), longest: 1, bags: bags * times.Bag, prepare: bags * times.Prepare}
	if !alone {
		w.bags *= math.Pow(forward/warp, times.BagPower)
		w.longest = hardware.LongestBag(int(warp/forward), hardware.LengthFactor*t.LengthCV)
	}
	w.rows = (t.Counts.Lookups*times.Row*w.longest + misses*times.Miss) * w.steps * forward / warp
	lookups := t.Counts.Lookups
	hot, blocks := t.Counts.Often()
	if warp != subWarps && op.Optimizer == problem.RowwiseAdagrad && lanes != LanesWide {
		lookups -= hot * (1 - math.Pow(.5, halfExponent))
	}
	w.backward = times.Backward(lookups, t.Counts.Unique, blocks, op.Optimizer != problem.SGD, op.Precision.Bytes() == 2) * steps(backward) * math.Pow(backward/warp, times.UpdatePower)
	return w
}

// waves returns the number of tables that the device works on at the same time, if each bag
// has the given number of lanes: the number that fills the device's resident warps (45 in
// each multiprocessor, from the DLRM performance model).
func waves(hw *hardware.Profile, batch int, lanes float64) float64 {
	const warpsPerSM = 45
	return math.Max(1, math.Ceil(float64(hw.SMs)*warpsPerSM*float64(hw.Warp())/lanes/float64(batch)))
}

// stateBytes returns the bytes of optimizer state that are read and written for a
// unique row.
func stateBytes(o problem.Optimizer, width, granule float64) float64 {
	switch o {
	case problem.RowwiseAdagrad:
		return 64
	case problem.Adagrad:
		return 2 * ceilTo(4*width, granule)
	case problem.Adam:
		return 4 * ceilTo(4*width, granule)
	}
	return 0
}

func ceilTo(v, multiple float64) float64 { return math.Ceil(v/multiple) * multiple }

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
