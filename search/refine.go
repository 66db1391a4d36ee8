package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// The refinement improves the best placement by small changes, under simulated
// annealing: a change that makes the placement dearer is taken with a chance that
// falls as the run goes on. A change touches two devices, so it is priced anew in
// about a microsecond, whatever the size of the problem.
//
//	move       a slice to another device
//	swap       two slices of two devices
//	split      a slice in two, of any widths; one part to another device
//	transfer   columns from one slice of a table to another one of it
//	merge      a slice into another one of its table
//
// A part that comes to a device with a slice of its table widens that slice. What
// does not fit a device's memory, or is not allowed there, is not tried.
//
// What counts in the end is the longest compute and the most columns on a device.
// Under these alone, all but a few changes would be neither better nor worse, so a
// run goes by soft maxima, power means of all devices, and remembers the placement
// that costs least.
//
// The first runs are short and begin at several placements (shapes.go); the best
// goes on. A run has a fixed number of evaluations, and the next one begins at the
// best placement so far and is twice as long. By default there is one after the short
// ones; a budget of time or of evaluations has as many as it allows. So the result
// depends on the seed and on where the budget ends, and not on the number of workers.

const (
	// The work of the first run: as many evaluations, or so many for a slice.
	refineEvaluations, evaluationsASlice = 60_000, 30
	// A run begins at a temperature, at first, of hot times the rise of the goal that few of all
	// changes stay below, a share of low among warmDraws of those that raise it: what a
	// change does to the goal depends on the devices there are. It ends at cold times
	// that.
	// A run that found nothing is followed by one that is cooler by a factor.
	hot, cold = .5, .02
	cooler    = .3
	low       = .2
	warmDraws = 200
	// meanWeight is the weight of the mean compute in what is minimised: it tells
	// apart placements whose dearest device is the same.
	meanWeight = .05
	// lookEvery is how many changes are tried between two looks at the clock.
	lookEvery = 64
	// A soft maximum is the mean of the 2^sharpness-th powers, to the power of one over
	// that.
	sharpness = 5
	// near is how far above the best goal so far, as a share, a placement may be that
	// is priced as a whole.
	near = .002
)

// part is a piece in the refinement: a piece on a device. Slots of parts that are
// no more are used again.
type placed struct{ piece, device int32 }

// refiner is the state of a refinement.
type refiner struct {
	c      *catalog
	scorer Scorer
	draw   *rand.Rand
	parts  []placed
	free   []int32 // slots of parts that are no more
	live   []int32 // slots in use
	place  []int32 // of a slot in live
	held   [][]int32
	tables map[int][]int32 // slots of the slices of a table
	bytes  []int64

	// By device: the predicted compute, and the pooled columns.
	compute []float64
	dims    []int64
	softSums
	// dearest is the device with the longest compute.
	slowest int32
	// computeScale and dimScale are the largest compute and columns at the begin, and
	// column the time of all-to-alls for a column of the device with the most. opening is
	// what they take besides, where there are any; it is 0 where there always are.
	computeScale, dimScale, column, opening float64

	// gone and come are the change that is being tried.
	gone []int32
	come []placed
	// touched are its devices, with what they held before.
	touched []int32
	before  []loaded

	// heat is the temperature at the begin of a run, relative to what few changes
	// stay below.
	heat        float64
	evaluations int64
	// f is what the tables may be besides slices in HBM, nil for nothing; and still says
	// that all are such slices and stay so.
	f     *forms
	still bool
	// best is the cost of the cheapest placement of the last run.
	best float64
}

// softSums are sums over the devices: of computes and columns, and of the powers of
// soft maxima; and what all devices spend alike.
type softSums struct{ computeSum, dimSum, computePower, dimPower, shared float64 }

// loaded is what a device took.
type loaded struct {
	compute float64
	dims    int64
}

