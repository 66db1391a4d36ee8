package hardware

// lanes.go states how the pooled kernels divide the lanes of warps among bags, and what the
// work of a warp takes. The simulated device and the features of the cost models follow it.

// Warp returns the lanes of a warp: WarpLanes, or 32 for 0.
func (p Profile) Warp() int {
	if p.WarpLanes == 0 {
		return 32
	}
	return p.WarpLanes
}

// Lanes returns the number of lanes that the pooled kernels give a bag if the lanes follow
// a table, or a slice of it, of the given width: with warps of 32 lanes, 8 up to 32 columns,
// 16 up to 64 columns, else the whole warp; with other warps, always the whole warp. [read:
// the template configurations of FBGEMM's kernels; on AMD's GPUs they cut no warps]
func (p Profile) Lanes(width int) int {
	warp := p.Warp()
	switch {
	case warp != 32:
		return warp
	case width <= 32:
		return 8
	case width <= 64:
		return 16
	}
	return warp
}

// KernelTimes holds the times that a whole warp takes of one multiprocessor (compute unit on AMD),
// in ns: of kernels that pool, or of those that keep lookups apart. They do not depend on the
// clock: one set fits GPUs whose clocks differ by a quarter, so waiting for memory and cache sets
// them more than instructions do [fitted].
type KernelTimes struct {
	// Row is for each step over one row in the forward, of four columns a lane, and Miss more
	// for a row that comes from memory: a part of a warp takes its share of both.
	Row, Miss float64
	// Bag is for each bag in the forward: its offsets and its pooled vector. A share s of a
	// warp takes s^BagPower of it.
	Bag, BagPower float64
	// The backward takes these times for each step over one row: Use for each use; Update for each
	// distinct row, State more if its optimizer keeps state, and Rounding more if its elements
	// take two bytes, because they are rounded at random; and Block for each block of at most
	// 1,024 uses of a row that is used more than 32 times. A share s of a warp takes
	// s^UpdatePower of all.
	Use, Update, State, Rounding, Block, UpdatePower float64
	// Prepare is for each bag in the backward, before indices are sorted. It does not depend
	// on lanes.
	Prepare float64
}

// Backward returns the time of all steps of the backward over rows in one step each, before the share
// of a warp. state says that the optimizer keeps state, and half that elements of rows take two bytes.
func (t *KernelTimes) Backward(uses, rows, blocks float64, state, half bool) float64 {
	update := t.Update
	if state {
		update += t.State
	}
	if half {
		update += t.Rounding
	}
	return t.Use*uses + update*rows + t.Block*blocks
}

// The times of KernelTimes (docs/SIMULATED.md says how they are known).
const (
	rowNanos, missNanos                                                       = 6.2, 5.3
	useNanos, updateNanos, stateNanos, roundingNanos, blockNanos, updatePower = 4.7, 42.0, 35.8, 21.0, 3810, .87
	// Names that end in Pooled are of kernels that pool rows, those in Apart of kernels that do not.
	bagNanosPooled, bagPowerPooled, prepareNanosPooled = 49, .20, 10.3
	bagNanosApart                                      = 18
	// oneLookupNanos64 is the time of a warp of 64 lanes that reads a bag with one row.
	oneLookupNanos64 = 289 / 2.1
)

// LengthFactor is the factor on the coefficient of variation of bag lengths with which
// LongestBag gives the time of the bags that share a warp [fitted: with exponential lengths,
// sharing a warp gains nothing].
const LengthFactor = 2.9

// overheadBytes is the RowOverhead of memory with transfers of 64 bytes [fitted].
const overheadBytes = 82

// RowOverhead returns the bytes of memory bandwidth that reading or writing a row costs beside
// the row itself, because rows lie apart. [fitted with transfers of 64 bytes;
// with 32, in proportion, published steps of three older GPUs fit better than with all of it]
func (p Profile) RowOverhead() float64 { return overheadBytes * float64(p.Granule) / 64 }

// KernelTimes returns the times of the kernels: of those that pool rows, or of those that do
// not. With warps of 64 lanes, all times are scaled so that a bag with one row takes its published
// time, and half the lanes take half the time of a bag [measured].
func (p Profile) KernelTimes(pooled bool) KernelTimes {
	t := KernelTimes{
		Row: rowNanos, Miss: missNanos, Bag: bagNanosApart, BagPower: 1,
		Use: useNanos, Update: updateNanos, State: stateNanos, Rounding: roundingNanos, Block: blockNanos, UpdatePower: updatePower,
	}
	if pooled {
		t.Bag, t.BagPower, t.Prepare = bagNanosPooled, bagPowerPooled, prepareNanosPooled
	}
	if p.Warp() == 32 {
		return t
	}
	const scale = oneLookupNanos64 / (rowNanos + missNanos + bagNanosPooled)
	for _, each := range []*float64{&t.Row, &t.Miss, &t.Bag, &t.Use, &t.Update, &t.State, &t.Rounding, &t.Block, &t.Prepare} {
		*each *= scale
	}
	t.BagPower = 1
	return t
}

// LongestBag returns the expected length of the longest of some bags over the mean length
// of a bag. lengthCV is the coefficient of variation of the lengths, at least 0. The number
// of bags that share a warp is 1, 2, 4 or 8; other numbers count as the next lower one.
// Lengths are taken as normal. The longest bag is at most as long as all bags together.
// [computed: for normal, Poisson, uniform and exponential lengths within 5 %]
func LongestBag(bags int, lengthCV float64) float64 {
	longest := 0.0 // of standard normal draws
	switch {
	case bags >= 8:
		longest = 1.4236
	case bags >= 4:
		longest = 1.0294
	case bags >= 2:
		longest = 0.5642
	}
	return min(float64(max(1, bags)), 1+longest*lengthCV)
}
