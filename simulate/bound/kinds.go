package bound

import (
	"errors"
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// SimulatedKinds returns a lower bound on the cost, under simulate.Pricer, of every
// valid plan of the problem whose tables are placed in the ways allowed. With the zero
// Allowed, and wherever that allows no other ways, it is Simulated's. Otherwise only
// the Total of the bound is set. Whatever more is allowed, it is no higher.
//
// The input exchange is not counted. The problem must be valid. It fails where the
// devices span hosts and the profile has no network, and where it finds that nothing
// can be valid. The same problem gives the same bound.
func SimulatedKinds(p *problem.Problem, allowed Allowed) (Bound, error) {
	in := allowed.mask()
	if in == 1<<columnsLot && !allowed.onHosts(p.Topology) {
		return Simulated(p)
	}
	w, err := newWires(p)
	if err != nil {
		return Bound{}, err
	}
	counts := simulate.NewPricer(p)
	least := leastOf(p, w, counts, in, false)
	if allowed.onHosts(p.Topology) && in.has(columnsLot) {
		least = min(least, leastOf(p, w, counts, in, true))
	}
	if math.IsInf(least, 1) {
		return Bound{}, errors.New("no plan to bound: the tables fit on no devices in any way that is allowed")
	}
	return Bound{Total: unit.Millis(least * (1 - rounding))}, nil
}

// leastOf returns the least bound of all sets of lots among those of in, in ms; +Inf
// where nothing can be valid.
func leastOf(p *problem.Problem, w wires, counts *simulate.Pricer, in mask, onHosts bool) float64 {
	r := newMixedRelaxation(p, counts, onHosts)
	if len(r.tables) == 0 {
		return 0
	}
	s := newSpreading(p, w, r, counts)
	allRead := true // tables without lookups may be elsewhere
	for i := range p.Tables {
		allRead = allRead && counts.Counts(i).Lookups > 0
	}
	least := math.Inf(1)
	if in.has(columnsLot) && !onHosts {
		least = ofColumns(p)
	}
	// Of two sets, the larger is more often the one with the lower bound, and the
	// other is given up as soon as it is above that.
	for m := in; m > 0; m = (m - 1) & in {
		if onHosts && !m.has(columnsLot) || m == 1<<columnsLot && !onHosts && allRead {
			continue
		}
		fixed := s.of(m)
		x := newMixed(r, s, m, p.Topology)
		x.raise(least - fixed)
		least = min(least, fixed+x.u)
	}
	return least
}

// ofColumns returns Simulated's bound, in ms; +Inf where nothing can be valid.
func ofColumns(p *problem.Problem) float64 {
	b, err := Simulated(p)
	if err != nil {
		return math.Inf(1)
	}
	return float64(b.Total)
}
