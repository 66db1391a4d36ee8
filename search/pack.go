package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// If halves do not fit, columns are cut to the room that is left. A slice of w granules
// (4 columns each) takes fixed + each * w bytes, by package problem: so the widest
// slice that fits a device follows from a division, and one slice takes fewer bytes
// than two slices of its table on the same device.
//
//	the pour        each table whole on the first device with room; if no device
//	                has room, the widest slices that the devices can take, one
//	                device after the other
//	settling        the slices that the pour leaves over are put on the emptiest
//	                devices beyond their memory; then moves, swaps and transfers of
//	                columns, drawn at random, remove the overflow by simulated annealing
//
//	device 0  |AAAAAAAA|BB|      A whole, B cut where device 0 is full,
//	device 1  |BBBBBBBBBBB|      and again where device 1 is
//	device 2  |BBB|CCCCCC|D
//
// The pour costs O((T + S) log D) for T tables cut into S slices on D devices, and one
// change of the settling a few table look-ups.
//
// The packing certainly succeeds for the following problems. Let B be the number of
// bytes of a device that shards may take. A table's least slice is the widest one that
// cannot be cut any more: 4 columns, or 4 less than twice its MinWidth, or all of a
// table that must stay whole. A co-location counts as one such table. Then all
// tables are placed if, for some number of bytes L,
//
//	1. no table is limited to some devices,
//	2. the tables whose least slices take more than L bytes fit a device each, whole,
//	   and are at most D, or take at most D * B / 2 bytes together,
//	3. all tables, unsplit, take at most D * (B - L) bytes together.
//
// If L is the bytes of the largest least slice, 1 and 3 are enough: tables that may be
// cut anywhere fill a cluster up to 4 columns of one table on each device.
//
// Proof. The pour takes the tables of 2 first, since it goes by falling bytes of the
// least slice, and first fit places them whole. If there are at most D of them, each
// finds an empty device. Otherwise, suppose that one of them finds no room. Then no
// device is empty. The first table on a later device did not fit on any earlier device,
// so any two devices hold more than B together, and all D devices more than D * B / 2,
// against 2.
//
// For the other tables, define the loss of a device: its free bytes, plus the fixed
// bytes of each of its slices that was cut off a table whose rest went to other
// devices. From the first cut on, a device's loss is below L:
//
//   - A cut leaves fewer free bytes than one more granule would take, each; or, if
//     the rest would have been too narrow, fewer than the rest would take, MinWidth
//     / 4 * each. With the fixed bytes, this is less than the table's least slice
//     takes.
//   - A piece that comes later takes free bytes; a cut turns some of these into
//     fixed ones.
//
// Suppose the pour fails. Then no device has room for the rest of some table or, if the
// rest can be cut, for MinWidth columns of it. Neither is wider than the table's least
// slice, so on a device without cuts, the loss is below L, too. The bytes that the
// devices hold, less the fixed bytes lost, are the bytes of the tables placed, each
// counted unsplit. So all tables take more than D * B - D * L, against 3.
//
// Tables that are limited to some devices come before all others, the tables with the
// fewest allowed devices first. If they find room whole, conditions 2 and 3 are enough
// for the other tables.

// packable is a table, or a co-location, which is one granule wide. Widths are in
// granules of columns.
type packable struct {
	// piece is the unsplit piece.
	piece int32
	// A slice of w granules takes fixed + each * w bytes.
	fixed, each int64
	// width is the width of the whole table, and narrowest that of the narrowest slice
	// allowed.
	width, narrowest int32
	// devices are the allowed devices, ascending; nil allows all.
	devices []int32
}

func (l *packable) bytes(width int32) int64 { return l.fixed + l.each*int64(width) }

// least returns the width of the widest slice that cannot be cut, in granules.
func (l *packable) least() int32 { return min(l.width, 2*l.narrowest-1) }

