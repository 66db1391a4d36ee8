package bound

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// forms.go says which operator classes the constraints of a table allow:
//
//	constraint              columns in HBM   columns on hosts   blocks   host blocks   replicas
//	table_wise only         whole            whole
//	row_wise only                                               x
//	some devices            x                x                           whole hosts
//	no split                whole            whole                                     x
//	co-location             whole            whole
//	tiers without hbm                        x
//
// A table that may only be in a class is in no set of classes without it. So a set in which
// some table has no class left has no plans, and needs no work.

// forms are the operator classes that a table may have.
type forms struct {
	// hbm are the classes in device memory, and hosts says that slices of columns may lie in
	// the memory of hosts.
	hbm   set
	hosts bool
}

// formsOf returns the classes of table i, among those in the set in; slices may be in host
// memory if onHosts is true.
func formsOf(p *problem.Problem, i int, in set, onHosts bool) (f forms) {
	t := &p.Tables[i]
	c := &t.Constraint
	may := func(k problem.ShardingType) bool { return in.has(k.Class()) && t.Permits(k) }
	if may(problem.TableWise) {
		f.hosts = onHosts && (c.PermitsTier(problem.Host) || c.PermitsTier(problem.HostCached))
		f.hbm |= only(problem.ClassColumns)
	}
	if c.Colocation == "" {
		f.hbm |= jointForms(p, c, may)
	}
	if !c.PermitsTier(problem.HBM) {
		f.hbm = 0
	}
	return f
}

// jointForms returns the classes that devices hold together, of those that a table with the
// constraint may have by its sharding types and is not kept from by its devices and its cuts.
func jointForms(p *problem.Problem, c *problem.Constraint, may func(problem.ShardingType) bool) (classes set) {
	everywhere := len(c.Devices) == 0 || len(c.Devices) == p.Topology.Devices
	onHost := everywhere || wholeHost(p, slices.Sorted(slices.Values(c.Devices)))
	if may(problem.RowWise) && everywhere && !c.NoSplit {
		classes |= only(problem.ClassBlocks)
	}
	if may(problem.TableRowWise) && onHost && !c.NoSplit {
		classes |= only(problem.ClassHostBlocks)
	}
	if may(problem.DataParallel) && everywhere {
		classes |= only(problem.ClassReplicas)
	}
	return classes
}

// of returns the classes of the table if slices may lie on hosts or not.
func (f *forms) of(onHosts bool) set {
	if onHosts && f.hosts {
		return f.hbm | only(problem.ClassColumns)
	}
	return f.hbm
}

// narrowestSlice returns the width of the narrowest slice on a single device that table i may have,
// in columns.
func narrowestSlice(p *problem.Problem, i int, types []problem.ShardingType) int {
	if whole(p, i, types, problem.ColumnWise) {
		return p.Tables[i].Dim
	}
	return p.Tables[i].MinWidth()
}

// mayBe returns the classes of each of the tables if slices may lie on hosts or not.
func mayBe(tables []table, onHosts bool) []set {
	may := make([]set, len(tables))
	for i := range tables {
		may[i] = tables[i].forms.of(onHosts)
	}
	return may
}

// whole reports whether the sharding types, or those of the table's constraint, forbid to cut a
// table that may be of the type uncut, as problem.Permitted does for the types that cut.
func whole(p *problem.Problem, i int, types []problem.ShardingType, cut problem.ShardingType) bool {
	return !problem.Permitted(types, cut) || !p.Tables[i].Constraint.Permits(cut)
}

// possible reports whether each table has a class in the set, and each class of the set a table.
func possible(may []set, used set) bool {
	var all set
	for _, m := range may {
		if m&used == 0 {
			return false
		}
		all |= m
	}
	return used&^all == 0
}