// refine runs the refinement on the best placement.
func (s *run) refine() {
	if len(s.catalog.all) < 2 {
		return
	}
	s.event.Phase = "refine"
	r := newRefiner(s.catalog, s.workers[0].scorer, s.opt.Seed)
	end := int64(math.MaxInt64)
	if s.opt.MaxEvaluations > 0 {
		end = s.opt.MaxEvaluations
	}
	if !addsUp(r.scorer) {
		s.shapes(r, end)
	}
	// Where a run is long, that among all pieces is enough.
	if s.forms == nil || evaluationsASlice*len(s.best.devices) <= refineEvaluations {
		s.goOn(r, end)
	}
	r.scorer.Reset()
}

// goOn refines the best placement in runs, each twice as long as the one before: one,
// or as many as the budget allows.
func (s *run) goOn(r *refiner, end int64) {
	r.heat = hot
	for run := s.longRun(); s.status == Complete && s.stats.Evaluations < end; run *= 2 {
		r.reset(s.parts())
		if s.anneal(r, min(run, end-s.stats.Evaluations)) == nil {
			r.heat *= cooler
		}
		if s.opt.MaxEvaluations == 0 && s.opt.Budget == 0 || s.forms != nil && r.f == nil {
			break // the rest is for other pieces
		}
	}
	if s.stats.Evaluations >= end && s.status == Complete {
		s.exhausted()
	}
}

// longRun is the evaluations of the first long run.
func (s *run) longRun() int64 {
	return max(refineEvaluations, evaluationsASlice*int64(len(s.best.division.entries)))
}

// anneal is a run of the refinement, whose best placement competes. It returns that,
// or nil where the first one was cheaper.
func (s *run) anneal(r *refiner, evaluations int64) []placed {
	best, ended := r.anneal(evaluations, s.ended)
	if best != nil {
		s.offerParts(best)
	}
	if ended {
		s.cutShort()
	}
	s.stats.Evaluations += r.evaluations
	r.evaluations = 0
	s.tell()
	return best
}

// parts returns the parts of the best placement.
func (s *run) parts() []placed {
	parts := make([]placed, 0, len(s.best.devices))
	for _, p := range s.best.division.entries {
		parts = append(parts, placed{p.piece, s.best.devices[p.index]})
	}
	return parts
}

// offerParts makes a placement of the parts and takes it if it is the cheapest.
func (s *run) offerParts(parts []placed) {
	pieces, devices := make([]int32, len(parts)), make([]int32, len(parts))
	for i, p := range parts {
		pieces[i], devices[i] = p.piece, p.device
	}
	s.workers[0].scorer.Reset()
	s.offer(s.catalog.newDivision(pieces), devices)
}

// ended reports whether the context ended, by which a budget of time ends, too.
func (s *run) ended() bool { return s.ctx.Err() != nil }

// cutShort notes why the context ended.
func (s *run) cutShort() {
	s.status = Interrupted
	if errors.Is(context.Cause(s.ctx), errOutOfTime) {
		s.status = OutOfTime
	}
}

func newRefiner(c *catalog, scorer Scorer, seed uint64) *refiner {
	n := len(c.all)
	return &refiner{
		c: c, scorer: scorer, draw: rand.New(rand.NewPCG(seed, 0x726566696e65)), heat: hot,
		held: make([][]int32, n), bytes: make([]int64, n), compute: make([]float64, n), dims: make([]int64, n),
	}
}

// mixed reports whether there are, or may be, other forms than slices in HBM.
func (r *refiner) mixed() bool { return r.f != nil && !r.still }

// clear takes all parts out.
func (r *refiner) clear() {
	r.parts, r.free, r.live, r.place = r.parts[:0], r.free[:0], r.live[:0], r.place[:0]
	r.tables = map[int][]int32{}
	if r.f != nil {
		r.f.clear()
	}
	for d := range r.held {
		r.held[d] = r.held[d][:0]
	}
	clear(r.bytes)
	clear(r.dims)
	clear(r.compute)
	r.scorer.Reset()
}

