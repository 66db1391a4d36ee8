package engine

import "github.com/neuroshard/neuroshard/internal/f32"

// forward is what Forward runs: ranges of bags, all of about the same work.
type forward struct {
	ranges []bagRange
	phase  func(thread int)
}

// bagRange is the bags lo to hi of a shard.
type bagRange struct {
	shard, lo, hi int
	gather        f32.Gather
}

// A range of bags reads and writes about the group's bytes over rangesPerThread,
// between these bounds: small enough that no thread waits long for the last one,
// large enough that taking a range, and the first rows of it, cost nothing.
const (
	minRangeBytes   = 64 << 10
	maxRangeBytes   = 512 << 10
	rangesPerThread = 16
)

func (o *Op) planForward() {
	var total int64
	for i := range o.shards {
		s := &o.shards[i]
		total += s.forwardBytes(0, s.bags())
	}
	size := min(max(total/int64(rangesPerThread*o.opt.Threads), minRangeBytes), maxRangeBytes)
	for i := range o.shards {
		s := &o.shards[i]
		for lo := 0; lo < s.bags(); {
			hi := lo + 1
			for hi < s.bags() && s.forwardBytes(lo, hi+1) <= size {
				hi++
			}
			o.forward.ranges = append(o.forward.ranges, bagRange{shard: i, lo: lo, hi: hi, gather: f32.Gather{
				Table: s.Weights, Dim: s.Dim, Weights: perSample(s, hi),
				Picks: f32.Rows(s.Bags.Indices[:s.Bags.Offsets[hi]]), Mask: ^uint64(0),
			}})
			lo = hi
		}
	}
	o.forward.phase = o.runForward
}

// perSample is the weights of the lookups before bag hi.
func perSample(s *shard, hi int) []float32 {
	if s.PerSample == nil {
		return nil
	}
	return s.PerSample[:s.Bags.Offsets[hi]]
}

// forwardBytes is what the bags lo to hi read and write.
func (s *shard) forwardBytes(lo, hi int) int64 {
	lookups := s.Bags.Offsets[hi] - s.Bags.Offsets[lo]
	return lookups*int64(4*s.Dim+8) + int64(hi-lo)*int64(4*s.Dim+8)
}

// Forward sums the rows of every bag into its output, in the order of its lookups.
// An empty bag's output is zero.
func (o *Op) Forward() { o.team.run(o.forward.phase) }

func (o *Op) runForward(int) {
	for {
		i, ok := o.team.claim(len(o.forward.ranges))
		if !ok {
			return
		}
		r := &o.forward.ranges[i]
		s := &o.shards[r.shard]
		r.gather.Sum(s.Bags.Offsets[r.lo:r.hi+1], s.outputs[r.lo*s.Dim:r.hi*s.Dim])
	}
}
