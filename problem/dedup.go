package problem

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// dedup.go describes tables whose indices each device deduplicates (Table.IndexDedup). Of n lookups
// of its part of the batch, which read D distinct rows, a device sends D indices and gets D vectors:
//
//	ids      7 4 7 7 9 4                    n = 6
//	         | unique        positions 0 1 0 0 2 1
//	sent     7 4 9                          D = 3
//	         | exchange, lookup, exchange
//	vectors  v7 v4 v9
//	         | expand, or pool
//	         v7 v4 v7 v7 v9 v4
//
// So to the exchanges and to the kernels, the table is one of PoolingNone with D lookups a device. A row that a
// batch of W devices uses m times is used W (1 - (1 - 1/W)^m) times, as each of the m uses is on any
// of the devices. Deduplicated makes the problem of such tables. Whatever estimates times estimates
// that problem, and knows nothing of deduplication. Memory is counted of either problem: for the
// exchange by the distinct rows, and for the expansion by all lookups.
//
// The time of the expansion of sequences is not counted. That of pooling is a fixed load of all devices, because
// pooled tables also have the choice to send a pooled vector for each bag. Forward, a device reads a vector for each
// lookup and writes one for each bag; backward the other way round. HugeCTR does so with one atomic addition for each
// element, so caches save little.

// Deduplicated returns the problem whose tables with IndexDedup have the lookups and accesses that
// are left when each device has deduplicated its indices. It returns p itself if no table has
// IndexDedup, or if p is such a problem. Sharding types, bytes and operators are those of p's
// tables.
func Deduplicated(p *Problem) *Problem {
	if !slices.ContainsFunc(p.Tables, func(t Table) bool { return t.IndexDedup && t.Stated == nil }) {
		return p
	}
	type content struct {
		access  access.Distribution
		rows    int64
		pooling float64
		lists   float64
	}
	known := map[content]access.Distribution{}
	pooled := 0.0 // bytes
	own := *p
	own.Tables = slices.Clone(p.Tables)
	for i := range own.Tables {
		t := &own.Tables[i]
		if !t.IndexDedup || t.Stated != nil {
			continue
		}
		t.Stated, t.Features = &p.Tables[i], slices.Clone(t.Features)
		share := left(p, t.Stated)
		for f := range t.Features {
			t.Features[f].PoolingFactor *= share
			t.Features[f].Bags = 0
		}
		if t.poolsOwn() {
			t.Pooling, t.Weighted = PoolingNone, false
			vectors := float64(p.localBatch()) * (t.Stated.PoolingFactor() + t.Stated.Bags())
			pooled += 2 * vectors * float64(t.Dim) * OutputBytes
		}
		key := content{t.Access, t.Rows, t.Stated.PoolingFactor(), t.Lists()}
		d, ok := known[key]
		if !ok {
			c := t.Stated.Counts(p.Batch).Deduplicated(t.PoolingFactor()*float64(p.Batch), float64(p.Batch)/float64(p.localBatch()))
			d = access.Distribution{Kind: access.Histogram, Reuse: c.Reuse, Batch: p.Batch, UniqueRows: c.Unique, Sorted: t.Access.Sorted}
			known[key] = d
		}
		t.Access = d
	}
	if pooled > 0 {
		memory := p.Topology.Profile.HBMGBps * p.Topology.Profile.HBMEfficiency * 1e6 // bytes per ms
		load := hardware.FixedLoad{Name: "pooling after the exchange", Time: unit.Millis(pooled / memory)}
		own.Topology.Fixed = append(slices.Clip(own.Topology.Fixed), load)
	}
	return &own
}

// DedupChoices returns the problems in which IndexDedup is decided for all tables with ChooseDedup, the one without
// first. Where the engine has tables of several kinds (EngineRules.SequenceDedup), the other has it for all tables.
// Else each further problem has it for more tables, those first that save the most columns of the exchange. It returns
// p alone if there is nothing to choose.
func DedupChoices(p *Problem) []*Problem {
	var order []int
	saved, saves := make([]float64, len(p.Tables)), false // columns of a sample
	with, together := decide(p, func(int) bool { return true }), p.Engine.Rules().SequenceDedup
	for i := range p.Tables {
		t := &with.Tables[i]
		if !t.ChooseDedup || undecided(p, t) != "" {
			continue
		}
		left := exchanged(with, t)
		saved[i] = float64(t.Dim) * (p.Tables[i].Bags() - left)
		if less := left < t.PoolingFactor(); less || together {
			order, saves = append(order, i), saves || less
		}
	}
	if !saves {
		return []*Problem{p}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(saved[b], saved[a]) })
	saving := slices.IndexFunc(order, func(i int) bool { return saved[i] <= 0 })
	if saving < 0 {
		saving = len(order)
	}
	counts := []int{0, saving / 2, saving, (saving + len(order)) / 2, len(order)}
	if together {
		counts = []int{0, len(order)}
	}
	var all []*Problem
	for _, n := range slices.Compact(counts) {
		all = append(all, decide(p, func(i int) bool { return slices.Contains(order[:n], i) }))
	}
	return all
}

