package engine

import "github.com/neuroshard/neuroshard/internal/f32"

// forward holds what Forward runs: ranges of bags with about equal work.
type forward struct {
	shards []shard // the op's
	ranges []bagRange
	phase  func(thread int)
	// team runs the current Forward.
	team *team
}

// bagRange is the bags lo to hi of a shard.
type bagRange struct {
	shard, lo, hi int
	gather        f32.Gather
}

// A range of bags reads and writes about the bytes of the group divided by
// rangesPerThread, within these bounds: small enough that no thread waits long for
// the last one, and large enough that taking a range and loading its first rows
// cost little.
const (
	minRangeBytes   = 64 << 10
	maxRangeBytes   = 512 << 10
	rangesPerThread = 16
)

// plan cuts the bags of an op's shards into ranges for a number of threads. f must not move
// in memory after it.
func (f *forward) plan(shards []shard, threads int) {
	var total int64
	for i := range shards {
		s := &shards[i]
		total += s.forwardBytes(0, s.bags())
	}
	size := min(max(total/int64(rangesPerThread*threads), minRangeBytes), maxRangeBytes)
	for i := range shards {
		s := &shards[i]
		for lo := 0; lo < s.bags(); {
			hi := lo + 1
			for hi < s.bags() && s.forwardBytes(lo, hi+1) <= size {
				hi++
			}
			f.ranges = append(f.ranges, bagRange{shard: i, lo: lo, hi: hi, gather: f32.Gather{
				Table: s.Weights, Dim: s.Dim, Weights: perSample(s, hi),
				Picks: f32.Rows(s.Bags.Indices[:s.Bags.Offsets[hi]]), Mask: ^uint64(0),
			}})
			lo = hi
		}
	}
	f.shards, f.phase = shards, f.sumRanges
}

// perSample returns the weights of the lookups before bag hi.
func perSample(s *shard, hi int) []float32 {
	if s.PerSample == nil {
		return nil
	}
	return s.PerSample[:s.Bags.Offsets[hi]]
}

// forwardBytes returns the number of bytes that the bags lo to hi read and write.
func (s *shard) forwardBytes(lo, hi int) int64 {
	lookups := s.Bags.Offsets[hi] - s.Bags.Offsets[lo]
	return lookups*int64(4*s.Dim+8) + int64(hi-lo)*int64(4*s.Dim+8)
}

// run sums the rows of every bag on the threads of the team.
func (f *forward) run(t *team) {
	f.team = t
	t.run(f.phase)
}

func (f *forward) sumRanges(int) {
	for i := range f.team.tasks(len(f.ranges)) {
		r := &f.ranges[i]
		s := &f.shards[r.shard]
		r.gather.Sum(s.Bags.Offsets[r.lo:r.hi+1], s.outputs[r.lo*s.Dim:r.hi*s.Dim])
	}
}