// reset begins at a placement.
func (r *refiner) reset(parts []placed) {
	r.clear()
	for _, p := range parts {
		r.c.items(&r.c.pieces[p.piece])
		r.insert(p)
		r.score(p, r.scorer.Add)
	}
	r.begin()
}

// all returns a copy of the parts.
func (r *refiner) all() []placed {
	parts := make([]placed, len(r.live))
	for i, slot := range r.live {
		parts[i] = r.parts[slot]
	}
	return parts
}

// begin readies a run from the parts that are in.
func (r *refiner) begin() {
	for d := range r.compute {
		r.compute[d] = r.scorer.Compute(d)
	}
	r.best = r.scorer.Cost()
	r.scale()
	r.column, r.opening = 0, 0
	if r.mixed() {
		r.probe()
	} else if most := slices.Max(r.dims); most > 0 {
		r.column = max(0, r.best-slices.Max(r.compute)-r.shared) / float64(most)
	}
	r.slowest = 0
	for d := range r.compute {
		if r.compute[d] > r.compute[r.slowest] {
			r.slowest = int32(d)
		}
	}
}

// scale sets the totals and what they are relative to.
func (r *refiner) scale() {
	r.softSums = softSums{}
	r.computeScale, r.dimScale = slices.Max(r.compute), float64(slices.Max(r.dims))
	if r.mixed() {
		r.shared = r.f.scorer.Shared()
		// A placement of which little is on single devices may get more there.
		r.computeScale, r.dimScale = max(r.computeScale, leastScale*r.best), max(r.dimScale, 1)
	}
	for d := range r.compute {
		r.count(int32(d), 1)
	}
}

// count adds what device d takes to the totals, or takes it out.
func (r *refiner) count(d int32, sign float64) {
	r.computeSum += sign * r.compute[d]
	r.dimSum += sign * float64(r.dims[d])
	r.computePower += sign * powered(r.compute[d], r.computeScale)
	r.dimPower += sign * powered(float64(r.dims[d]), r.dimScale)
}

// powered returns (x/scale)^(2^sharpness), and 0 where the scale is 0.
func powered(x, scale float64) float64 {
	if scale == 0 {
		return 0
	}
	x /= scale
	for range sharpness {
		x *= x
	}
	return x
}

// unpowered is the inverse of powered at scale 1.
func unpowered(x float64) float64 {
	x = max(0, x) // sums that are taken apart end a little below 0
	for range sharpness {
		x = math.Sqrt(x)
	}
	return x
}

// score adds a part to the scorer or takes it out.
func (r *refiner) score(p placed, do func(device, item int)) {
	members := r.c.pieces[p.piece].members
	for i := range members {
		do(int(p.device), members[i].item)
	}
}

// insert takes a part into the lists and returns its slot; remove takes one out.
// Neither tells the scorer.
func (r *refiner) insert(p placed) int32 {
	slot := int32(len(r.parts))
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
		r.parts[slot] = p
	} else {
		r.parts, r.place = append(r.parts, p), append(r.place, 0)
	}
	r.place[slot] = int32(len(r.live))
	r.live = append(r.live, slot)
	if k := &r.c.pieces[p.piece]; k.span == oneDevice {
		r.held[p.device] = append(r.held[p.device], slot)
		r.bytes[p.device] += k.bytes
		r.dims[p.device] += k.dims
	}
	if r.f != nil {
		r.f.count(&r.c.pieces[p.piece], p.device, 1)
	}
	if table, ok := r.table(p.piece); ok {
		r.tables[table] = append(r.tables[table], slot)
	}
	return slot
}

func (r *refiner) remove(slot int32) {
	p := r.parts[slot]
	last := r.live[len(r.live)-1]
	r.live[r.place[slot]], r.place[last] = last, r.place[slot]
	r.live = r.live[:len(r.live)-1]
	if k := &r.c.pieces[p.piece]; k.span == oneDevice {
		r.held[p.device] = without(r.held[p.device], slot)
		r.bytes[p.device] -= k.bytes
		r.dims[p.device] -= k.dims
	}
	if r.f != nil {
		r.f.count(&r.c.pieces[p.piece], p.device, -1)
	}
	if table, ok := r.table(p.piece); ok {
		r.tables[table] = without(r.tables[table], slot)
	}
	r.free = append(r.free, slot)
}

