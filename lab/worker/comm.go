package worker

import (
	"time"

	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// timeExchange measures an all-to-all of the ranks with the given sizes.
func timeExchange(g *ranks, s sizes, start []time.Duration, warmup, repeats int) (protocol.Response, error) {
	times, err := g.allToAll(s, start, warmup, repeats)
	if err != nil {
		return protocol.Response{}, err
	}
	r := protocol.Response{N: repeats, Source: "measured"}
	_, r.Spread = middle(slowest(times.backward))
	for i := range times.forward {
		forward, _ := middle(times.forward[i])
		backward, _ := middle(times.backward[i])
		r.Forward = append(r.Forward, forward)
		r.Backward = append(r.Backward, backward)
	}
	return r, nil
}

// checkComm returns the time when each rank is ready, or the fault of the request.
func checkComm(q *protocol.Request, batch int) ([]time.Duration, error) {
	n := len(q.Dims)
	if n == 1 {
		return nil, unsupported("one rank has no all-to-all")
	}
	if n > maxRanks {
		return nil, unsupported("%d ranks: this worker has %d at most", n, maxRanks)
	}
	if q.PerHost != 0 && q.PerHost < n {
		if q.PerHost < 0 {
			return nil, bad("per_host: %d is negative", q.PerHost)
		}
		return nil, unsupported("per_host: %d of %d ranks: this worker is one host", q.PerHost, n)
	}
	if err := between("batch", batch, 1, problem.MaxBatch); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, bad("dims: there are none")
	}
	for _, d := range q.Dims {
		if err := between("dims", d, 0, maxDimSum); err != nil {
			return nil, err
		}
	}
	if len(q.StartMS) != 0 && len(q.StartMS) != n {
		return nil, bad("start_ms: %d starts of %d ranks", len(q.StartMS), n)
	}
	start := make([]time.Duration, n)
	for r, ms := range q.StartMS {
		if err := between("start_ms", ms, 0, maxStartMS); err != nil {
			return nil, err
		}
		start[r] = time.Duration(ms * float64(time.Millisecond))
	}
	return start, nil
}

// slowest returns the longest time of each repeat, over all ranks.
func slowest(times [][]float64) []float64 {
	most := make([]float64, len(times[0]))
	for _, rank := range times {
		for i, t := range rank {
			most[i] = max(most[i], t)
		}
	}
	return most
}

// The all-to-alls of the ceilings run between the ranks of a small plan: once with
// almost no data, and once with so much data that the latency has little effect.
const (
	ceilingRanks   = 4
	ceilingRepeats = 15
	ceilingBatch   = 1 << 14
	ceilingDim     = 64
)

// exchangeCeilings adds the rates of all-to-alls between the ranks to the ceilings
// and the profile.
func exchangeCeilings(g *ranks, ceilings map[string]float64, p *hardware.Profile) error {
	const n = ceilingRanks
	run := func(batch, dim int) (ms float64, err error) {
		dims := make([]int, n)
		for r := range dims {
			dims[r] = dim
		}
		times, err := g.allToAll(sizes{Batch: batch, Dims: dims}, make([]time.Duration, n), 3, ceilingRepeats)
		if err != nil {
			return 0, err
		}
		ms, _ = middle(slowest(times.backward))
		return ms, nil
	}
	latency, err := run(n, 0)
	if err != nil {
		return err
	}
	full, err := run(ceilingBatch, ceilingDim)
	if err != nil {
		return err
	}
	// The bandwidth is the data that each rank sends to the others, in GB, divided by
	// the time beyond the latency.
	sent := float64(n-1) / n * ceilingBatch * ceilingDim * element / 1e9
	p.AllToAllLatencyUS = max(latency*1e3, 1e-3)
	p.IntraGBps = sent / max((full-latency)/1e3, 1e-6)
	ceilings["alltoall_us"], ceilings["alltoall_gbps"], ceilings["alltoall_ranks"] = p.AllToAllLatencyUS, p.IntraGBps, n
	return nil
}
