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
// Each step replaces the cost of a plan with a number that is equal or lower. This
// section is about plans that place tables whole or cut by columns.
//
// The cost is a sum. A device that is ready early waits for the others. So the cost of a
// plan is the longest compute of a device, plus the time of both all-to-alls, which is
// the same for all devices, plus the longest packing.
//
// All-to-alls (exchange.go). Let X be the number of pooled columns on the device with the
// most. If X grows, the all-to-alls take longer. X is at least the mean over the devices,
// rounded up to a multiple of the greatest common divisor of the pooled columns of all
// slices. Let u be the longest compute less the fixed time of one operator. The next steps
// bound u from below for ranges of X.
//
// Operators. The widest slice of an operator decides in which lane class the operator runs
// (lanes.go), and the rows of its slices decide the number of sort passes. A device with one
// operator is in a mode: a lane class with a number of passes. A device with several
// operators is in one more mode, which has an operator in each lane class and with each
// number of passes (relax.go). The time of an operator without the fixed part is at least
//
//	norm of three sums + norm of three sums + a sum
//
// over the slices of the operator (table.go). The sums are those of the simulated device:
// widths are rounded up, each slice reads the indices again, bags that share a warp wait for
// the longest, and the traffic of optimizer state counts. Two operators of a device that run
// in one lane class with one number of passes count as one, because the norm of a sum is at
// most the sum of the norms. One thing differs: the simulated device divides the
// cache among the tables in flight, min(T_sim, T) and at least one. The bound gives the
// whole cache to each table, because more room never makes more misses. The backward of a weighted
// operator also takes simulate.WeightedShare of the norm of the forward.
//
// Shares. A norm is at least any tangent of it. A tangent is linear, so it is a sum of
// prices of the slices. If no device takes longer than u, each slice takes a share of several
// limits of its device: of the time u, of the rows that operators with its number of passes
// can sort, of X columns, of the memory, and of the limits of large slices. On any device, the
// shares of each limit add up to at most 1. So does any weighted mean of the shares, with
// weights that depend on the mode. An empty device has shares 0.
//
// Large slices (large.go). The tangents say how much time each slice adds to its device at least.
// An example of a limit: a slice of more than two thirds of u takes the share 1, and any
// other slice of more than a third takes 1/2. For a sum of more than 1, a device would need three
// slices of more than a third of u each, or one of more than a third beside one of more than two
// thirds, and these take longer than u. These limits count what the limit of time does not see: that
// slices are whole. If u rises, fewer slices are large. So the shares are those at the longest time
// that the prices may refute.
//
// Rooms (rooms.go). If no device has more than X columns, every device has at least what the other devices
// leave of all columns, and these columns take time. So the size of a slice is relative to the time that is left on a
// device. A slice is infeasible if it takes more than that, without the time of its own columns.
//
// Several operators (mode.launches). An operator has no more rows than its passes sort, and no more
// columns than X. So a slice takes a part of an operator, by its rows, or by its columns if rows have no
// limit, and the parts of a device's slices add up to at most N, the number of its operators. If a device may
// have several operators, this number is the limit in place of that of rows. The device also takes N-1
// fixed times more than u counts. If one operator could hold all tables, N is at least 2 in the mode
// of several operators. So N-1 is at least half of the parts, and at least 1.
//
// Refutation. Choose a worth mu_k for a device in mode k. A slice in mode k is worth mu_k
// times its weighted mean share. Every table is cut and placed in modes in some way. So
// all slices together are worth at least the sum, over the tables, of the cheapest way of
// the table, and at most the worth of all devices. If that is a contradiction, u is too
// low. The cheapest way is found exactly, over all cuts into granules of columns. A way
// with a slice that alone takes longer than u does not count.
//
// Memories (memories.go). If devices differ in memory, each memory class has its own modes, with its
// own budget of bytes, and a device is in a mode of its class. The worth of all devices is the sum
// of the worths of the classes.
//
// Guests (guests.go). If no device can hold two slices of a hot table in the time u, and the table
// is cut into m slices, m devices hold one each. They are a class of devices, as a memory class is:
// the slices of the table lie in its modes only. Every number of slices has its own bound, and the least of these
// holds for all placements. The argument holds up to the least time of a device with two such
// slices, so it raises no bound above that time.
//
// Parts (tree.go). The placements are divided into parts, by X and by the number of
// devices in each mode. Each part has its own bound, and the least of these bounds holds
// for all placements.
//
// Prices, weights and worths come from an optimisation that stops early (node.go). The
// argument holds for any values of them; better values give a higher bound.
//
// Constraints. A table has only the classes and the widths that its sharding types, tiers and
// devices allow (forms.go). Tables that may lie on few devices only have a bound of their own, on
// these devices (subsets.go); the highest bound holds. The bound ignores the input exchange, the
// limit of slices to one host, the memory of hosts, the share of a cache, and the rules of an engine on slices.
// Beyond the second operator of a device, it counts half of the fixed times at most. The bound is
// lowered by 1e-9 of itself, because floating-point sums are rounded.
//
// Fixed compute (hardware.FixedLoad) is added to the compute of a device. So a plan costs at least what
// it would cost without, and the least fixed compute of a device on top.
//
// # Hidden exchanges
//
// An engine may hide up to H ms of the forward exchanges of a step, and of the backward ones.
// What is left of exchanges that take F ms is max(0, F-H). For plans by columns, F is the time
// of the all-to-alls, so what is left is computed exactly, and grows with X. For other plans, F
// is a sum over tables, and max(0, F-H) is not. But it is at least F-H, and at least 0. So each
// direction either counts in full and H is subtracted, or it does not count. Each choice gives
// a bound, and the highest holds. If the forward lookups of replicas hide exchanges, too, they
// take R ms, and F+R-min(F, H+R) is left of both, which is at least F-H, and at least R. So
// these lookups do not count where the forward direction counts.
//
// # Other sharding types and memories
//
// A plan uses some set of operator classes (problem.OperatorClass): slices on single
// devices, blocks of rows on all devices, blocks on the devices of hosts, replicas. Each
// set has its own bound (classes.go), and the least of these bounds holds for all plans.
// A set has the fixed times of the exchanges and operators of all its classes. These
// steps come in addition to the steps above:
//
// A table in blocks or replicas takes the same time, or more, on each device. Every block
// counts as the last one, which may have fewer rows. All operators of a class count as
// one operator, in which each table has, number by number, the least of its lane classes,
// and the fewest sort passes that are possible for the table. A norm of the sums is at
// least any tangent of it, which is a sum over tables.
//
// If an exchange has more columns, or weights, it takes longer. Where the busiest host or
// device sets the time of an exchange, the exchange takes at least the time for the mean
// of all hosts or devices. An all-to-all takes at least the time for the columns of any
// one device.
//
// So the cost of a plan without fixed times is at least a sum with one term for each
// table. mixed.go bounds that sum from below, again by prices: a table takes the cheapest
// of its ways in all classes of the set. The rule for slices alone still holds: the
// shortest exchanges of all tables leave a part of the cost for compute, and a way with a
// slice that alone takes longer than this part does not count.
//
// A slice in host memory takes at least the time that it would take in HBM, and the transfer over
// the host link comes on top. It takes the HBM of its buffers, and of its cache if it has one
// (hosted.go). A slice takes the tier in which its time and its bytes cost the least at the prices. It
// runs in another operator than slices in HBM. So if host memory is allowed, the limits of sorted
// rows are dropped.
//
// The set with only slices on single devices has a sharper bound, because tree.go divides
// its placements and mixed.go does not divide. If devices differ in memory, mixed.go uses only
// the largest and the mean budget. sets.go divides the work over the sets. In all other sets, what
// lies on several devices counts against the memory of all devices together. If the tables of a set
// take more HBM than all devices have, in the ways with the fewest bytes, no plan has the set.
package bound

