package prototype

import (
	"math"

	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Scorer keeps the predicted cost of a placement while shards are added and removed.
// Only one goroutine may use it. All Scorers of one Estimates share its items.
//
// For a device without tables, Cost and Breakdown use the output of the net, as the
// prototype does. Compute returns 0, as in the prototype's greedy search.
type Scorer struct {
	estimates *Estimates
	// sums is a matrix, one row for each device.
	sums    []int32
	devices []deviceState
	heads   []float32 // scratch of ComputeWith
	// The comm nets, and the times at which the devices enter the forward exchange.
	backward, forward *f32.Stack
	starts            []float32
}

type deviceState struct {
	dimSum, shards int32
	// compute is the predicted time; it is valid if known is true.
	known   bool
	compute float64
}

// NewScorer returns an empty placement on the problem's devices.
func (p *Estimates) NewScorer() *Scorer {
	n := p.problem.Topology.Devices
	s := &Scorer{
		estimates: p, sums: make([]int32, 0, n*len(p.start)), devices: make([]deviceState, n), heads: make([]float32, n),
		backward: f32.NewStack(p.back.layers...), forward: f32.NewStack(p.forward.layers...), starts: make([]float32, n),
	}
	for range n {
		s.sums = append(s.sums, p.start...)
	}
	return s
}

// Item registers a slice of columns in HBM: see Estimates.Item. The nets know no other
// form: Item panics on one.
func (s *Scorer) Item(table, width int, form problem.Form) int {
	if form != (problem.Form{}) {
		panic("prototype: the nets only know slices of columns in HBM")
	}
	return s.estimates.Item(table, width)
}

// Shared returns 0: the nets know no cost that all devices share.
func (s *Scorer) Shared() float64 { return 0 }

// Reset empties all devices.
func (s *Scorer) Reset() {
	for d := range s.devices {
		if s.devices[d].shards != 0 {
			copy(s.row(d), s.estimates.start)
			s.devices[d] = deviceState{}
		}
	}
}

// Add puts a slice on a device.
func (s *Scorer) Add(device, slice int) {
	it, state := &s.estimates.items[slice], &s.devices[device]
	f32.AddInts(s.row(device), it.sums)
	state.shards++
	state.dimSum += it.dim
	state.known = false
}

// Remove takes a slice off a device that holds it. It undoes Add exactly.
func (s *Scorer) Remove(device, slice int) {
	it, state := &s.estimates.items[slice], &s.devices[device]
	f32.SubInts(s.row(device), it.sums)
	state.shards--
	state.dimSum -= it.dim
	state.known = false
}

func (s *Scorer) row(device int) []int32 {
	n := len(s.estimates.start)
	return s.sums[device*n : (device+1)*n]
}

// Compute returns the predicted time, in ms, of the fused forward and backward of
// the device's slices; 0 if it has none.
func (s *Scorer) Compute(device int) float64 {
	state := &s.devices[device]
	if state.shards == 0 {
		return 0
	}
	if !state.known {
		state.compute = float64(f32.RectifiedHead(s.row(device), s.estimates.weights)) + s.estimates.compute.bias
		state.known = true
	}
	return state.compute
}

// ComputeWith sets out, for each of the devices, to the result that Compute would
// have after the slice was added to the device. It does not change the placement.
func (s *Scorer) ComputeWith(slice int, devices []int32, out []float64) {
	for len(devices) > 0 {
		n := min(len(devices), len(s.heads))
		f32.RectifiedHeads(s.sums, devices[:n], s.estimates.items[slice].sums, s.estimates.weights, s.heads[:n])
		for i, h := range s.heads[:n] {
			out[i] = float64(h) + s.estimates.compute.bias
		}
		devices, out = devices[n:], out[n:]
	}
}

// Cost returns the predicted cost of the placement, in ms: the largest sum of
// compute and both exchanges of a device.
func (s *Scorer) Cost() float64 {
	backward, forward := s.comm()
	cost := math.Inf(-1)
	for d := range s.devices {
		cost = max(cost, s.final(d)+float64(backward[d])+float64(forward[d]))
	}
	return cost
}

// Joint returns true: the nets of the exchanges read the columns and the compute of every device (search.Joint).
func (s *Scorer) Joint() bool { return true }

// Breakdown returns the estimate of the current placement, device by device. Forward
// holds the time of the fused forward and backward, and Backward is 0.
func (s *Scorer) Breakdown() plan.Breakdown {
	backward, forward := s.comm()
	devices := make([]plan.StepTimes, len(s.devices))
	for d := range devices {
		devices[d] = plan.StepTimes{
			Forward: unit.Millis(s.final(d)), ForwardComm: unit.Millis(forward[d]), BackwardComm: unit.Millis(backward[d]),
		}
	}
	return plan.NewBreakdown(devices)
}

// final returns a device's compute as the final cost counts it.
func (s *Scorer) final(device int) float64 {
	if s.devices[device].shards == 0 {
		return s.estimates.none
	}
	return s.Compute(device)
}

// maxStart bounds the start times, so that the inputs of the forward net are finite.
const maxStart = 1e12

// comm evaluates both comm nets. The results hold until the next call.
func (s *Scorer) comm() (backward, forward []float32) {
	p := s.estimates
	first := float32(math.Inf(1))
	n := len(s.devices)
	in, both := s.backward.Input()[:n], s.forward.Input()[:2*n]
	for d := range s.devices {
		dims := float32(s.devices[d].dimSum)
		in[d] = dims*p.back.scale[d] + p.back.shift[d]
		both[d] = dims*p.forward.scale[d] + p.forward.shift[d]
	}
	backward = s.backward.Run()
	for d, t := range backward {
		start := max(-maxStart, min(maxStart, float32(s.final(d))+t))
		s.starts[d] = start
		first = min(first, start)
	}
	for d, start := range s.starts {
		both[n+d] = (start-first)*p.forward.scale[n+d] + p.forward.shift[n+d]
	}
	return backward, s.forward.Run()
}