// without takes a slot out of a list, in whose place the last one comes.
func without(list []int32, slot int32) []int32 {
	i := slices.Index(list, slot)
	list[i] = list[len(list)-1]
	return list[:len(list)-1]
}

// table returns the only table of a piece; a co-location group has none, and is
// never split.
func (r *refiner) table(k int32) (int, bool) {
	members := r.c.pieces[k].members
	return members[0].table, len(members) == 1
}

func (r *refiner) width(slot int32) int { return r.c.pieces[r.parts[slot].piece].members[0].width }

// goal is what is minimised.
func (r *refiner) goal() float64 {
	n := float64(len(r.compute))
	goal := r.computeScale*unpowered(r.computePower/n) + r.column*r.dimScale*unpowered(r.dimPower/n) + meanWeight*r.computeSum/n + r.shared
	if r.dimSum > 0 {
		goal += r.opening
	}
	return goal
}

// anneal tries changes for a number of evaluations. It returns the parts of the
// cheapest placement if that is cheaper than the first one, else nil, and whether
// it was ended before. best is its cost.
func (r *refiner) anneal(evaluations int64, ended func() bool) (best []placed, early bool) {
	goal := r.goal()
	least := goal
	warmth := r.warmth(goal)
	// unsaved says that the current placement is the best, but not copied yet.
	unsaved := false
	save := func() {
		best = best[:0]
		for _, slot := range r.live {
			best = append(best, r.parts[slot])
		}
		unsaved = false
	}
	// Changes that cannot be made count, too, so that a run ends where none can.
	for tried := 0; r.evaluations < evaluations && !early; tried++ {
		if tried%lookEvery == 0 {
			early = ended()
		}
		if r.mixed() && tried%rescaleEvery == 0 {
			r.scale()
			goal = r.goal()
		}
		r.evaluations++
		if !r.propose() {
			continue
		}
		all := r.softSums
		r.try()
		changed := r.goal()
		if rise := changed - goal; rise > 0 {
			share := float64(r.evaluations) / float64(evaluations)
			if r.draw.Float64() >= math.Exp(-rise/(warmth*math.Pow(cold, share))) {
				r.undo()
				r.softSums = all
				continue
			}
		}
		goal = changed
		cheaper := false
		if goal < least*(1+near) {
			least = min(least, goal)
			cost := r.scorer.Cost()
			if cheaper = cost < r.best; cheaper {
				r.best = cost
			}
		}
		if unsaved && !cheaper {
			save()
		}
		r.accept()
		unsaved = unsaved || cheaper
	}
	if unsaved {
		save()
	}
	return best, early
}

// warmth returns the temperature at which a run begins, above 0, from changes that
// are drawn and not made.
func (r *refiner) warmth(goal float64) float64 {
	var rises []float64
	for tried := 0; tried < 4*warmDraws && len(rises) < warmDraws; tried++ {
		r.evaluations++
		if !r.propose() {
			continue
		}
		before := r.softSums
		r.try()
		if rise := r.goal() - goal; rise > 0 {
			rises = append(rises, rise)
		}
		r.undo()
		r.softSums = before
	}
	if len(rises) == 0 {
		return math.SmallestNonzeroFloat64 // nothing dearer is taken
	}
	slices.Sort(rises)
	return r.heat * rises[int(low*float64(len(rises)))]
}

