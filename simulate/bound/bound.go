// Package bound says what no plan can cost less than: a lower bound on the
// simulated cost of every valid plan of a problem that places tables whole or
// cut by columns. A plan whose simulated cost is 3 % above it is within 3 % of
// the best plan there is.
//
// It is a bound on what package simulate computes (docs/SIMULATED.md) and says
// nothing of real devices. Simulated is the entry point, and SimulatedKinds that for
// plans that may also cut tables by rows, replicate them or keep them in host memory;
// Gap compares a cost with either.
//
// # Why it holds
//
// Each step drops something that can only make a plan cheaper.
//
// The cost splits. Whoever is ready early waits, so a plan costs the longest
// compute, plus both all-to-alls of equal length for all, plus the longest
// packing.
//
// All-to-alls (exchange.go). They take longer the more pooled columns X the
// device with the most has. X is at least the mean, rounded up to what the
// columns of slices are multiples of. Then u, the longest compute less one
// operator's fixed time, is bounded from below for ranges of X.
//
// Operators. A device runs an operator in a lane class, set by its widest slice,
// and with a number of sort passes, set by its rows: that is its kind
// (relax.go). In a kind its time without the fixed part is at least
//
//	norm of three sums + norm of three sums + a sum
//
// over its slices (table.go). All sums are the simulated device's own, with its
// rounding up, its repeated reading of indices by each slice and its state
// traffic, but for two: the cache holds X rows of a table for min(T_sim, T)
// tables at a time, of which there is at least one, and more room never makes
// more misses, so each table is given all of the cache; and the walk through the
// most used row is left out of the maximum that it is part of. A weighted
// operator's backward repeats 1.1 of the forward's norm.
//
// Shares. A norm is at least any tangent of it, a sum of prices of its slices.
// If no device takes longer than u, then each slice takes a share of its device's
// time, of the rows that are sorted in its passes, of X columns, and of its
// memory; each share adds up to at most 1 on any device, and so does any weighted
// mean of the four, with weights that depend on the kind. An empty device has
// shares 0.
//
// Refutation. Give a device of kind k the worth mu_k. Every table is cut and
// spread over kinds in some way, so all slices together are worth at least the
// sum over the tables of their cheapest way; and at most what the devices are
// worth, of which there are so many. Where that is a contradiction, u is too
// low. The cheapest way is found exactly, over all cuts into granules of
// columns. A slice that alone takes longer than u is in no way.
//
// Parts (tree.go). Placements are divided by X and by how many devices there are
// of a kind, each part is bounded by itself, and the least bound holds for all.
//
// Prices, weights and worths come from an optimisation that has not ended
// (node.go). They cannot be wrong, only more or less sharp: the argument holds
// for all of them.
//
// What is left out: constraints, but for a table's least width; the input
// exchange; and where a problem has several operators, all shares but time's and
// all fixed times but one. 1e-9 of the bound is taken off for rounding.
//
// # Other kinds and memories
//
// SimulatedKinds bounds sets of lots one by one (lots.go): slices on single devices,
// blocks of rows on all of them, blocks on the devices of hosts, replicas. A plan is
// of one set, that of the lots it uses, so the least bound of the sets is one for all
// plans. A set has the fixed times of all its lots' exchanges and operators. Beyond
// these:
//
// What all devices hold takes each of them the same time, or more. A block is counted
// as the last one, which may have fewer rows. Operators of a lot are counted as if
// they were one, each table in the narrowest lanes and the fewest sort passes that it
// may have; a norm of sums is at least a tangent of it, a sum over tables.
//
// An exchange takes longer the more columns, or weights, it has. Where it is the
// longest of several hosts' or devices', it takes at least the mean's time, or for the
// all-to-alls that of any device's own columns.
//
// So the cost of a plan, less fixed times, is a sum in which each table has a part,
// and mixed.go bounds it from below, again by prices: a table takes the cheapest of
// its ways in all lots of the set. What is known of slices alone is kept: a slice that
// takes longer than is left beside the shortest exchanges of all tables is in no way.
//
// Slices in host memory cost at least what they would in HBM, for the way to the host
// comes on top; but they leave the HBM, and run in operators of their own. So where
// they are allowed, memory and the rows of operators count no more.
//
// The set of slices alone has Simulated's bound, which is sharper: it divides
// placements, and mixed.go does not. Of the other sets, host rows, blocks and replicas
// count in the memory of devices on average, or only where one alone has no room.
package bound

import (
	"errors"
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Bound is a lower bound on the cost of every valid plan, in its parts. Only
// Total is a bound by itself: a plan may have less compute with more
// communication.
type Bound struct {
	// Compute is the least longest time of a device's kernels, forward and
	// backward, at the communication that is the least in all.
	Compute unit.Millis
	// ForwardComm and BackwardComm are the least times of the all-to-alls, with
	// packing and without waiting; 0 on one device.
	ForwardComm, BackwardComm unit.Millis
	// Total is their sum.
	Total unit.Millis
}

// Gap returns by how much a cost is above a bound, as a share of the bound: 0.03
// for 3 %. It is 0 where the bound is not above 0.
func Gap(cost, bound unit.Millis) float64 {
	if !(bound > 0) {
		return 0
	}
	return float64(cost/bound) - 1
}

// rounding is the share of a bound that is taken off for the rounding of sums.
const rounding = 1e-9

// Simulated returns a lower bound on the cost, under simulate.Pricer, of every
// valid plan of the problem made of whole tables and column slices. The input
// exchange is not counted. The problem must be valid. It fails where the
// devices span hosts and the profile has no network, and where it finds that
// nothing can be valid. The same problem gives the same bound.
func Simulated(p *problem.Problem) (Bound, error) {
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
