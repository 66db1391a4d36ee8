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

// The cycles that one multiprocessor, or one compute unit, issues for a warp
// (docs/SIMULATED.md says how they are known).
const (
	rowCycles32, bagCycles32 = 27.3, 4.8
	// oneLookupCycles64 is the cycles of a warp of 64 lanes that reads a bag with one row.
	oneLookupCycles64 = 289.0
)

// IssueCycles returns the cycles that a multiprocessor (a compute unit on AMD) issues for a
// whole warp: row for each step over one row, of four columns a lane, and bag for each bag:
// its offsets and its pooled vector.
func (p Profile) IssueCycles() (row, bag float64) {
	if p.Warp() == 32 {
		return rowCycles32, bagCycles32
	}
	const scale = oneLookupCycles64 / (rowCycles32 + bagCycles32)
	return rowCycles32 * scale, bagCycles32 * scale
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
