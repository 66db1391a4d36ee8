package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// The packing places variants of the tables (variants.go) by bytes alone:
//
//	the pour    the variants that a bound on the bytes of all devices together prefers. Each table
//	            lies whole on the first place with room; if no place has room, the widest slices that
//	            the places can take, the place with the most room first. What finds no room overflows.
//	settling    changes drawn at random remove the overflow by simulated annealing
//
//	device 0  |AAAAAAAA|BB|      A whole, B cut where device 0 is full,
//	device 1  |BBBBBBBBBBB|      and again where device 1 is
//	device 2  |BBB|CCCCCC|D
//
// The changes are
//
//	move      a slice, or some of its columns, to another place
//	swap      two slices of two tables exchange their places
//	reform    a table takes another variant, cut to the room that its places have
//
// A change between two places touches only the devices of these places; a change of a
// table that lies on all devices touches every device. The work is counted in devices touched, so
// that a round takes about the same time for each problem.
//
// The packing certainly succeeds for the following problems. Let B be the number of bytes of a device that shards may take. A table's
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

const (
	// settleRounds is the number of rounds, each with twice the work of the one before it.
	settleRounds = 5
	// The first round touches settleWork devices, and settlePerTable more for each table.
	settleWork, settlePerTable = 200_000, 200
	// settleLook is how many tries are made between two looks at the clock.
	settleLook = 64
	// hotOverflow and coldOverflow are the temperatures at the start and the end of a
	// settling, as shares of a device's budget.
	hotOverflow, coldOverflow = .1, .0005
	// placesLooked is the number of places that a change compares.
	placesLooked = 4
	// fullLooks is the number of tables that are drawn to find one on a device that overflows.
	fullLooks = 50
	// bytesWeight is the weight of all bytes beside the bytes that overflow.
	bytesWeight = .5
)

// packer is an unfinished packing.
type packer struct {
	spare
	variants [][]variant
	draw     *rand.Rand
	// of lists the slices of each table.
	of [][]placedSlice
	// over and hostOver are the bytes by which devices overflow.
	over, hostOver int64
	// taken and hostTaken are the bytes that all slices take. rate is how much HBM a byte
	// of host memory is worth.
	taken, hostTaken int64
	rate             float64
	// work is the number of devices touched.
	work int64
}

