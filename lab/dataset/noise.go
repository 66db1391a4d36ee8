package dataset

import (
	"math"

	"github.com/neuroshard/neuroshard/internal/stats"
)

// Noise says how far several measurements of the same sample lie apart, in percent of the
// time. No model can predict the times better. A time is the sum of forward and backward.
// All fields are 0 if there are no such measurements, as in simulated samples.
type Noise struct {
	// Repeats is the number of second measurements that are compared with their
	// samples, quarantined ones left out; Mean, Median and P95 are of the relative
	// differences.
	Repeats int     `json:"repeats"`
	Mean    float64 `json:"mean_percent"`
	Median  float64 `json:"median_percent"`
	P95     float64 `json:"p95_percent"`
	// Anchors is the number of the anchor sample's times, and Drift how far the
	// farthest of them lies from their median.
	Anchors int     `json:"anchors"`
	Drift   float64 `json:"drift_percent"`
	// Spread is the median, over the samples, of the interquartile range of a
	// sample's own repeats relative to their median, which is the sample's time.
	Spread float64 `json:"spread_percent"`
}

// Noise returns the noise of the samples' times.
func (c *Compute) Noise() Noise {
	first := make(map[int]float64, len(c.Samples))
	var spreads []float64
	spread := false
	for i := range c.Samples {
		g := &c.Samples[i]
		if g.Quarantined {
			continue
		}
		time := float64(g.Forward + g.Backward)
		first[g.ID] = time
		// Some samples have a spread of 0 although others have not.
		spreads = append(spreads, 100*float64(g.ForwardSpread+g.BackwardSpread)/time)
		spread = spread || g.ForwardSpread+g.BackwardSpread > 0
	}
	var n Noise
	if spread {
		n.Spread = stats.Quantile(spreads, .5)
	}
	var differences []float64
	sum := 0.0
	for _, r := range c.Repeats {
		if time, ok := first[r.ID]; ok {
			difference := 100 * math.Abs(float64(r.Forward+r.Backward)-time) / time
			differences = append(differences, difference)
			sum += difference
		}
	}
	if n.Repeats = len(differences); n.Repeats > 0 {
		n.Mean, n.Median, n.P95 = sum/float64(n.Repeats), stats.Quantile(differences, .5), stats.Quantile(differences, .95)
	}
	if n.Anchors = len(c.Anchors); n.Anchors > 0 {
		times := each1(c.Anchors, func(a Anchor) float64 { return float64(a.Forward + a.Backward) })
		middle := stats.Quantile(times, .5)
		for _, time := range times {
			n.Drift = max(n.Drift, 100*math.Abs(time-middle)/middle)
		}
	}
	return n
}
