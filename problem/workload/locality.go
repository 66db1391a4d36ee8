package workload

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// Locality is how the accesses of one batch spread over all tables together.
type Locality struct {
	Tables, Batch int
	// Indices is the number of lookups and UniqueRows the number of distinct
	// rows they hit, summed over the tables.
	Indices, UniqueRows float64
	// RowShare is the share of the distinct rows in each use-count class, and
	// IndexShare the share of the lookups that goes to the rows of each class.
	RowShare, IndexShare [access.Classes]float64
}

// MeanPoolingFactor returns the lookups per sample of an average table.
func (l Locality) MeanPoolingFactor() float64 {
	return l.Indices / (float64(l.Tables) * float64(l.Batch))
}

// UniqueShare returns the distinct rows per lookup, in (0, 1].
func (l Locality) UniqueShare() float64 { return l.UniqueRows / l.Indices }

// PublishedLocality returns the statistics of fbgemm_t856_bs65536.pt, a batch of
// production accesses that facebookresearch/dlrm_datasets published in 2021
// (its locality_stats.txt). The shares are rounded to three decimals there.
func PublishedLocality() Locality {
	return Locality{
		Tables: 856, Batch: 65536, Indices: 887017990, UniqueRows: 128435723,
		RowShare: [access.Classes]float64{
			.473, .152, .139, .112, .072, .032, .011, .005, .002, .001,
		},
		IndexShare: [access.Classes]float64{
			.069, .044, .068, .101, .121, .104, .073, .058, .052, .050, .049, .048, .048, .043, .031, .023, .019,
		},
	}
}

// MeasureLocality returns the statistics of tables whose access is a histogram
// counted at the given batch; others are left out of them. A table with lookups
// n and shares p has U = n / sum p_j c_j distinct rows (at most its rows), and
// class j draws U p_j c_j lookups, with c_j = access.ClassMean(j).
func MeasureLocality(tables []problem.Table, batch int) Locality {
	l := Locality{Batch: batch}
	classIndices := 0.0
	for i := range tables {
		t := &tables[i]
		if t.Access.Kind != access.Histogram || t.Access.Batch != batch {
			continue
		}
		l.Tables++
		n := t.PoolingFactor() * float64(batch)
		mean := 0.0
		for j, p := range t.Access.Reuse {
			mean += p * access.ClassMean(j)
		}
		if n == 0 || mean == 0 {
			continue
		}
		unique := math.Min(n/mean, float64(t.Rows))
		l.Indices += n
		l.UniqueRows += unique
		for j, p := range t.Access.Reuse {
			l.RowShare[j] += unique * p
			l.IndexShare[j] += unique * p * access.ClassMean(j)
			classIndices += unique * p * access.ClassMean(j)
		}
	}
	for j := range l.RowShare {
		if l.UniqueRows > 0 {
			l.RowShare[j] /= l.UniqueRows
			l.IndexShare[j] /= classIndices
		}
	}
	return l
}