// packablesOf returns the packables that the pieces were cut from, each once, in the
// order of the pieces.
func packablesOf(c *catalog, pieces []int32) []packable {
	packables := make([]packable, 0, len(pieces))
	seen := make([]bool, len(c.problem.Tables))
	for _, k := range pieces {
		t := c.pieces[k].members[0].table
		if seen[t] {
			continue
		}
		seen[t] = true
		if len(c.pieces[k].members) == 1 {
			k = c.slice(k, c.problem.Tables[t].Dim)
		}
		packables = append(packables, packableOf(c, k))
	}
	return packables
}

// packableOf returns the packable of an unsplit piece.
func packableOf(c *catalog, k int32) packable {
	const g = problem.ColumnGranule
	piece := &c.pieces[k]
	l := packable{piece: k, each: piece.bytes, width: 1, narrowest: 1, devices: piece.devices}
	m := piece.members[0]
	if len(piece.members) > 1 || m.width == g {
		return l
	}
	first := c.problem.Whole(m.table)
	first.Columns.End = g
	bytes := int64(c.problem.ShardMemory(first).Tables())
	l.width = int32(m.width / g)
	l.each = (piece.bytes - bytes) / int64(l.width-1)
	l.fixed = bytes - l.each
	l.narrowest = int32(c.least(m.table) / g)
	return l
}

// cuts returns the smallest number of slices into which a packable must be cut so that
// each slice fits a device, or 0 if even the narrowest slices do not fit.
func cuts(c *catalog, l *packable) int32 {
	widest := min((c.budget-l.fixed)/l.each, int64(l.width))
	if widest < 1 {
		return 0
	}
	n := (l.width + int32(widest) - 1) / int32(widest)
	if n*l.narrowest > l.width {
		return 0
	}
	return n
}

// fewest returns the bytes of the packables, each cut into the smallest number of
// slices that fit: no placement takes fewer bytes. ok is false if a packable cannot be
// cut into slices that fit.
func fewest(c *catalog, packables []packable) (bytes unit.Bytes, ok bool) {
	for i := range packables {
		l := &packables[i]
		n := cuts(c, l)
		if n == 0 {
			return 0, false
		}
		bytes += unit.Bytes(l.bytes(l.width) + int64(n-1)*l.fixed)
	}
	return bytes, true
}

// packing returns the slices of a packing and their devices: equal slices of the tables of
// the pieces if the rules demand them, and slices of the packables of any width otherwise.
func packing(c *catalog, pieces []int32, packables []packable, ended func() bool) (packed, devices []int32, ok bool) {
	if c.rules.EqualSlices {
		return packEvenly(c, pieces, ended)
	}
	return pack(c, packables, ended)
}

// pack returns slices of the packables and their devices. ok is false if it finds no
// packing that fits, or if ended returns true before.
func pack(c *catalog, packables []packable, ended func() bool) (pieces, devices []int32, ok bool) {
	p := newPacker(c, packables)
	order := p.order()
	left := p.pour(order)
	for round := 0; len(left) > 0; round++ {
		if len(c.all) == 1 || round == settleRounds || ended() {
			return nil, nil, false
		}
		p.crowd(left)
		tries := int64(settleTries+settlePerSlice*len(p.shares)) << round
		if p.settle(tries, ended) {
			break
		}
		left = p.pour(order)
	}
	pieces, devices = p.entries()
	return pieces, devices, true
}

const (
	// settleRounds is the number of times that the settling runs, each time with twice the
	// tries.
	settleRounds = 5
	// settleLook is how many tries are made between two looks at the clock.
	settleLook = 64
	// The first round makes settleTries tries, and settlePerSlice more for each slice.
	settleTries    = 30_000
	settlePerSlice = 30
	// hotOverflow and coldOverflow are the temperatures at the start and the end of a
	// settling, as shares of a device's budget.
	hotOverflow, coldOverflow = .1, .0005
)

// packer is an unfinished packing: slices on devices, at most one slice of each packable
// on a device.
type packer struct {
	c         *catalog
	packables []packable
	draw      *rand.Rand
	shares    []share
	// held lists the slots in shares of each device, and of those of each packable.
	held, of [][]int32
	// free is the number of free bytes of each device, below 0 for a device that
	// overflows. over lists the devices that overflow, and where is a device's index in
	// over, or none.
	free        []int64
	over, where []int32
	// overflow is the sum of the bytes by which devices overflow.
	overflow int64
}

