package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/feature"
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
	sums  [feature.LaneClasses]feature.Sums
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
			group.sums = [feature.LaneClasses]feature.Sums{}
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
	table := &s.pool.tables[it.table].described
	group := &state.groups[it.operation]
	if table.Counts.Lookups > 0 {
		group.wide[it.lanes] += sign
	}
	for l := it.lanes; l < feature.LaneClasses; l++ {
		sum, add := group.heads[l], it.head[l]
		if sign > 0 {
			for i, v := range add {
				sum[i] += v
			}
			group.sums[l].Add(table, it.scale[l])
		} else {
			for i, v := range add {
				sum[i] -= v
			}
			group.sums[l].Remove(table, it.scale[l])
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
			state.compute += s.operation(g, &state.groups[g], nil).total()
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
			total += s.operation(g, &state.groups[g], added).total()
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

// fusedTimes are the predicted times of one fused operation, in ms.
type fusedTimes struct{ forward, backward float64 }

func (t fusedTimes) total() float64 { return t.forward + t.backward }

// operation predicts one group, with a slice added where added is not nil.
func (s *Scorer) operation(index int, group *groupState, added *item) fusedTimes {
	lanes := feature.LaneClasses - 1
	for lanes >= 0 && group.wide[lanes] == 0 && (added == nil || int(added.lanes) != lanes) {
		lanes--
	}
	if lanes < 0 {
		return fusedTimes{}
	}
	net := &s.pool.model.compute
	sums := group.sums[lanes]
	heads := group.heads[lanes]
	var extra []int32
	if added != nil {
		sums.Add(&s.pool.tables[added.table].described, added.scale[lanes])
		extra = added.head[lanes]
	}
	if sums.Shards == 0 {
		return fusedTimes{}
	}
	var scalars [feature.ScalarCount]float32
	sums.Scalars(scalars[:], &s.pool.model.hardware, s.pool.operations[index], feature.Lanes(lanes))
	quantum := float32(s.pool.quantum)
	var forward, backward float32
	for i, v := range heads {
		if extra != nil {
			v += extra[i]
		}
		w := net.scalars[i*feature.ScalarCount:][:feature.ScalarCount]
		z := float32(v)*quantum + w[0]*scalars[0] + w[1]*scalars[1] + w[2]*scalars[2]
		if z > 0 {
			forward += net.forward[i] * z
			backward += net.backward[i] * z
		}
	}
	return fusedTimes{
		forward:  net.launchForward + math.Max(0, float64(forward)),
		backward: net.launchBackward + math.Max(0, float64(backward)),
	}
}
