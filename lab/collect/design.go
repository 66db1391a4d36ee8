package collect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	design = design.Untimed()
	sum := sha256.New()
	out := json.NewEncoder(sum)
	// A number that is not finite is an error here. Validating the design reports it.
	_ = out.Encode("neuroshard design 2")
	if c := design.Compute; c != nil {
		_ = out.Encode(c.Tables)
		for i := range c.Samples {
			_ = out.Encode(c.Samples[i])
		}
	}
	if c := design.Comm; c != nil {
		_ = out.Encode("exchanges")
		for i := range c.Samples {
			_ = out.Encode(c.Samples[i])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// prepare returns a copy of a design without times. If all IDs are 0, samples get their index
// as ID.
func prepare(design dataset.Dataset) (dataset.Dataset, error) {
	set := design.Untimed()
	if c := set.Compute; c != nil && len(c.Samples) == 0 {
		set.Compute = nil
	} else if c != nil && !slices.ContainsFunc(c.Samples, func(g dataset.Group) bool { return g.ID != 0 }) {
		for i := range c.Samples {
			c.Samples[i].ID = i
		}
	}
	if c := set.Comm; c != nil && len(c.Samples) == 0 {
		set.Comm = nil
	} else if c != nil && !slices.ContainsFunc(c.Samples, func(e dataset.Exchange) bool { return e.ID != 0 }) {
		for i := range c.Samples {
			c.Samples[i].ID = i
		}
	}
	if set.Compute == nil && set.Comm == nil {
		return set, errors.New("the design has no samples: draw groups or all-to-alls")
	}
	return set, nil
}

// sample is a group or an exchange of the design.
type sample struct {
	id, devices int
	// batch is the batch of a group, and 0 for an exchange.
	batch int
	// work grows with the time. waits is true if the time contains a wait.
	work  float64
	waits bool
	// measure makes the backend run the sample once, and add adds it with its times to a dataset.
	measure func(ctx context.Context) (times, error)
	add     func(set *dataset.Dataset, t times, quarantined bool)
}

func groupSample(c *dataset.Compute, g dataset.Group, backend Backend) *sample {
	s := &sample{id: g.ID, devices: 1, batch: g.Operation.Batch}
	s.measure = func(ctx context.Context) (times, error) {
		t, err := backend.Compute(ctx, c.Tables, &g)
		return times{[]unit.Millis{t.Forward}, []unit.Millis{t.Backward}, t.ForwardSpread, t.BackwardSpread}, err
	}
	s.add = func(set *dataset.Dataset, t times, quarantined bool) {
		g := g
		g.Forward, g.Backward, g.ForwardSpread, g.BackwardSpread = t.Forward[0], t.Backward[0], t.ForwardSpread, t.BackwardSpread
		g.Quarantined = quarantined
		set.Compute.Samples = append(set.Compute.Samples, g)
	}
	for _, m := range g.Members {
		if m.Table >= 0 && int(m.Table) < len(c.Tables) { // validating the design reports others
			s.work += float64(g.Operation.Batch) * c.Tables[m.Table].PoolingFactor() * float64(m.Dim)
		}
	}
	return s
}

func exchangeSample(e dataset.Exchange, backend Backend) *sample {
	s := &sample{id: e.ID, devices: e.Devices, waits: slices.ContainsFunc(e.Start, func(s unit.Millis) bool { return s != 0 })}
	s.measure = func(ctx context.Context) (times, error) {
		e := e
		e.DimSums, e.Start = slices.Clone(e.DimSums), slices.Clone(e.Start)
		t, err := backend.Comm(ctx, &e)
		return times{t.Forward, t.Backward, 0, t.Spread}, err
	}
	s.add = func(set *dataset.Dataset, t times, quarantined bool) {
		e := e
		e.Forward, e.Backward, e.Spread, e.Quarantined = t.Forward, t.Backward, t.BackwardSpread, quarantined
		set.Comm.Samples = append(set.Comm.Samples, e)
	}
	for _, sum := range e.DimSums {
		s.work += float64(e.Batch) * float64(sum)
	}
	return s
}

// kind is all groups of a design, or all its exchanges.
type kind struct {
	// name is the name in the journal, and phase the one in Progress.
	name, phase string
	samples     []*sample
	byID        map[int]*sample
	// ids are all samples of the shard in the order in which they are measured.
	ids []int
	// candidates are the samples that may be the anchor, and limit is the share by which
	// the anchor may move.
	candidates []int
	limit      float64
}

func newKind(name, phase string, samples []*sample, shard Shard, seed uint64, limit float64) *kind {
	k := &kind{name: name, phase: phase, samples: samples, byID: make(map[int]*sample), limit: limit}
	for _, s := range samples {
		k.byID[s.id] = s
	}
	k.ids, k.candidates = order(samples, shard, seed), anchors(samples)
	return k
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

// order returns the order in which to measure a shard's samples: IDs, drawn
// with the seed. Groups of one batch size come in runs, because a worker holds
// the lookups of each (table, batch) and could not hold those of all. Within a
// run the samples are shuffled, and so are the runs, so that a drift of the device does
// not look like an effect of the size or the batch.
func order(samples []*sample, shard Shard, seed uint64) []int {
	draw := rand.New(rand.NewPCG(seed, 11))
	byBatch := make(map[int][]int)
	for _, s := range samples {
		if shard.has(s.id) {
			byBatch[s.batch] = append(byBatch[s.batch], s.id)
		}
	}
	var runs [][]int
	for _, b := range slices.Sorted(maps.Keys(byBatch)) {
		ids := byBatch[b]
		slices.Sort(ids)
		draw.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		runs = slices.AppendSeq(runs, slices.Chunk(ids, runLength))
	}
	draw.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	return slices.Concat(runs...)
}

// maxAnchors is the most samples that are tried as the anchor.
const maxAnchors = 5

// anchors returns the samples that may be the anchor, the best first: one of median work, and then
// those nearest to it in the order of work. Such a time is long compared with noise, and short
// enough to be measured often. A sample whose time contains a wait says less about the device, so
// it is a candidate only if all are such samples. The candidates are the same for every shard.
func anchors(samples []*sample) (ids []int) {
	some := slices.DeleteFunc(slices.Clone(samples), func(s *sample) bool { return s.waits })
	if len(some) == 0 {
		some = slices.Clone(samples)
	}
	slices.SortFunc(some, func(a, b *sample) int { return cmp.Or(cmp.Compare(a.work, b.work), cmp.Compare(a.id, b.id)) })
	for step := range len(some) {
		at := len(some)/2 + (step+1)/2
		if step%2 == 1 {
			at = len(some)/2 - (step+1)/2
		}
		if len(ids) < maxAnchors && at >= 0 && at < len(some) {
			ids = append(ids, some[at].id)
		}
	}
	return ids
}

// repeatShare is the share of the groups that are measured a second time at the end.
const repeatShare = 0.02

// repeated returns the groups to measure a second time: a share of the
// candidates, drawn with the seed, in the order in which they are drawn.
func repeated(ids []int, seed uint64) []int {
	draw := rand.New(rand.NewPCG(seed, 13))
	ids = slices.Sorted(slices.Values(ids))
	draw.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:repeats(len(ids))]
}

// repeats returns repeatShare of n, rounded up to a whole number.
func repeats(n int) int { return int(math.Ceil(repeatShare * float64(n))) }
