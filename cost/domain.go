package cost

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/problem"
)

// unmeasured returns a sentence with the number of tables of a placement whose
// estimates do not come from measured samples.
func unmeasured(p *problem.Problem, shards [][]problem.Shard) []string {
	tables := map[int]bool{}
	for _, held := range shards {
		for _, s := range held {
			if p.Form(s) != (problem.Form{}) {
				tables[s.Table] = true
			}
		}
	}
	if len(tables) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d tables are cut by rows, replicated or in host memory: their exchanges and host links are SIMULATED, not measured", len(tables))}
}

// outside returns sentences that say how a plan lies outside the domain.
func outside(d modelfile.Domain, p *problem.Problem, shards [][]problem.Shard) []string {
	if !d.Stated() {
		return nil
	}
	u := unseen{domain: d}
	u.cluster(p)
	u.shards(shards)
	u.tables(p)
	return u.all
}

// unseen collects what lies outside the domain of a model.
type unseen struct {
	domain modelfile.Domain
	all    []string
}

func (u *unseen) add(format string, args ...any) {
	u.all = append(u.all, "the cost model has not seen "+fmt.Sprintf(format, args...)+": take its times with care")
}

// cluster compares the batch and the devices.
func (u *unseen) cluster(p *problem.Problem) {
	d := u.domain
	if p.Batch < d.MinBatch || p.Batch > d.MaxBatch {
		u.add("a batch of %d, only %d to %d", p.Batch, d.MinBatch, d.MaxBatch)
	}
	switch n := p.Topology.Devices; {
	case n > d.MaxDevices:
		u.add("%d devices, only up to %d", n, d.MaxDevices)
	case n > 1 && n < d.MinDevices:
		u.add("%d devices, only %d and more", n, d.MinDevices)
	}
}

// shards compares the shards of each device, and their columns.
func (u *unseen) shards(shards [][]problem.Shard) {
	most, widest, narrowest := 0, 0, math.MaxInt
	for _, held := range shards {
		most = max(most, len(held))
		for _, s := range held {
			widest, narrowest = max(widest, s.Dim()), min(narrowest, s.Dim())
		}
	}
	d := u.domain
	if most > d.JudgedShards {
		u.add("%d shards on a device, only up to %d", most, d.JudgedShards)
	}
	if widest > d.MaxDim {
		u.add("shards of %d columns, only up to %d", widest, d.MaxDim)
	}
	if narrowest < d.MinDim {
		u.add("shards of %d columns, only of %d and more", narrowest, d.MinDim)
	}
}

// tables compares the tables' rows, pooling factors, optimizers and precisions.
func (u *unseen) tables(p *problem.Problem) {
	var rows int64
	var pooling float64
	for i := range p.Tables {
		t := &p.Tables[i]
		rows, pooling = max(rows, t.Rows), max(pooling, t.PoolingFactor())
	}
	d := u.domain
	if rows > d.MaxRows {
		u.add("a table of %d rows, only up to %d", rows, d.MaxRows)
	}
	if pooling > d.MaxPoolingFactor {
		u.add("a pooling factor of %.4g, only up to %.4g", pooling, d.MaxPoolingFactor)
	}
	u.names(p, "the optimizer", d.Optimizers, func(t *problem.Table) string { return t.Optimizer.String() })
	u.names(p, "weights in", d.Precisions, func(t *problem.Table) string { return t.Precision.String() })
	if d.Unweighted && slices.ContainsFunc(p.Tables, func(t problem.Table) bool { return t.Weighted }) {
		u.add("weighted lookups, only unweighted ones")
	}
}

// names compares one name of each table, such as its optimizer, with the names that
// the samples have. Each name is added once, in the order of the tables; none is if
// the domain does not state the samples' names.
func (u *unseen) names(p *problem.Problem, what string, seen []string, nameOf func(*problem.Table) string) {
	if len(seen) == 0 {
		return
	}
	var added []string
	for i := range p.Tables {
		if name := nameOf(&p.Tables[i]); !slices.Contains(seen, name) && !slices.Contains(added, name) {
			added = append(added, name)
			u.add("%s %s, only %s", what, name, strings.Join(seen, ", "))
		}
	}
}
