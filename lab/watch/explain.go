package watch

import (
	"math"

	"github.com/neuroshard/neuroshard/unit"
)

// explain.go compares the changes that a watch found with those that live features predict: it
// tells a drift of the features of one device's tables from a slow device.

// Explained is what live features predict of the changes since a plan was made.
type Explained struct {
	// Shared is the predicted shared change of busy times, as a share, and Own that of each
	// device beside the others; 0 for a device without work.
	Shared float64   `json:"shared_change"`
	Own    []float64 `json:"own_changes"`
	// Drift is true if the features predict at least half of the shared change that was found,
	// which was not 0. Slow lists the slow devices whose own change they do not predict to half:
	// their hardware is slow. Loaded lists the others: their tables have more to do.
	Drift  bool  `json:"drift"`
	Slow   []int `json:"slow"`
	Loaded []int `json:"loaded"`
}

// Explain compares the changes of a summary with those of the predicted busy times under the
// features that were planned for, and under live ones. Both have a time for each device of the
// summary. It returns the explanation, and the outcome that is left: Drift in place of Slow if
// the features explain all slow devices.
func Explain(s *Summary, planned, live []unit.Millis) (Explained, Outcome) {
	logs := make([]float64, len(planned))
	for d := range planned {
		logs[d] = math.NaN()
		if planned[d] > 0 && live[d] > 0 {
			logs[d] = math.Log(float64(live[d] / planned[d]))
		}
	}
	shared, own := split(logs, make([]float64, len(logs)))
	e := Explained{Own: make([]float64, len(own)), Slow: []int{}, Loaded: []int{}}
	if !math.IsNaN(shared) {
		e.Shared = math.Expm1(shared)
	}
	e.Drift = half(e.Shared, s.Change)
	for d, x := range own {
		if !math.IsNaN(x) {
			e.Own[d] = math.Expm1(x)
		}
		switch {
		case !s.Devices[d].Slow:
		case half(e.Own[d], s.Devices[d].Change):
			e.Loaded = append(e.Loaded, d)
		default:
			e.Slow = append(e.Slow, d)
		}
	}
	outcome := s.Outcome
	if outcome == Slow && len(e.Slow) == 0 && len(e.Loaded) > 0 {
		outcome = Drift
	}
	return e, outcome
}

// half reports whether a predicted change is at least half of one that was found.
func half(predicted, found float64) bool {
	return found != 0 && predicted*found > 0 && math.Abs(predicted) >= math.Abs(found)/2
}
