package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// The repair places variants if a problem is too large to try all placements. It starts
// with the variants that a bound on the bytes of all devices together prefers. It puts
// each table on a place with room for the table, or else on the place with the most room,
// which then overflows. Simulated annealing removes the overflow by changes drawn at
// random:
//
//	move      a slice, or some of its columns, to another place
//	swap      two slices of two tables exchange their places
//	reform    a table takes another variant, cut to the room that its places have
//
// A change between two places touches only the devices of these places; a change of a
// table that lies on all devices touches every device. The work is counted in devices touched, so
// that a round takes about the same time for each problem.

// hostShares are the largest shares of all host memory that the starts fill. The rest is
// a margin, because slices seldom fill a device to the byte.
var hostShares = []float64{1, .99, .97, .94, .9, .8}

const (
	// repairRounds is the number of rounds, each with twice the work of the one before it.
	repairRounds = 5
	// The first round touches repairWork devices, and repairPerTable more for each table.
	repairWork, repairPerTable = 200_000, 200
	// placesLooked is the number of places that a change compares.
	placesLooked = 4
	// bytesWeight is the weight of all bytes beside the bytes that overflow.
	bytesWeight = .5
)

// repairer is an unfinished placement of variants.
type repairer struct {
	spare
	variants [][]variant
	draw     *rand.Rand
	// of lists the slices of each table, and held the tables with slices on each device
	// alone, once for each slice.
	of   [][]placedSlice
	held [][]int32
	// over and hostOver are the bytes by which devices overflow.
	over, hostOver int64
	// taken and hostTaken are the bytes that all slices take. rate is how much HBM a byte
	// of host memory is worth.
	taken, hostTaken int64
	rate             float64
	// work is the number of devices touched.
	work int64
}

// repaired returns a placement of the variants that fits. It is nil if the repair finds
// none, or if ended returns true before.
func repaired(c *catalog, variants [][]variant, ended func() bool) []placedSlice {
	r := &repairer{
		spare: newSpare(c), variants: variants, draw: rand.New(rand.NewPCG(0, 0x726f6f6d)),
		of: make([][]placedSlice, len(variants)), held: make([][]int32, len(c.all)),
	}
	var best [][]placedSlice
	least := math.Inf(1)
	for _, share := range hostShares {
		chosen, rate, ok := balanced(c, variants, share)
		if !ok {
			continue
		}
		if r.start(chosen); r.overflow() < least {
			best, least, r.rate = slices.Clone(r.of), r.overflow(), rate
		}
		if least == 0 || rate == 0 {
			break
		}
	}
	for t := range best {
		r.replace(int32(t), best[t])
	}
	for round := 0; r.overflow() > 0; round++ {
		if len(c.all) == 1 || round == repairRounds || ended() {
			return nil
		}
		r.work = 0
		r.anneal(int64(repairWork+repairPerTable*len(variants))<<round, ended)
	}
	return slices.Concat(r.of...)
}

// start places the chosen variants: first those on all devices, then those on hosts, then
// the tables with the fewest places and the largest slices.
func (r *repairer) start(chosen []*variant) {
	for t := range r.of {
		r.replace(int32(t), nil)
	}
	order := make([]int32, len(chosen))
	for i := range order {
		order[i] = int32(i)
	}
	size := func(v *variant) float64 {
		return float64(v.bytes(v.least()))/float64(r.c.budget) +
			float64(v.hostBytes(v.least()))/float64(max(1, r.c.hostBudget))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := chosen[a], chosen[b]
		return cmp.Or(cmp.Compare(y.span, x.span), cmp.Compare(x.places(r.c), y.places(r.c)), cmp.Compare(size(y), size(x)))
	})
	for _, t := range order {
		v := chosen[t]
		r.replace(t, r.cutToRoom(v, func(i int) (int, bool) { return i, i < v.places(r.c) }))
	}
}

// energy is what the annealing lowers: the overflow, and a part of all bytes, so that
// tables do not drift to variants that take more.
func (r *repairer) energy() float64 {
	return r.overflow() + bytesWeight*(float64(r.taken)+r.rate*float64(r.hostTaken))/float64(r.c.budget)
}

// overflow returns the bytes by which devices overflow, as shares of what a device has.
func (r *repairer) overflow() float64 {
	return float64(r.over)/float64(r.c.budget) + float64(r.hostOver)/float64(max(1, r.c.hostBudget))
}

// replace places other slices of a table.
func (r *repairer) replace(t int32, to []placedSlice) {
	for _, s := range r.of[t] {
		r.count(t, s, -1)
	}
	r.of[t] = to
	for _, s := range to {
		r.count(t, s, 1)
	}
}

// count adds a slice to the devices that hold it if sign is 1, and removes it if sign is
// -1.
func (r *repairer) count(t int32, s placedSlice, sign int64) {
	sum := func(sign int64) {
		r.c.eachOf(s.variant.span, s.device, func(_ int, d int32) { r.over += sign * excess(r.free[d]) })
		r.hostOver += sign * excess(r.host[s.device])
	}
	r.taken += sign * int64(r.c.devicesOf(s.variant.span)) * s.variant.bytes(s.width)
	r.hostTaken += sign * s.variant.hostBytes(s.width)
	sum(-1)
	r.take(s, sign)
	sum(1)
	r.work += int64(r.c.devicesOf(s.variant.span))
	if s.variant.span != oneDevice {
		return
	}
	if sign > 0 {
		r.held[s.device] = append(r.held[s.device], t)
	} else {
		r.held[s.device] = without(r.held[s.device], t)
	}
}

