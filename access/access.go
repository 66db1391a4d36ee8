// Package access describes how often one batch touches each row of an
// embedding table: how many distinct rows it uses, and how the uses spread over
// them. Kernels' times depend on it as much as on sizes, so it is part of what
// a table is.
//
// A Distribution says what is known of a table (a histogram counted on a real
// batch, a Zipf exponent, uniform draws, or nothing); Distribution.At turns it
// into Counts for a batch of any size.
package access

import (
	"fmt"
	"math"
)

// Classes is the number of use-count classes of a histogram: rows used 1, 2,
// 3-4, 5-8, ..., 16385-32768 and more than 32768 times in a batch. These are
// the bins of facebookresearch/dlrm_datasets and of the published prototype.
const Classes = 17

// DefaultExponent is the Zipf exponent assumed for a table of which nothing is
// known. NVIDIA's synthetic models draw their indices with it.
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
}

// Counts is what one batch does to one table.
type Counts struct {
	// Lookups is the number of row reads, n.
	Lookups float64
	// Unique is the number of distinct rows, U <= min(Lookups, rows).
	Unique float64
	// Reuse is the share of distinct rows in each use-count class.
	Reuse [Classes]float64
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

// At returns what a batch of the given size does to a table of rows rows and
// the given lookups per sample.
func (d Distribution) At(rows int64, pooling float64, batch int) Counts {
	panic("access: not written yet")
}
