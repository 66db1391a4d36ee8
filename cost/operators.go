package cost

import (
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/internal/groups"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/unit"
)

// operators keep the predicted times of the operators of one class while slices are
// added and removed. The operators are on a number of devices: on all devices, on one
// device for each host, or on a single device if all devices hold the same.
//
// Work is delayed. Adding a slice only records the slice. When the time of a device is needed,
// it is one of the two last times if the device holds what it held then. Otherwise the time of each
// group is looked up by the group's content; only if no such group was predicted
// before are the vectors of the new slices summed.
type operators struct {
	slices *embeddings
	// count is the number of operators of a device. It grows when the first slice of an operator
	// with a higher number is added.
	count   int
	devices []deviceState
	// groups and lanes are by operator: the group of each device, and the lane classes of each
	// group, from the lowest that operators can have on.
	groups [][]groupState
	lanes  [][]laneState
	// factors are those of the operators in the key of a device.
	factors []groups.Key
	sums    sums
	memo    groups.Memo
	// extra and scalars are scratch.
	extra   []int32
	scalars feature.Sums
	// penalty is the risk penalty: the number of standard deviations of an ensemble's
	// members that is added to their mean.
	penalty float64
}

// deviceState is what a device holds, in all its groups.
type deviceState struct {
	// compute is the predicted time; it is valid if known is true.
	compute float64
	known   bool
	shards  int32
	dimSum  int
	// key is that of all groups together. last and before are the last two times that were
	// predicted: a change that is tried and taken back needs no prediction.
	key          groups.Key
	last, before timeOf
}

// timeOf is the time of a device that holds what the key says.
type timeOf struct {
	key     groups.Key
	compute float64
}

// groupState is the shards of one device that fuse into one operator.
type groupState struct {
	key groups.Key
	// items are the slices with lookups; wide counts them by the lane class of their
	// own width. The widest slice decides the group's class.
	items []int32
	wide  [feature.LaneClasses]int32
}

// mostPending is the most slices that may have come or gone since the sums of a lane class were
// brought up to date. With more, the sums are computed anew.
const mostPending = 6

// laneState is what is known of a group's sums for one lane class:
//
//	the slices of the group = those of the sums, with the pending changes
//
// Most changes of a search are tried and taken back. So a change becomes a part of the sums only
// if it is still there when the group is predicted the next time. Until then its vectors are added
// to those of the sums for each prediction.
type laneState struct {
	// pending are the slices that came, by number, and the complements of those that went.
	pending [mostPending]int32
	// count is the number of pending changes. The first old of them were there at the last
	// prediction.
	count, old uint8
	// known says that the sums are those of some list of slices.
	known bool
	// at is the number of the sums; none before the first prediction.
	at int32
}

const none = -1

// changed records that a slice came, or went if change is the complement of the slice's number.
func (l *laneState) changed(change int32) {
	for i := range l.count {
		if l.pending[i] == ^change {
			if i < l.old {
				l.old--
				l.pending[i] = l.pending[l.old]
				i = l.old
			}
			l.count--
			l.pending[i] = l.pending[l.count]
			return
		}
	}
	if l.count == mostPending {
		l.known = false
		return
	}
	l.pending[l.count] = change
	l.count++
}

// sums are the sums of vectors, for groups and lane classes: those of the embeddings, and of the
// parts. They get memory when they are first asked for.
type sums struct {
	units   int
	heads   [][]int32
	scalars [][]feature.Sums
	count   int
}

const sumsInBlock = 64

// add adds sums of nothing and returns their number.
func (s *sums) add() int32 {
	if s.count%sumsInBlock == 0 {
		s.heads, s.scalars = append(s.heads, make([]int32, sumsInBlock*s.units)), append(s.scalars, make([]feature.Sums, sumsInBlock))
	}
	s.count++
	return int32(s.count - 1)
}

// of returns the sums of a number.
func (s *sums) of(i int32) (head []int32, scalars *feature.Sums) {
	from := int(i) % sumsInBlock * s.units
	return s.heads[i/sumsInBlock][from : from+s.units : from+s.units], &s.scalars[i/sumsInBlock][i%sumsInBlock]
}

// newOperators returns the operators of a class on a number of devices. The devices
// hold nothing.
func newOperators(slices *embeddings, devices int, penalty float64) *operators {
	units := slices.model.compute.head
	s := &operators{slices: slices, penalty: penalty, devices: make([]deviceState, devices), sums: sums{units: units}, extra: make([]int32, units)}
	s.grow()
	return s
}

