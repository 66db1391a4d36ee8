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

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Version names the meaning of Vector and Scalars. A model that was trained on
// another version cannot be used.
const Version = "physical-1"

// Lanes is the lane class of a fused operation: the number of lanes of a warp
// that work on one bag. The widest shard of the operation decides the class
// (read in FBGEMM's source), so one wide shard slows the narrow shards in the
// same operation.
type Lanes uint8

// The lane classes: 8, 16 or 32 lanes of four columns each.
const (
	Lanes8 Lanes = iota
	Lanes16
	Lanes32
	// LaneClasses is the number of classes.
	LaneClasses = 3
)

// Count returns the number of lanes.
func (l Lanes) Count() int { return 8 << l }

// LanesOf returns the lane class of an operation whose widest shard has dim
// columns. Weighted operations always use all 32 lanes.
func LanesOf(dim int, weighted bool) Lanes {
	switch {
	case weighted || dim > 64:
		return Lanes32
	case dim > 32:
		return Lanes16
	}
	return Lanes8
}

// Table holds what the features depend on, for a table at one batch size.
type Table struct {
	Rows     int64
	Features int // the number of features that read the table
	Counts   access.Counts
	// hot is the highest use-count class of any row in the batch.
	hot int
}

// Describe returns the description of a table with the given accesses of one
// batch.
func Describe(rows int64, features int, counts access.Counts) Table {
	t := Table{Rows: rows, Features: features, Counts: counts}
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
		"log_working_set_per_l2", "log_lookup_bytes_per_l2", "log_gradient_bytes_per_l2",
		"resident_share", "miss_share", "gradient_resident_share",
		"log_batch", "log_waves", "half_precision", "weighted",
		"sgd", "rowwise_adagrad", "adagrad", "adam",
		"lanes_8", "lanes_16", "lanes_32",
		"forward_memory_share", "forward_l2_share", "forward_issue_share",
		"backward_memory_share", "backward_l2_share", "backward_issue_share",
		"sort_share", "state_share", "output_share", "metadata_share",
	}
	for j := range access.Classes {
		names = append(names, "reuse_"+itoa(j))
	}
	return names
}

func itoa(j int) string {
	if j < 10 {
		return string(rune('0' + j))
	}
	return string(rune('0'+j/10)) + string(rune('0'+j%10))
}

// Width is the length of Vector: the number of Names.
const Width = 40 + access.Classes

// Constants of the fused kernels. cyclesPerStep was fitted to published A100
// rows, the others are byte counts read in FBGEMM's source (docs/SIMULATED.md).
const (
	cyclesPerStep = 33
	sectorBytes   = 32
	sortedBytes   = 60 // a lookup's share of index handling and a two-pass sort
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
	gradient := ceilTo(width*problem.OutputBytes, sectorBytes)
	bags := float64(op.Batch) * float64(t.Features)
	steps := math.Ceil(width / float64(4*lanes.Count()))
	warps := float64(lanes.Count()) / 32
	state := stateBytes(op.Optimizer, width, float64(hw.Granule))
	l2 := float64(hw.L2)
	memory := hw.HBMGBps * hw.HBMEfficiency * 1e6 // bytes per ms
	cache := hw.L2GBps * 1e6
	issue := float64(hw.SMs) * hw.ClockGHz * 1e6 // cycles per ms

	resident := math.Min(1, l2/(unique*sector))
	gradientResident := math.Min(1, l2/(bags*gradient))
	misses := t.misses(l2 / sector)
	metadata := (n + bags) * problem.IndexBytes
	if op.Weighted {
		metadata += 4 * n
	}
	output := bags * gradient
	forward := [3]float64{
		(misses*granule + metadata + output) / memory,
		(n*sector + metadata + output) / cache,
		n * steps * warps * cyclesPerStep / issue,
	}
	gathered := math.Min(bags, n)*gradient + math.Max(0, n-bags)*gradient*(1-gradientResident)
	update := unique * (2*granule + state)
	backward := [3]float64{
		(gathered + update + 4*n) / memory,
		(n*gradient + unique*(2*sector+state)) / cache,
		(n + 2*unique) * steps * warps * cyclesPerStep / issue,
	}
	sort := n * sortedBytes / memory
	scale = max(forward[0], forward[1], forward[2]) + max(backward[0], backward[1], backward[2]) + sort

	at := 0
	put := func(v float64) { dst[at] = float32(v); at++ }
	put(math.Log(float64(t.Rows)))
	put(math.Log(width))
	put(math.Log1p(n / float64(op.Batch)))
	put(math.Log(float64(t.Features)))
	put(math.Log(n))
	put(math.Log(unique))
	put(math.Log(n / unique))
	put(math.Log(unique / float64(t.Rows)))
	put(math.Log(row))
	put(row / granule)
	put(row / sector)
	put(width / (steps * float64(4*lanes.Count())))
	put(math.Log(steps))
	put(math.Log(unique * sector / l2))
	put(math.Log(n * sector / l2))
	put(math.Log(bags * gradient / l2))
	put(resident)
	put(misses / n)
	put(gradientResident)
	put(math.Log(float64(op.Batch)))
	put(math.Log(waves(hw, op.Batch, lanes)))
	put(indicator(weightBytes == 2))
	put(indicator(op.Weighted))
	for o := problem.SGD; o <= problem.Adam; o++ {
		put(indicator(op.Optimizer == o))
	}
	for l := Lanes8; l <= Lanes32; l++ {
		put(indicator(lanes == l))
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

// waves returns the number of tables that the device works on at the same time:
// the number that fills its resident warps (45 in each multiprocessor, from the
// DLRM performance model).
func waves(hw *hardware.Profile, batch int, lanes Lanes) float64 {
	const warpsPerSM = 45
	return math.Max(1, math.Ceil(float64(hw.SMs)*warpsPerSM*32/float64(lanes.Count())/float64(batch)))
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
