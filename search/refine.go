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
// A run has a fixed number of evaluations, and the next one begins at the best
// placement so far and is twice as long. By default there is one; a budget of time
// or of evaluations has as many as it allows. So the result depends on the
// seed and on where the budget ends, and not on the number of workers.

const (
	// refineEvaluations is the work of the first run.
	refineEvaluations = 60_000
	// hot and cold are the temperatures at the begin and the end of a run, relative
	// to the cost.
	hot, cold = .005, .0003
	// meanWeight is the weight of the mean compute in what is minimised: it tells
	// apart placements whose dearest device is the same.
	meanWeight = .05
	// lookEvery is how many changes are tried between two looks at the clock.
	lookEvery = 64
)

// part is a piece in the refinement: a kind on a device. Slots of parts that are
// no more are used again.
type part struct{ kind, device int32 }

// refiner is the state of a refinement.
type refiner struct {
	c      *catalog
	scorer Scorer
	draw   *rand.Rand
	parts  []part
	free   []int32 // slots of parts that are no more
	live   []int32 // slots in use
	place  []int32 // of a slot in live
	held   [][]int32
	tables map[int][]int32 // slots of the slices of a table
	bytes  []int64

	compute []float64
	sum     float64
	cost    float64
	// dearest is the device with the longest compute.
	dearest int32

	// gone and come are the change that is being tried.
	gone []int32
	come []part
	// touched are its devices, with what they took before.
	touched []int32
	before  []float64

	evaluations int64
	// best is the cost of the cheapest placement of the last run.
	best float64
}

// refine runs the refinement on the best placement.
func (s *searcher) refine() {
	if len(s.catalog.all) < 2 {
		return
	}
	limit := int64(refineEvaluations)
	repeated := false
	switch {
	case s.opt.MaxEvaluations > 0:
		limit, repeated = s.opt.MaxEvaluations-s.stats.Evaluations, true
	case s.opt.Budget > 0:
		limit, repeated = math.MaxInt64, true
	}
	s.event.Phase = "refine"
	w := s.workers[0]
	r := newRefiner(s.catalog, w.scorer, s.best, s.opt.Seed)
	for run := int64(refineEvaluations); limit > 0 && s.status == Complete; run *= 2 {
		best, ended := r.anneal(min(run, limit), s.ended)
		s.stats.Evaluations += r.evaluations
		limit -= r.evaluations
		r.evaluations = 0
		if best != nil {
			s.offerParts(best)
		}
		switch {
		case ended:
			s.cutShort()
		case limit <= 0 && s.opt.MaxEvaluations > 0:
			s.exhausted()
		}
		s.tell()
		if !repeated {
			break
		}
		r.reset(s.best)
	}
	w.scorer.Reset()
}

// offerParts makes a placement of the parts and takes it if it is the cheapest.
func (s *searcher) offerParts(parts []part) {
	kinds, devices := make([]int32, len(parts)), make([]int32, len(parts))
	for i, p := range parts {
		kinds[i], devices[i] = p.kind, p.device
	}
	s.workers[0].scorer.Reset()
	s.offer(s.catalog.newState(kinds), devices)
}

// ended reports whether the context ended, by which a budget of time ends, too.
func (s *searcher) ended() bool { return s.ctx.Err() != nil }

// cutShort notes why the context ended.
func (s *searcher) cutShort() {
	s.status = Interrupted
	if errors.Is(context.Cause(s.ctx), errOutOfTime) {
		s.status = OutOfTime
	}
}

func newRefiner(c *catalog, scorer Scorer, from placement, seed uint64) *refiner {
	r := &refiner{
		c: c, scorer: scorer, draw: rand.New(rand.NewPCG(seed, 0x726566696e65)),
		held: make([][]int32, len(c.all)), bytes: make([]int64, len(c.all)), compute: make([]float64, len(c.all)),
	}
	r.reset(from)
	return r
}

