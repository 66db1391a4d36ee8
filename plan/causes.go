package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// causes.go finds out why the sums that a plan states for its devices differ from those
// counted for its problem. A plan states precision and optimizer of its tables, but not their features
// and lookups. The sums depend on them: if one table has another number of features now, the dim sums
// of exactly the devices that hold the table differ, by the widths of its slices.
//
//	device                 0     1     2
//	the plan states       96    64    32
//	counted               64    64     0    table "item" has a slice of 32 columns on
//	difference            32     0    32    devices 0 and 2: one feature less now
//
// Each property is tried by itself. A change of one table is a cause if it explains the sums of every
// device. Sums without a cause are reported device by device. The time is that of a few tallies, and
// O(shards) for each property.

// causes reports what has changed since the plan was made, in front of all other violations,
// and returns the devices as they would be counted without the changes.
func (v *validator) causes(counted []load) []load {
	if len(counted) != len(v.pl.Devices) || len(counted)*len(v.pl.Tables) > mostShares {
		return counted
	}
	before := *v.p
	before.Tables = slices.Clone(v.p.Tables)
	c := &changes{v: v, before: &before, counted: counted}
	c.formats()
	c.look(property{
		sum:    func(d *Device) int64 { return int64(d.DimSum) },
		counts: func(l *load, _ problem.Phase) int64 { return int64(l.DimSum) },
		share:  func(p *problem.Problem, s problem.Shard, _ problem.Phase) int64 { return int64(p.DimSum(s)) },
		tries:  c.features,
	})
	c.look(property{
		sum:    func(d *Device) int64 { return int64(d.Memory.Indices) },
		counts: func(l *load, f problem.Phase) int64 { return int64(l.step[f].Indices) },
		share: func(p *problem.Problem, s problem.Shard, f problem.Phase) int64 {
			return int64(p.ShardMemory(s)[f].Indices)
		},
		tries: c.lookups,
	})
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
	counted []load
	found   []Violation
}

// property is something of tables on which a sum depends.
type property struct {
	// sum is the sum that a plan states for a device, and counts the one counted, in the phase that the plan states.
	sum    func(d *Device) int64
	counts func(l *load, f problem.Phase) int64
	share  func(p *problem.Problem, s problem.Shard, f problem.Phase) int64
	// tries returns the table as it may have been, and the text that reports the change; "" if nothing
	// explains the difference. It gets the difference of the sums and the share of one shard on the
	// first device that differs and holds the table, and the phase that the plan states for it.
	tries func(t *problem.Table, difference, share int64, f problem.Phase) (was problem.Table, what string)
}

// formats finds the tables whose precision or optimizer differs from the plan's, if sums differ.
func (c *changes) formats() {
	if slices.EqualFunc(c.counted, c.v.pl.Devices, func(a load, b Device) bool { return a.step[b.Phase] == b.Memory }) {
		return
	}
	all := map[string][]string{}
	for i := range c.v.pl.Tables {
		has, was := &c.v.pl.Tables[i], &c.before.Tables[c.v.index[i]]
		if was.Precision != has.Precision {
			what := fmt.Sprintf("weights in %v, the plan has %v", was.Precision, has.Precision)
			all[what] = append(all[what], has.Name)
		}
		if was.Optimizer != has.Optimizer {
			what := fmt.Sprintf("optimizer %v, the plan has %v", was.Optimizer, has.Optimizer)
			all[what] = append(all[what], has.Name)
		}
		was.Precision, was.Optimizer = has.Precision, has.Optimizer
	}
	for _, what := range slices.Sorted(maps.Keys(all)) {
		if tables := all[what]; len(tables) == 1 {
			c.explained(tables[0], what)
		} else {
			c.explained("", words.Plural(len(tables), "table")+" ("+words.List(tables, mostNames)+"): "+what)
		}
	}
}

// look looks for the one table that explains the differences of a sum on all devices.
func (c *changes) look(p property) {
	differences := make([]int64, len(c.counted))
	for d := range differences {
		has := &c.v.pl.Devices[d]
		differences[d] = p.sum(has) - p.counts(&c.counted[d], has.Phase)
	}
	first := slices.IndexFunc(differences, func(d int64) bool { return d != 0 })
	if first < 0 {
		return
	}
	for i := range c.v.pl.Tables {
		at := c.v.index[i]
		is, now := c.before.Tables[at], c.shares(i, p)
		was, what := p.tries(&is, differences[first], now[first], c.v.pl.Devices[first].Phase)
		if what == "" {
			continue
		}
		c.before.Tables[at] = was
		if explains(differences, now, c.shares(i, p)) {
			c.explained(c.v.pl.Tables[i].Name, what)
			return
		}
		c.before.Tables[at] = is
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
		shard, first, last := s.of(c.v.index[i], t.ShardingType, blocks), s.Device, s.Device
		if s.Device == replicated {
			first, last = 0, len(list)-1
		}
		for d := first; d <= last; d++ {
			list[d] += p.share(c.before, shard, c.v.pl.Devices[d].Phase)
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
func (c *changes) features(t *problem.Table, difference, share int64, _ problem.Phase) (was problem.Table, what string) {
	has := int64(len(t.Features))
	if !t.OneBag() || share == 0 || has*difference%share != 0 {
		return was, ""
	}
	want := has + has*difference/share
	if want < 1 || want > maxFeatures {
		return was, ""
	}
	was = *t
	was.Features = make([]problem.Feature, want)
	was.Features[0].PoolingFactor = t.PoolingFactor()
	return was, fmt.Sprintf("%s, the plan has %d", words.Plural(int(has), "feature"), want)
}

// maxFeatures is the most features that a table is supposed to have had.
const maxFeatures = 1 << 12

// lookups tries the number of lookups with which the first difference would be right. Each
// lookup takes the same number of bytes in a shard's indices.
func (c *changes) lookups(t *problem.Table, difference, share int64, f problem.Phase) (was problem.Table, what string) {
	if !t.OneBag() || share == 0 {
		return was, ""
	}
	// The indices of one shard with the table's lookups, and with one sample's more.
	whole := problem.Shard{Rows: problem.Range{End: t.Rows}, Columns: problem.Range{End: int64(t.Dim)}}
	alone := *c.before
	alone.Tables = []problem.Table{*t}
	now := alone.ShardMemory(whole)[f].Indices
	alone.Tables[0].Features = []problem.Feature{{PoolingFactor: t.PoolingFactor() + 1}}
	alone.Tables[0].Features = append(alone.Tables[0].Features, make([]problem.Feature, len(t.Features)-1)...)
	step := alone.ShardMemory(whole)[f].Indices - now
	shards := share / int64(now)
	if step <= 0 || shards < 1 {
		return was, ""
	}
	pooling := t.PoolingFactor() + float64(difference)/float64(shards)/float64(step)
	if pooling < 0 {
		return was, ""
	}
	was = *t
	was.Features = make([]problem.Feature, len(t.Features))
	was.Features[0].PoolingFactor = pooling - 0.25/float64(c.before.Batch) // lookups are rounded up
	return was, fmt.Sprintf("%.4g lookups a sample, the plan has %.4g", t.PoolingFactor(), pooling)
}
