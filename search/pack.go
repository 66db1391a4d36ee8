package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// The packing places variants of the tables (variants.go) by bytes alone:
//
//	the pour    the variants that a bound on the bytes of all devices together prefers. Each table
//	            lies whole on the first place with room; if no place has room, the widest slices that
//	            the places can take, the place with the most room first. What finds no room overflows.
//	settling    if some overflows, annealing under a Scorer for which nothing takes time, with a price for each
//	            byte beyond the memory of devices and hosts
//
//	device 0  |AAAAAAAA|BB|      A whole, B cut where device 0 is full,
//	device 1  |BBBBBBBBBBB|      and again where device 1 is
//	device 2  |BBB|CCCCCC|D
//
// If the bytes of all phases are alike, as they are unless problem.CountAll counts them, the packing certainly succeeds for the
// following problems. Let B be the number of bytes of a device that shards may take. A table's
// least slice is the widest one that cannot be cut any more, or a co-location. All D devices together hold all tables if, for some
// number of bytes L,
//
//  1. no table is limited to some devices,
//  2. the tables whose least slices take more than L bytes fit a device each, whole, and are at most D, or take at most D * B / 2
//     bytes together,
//  3. all tables, unsplit, take at most D * (B - L) bytes together.
//
// If L is the bytes of the largest least slice, 1 and 3 are enough: tables that may be cut anywhere fill a cluster up to 4 columns of
// one table on each device. If tables that are limited to some devices find room whole, 2 and 3 are enough for the others.
//
// Proof. The pour takes the tables of 2 first, as it goes by falling bytes of the least slice. If there are at most D of them, each
// finds an empty device. Otherwise, suppose that one finds no room. Then no device is empty, and the first table on a later device did
// not fit on any earlier one. So any two devices hold more than B together, and all D more than D * B / 2, against 2.
//
// For the other tables, define the loss of a device: its free bytes, plus the fixed bytes of each of its slices that was cut off a
// table whose rest went to other devices. A cut leaves fewer free bytes than one more granule would take, or fewer than the rest would
// take if it would have been too narrow. With the fixed bytes, this is less than the table's least slice takes. A piece that comes
// later takes free bytes, and a cut turns some of these into fixed ones. So from the first cut on, a device's loss is below L.
//
// Suppose the pour fails. Then no device has room for the rest of some table or, if the rest can be cut, for its narrowest slice. Neither
// is wider than the table's least slice, so on a device without cuts, the loss is below L, too. The bytes that the devices hold, less
// the fixed bytes lost, are those of the tables placed, unsplit. So all tables take more than D * B - D * L, against 3.

// hostShares are the largest shares of all host memory that the pours fill. The rest is
// a margin, because slices seldom fill a device to the byte.
var hostShares = []float64{1, .99, .97, .94, .9, .8}

// The runs of a settling are settleRuns; the first one makes settleEvaluations.
const settleRuns, settleEvaluations = 5, 50_000

// packer is an unfinished packing.
type packer struct {
	spare
	// of lists the slices of each table.
	of [][]placedSlice
}

// newPacker returns the pour of the variants with the least overflow.
func newPacker(c *catalog, variants [][]variant) *packer {
	p := &packer{spare: newSpare(c, variants), of: make([][]placedSlice, len(variants))}
	var best [][]placedSlice
	least := math.Inf(1)
	for _, share := range hostShares {
		chosen, rate, ok := balanced(c, variants, share)
		if !ok {
			continue
		}
		if p.pour(chosen); p.overflow() < least {
			best, least = slices.Clone(p.of), p.overflow()
		}
		if least == 0 || rate == 0 {
			break
		}
	}
	for t := range best {
		p.replace(int32(t), best[t])
	}
	return p
}

// pour places the chosen variants: first those on all devices, then those on hosts, then
// the tables with the fewest places and the largest slices.
func (p *packer) pour(chosen []*variant) {
	for t := range p.of {
		p.replace(int32(t), nil)
	}
	order := inOrder(len(chosen))
	size := func(v *variant) float64 {
		return float64(v.own.of(v.least())[p.c.phase])/float64(p.c.budget[p.c.phase]) +
			float64(v.hostBytes(v.least()))/float64(max(1, p.c.hostBudget))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := chosen[a], chosen[b]
		return cmp.Or(cmp.Compare(y.span, x.span), cmp.Compare(x.places(p.c), y.places(p.c)), cmp.Compare(size(y), size(x)))
	})
	for _, t := range order {
		p.replace(t, p.cutVariant(chosen[t]))
	}
}

