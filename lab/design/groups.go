// Package design draws the samples to measure: random tables, groups of their
// column slices under an operation, and all-to-alls. It measures nothing.
//
//	Compute, Comm   the draws that the shipped models are trained on (groups.go,
//	                exchanges.go)
//	Domain          the same within bounds of choice, for a device that is measured
//	                (domain.go, drawer.go); CPU is the Domain of a machine without a GPU
//	Experiment      all of these as one dataset without times, with groups that devices
//	                hold in plans (experiment.go, plans.go)
//
// Compute and Comm cover the domain that the cost models promise: 1 to 60 shards a
// device, dims 4 to 256 in any mix and some to 4,096, pooling factors to 400, bags of equal
// and of unequal lengths, Zipf's law with exponents of 0.2 to 2.6, batches of 512 to 131,072, all
// optimizers, precisions and lane rules, and 1 to 1,024 devices. A quarter of the tables are blocks
// of rows, whose bags are short and vary in length; an eighth are sequences, in groups of their own,
// and an eighth have more or fewer bags than one a sample. The domain contains the paper's own draws
// (NeuroShard, section 3: 1 to 15 tables, dims of powers of two, one batch, SGD, fp32).
package design

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// These are the bounds of the draws.
const (
	MaxShards        = 60
	MaxDim           = 256
	MaxWideDim       = 4096
	MaxLengthCV      = 3
	MaxPoolingFactor = 400
	MinBatch         = 512
	MaxBatch         = 131072
	MaxDevices       = 1024
	maxRowsLog10     = 10
)

// Compute returns a dataset of groups without times. It has tables tables, a tenth
// of them for validation and a tenth for test, and samples groups of minShards to
// maxShards members, eight tenths of them for training. tables must be at least 10,
// so that each split has one.
func Compute(seed uint64, tables, samples, minShards, maxShards int) *dataset.Compute {
	set := &dataset.Compute{Provenance: dataset.Provenance{Seed: seed}}
	draw, lanes, blocks, vectors := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 4)), rand.New(rand.NewPCG(seed, 5)), rand.New(rand.NewPCG(seed, 6))
	set.Tables = make([]problem.Table, tables)
	for i := range set.Tables {
		set.Tables[i] = table(draw, fmt.Sprintf("t%d", i))
		spread(lanes, &set.Tables[i])
		thin(blocks, &set.Tables[i])
		pool(vectors, &set.Tables[i])
	}
	set.Samples = make([]dataset.Group, samples)
	for i := range set.Samples {
		set.Samples[i] = group(draw, SplitOf(i), tables, minShards, maxShards)
		widen(lanes, &set.Samples[i])
		poolAlike(set, &set.Samples[i])
	}
	return set
}

// sequenceShare and bagsShare are the shares of tables whose lookups stay apart, and of tables
// whose features have more or fewer bags than one a sample.
const (
	sequenceShare = .125
	bagsShare     = .125
)

// pool makes sequences of some tables, and gives the features of some others 1/8 to 32 bags a
// sample, log-uniform. Half of the latter keep the lookups of the table, the others those of each
// bag.
func pool(draw *rand.Rand, t *problem.Table) {
	switch u := draw.Float64(); {
	case u < sequenceShare:
		t.Pooling = problem.PoolingNone
	case u < sequenceShare+bagsShare:
		bags, lookups := math.Exp2(8*draw.Float64()-3), 1.0
		if draw.IntN(2) == 0 {
			lookups = min(max(bags, minPoolingFactor/t.PoolingFactor()), MaxPoolingFactor/t.PoolingFactor())
		}
		for f := range t.Features {
			t.Features[f].Bags = bags
			t.Features[f].PoolingFactor *= lookups
		}
	}
}

// poolAlike changes the members of a group that do not pool as the first one does: a kernel pools the
// rows of all its tables, or of none. Lookups of sequences have no weights.
func poolAlike(set *dataset.Compute, g *dataset.Group) {
	apart := func(i int32) bool { return set.Tables[i].Pooling == problem.PoolingNone }
	sequences := apart(g.Members[0].Table)
	if sequences {
		g.Operation.Weighted = false
	}
	first, end := TablesOf(g.Split, len(set.Tables))
	for k := range g.Members {
		m := &g.Members[k]
		for apart(m.Table) != sequences {
			if m.Table++; int(m.Table) == end {
				m.Table = int32(first)
			}
		}
	}
}