// reset begins at a placement.
func (r *refiner) reset(from placement) {
	r.parts, r.free, r.live, r.place = r.parts[:0], r.free[:0], r.live[:0], r.place[:0]
	r.tables = map[int][]int32{}
	for d := range r.held {
		r.held[d], r.bytes[d] = r.held[d][:0], 0
	}
	r.scorer.Reset()
	for _, p := range from.state.pieces {
		part := part{p.kind, from.devices[p.index]}
		r.c.items(&r.c.kinds[part.kind])
		r.insert(part)
		r.score(part, r.scorer.Add)
	}
	r.sum = 0
	for d := range r.compute {
		r.compute[d] = r.scorer.Compute(d)
		r.sum += r.compute[d]
	}
	r.cost = r.scorer.Cost()
	r.findDearest()
}

// score adds a part to the scorer or takes it out.
func (r *refiner) score(p part, do func(device, item int)) {
	members := r.c.kinds[p.kind].members
	for i := range members {
		do(int(p.device), members[i].item)
	}
}

// insert takes a part into the lists, and remove takes one out.
func (r *refiner) insert(p part) {
	slot := int32(len(r.parts))
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
		r.parts[slot] = p
	} else {
		r.parts, r.place = append(r.parts, p), append(r.place, 0)
	}
	r.place[slot] = int32(len(r.live))
	r.live = append(r.live, slot)
	r.held[p.device] = append(r.held[p.device], slot)
	r.bytes[p.device] += r.c.kinds[p.kind].bytes
	if table, ok := r.table(p.kind); ok {
		r.tables[table] = append(r.tables[table], slot)
	}
}

