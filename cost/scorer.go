package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/feature"
	"github.com/neuroshard/neuroshard/internal/f32"
)

// Scorer keeps the predicted price of a placement while shards come and go. It
// serves one goroutine; Scorers of one Pool share the pool's items.
type Scorer struct {
	pool    *Pool
	devices []deviceState
	comm    commWork
}

// deviceState is what a device holds, one group for each operation of the
// problem.
type deviceState struct {
	groups []groupState
	dimSum int
	shards int
	// compute is the predicted time, where known is true.
	compute float64
	known   bool
}

// groupState is the shards of one device that fuse into one operation.
type groupState struct {
	// wide counts the shards by the lane class of their own width: the widest
	// present decides which of heads and sums holds.
	wide  [feature.LaneClasses]int32
	heads [feature.LaneClasses][]int32
	sums  feature.Sums
}

// NewScorer returns an empty placement on the problem's devices.
func (p *Pool) NewScorer() *Scorer {
	s := &Scorer{pool: p, devices: make([]deviceState, p.cluster.Devices)}
	head := p.model.compute.head
	numbers := make([]int32, len(s.devices)*len(p.operations)*feature.LaneClasses*head)
	groups := make([]groupState, len(s.devices)*len(p.operations))
	for d := range s.devices {
		s.devices[d].groups, groups = groups[:len(p.operations):len(p.operations)], groups[len(p.operations):]
		for g := range s.devices[d].groups {
			for l := range feature.LaneClasses {
				s.devices[d].groups[g].heads[l], numbers = numbers[:head:head], numbers[head:]
			}
		}
	}
	return s
}

// Item registers a column slice: see Pool.Item.
func (s *Scorer) Item(table, width int) int { return s.pool.Item(table, width) }

// Reset empties all devices.
func (s *Scorer) Reset() {
	for d := range s.devices {
		state := &s.devices[d]
		if state.shards == 0 {
			continue
		}
		for g := range state.groups {
			group := &state.groups[g]
			for l := range feature.LaneClasses {
				clear(group.heads[l])
			}
			group.wide = [feature.LaneClasses]int32{}
			group.sums = feature.Sums{}
		}
		state.dimSum, state.shards, state.compute, state.known = 0, 0, 0, false
	}
}

// Add puts a slice on a device.
func (s *Scorer) Add(device, slice int) { s.shift(device, slice, 1) }

// Remove takes a slice off a device that holds it. It undoes Add exactly.
func (s *Scorer) Remove(device, slice int) { s.shift(device, slice, -1) }

func (s *Scorer) shift(device, slice int, sign int32) {
	it := &s.pool.items[slice]
	state := &s.devices[device]
	state.known = false
	state.shards += int(sign)
	state.dimSum += int(sign) * it.dimSum
	group := &state.groups[it.operation]
	if sign > 0 {
		group.sums.Add(&it.part)
	} else {
		group.sums.Remove(&it.part)
	}
	if !it.part.Empty() {
		group.wide[it.lanes] += sign
	}
	for l := it.lanes; l < feature.LaneClasses; l++ {
		if sign > 0 {
			f32.AddInts(group.heads[l], it.head[l])
		} else {
			f32.SubInts(group.heads[l], it.head[l])
		}
	}
}

// Compute returns the predicted time, in ms, of the fused forwards and
// backwards of what the device holds; 0 where that is nothing.
func (s *Scorer) Compute(device int) float64 {
	state := &s.devices[device]
	if !state.known {
		state.compute = 0
		for g := range state.groups {
			state.compute += s.group(g, &state.groups[g], nil)
		}
		state.known = true
	}
	return state.compute
}

// ComputeWith returns, for each of the devices, what Compute would return with
// the slice added there. It changes nothing.
func (s *Scorer) ComputeWith(slice int, devices []int32, out []float64) {
	it := &s.pool.items[slice]
	for i, d := range devices {
		state := &s.devices[d]
		total := 0.0
		for g := range state.groups {
			var added *item
			if g == it.operation {
				added = it
			}
			total += s.group(g, &state.groups[g], added)
		}
		out[i] = total
	}
}

// Cost returns the predicted cost of the placement, in ms: the longest compute
// and both all-to-alls.
//
// A device that is ready early waits for the last, so every device ends its
// forward exchange with the slowest and the maximum over devices of compute,
// backward and forward exchange is the longest compute, plus the exchanges,
// plus the longest packing.
func (s *Scorer) Cost() float64 {
	longest := 0.0
	for d := range s.devices {
		longest = math.Max(longest, s.Compute(d))
	}
	load := s.load()
	times := s.pool.model.comm.times(s.pool.cluster, load, &s.comm)
	return finite(longest + times.backward + times.forward + s.pool.model.comm.pack(s.pool.cluster, load.Max))
}

func (s *Scorer) load() CommLoad {
	load := CommLoad{Min: math.MaxInt}
	for d := range s.devices {
		sum := s.devices[d].dimSum
		load.Max, load.Min, load.Sum = max(load.Max, sum), min(load.Min, sum), load.Sum+sum
	}
	return load
}

// group predicts the time of one group, with a slice added where added is not
// nil.
func (s *Scorer) group(operation int, group *groupState, added *item) float64 {
	in, ok := s.head(operation, group, added)
	if !ok {
		return 0
	}
	net := &s.pool.model.compute
	both := f32.FoldedHead(in.sums, in.extra, float32(s.pool.quantum), &in.scalars, &net.scalars, net.both)
	return net.launchForward + net.launchBackward + math.Max(0, float64(both))
}

// parts predicts the forward and the backward of one group apart. Their sum is
// exactly what group returns, which rounds once.
func (s *Scorer) parts(operation int, group *groupState) (forward, backward float64) {
	in, ok := s.head(operation, group, nil)
	if !ok {
		return 0, 0
	}
	net := &s.pool.model.compute
	both := s.group(operation, group, nil)
	forward = float64(f32.FoldedHead(in.sums, in.extra, float32(s.pool.quantum), &in.scalars, &net.scalars, net.forward))
	forward = math.Min(net.launchForward+math.Max(0, forward), both)
	return forward, both - forward
}

// noPart adds nothing; it is only read.
var noPart feature.Part

// headInput is what the head reads of a group.
type headInput struct {
	sums, extra []int32
	scalars     [feature.ScalarCount]float32
}

// head returns the input of the head, and false for a group without lookups.
// The widest slice decides the lane class of all.
func (s *Scorer) head(operation int, group *groupState, added *item) (in headInput, ok bool) {
	lanes := feature.LaneClasses - 1
	for lanes > 0 && group.wide[lanes] == 0 {
		lanes--
	}
	in.extra = s.pool.none
	part := &noPart
	if added != nil && !added.part.Empty() {
		lanes = max(lanes, int(added.lanes))
		in.extra, part = added.head[lanes], &added.part
	}
	if group.sums.Shards() == 0 && part.Empty() {
		return in, false
	}
	in.sums = group.heads[lanes]
	group.sums.Scalars(&in.scalars, &s.pool.rates[operation], feature.Lanes(lanes), part)
	return in, true
}