func newPacker(c *catalog, packables []packable) *packer {
	return &packer{c: c, packables: packables, draw: rand.New(rand.NewPCG(0, 0x7061636b))}
}

// share is a slice of a packable on a device. at is its index among the device's
// slices.
type share struct {
	packable, device, width, at int32
	bytes                       int64
}

// order returns the packables in the order of the pour: first the packables with the
// fewest allowed devices, then by falling bytes of the least slice.
func (p *packer) order() []int32 {
	order := make([]int32, len(p.packables))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &p.packables[a], &p.packables[b]
		return cmp.Or(
			cmp.Compare(p.choices(x), p.choices(y)),
			cmp.Compare(y.bytes(y.least()), x.bytes(x.least())),
			cmp.Compare(y.bytes(y.width), x.bytes(x.width)),
			cmp.Compare(a, b),
		)
	})
	return order
}

// choices returns the number of allowed devices of a packable that is limited to some,
// and a larger number for a packable that is not limited.
func (p *packer) choices(l *packable) int {
	if l.devices == nil {
		return len(p.c.all) + 1
	}
	return len(l.devices)
}

func (p *packer) allowed(l *packable) []int32 { return p.c.allowed(&p.c.pieces[l.piece]) }

// pour places the packables in the given order, and returns the shares that found no
// room.
func (p *packer) pour(order []int32) (left []share) {
	p.empty()
	room := newRoom(p.c, len(p.c.all))
	for _, i := range order {
		l := &p.packables[i]
		first := func(bytes int64) int32 {
			if l.devices == nil {
				return int32(room.first(bytes))
			}
			if at := slices.IndexFunc(l.devices, func(d int32) bool { return p.free[d] >= bytes }); at >= 0 {
				return l.devices[at]
			}
			return none
		}
		for rest := l.width; rest > 0; {
			width := rest
			d := first(l.bytes(rest))
			if d == none && rest >= 2*l.narrowest {
				if d = first(l.bytes(l.narrowest)); d != none {
					width = int32(min((p.free[d]-l.fixed)/l.each, int64(rest-l.narrowest)))
				}
			}
			if d == none {
				left = append(left, share{packable: i, width: rest})
				break
			}
			p.widen(i, d, width)
			room.take(int(d), l.bytes(width))
			rest -= width
		}
	}
	return left
}

// crowd puts each slice on the allowed device with the most free bytes.
func (p *packer) crowd(left []share) {
	for _, s := range left {
		l := &p.packables[s.packable]
		d := slices.MaxFunc(p.allowed(l), func(a, b int32) int { return cmp.Compare(p.free[a], p.free[b]) })
		p.widen(s.packable, d, s.width)
	}
}

// entries returns the pieces of the slices, and their devices.
func (p *packer) entries() (pieces, devices []int32) {
	for _, s := range p.shares {
		l := &p.packables[s.packable]
		piece := l.piece
		if s.width != l.width {
			piece = p.c.slice(piece, int(s.width)*problem.ColumnGranule)
		}
		pieces, devices = append(pieces, piece), append(devices, s.device)
	}
	return pieces, devices
}

func (p *packer) empty() {
	n := len(p.c.all)
	p.shares, p.over, p.overflow = p.shares[:0], p.over[:0], 0
	p.held, p.of = make([][]int32, n), make([][]int32, len(p.packables))
	p.free, p.where = make([]int64, n), slices.Repeat([]int32{none}, n)
	for d := range p.free {
		p.free[d] = p.c.free(int32(d))
	}
}

// slot returns the slot of a packable's slice on a device, or none.
func (p *packer) slot(packable, device int32) int32 {
	for _, s := range p.of[packable] {
		if p.shares[s].device == device {
			return s
		}
	}
	return none
}

