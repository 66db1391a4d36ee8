package feature

import (
	"math"
	"math/bits"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// ScalarNames returns the names of a group's scalars, in order. All are times
// in ms, so that a group twice the size has twice the scalars:
//
//   - sort_ms: the bytes of the radix sort of the lookups over the bandwidth. The
//     number of passes grows with the rows of all tables of the operation.
//   - hot_row_ms: the time of the gradients of the most used row, which are added
//     one after the other.
//   - shared_cache_ms: the sum of the group's scales divided by the number of
//     tables that share the last-level cache at the same time.
func ScalarNames() []string { return []string{"sort_ms", "hot_row_ms", "shared_cache_ms"} }

// ScalarCount is the number of group scalars.
const ScalarCount = 3

// Part is what one shard adds to the sums of its group. The zero value adds
// nothing; it is the Part of a shard without lookups.
type Part struct {
	shards               int32
	hot                  int8
	lookups, rows, scale int64
}

// scaleUnit is the resolution of summed scales, in ms: 2^-24 ms is 0.06 ns.
const scaleUnit = 1.0 / (1 << 24)

// Part returns what a shard of the table adds to its group, with the shard's scale for
// the lane class of the group.
func (t *Table) Part(scale float64) Part {
	if t.Counts.Lookups <= 0 {
		return Part{}
	}
	return Part{
		shards: 1, hot: int8(t.hot), lookups: int64(math.Round(t.Counts.Lookups)), rows: t.Rows,
		scale: int64(math.Round(scale / scaleUnit)),
	}
}

// Empty reports whether the shard has no lookups.
func (p *Part) Empty() bool { return p.shards == 0 }

// Sums are the running sums of a group of shards for one lane class. Add and Remove are exact
// inverses: every sum is over integers. The zero value is the empty group.
type Sums struct {
	shards               int32
	lookups, rows, scale int64
	// hot counts the shards by their highest use-count class. classes has a bit for
	// each class whose count is above 0.
	hot     [access.Classes]int32
	classes uint32
}

// Shards returns the number of shards with lookups.
func (s *Sums) Shards() int { return int(s.shards) }

// Add puts a shard into the group.
func (s *Sums) Add(p *Part) {
	if p.shards == 0 {
		return
	}
	s.shards++
	s.lookups += p.lookups
	s.rows += p.rows
	s.scale += p.scale
	s.hot[p.hot]++
	s.classes |= 1 << p.hot
}

// Remove takes a shard out of the group; the shard was added before.
func (s *Sums) Remove(p *Part) {
	if p.shards == 0 {
		return
	}
	s.shards--
	s.lookups -= p.lookups
	s.rows -= p.rows
	s.scale -= p.scale
	if s.hot[p.hot]--; s.hot[p.hot] == 0 {
		s.classes &^= 1 << p.hot
	}
}

// Rates are the numbers of a device and an operation that the scalars depend on.
type Rates struct {
	perByte float64 // ms for a byte of memory traffic
	waves   [LaneClasses]int32
}

// NewRates returns the rates of operations like op on a device.
func NewRates(hw *hardware.Profile, op problem.Operation) Rates {
	r := Rates{perByte: 1 / (hw.HBMGBps * hw.HBMEfficiency * 1e6)}
	for l := range Lanes(LaneClasses) {
		lanes := float64(hw.Warp())
		if l <= Lanes16 {
			lanes = float64(int(8) << l)
		}
		r.waves[l] = int32(waves(hw, op.Batch, lanes))
	}
	return r
}

// Scalars writes into dst the scalars of the group and one more shard, with, in
// an operator of the lane class that the sums are for. with may be the zero Part, for the group
// alone.
func (s *Sums) Scalars(dst *[ScalarCount]float32, r *Rates, lanes Lanes, with *Part) {
	shards := s.shards + with.shards
	if shards == 0 {
		*dst = [ScalarCount]float32{}
		return
	}
	classes := s.classes
	if with.shards > 0 {
		classes |= 1 << with.hot
	}
	dst[0] = float32(float64((s.lookups+with.lookups)*sortBytes(s.rows+with.rows)) * r.perByte)
	dst[1] = hotMillis[bits.Len32(classes)-1]
	dst[2] = float32(float64(s.scale+with.scale) * scaleUnit / float64(min(shards, r.waves[lanes])))
}

// sortBytes returns the bytes moved for one lookup by a radix sort of 64-bit
// keys with 32-bit values, eight bits a pass, over one bit more than the rows
// of all tables need.
func sortBytes(rows int64) int64 {
	const key, pair, bitsPerPass = 8, 8 + 4, 8
	needed := int64(bits.Len64(uint64(max(2, rows)-1))) + 1
	return key + 2*pair*((needed+bitsPerPass-1)/bitsPerPass)
}

// hotMillis holds, for each use-count class, the time in ms to add the gradients
// of a row that the class's mean number of lookups use: 16 gradients in each
// step of half a microsecond. Several blocks share the gradients above 1,024
// (assumed; docs/SIMULATED.md).
var hotMillis = func() (ms [access.Classes]float32) {
	for j := range ms {
		ms[j] = float32(math.Min(access.ClassMean(j), 1024) / 16 * 0.5e-3)
	}
	return ms
}()
