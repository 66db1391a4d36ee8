package problem

import (
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/unit"
)

// Hierarchy describes the exchange of a training system that adds up partial sums inside each
// host first: one vector for each sample, table and host then travels between the devices of
// the same place in each host. Devices that share an NVLink domain count as one host. The zero
// value means flat exchanges.
type Hierarchy struct {
	// Sent is the share of the vectors that travel, above 0 and at most 1; 0 means that
	// exchanges are flat.
	Sent float64 `json:"sent_share"`
	// Inside and Between are factors on the bandwidths inside hosts and between hosts, from
	// 0.001 to 1000.
	Inside  float64 `json:"inside_factor"`
	Between float64 `json:"between_factor"`
	// Latency is the fixed time of the exchange between hosts, from 0 to 1000 ms.
	Latency unit.Millis `json:"latency_ms"`
}

// The ranges of a Hierarchy, so that times of exchanges stay finite.
const (
	leastFactor = 0.001
	mostFactor  = 1000.
	mostLatency = 1000. // ms
)

// On reports whether the exchange is hierarchical.
func (h Hierarchy) On() bool { return h != Hierarchy{} }

// Check returns an error if the exchange is hierarchical and a number is out of range.
func (h Hierarchy) Check() error {
	if !h.On() {
		return nil
	}
	var faults []error
	if !(h.Sent > 0 && h.Sent <= 1) {
		faults = append(faults, fmt.Errorf("hierarchical exchange: share of the vectors that travel: %v is not above 0 and at most 1", h.Sent))
	}
	for _, v := range []struct {
		where  string
		factor float64
	}{{"inside hosts", h.Inside}, {"between hosts", h.Between}} {
		if !(v.factor >= leastFactor && v.factor <= mostFactor) {
			faults = append(faults, fmt.Errorf("hierarchical exchange: factor on the bandwidth %s: %v is not between %v and %v", v.where, v.factor, leastFactor, mostFactor))
		}
	}
	if !(h.Latency >= 0 && h.Latency <= mostLatency) {
		faults = append(faults, fmt.Errorf("hierarchical exchange: latency: %v ms is not between 0 and %v", float64(h.Latency), mostLatency))
	}
	return errors.Join(faults...)
}
