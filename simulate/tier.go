package simulate

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// tier.go prices rows in a host's memory, beyond what their operator takes in HBM:
// the bytes that cross the link between device and host. Other devices of the host
// use links of their own [assumed].
//
// In tier Host the kernels read and write the rows where they are, in sectors and
// without a cache between: every lookup crosses in the forward, and each distinct row
// both ways in the backward, with its optimizer state [assumed].
//
// In tier HostCached, HBM caches rows with their state, the most used ones [RecShard's
// idea; that the cache holds them: assumed]. The distinct rows that it misses are
// fetched before the forward, and as many go back after the backward [assumed].

// hostTransfers returns the times on the host link of a shard in host memory.
func (p *Pricer) hostTransfers(s *problem.Shard) (forward, backward unit.Millis) {
	t, c := &p.problem.Tables[s.Table], &p.tables[s.Table].counts
	row := float64(int64(s.Dim()) * t.Precision.Bytes())
	if s.Tier == problem.HostCached {
		missed := c.Uncached(t.Rows, problem.CachedRows(t.Rows, s.Cache))
		each := row + float64(t.Optimizer.StateBytes(1, s.Dim()))
		fetch := unit.Millis(missed * each / p.device.hostLink)
		return fetch, fetch
	}
	read := roundUp(row, cacheLine)
	update := 2*read + p.device.stateTraffic(t.Optimizer, float64(s.Dim()))
	return unit.Millis(c.Lookups * read / p.device.hostLink), unit.Millis(c.Unique * update / p.device.hostLink)
}