// spread draws the coefficient of variation of a table's bag lengths: 0 for half of the
// tables, otherwise log-uniform to MaxLengthCV. The lengths of published benchmarks have 0,
// 0.1 (normal), 0.3 (Poisson), 0.6 (uniform), 1 (exponential) and 1.3 (log-normal).
func spread(draw *rand.Rand, t *problem.Table) {
	const least = .05
	if draw.IntN(2) == 0 {
		return
	}
	cv := least * math.Pow(MaxLengthCV/least, draw.Float64())
	for f := range t.Features {
		t.Features[f].LengthCV = cv
	}
}

// blockShare is the share of tables that are blocks of rows, and leastBlock the smallest
// part of a table that a block holds.
const (
	blockShare = .25
	leastBlock = 1. / 64
)

// thin makes a block of rows of some tables, as row_wise plans hold: the block has a part of
// the rows and of the lookups, log-uniform from leastBlock, and all bags of the table. So its
// bags are short, and their lengths vary by about 1/sqrt(lookups a bag).
func thin(draw *rand.Rand, t *problem.Table) {
	if draw.Float64() >= blockShare {
		return
	}
	part := math.Pow(leastBlock, draw.Float64())
	part = min(1, max(part, minPoolingFactor/t.PoolingFactor()))
	cv := min(MaxLengthCV, t.BlockLengthCV(part))
	t.Rows = max(10, int64(part*float64(t.Rows)))
	for f := range t.Features {
		t.Features[f].PoolingFactor *= part
		t.Features[f].LengthCV = cv
	}
}

// These are the shares of groups whose lanes differ from those of most groups.
const (
	ownShare  = .2
	wideShare = .05
)

// widen gives some groups LanesByTable, and gives one to three members of some groups more
// than MaxDim columns, to MaxWideDim.
func widen(draw *rand.Rand, g *dataset.Group) {
	if draw.Float64() < ownShare {
		g.Operation.LaneRule = problem.LanesByTable
	}
	if draw.Float64() >= wideShare {
		return
	}
	for range 1 + draw.IntN(3) {
		granules := MaxDim / problem.ColumnGranule * math.Pow(MaxWideDim/MaxDim, draw.Float64())
		g.Members[draw.IntN(len(g.Members))].Dim = (int32(granules) + 1) * problem.ColumnGranule
	}
}

// SplitOf returns the split of sample i: the last of every ten samples is for test,
// and the one before it for validation.
func SplitOf(i int) dataset.Split {
	switch i % 10 {
	case 9:
		return dataset.Test
	case 8:
		return dataset.Validation
	}
	return dataset.Train
}

// TablesOf returns the range [first, end) of a set's tables over which a split's
// samples are drawn: the first eight tenths for training, then a tenth each for
// validation and test.
func TablesOf(split dataset.Split, tables int) (first, end int) {
	train, validation := tables*8/10, tables*9/10
	switch split {
	case dataset.Train:
		return 0, train
	case dataset.Validation:
		return train, validation
	}
	return validation, tables
}

// table draws one table: rows log-uniform over 10 to 1e10, a pooling factor of
// one or log-normal to 400, mostly one feature.
func table(draw *rand.Rand, name string) problem.Table {
	rows := int64(math.Pow(10, 1+draw.Float64()*(maxRowsLog10-1)))
	features := featureCount(draw)
	pooling := 1.0
	if draw.Float64() > .25 {
		pooling = min(MaxPoolingFactor, logNormal(draw))
		pooling = max(pooling, minPoolingFactor)
	}
	t := newTable(name, rows, MaxDim, features, pooling)
	t.Access = distribution(draw, rows, pooling, func() int { return 1 << (11 + draw.IntN(7)) })
	return t
}

// minPoolingFactor is the least pooling factor of the draws.
const minPoolingFactor = .05

// logNormal draws a pooling factor around 8.
func logNormal(draw *rand.Rand) float64 { return math.Exp(math.Log(8) + 1.3*draw.NormFloat64()) }

// featureCount draws the number of features that read a table: mostly one.
func featureCount(draw *rand.Rand) int {
	if u := draw.Float64(); u < .05 {
		return 3 + draw.IntN(4)
	} else if u < .2 {
		return 2
	}
	return 1
}