// grow makes room for all operators of the slices that are registered by now.
func (s *operators) grow() {
	classes := s.slices.classes
	for ; s.count < len(s.slices.rates); s.count++ {
		lanes := make([]laneState, len(s.devices)*classes)
		for i := range lanes {
			lanes[i].at = none
		}
		s.groups, s.lanes = append(s.groups, make([]groupState, len(s.devices))), append(s.lanes, lanes)
		s.factors = append(s.factors, groups.Factor(s.count))
	}
}

// reset empties all devices.
func (s *operators) reset() {
	for d := range s.devices {
		if s.devices[d].shards == 0 {
			continue
		}
		s.devices[d] = deviceState{}
		for o := range s.count {
			g := &s.groups[o][d]
			g.key, g.items, g.wide = groups.Key{}, g.items[:0], [feature.LaneClasses]int32{}
			lanes := s.lanesOf(o, d)
			for l := range lanes {
				lanes[l].known = false
			}
		}
	}
}

// lanesOf returns the lane classes of a device's group.
func (s *operators) lanesOf(operator, device int) []laneState {
	classes := s.slices.classes
	return s.lanes[operator][device*classes:][:classes]
}

// add puts a slice on a device.
func (s *operators) add(device, slice int) {
	it := s.slices.at(slice)
	state := &s.devices[device]
	state.known = false
	state.shards++
	state.dimSum += it.dimSum
	if it.unread {
		return
	}
	operator := int(it.operator)
	if operator >= s.count {
		s.grow()
	}
	state.key = state.key.Plus(it.key.Times(s.factors[operator]))
	g := &s.groups[operator][device]
	g.key = g.key.Plus(it.key)
	if g.items == nil {
		g.items = make([]int32, 0, fewItems)
	}
	g.items = append(g.items, int32(slice))
	g.wide[it.lanes]++
	s.changed(operator, device, int32(slice))
}

// fewItems is the number of slices that a group has room for from the start.
const fewItems = 8

// changed records a change of a group for the lane classes whose sums are known.
func (s *operators) changed(operator, device int, change int32) {
	lanes := s.lanesOf(operator, device)
	for l := range lanes {
		if lanes[l].known {
			lanes[l].changed(change)
		}
	}
}

// remove takes a slice off a device that holds it. It is the exact inverse of add.
func (s *operators) remove(device, slice int) {
	it := s.slices.at(slice)
	state := &s.devices[device]
	state.known = false
	state.shards--
	state.dimSum -= it.dimSum
	if it.unread {
		return
	}
	operator := int(it.operator)
	state.key = state.key.Minus(it.key.Times(s.factors[operator]))
	g := &s.groups[operator][device]
	g.key = g.key.Minus(it.key)
	g.wide[it.lanes]--
	last := len(g.items) - 1
	at := last
	for g.items[at] != int32(slice) {
		at--
	}
	g.items[at] = g.items[last]
	g.items = g.items[:last]
	s.changed(operator, device, ^int32(slice))
}

// settle makes the first n pending changes a part of the sums.
func (s *operators) settle(l *laneState, lanes feature.Lanes, n uint8) {
	if n == 0 {
		return
	}
	head, scalars := s.sums.of(l.at)
	for _, change := range l.pending[:n] {
		s.apply(head, scalars, change, lanes)
	}
	copy(l.pending[:], l.pending[n:l.count])
	l.count -= n
	l.old -= min(l.old, n)
}

// apply adds a slice to sums for a lane class, or removes it if change is the complement of its
// number.
func (s *operators) apply(head []int32, scalars *feature.Sums, change int32, lanes feature.Lanes) {
	if change >= 0 {
		at := s.slices.at(int(change)).vectorFor(lanes)
		f32.AddInts(head, s.slices.vectors.head(at))
		scalars.Add(s.slices.vectors.part(at))
		return
	}
	at := s.slices.at(int(^change)).vectorFor(lanes)
	f32.SubInts(head, s.slices.vectors.head(at))
	scalars.Remove(s.slices.vectors.part(at))
}

// sumUp computes the sums of a group for a lane class anew.
func (s *operators) sumUp(g *groupState, l *laneState, lanes feature.Lanes) {
	if l.at == none {
		l.at = s.sums.add()
	}
	head, scalars := s.sums.of(l.at)
	clear(head)
	*scalars = feature.Sums{}
	for _, i := range g.items {
		s.apply(head, scalars, i, lanes)
	}
	l.known, l.count, l.old = true, 0, 0
}

// compute returns the predicted time, in ms, of the fused forwards and backwards of the
// slices that the device holds; 0 if the device holds nothing. The method is small, so
// that the compiler can inline it into loops over all devices.
func (s *operators) compute(device int) float64 {
	if !s.devices[device].known {
		s.predict(device)
	}
	return s.devices[device].compute
}

