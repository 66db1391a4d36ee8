// Package bound computes a lower bound on the simulated cost of every valid plan of a
// problem. A plan whose simulated cost is 3 % above the bound is within 3 % of the cost
// of the best plan.
//
// The bound is on what package simulate computes (docs/SIMULATED.md) and says nothing
// about real devices. Simulated is the entry point, for plans with the sharding types
// and memories of an Allowed. Gap compares a cost with the bound.
//
// # Why it holds
//
// Each step drops something that can only make a plan cheaper. This section is about
// plans that place tables whole or cut by columns.
//
// The cost splits. A device that is ready early waits, so a plan costs the longest
// compute, plus both all-to-alls, which are equally long for all devices, plus the
// longest packing.
//
// All-to-alls (exchange.go). They take longer the more pooled columns X the device with
// the most columns has. X is at least the mean, rounded up to a multiple of what all
// slices have in common. Then u, the longest compute less the fixed time of one operator,
// is bounded from below for ranges of X.
//
// Operators. A device runs an operator with 8, 16 or 32 lanes, set by its widest slice,
// and with a number of sort passes, set by its rows. Both together are the mode of the
// device (relax.go). In a mode, the time of the operator without the fixed part is at
// least
//
//	norm of three sums + norm of three sums + a sum
//
// over its slices (table.go). All sums are those of the simulated device, with its
// rounding up, its repeated reading of indices by each slice and its state traffic, but
// for two. First, the cache holds X rows of a table for min(T_sim, T) tables at a time,
// which is at least one table; more room never makes more misses (cache.go), so each table is
// given the whole cache. Second, the walk through the most used row is left out of the maximum
// that it is part of. The backward of a weighted operator repeats 1.1 times the norm of
// the forward.
//
// Shares. A norm is at least any tangent of it, which is a sum of prices of its slices.
// If no device takes longer than u, then each slice takes a share of its device's time,
// of the rows that are sorted in its passes, of X columns, and of its memory. Each of
// these shares adds up to at most 1 on any device, and so does any weighted mean of the
// four, with weights that depend on the mode. An empty device has shares 0.
//
// Refutation. Give a device in mode k the worth mu_k. Every table is cut and spread over
// modes in some way. So all slices together are worth at least the sum over the tables
// of their cheapest ways, and at most what all devices together are worth. Where that is
// a contradiction, u is too low. The cheapest way is found exactly, over all cuts into
// granules of columns. No way has a slice that takes longer than u by itself.
//
// Parts (tree.go). Placements are divided by X and by the number of devices in each
// mode. Each part is bounded by itself, and the least of these bounds holds for all
// placements.
//
// Prices, weights and worths come from an optimisation that stops early (node.go). They
// cannot be wrong, only more or less sharp: the argument holds for all values.
//
// What is left out: constraints, except a table's least width; the input exchange; and
// in problems with several operators, all shares but the share of time, and all fixed
// times but one. 1e-9 of the bound is taken off for rounding.
//
// # Other sharding types and memories
//
// A plan uses some set of operator classes (problem.OperatorClass): slices on single
// devices, blocks of rows on all devices, blocks on the devices of hosts, replicas. Each
// set is bounded by itself (classes.go), and the least of these bounds holds for all
// plans. A set has the fixed times of the exchanges and operators of all its classes.
// Beyond the steps above:
//
// What all devices hold takes each of them the same time, or more. A block is counted
// as the last one, which may have fewer rows. The operators of a class are counted as
// one operator, each table with the fewest lanes and the fewest sort passes that it may
// have; the norm of the sums is at least a tangent of it, a sum over tables.
//
// An exchange takes longer the more columns, or weights, it has. Where an exchange is
// the longest of several hosts' or devices', it takes at least the time of the mean, or,
// for the all-to-alls, the time of any device's own columns.
//
// So the cost of a plan, less fixed times, is a sum in which each table has a part.
// mixed.go bounds that sum from below, again by prices: a table takes the cheapest of its
// ways in all classes of the set. What is known of slices alone is kept: no way has a
// slice that takes longer than the time that the shortest exchanges of all tables leave.
//
// Slices in host memory cost at least what they would cost in HBM, since the way to the
// host comes on top. But they leave the HBM, and run in operators of their own. So where
// host memory is allowed, memory and the rows of operators do not count.
//
// The set of slices alone has a sharper bound, since placements are divided there and
// mixed.go does not divide. In all other sets, blocks and replicas count in the memory
// of devices on average, or only if one by itself has no room.
package bound