// widen adds granules of a packable to the packable's slice on a device.
func (p *packer) widen(packable, device, by int32) {
	l, s := &p.packables[packable], p.slot(packable, device)
	if s == none {
		s = int32(len(p.shares))
		p.shares = append(p.shares, share{packable: packable, device: device, at: int32(len(p.held[device])), bytes: l.fixed})
		p.held[device] = append(p.held[device], s)
		p.of[packable] = append(p.of[packable], s)
		p.give(device, -l.fixed)
	}
	p.shares[s].width += by
	p.shares[s].bytes += l.each * int64(by)
	p.give(device, -l.each*int64(by))
}

// narrow removes granules from a slice. If none are left, it removes the slice, and the
// last slot gets the slice's number.
func (p *packer) narrow(s, by int32) {
	slice := &p.shares[s]
	l := &p.packables[slice.packable]
	if by < slice.width {
		slice.width -= by
		slice.bytes -= l.each * int64(by)
		p.give(slice.device, l.each*int64(by))
		return
	}
	p.give(slice.device, slice.bytes)
	held := p.held[slice.device]
	last := held[len(held)-1]
	held[slice.at], p.shares[last].at = last, slice.at
	p.held[slice.device] = held[:len(held)-1]
	p.of[slice.packable] = without(p.of[slice.packable], s)

	end := int32(len(p.shares) - 1)
	if moved := p.shares[end]; s != end {
		p.shares[s] = moved
		p.held[moved.device][moved.at] = s
		of := p.of[moved.packable]
		of[slices.Index(of, end)] = s
	}
	p.shares = p.shares[:end]
}

// give changes the free bytes of a device.
func (p *packer) give(device int32, bytes int64) {
	before := p.free[device]
	after := before + bytes
	p.free[device] = after
	p.overflow += excess(after) - excess(before)
	switch {
	case after < 0 && before >= 0:
		p.where[device] = int32(len(p.over))
		p.over = append(p.over, device)
	case after >= 0 && before < 0:
		at, last := p.where[device], p.over[len(p.over)-1]
		p.over[at], p.where[last] = last, at
		p.over, p.where[device] = p.over[:len(p.over)-1], none
	}
}

// excess returns the bytes by which a device overflows.
func excess(free int64) int64 { return max(0, -free) }

// settle anneals the overflow away, and reports whether no device overflows any more.
func (p *packer) settle(tries int64, ended func() bool) bool {
	temperature := 0.0
	for t := int64(0); t < tries && p.overflow > 0; t++ {
		if t%settleLook == 0 {
			if ended() {
				break
			}
			temperature = float64(p.c.budget) * hotOverflow * math.Pow(coldOverflow/hotOverflow, float64(t)/float64(tries))
		}
		// Half of the tries start from a device that overflows.
		s := int32(p.draw.IntN(len(p.shares)))
		if p.draw.IntN(2) == 0 {
			held := p.held[p.over[p.draw.IntN(len(p.over))]]
			s = held[p.draw.IntN(len(held))]
		}
		if p.draw.IntN(2) == 0 {
			p.swap(s, temperature)
		} else {
			p.move(s, temperature)
		}
	}
	return p.overflow == 0
}

// accepts reports whether to make a change that adds the given numbers of free bytes to
// devices a and b.
func (p *packer) accepts(a int32, free int64, b int32, freeB int64, temperature float64) bool {
	x, y := p.free[a], p.free[b]
	rise := excess(x+free) - excess(x) + excess(y+freeB) - excess(y)
	return rise <= 0 || p.draw.Float64() < math.Exp(-float64(rise)/temperature)
}

// swap tries to exchange a slice with one of another device.
func (p *packer) swap(s int32, temperature float64) {
	other := int32(p.draw.IntN(len(p.shares)))
	x, y := p.shares[s], p.shares[other]
	if x.device == y.device || p.slot(x.packable, y.device) != none || p.slot(y.packable, x.device) != none ||
		!p.allows(x.packable, y.device) || !p.allows(y.packable, x.device) ||
		!p.accepts(x.device, x.bytes-y.bytes, y.device, y.bytes-x.bytes, temperature) {
		return
	}
	p.give(x.device, x.bytes-y.bytes)
	p.give(y.device, y.bytes-x.bytes)
	p.shares[s].device, p.shares[s].at = y.device, y.at
	p.shares[other].device, p.shares[other].at = x.device, x.at
	p.held[x.device][x.at], p.held[y.device][y.at] = other, s
}