// cutToRoom cuts a variant into slices. If a place has room for all columns that are left,
// they become one slice there. Otherwise the place with the most room gets the columns that
// it has room for, and so on. looked returns the numbers of the places to compare.
func (r *repairer) cutToRoom(v *variant, looked func(i int) (place int, ok bool)) (cut []placedSlice) {
	for rest := v.width; rest > 0; {
		best, most := int32(none), int32(-1)
		var freest int64
		for i := 0; ; i++ {
			at, ok := looked(i)
			if !ok {
				break
			}
			d := v.place(r.c, at)
			if slices.ContainsFunc(cut, func(s placedSlice) bool { return s.device == d }) {
				continue
			}
			if w := min(r.widest(v, d), rest); w > most || w == most && w < rest && r.free[d] > freest {
				best, most, freest = d, w, r.free[d]
			}
		}
		if best == none { // all places have a slice
			cut[len(cut)-1].width += rest
			break
		}
		width := max(most, v.narrowest)
		if rest-width < v.narrowest {
			width = rest - v.narrowest
		}
		if most == rest || width < v.narrowest || len(cut)+1 == v.places(r.c) {
			width = rest
		}
		cut = append(cut, placedSlice{v, best, width})
		rest -= width
	}
	return cut
}

// anneal changes the placement until nothing overflows or the work is done.
func (r *repairer) anneal(work int64, ended func() bool) {
	temperature := 0.0
	for tries := 0; r.overflow() > 0 && r.work < work; tries++ {
		if tries%settleLook == 0 {
			if ended() {
				break
			}
			temperature = hotOverflow * math.Pow(coldOverflow/hotOverflow, float64(r.work)/float64(work))
		}
		r.work++
		t := r.pick()
		switch r.draw.IntN(3) {
		case 0:
			r.try(temperature, t, r.moved(t))
		case 1:
			r.swap(temperature, t)
		default:
			list := r.variants[t]
			v := &list[r.draw.IntN(len(list))]
			r.try(temperature, t, r.cutToRoom(v, r.someOf(v)))
		}
	}
}

// pick draws a table: half of the time one with a slice on a device that overflows, if
// it finds such a device.
func (r *repairer) pick() int32 {
	if r.draw.IntN(2) == 0 {
		from := r.draw.IntN(len(r.free))
		for i := range r.free {
			d := (from + i) % len(r.free)
			if held := r.held[d]; (r.free[d] < 0 || r.host[d] < 0) && len(held) > 0 {
				return held[r.draw.IntN(len(held))]
			}
		}
	}
	return int32(r.draw.IntN(len(r.of)))
}

// someOf draws some places of a variant.
func (r *repairer) someOf(v *variant) func(i int) (int, bool) {
	n := v.places(r.c)
	if n <= placesLooked {
		return func(i int) (int, bool) { return i, i < n }
	}
	from := r.draw.IntN(n)
	return func(i int) (int, bool) { return (from + i*(1+from%7)) % n, i < placesLooked }
}

// try places other slices of a table, and takes that back if the overflow rises by too
// much.
func (r *repairer) try(temperature float64, t int32, to []placedSlice) {
	if to == nil {
		return
	}
	before, was := r.energy(), r.of[t]
	r.replace(t, to)
	if !r.accepts(r.energy()-before, temperature) {
		r.replace(t, was)
	}
}

func (r *repairer) accepts(rise, temperature float64) bool {
	return rise <= 0 || r.draw.Float64() < math.Exp(-rise/temperature)
}

// moved returns the slices of a table after one slice, or some of its columns, moved to
// another place; nil if that is not possible.
func (r *repairer) moved(t int32) []placedSlice {
	to := slices.Clone(r.of[t])
	at := r.draw.IntN(len(to))
	s := &to[at]
	v := s.variant
	d := v.place(r.c, r.draw.IntN(v.places(r.c)))
	if d == s.device {
		return nil
	}
	there := slices.IndexFunc(to, func(s placedSlice) bool { return s.device == d })
	has := int32(0)
	if there >= 0 {
		has = to[there].width
	}
	width := s.width
	if width+has >= 2*v.narrowest && r.draw.IntN(3) > 0 {
		if width = min(width, r.widest(v, d)); r.draw.IntN(2) == 0 {
			width = 1 + r.draw.Int32N(s.width)
		}
		width = max(width, v.narrowest-has)
		if rest := s.width - width; rest > 0 && rest < v.narrowest {
			width = s.width - v.narrowest
		}
		if width <= 0 || has+width < v.narrowest {
			return nil
		}
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
func (r *repairer) swap(temperature float64, t int32) {
	u := int32(r.draw.IntN(len(r.of)))
	if u == t {
		return
	}
	a, b := slices.Clone(r.of[t]), slices.Clone(r.of[u])
	x, y := &a[r.draw.IntN(len(a))], &b[r.draw.IntN(len(b))]
	on := func(list []placedSlice, device int32) bool {
		return slices.ContainsFunc(list, func(s placedSlice) bool { return s.device == device })
	}
	if x.device == y.device || x.variant.span != y.variant.span || on(a, y.device) || on(b, x.device) ||
		!x.variant.allows(y.device) || !y.variant.allows(x.device) {
		return
	}
	x.device, y.device = y.device, x.device
	before, was, wasOther := r.energy(), r.of[t], r.of[u]
	r.replace(t, a)
	r.replace(u, b)
	if !r.accepts(r.energy()-before, temperature) {
		r.replace(u, wasOther)
		r.replace(t, was)
	}
}

// allows reports whether a slice may lie on a device.
func (v *variant) allows(device int32) bool {
	return v.devices == nil || slices.Contains(v.devices, device)
}
