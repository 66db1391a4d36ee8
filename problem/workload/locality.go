package workload

import "github.com/neuroshard/neuroshard/problem/access"

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
