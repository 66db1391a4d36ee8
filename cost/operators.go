package cost

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/feature"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/internal/groups"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/unit"
)

// fewMoved is the number of items up to which looking for those that differ is more work than
// adding all of them, and mostMoved the most items of both lists that are looked up in each other.
const fewMoved, mostMoved = 4, 8

// operators keep the predicted times of the operators of one class while slices are
// added and removed. The operators are on a number of devices: on all devices, on one
// device for each host, or on a single device if all devices hold the same.
//
// Work is delayed. Adding a slice only records the slice. When the time of a group is
// needed, it is looked up by the group's content; only if no such group was predicted
// before are the vectors of the new slices summed.
type operators struct {
	slices *embeddings
	// count is the number of operators of a device, and units that of units of the head.
	// count grows when the first slice of an operator with a higher number is added.
	count, units int
	devices      []deviceState
	groups       []groupState // of device d and operator o: d*count + o
	memo         groups.Memo
	// gone and come are the results of differing.
	gone, come []int32
	// penalty is the risk penalty: the number of standard deviations of an ensemble's
	// members that is added to their mean.
	penalty float64
}

// deviceState is what a device holds, in all its groups.
type deviceState struct {
	dimSum int
	shards int
	// compute is the predicted time; it is valid if known is true.
	compute float64
	known   bool
}

// groupState is the shards of one device that fuse into one operator.
type groupState struct {
	key groups.Key
	// items are the slices with lookups; wide counts them by the lane class of their
	// own width. The widest slice decides the group's class.
	items []int32
	wide  [feature.LaneClasses]int32
	// sums holds the sums for each lane class that operators can have, from the lowest on.
	sums []laneSums
}

// laneSums sum up a list of items for one lane class. They are updated when they are
// needed, so a slice that is removed and added again costs no work.
type laneSums struct {
	items []int32
	// same is the number of first items that are known to equal the group's first items.
	same int
	// head is the sum of the items' vectors, and scalars the sum of their parts.
	head    []int32
	scalars feature.Sums
}

// newOperators returns the operators of a class on a number of devices. The devices
// hold nothing.
func newOperators(slices *embeddings, devices int, penalty float64) *operators {
	s := &operators{slices: slices, units: slices.model.compute.head, penalty: penalty, devices: make([]deviceState, devices)}
	s.grow()
	return s
}

// grow makes room for all operators of the slices that are registered by now.
func (s *operators) grow() {
	before, count := s.count, len(s.slices.rates)
	groups := make([]groupState, len(s.devices)*count)
	classes := s.slices.classes
	sums := make([]laneSums, len(s.devices)*(count-before)*classes)
	numbers := make([]int32, len(sums)*s.units)
	for d := range s.devices {
		of := groups[d*count:][:count]
		for o := copy(of, s.groups[d*before:][:before]); o < count; o++ {
			of[o].sums, sums = sums[:classes:classes], sums[classes:]
			for l := range of[o].sums {
				of[o].sums[l].head, numbers = numbers[:s.units:s.units], numbers[s.units:]
			}
		}
	}
	s.count, s.groups = count, groups
}

// reset empties all devices.
func (s *operators) reset() {
	for d := range s.devices {
		if s.devices[d].shards == 0 {
			continue
		}
		s.devices[d] = deviceState{}
		for o := range s.count {
			g := &s.groups[d*s.count+o]
			g.key, g.items, g.wide = groups.Key{}, g.items[:0], [feature.LaneClasses]int32{}
			g.changed(0)
		}
	}
}

// changed records that the group's items may differ from the given position on.
func (g *groupState) changed(at int) {
	for l := range g.sums {
		g.sums[l].same = min(g.sums[l].same, at)
	}
}

// add puts a slice on a device.
func (s *operators) add(device, slice int) {
	it := &s.slices.items[slice]
	state := &s.devices[device]
	state.known = false
	state.shards++
	state.dimSum += it.dimSum
	if it.unread {
		return
	}
	if int(it.operator) >= s.count {
		s.grow()
	}
	g := &s.groups[device*s.count+int(it.operator)]
	g.key = g.key.Plus(it.key)
	g.items = append(g.items, int32(slice))
	g.wide[it.lanes]++
}

// remove takes a slice off a device that holds it. It is the exact inverse of add.
func (s *operators) remove(device, slice int) {
	it := &s.slices.items[slice]
	state := &s.devices[device]
	state.known = false
	state.shards--
	state.dimSum -= it.dimSum
	if it.unread {
		return
	}
	g := &s.groups[device*s.count+int(it.operator)]
	g.key = g.key.Minus(it.key)
	g.wide[it.lanes]--
	last := len(g.items) - 1
	at := last
	for g.items[at] != int32(slice) {
		at--
	}
	g.items[at] = g.items[last]
	g.items = g.items[:last]
	g.changed(at)
}