// try applies the proposed change to the scorer.
func (r *refiner) try() {
	r.touched, r.before = r.touched[:0], r.before[:0]
	spread := false
	for _, slot := range r.gone {
		p := r.parts[slot]
		spread = r.touchSpan(p) || spread
		r.score(p, r.scorer.Remove)
		r.dims[p.device] -= r.c.pieces[p.piece].dims
	}
	for _, p := range r.come {
		spread = r.touchSpan(p) || spread
		r.score(p, r.scorer.Add)
		r.dims[p.device] += r.c.pieces[p.piece].dims
	}
	for _, d := range r.touched {
		r.compute[d] = r.scorer.Compute(int(d))
		r.count(d, 1)
	}
	if spread {
		r.shared = r.f.scorer.Shared()
	}
	r.evaluations += max(0, int64(len(r.touched))-1)
}

// touchSeat touches the devices of a part's seat, unless it is on all, and reports
// whether it is on several.
func (r *refiner) touchSpan(p placed) bool {
	switch s := r.c.pieces[p.piece].span; s {
	case oneDevice:
		r.touch(p.device)
		return false
	case oneHost:
		r.c.eachOf(s, p.device, func(_ int, d int32) { r.touch(d) })
	}
	return true
}

// touch notes what a device takes and takes it out of the totals.
func (r *refiner) touch(device int32) {
	if !slices.Contains(r.touched, device) {
		r.touched = append(r.touched, device)
		r.before = append(r.before, loaded{r.compute[device], r.dims[device]})
		r.count(device, -1)
	}
}

// undo takes the tried change back, but for the totals.
func (r *refiner) undo() {
	for _, p := range r.come {
		r.score(p, r.scorer.Remove)
	}
	for _, slot := range r.gone {
		r.score(r.parts[slot], r.scorer.Add)
	}
	for i, d := range r.touched {
		r.compute[d], r.dims[d] = r.before[i].compute, r.before[i].dims
	}
}

// accept takes the tried change into the lists.
func (r *refiner) accept() {
	for i, d := range r.touched {
		r.dims[d] = r.before[i].dims // insert and remove count them again
	}
	for _, slot := range r.gone {
		r.remove(slot)
	}
	for _, p := range r.come {
		r.insert(p)
	}
	if slices.Contains(r.touched, r.slowest) {
		r.slowest = 0
		for d, t := range r.compute {
			if t > r.compute[r.slowest] {
				r.slowest = int32(d)
			}
		}
		return
	}
	for _, d := range r.touched {
		if r.compute[d] > r.compute[r.slowest] {
			r.slowest = d
		}
	}
}

// propose draws a change into gone and come and reports whether it can be made.
func (r *refiner) propose() bool {
	r.gone, r.come = r.gone[:0], r.come[:0]
	slot := r.live[r.draw.IntN(len(r.live))]
	if on := r.held[r.slowest]; r.draw.IntN(2) == 0 && len(on) > 0 {
		slot = on[r.draw.IntN(len(on))]
	}
	if r.mixed() && r.draw.IntN(reformEvery) == 0 {
		return r.reform(slot)
	}
	switch r.draw.IntN(8) {
	case 0, 1, 2:
		return r.move(slot)
	case 3, 4, 5:
		return r.swap(slot)
	case 6:
		return r.split(slot)
	}
	return r.regroup(slot)
}

// move puts a slice on another device.
func (r *refiner) move(slot int32) bool {
	p := r.parts[slot]
	to, ok := r.other(p)
	if !ok {
		return false
	}
	r.gone = append(r.gone, slot)
	r.bring(p.piece, to)
	return r.fits()
}

// other draws an allowed device other than a part's own.
func (r *refiner) other(p placed) (int32, bool) {
	if r.c.pieces[p.piece].span != oneDevice {
		return r.otherHost(p)
	}
	allowed := r.c.allowed(&r.c.pieces[p.piece])
	if len(allowed) < 2 {
		return 0, false
	}
	i := r.draw.IntN(len(allowed) - 1)
	if allowed[i] == p.device || allowed[i] > p.device {
		i++ // the devices are ascending
	}
	return allowed[i], allowed[i] != p.device
}