func (r *refiner) remove(slot int32) {
	p := r.parts[slot]
	last := r.live[len(r.live)-1]
	r.live[r.place[slot]], r.place[last] = last, r.place[slot]
	r.live = r.live[:len(r.live)-1]
	r.held[p.device] = without(r.held[p.device], slot)
	r.bytes[p.device] -= r.c.kinds[p.kind].bytes
	if table, ok := r.table(p.kind); ok {
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

// table returns the only table of a kind; a co-location group has none, and is
// never split.
func (r *refiner) table(k int32) (int, bool) {
	members := r.c.kinds[k].members
	return members[0].table, len(members) == 1
}

func (r *refiner) width(slot int32) int { return r.c.kinds[r.parts[slot].kind].members[0].width }

func (r *refiner) findDearest() {
	r.dearest = 0
	for d, t := range r.compute {
		if t > r.compute[r.dearest] {
			r.dearest = int32(d)
		}
	}
}

// goal is what is minimised.
func (r *refiner) goal() float64 { return r.cost + meanWeight*r.sum/float64(len(r.compute)) }

// anneal tries changes for a number of evaluations. It returns the parts of the
// cheapest placement if that is cheaper than the first one, else nil, and whether
// it was ended before.
func (r *refiner) anneal(evaluations int64, ended func() bool) (best []part, early bool) {
	scale := r.cost
	r.best = r.cost
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
		r.evaluations++
		if !r.propose() {
			continue
		}
		goal, cost, sum := r.goal(), r.cost, r.sum
		r.try()
		rise := r.goal() - goal
		if rise > 0 {
			share := float64(r.evaluations) / float64(evaluations)
			if r.draw.Float64() >= math.Exp(-rise/(scale*hot*math.Pow(cold/hot, share))) {
				r.undo(cost, sum)
				continue
			}
		}
		if unsaved && r.cost > r.best {
			save()
		}
		r.accept()
		if r.cost < r.best {
			r.best, unsaved = r.cost, true
		}
	}
	if unsaved {
		save()
	}
	return best, early
}

// try applies the proposed change to the scorer.
func (r *refiner) try() {
	r.touched, r.before = r.touched[:0], r.before[:0]
	for _, slot := range r.gone {
		r.score(r.parts[slot], r.scorer.Remove)
		r.touch(r.parts[slot].device)
	}
	for _, p := range r.come {
		r.score(p, r.scorer.Add)
		r.touch(p.device)
	}
	for _, d := range r.touched {
		r.before = append(r.before, r.compute[d])
		r.sum -= r.compute[d]
		r.compute[d] = r.scorer.Compute(int(d))
		r.sum += r.compute[d]
	}
	r.cost = r.scorer.Cost()
	r.evaluations += int64(len(r.touched)) - 1
}

func (r *refiner) touch(device int32) {
	if !slices.Contains(r.touched, device) {
		r.touched = append(r.touched, device)
	}
}

// undo takes the tried change back.
func (r *refiner) undo(cost, sum float64) {
	for _, p := range r.come {
		r.score(p, r.scorer.Remove)
	}
	for _, slot := range r.gone {
		r.score(r.parts[slot], r.scorer.Add)
	}
	for i, d := range r.touched {
		r.compute[d] = r.before[i]
	}
	r.cost, r.sum = cost, sum
}

// accept takes the tried change into the lists.
func (r *refiner) accept() {
	for _, slot := range r.gone {
		r.remove(slot)
	}
	for _, p := range r.come {
		r.insert(p)
	}
	r.findDearest()
}

// propose draws a change into gone and come and reports whether it can be made.
func (r *refiner) propose() bool {
	r.gone, r.come = r.gone[:0], r.come[:0]
	slot := r.live[r.draw.IntN(len(r.live))]
	if on := r.held[r.dearest]; r.draw.IntN(2) == 0 && len(on) > 0 {
		slot = on[r.draw.IntN(len(on))]
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
	r.bring(p.kind, to)
	return r.fits()
}

// other draws an allowed device other than a part's own.
func (r *refiner) other(p part) (int32, bool) {
	allowed := r.c.allowed(&r.c.kinds[p.kind])
	if len(allowed) < 2 {
		return 0, false
	}
	i := r.draw.IntN(len(allowed) - 1)
	if allowed[i] == p.device || allowed[i] > p.device {
		i++ // the devices are ascending
	}
	return allowed[i], allowed[i] != p.device
}

// bring lets a kind come to a device, where it widens the slices of its table that
// stay there.
func (r *refiner) bring(kind, device int32) {
	if table, ok := r.table(kind); ok {
		for _, slot := range r.tables[table] {
			if r.parts[slot].device == device && !slices.Contains(r.gone, slot) {
				r.gone = append(r.gone, slot)
				kind = r.c.slice(kind, r.c.kinds[kind].members[0].width+r.width(slot))
			}
		}
	}
	r.come = append(r.come, part{kind, device})
}

// fits reports whether the devices have room for the change, and lets the scorer
// know its kinds.
func (r *refiner) fits() bool {
	for i, p := range r.come {
		bytes := r.bytes[p.device]
		for _, slot := range r.gone {
			if r.parts[slot].device == p.device {
				bytes -= r.c.kinds[r.parts[slot].kind].bytes
			}
		}
		for _, q := range r.come {
			if q.device == p.device {
				bytes += r.c.kinds[q.kind].bytes
			}
		}
		if bytes > r.c.budget {
			return false
		}
		r.c.items(&r.c.kinds[r.come[i].kind])
	}
	return true
}

// swap exchanges two slices of two devices.
func (r *refiner) swap(slot int32) bool {
	p := r.parts[slot]
	other := r.live[r.draw.IntN(len(r.live))]
	q := r.parts[other]
	if q.device == p.device || q.kind == p.kind || !r.allows(p.kind, q.device) || !r.allows(q.kind, p.device) {
		return false
	}
	r.gone = append(r.gone, slot, other)
	r.bring(p.kind, q.device)
	r.bring(q.kind, p.device)
	return r.fits()
}

func (r *refiner) allows(kind, device int32) bool {
	devices := r.c.kinds[kind].devices
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
	r.come = append(r.come, part{r.c.slice(p.kind, left), p.device})
	r.bring(r.c.slice(p.kind, r.c.kinds[p.kind].members[0].width-left), to)
	return r.fits()
}

// cut draws the width that is left of a slice when another part is cut off: half of
// it, as often as any.
func (r *refiner) cut(slot int32) (left int, ok bool) {
	const g = problem.ColumnGranule
	table, single := r.table(r.parts[slot].kind)
	if !single {
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
	table, ok := r.table(p.kind)
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
		r.bring(p.kind, to)
		return r.fits()
	}
	left, ok := r.cut(slot)
	if !ok {
		return false
	}
	r.come = append(r.come, part{r.c.slice(p.kind, left), p.device})
	r.bring(r.c.slice(p.kind, r.width(slot)-left), to)
	return r.fits()
}