// undecided says why no plan of p deduplicates the indices of the table, which has IndexDedup; "" if plans can.
func undecided(p *Problem, t *Table) string {
	switch rules := p.Engine.Rules(); {
	case p.Hierarchy.On():
		return "a hierarchical exchange adds up vectors inside hosts"
	case rules.SequenceDedup && t.poolsOwn():
		return rules.Name + " deduplicates indices of sequences only"
	case !slices.ContainsFunc(ShardingTypes(), t.Permits):
		return "pooled tables are deduplicated only if they may be table_wise, column_wise or row_wise"
	}
	return ""
}

// Undecided returns, for each reason, a sentence that names the tables whose ChooseDedup has no effect.
func Undecided(p *Problem) (all []string) {
	var reasons []string
	tables := map[string][]string{}
	for i := range p.Tables {
		t := p.Tables[i]
		if t.IndexDedup = true; !t.ChooseDedup {
			continue
		}
		if why := undecided(p, &t); why != "" {
			if tables[why] == nil {
				reasons = append(reasons, why)
			}
			tables[why] = append(tables[why], t.Name)
		}
	}
	for _, why := range reasons {
		all = append(all, fmt.Sprintf("choose_dedup has no effect on %s: %s", words.List(tables[why], 4), why))
	}
	return all
}

// decide returns the problem with IndexDedup of the tables with ChooseDedup as dedup says.
func decide(p *Problem, dedup func(table int) bool) *Problem {
	decided := *p
	decided.Tables = slices.Clone(p.Tables)
	for i := range decided.Tables {
		if t := &decided.Tables[i]; t.ChooseDedup {
			t.IndexDedup = dedup(i)
		}
	}
	return &decided
}

// sent returns the bytes of some lookups of the table and of the lengths of some samples that devices exchange.
func (t *Table) sent(lookups float64, samples int64) (values, lengths int64) {
	if t.poolsOwn() {
		return IndexBytes * int64(lookups), IndexBytes * samples * int64(len(t.Features))
	}
	return t.inputsOf(lookups, samples)
}

// left returns the share of the lookups in a table of p that are left when each device has
// deduplicated its own.
func left(p *Problem, t *Table) float64 {
	batch := p.localBatch()
	lookups := t.PoolingFactor() * float64(batch)
	if lookups == 0 {
		return 0
	}
	return t.distinct(int(batch)) / lookups
}

// exchanged returns the lookups of a sample in a table of p that devices exchange: all of them, or
// those that are left.
func exchanged(p *Problem, t *Table) float64 {
	if !t.IndexDedup || t.Stated != nil {
		return t.PoolingFactor()
	}
	share, sum := left(p, t), 0.0
	for _, f := range t.Features {
		sum += float64(f.PoolingFactor * share) // rounded as in Deduplicated
	}
	return sum
}

// bagsOf returns the vectors of a sample that devices exchange of a table of p: Table.Bags, or the
// lookups that are left.
func bagsOf(p *Problem, t *Table) float64 {
	if t.IndexDedup {
		return exchanged(p, t)
	}
	return t.Bags()
}

// statedOf returns the table as its problem states it, of a table that Deduplicated has made.
func statedOf(t *Table) *Table {
	if t.Stated != nil {
		return t.Stated
	}
	return t
}

// readOnce returns the accesses of a device's own samples to a table if it reads each
// distinct row once.
func readOnce(lookups float64, batch int) access.Distribution {
	d := access.Distribution{Kind: access.Histogram, Batch: batch, UniqueRows: lookups}
	d.Reuse[0] = 1
	return d
}

// deduplication returns the bytes by which a device finds the distinct rows of its own samples in a table, beside the vectors: for each
// batch the place of each lookup among them, the distinct rows and three times the lengths, and what sorts the lookups. The
// batch that is trained keeps the places for the backward of the expansion.
func (p *Problem) deduplication(t *Table, b batches) (m StepMemory) {
	stated, samples := statedOf(t), p.localBatch()
	lookups := math.Ceil(float64(samples) * stated.PoolingFactor())
	_, lengths := stated.inputsOf(lookups, samples)
	places := IndexBytes * int64(lookups)
	each := places + IndexBytes*int64(math.Ceil(float64(samples)*exchanged(p, t))) + 3*lengths
	for f := range m {
		m[f] = b.at(f).lines(inputs{permuted: each})
		if f != int(ForwardExchange) {
			m[f].Permuted += unit.Bytes(places)
		}
	}
	m[ForwardExchange].Permuted += unit.Bytes(int64(lookups) * sortPairBytes)
	return m
}
