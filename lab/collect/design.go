package collect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Shard is one part of a design: part Index of Count parts, counted from 1. The
// part holds the samples whose ID modulo Count is Index-1. The zero value is the
// whole design.
type Shard struct{ Index, Count int }

// String returns the shard as "2/8".
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

func (s Shard) has(id int) bool { return id%s.Count == s.Index-1 }

// Digest returns the SHA-256, in hex, of all drawn values of a design: tables,
// groups and exchanges with their IDs, but no times and no provenance. All parts of
// a design have the same digest.
func Digest(design dataset.Dataset) string {
	sum := sha256.New()
	out := json.NewEncoder(sum)
	// A number that is not finite is an error here. Validating the design reports it.
	_ = out.Encode("neuroshard design 2")
	if c := design.Compute; c != nil {
		_ = out.Encode(c.Tables)
		for i := range c.Samples {
			_ = out.Encode(untimed(&c.Samples[i]))
		}
	}
	if c := design.Comm; c != nil {
		_ = out.Encode("exchanges")
		for i := range c.Samples {
			e := c.Samples[i]
			e.Forward, e.Backward, e.Spread, e.Quarantined = nil, nil, 0, false
			_ = out.Encode(e)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// untimed returns a group without times.
func untimed(g *dataset.Group) dataset.Group {
	return dataset.Group{ID: g.ID, Split: g.Split, Operation: g.Operation, Members: g.Members}
}

// prepare returns a copy of a design without times. If all IDs are 0, samples get their index
// as ID.
func prepare(design dataset.Dataset) (dataset.Dataset, error) {
	var set dataset.Dataset
	if c := design.Compute; c != nil && len(c.Samples) > 0 {
		set.Compute = &dataset.Compute{Provenance: c.Provenance, Tables: c.Tables}
		numbered := slices.ContainsFunc(c.Samples, func(g dataset.Group) bool { return g.ID != 0 })
		for i := range c.Samples {
			g := untimed(&c.Samples[i])
			if !numbered {
				g.ID = i
			}
			set.Compute.Samples = append(set.Compute.Samples, g)
		}
	}
	if c := design.Comm; c != nil && len(c.Samples) > 0 {
		set.Comm = &dataset.Comm{Provenance: c.Provenance}
		numbered := slices.ContainsFunc(c.Samples, func(e dataset.Exchange) bool { return e.ID != 0 })
		for i, e := range c.Samples {
			e.Forward, e.Backward, e.Spread, e.Quarantined = nil, nil, 0, false
			if !numbered {
				e.ID = i
			}
			set.Comm.Samples = append(set.Comm.Samples, e)
		}
	}
	if set.Compute == nil && set.Comm == nil {
		return set, errors.New("the design has no samples: draw groups or all-to-alls")
	}
	return set, nil
}

// checkMembers returns an error for a group that no backend can run.
func checkMembers(tables []problem.Table, g *dataset.Group) error {
	if len(g.Members) == 0 {
		return fmt.Errorf("the group has no members")
	}
	if b := g.Operation.Batch; b < 1 || b > problem.MaxBatch {
		return fmt.Errorf("batch %d is not between 1 and %d", b, problem.MaxBatch)
	}
	for _, m := range g.Members {
		if m.Table < 0 || int(m.Table) >= len(tables) {
			return fmt.Errorf("table %d is not one of %d", m.Table, len(tables))
		}
		if m.Dim < 1 || m.Dim > problem.MaxDim {
			return fmt.Errorf("dim %d is not between 1 and %d", m.Dim, problem.MaxDim)
		}
	}
	return nil
}

// runLength is the number of groups of one batch size that are measured in a row.
const runLength = 200

// groupOrder returns the order in which to measure a shard's groups: IDs, drawn
// with the seed. Groups of one batch size come in runs, because a worker holds
// the lookups of each (table, batch) and could not hold those of all. Within a
// run the groups are shuffled, and so are the runs, so that a drift of the device does
// not look like an effect of the size or the batch.
func groupOrder(samples []dataset.Group, shard Shard, seed uint64) []int {
	draw := rand.New(rand.NewPCG(seed, 11))
	byBatch := make(map[int][]int)
	for i := range samples {
		if g := &samples[i]; shard.has(g.ID) {
			byBatch[g.Operation.Batch] = append(byBatch[g.Operation.Batch], g.ID)
		}
	}
	var batches []int
	for b := range byBatch {
		batches = append(batches, b)
	}
	slices.Sort(batches)
	var runs [][]int
	for _, b := range batches {
		ids := byBatch[b]
		slices.Sort(ids)
		draw.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		runs = slices.AppendSeq(runs, slices.Chunk(ids, runLength))
	}
	draw.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	return slices.Concat(runs...)
}

// exchangeOrder returns the order in which to measure a shard's exchanges:
// shuffled with the seed.
func exchangeOrder(samples []dataset.Exchange, shard Shard, seed uint64) []int {
	draw := rand.New(rand.NewPCG(seed, 12))
	var ids []int
	for i := range samples {
		if shard.has(samples[i].ID) {
			ids = append(ids, samples[i].ID)
		}
	}
	slices.Sort(ids)
	draw.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// maxAnchors is the most samples that are tried as the anchor.
const maxAnchors = 5

// groupAnchors returns the groups that may be the anchor, the best first: groups
// of about median work. Such a time is long compared with noise, and short enough to be
// measured often. The groups are the same for every shard.
func groupAnchors(set *dataset.Compute) []int {
	work := make(map[int]float64, len(set.Samples))
	ids := make([]int, len(set.Samples))
	for i := range set.Samples {
		g := &set.Samples[i]
		ids[i] = g.ID
		for _, m := range g.Members {
			work[g.ID] += float64(g.Operation.Batch) * set.Tables[m.Table].PoolingFactor() * float64(m.Dim)
		}
	}
	return middling(ids, work)
}

// exchangeAnchors returns the exchanges that may be the anchor, the best first.
// If any exchange starts aligned, only such exchanges are candidates, because a
// time that contains a wait says less about the device.
func exchangeAnchors(set *dataset.Comm) []int {
	work := make(map[int]float64, len(set.Samples))
	var aligned, all []int
	for i := range set.Samples {
		e := &set.Samples[i]
		for _, sum := range e.DimSums {
			work[e.ID] += float64(e.Batch) * float64(sum)
		}
		all = append(all, e.ID)
		if !slices.ContainsFunc(e.Start, func(s unit.Millis) bool { return s != 0 }) {
			aligned = append(aligned, e.ID)
		}
	}
	if len(aligned) > 0 {
		all = aligned
	}
	return middling(all, work)
}

// middling returns the id of median work, then the ids nearest to it in the order
// of work. Equal work is ordered by id.
func middling(ids []int, work map[int]float64) []int {
	slices.SortFunc(ids, func(a, b int) int {
		switch {
		case work[a] < work[b]:
			return -1
		case work[a] > work[b]:
			return 1
		}
		return a - b
	})
	middle := len(ids) / 2
	order := []int{ids[middle]}
	for step := 1; len(order) < min(maxAnchors, len(ids)); step++ {
		if middle-step >= 0 {
			order = append(order, ids[middle-step])
		}
		if middle+step < len(ids) && len(order) < maxAnchors {
			order = append(order, ids[middle+step])
		}
	}
	return order
}

// repeated returns the groups to measure a second time: a share of the
// candidates, drawn with the seed, in the order in which they are drawn.
func repeated(ids []int, share float64, seed uint64) []int {
	draw := rand.New(rand.NewPCG(seed, 13))
	ids = slices.Sorted(slices.Values(ids))
	draw.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:repeats(len(ids), share)]
}

// repeats returns a share of n, rounded up to a whole number, but at most n.
func repeats(n int, share float64) int { return min(n, int(math.Ceil(share*float64(n)))) }
