package simulate

import (
	"cmp"
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
)

// checkPlacement returns the first shard of a placement that is no part of the problem. plan.Validate says
// what else is wrong with a placement.
func checkPlacement(p *problem.Problem, shards [][]problem.Shard) error {
	if n := p.Topology.Devices; len(shards) != n {
		return fmt.Errorf("the cost of the placement cannot be estimated: the placement has %d devices, the cluster %d", len(shards), n)
	}
	for r := range shards {
		for i := range shards[r] {
			if message := fault(p, &shards[r][i]); message != "" {
				return fmt.Errorf("the cost of the placement cannot be estimated: device %d: %s", r, message)
			}
		}
	}
	return nil
}

// fault says why a shard is no part of the problem; "" if it is.
func fault(p *problem.Problem, s *problem.Shard) string {
	if s.Table < 0 || s.Table >= len(p.Tables) {
		return fmt.Sprintf("table #%d does not exist: the problem has %d", s.Table, len(p.Tables))
	}
	t := &p.Tables[s.Table]
	if s.Operator >= problem.Operators {
		return fmt.Sprintf("table %q: operator %d does not exist: operators are numbered from 0 to %d", t.Name, s.Operator, problem.Operators-1)
	}
	if s.Columns.Start < 0 || s.Columns.Start >= s.Columns.End || s.Columns.End > int64(t.Dim) {
		return fmt.Sprintf("table %q: columns %d to %d are not a slice of its %d columns", t.Name, s.Columns.Start, s.Columns.End, t.Dim)
	}
	if s.Rows.Start < 0 || s.Rows.Start >= s.Rows.End || s.Rows.End > t.Rows {
		return fmt.Sprintf("table %q: rows %d to %d are not a block of its %d rows", t.Name, s.Rows.Start, s.Rows.End, t.Rows)
	}
	return tierFault(t, s)
}

// tierFault says why a shard cannot lie in its memory; "" if it can.
func tierFault(t *problem.Table, s *problem.Shard) string {
	if s.Tier.OnHost() && (s.ShardingType.Joint() || s.Rows.Len() < t.Rows) {
		return fmt.Sprintf("table %q: %s shards in tier %s: only table_wise and column_wise shards may be in a host's memory", t.Name, cmp.Or(s.ShardingType, problem.RowWise), s.Tier)
	}
	if s.Tier == problem.HostCached && !(s.Cache > 0 && s.Cache < 1) {
		return fmt.Sprintf("table %q: a cache of %v of its rows: give a share above 0 and below 1, or tier host or hbm", t.Name, s.Cache)
	}
	return ""
}