// newTable returns a table whose features share its pooling factor evenly.
func newTable(name string, rows int64, dim, features int, pooling float64) problem.Table {
	t := problem.Table{Name: name, Rows: rows, Dim: dim}
	for f := range features {
		t.Features = append(t.Features, problem.Feature{Name: fmt.Sprintf("%s_f%d", name, f), PoolingFactor: pooling / float64(features)})
	}
	return t
}

// distribution draws the accesses of a table: Zipf, uniform, or a histogram. The
// histogram is that of one of the two at a batch, drawn by atBatch, with its
// classes changed at random.
func distribution(draw *rand.Rand, rows int64, pooling float64, atBatch func() int) access.Distribution {
	base := access.Distribution{Kind: access.Zipf, Exponent: .2 + 2.4*draw.Float64()}
	if draw.Float64() < .15 {
		base = access.Distribution{Kind: access.Uniform}
	}
	if draw.Float64() < .5 {
		return base
	}
	batch := atBatch()
	counts := base.At(rows, pooling, batch)
	d := access.Distribution{Kind: access.Histogram, Batch: batch}
	sum := 0.0
	for j := range d.Reuse {
		d.Reuse[j] = counts.Reuse[j] * math.Exp(.5*draw.NormFloat64())
		sum += d.Reuse[j]
	}
	if !(sum > 0) {
		return base
	}
	for j := range d.Reuse {
		d.Reuse[j] /= sum
	}
	return d
}

// Batches returns the batch sizes of the draws: four in each octave. The caller may
// modify the slice.
func Batches() []int {
	var batches []int
	for i := 0; ; i++ {
		b := int(math.Round(MinBatch * math.Pow(2, float64(i)/4)))
		if b > MaxBatch {
			return batches
		}
		batches = append(batches, b)
	}
}

// Operation draws an operation of the domain.
func operation(draw *rand.Rand) problem.Operation {
	batches := Batches()
	op := problem.Operation{
		Batch:     batches[draw.IntN(len(batches))],
		Optimizer: problem.Optimizer(draw.IntN(4)),
		Weighted:  draw.Float64() < .3,
	}
	// All published data has 65,536 samples, so a quarter of the groups here have that
	// batch too.
	if draw.Float64() < .25 {
		op.Batch = 65536
	}
	if draw.Float64() < .35 {
		op.Precision = problem.FP16
	}
	return op
}

// group draws the members of one operation.
func group(draw *rand.Rand, split dataset.Split, tables, minShards, maxShards int) dataset.Group {
	g := dataset.Group{Split: split, Operation: operation(draw)}
	first, end := TablesOf(split, tables)
	count := shardCount(draw, minShards, maxShards)
	dim := dims(draw, MaxDim)
	for range count {
		g.Members = append(g.Members, dataset.Member{Table: int32(first + draw.IntN(end-first)), Dim: int32(dim())})
	}
	return g
}

// shardCount draws the number of shards of a group: uniform for half of the groups, log-uniform for
// the other half, so that small groups are frequent. A device that holds tables of many operations has
// an operator of a few shards for each.
func shardCount(draw *rand.Rand, least, most int) int {
	if draw.IntN(2) == 0 {
		return least + draw.IntN(most-least+1)
	}
	n := float64(least) * math.Pow(float64(most+1)/float64(least), draw.Float64())
	return min(most, int(n))
}

// dims draws one of five ways to mix dims up to maxDim, which is at least 4, and
// returns a function that draws a dim in that way. The mix matters because a fused
// kernel is as wide as its widest member. The five are: any multiples of four,
// powers of two, all equal, all narrow, and mostly narrow with few wide.
func dims(draw *rand.Rand, maxDim int) func() int {
	multiple := func(limit int) int { return problem.ColumnGranule * (1 + draw.IntN(limit/problem.ColumnGranule)) }
	power := func(limit int) int {
		return problem.ColumnGranule << draw.IntN(int(math.Log2(float64(limit/problem.ColumnGranule)))+1)
	}
	limit := min(maxDim, []int{32, 64, 128, maxDim}[draw.IntN(4)])
	narrow := min(maxDim, 32)
	switch draw.IntN(5) {
	case 0:
		return func() int { return multiple(limit) }
	case 1:
		return func() int { return power(limit) }
	case 2:
		equal := power(maxDim)
		if draw.IntN(2) == 0 {
			equal = multiple(maxDim)
		}
		return func() int { return equal }
	case 3:
		return func() int { return power(narrow) }
	}
	return func() int {
		if draw.Float64() < .15 {
			return multiple(maxDim)
		}
		return power(narrow)
	}
}
