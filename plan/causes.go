package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// causes.go finds out why the sums that a plan states for its devices differ from those
// counted for its problem. A plan does not state features, lookups, optimizers and precisions of its tables,
// but the sums depend on them: if one table has another number of features now, the dim sums
// of exactly the devices that hold the table differ, by the widths of its slices.
//
//	device                 0     1     2
//	the plan states       96    64    32
//	counted               64    64     0    table "item" has a slice of 32 columns on
//	difference            32     0    32    devices 0 and 2: one feature less now
//
// Each property is tried by itself. A change is a cause if it explains the sums of every
// device: a change of one table, or the same change of all tables. Sums without a cause are
// reported device by device. The time is that of a few
// tallies, and O(shards) for each property and value.

// causes reports what has changed since the plan was made, in front of all other violations,
// and returns the devices as they would be counted without the changes.
func (v *validator) causes(counted []Device) []Device {
	if len(counted) != len(v.pl.Devices) || len(counted)*len(v.pl.Tables) > mostShares {
		return counted
	}
	before := *v.p
	before.Tables = slices.Clone(v.p.Tables)
	c := &changes{v: v, before: &before, counted: counted}
	c.look(property{
		sum:   func(d *Device) int64 { return int64(d.DimSum) },
		share: func(p *problem.Problem, s problem.Shard) int64 { return int64(p.DimSum(s)) },
		tries: c.features,
	})
	weights := func(m problem.Memory) int64 { return int64(m.Weights + m.Host) }
	c.look(memoryLine(weights, precisions))
	c.look(memoryLine(func(m problem.Memory) int64 { return int64(m.Optimizer + m.Host) }, optimizers))
	c.look(memoryLine(func(m problem.Memory) int64 { return int64(m.Indices) }, c.lookups))
	v.found = slices.Insert(v.found, 0, c.found...)
	return c.counted
}

// mostShares bounds the tables times the devices that causes looks at.
const mostShares = 1 << 25

// changes looks for changes of tables.
type changes struct {
	v *validator
	// before is the problem without the changes found so far, and counted its devices.
	before  *problem.Problem
	counted []Device
	found   []Violation
}

// property is something of tables on which a sum depends.
type property struct {
	sum   func(d *Device) int64
	share func(p *problem.Problem, s problem.Shard) int64
	// tries returns the other values that a table may have had. It gets the difference of the
	// sums and the share of one shard on the first device that differs and holds the table.
	tries func(t *problem.Table, difference, share int64) []try
}

// try is a table with another value of a property, and the text that reports this change.
type try struct {
	table problem.Table
	what  string
}

// memoryLine is a property on which lines of memory depend.
func memoryLine(of func(m problem.Memory) int64, tries func(t *problem.Table, difference, share int64) []try) property {
	return property{
		sum:   func(d *Device) int64 { return of(d.Memory) },
		share: func(p *problem.Problem, s problem.Shard) int64 { return of(p.ShardMemory(s)) },
		tries: tries,
	}
}

// look looks for the one table, or else for the one value of all tables, that explains the
// differences of a sum on all devices.
func (c *changes) look(p property) {
	differences := make([]int64, len(c.counted))
	for d := range differences {
		differences[d] = p.sum(&c.v.pl.Devices[d]) - p.sum(&c.counted[d])
	}
	first := slices.IndexFunc(differences, func(d int64) bool { return d != 0 })
	if first < 0 {
		return
	}
	all := map[string][]problem.Table{}
	for i := range c.v.pl.Tables {
		at := c.v.index[i]
		was := c.before.Tables[at]
		now := c.shares(i, p)
		for _, other := range p.tries(&was, differences[first], now[first]) {
			c.before.Tables[at] = other.table
			then := c.shares(i, p)
			if explains(differences, now, then) {
				c.explained(c.v.pl.Tables[i].Name, other.what)
				return
			}
			all[other.what] = append(all[other.what], other.table)
			c.before.Tables[at] = was
		}
	}
	c.everywhere(p, all)
}

// everywhere looks for a value that all tables had.
func (c *changes) everywhere(p property, all map[string][]problem.Table) {
	tables := c.before.Tables
	for _, what := range slices.Sorted(maps.Keys(all)) {
		others := all[what]
		if len(others) != len(tables) || len(others) < 2 {
			continue
		}
		c.before.Tables = slices.Clone(tables)
		for i := range others {
			c.before.Tables[c.v.index[i]] = others[i]
		}
		counted := tally(c.v.pl, c.before, c.v.index, len(c.counted))
		same := true
		for d := range counted {
			same = same && p.sum(&counted[d]) == p.sum(&c.v.pl.Devices[d])
		}
		if same {
			c.explained("", "all tables: "+what)
			return
		}
		c.before.Tables = tables
	}
}