import (
	"errors"
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Bound is a lower bound on the cost of every valid plan, in its parts. Only
// Total is a bound by itself: a plan may have less compute with more
// communication.
type Bound struct {
	// Compute is the least longest time of a device's kernels, forward and
	// backward, at the communication with the least sum of both.
	Compute unit.Millis
	// ForwardComm and BackwardComm are the least times of the all-to-alls, with
	// packing and without waiting; 0 on one device.
	ForwardComm, BackwardComm unit.Millis
	// Total is the sum of the three. It is the only part that is set for plans that may
	// place tables in other ways than whole or cut by columns in HBM.
	Total unit.Millis
}

// Gap returns by how much a cost is above a bound, as a share of the bound: 0.03
// for 3 %. It is 0 if the bound is not above 0.
func Gap(cost, bound unit.Millis) float64 {
	if !(bound > 0) {
		return 0
	}
	return float64(cost/bound) - 1
}

// rounding is the share of a bound that is taken off for the rounding of sums.
const rounding = 1e-9

// Allowed says which ways to place tables a bound is for. The zero value allows tables
// whole or cut by columns, in HBM.
type Allowed struct {
	// ShardingTypes are the sharding types that tables may have; empty means TableWise and
	// ColumnWise. Each of these two stands for both, and each of TableRowWise and
	// Grid for both of them.
	ShardingTypes []problem.ShardingType
	// Host is true if tables may lie in the memory of hosts. It has no effect if the
	// topology states no host memory.
	Host bool
}

// classes returns the operator classes that are allowed, in device memory.
func (a Allowed) classes() set {
	if len(a.ShardingTypes) == 0 {
		return only(problem.ClassColumns)
	}
	var s set
	for _, k := range a.ShardingTypes {
		s |= only(k.Class())
	}
	return s
}

// onHosts reports whether slices may lie in host memory.
func (a Allowed) onHosts(t hardware.Topology) bool { return a.Host && t.HostMemory > 0 }

// Simulated returns a lower bound on the cost, under simulate.Pricer, of every valid
// plan of the problem whose tables are placed in the ways allowed. The more ways are
// allowed, the lower the bound, or equal. The input exchange is not counted. The problem
// must be valid. The same problem gives the same bound.
//
// It fails if the devices span hosts and the profile has no network, and if it finds
// that no plan can be valid.
func Simulated(p *problem.Problem, allowed Allowed) (Bound, error) {
	in, onHosts := allowed.classes(), allowed.onHosts(p.Topology)
	if in == only(problem.ClassColumns) && !onHosts {
		return ofColumns(p)
	}
	w, err := newWires(p)
	if err != nil {
		return Bound{}, err
	}
	counts := simulate.NewPricer(p)
	least := leastOf(p, w, counts, in, false)
	if onHosts && in.has(problem.ClassColumns) {
		least = min(least, leastOf(p, w, counts, in, true))
	}
	if math.IsInf(least, 1) {
		return Bound{}, errors.New("no plan to bound: the tables fit on no devices in any way that is allowed")
	}
	return Bound{Total: unit.Millis(least * (1 - rounding))}, nil
}

// ofColumns returns the bound of plans that place tables whole or cut by columns in HBM.
func ofColumns(p *problem.Problem) (Bound, error) {
	comm, err := newExchange(p)
	if err != nil {
		return Bound{}, err
	}
	columns := comm.least
	var busy float64
	if r := newRelaxation(p, simulate.NewPricer(p)); len(r.tables) > 0 {
		part := newTree(r, comm).least()
		if math.IsInf(part.u, 1) {
			return Bound{}, errors.New("no plan to bound: the tables fit on no devices in any way")
		}
		columns, busy = part.from, fixedMS+part.u
	}
	var b Bound
	b.ForwardComm, b.BackwardComm = comm.times(columns)
	b.Compute = unit.Millis(busy * (1 - rounding))
	b.Total = (b.Compute + b.ForwardComm + b.BackwardComm) * (1 - rounding)
	return b, nil
}

// leastOf returns the least bound of all sets of classes in the set in, in ms; +Inf if
// no plan can be valid.
func leastOf(p *problem.Problem, w wires, counts *simulate.Pricer, in set, onHosts bool) float64 {
	r := newMixedRelaxation(p, counts, onHosts)
	if len(r.tables) == 0 {
		return 0
	}
	s := newOtherClasses(p, w, r, counts)
	allRead := true // tables without lookups may be in any class
	for i := range p.Tables {
		allRead = allRead && counts.Counts(i).Lookups > 0
	}
	least := math.Inf(1)
	if in.has(problem.ClassColumns) && !onHosts {
		if b, err := ofColumns(p); err == nil {
			least = float64(b.Total)
		}
	}
	// Of two sets, the larger one has the lower bound more often. Work on the other
	// ends as soon as its bound is above that.
	for used := in; used > 0; used = (used - 1) & in {
		if onHosts && !used.has(problem.ClassColumns) || used == only(problem.ClassColumns) && !onHosts && allRead {
			continue
		}
		fixed := s.of(used)
		x := newMixed(r, s, used, p.Topology)
		x.raise(least - fixed)
		least = min(least, fixed+x.u)
	}
	return least
}
