package design

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// drawer draws the samples of one split.
type drawer struct {
	domain *Domain
	draw   *rand.Rand
	tables []problem.Table
	split  dataset.Split
	// usable holds the tables that can be measured, by rising weight at the lightest
	// operation and the least dim.
	usable []int32
	// counted holds, for each batch, the usable tables that are Counted at it.
	counted map[int][]int32
	// alone holds shards of earlier groups, to be measured alone.
	alone []dataset.Group
}

func newDrawer(d Domain, draw *rand.Rand, tables []problem.Table, split dataset.Split) (*drawer, error) {
	r := &drawer{domain: &d, draw: draw, tables: tables, split: split}
	op := d.lightest()
	weights := make([]float64, len(tables))
	least := -1 // the lightest table that is read
	first, end := TablesOf(split, len(tables))
	for i := first; i < end; i++ {
		t := &tables[i]
		// The time of a group without lookups gives no information.
		if !(t.PoolingFactor()*float64(op.Batch) >= 1) {
			continue
		}
		weights[i] = d.weight(t, op, problem.ColumnGranule)
		if least < 0 || weights[i] < weights[least] {
			least = i
		}
		if float64(d.MinShards)*weights[i] <= 1 {
			r.usable = append(r.usable, int32(i))
		}
	}
	name := [...]string{"training", "validation", "test"}[split]
	switch {
	case len(r.usable) > 0:
		slices.SortStableFunc(r.usable, func(a, b int32) int {
			return cmp.Or(cmp.Compare(weights[a], weights[b]), cmp.Compare(tables[a].PoolingFactor(), tables[b].PoolingFactor()))
		})
		r.countAt()
		return r, nil
	case least < 0:
		return nil, fmt.Errorf("none of the %d %s tables has a lookup in a batch of %d: draw larger batches or other tables", end-first, name, op.Batch)
	}
	return nil, r.impossible(name, &tables[least])
}

// Counted reports whether the statistics of a table's lookups are of the given
// batch, or of any batch. At other batches a histogram is scaled by a rule
// (access.Distribution.At) that few tables follow exactly: rows that are used once
// seem to be used twice in a batch of twice the size. Such lookups cannot be made.
func Counted(t *problem.Table, batch int) bool {
	return t.Access.Kind != access.Histogram || t.Access.Batch == batch
}

// countAt finds the tables that are Counted at each batch. Given tables are Counted
// at every batch, as in a plan.
func (r *drawer) countAt() {
	r.counted = make(map[int][]int32)
	for _, batch := range r.domain.Batches {
		if len(r.domain.Tables) == 0 {
			for _, i := range r.usable {
				if Counted(&r.tables[i], batch) {
					r.counted[batch] = append(r.counted[batch], i)
				}
			}
		}
		if len(r.counted[batch]) == 0 {
			r.counted[batch] = r.usable
		}
	}
}

// impossible returns the error of a split whose tables are all too heavy. It names
// the bound that the lightest table exceeds.
func (r *drawer) impossible(name string, t *problem.Table) error {
	d, op := r.domain, r.domain.lightest()
	n := float64(d.MinShards)
	bytes, lookups := n*bytesOf(t, op, problem.ColumnGranule), n*lookupBytesOf(t, op, problem.ColumnGranule)
	what := fmt.Sprintf("no group of the %s tables is within bounds: %s of %d columns of the lightest, %q,", name, words.Plural(d.MinShards, "shard"), problem.ColumnGranule, t.Name)
	if d.MaxBytes > 0 && bytes > float64(d.MaxBytes) {
		return fmt.Errorf("%s take %v, and max bytes is %v: raise it or take smaller tables", what, unit.Bytes(bytes), d.MaxBytes)
	}
	return fmt.Errorf("%s look up %v at a batch of %d, and max lookup bytes is %v: raise it or draw smaller batches",
		what, unit.Bytes(lookups), op.Batch, unit.Bytes(d.MaxLookupBytes))
}

// These are the shares of samples that are not plain groups.
const (
	tinyShare = .05
	// aloneShare is the share of groups with one or two shards that are also measured
	// alone.
	aloneShare = .1
)