// explained reports a change, and counts the devices without it.
func (c *changes) explained(table, what string) {
	c.found = append(c.found, Violation{RuleTables, table, -1, -1, what})
	c.counted = tally(c.v.pl, c.before, c.v.index, len(c.counted))
}

// shares returns what the shards of table i add to the sum of each device.
func (c *changes) shares(i int, p property) []int64 {
	t := &c.v.pl.Tables[i]
	list, blocks := make([]int64, len(c.counted)), t.Blocks(&c.v.pl.Cluster)
	for _, s := range t.Shards {
		if !t.inside(s) || s.Device >= len(list) {
			continue
		}
		n := p.share(c.before, s.of(c.v.index[i], t.ShardingType, blocks))
		if s.Device != replicated {
			list[s.Device] += n
			continue
		}
		for d := range list {
			list[d] += n
		}
	}
	return list
}

// explains reports whether the differences are those between the shares then and now.
func explains(differences, now, then []int64) bool {
	for d, difference := range differences {
		if then[d]-now[d] != difference {
			return false
		}
	}
	return true
}

// features tries the number of features with which the first difference would be right. The
// features that a plan had beyond those of the table have no lookups, which lookups finds.
func (c *changes) features(t *problem.Table, difference, share int64) []try {
	has := int64(len(t.Features))
	if !t.OneBag() || share == 0 || has*difference%share != 0 {
		return nil
	}
	want := has + has*difference/share
	if want < 1 || want > maxFeatures {
		return nil
	}
	other := *t
	other.Features = make([]problem.Feature, want)
	other.Features[0].PoolingFactor = t.PoolingFactor()
	return []try{{other, fmt.Sprintf("%s, the plan has %d", words.Plural(int(has), "feature"), want)}}
}

// maxFeatures is the most features that a table is supposed to have had.
const maxFeatures = 1 << 12

// precisions tries the other precisions.
func precisions(t *problem.Table, _, _ int64) (all []try) {
	for _, name := range problem.Precisions() {
		other := *t
		var err error
		if other.Precision, err = problem.ParsePrecision(name); err == nil && other.Precision.Bytes() != t.Precision.Bytes() {
			all = append(all, try{other, fmt.Sprintf("weights of %d bytes, the plan has %d, as in %s", t.Precision.Bytes(), other.Precision.Bytes(), name)})
		}
	}
	return all
}

// optimizers tries the other optimizers.
func optimizers(t *problem.Table, _, _ int64) (all []try) {
	for _, name := range problem.Optimizers() {
		other := *t
		var err error
		if other.Optimizer, err = problem.ParseOptimizer(name); err == nil && other.Optimizer != t.Optimizer {
			all = append(all, try{other, fmt.Sprintf("optimizer %v, the plan has %s", t.Optimizer, name)})
		}
	}
	return all
}

// lookups tries the number of lookups with which the first difference would be right. Each
// lookup takes the same number of bytes in a shard's indices.
func (c *changes) lookups(t *problem.Table, difference, share int64) []try {
	if !t.OneBag() || share == 0 {
		return nil
	}
	// The indices of one shard with the table's lookups, and with one sample's more.
	whole := problem.Shard{Rows: problem.Range{End: t.Rows}, Columns: problem.Range{End: int64(t.Dim)}}
	alone := problem.Problem{Tables: []problem.Table{*t}, Batch: c.before.Batch, Topology: c.before.Topology}
	now := alone.ShardMemory(whole).Indices
	alone.Tables[0].Features = []problem.Feature{{PoolingFactor: t.PoolingFactor() + 1}}
	alone.Tables[0].Features = append(alone.Tables[0].Features, make([]problem.Feature, len(t.Features)-1)...)
	step := alone.ShardMemory(whole).Indices - now
	shards := share / int64(now)
	if step <= 0 || shards < 1 {
		return nil
	}
	pooling := t.PoolingFactor() + float64(difference)/float64(shards)/float64(step)
	if pooling < 0 {
		return nil
	}
	other := *t
	other.Features = make([]problem.Feature, len(t.Features))
	other.Features[0].PoolingFactor = pooling - 0.25/float64(c.before.Batch) // lookups are rounded up
	return []try{{other, fmt.Sprintf("%.4g lookups a sample, the plan has %.4g", t.PoolingFactor(), pooling)}}
}
