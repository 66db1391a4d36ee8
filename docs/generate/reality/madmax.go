package main

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// madMaxTables are the tables of DLRM-A (model_cfgs/dlrm/dlrm_a.json of samhsia/MADMax), of
// 96 columns in place of 94: columns come in fours here.
var madMaxTables = equalTables{count: 4096, rows: 2_080_000, dim: 96, pooling: 15, precision: problem.FP16}

// madMax sets MAD-Max's own predictions, which are no measurements, beside ours on a cluster
// with its bandwidths.
func madMax() (*sheet, error) {
	facts, err := readFacts("madmax.csv")
	if err != nil {
		return nil, err
	}
	s := &sheet{columns: []string{"system", ">GPUs", ">samples", "term", ">MAD-Max ms", ">here ms", ">here over MAD-Max"}}
	priced := map[int]map[string]float64{}
	for _, f := range facts {
		devices := f.count("devices")
		if priced[devices] == nil {
			if priced[devices], err = madMaxTerms(f); err != nil {
				return nil, fmt.Errorf("%s: %w", f.where, err)
			}
		}
		theirs, ours := f.number("ms"), priced[devices][f.text("term")]
		if f.err != nil {
			return nil, f.err
		}
		s.rows = append(s.rows, []string{f.text("system"), f.text("devices"), f.text("batch"), f.text("term"), two(theirs), two(ours), two(ours / theirs)})
	}
	return s, nil
}

// madMaxTerms prices DLRM-A on the cluster of a row, and returns the terms by name, in ms.
func madMaxTerms(f *fact) (map[string]float64, error) {
	profile, err := hardware.ByName("a100-40")
	if err != nil {
		return nil, err
	}
	profile.IntraGBps, profile.NICGBps = f.number("intra_gbps"), f.number("nic_gbps")
	dense, err := step.DenseByName("madmax-dlrm-a")
	if err != nil {
		return nil, err
	}
	stack, err := step.StackByName("torchrec-sparse")
	if err != nil {
		return nil, err
	}
	p := &problem.Problem{
		Batch: f.count("batch"), Topology: cluster(profile, f.count("devices"), 8),
		Tables: tablesOf(problem.RowwiseAdagrad, madMaxTables), CommPrecision: problem.FP16,
	}
	shards, err := deal(p, cut(p, 1e12))
	if err != nil {
		return nil, err
	}
	t, err := step.Price(step.Input{Problem: p, Shards: shards, Dense: &dense, Stack: stack})
	if err != nil {
		return nil, err
	}
	ms := func(times ...unit.Millis) float64 {
		sum := unit.Millis(0)
		for _, one := range times {
			sum += one
		}
		return float64(sum)
	}
	return map[string]float64{
		"products of matrices": ms(t.Terms.GEMM),
		"lookups":              ms(t.Terms.LookupForward, t.Terms.LookupBackward),
		"all-to-all":           ms(t.Terms.ExchangeForward, t.Terms.ExchangeBackward),
		"all-reduce":           ms(t.Terms.AllReduce) / stack.Constants.Exposed,
		"step":                 ms(t.Step),
	}, nil
}
