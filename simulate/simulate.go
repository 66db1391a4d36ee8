// Package simulate estimates embedding work on a simulated device: the times of a
// group of shards in the fused kernels of a GPU, the times of the exchanges between
// devices, and the cost of a whole placement.
//
// The formulas follow what the kernels do (FBGEMM's table-batched embeddings), and
// their constants are fitted to the few published measurements and to one H200. The times are
// SIMULATED, not measured. Source and ModelVersion label the times, and docs/SIMULATED.md
// says how each statement is known and how far to trust it. Comparisons of groups on one
// profile are safer than absolute times.
//
// A placement is estimated in four steps, each in a file:
//
//	check.go      refuse shards that are no part of the problem
//	operators.go  divide the shards of a device into fused operators
//	compute.go    estimate each operator, with the lanes that lanes.go gives its tables
//	              and the cache misses of cache.go
//	comm.go       estimate the exchanges, by the formulas of exchange.go; hierarchy.go counts
//	              the vectors of exchanges that reduce inside hosts first
//
// sync.go estimates the all-reduce of the replicas of 2D parallelism,
// and price.go puts the step times together. NewPricer is the usual entry point, for
// the placements and groups of a problem.Problem. Below it, Device.Compute estimates one
// fused operator and Device.Comm the exchanges of a step. RunCases (cases.go) reads
// operators and all-to-alls from a file. Package bound derives from the same formulas a
// lower bound on the cost of any plan.
package simulate

const (
	// Source is the label of all times of this package.
	Source = "simulated"
	// ModelVersion is the version of the formulas and constants. It changes
	// whenever a time does.
	ModelVersion = "5"
)

// The constants of the compute model. The word in brackets says how each is
// known: read in a source's code, fitted to measurements, measured, recalled, assumed. Package
// bound takes them from here.
const (
	// gatherShare is the share of the streaming bandwidth that reading scattered
	// rows reaches in the forward [fitted].
	gatherShare = 0.90
	// updateShare is the same for the row updates of the backward [fitted].
	updateShare = 0.74
	// sortShare is the same for the passes of the radix sort [fitted].
	sortShare = 0.42
	// CacheShare is the share of the last-level cache that holds rows [read: the DLRM
	// performance model].
	CacheShare = 0.9
	// WeightedShare is the time of the extra kernel that takes the gradient of per-sample
	// weights, over the time of the forward [measured: the median on an H200 where a bag has a
	// whole warp].
	WeightedShare = 1.8
	// ForwardFixedUS and BackwardFixedUS are the fixed times of an operator in us [fitted].
	ForwardFixedUS  = 14.0
	BackwardFixedUS = 93.0
	// TauLimit bounds the time tau of the cache model, in batches: a row that was
	// touched within that time is still cached.
	TauLimit = 1000
)

// The sizes of the kernels, in lanes and bytes [read].
const (
	// FloatsPerLane is the columns that a lane reads at a time.
	FloatsPerLane = 4
	// WideColumns is the width of the widest table of an operator from which on another
	// forward kernel runs: it takes operators with a table that is wider.
	WideColumns = 1024
	// LongBags is the mean lookups of a bag above which that kernel gives a bag of narrow
	// rows a part of a warp.
	LongBags = 8
	// CacheLine is the bytes of a sector, the granule of cache traffic.
	CacheLine = 32
	// BagIDBytes is the bytes of a bag number beside each sort key.
	BagIDBytes = 4
	// LocationBytes is the bytes of a row's place in a cache of rows.
	LocationBytes = 4
	// RunBytes is the bytes that run-length encoding moves for a distinct row beside its
	// key.
	RunBytes = 12
	// RowwiseState is the bytes moved for one float of optimizer state of a row: two
	// sectors.
	RowwiseState = 64
	// LookupWeightBytes is the bytes of a per-sample weight.
	LookupWeightBytes = 4
)

const (
	// warpsPerSM is the warps that a multiprocessor keeps in flight [read: the DLRM
	// performance model].
	warpsPerSM = 45
	// normPower joins the limits of memory, cache and issue into one time: 6 is
	// close to their maximum, with a rounded corner [assumed].
	normPower = 6
	// eagerForwardUS and eagerBackwardUS are the least fixed times of an operator, in us,
	// if the host launches each kernel [assumed].
	eagerForwardUS  = 20.0
	eagerBackwardUS = 100.0
)
