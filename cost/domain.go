package cost

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// unmeasured returns a sentence with the number of tables of a placement whose
// estimates do not come from measured samples.
func unmeasured(p *problem.Problem, shards [][]problem.Shard) []string {
	tables := map[int]bool{}
	for _, held := range shards {
		for _, s := range held {
			if form := p.Form(s); problem.ClassOf(form) != problem.ClassColumns || form.Blocks > 0 {
				tables[s.Table] = true
			}
		}
	}
	if len(tables) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d tables are cut by rows, replicated or in host memory: their exchanges and host links are SIMULATED, not measured", len(tables))}
}

// linked returns the doubts about links that are not those of the samples: the closed form
// takes the stated network and NVLink domain, and no sample has judged it there. A network that no
// exchange takes has no effect here; TorchRec's formulas read it even on one host.
func linked(m *Model, p *problem.Problem) (doubts []string) {
	t := &p.Topology
	if whole := t.Whole(); t.NetworkBandwidth > 0 && whole.LinkDomains() == 1 {
		where := "on one host"
		if whole.Hosts() > 1 {
			where = "in one NVLink domain"
		}
		doubts = append(doubts, fmt.Sprintf("the network bandwidth of %v has no effect: all %d devices are %s", t.NetworkBandwidth, whole.Devices, where))
	}
	if own := m.hardware.NICGBps; t.NetworkBandwidth > 0 && t.NetworkBandwidth.GBps() != own && t.LinkDomains() > 1 {
		doubts = append(doubts, fmt.Sprintf("the cost model's samples have a network of %g GB/s a device, not of %v: exchanges between hosts are scaled by the ratio, take their times with care", own, t.NetworkBandwidth))
	}
	if t.LinkDomain() > t.PerHost() {
		doubts = append(doubts, fmt.Sprintf("the cost model's samples have no NVLink domain of several hosts: the exchanges inside a domain of %d devices are estimated as those of one host, take their times with care", t.LinkDomain()))
	}
	return doubts
}

// inSteps returns the doubt about a hierarchical exchange under a model of measured exchanges.
func inSteps(m *Model, p *problem.Problem) []string {
	if !p.Hierarchy.On() || simulatedExchanges(m) {
		return nil
	}
	return []string{"the exchange that reduces vectors inside hosts first is a closed form over bandwidths that were fitted to all-to-alls: the cost model's samples have no such exchange, take its times with care"}
}

// vectors returns the doubts about tables that give other vectors than the samples, if these have one
// pooled vector for each feature: about tables with bags other than 1, and tables of pooling none. The
// samples of the shipped models have such tables; those that are collected have none.
func vectors(m *Model, p *problem.Problem) (doubts []string) {
	if !m.manifest.Domain.OneBag && m.manifest.Source == plan.Simulated {
		return nil
	}
	bags, sequences := 0, 0
	for i := range p.Tables {
		switch t := &p.Tables[i]; {
		case t.Pooling == problem.PoolingNone:
			sequences++
		case !t.OneBag():
			bags++
		}
	}
	for _, kind := range []struct {
		tables int
		have   string
	}{{bags, "bags other than 1"}, {sequences, "pooling none"}} {
		if kind.tables > 0 {
			doubts = append(doubts, fmt.Sprintf("%s %s, and the cost model's samples have one pooled vector for each feature: take the times of such tables with care", have(kind.tables), kind.have))
		}
	}
	return doubts
}

// have returns the number of tables and the verb that goes with it.
func have(tables int) string {
	if tables == 1 {
		return "1 table has"
	}
	return fmt.Sprintf("%d tables have", tables)
}

// outside returns sentences that say how a plan lies outside the domain of the model.
func outside(m *Model, p *problem.Problem, shards [][]problem.Shard) []string {
	u := unseen{domain: m.manifest.Domain}
	if !u.domain.Stated() {
		return nil
	}
	u.cluster(p)
	u.shards(shards)
	u.tables(p)
	if !p.Hierarchy.On() {
		u.exchanges(&m.comm, p, shards)
	}
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

// exchanges compares the bytes that the busiest device sends or receives in an exchange.
func (u *unseen) exchanges(m *commModel, p *problem.Problem, shards [][]problem.Shard) {
	n := networkOf(m.constants, clusterOf(p))
	most, bytes := bytesOf(m.batches.most, mostColumns), busiest(&n, p, shards)
	if n.Devices > 1 && bytes > most {
		u.add("an exchange in which a device sends %v, only up to %v", unit.Bytes(bytes), unit.Bytes(most))
	}
}

// busiest returns the most bytes that a device sends or receives in an exchange of the
// placement, as an all-to-all would send them. Exchanges other than all-to-alls count
// between hosts only, where the net corrects them.
func busiest(n *simulate.Network, p *problem.Problem, shards [][]problem.Shard) float64 {
	own, byHost := make([]int, n.Devices), make([]int, n.Hosts())
	blocks, weights := 0, 0.0
	for d, held := range shards {
		for _, s := range held {
			switch columns := p.DimSum(s); problem.ClassOf(p.Form(s)) {
			case problem.ClassBlocks:
				if p.Tables[s.Table].Pooling == problem.PoolingNone {
					own[d] += columns
				} else if d == 0 {
					blocks += columns
				}
			case problem.ClassHostBlocks:
				if d%n.PerHost == 0 {
					byHost[d/n.PerHost] += columns
				}
			case problem.ClassReplicas:
				if d == 0 {
					weights += float64(p.Tables[s.Table].Rows) * float64(s.Dim())
				}
			default:
				own[d] += columns
			}
		}
	}
	sum := func(columns []int) (all int) {
		for _, c := range columns {
			all += c
		}
		return all
	}
	most := transfer(n, CommLoad{Max: slices.Max(own), Min: slices.Min(own), Sum: sum(own)})
	if n.Domains() == 1 {
		return most
	}
	_, reduce := n.AllReduce(weights)
	between := n.BetweenHosts(float64(slices.Max(byHost)), float64(slices.Min(byHost)), float64(sum(byHost)))
	return max(most, n.Ring(float64(blocks)).Bytes/n.Away(), between.Bytes/n.Away(), reduce.Bytes/n.Away())
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
