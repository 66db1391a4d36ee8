package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// Shapes are further starts of the annealing. Two rules of fused kernels (docs/SIMULATED.md) make it hard to go from one good placement
// to another by small changes: a device runs all its slices as wide as the widest one, and it sorts their indices in one more pass once
// its tables have more rows than 2^15, 2^23 or 2^31. So a shape sets beforehand how wide slices may be on each device, and which devices
// have few rows:
//
//	device       0     1     2     3
//	width       32    32    64   any
//	rows       few  many  many   few
//
// For each shape all tables are placed greedily, cut to the widths, then taken out and placed again one by one.

// limit is what a device may take under a shape.
type limit struct {
	// class is the width class of the widest slice, and few says that the device's tables
	// must have fewer than fewRows rows.
	class uint8
	few   bool
}

const (
	narrowClass, middleClass, wideClass = 5, 6, math.MaxUint8
	// fewRows is the largest number of rows whose indices are sorted in three passes.
	fewRows = 1<<23 - 1
	// fewFilled is the share of fewRows up to which devices with few rows are filled.
	fewFilled = 0.8
	// shapeEvaluations is the most evaluations that placing shapes may take.
	shapeEvaluations = 500_000
	// eachShape is about the number of evaluations that a shape takes for each piece and device.
	eachShape = 6
	// A device is full when it holds dimRoom times the mean of the columns.
	dimRoom = 1.02
	// shapeTarget is the longest compute that the shapes aim at, relative to the mean. A low target cuts tables more.
	shapeTarget = .5
)

// shape says how many quarters of the devices have each limit, in which order the tables
// are placed, and the longest compute that it aims at, relative to that of the best placement.
type shape struct {
	quarters  [6]int // of shapeLimits
	wideFirst bool
	target    float64
}

// shapeLimits are the limits that shapes are made of.
var shapeLimits = [6]limit{{narrowClass, true}, {narrowClass, false}, {middleClass, true}, {middleClass, false}, {wideClass, true}, {wideClass, false}}

// shapes returns a shape in each order for each number of quarters with narrow, middle and
// wide slices, with few rows on half of each.
func shapes() (all []shape) {
	for wide := 0; wide <= 4; wide++ {
		for middle := 0; wide+middle <= 4; middle++ {
			narrow := 4 - wide - middle
			quarters := [6]int{narrow / 2, narrow - narrow/2, middle / 2, middle - middle/2, wide / 2, wide - wide/2}
			all = append(all, shape{quarters, false, shapeTarget}, shape{quarters, true, shapeTarget})
		}
	}
	return all
}

// builder places all tables under a shape.
type builder struct {
	*layout
	// target is the compute, and dimTarget the number of columns, at which a device is
	// full.
	target, dimTarget float64
	// byShare and byWidth are the pieces of the unsplit problem in the two orders, and
	// byUse the same pieces by falling compute for each row.
	byShare, byWidth, byUse []int32
	mean                    ahead
	// fixed are the parts that are placed before and stay.
	fixed []placed
	// widest says that a piece is cut into the fewest slices that find room.
	widest bool
	// By device: its limit and rows.
	limits []limit
	rows   []int64
	// slots holds the slots of the slices of each piece. few says whether a piece may go
	// to devices of few rows.
	slots map[int32][]int32
	few   map[int32]bool
	// rest is what a device will still get in the mean. sharp sets the exponent of the
	// power mean in a device's fill: 2^sharp.
	rest  ahead
	sharp int

	// full says how full each device is without what it will still get. looks are the devices that a slice is tried on.
	full       []float64
	looks      []int32
	times      []float64
	candidates []candidate
	tried, cut []placed
}

// ahead is the mean that a device will get of the tables that are not placed yet.
type ahead struct{ time, dims, bytes float64 }

// candidate is a device for a slice, and the rise of the sum of the devices' fills if
// the device gets it.
type candidate struct {
	device int32
	rise   float64
}

