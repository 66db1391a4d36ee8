package cost

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/problem"
)

// unmeasured says how many tables of a placement have estimates without measured
// samples behind them.
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

// outside returns in which ways a plan lies outside the domain.
func outside(d modelfile.Domain, p *problem.Problem, shards [][]problem.Shard) []string {
	if !d.Stated() {
		return nil
	}
	var all []string
	add := func(format string, args ...any) {
		all = append(all, "the cost model has not seen "+fmt.Sprintf(format, args...)+": take its times with care")
	}
	if p.Batch < d.MinBatch || p.Batch > d.MaxBatch {
		add("a batch of %d, only %d to %d", p.Batch, d.MinBatch, d.MaxBatch)
	}
	switch n := p.Topology.Devices; {
	case n > d.MaxDevices:
		add("%d devices, only up to %d", n, d.MaxDevices)
	case n > 1 && n < d.MinDevices:
		add("%d devices, only %d and more", n, d.MinDevices)
	}
	most, widest, narrowest := 0, 0, math.MaxInt
	for _, held := range shards {
		most = max(most, len(held))
		for _, s := range held {
			widest, narrowest = max(widest, s.Dim()), min(narrowest, s.Dim())
		}
	}
	if most > d.JudgedShards {
		add("%d shards on a device, only up to %d", most, d.JudgedShards)
	}
	if widest > d.MaxDim {
		add("shards of %d columns, only up to %d", widest, d.MaxDim)
	}
	if narrowest < d.MinDim {
		add("shards of %d columns, only of %d and more", narrowest, d.MinDim)
	}
	var rows int64
	var pooling float64
	for i := range p.Tables {
		t := &p.Tables[i]
		rows, pooling = max(rows, t.Rows), max(pooling, t.PoolingFactor())
	}
	if rows > d.MaxRows {
		add("a table of %d rows, only up to %d", rows, d.MaxRows)
	}
	if pooling > d.MaxPoolingFactor {
		add("a pooling factor of %.4g, only up to %.4g", pooling, d.MaxPoolingFactor)
	}
	for _, kind := range []struct {
		what  string
		seen  []string
		asked func(t *problem.Table) string
	}{
		{"the optimizer", d.Optimizers, func(t *problem.Table) string { return t.Optimizer.String() }},
		{"weights in", d.Precisions, func(t *problem.Table) string { return t.Precision.String() }},
	} {
		for _, name := range unseen(p, kind.seen, kind.asked) {
			add("%s %s, only %s", kind.what, name, strings.Join(kind.seen, ", "))
		}
	}
	if d.Unweighted && slices.ContainsFunc(p.Tables, func(t problem.Table) bool { return t.Weighted }) {
		add("weighted lookups, only unweighted ones")
	}
	return all
}

// unseen returns, each once and in the order of the tables, what tables ask for
// and the samples do not have; nothing where it is not known what they have.
func unseen(p *problem.Problem, seen []string, asked func(*problem.Table) string) []string {
	if len(seen) == 0 {
		return nil
	}
	var names []string
	for i := range p.Tables {
		if name := asked(&p.Tables[i]); !slices.Contains(seen, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