// overflow returns the bytes by which devices overflow, as shares of what a device has.
func (p *packer) overflow() (share float64) {
	for d, host := range p.host {
		share += float64(max(0, -p.left(int32(d))))/float64(p.c.budget[p.c.phase]) + float64(max(0, -host))/float64(max(1, p.c.hostBudget))
	}
	return share
}

// replace places other slices of a table.
func (p *packer) replace(t int32, to []placedSlice) {
	for _, s := range p.of[t] {
		p.take(s, -1)
	}
	if len(p.of[t]) > 0 {
		p.shared.add(p.coming[t], 1)
	}
	if p.of[t] = to; len(to) > 0 {
		p.shared.add(p.coming[t], -1)
	}
	for _, s := range to {
		p.take(s, 1)
	}
}

// cutVariant cuts a variant, and the one beside it, into slices.
func (p *packer) cutVariant(v *variant) []placedSlice {
	cut := p.cutToRoom(v)
	if v.beside == nil || cut == nil {
		return cut
	}
	for _, s := range cut {
		p.take(s, 1)
	}
	rest := p.cutToRoom(v.beside)
	for _, s := range cut {
		p.take(s, -1)
	}
	if rest == nil {
		return nil
	}
	return append(cut, rest...)
}

// cutToRoom cuts a variant into slices. If a place has room for all columns that are left,
// they become one slice there. Otherwise the place with the most room gets the columns that
// it has room for, and so on. cutToRoom returns nil if the places may not hold all columns.
func (p *packer) cutToRoom(v *variant) (cut []placedSlice) {
	for rest := v.width; rest > 0; {
		best, most := int32(none), int32(-1)
		for i := 0; most < rest && i < v.places(p.c); i++ {
			d := v.place(p.c, i)
			if slices.ContainsFunc(cut, func(s placedSlice) bool { return s.device == d }) {
				continue
			}
			if w := min(p.widest(v, d), rest); w > most || w == most && w < rest && p.left(d) > p.left(best) {
				best, most = d, w
			}
		}
		if best == none { // all places have a slice
			if cut[len(cut)-1].width += rest; cut[len(cut)-1].width > v.widest {
				return nil
			}
			break
		}
		width := max(most, v.narrowest)
		if rest-width < v.narrowest {
			width = rest - v.narrowest
		}
		if most == rest || width < v.narrowest || len(cut)+1 == v.places(p.c) {
			width = rest
		}
		width = min(width, v.widest)
		cut = append(cut, placedSlice{v, best, width})
		rest -= width
	}
	return cut
}

// packing returns the slices as placed pieces.
func (p *packer) packing() []placed { return partsOf(p.c, slices.Concat(p.of...)) }

// unfit is above the cost of any placement that fits.
const unfit = 1e300

// settled anneals the packing, with the bytes beyond the memory of devices as the goal, until it fits. It returns nil if it finds no
// such placement in some runs, each twice as long as the one before it, or if ended returns true.
func (p *packer) settled(f *forms, ended func() bool) []placed {
	if len(p.c.all) == 1 {
		return nil
	}
	for run := range settleRuns {
		a := newAnnealer(p.c, weightless{}, uint64(run), *f)
		a.firstCrowding, a.crowding, a.crowdsHosts = 1, 1, true
		a.reset(p.packing())
		a.best = unfit
		if best, _ := a.anneal(settleEvaluations<<run, func() bool { return a.best < unfit || ended() }); best != nil || ended() {
			return best
		}
	}
	return nil
}

// weightless is a Scorer for which nothing takes time.
type weightless struct{}

func (weightless) Item(int, int, problem.Form) int           { return 0 }
func (weightless) Reset()                                    {}
func (weightless) Add(int, int)                              {}
func (weightless) Remove(int, int)                           {}
func (weightless) Compute(int) float64                       { return 0 }
func (weightless) ComputeWith(_ int, _ []int32, _ []float64) {}
func (weightless) Cost() float64                             { return 0 }
func (weightless) Shared() float64                           { return 0 }