// predict predicts the time of a device that changed since the last time. It is a call,
// so that compute is none.
//
//go:noinline
func (s *operators) predict(device int) {
	state := &s.devices[device]
	state.known = true
	switch {
	case state.last.key == state.key:
	case state.before.key == state.key:
		state.last, state.before = state.before, state.last
	default:
		state.before = state.last
		state.last = timeOf{state.key, s.with(device, nil)}
	}
	state.compute = state.last.compute
}

// computeWith sets out[i] to what compute(devices[i]) would return if the slice were
// added. It does not change the placement.
func (s *operators) computeWith(slice int, devices []int32, out []float64) {
	it := s.slices.at(slice)
	if int(it.operator) >= s.count {
		s.grow()
	}
	for i, d := range devices {
		out[i] = s.with(int(d), it)
	}
}

// with returns the predicted time of a device, with an item added if added is not nil.
func (s *operators) with(device int, added *item) float64 {
	total := 0.0
	for o := range s.count {
		joins := added
		if added != nil && int(added.operator) != o {
			joins = nil
		}
		total += s.group(o, device, joins)
	}
	return total
}

// group returns the predicted time of one group, with an item added if added is not
// nil. If a group of equal content was predicted before, the time comes from memory.
func (s *operators) group(operator, device int, added *item) float64 {
	g := &s.groups[operator][device]
	key := g.key
	if added != nil {
		if added.unread {
			added = nil
		} else {
			key = key.Plus(added.key)
		}
	}
	if added == nil && len(g.items) == 0 {
		return 0
	}
	net := &s.slices.model.compute
	both, known := s.memo.At(key)
	if !known {
		in := s.input(operator, device, added)
		*both = f32.FoldedHead(in.sums, in.extra, float32(s.slices.quantum), &in.scalars, &net.scalars, net.both)
		if s.penalty > 0 {
			*both += float32(s.penalty * s.deviation(&in))
		}
	}
	return net.launchForward + net.launchBackward + max(0, float64(*both))
}

// addTo adds the predicted times of a device's forwards and backwards to d.
func (s *operators) addTo(d *plan.StepTimes, device int) {
	for o := range s.count {
		forward, backward := s.parts(o, device)
		d.Forward += unit.Millis(forward)
		d.Backward += unit.Millis(backward)
	}
}

// parts predicts the forward and the backward of one group separately. Their sum is
// exactly what group returns, which rounds once.
func (s *operators) parts(operator, device int) (forward, backward float64) {
	if len(s.groups[operator][device].items) == 0 {
		return 0, 0
	}
	both := s.group(operator, device, nil)
	in := s.input(operator, device, nil)
	net := &s.slices.model.compute
	forward = float64(f32.FoldedHead(in.sums, in.extra, float32(s.slices.quantum), &in.scalars, &net.scalars, net.forward))
	return net.divide(forward, both)
}

// noPart adds nothing; it is only read.
var noPart feature.Part

// headInput is the input of the head for a group.
type headInput struct {
	sums, extra []int32
	scalars     [feature.ScalarCount]float32
}

// input returns the input of the head for a group with an additional item, or without
// if added is nil. The widest slice decides the lane class of all slices. The input is valid until
// the next call.
func (s *operators) input(operator, device int, added *item) (in headInput) {
	g, lowest := &s.groups[operator][device], s.slices.lowest
	lanes := lowest + feature.Lanes(s.slices.classes-1)
	for lanes > lowest && g.wide[lanes] == 0 {
		lanes--
	}
	if added != nil {
		lanes = max(lanes, added.lanes)
	}
	l := &s.lanesOf(operator, device)[lanes-lowest]
	switch {
	case !l.known:
		s.sumUp(g, l, lanes)
	case added != nil:
		s.settle(l, lanes, l.count)
	default:
		s.settle(l, lanes, l.old)
		l.old = l.count
	}
	sums, scalars := s.sums.of(l.at)
	in.sums, in.extra = sums, s.slices.none
	rates := &s.slices.rates[operator]
	switch {
	case added != nil:
		at := added.vectorFor(lanes)
		in.extra = s.slices.vectors.head(at)
		scalars.Scalars(&in.scalars, rates, lanes, s.slices.vectors.part(at))
	case l.count == 0:
		scalars.Scalars(&in.scalars, rates, lanes, &noPart)
	default:
		clear(s.extra)
		s.scalars = *scalars
		for _, change := range l.pending[:l.count] {
			s.apply(s.extra, &s.scalars, change, lanes)
		}
		in.extra = s.extra
		s.scalars.Scalars(&in.scalars, rates, lanes, &noPart)
	}
	return in
}