import (
	"context"
	"errors"
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Bound is a lower bound on the cost of every valid plan, in its parts. Only
// Total is a bound by itself: a plan may have less compute with more
// communication.
type Bound struct {
	// Compute is the time of the kernels, forward and backward, of the device with the
	// longest compute.
	Compute unit.Millis
	// Fixed is the fixed compute of the device where it is least (hardware.FixedLoad).
	Fixed unit.Millis
	// ForwardComm and BackwardComm are the times of the all-to-alls, with packing and
	// without waiting; 0 on one device.
	ForwardComm, BackwardComm unit.Millis
	// Total is the sum of the four: the least sum that a plan can have. The other fields but Fixed
	// are 0 if the plans may place tables in other ways than whole or cut by columns in
	// HBM.
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

// rounding is the share of a bound that is subtracted, because sums are rounded.
const rounding = 1e-9

// Allowed says which ways to place tables a bound is for. The zero value allows tables
// whole or cut by columns, in HBM.
type Allowed struct {
	// ShardingTypes are the sharding types that tables may have; empty means TableWise and
	// ColumnWise. ColumnWise stands for both, and Grid for TableRowWise, too
	// (problem.Permitted).
	ShardingTypes []problem.ShardingType
	// Host is true if tables may lie in the memory of hosts. It has no effect if the
	// topology states no host memory.
	Host bool
	// Operators is true if plans may divide the slices of a device into several operators
	// (problem.Form.Operator). It has no effect if the rules of the problem's engine allow
	// no such division.
	Operators bool
	// Hidden is what the engine hides of the exchanges: the bound is then one of exposed costs
	// (simulate.Pricer.Hiding).
	Hidden plan.Hidden
}

// operators returns the most operators of an operation on a device.
func (a Allowed) operators(p *problem.Problem) int {
	n, rules := 1, p.Engine.Rules()
	if rules.WholeApart {
		n = 2
	}
	if a.Operators && !rules.Undivided {
		n *= problem.Operators
	}
	return n
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
func (a Allowed) onHosts(t hardware.Topology) bool { return a.Host && t.MostHostMemory() > 0 }

// Simulated returns a lower bound on the cost, under simulate.Pricer, of every valid
// plan of the problem whose tables are placed in the ways allowed. The more ways are
// allowed, the lower the bound, or equal. The input exchange is not counted. The problem
// must be valid. The same problem gives the same bound.
//
// It fails if the devices span hosts and the profile has no network, if allowed.Hidden.Check
// fails, and if it finds that no plan can be valid. If ctx ends before the bound is found, it
// returns the error of ctx.
func Simulated(ctx context.Context, p *problem.Problem, allowed Allowed) (Bound, error) {
	p = problem.Deduplicated(p)
	b, err := simulated(ctx, p, allowed)
	if err != nil {
		return Bound{}, err
	}
	b.Fixed = p.Topology.LeastFixedTime()
	b.Total += b.Fixed * (1 - rounding)
	return b, nil
}

// simulated returns the bound without fixed compute.
func simulated(ctx context.Context, p *problem.Problem, allowed Allowed) (Bound, error) {
	if err := allowed.Hidden.Check(); err != nil {
		return Bound{}, err
	}
	in, onHosts := allowed.classes(), allowed.onHosts(p.Topology)
	if in == only(problem.ClassColumns) && !onHosts {
		return ofColumns(ctx, p, allowed)
	}
	least, err := leastOf(ctx, p, allowed)
	if err != nil {
		return Bound{}, err
	}
	if math.IsInf(least, 1) {
		return Bound{}, errors.New("no plan to bound: the tables do not fit on the devices in any way that is allowed")
	}
	b, err := bySubsets(ctx, p, allowed, in, onHosts, Bound{Total: unit.Millis(least * (1 - rounding))})
	return Bound{Total: b.Total}, err
}

// ofColumns returns the bound of plans that place tables whole or cut by columns in HBM.
func ofColumns(ctx context.Context, p *problem.Problem, allowed Allowed) (Bound, error) {
	comm, err := newExchange(p, allowed)
	if err != nil {
		return Bound{}, err
	}
	pricer, err := simulate.NewPricerContext(ctx, p)
	if err != nil {
		return Bound{}, err
	}
	r := newRelaxation(p, pricer, p.Topology.Devices, allowed)
	t := newTree(r, comm, memoriesOf(p, everyDevice(p)))
	if hosting(t) {
		if t.fruitless = fruitlessBefore; !allowed.Operators {
			t.fruitless = fruitlessOfOne
		}
	}
	t.raise(ctx, math.Inf(1))
	least := byGuests(ctx, t)
	if err := ctx.Err(); err != nil {
		return Bound{}, err
	}
	b, err := bySubsets(ctx, p, allowed, only(problem.ClassColumns), false, least)
	if err != nil {
		return Bound{}, err
	}
	if math.IsInf(float64(b.Total), 1) {
		return Bound{}, errors.New("no plan to bound: the tables do not fit on the devices in any way")
	}
	return b, nil
}