// newBuilder returns a builder that places the given pieces beside the fixed parts.
func newBuilder(l *layout, pieces []int32, fixed []placed, target float64) *builder {
	c := l.c
	b := &builder{
		layout: l, target: target, byShare: pieces, fixed: fixed, limits: make([]limit, len(c.all)), rows: make([]int64, len(c.all)),
		times: make([]float64, len(c.all)), full: make([]float64, len(c.all)), slots: map[int32][]int32{}, few: map[int32]bool{},
	}
	l.scorer.Reset()
	for _, p := range fixed {
		c.register(&c.pieces[p.piece]) // a twin may see the piece for the first time
	}
	devices := float64(len(c.all))
	for _, k := range b.byShare {
		c.time(k)
		piece := &c.pieces[k]
		b.mean.time += piece.alone / devices
		b.mean.dims += float64(piece.dims) / devices
		b.mean.bytes += float64(piece.own[b.c.phase]) / devices
	}
	b.dimTarget = dimRoom * b.mean.dims
	share := func(k int32) float64 {
		piece := &c.pieces[k]
		return max(piece.alone/b.target, float64(piece.own[b.c.phase])/float64(c.budget[c.phase]))
	}
	slices.SortFunc(b.byShare, func(x, y int32) int {
		return cmp.Or(cmp.Compare(share(y), share(x)), cmp.Compare(c.pieces[x].members[0].table, c.pieces[y].members[0].table))
	})
	b.byWidth = slices.Clone(b.byShare)
	slices.SortStableFunc(b.byWidth, func(x, y int32) int { return cmp.Compare(c.pieces[y].class, c.pieces[x].class) })
	b.byUse = slices.Clone(b.byShare)
	slices.SortStableFunc(b.byUse, func(x, y int32) int {
		return cmp.Compare(c.pieces[y].alone*float64(c.rows(x)), c.pieces[x].alone*float64(c.rows(y)))
	})
	return b
}

// each returns about the number of evaluations that one shape takes.
func (b *builder) each() int64 { return int64(len(b.byShare)) * int64(len(b.limits)) * eachShape }

// build places all pieces, and reports whether all found room.
func (b *builder) build(s shape) bool {
	b.clear()
	for _, p := range b.fixed {
		b.insert(p)
		b.score(p, b.scorer.Add)
	}
	if len(b.fixed) > 0 {
		for d := range b.compute {
			b.compute[d] = b.scorer.Compute(d)
		}
	}
	for d := range b.full {
		b.refill(int32(d))
	}
	clear(b.rows)
	clear(b.slots)
	b.assign(s)
	order := b.byShare
	if s.wideFirst {
		order = b.byWidth
	}
	b.rest, b.sharp = b.mean, 1
	devices := float64(len(b.limits))
	for _, k := range order {
		piece := &b.c.pieces[k]
		b.rest.time -= piece.alone / devices
		b.rest.dims -= float64(piece.dims) / devices
		b.rest.bytes -= float64(piece.own[b.c.phase]) / devices
		if !b.place(k) {
			return false
		}
	}
	b.rest, b.sharp = ahead{}, 2
	for _, k := range order {
		b.take(k)
		if !b.place(k) {
			return false
		}
	}
	return true
}

// assign gives the devices their limits, and chooses the pieces for the devices of few
// rows: the pieces with the most compute for each row.
func (b *builder) assign(s shape) {
	d, quarters, room := 0, 0, 0.0
	for i, n := range s.quarters {
		quarters += n
		for ; d < quarters*len(b.limits)/4; d++ {
			b.limits[d] = shapeLimits[i]
			if shapeLimits[i].few {
				room += fewFilled * fewRows
			}
		}
	}
	clear(b.few)
	for _, k := range b.byUse {
		if rows := float64(b.c.rows(k)); rows <= room {
			room -= rows
			b.few[k] = true
		}
	}
}

// take removes all slices of a piece.
func (b *builder) take(k int32) {
	rows := b.c.rows(k)
	for _, slot := range b.slots[k] {
		p := b.parts[slot]
		b.score(p, b.scorer.Remove)
		b.remove(slot)
		b.compute[p.device] = b.scorer.Compute(int(p.device))
		b.rows[p.device] -= rows
		b.refill(p.device)
	}
	b.slots[k] = b.slots[k][:0]
}

