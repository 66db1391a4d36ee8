package simulate

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
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

// HostLink returns the times on the host link, forward and backward, of a table with
// the given counts, or of a slice of it that is width columns wide, in the tier and
// with the cache of a form.
func (d Device) HostLink(t *problem.Table, c access.Counts, width int, form problem.Form) (forward, backward unit.Millis) {
	row := float64(int64(width) * t.Precision.Bytes())
	if form.Tier == problem.HostCached {
		missed := c.Uncached(t.Rows, problem.CachedRows(t.Rows, form.Cache))
		each := row + float64(t.Optimizer.StateBytes(1, width))
		fetch := unit.Millis(missed * each / d.hostLink)
		return fetch, fetch
	}
	read := roundUp(row, cacheLine)
	update := 2*read + d.stateTraffic(t.Optimizer, float64(width))
	return unit.Millis(c.Lookups * read / d.hostLink), unit.Millis(c.Unique * update / d.hostLink)
}
