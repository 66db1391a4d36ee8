//go:build long

package neuroshard_test

import "testing"

// On two devices, two annealings of the same starts end at placements that differ a little:
// 3 of these 60 problems cost up to 0.6 % more than a restricted plan when this was written.
func TestManyMoreShardingTypesCostNoMore(t *testing.T) { moreShardingTypes(t, 60, 1, 6, .02) }
