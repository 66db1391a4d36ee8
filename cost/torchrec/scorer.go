package torchrec

import "github.com/neuroshard/neuroshard/problem"

// Scorer keeps TorchRec's estimate of a placement while shards are added and removed: a
// search.Scorer of all forms, in which every change is an addition. It serves one
// goroutine; all Scorers of one Estimates share its items.
type Scorer struct {
	estimates *Estimates
	perHost   int
	devices   []sum
	shared    sum
	// fixed is the fixed compute of each device.
	fixed []sum
}

// NewScorer returns an empty placement on the problem's devices.
func (p *Estimates) NewScorer() *Scorer {
	t := p.estimator.problem.Topology
	s := &Scorer{estimates: p, perHost: t.PerHost(), devices: make([]sum, t.Devices), fixed: make([]sum, t.Devices)}
	for d, time := range t.FixedTimes() {
		s.fixed[d] = sumOf(time)
	}
	s.Reset()
	return s
}

// Item registers a slice in a form: see Estimates.Item.
func (s *Scorer) Item(table, width int, form problem.Form) int {
	return s.estimates.Item(table, width, form)
}

// Reset empties all devices.
func (s *Scorer) Reset() {
	copy(s.devices, s.fixed)
	s.shared = sum{}
}

// Add puts an item on a device, on all devices of its host, or on all devices, as the
// item's form says.
func (s *Scorer) Add(device, slice int) {
	it := &s.estimates.items[slice]
	switch it.span {
	case problem.OneDevice:
		s.devices[device].add(it.time)
	case problem.OneHost:
		held := s.host(device)
		for d := range held {
			held[d].add(it.time)
		}
	case problem.AllDevices:
		s.shared.add(it.time)
	}
}

// Remove is the exact inverse of Add.
func (s *Scorer) Remove(device, slice int) {
	it := &s.estimates.items[slice]
	switch it.span {
	case problem.OneDevice:
		s.devices[device].sub(it.time)
	case problem.OneHost:
		held := s.host(device)
		for d := range held {
			held[d].sub(it.time)
		}
	case problem.AllDevices:
		s.shared.sub(it.time)
	}
}

// host returns the devices of a device's host.
func (s *Scorer) host(device int) []sum {
	first := device - device%s.perHost
	return s.devices[first:min(first+s.perHost, len(s.devices))]
}

// Compute returns the predicted time, in ms, of the device's shards, except those that
// all devices hold, and the device's fixed compute. It contains the exchanges, because TorchRec
// counts them by shard.
func (s *Scorer) Compute(device int) float64 { return s.devices[device].millis() }

// ComputeWith sets out[i] to what Compute(devices[i]) would return if the item were
// added. It does not change the placement.
func (s *Scorer) ComputeWith(slice int, devices []int32, out []float64) {
	it := &s.estimates.items[slice]
	added := it.time
	if it.span == problem.AllDevices {
		added = sum{}
	}
	for i, d := range devices {
		out[i] = s.devices[d].with(added)
	}
}

// Shared returns the predicted time, in ms, of the shards that all devices hold.
func (s *Scorer) Shared() float64 { return s.shared.millis() }

// Cost returns TorchRec's rating of the placement, in ms: the longest time of a device.
func (s *Scorer) Cost() float64 {
	longest := 0.0
	for d := range s.devices {
		longest = max(longest, s.devices[d].with(s.shared))
	}
	return longest
}
