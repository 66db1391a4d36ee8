// Package access describes how often one batch touches each row of an
// embedding table: how many distinct rows it uses, and how the uses spread over
// them. Kernels' times depend on it as much as on sizes, so it is part of what
// a table is.
//
// A Distribution says what is known of a table (a histogram counted on a real
// batch, a Zipf exponent, uniform draws, or nothing) and by which Law the indices of
// a bag come about; Distribution.At turns it into Counts for a batch of any size: from a
// histogram by histogram.go, from draws by zipf.go, and from draws of one-hot ids by law.go.
package access

import (
	"fmt"
	"math"
)

// Classes is the number of use-count classes of a histogram: rows used 1, 2,
// 3-4, 5-8, ..., 16385-32768 and more than 32768 times in a batch. These are
// the bins of facebookresearch/dlrm_datasets and of the published prototype.
const Classes = 17

// DefaultExponent is the Zipf exponent assumed for a table that states no
// accesses. NVIDIA's synthetic models draw their indices with it.
const DefaultExponent = 1.05

// Kind says what is known of a table's accesses.
type Kind uint8

// The kinds of distribution. The zero value, Unstated, is treated as Zipf with
// DefaultExponent, and callers say so in a warning.
const (
	Unstated Kind = iota
	Histogram
	Zipf
	Uniform
)

