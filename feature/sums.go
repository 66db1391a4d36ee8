package feature

import (
	"math"

	"github.com/neuroshard/neuroshard/access"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/problem"
)

// ScalarNames returns the names of Scalars' entries, in order. All are times
// in ms, so that a group twice the size has twice the scalars.
func ScalarNames() []string {
	return []string{"sort_ms", "hot_row_ms", "shared_cache_ms"}
}

// ScalarCount is the number of group scalars.
const ScalarCount = 3

// Sums are the running sums of a group of shards from which its scalars come.
// Add and Remove are exact inverses: every sum is over integers. The zero
// value is the empty group.
type Sums struct {
	// Shards is the number of shards with lookups.
	Shards int
	// lookups and rows are sums over shards.
	lookups, rows int64
	// scales is the sum of the shards' scales, in units of scaleUnit.
	scales int64
	// hot counts the shards by their highest use-count class.
	hot [access.Classes]int32
}

// scaleUnit is the resolution of the summed scales, in ms: 2^-24 ms is 0.06 ns.
const scaleUnit = 1.0 / (1 << 24)

// Add puts a shard of table t, of the given scale, into the group.
func (s *Sums) Add(t *Table, scale float64) { s.shift(t, scale, 1) }

// Remove takes out a shard that was added with the same scale.
func (s *Sums) Remove(t *Table, scale float64) { s.shift(t, scale, -1) }

func (s *Sums) shift(t *Table, scale float64, sign int64) {
	if t.Counts.Lookups <= 0 {
		return
	}
	s.Shards += int(sign)
	s.lookups += sign * int64(math.Round(t.Counts.Lookups))
	s.rows += sign * t.Rows
	s.scales += sign * int64(math.Round(scale/scaleUnit))
	s.hot[t.hot] += int32(sign)
}

// Scalars writes the group's scalars into dst (length ScalarCount):
//
//   - sort_ms: bytes of the radix sort of the lookups over bandwidth. The
//     number of passes grows with the rows of all tables of the operation.
//   - hot_row_ms: the time the most used row's gradients take one after the
//     other.
//   - shared_cache_ms: the group's scale divided by the number of tables that
//     share the last-level cache at a time.
func (s *Sums) Scalars(dst []float32, hw *hardware.Profile, op problem.Operation, lanes Lanes) {
	_ = dst[ScalarCount-1]
	if s.Shards == 0 {
		clear(dst[:ScalarCount])
		return
	}
	memory := hw.HBMGBps * hw.HBMEfficiency * 1e6
	dst[0] = float32(float64(s.lookups) * s.sortBytes() / memory)
	dst[1] = float32(s.hotMillis())
	sharing := math.Min(float64(s.Shards), waves(hw, op.Batch, lanes))
	dst[2] = float32(float64(s.scales) * scaleUnit / sharing)
}

// sortBytes returns the bytes moved for one lookup by a radix sort of 64-bit
// keys with 32-bit values, eight bits a pass, over as many bits as the rows of
// all tables need.
func (s *Sums) sortBytes() float64 {
	const key, pair, bitsPerPass = 8, 8 + 4, 8
	bits := math.Max(1, math.Ceil(math.Log2(math.Max(2, float64(s.rows))))+1)
	return key + 2*pair*math.Ceil(bits/bitsPerPass)
}

// hotMillis returns the time of the longest run of one row's gradients: 16 at a
// time, half a microsecond each step, runs above 1,024 being shared by several
// blocks (assumed; docs/SIMULATED.md).
func (s *Sums) hotMillis() float64 {
	for j := access.Classes - 1; j >= 0; j-- {
		if s.hot[j] > 0 {
			return math.Min(access.ClassMean(j), 1024) / 16 * 0.5e-3
		}
	}
	return 0
}