// newPacker returns the pour of the variants with the least overflow.
func newPacker(c *catalog, variants [][]variant) *packer {
	p := &packer{
		spare: newSpare(c), variants: variants, draw: rand.New(rand.NewPCG(0, 0x7061636b)),
		of: make([][]placedSlice, len(variants)),
	}
	var best [][]placedSlice
	least := math.Inf(1)
	for _, share := range hostShares {
		chosen, rate, ok := balanced(c, variants, share)
		if !ok {
			continue
		}
		if p.pour(chosen); p.overflow() < least {
			best, least, p.rate = slices.Clone(p.of), p.overflow(), rate
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

// packing returns the slices, and nil while some device overflows.
func (p *packer) packing() []placedSlice {
	if p.overflow() > 0 {
		return nil
	}
	return slices.Concat(p.of...)
}

// settle changes the packing until nothing overflows. It gives up after some rounds, or if ended returns true.
func (p *packer) settle(ended func() bool) {
	for round := 0; p.overflow() > 0 && len(p.c.all) > 1 && round < settleRounds && !ended(); round++ {
		p.work = 0
		p.anneal(int64(settleWork+settlePerTable*len(p.variants))<<round, ended)
	}
}

// pour places the chosen variants: first those on all devices, then those on hosts, then
// the tables with the fewest places and the largest slices.
func (p *packer) pour(chosen []*variant) {
	for t := range p.of {
		p.replace(int32(t), nil)
	}
	order := make([]int32, len(chosen))
	for i := range order {
		order[i] = int32(i)
	}
	size := func(v *variant) float64 {
		return float64(v.bytes(v.least()))/float64(p.c.budget) +
			float64(v.hostBytes(v.least()))/float64(max(1, p.c.hostBudget))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := chosen[a], chosen[b]
		return cmp.Or(cmp.Compare(y.span, x.span), cmp.Compare(x.places(p.c), y.places(p.c)), cmp.Compare(size(y), size(x)))
	})
	for _, t := range order {
		v := chosen[t]
		p.replace(t, p.cutVariant(v, func(v *variant) func(i int) (int, bool) {
			return func(i int) (int, bool) { return i, i < v.places(p.c) }
		}))
	}
}

// energy is what the annealing lowers: the overflow, and a part of all bytes, so that
// tables do not drift to variants that take more.
func (p *packer) energy() float64 {
	return p.overflow() + bytesWeight*(float64(p.taken)+p.rate*float64(p.hostTaken))/float64(p.c.budget)
}

// overflow returns the bytes by which devices overflow, as shares of what a device has.
func (p *packer) overflow() float64 {
	return float64(p.over)/float64(p.c.budget) + float64(p.hostOver)/float64(max(1, p.c.hostBudget))
}

// excess returns the bytes by which a device overflows.
func excess(free int64) int64 { return max(0, -free) }

// replace places other slices of a table.
func (p *packer) replace(t int32, to []placedSlice) {
	for _, s := range p.of[t] {
		p.count(s, -1)
	}
	p.of[t] = to
	for _, s := range to {
		p.count(s, 1)
	}
}

// count adds a slice to the devices that hold it if sign is 1, and removes it if sign is
// -1.
func (p *packer) count(s placedSlice, sign int64) {
	sum := func(sign int64) {
		p.c.eachOf(s.variant.span, s.device, func(_ int, d int32) { p.over += sign * excess(p.free[d]) })
		p.hostOver += sign * excess(p.host[s.device])
	}
	p.taken += sign * int64(p.c.devicesOf(s.variant.span)) * s.variant.bytes(s.width)
	p.hostTaken += sign * s.variant.hostBytes(s.width)
	sum(-1)
	p.take(s, sign)
	sum(1)
	p.work += int64(p.c.devicesOf(s.variant.span))
}

// cutVariant cuts a variant, and the one beside it, into slices. looked returns the places to compare.
func (p *packer) cutVariant(v *variant, looked func(v *variant) func(i int) (int, bool)) []placedSlice {
	cut := p.cutToRoom(v, looked(v))
	if v.beside == nil || cut == nil {
		return cut
	}
	for _, s := range cut {
		p.take(s, 1)
	}
	rest := p.cutToRoom(v.beside, looked(v.beside))
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
// it has room for, and so on. looked returns the numbers of the places to compare. cutToRoom returns nil if
// these may not hold all columns.
func (p *packer) cutToRoom(v *variant, looked func(i int) (place int, ok bool)) (cut []placedSlice) {
	for rest := v.width; rest > 0; {
		best, most := int32(none), int32(-1)
		for i := 0; most < rest; i++ {
			at, ok := looked(i)
			if !ok {
				break
			}
			d := v.place(p.c, at)
			if slices.ContainsFunc(cut, func(s placedSlice) bool { return s.device == d }) {
				continue
			}
			if w := min(p.widest(v, d), rest); w > most || w == most && w < rest && p.free[d] > p.free[best] {
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

// anneal changes the placement until nothing overflows or the work is done.
func (p *packer) anneal(work int64, ended func() bool) {
	temperature := 0.0
	for tries := 0; p.overflow() > 0 && p.work < work; tries++ {
		if tries%settleLook == 0 {
			if ended() {
				break
			}
			temperature = hotOverflow * math.Pow(coldOverflow/hotOverflow, float64(p.work)/float64(work))
		}
		p.work++
		t := p.pick()
		switch p.draw.IntN(3) {
		case 0:
			p.try(temperature, t, p.moved(t))
		case 1:
			p.swap(temperature, t)
		default:
			p.try(temperature, t, p.cutVariant(p.other(t), p.someOf))
		}
	}
}

// pick draws a table: half of the time one with a slice on a device that overflows, if it soon draws such a table.
func (p *packer) pick() int32 {
	full := func(s placedSlice) bool { return p.free[s.device] < 0 || p.host[s.device] < 0 }
	t := int32(p.draw.IntN(len(p.of)))
	for looks := p.draw.IntN(2) * fullLooks; looks > 0 && !slices.ContainsFunc(p.of[t], full); looks-- {
		t = int32(p.draw.IntN(len(p.of)))
	}
	return t
}

// other draws a variant of a table, a pair in two tiers less often than another one.
func (p *packer) other(t int32) *variant {
	list := p.variants[t]
	v := &list[p.draw.IntN(len(list))]
	if v.beside != nil {
		v = &list[p.draw.IntN(len(list))]
	}
	return v
}

// someOf draws some places of a variant.
func (p *packer) someOf(v *variant) func(i int) (int, bool) {
	n := v.places(p.c)
	looked := max(placesLooked, int(v.slices))
	if n <= looked {
		return func(i int) (int, bool) { return i, i < n }
	}
	from := p.draw.IntN(n)
	return func(i int) (int, bool) { return (from + i*(1+from%7)) % n, i < looked }
}

// try places other slices of a table, and takes that back if the overflow rises by too
// much.
func (p *packer) try(temperature float64, t int32, to []placedSlice) {
	if to == nil {
		return
	}
	before, was := p.energy(), p.of[t]
	p.replace(t, to)
	if !p.accepts(p.energy()-before, temperature) {
		p.replace(t, was)
	}
}

func (p *packer) accepts(rise, temperature float64) bool {
	return rise <= 0 || p.draw.Float64() < math.Exp(-rise/temperature)
}

// moved returns the slices of a table after one slice, or some of its columns, moved to
// another place; nil if that is not possible.
func (p *packer) moved(t int32) []placedSlice {
	to := slices.Clone(p.of[t])
	at := p.draw.IntN(len(to))
	s := &to[at]
	v := s.variant
	d := v.place(p.c, p.draw.IntN(v.places(p.c)))
	if d == s.device {
		return nil
	}
	there := slices.IndexFunc(to, func(s placedSlice) bool { return s.variant == v && s.device == d })
	has := int32(0)
	if there >= 0 {
		has = to[there].width
	}
	width := s.width
	if p.draw.IntN(3) > 0 {
		width = 1 + p.draw.Int32N(s.width)
	}
	if rest := s.width - width; rest > 0 && rest < v.narrowest || has+width < v.narrowest || has+width > v.widest {
		return nil
	}
	if there >= 0 {
		to[there].width += width
	} else {
		to = append(to, placedSlice{v, d, width})
	}
	if to[at].width -= width; to[at].width == 0 {
		to = slices.Delete(to, at, at+1)
	}
	return to
}

// swap tries to exchange the places of a slice of table t and of a slice of another
// table.
func (p *packer) swap(temperature float64, t int32) {
	u := int32(p.draw.IntN(len(p.of)))
	if u == t {
		return
	}
	a, b := slices.Clone(p.of[t]), slices.Clone(p.of[u])
	x, y := &a[p.draw.IntN(len(a))], &b[p.draw.IntN(len(b))]
	on := func(list []placedSlice, device int32) bool { // whatever the variant
		return slices.ContainsFunc(list, func(s placedSlice) bool { return s.device == device })
	}
	if x.device == y.device || x.variant.span != y.variant.span || on(a, y.device) || on(b, x.device) ||
		!x.variant.allows(y.device) || !y.variant.allows(x.device) {
		return
	}
	x.device, y.device = y.device, x.device
	before, was, wasOther := p.energy(), p.of[t], p.of[u]
	p.replace(t, a)
	p.replace(u, b)
	if !p.accepts(p.energy()-before, temperature) {
		p.replace(u, wasOther)
		p.replace(t, was)
	}
}