// sum returns the sums of the group for a lane class that is not below its own.
func (s *operators) sum(g *groupState, lanes feature.Lanes) *laneSums {
	l := &g.sums[lanes-s.slices.lowest]
	n := l.same
	for n < len(g.items) && n < len(l.items) && g.items[n] == l.items[n] {
		n++
	}
	gone, come := l.items[n:], g.items[n:]
	if min(len(gone), len(come)) > fewMoved {
		gone, come = s.differing(gone, come)
	}
	if len(gone)+len(come) > len(g.items) { // adding anew is less work
		clear(l.head)
		l.scalars = feature.Sums{}
		gone, come = nil, g.items
	}
	for _, i := range gone {
		it := &s.slices.items[i]
		f32.SubInts(l.head, it.head(lanes, s.units))
		l.scalars.Remove(it.part(lanes))
	}
	for _, i := range come {
		it := &s.slices.items[i]
		f32.AddInts(l.head, it.head(lanes, s.units))
		l.scalars.Add(it.part(lanes))
	}
	l.items = append(l.items[:n], g.items[n:]...)
	l.same = len(g.items)
	return l
}

// differing returns the items of two lists without those that are in both, if they differ by few
// items. A slice that leaves a group changes places with the last one, so the lists are compared
// place by place first. The results are valid until the next call.
func (s *operators) differing(a, b []int32) (gone, come []int32) {
	both := min(len(a), len(b))
	s.gone, s.come = s.gone[:0], s.come[:0]
	for i, item := range a[:both] {
		if item != b[i] {
			s.gone, s.come = append(s.gone, item), append(s.come, b[i])
		}
	}
	s.gone, s.come = append(s.gone, a[both:]...), append(s.come, b[both:]...)
	if len(s.gone)+len(s.come) > mostMoved {
		return s.gone, s.come
	}
	come = s.come[:0]
	for _, item := range s.come {
		if at := slices.Index(s.gone, item); at >= 0 {
			s.gone = slices.Delete(s.gone, at, at+1)
		} else {
			come = append(come, item)
		}
	}
	return s.gone, come
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
	state.compute, state.known = s.with(device, nil), true
}

// computeWith sets out[i] to what compute(devices[i]) would return if the slice were
// added. It does not change the placement.
func (s *operators) computeWith(slice int, devices []int32, out []float64) {
	it := &s.slices.items[slice]
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
		total += s.group(o, &s.groups[device*s.count+o], joins)
	}
	return total
}

// group returns the predicted time of one group, with an item added if added is not
// nil. If a group of equal content was predicted before, the time comes from memory.
func (s *operators) group(operator int, g *groupState, added *item) float64 {
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
		in := s.input(operator, g, added)
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
		forward, backward := s.parts(o, &s.groups[device*s.count+o])
		d.Forward += unit.Millis(forward)
		d.Backward += unit.Millis(backward)
	}
}

// parts predicts the forward and the backward of one group separately. Their sum is
// exactly what group returns, which rounds once.
func (s *operators) parts(operator int, g *groupState) (forward, backward float64) {
	if len(g.items) == 0 {
		return 0, 0
	}
	both := s.group(operator, g, nil)
	in := s.input(operator, g, nil)
	net := &s.slices.model.compute
	forward = float64(f32.FoldedHead(in.sums, in.extra, float32(s.slices.quantum), &in.scalars, &net.scalars, net.forward))
	forward = math.Min(net.launchForward+math.Max(0, forward), both)
	return forward, both - forward
}

// noPart adds nothing; it is only read.
var noPart feature.Part

// headInput is the input of the head for a group.
type headInput struct {
	sums, extra []int32
	scalars     [feature.ScalarCount]float32
}

// input returns the input of the head for a group with an additional item, or without
// if added is nil. The widest slice decides the lane class of all slices.
func (s *operators) input(operator int, g *groupState, added *item) (in headInput) {
	lowest := s.slices.lowest
	lanes := lowest + feature.Lanes(s.slices.classes-1)
	for lanes > lowest && g.wide[lanes] == 0 {
		lanes--
	}
	in.extra = s.slices.none
	part := &noPart
	if added != nil {
		lanes = max(lanes, added.lanes)
		in.extra, part = added.head(lanes, s.units), added.part(lanes)
	}
	sums := s.sum(g, lanes)
	in.sums = sums.head
	sums.scalars.Scalars(&in.scalars, &s.slices.rates[operator], lanes, part)
	return in
}
