// Package simulate prices embedding work on a simulated device: the times of a
// group of shards in the fused kernels of a GPU, of the all-to-alls between
// devices, and of a whole placement.
//
// The formulas follow what the kernels do (FBGEMM's table-batched embeddings)
// and are fitted to the few published measurements there are. The times are
// SIMULATED, not measured: every result says so (Source, ModelVersion), and
// docs/SIMULATED.md says how each statement is known and how far it can be
// trusted. Comparing groups on one profile is safer than reading off absolute
// times.
//
// NewPricer prices the placements and groups of a problem.Problem. Below it,
// Device.Compute prices one fused operator and Device.Comm one pair of
// all-to-alls. RunCases reads such operators from a file.
package simulate

import (
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

const (
	// Source is what every result of this package is labelled with.
	Source = "simulated"
	// ModelVersion is the version of the formulas and constants. It changes
	// whenever a time does.
	ModelVersion = "1"
)

// The constants of the compute model. The word in brackets says how each is
// known: read in a source's code, fitted to published rows, recalled, assumed.
const (
	// gatherShare is the share of the streaming bandwidth that reading scattered
	// rows reaches in the forward [fitted, A100 rows].
	gatherShare = 0.86
	// updateShare is the same for the backward's row updates [fitted to little].
	updateShare = 0.60
	// sortShare is the same for the passes of the radix sort [recalled].
	sortShare = 0.68
	// stepCycles is the cycles a multiprocessor spends on one row step of a full
	// warp [fitted, A100 rows].
	stepCycles = 33
	// cacheShare is the share of the last-level cache that holds rows, and
	// warpsPerSM the warps a multiprocessor keeps in flight [both read: the DLRM
	// performance model].
	cacheShare = 0.9
	warpsPerSM = 45
	// normPower joins the limits of memory, cache and issue into one time: 6 is
	// close to their maximum, with a rounded corner [assumed].
	normPower = 6
	// A row used in many bags is updated by one block, whose warps walk through
	// its uses: at most maxRun uses, runWarps at a time, gatherStepUS each
	// [assumed; the sizes read in the kernels' code].
	maxRun       = 1024
	runWarps     = 16
	gatherStepUS = 0.5
	// weightedShare is the time of the extra kernel that takes the gradient of
	// per-sample weights, over the forward's own [assumed].
	weightedShare = 1.1
	// Fixed times of an operator: 3 us a kernel, one kernel forward and 14
	// backward [assumed; the number read in the code]. In eager mode the host
	// takes at least the other two.
	forwardFixedUS   = 3.0
	backwardFixedUS  = 42.0
	eagerForwardUS   = 20.0
	eagerBackwardUS  = 100.0
	cacheLine        = 32 // bytes of a sector, the granule of cache traffic
	floatsPerLane    = 4  // columns a lane reads at a time
	lanesPerWarp     = 32
	bagIDBytes       = 4  // bytes of a bag number beside each sort key
	runBytes         = 12 // bytes that run-length encoding moves for a distinct row beside its key
	rowwiseState     = 64 // bytes moved for one float of state a row: two sectors
	weightLookupSize = 4  // bytes of a per-sample weight
)

// LaunchMode says how an operator's kernels reach the device.
type LaunchMode uint8

// The launch modes.
const (
	// Graph replays a captured graph: kernels follow each other closely.
	Graph LaunchMode = iota
	// Eager launches each kernel from the host, which sets a least time.
	Eager
)

// Device is a simulated device. It is made by NewDevice, does not change, and
// may be used by several goroutines.
type Device struct {
	profile hardware.Profile
	// Rates in bytes, or cycles, a millisecond.
	stream, l2, issue, hostLink float64
	// cache is the bytes of the last-level cache that hold rows.
	cache   float64
	granule float64
}

// NewDevice returns the simulated device of a profile.
func NewDevice(p hardware.Profile) Device {
	return Device{
		profile: p,
		stream:  p.HBMGBps * p.HBMEfficiency * 1e6,
		l2:      p.L2GBps * 1e6,
		issue:   float64(p.SMs) * p.ClockGHz * 1e6,
		cache:   cacheShare * float64(p.L2),
		granule: float64(p.Granule),

		hostLink: p.HostLinkGBps() * 1e6,
	}
}

// Profile returns the profile that the device was made of.
func (d Device) Profile() hardware.Profile { return d.profile }

// Table is one table, or column shard of one, in a fused operator.
type Table struct {
	// Rows is the table's rows and Dim the columns held here, both above 0.
	Rows int64
	Dim  int
	// Features is the number of features that read the table: each makes a bag
	// of its own of every sample. 0 means 1.
	Features int
	// Counts is what the batch does to the table; its Lookups are the batch times
	// the pooling factors of all features. A table without lookups costs nothing.
	Counts access.Counts
}
