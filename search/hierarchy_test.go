package search

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// twoSteps is an additive cost model with a hierarchical exchange on hosts of two devices: a tenth
// of the columns of the device with the most, and as much again for each direction and for the
// columns of the host with the most.
type twoSteps struct{ *additive }

func (s twoSteps) HostSize() int             { return 2 }
func (s twoSteps) Columns(device int) int64  { return int64(s.dims[device]) }
func (s twoSteps) Hides() bool               { return true }
func (s twoSteps) Rates() (_, _, ms float64) { return .1, .1, .5 }
func (s twoSteps) AllToAlls() (times, free [2]float64) {
	most, mostOfHost := int64(0), int64(0)
	for d := range s.dims {
		most, mostOfHost = max(most, s.Columns(d)), max(mostOfHost, s.HostColumns(d/2))
	}
	time := .1*float64(most) + .1*float64(mostOfHost) + .5
	return [2]float64{time, time}, free
}

func (s twoSteps) HostColumns(host int) (sum int64) {
	for d := 2 * host; d < min(2*host+2, len(s.dims)); d++ {
		sum += s.Columns(d)
	}
	return sum
}

func (s twoSteps) Cost() float64 {
	slowest := 0.0
	times, _ := s.AllToAlls()
	for d := range s.time {
		slowest = max(slowest, s.time[d])
	}
	return slowest + times[0] + times[1]
}

// Whatever changes are tried, taken and taken back: the columns of devices and hosts, and their
// sums in the goal, are those of the placement, and the goal is near the cost.
func TestHierarchicalGoalKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawHandMade(t)
		s, first := firstFitted(t, p)
		if s == nil {
			return
		}
		r := newAnnealer(s.catalog, twoSteps{s.scorer().(*additive)}, s.opt.Seed, s.forms)
		r.reset(first.parts)
		r.anneal(int64(rapid.IntRange(1, 1000).Draw(t, "evaluations")), func() bool { return false })
		held := twoSteps{checkParts(t, s.catalog, r.all()).(*additive)}
		sum, power := 0.0, 0.0
		for h, got := range r.hostDims {
			want := held.HostColumns(h)
			if got != want {
				t.Fatalf("host %d: got %d columns, want %d", h, got, want)
			}
			sum, power = sum+float64(want), power+math.Pow(float64(want)/r.hostScale, 32)
		}
		for d, got := range r.dims {
			if want := held.Columns(d); got != want {
				t.Fatalf("device %d: got %d columns, want %d", d, got, want)
			}
		}
		if math.Abs(r.hostSum-sum) > 1e-6*(1+sum) || math.Abs(r.hostPower-power) > 1e-6*(1+power) {
			t.Fatalf("got a sum %v and a power %v of hosts, want %v and %v", r.hostSum, r.hostPower, sum, power)
		}
		// The soft maxima are at most the maxima and at least 1/n^(1/32) of them.
		cost, n := held.Cost(), float64(len(r.compute))
		if goal := r.goal() - meanWeight*r.computeSum/n; goal > cost*(1+1e-6) || goal < cost*math.Pow(n, -1.0/32)*(1-1e-6) {
			t.Fatalf("got a goal of %v without the mean, want it near the cost %v", goal, cost)
		}
	})
}
