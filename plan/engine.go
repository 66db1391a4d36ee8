package plan

import (
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
)

// engine.go checks a plan against the rules of an engine (problem.EngineRules).

// CheckEngine returns the violations of an engine's rules: the first one of each table,
// and the devices without a shard.
func (pl *Plan) CheckEngine(rules problem.EngineRules) []Violation {
	var found []Violation
	for i := range pl.Tables {
		if v, broken := breaks(&pl.Tables[i], &pl.Cluster, &rules); broken {
			found = append(found, v)
		}
	}
	if rules.OneWidth {
		found = append(found, severalWidths(pl, &rules)...)
	}
	if rules.NoIdle {
		if devices := idle(pl); len(devices) > 0 {
			found = append(found, Violation{RuleEngine, "", -1, -1, fmt.Sprintf("%d of %d devices hold no table: %s; %s needs a part of a table on every device",
				len(devices), pl.Cluster.Devices, words.List(devices, mostNames), rules.Name)})
		}
	}
	return found
}

// breaks returns the first violation of a rule by the table; broken is false if there is
// none.
func breaks(t *Table, c *Cluster, rules *problem.EngineRules) (v Violation, broken bool) {
	violation := func(k int, format string, args ...any) (Violation, bool) {
		return Violation{RuleEngine, t.Name, k, -1, fmt.Sprintf(format, args...)}, true
	}
	type place struct {
		device int
		rows   problem.Range
	}
	if message := breaksWhole(t, c, rules); message != "" {
		return violation(-1, "%s", message)
	}
	taken := map[place]int{}
	for k, s := range t.Shards {
		first, at := t.Shards[0], place{s.Device, s.Rows}
		other, twice := taken[at]
		taken[at] = k
		switch {
		case rules.OnlyHBM && s.Tier.OnHost():
			return violation(k, "it lies in %s memory: %s keeps tables in the memory of the devices", s.Tier, rules.Name)
		case rules.OneTier && s.Tier != first.Tier:
			return violation(k, "it lies in %s memory and shard 0 in %s: %s keeps all shards of a table in one memory", s.Tier, first.Tier, rules.Name)
		case rules.OneTier && s.Cache != first.Cache:
			return violation(k, "of its rows %v are cached, and of shard 0's %v: %s has one share for all shards of a table", s.Cache, first.Cache, rules.Name)
		case rules.EqualSlices && s.Columns.Len() != first.Columns.Len():
			return violation(k, "it has %d columns and shard 0 has %d: %s cuts a table into slices of the same width", s.Columns.Len(), first.Columns.Len(), rules.Name)
		case rules.OneSlice && twice:
			return violation(k, "shard %d of the table is on device %d, too: %s puts at most one slice of a table on a device", other, s.Device, rules.Name)
		}
	}
	return Violation{}, false
}

// severalWidths returns a violation for each table of sequences whose slices are not as wide as
// those of the first table of its module that is cut by columns.
func severalWidths(pl *Plan, rules *problem.EngineRules) (found []Violation) {
	first := map[string]*Table{}
	for i := range pl.Tables {
		t := &pl.Tables[i]
		if !t.Sequences() || t.ShardingType != ColumnWise {
			continue
		}
		other, ok := first[t.Module]
		if !ok {
			first[t.Module] = t
			continue
		}
		if here, there := t.Shards[0].Columns.Len(), other.Shards[0].Columns.Len(); here != there {
			found = append(found, Violation{RuleEngine, t.Name, 0, -1, fmt.Sprintf("it has %d columns and the slices of %q have %d: %s runs slices of one width in a module of sequences", here, other.Name, there, rules.Name)})
		}
	}
	return found
}

// breaksWhole says which rule the table breaks as a whole; "" if it breaks none.
func breaksWhole(t *Table, c *Cluster, rules *problem.EngineRules) string {
	switch {
	case rules.SequenceDedup && t.IndexDedup && !t.Sequences():
		return fmt.Sprintf("its indices are deduplicated, and it is pooled: %s deduplicates those of sequences only", rules.Name)
	case rules.Engine != "" && !rules.AnyDevices && t.Blocks(c) > 0:
		return fmt.Sprintf("its rows are cut over devices %s: %s cuts rows over all devices of the cluster or of a host", numbers(Holders(t.Shards)), rules.Name)
	case rules.UncachedReplicas && c.ReplicaCount() > 1 && slices.ContainsFunc(t.Shards, func(s Shard) bool { return s.Tier == HostCached }):
		return fmt.Sprintf("it lies in %s memory, and there are %d sharding groups: %s averages the rows in host memory without those in caches", HostCached, c.ReplicaCount(), rules.Name)
	case rules.Undivided && t.Operator != 0:
		return fmt.Sprintf("it is in operator %d: %s does not let a plan divide its operators", t.Operator, rules.Name)
	}
	return ""
}

// idle returns the numbers of the devices of a plan that hold no shard.
func idle(pl *Plan) []string {
	held := make([]bool, pl.Cluster.Devices)
	for i := range pl.Tables {
		for _, s := range pl.Tables[i].Shards {
			if s.Device == replicated {
				return nil
			}
			if s.Device < len(held) {
				held[s.Device] = true
			}
		}
	}
	var devices []string
	for d, busy := range held {
		if !busy {
			devices = append(devices, fmt.Sprint(d))
		}
	}
	return devices
}
