package bound

import "github.com/neuroshard/neuroshard/problem"

// Exchanges returns the times, in ms, of the exchanges of each class alone: with the given
// columns on every device, over all devices, and on every host, and with the given weights.
func Exchanges(p *problem.Problem, columns int, weights float64) [exchanging]float64 {
	w, err := newWires(p, 1, 1)
	if err != nil {
		panic(err)
	}
	c, n, hosts := float64(columns), float64(p.Topology.Devices), float64(p.Topology.Hosts())
	times := [exchanging]float64{c*w.own + n*c*w.shared, c * w.block, hosts * c * w.host, weights * w.weight}
	for l := range times {
		times[l] += w.fixed[l] - fixedMS
	}
	return times
}