func (p *packer) allows(packable, device int32) bool {
	devices := p.packables[packable].devices
	return devices == nil || slices.Contains(devices, device)
}

// move tries to bring a slice, or some of its columns, to another device. If that
// device has a slice of the same table, the slice becomes wider.
func (p *packer) move(s int32, temperature float64) {
	x := p.shares[s]
	l := &p.packables[x.packable]
	allowed := p.allowed(l)
	to := allowed[p.draw.IntN(len(allowed))]
	if to == x.device {
		return
	}
	fixed, has := l.fixed, int32(0)
	if there := p.slot(x.packable, to); there != none {
		fixed, has = 0, p.shares[there].width
	}
	width := x.width
	if width+has >= 2*l.narrowest && p.draw.IntN(3) > 0 {
		width = p.portion(l, x, to, fixed)
		// Both slices must be wide enough, or the first one must be gone.
		width = max(width, l.narrowest-has)
		if rest := x.width - width; rest > 0 && rest < l.narrowest {
			width = x.width - l.narrowest
		}
		if width <= 0 || width > x.width || has+width < l.narrowest {
			return
		}
	}
	lost, won := l.each*int64(width), fixed+l.each*int64(width)
	if width == x.width {
		lost = x.bytes
	}
	if p.accepts(x.device, lost, to, -won, temperature) {
		p.widen(x.packable, to, width)
		p.narrow(s, width)
	}
}

// portion draws how many granules of a slice to bring to a device: the number that
// fills the device, the number that relieves the slice's own device, or any number.
func (p *packer) portion(l *packable, x share, to int32, fixed int64) int32 {
	width := int64(x.width)
	switch p.draw.IntN(4) {
	case 0, 1:
		width = min(width, (p.free[to]-fixed)/l.each)
	case 2:
		width = min(width, (excess(p.free[x.device])+l.each-1)/l.each)
	default:
		width = 1 + p.draw.Int64N(width)
	}
	return int32(max(0, width))
}

// forced returns the pieces after forced splits. If halving a table does not lead to
// slices that are narrow enough, because MinWidth stops it, the table is cut into even
// slices. failed is the piece that lacks most bytes at its narrowest, or none if all
// fit a device.
func forced(c *catalog) (pieces []int32, failed int32) {
	large := func(k int32) bool { return c.pieces[k].bytes > c.budget }
	whole := c.whole()
	pieces = c.above(whole, c.budget)
	if slices.ContainsFunc(pieces, large) {
		pieces = pieces[:0]
		for _, l := range packablesOf(c, whole) {
			halves := c.above([]int32{l.piece}, c.budget)
			n := cuts(c, &l)
			if n > 0 && c.rules.EqualSlices {
				n = int32(evenly(c, c.pieces[l.piece].members[0].table, int(n)))
			}
			if n > 0 && slices.ContainsFunc(halves, large) {
				halves = even(c, &l, n)
			}
			pieces = append(pieces, halves...)
		}
	}
	failed = none
	for _, k := range pieces {
		if large(k) && (failed == none || c.pieces[k].bytes > c.pieces[failed].bytes) {
			failed = k
		}
	}
	return pieces, failed
}

// even returns n slices of a packable whose widths differ by at most one granule; the
// packable's piece for one slice.
func even(c *catalog, l *packable, n int32) []int32 {
	if n == 1 {
		return []int32{l.piece}
	}
	pieces := make([]int32, n)
	for i := range pieces {
		granules := (l.width + int32(i)) / n
		pieces[i] = c.slice(l.piece, int(granules)*problem.ColumnGranule)
	}
	return pieces
}