// place puts piece k, whole or in equal slices, on the devices where the sum of the
// devices' fills rises least. It uses devices outside the shape's limits only if no
// others have room.
func (b *builder) place(k int32) bool {
	if !b.choose(k, true) && !b.choose(k, false) {
		return false
	}
	rows := b.c.rows(k)
	for _, p := range b.cut {
		b.slots[k] = append(b.slots[k], b.insert(p))
		b.score(p, b.scorer.Add)
		b.compute[p.device] = b.scorer.Compute(int(p.device))
		b.rows[p.device] += rows
		b.refill(p.device)
	}
	return true
}

// choose sets cut to the best parts of piece k.
func (b *builder) choose(k int32, strict bool) bool {
	least := math.Inf(1)
	width, narrowest := 0, 1 // a co-location is not cut
	if table, ok := b.table(k); ok {
		width = b.c.pieces[k].members[0].width / problem.ColumnGranule
		narrowest = max(2, b.c.least(table)/problem.ColumnGranule)
	}
	// On fewer devices than narrow slices, a device takes several.
	most := max(len(b.limits), width*problem.ColumnGranule/laneWidths[0])
	for n := 1; n == 1 || n <= most && width/n >= narrowest; n = finer(b.c, k, n) {
		if b.widest && !math.IsInf(least, 1) {
			break
		}
		if b.c.rules.EqualSlices && n > 1 && (width%n != 0 || !evenInto(b.c, b.c.pieces[k].members[0].table, n)) {
			break // nor do its multiples
		}
		b.tried = b.tried[:0]
		if rise, ok := b.inSlices(k, width, n, strict); ok && rise < least {
			least = rise
			b.cut, b.tried = b.tried, b.cut
		}
	}
	return !math.IsInf(least, 1)
}

// inSlices chooses the devices of piece k, which is width granules wide, in n slices
// whose widths differ by at most one granule.
func (b *builder) inSlices(k int32, width, n int, strict bool) (rise float64, ok bool) {
	if n == 1 {
		return b.chooseDevices(k, k, 1, strict)
	}
	wider := width % n
	if wider == 0 {
		return b.chooseDevices(k, b.c.slice(k, width/n*problem.ColumnGranule), n, strict)
	}
	rise, ok = b.chooseDevices(k, b.c.slice(k, (width/n+1)*problem.ColumnGranule), wider, strict)
	if !ok {
		return 0, false
	}
	more, ok := b.chooseDevices(k, b.c.slice(k, width/n*problem.ColumnGranule), n-wider, strict)
	return rise + more, ok
}

// chooseDevices chooses the devices of n slices of piece s, of table or group k, and
// appends them to tried. A device takes one slice, or several if there are fewer
// devices than slices.
func (b *builder) chooseDevices(k, s int32, n int, strict bool) (rise float64, ok bool) {
	b.findCandidates(k, s, n, strict)
	if len(b.candidates) == 0 {
		return 0, false
	}
	piece := &b.c.pieces[s]
	lowest(b.candidates, n)
	for i := range n {
		c := b.candidates[i%len(b.candidates)]
		if again := int64(i / len(b.candidates)); again > 0 {
			several := piece.own
			several.add(piece.own, again)
			if b.c.rules.OneSlice || b.ledger.beyond(c.device, &several) > 0 || piece.hostBytes > 0 {
				return 0, false
			}
			c.rise *= 1.5 // the second fills a fuller device
		}
		rise += c.rise
		b.tried = append(b.tried, placed{s, c.device})
	}
	return rise, true
}

// findCandidates sets candidates to the devices that may take one of n slices, piece s of table or group k: of more
// than mostLooks and 2 n, those that are the least full. If strict is true, it uses only devices whose limits allow
// the slice.
func (b *builder) findCandidates(k, s int32, n int, strict bool) {
	piece := &b.c.pieces[s]
	b.c.register(piece)
	b.looks = b.looks[:0]
	most, fullest := max(mostLooks, 2*n), 0
	for _, d := range b.c.allowed(piece) {
		if len(b.looks) == most && b.full[d] >= b.full[b.looks[fullest]] || !b.mayTake(d, k, piece, strict) {
			continue
		}
		if len(b.looks) < most {
			b.looks = append(b.looks, d)
		} else {
			b.looks[fullest] = d
		}
		if len(b.looks) == most {
			fullest = b.fullest()
		}
	}
	times := b.times[:len(b.looks)]
	b.timesOn(piece, b.looks, times)
	b.evaluations += int64(len(b.looks))
	b.candidates = b.candidates[:0]
	for i, d := range b.looks {
		b.candidates = append(b.candidates, candidate{d, b.fill(times[i], b.dims[d]+piece.dims, b.own[d][b.c.phase]+piece.own[b.c.phase]) - b.fillOf(d)})
	}
}

