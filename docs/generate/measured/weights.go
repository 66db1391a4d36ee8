package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/simulate"
)

// weightsTable has the time that per-sample weights add to the backward, over the weighted forward:
// of the cases of the lanes experiment with FBGEMM's kernels, alone and beside the wide table.
func weightsTable(m *measurements) (string, error) {
	alone, beside := weightShares(&m.fbgemm.lanes)
	var b strings.Builder
	fmt.Fprint(&b, "| pairs of backwards, with and without weights | number | 25 % | median | 75 % | simulated |\n|---|--:|--:|--:|--:|--:|\n")
	for _, set := range []struct {
		name   string
		shares []float64
	}{{"narrow tables alone", alone}, {"beside the wide table", beside}, {"all", slices.Concat(alone, beside)}} {
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.2f | %.2f | %.2f |\n", set.name, len(set.shares),
			quantile(set.shares, .25), median(set.shares), quantile(set.shares, .75), simulate.WeightedShare)
	}
	return strings.TrimSpace(b.String()), nil
}

// weightShares returns, for each case with weights and the same case without, the difference of
// the backwards over the weighted forward less its fixed time.
func weightShares(f *lanesFile) (alone, beside []float64) {
	type key struct {
		dim, pooling, batch int
		rows                int64
		lengths, dtype      string
	}
	without := map[key]*lanesEntry{}
	keyOf := func(e *lanesEntry) key {
		return key{e.Dim, e.PoolingFactor, e.Batch, e.Rows, e.Lengths, e.DType}
	}
	for i := range f.Lanes {
		if e := &f.Lanes[i]; !e.Weighted {
			without[keyOf(e)] = e
		}
	}
	share := func(weighted, plain *quartiles) float64 {
		return (weighted.Backward[1] - plain.Backward[1]) / (weighted.Forward[1] - simulate.ForwardFixedUS/1000)
	}
	for i := range f.Lanes {
		e := &f.Lanes[i]
		plain := without[keyOf(e)]
		if !e.Weighted || plain == nil {
			continue
		}
		alone = append(alone, share(&e.Alone, &plain.Alone))
		beside = append(beside, share(&e.Beside, &plain.Beside))
	}
	return alone, beside
}