// String returns the kind's name as used in files.
func (k Kind) String() string {
	switch k {
	case Unstated:
		return "unstated"
	case Histogram:
		return "histogram"
	case Zipf:
		return "zipf"
	case Uniform:
		return "uniform"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Distribution is what is known of a table's accesses.
type Distribution struct {
	Kind Kind
	// Reuse is, for Histogram, the share of the batch's distinct rows in each
	// use-count class, used as given and never renormalised.
	Reuse [Classes]float64
	// Batch is, for Histogram, the number of samples that Reuse was counted on.
	Batch int
	// UniqueRows is, for Histogram, the number of distinct rows of that batch
	// where it was counted too; 0 derives it from Reuse.
	UniqueRows float64
	// Exponent is, for Zipf, the exponent a > 0: the i-th most used row is drawn
	// with a probability proportional to i^-a.
	Exponent float64
	// Law says whether Zipf, Uniform and Unstated describe rows, drawn one by one, or
	// one-hot ids that own several rows each.
	Law Law
	// Sorted says that rows are numbered by falling use, so that the first part of the rows is
	// used most. Otherwise their numbers are hashes, and say nothing.
	Sorted bool
}

// Counts is what one batch does to one table.
type Counts struct {
	// Lookups is the number of row reads, n.
	Lookups float64
	// Unique is the number of distinct rows, U <= min(Lookups, rows).
	Unique float64
	// Reuse is the share of distinct rows in each use-count class.
	Reuse [Classes]float64
	// Most is the number of uses of the most used row; 0 if only the classes are known.
	Most float64
	// RowsPerID is the number of rows that come together, each time one id is drawn; 0 for
	// independent draws.
	RowsPerID float64
	// Sorted is the number of rows of the table if they are sorted by use (Distribution.Sorted), else
	// 0. Exponent is that of Zipf's law, by which these rows are drawn, below 0 for a histogram.
	Sorted, Exponent float64
}

// ClassMean returns the mean use count that stands for class j: 1, 2, then
// 2^(j-1)/ln 2, the logarithmic mean of the class's bounds.
func ClassMean(j int) float64 { return classMeans[j] }

var classMeans = func() (means [Classes]float64) {
	means[0], means[1] = 1, 2
	for j := 2; j < Classes; j++ {
		means[j] = math.Ldexp(1, j-1) / math.Ln2
	}
	return means
}()

const (
	// oftenFrom is the first class of rows that blocks of warps update, and blockUses the most of a row's
	// uses that a block takes. [read: FBGEMM's kernels]
	oftenFrom = 6
	blockUses = 1024
)

// Often returns the lookups of rows that blocks of warps update, because a batch uses them more than 32
// times, and the number of these blocks.
func (c *Counts) Often() (lookups, blocks float64) {
	all, often := 0.0, 0.0
	for j, share := range &c.Reuse {
		uses := share * classMeans[j]
		if all += uses; j >= oftenFrom {
			often += uses
			blocks += share * max(1, classMeans[j]/blockUses)
		}
	}
	if all == 0 {
		return 0, 0
	}
	return c.Lookups * often / all, c.Unique * blocks
}

// Highest returns the highest use-count class that at least half a row is in,
// or -1 where no class holds that much, as in a batch without lookups.
func (c Counts) Highest() int {
	for j := Classes - 1; j >= 0; j-- {
		if c.Reuse[j]*c.Unique >= 0.5 {
			return j
		}
	}
	return -1
}

// MeanUse returns the uses of a distinct row that the shares of the classes
// stand for: the sum of Reuse[j] * ClassMean(j). It differs from Lookups/Unique
// by the width of the classes, and where the table has too few rows for its
// histogram. It is 0 without lookups.
func (c Counts) MeanUse() float64 { return meanUse(&c.Reuse) }

func meanUse(reuse *[Classes]float64) float64 {
	sum := 0.0
	for j, share := range reuse {
		sum += share * classMeans[j]
	}
	return sum
}

// Part returns what the batch does to a part of the rows, a share of them from 0 to 1:
// to the part that holds the most used row. Which rows are used most is unknown, and
// indices are hashed, so that each part has its share of every class; but the most used
// row is whole, and in one part. If Most is not known, it is used as often as
// the mean row of its class. Of the highest class, which is open, it takes the most by
// Zipf's law (of exponent 1, assumed), from all uses that the means of the other
// classes leave over; where ids own rows, all rows of the most used id share its place
// in the law, and the part has one of them whole and its share of the others. Parts
// without the most used row have less. If rows are sorted by use, the part is the first one.
func (c Counts) Part(share float64) Counts {
	if !(share < 1) || !(c.Lookups > 0) {
		return c
	}
	if c.Sorted > 0 {
		return c.first(max(1, math.Round(share*c.Sorted)))
	}
	part := Counts{}
	rows := [Classes]float64{}
	top, uses := c.Highest(), 0.0
	all := c.Unique * c.MeanUse() // the uses that the classes' means stand for
	for j := range rows {
		in := c.Reuse[j] * c.Unique
		used := in * classMeans[j]
		whole, most := 0.0, 0.0 // rows of the class that are not shared out, and their uses
		if j == top {
			whole = min(1, in) // of a class with a part of a row, on average, that part
			most = whole * classMeans[j]
			if j == Classes-1 {
				used += max(0, c.Lookups-all)
				all = max(all, c.Lookups)
				alike := max(1, min(in, c.RowsPerID)) // the rows of the most used id
				most = used / (alike * harmonicNumber(max(1, in/alike)))
			}
		}
		rows[j] = whole + (in-whole)*share
		uses += most + (used-most)*share
		part.Unique += rows[j]
	}
	for j := range rows {
		if part.Unique > 0 {
			part.Reuse[j] = rows[j] / part.Unique
		}
	}
	part.Lookups = min(c.Lookups, uses*c.Lookups/all)
	if part.Most = c.Most; c.Most > 0 {
		part.Lookups = c.Most + (c.Lookups-c.Most)*share
	}
	return part
}

// first returns what the batch does to the first rows of a table whose rows are sorted by use: under
// Zipf's law, draws by the same law from fewer rows. Of a histogram, the rows that are used more than
// once come first, and rows used once are others in each batch.
func (c Counts) first(rows float64) Counts {
	if c.Exponent >= 0 {
		d := Distribution{Kind: Zipf, Exponent: c.Exponent}
		return d.draws(rows, c.Lookups*harmonic(rows, c.Exponent)/harmonic(c.Sorted, c.Exponent))
	}
	used, again := rows, c.Unique*(1-c.Reuse[0])
	var own [Classes]float64
	for j := Classes - 1; j > 0; j-- {
		own[j] = min(used, c.Unique*c.Reuse[j])
		used -= own[j]
	}
	own[0] = c.Unique * c.Reuse[0] * used / max(1, c.Sorted-again)
	part, uses := Counts{}, 0.0
	for j, n := range own {
		part.Unique, uses = part.Unique+n, uses+n*classMeans[j]
	}
	for j := range own {
		part.Reuse[j] = own[j] / max(part.Unique, math.SmallestNonzeroFloat64)
	}
	if own[Classes-1] > 0 { // the open class, which takes what the others leave over
		uses += max(0, c.Lookups-c.Unique*c.MeanUse()) * own[Classes-1] / (c.Unique * c.Reuse[Classes-1])
	}
	part.Lookups = min(c.Lookups, uses*c.Lookups/max(c.Lookups, c.Unique*c.MeanUse()))
	return part
}

// harmonicNumber returns the sum of 1/i for i from 1 to n, at least 1, between whole
// numbers by its asymptotic form.
func harmonicNumber(n float64) float64 {
	const euler = 0.57721566490153286
	return max(1, math.Log(n)+euler+1/(2*n)-1/(12*n*n))
}

// Uncached returns the distinct rows of the batch that a cache of cached rows does not
// hold, of a table of rows rows, if it holds those that are used most: the classes
// from the highest down, of the first that does not fit a part. Rows used once are
// others in each batch, so of these a cache hits no more than its room's share of all
// rows that may be: the table's, less those of the higher classes.
//
// It is between 0, for a cache of all rows, and c.Unique, for none.
func (c Counts) Uncached(rows, cached int64) float64 {
	if cached >= rows {
		return 0
	}
	room := max(0, float64(cached)) // for this class and the lower ones
	left := float64(rows)           // rows that may be of them
	missed := 0.0
	for j := Classes - 1; j >= 0; j-- {
		own := c.Reuse[j] * c.Unique
		if !(own > 0) {
			continue
		}
		among := own
		if j == 0 {
			among = max(own, left)
		}
		missed += own * (1 - min(1, room/among))
		room = max(0, room-own)
		left -= own
	}
	return missed
}

// At returns what a batch of the given size does to a table of rows rows that
// is read pooling times a sample. Nothing is drawn: the counts are expected
// values, so they are no integers, and equal inputs give equal results.
//
// Under the law MultiHot, pooling is the number of rows that an id owns, and a sample
// draws one id: a table that several features read has a sample for each of them
// (problem.Table.Counts). Up to one row an id, the laws are the same.
//
// A batch without lookups (rows < 1, pooling or batch not above 0) gives the
// zero Counts. A Zipf exponent that is not above 0 means uniform draws.
func (d Distribution) At(rows int64, pooling float64, batch int) Counts {
	if rows < 1 || batch < 1 || !(pooling > 0) {
		return Counts{}
	}
	var c Counts
	switch {
	case d.Kind == Histogram:
		c = d.histogram(float64(rows), pooling, batch)
		if d.Law == MultiHot && pooling > 1 {
			c.RowsPerID = pooling
		}
	case d.Law == MultiHot && pooling > 1:
		ids := d.draws(float64(rows), float64(batch))
		c = owned(&ids, float64(rows), pooling)
	default:
		c = d.draws(float64(rows), pooling*float64(batch))
	}
	if d.Sorted {
		if c.Sorted, c.Exponent = float64(rows), d.exponent(); d.Kind == Histogram || c.RowsPerID > 0 {
			c.Exponent = -1
		}
	}
	return c
}

// Distinct returns the Unique of At, in a fraction of its time.
func (d Distribution) Distinct(rows int64, pooling float64, batch int) float64 {
	if d.Kind == Histogram || rows < 1 || batch < 1 || !(pooling > 0) {
		return d.At(rows, pooling, batch).Unique
	}
	all, n, perID := float64(rows), pooling*float64(batch), 1.0
	if d.Law == MultiHot && pooling > 1 {
		n, perID = float64(batch), pooling
	}
	ids := all * exceed(&bounds[0], n/all)
	if a := d.exponent(); a > 0 {
		law := newZipfLaw(all, a, n)
		ids = law.usedMoreThan(&bounds[0])
	}
	ids = min(ids, all, n)
	return min(ids-(all-ids)*math.Expm1(-(perID-1)*ids/all), all, n*perID) // law.go has the formula
}

// exponent returns the exponent of draws; 0 stands for uniform ones.
func (d Distribution) exponent() float64 {
	switch d.Kind {
	case Uniform:
		return 0
	case Zipf:
		return max(0, d.Exponent)
	}
	return DefaultExponent
}

// draws returns the counts of n independent draws.
func (d Distribution) draws(rows, n float64) Counts {
	if a := d.exponent(); a > 0 {
		return zipf(rows, a, n)
	}
	return uniform(rows, n)
}