// fullest returns the index in looks of the fullest device.
func (b *builder) fullest() (most int) {
	for i, e := range b.looks {
		if b.full[e] > b.full[b.looks[most]] {
			most = i
		}
	}
	return most
}

// mayTake reports whether a device may take a slice of table or group k, within its limits if strict is true.
func (b *builder) mayTake(d, k int32, piece *piece, strict bool) bool {
	l := &b.limits[d]
	if piece.hostBytes > 0 && b.host[d]+piece.hostBytes > b.hostBudget {
		return false
	}
	if b.ledger.beyond(d, &piece.own) > 0 || piece.class > l.class || slices.ContainsFunc(b.tried, func(p placed) bool { return p.device == d }) {
		return false
	}
	return !strict || !l.few || b.few[k] && b.rows[d]+b.c.rows(k) <= fewRows
}

// mostLooks is the number of devices that a slice is tried on.
const mostLooks = 24

// refill notes how full a device is.
func (b *builder) refill(d int32) {
	b.full[d] = eighth(b.compute[d]/b.target) + eighth(float64(b.dims[d])/b.dimTarget) + eighth(float64(b.own[d][b.c.phase])/float64(b.c.budget[b.c.phase]))
}

// fillOf returns how full a device is now.
func (b *builder) fillOf(d int32) float64 {
	return b.fill(b.compute[d], b.dims[d], b.own[d][b.c.phase])
}

// lowest moves the n candidates with the lowest rise to the front, in order.
func lowest(list []candidate, n int) {
	for i := range min(n, len(list)-1) {
		least := i
		for j := i + 1; j < len(list); j++ {
			if list[j].rise < list[least].rise {
				least = j
			}
		}
		list[i], list[least] = list[least], list[i]
	}
}

// timesOn sets times to the compute of each device with a piece added.
func (b *builder) timesOn(piece *piece, devices []int32, times []float64) {
	if len(piece.members) == 1 {
		b.scorer.ComputeWith(piece.members[0].item, devices, times)
		return
	}
	for i, d := range devices {
		for _, m := range piece.members {
			b.scorer.Add(int(d), m.item)
		}
		times[i] = b.scorer.Compute(int(d))
		for _, m := range piece.members {
			b.scorer.Remove(int(d), m.item)
		}
	}
}

// fill returns how full a device will be, including its mean share of what is still to
// be placed: a power mean of its compute, columns and bytes, each relative to a full
// device.
func (b *builder) fill(time float64, dims, bytes int64) float64 {
	x := eighth((time + b.rest.time) / b.target)
	x += eighth((float64(dims) + b.rest.dims) / b.dimTarget)
	x += eighth((float64(bytes) + b.rest.bytes) / float64(b.c.budget[b.c.phase]))
	for range 3 - b.sharp {
		x = math.Sqrt(x)
	}
	return x
}

// eighth returns the eighth power of x.
func eighth(x float64) float64 { x *= x; x *= x; return x * x }

// buildBeside places pieces beside fixed parts, with a target for the compute of each
// device. ok is false if it finds no room, or if it would take more than most
// evaluations.
func buildBeside(r *run, l *layout, pieces []int32, fixed []placed, target float64, most int64) ([]placed, bool) {
	b := newBuilder(l, pieces, fixed, target)
	if b.each() > most || !b.build(shape{quarters: [6]int{0, 0, 0, 0, 0, 4}}) {
		return nil, false
	}
	r.stats.Evaluations += b.evaluations
	b.evaluations = 0
	// The fixed parts alone may exceed the memory of a device or host.
	return l.all(), l.lack(false) == 0
}