func (r *drawer) sample() dataset.Group {
	if len(r.alone) > 0 {
		g := r.alone[0]
		r.alone = r.alone[1:]
		return g
	}
	if r.draw.Float64() < tinyShare {
		return r.tiny()
	}
	g := r.group()
	if r.domain.MinShards == 1 && len(g.Members) > 1 && r.draw.Float64() < aloneShare {
		for _, i := range r.draw.Perm(len(g.Members))[:1+r.draw.IntN(2)] {
			one := g
			one.Members = []dataset.Member{g.Members[i]}
			r.alone = append(r.alone, one)
		}
	}
	return g
}

// tiny draws a group whose time is mostly launch cost: few narrow shards of the
// lightest eighth of the tables, with few lookups.
func (r *drawer) tiny() dataset.Group {
	d := r.domain
	g := dataset.Group{Split: r.split, Operation: r.operation()}
	g.Operation.Batch = slices.Min(d.Batches)
	count := d.MinShards + r.draw.IntN(min(3, d.MaxShards-d.MinShards+1))
	usable := r.counted[g.Operation.Batch]
	light := (len(usable) + 7) / 8
	for range count {
		g.Members = append(g.Members, dataset.Member{Table: usable[r.draw.IntN(light)], Dim: problem.ColumnGranule})
	}
	r.shrink(&g)
	return g
}

// groupTries is the most draws of a group until it is within the bounds.
const groupTries = 12

func (r *drawer) group() dataset.Group {
	count := shardCount(r.draw, r.domain.MinShards, r.domain.MaxShards)
	var g dataset.Group
	for range groupTries {
		g = dataset.Group{Split: r.split, Operation: r.operation(), Members: make([]dataset.Member, count)}
		dim := dims(r.draw, r.domain.MaxDim)
		if r.domain.Plain {
			dim = r.power
		}
		usable := r.counted[g.Operation.Batch]
		for i := range g.Members {
			g.Members[i] = dataset.Member{Table: usable[r.draw.IntN(len(usable))], Dim: int32(dim())}
		}
		if r.domain.Allows(r.tables, &g) {
			return g
		}
	}
	r.shrink(&g)
	return g
}

// power draws a dim as the paper does.
func (r *drawer) power() int {
	return problem.ColumnGranule << r.draw.IntN(bits.Len(uint(r.domain.MaxDim/problem.ColumnGranule)))
}

func (r *drawer) operation() problem.Operation {
	d := r.domain
	return problem.Operation{
		Batch:     d.Batches[r.draw.IntN(len(d.Batches))],
		Optimizer: d.Optimizers[r.draw.IntN(len(d.Optimizers))],
		Precision: d.Precisions[r.draw.IntN(len(d.Precisions))],
		Weighted:  r.draw.Float64() < d.WeightedShare,
	}
}

// shrink makes a group light enough: it leaves out the heaviest shards, then
// narrows the others, then takes lighter tables, and at last the lightest operation
// with the lightest table alone. newDrawer checked that this last group is within
// the bounds.
func (r *drawer) shrink(g *dataset.Group) {
	d := r.domain
	for !d.Allows(r.tables, g) {
		heaviest, most := 0, math.Inf(-1)
		for i, m := range g.Members {
			if w := d.weight(&r.tables[m.Table], g.Operation, int(m.Dim)); w > most {
				heaviest, most = i, w
			}
		}
		m := &g.Members[heaviest]
		switch {
		case len(g.Members) > d.MinShards:
			g.Members = slices.Delete(g.Members, heaviest, heaviest+1)
		case m.Dim > problem.ColumnGranule:
			m.Dim = max(problem.ColumnGranule, m.Dim/2/problem.ColumnGranule*problem.ColumnGranule)
		case m.Table != r.counted[g.Operation.Batch][0]:
			m.Table = r.counted[g.Operation.Batch][0]
		default:
			weighted := g.Operation.Weighted
			g.Operation = d.lightest()
			g.Operation.Weighted = weighted
			for i := range g.Members {
				g.Members[i] = dataset.Member{Table: r.usable[0], Dim: problem.ColumnGranule}
			}
			return
		}
	}
}
