package main

import (
	"fmt"
	"math"
)

// versionTwo is the share of the network that all-to-alls over 16 hosts reached in version 2 of
// the simulated device.
const versionTwo = .93

// refit shows how the share of the network over 16 hosts was fitted again: to every second of
// the published sizes, and judged on the sizes between them.
func refit() (*sheet, error) {
	facts, err := readFacts("alltoall.csv")
	if err != nil {
		return nil, err
	}
	var halves [2][]exchange
	var all []exchange
	for _, f := range facts {
		if f.count("hosts") != 16 {
			continue
		}
		e, err := exchangeOf(f)
		if err != nil {
			return nil, err
		}
		halves[len(all)%2] = append(halves[len(all)%2], e)
		all = append(all, e)
	}
	s := &sheet{columns: []string{"share", "fitted to", "judged on", ">median error, %", ">worst, %", ">median with 0.93, %", ">worst with 0.93, %"}}
	add := func(share float64, fitted, on string, judged []exchange) {
		now, before := &set{}, &set{}
		for _, e := range judged {
			now.add(e.predicted(share/e.share), e.measured)
			before.add(e.predicted(versionTwo/e.share), e.measured)
		}
		s.rows = append(s.rows, []string{
			fmt.Sprintf("%.2f", share), fitted, on,
			percent(now.median()), signed(now.worst()), percent(before.median()), signed(before.worst()),
		})
	}
	names := [2]string{"sizes 1, 3, ..., 11", "sizes 2, 4, ..., 10"}
	for i := range halves {
		add(shareOf(halves[i]), names[i], names[1-i], halves[1-i])
	}
	add(all[0].share, "the first half, rounded: the formula", "all sizes", all)
	kept, old := s.set("in the fit, 16 hosts, share of version 3", goal{}), s.set("in the fit, 16 hosts, share of version 2", goal{})
	for _, e := range all {
		kept.add(e.predicted(1), e.measured)
		old.add(e.predicted(versionTwo/e.share), e.measured)
	}
	return s, nil
}

// shareOf returns the share, in thousandths, with the least mean error over the exchanges.
func shareOf(fitted []exchange) float64 {
	best, least := 0., math.Inf(1)
	for share := .6; share <= 1; share += .001 {
		off := 0.
		for _, e := range fitted {
			off += math.Abs(e.predicted(share/e.share)/e.measured - 1)
		}
		if off < least {
			best, least = share, off
		}
	}
	return best
}