// bring lets a piece come to a device, where it widens the slices of its table that
// stay there.
func (r *refiner) bring(piece, device int32) {
	if table, ok := r.table(piece); ok {
		for _, slot := range r.tables[table] {
			if r.parts[slot].device == device && !slices.Contains(r.gone, slot) {
				r.gone = append(r.gone, slot)
				piece = r.c.slice(piece, r.c.pieces[piece].members[0].width+r.width(slot))
			}
		}
	}
	r.come = append(r.come, placed{piece, device})
}

// fits reports whether the devices have room for the change, and lets the scorer
// know its pieces.
func (r *refiner) fits() bool {
	if r.f != nil && r.spreads() {
		return r.fitsAll()
	}
	for i, p := range r.come {
		bytes := r.bytes[p.device] + r.f.on(p.device)
		for _, slot := range r.gone {
			if r.parts[slot].device == p.device {
				bytes -= r.c.pieces[r.parts[slot].piece].bytes
			}
		}
		for _, q := range r.come {
			if q.device == p.device {
				bytes += r.c.pieces[q.piece].bytes
			}
		}
		if bytes > r.c.budget {
			return false
		}
		r.c.items(&r.c.pieces[r.come[i].piece])
	}
	return true
}

// swap exchanges two slices of two devices.
func (r *refiner) swap(slot int32) bool {
	p := r.parts[slot]
	other := r.live[r.draw.IntN(len(r.live))]
	q := r.parts[other]
	if r.c.pieces[p.piece].span != oneDevice || r.c.pieces[q.piece].span != oneDevice {
		return false
	}
	if q.device == p.device || q.piece == p.piece || !r.allows(p.piece, q.device) || !r.allows(q.piece, p.device) {
		return false
	}
	r.gone = append(r.gone, slot, other)
	r.bring(p.piece, q.device)
	r.bring(q.piece, p.device)
	return r.fits()
}

func (r *refiner) allows(piece, device int32) bool {
	devices := r.c.pieces[piece].devices
	return devices == nil || slices.Contains(devices, device)
}

// split cuts a slice in two and puts one part on another device.
func (r *refiner) split(slot int32) bool {
	p := r.parts[slot]
	left, ok := r.cut(slot)
	if !ok {
		return false
	}
	to, ok := r.other(p)
	if !ok {
		return false
	}
	r.gone = append(r.gone, slot)
	r.come = append(r.come, placed{r.c.slice(p.piece, left), p.device})
	r.bring(r.c.slice(p.piece, r.c.pieces[p.piece].members[0].width-left), to)
	return r.fits()
}

// cut draws the width that is left of a slice when another part is cut off: half of
// it, as often as any.
func (r *refiner) cut(slot int32) (left int, ok bool) {
	const g = problem.ColumnGranule
	table, single := r.table(r.parts[slot].piece)
	if !single || !r.mayCut(slot) {
		return 0, false
	}
	least := (max(g, r.c.problem.Tables[table].MinWidth()) + g - 1) / g
	width := r.width(slot) / g
	if width < 2*least {
		return 0, false
	}
	if r.draw.IntN(2) == 0 {
		return width / 2 * g, true
	}
	return (least + r.draw.IntN(width-2*least+1)) * g, true
}

// regroup brings columns of a slice to another slice of its table: all of them, or
// some.
func (r *refiner) regroup(slot int32) bool {
	p := r.parts[slot]
	table, ok := r.table(p.piece)
	if !ok {
		return false
	}
	slices := r.tables[table]
	if len(slices) < 2 {
		return false
	}
	other := slices[r.draw.IntN(len(slices))]
	to := r.parts[other].device
	if other == slot {
		return false
	}
	r.gone = append(r.gone, slot)
	if to == p.device || r.draw.IntN(2) == 0 {
		r.bring(p.piece, to)
		return r.fits()
	}
	left, ok := r.cut(slot)
	if !ok {
		return false
	}
	r.come = append(r.come, placed{r.c.slice(p.piece, left), p.device})
	r.bring(r.c.slice(p.piece, r.width(slot)-left), to)
	return r.fits()
}
