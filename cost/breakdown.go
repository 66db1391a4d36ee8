package cost

import (
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Price predicts a whole placement, shards listed by device, device by device. A
// table that is cut by rows must have a block on each device of its seat, and a
// replicated one lie on all: they are priced by those of the first.
func (p *Pool) Price(shards [][]problem.Shard) plan.Breakdown {
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
func (s *Scorer) Breakdown() plan.Breakdown {
	comm := &s.pool.model.comm
	times := s.comm.times(comm, s.pool.cluster, s.load())
	devices := make([]plan.StepTimes, len(s.devices))
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
	return plan.NewBreakdown(devices)
}
