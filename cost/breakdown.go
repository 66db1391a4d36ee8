package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Device is the price of one device in a step.
type Device struct {
	// Forward and Backward are the fused lookups; ForwardComm contains the wait
	// for the slowest device.
	Forward, ForwardComm, BackwardComm, Backward unit.Millis
}

// Total returns the device's time in a step.
func (d Device) Total() unit.Millis { return d.Forward + d.ForwardComm + d.BackwardComm + d.Backward }

// Breakdown is the price of a whole plan.
type Breakdown struct {
	Devices []Device
	// Cost is the largest Total, of the device Critical (the first, if several).
	Cost     unit.Millis
	Critical int
}

// NewBreakdown returns the breakdown of the given devices.
func NewBreakdown(devices []Device) Breakdown {
	b := Breakdown{Devices: devices, Cost: unit.Millis(math.Inf(-1))}
	for i, d := range devices {
		if d.Total() > b.Cost {
			b.Cost, b.Critical = d.Total(), i
		}
	}
	return b
}

// Price predicts a whole placement, shards listed by device, device by device. A
// table that is cut by rows must have a block on each device of its seat, and a
// replicated one lie on all: they are priced by those of the first.
func (p *Pool) Price(shards [][]problem.Shard) Breakdown {
	if p.spreadsOver(shards) {
		return p.priceSpread(shards)
	}
	s := p.NewScorer()
	for d, held := range shards {
		for _, shard := range held {
			s.Add(d, p.Item(shard.Table, shard.Dim()))
		}
	}
	return s.Breakdown()
}

// Breakdown returns the price of the current placement, device by device.
func (s *Scorer) Breakdown() Breakdown {
	comm := &s.pool.model.comm
	times := s.comm.times(comm, s.pool.cluster, s.load())
	devices := make([]Device, len(s.devices))
	latest, all := unit.Millis(0), unit.Millis(0)
	for i := range devices {
		d := &devices[i]
		for op := range s.operations {
			forward, backward := s.parts(op, &s.groups[i*s.operations+op])
			d.Forward += unit.Millis(forward)
			d.Backward += unit.Millis(backward)
		}
		d.BackwardComm = unit.Millis(times.backward)
		ready := d.Forward + d.Backward + d.BackwardComm
		latest, all = max(latest, ready), all+ready
	}
	forward := Overlapped(comm.constants, len(devices), times.forward, lead(float64(all), float64(latest), len(devices)))
	for i := range devices {
		d := &devices[i]
		wait := latest - (d.Forward + d.Backward + d.BackwardComm)
		d.ForwardComm = wait + unit.Millis(forward+comm.pack(s.pool.cluster, s.devices[i].dimSum))
	}
	return NewBreakdown(devices)
}
