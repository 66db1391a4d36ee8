package report_test

import (
	"bytes"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
)

// judgements are the reports of methods and models, of numbers made up so that
// each column shows its own.
func judgements() []goldenCase {
	plain := report.Options{}
	return []goldenCase{
		{"comparison_simulated", func(b *bytes.Buffer) error { return report.Comparison(b, summaries(bench.Simulated), plain) }},
		{"comparison_hostile", func(b *bytes.Buffer) error {
			all := summaries(bench.Measured)[:1]
			all[0].Setting, all[0].Method = "d4\x1b[2J\nm16", "met\x1b[31mhod"
			return report.Comparison(b, all, plain)
		}},
		{"gains_simulated", func(b *bytes.Buffer) error { return report.Gains(b, gains(), plain) }},
		{"gains_hostile", func(b *bytes.Buffer) error {
			g := gains()
			g.Tasks = g.Tasks[:1]
			g.Tasks[0].Setting, g.Tasks[0].Cluster.Profile = "work\x1b[2J\nload", "h2\x1b[31m00"
			g.Tasks[0].Judge, g.Tasks[0].BoundMS, g.Tasks[0].Gap, g.Gap = bench.Measured, nil, nil, bench.Stat{}
			return report.Gains(b, g, plain)
		}},
		{"accuracy", func(b *bytes.Buffer) error { return report.Accuracy(b, manifest("simulated"), accuracy(), plain) }},
		{"accuracy_measured", func(b *bytes.Buffer) error { return report.Accuracy(b, measuredManifest(), measuredAccuracy(), plain) }},
		{"accuracy_mixed", func(b *bytes.Buffer) error {
			m, r := measuredManifest(), measuredAccuracy()
			m.CommSource, m.CommBackend, m.CommMeasured = "simulated", "simulated device, version 1", modelfile.Measurement{}
			r.CommSource = "simulated"
			return report.Accuracy(b, m, r, plain)
		}},
		{"accuracy_colour", func(b *bytes.Buffer) error {
			m, r := measuredManifest(), measuredAccuracy()
			m.Profile, m.Backend, m.Measured.Device = "evil\x1b[2J", "meter\x1b[31m\nline", "dev\x07ice"
			r.Compute.Noise, r.Compute.Spread.NoisePercent = dataset.Noise{}, 0
			return report.Accuracy(b, m, r, report.Options{Colour: true})
		}},
		{"learning_curve", func(b *bytes.Buffer) error { return report.LearningCurve(b, curve(), plain) }},
	}
}

// summaries are of two settings: one where a method fails on a task, one where
// nothing is solved. Only the simulated device knows a bias.
func summaries(judge string) []bench.Summary {
	all := []bench.Summary{
		{Setting: "d4_m16", Method: search.NeuroShard, Tasks: 3, Solved: 3, MeanMS: 12.3456, MedianMS: 11.25, CommonMS: 10.5, Common: 2, Ratio: .91234, BiasPercent: -.456, WallMedianMS: 12.34, WallP95MS: 56.78},
		{Setting: "d4_m16", Method: search.Paper, Tasks: 3, Solved: 3, MeanMS: 13.3456, MedianMS: 12.25, CommonMS: 11.5, Common: 2, Ratio: 1, BiasPercent: 1.234, WallMedianMS: 3.4, WallP95MS: 1234.5},
		{Setting: "d4_m16", Method: search.Dim, Tasks: 3, Solved: 2, MeanMS: 113.3456, MedianMS: 112.25, CommonMS: 111.5, Common: 2, Ratio: 10.5, WallMedianMS: .04, WallP95MS: .06},
		{Setting: "hopeless", Method: search.NeuroShard, Tasks: 1, WallMedianMS: 1, WallP95MS: 1},
		{Setting: "hopeless", Method: search.Paper, Tasks: 1},
	}
	all[0].Against = &bench.Against{Reference: search.Paper, Ratio: bench.Interval{Mean: .91234, Low: .9, High: .92345}}
	all[1].Against = &bench.Against{Reference: search.Paper, Ratio: bench.Interval{Mean: 1, Low: 1, High: 1}}
	all[2].Against = &bench.Against{Reference: search.Paper, Ratio: bench.Interval{Mean: 10.5, Low: 9, High: 12.34567}}
	for i := range all {
		all[i].Judge = bench.Predicted
		if all[i].Solved > 0 {
			all[i].Judge = judge
		}
		if all[i].Judge == bench.Predicted {
			all[i].BiasPercent = 0
		}
	}
	return all
}

// gains are of a task that all solve, one where one method fails and another is cut,
// and one that nobody solves.
func gains() *bench.Gains {
	value := func(v float64) *float64 { return &v }
	large, small := bench.Cluster{Profile: "a100-80", Devices: 1024, Hosts: 128}, bench.Cluster{Profile: "h200", Devices: 8, Hosts: 1}
	return &bench.Gains{
		Tasks: []bench.Gain{
			{
				Setting: "some-workload", Task: "some-workload/1024xa100-80", Tables: 1234, Cluster: large, Judge: bench.Simulated,
				Default: &bench.Entry{Method: search.NeuroShard, CostMS: value(9), Shards: 2345, WallMS: 1234, Status: search.Complete},
				Paper:   &bench.Entry{Method: search.Paper, CostMS: value(12), Shards: 10, WallMS: 9, Status: search.Complete},
				// A baseline that is cheaper.
				Baseline: &bench.Entry{Method: search.SizeLookup, CostMS: value(8), Status: search.Complete}, Baselines: 5, BaselinesSolved: 4,
				OverPaper: value(25), OverBaseline: value(-12.5), BoundMS: value(7.5), Gap: value(.2),
			},
			{
				Setting: "other-workload", Task: "other-workload/8xh200", Tables: 7, Cluster: small, Judge: bench.Simulated,
				Default: &bench.Entry{Method: search.NeuroShard, CostMS: value(3.25), Shards: 8, WallMS: 61_000, Status: search.OutOfTime},
				Paper:   &bench.Entry{Method: search.Paper, WallMS: 60_400, Status: search.OutOfTime}, Baseline: &bench.Entry{}, Baselines: 5,
				BoundMS: value(3), Gap: value(.25 / 3),
			},
			{
				Setting: "hopeless", Task: "hopeless/8xh200", Tables: 7, Cluster: small, Judge: bench.Predicted,
				Default: &bench.Entry{Method: search.NeuroShard, WallMS: 5}, Paper: &bench.Entry{Method: search.Paper},
			},
		},
		OverPaper: bench.Stat{Mean: 25, Median: 25, Tasks: 1}, OverBaseline: bench.Stat{Mean: -12.5, Median: -12.5, Tasks: 1},
		Gap: bench.Stat{Mean: .14167, Median: .2, Tasks: 2}, WallMS: bench.Stat{Mean: 20746, Median: 1234, Tasks: 3},
	}
}

func manifest(source string) modelfile.Manifest {
	return modelfile.Manifest{
		ID: "a100-80-0123456789ab", Profile: "a100-80", Source: source, Backend: "a meter, version 3",
		Card: modelfile.Card{ComputeSamples: 100_000, CommSamples: 20_000, Seed: 7},
	}
}

func accuracy() *train.Report {
	errs := func(n int) modelfile.Errors {
		return modelfile.Errors{Samples: 1000 * n, Mean: float64(n) + .125, P95: float64(10*n) + .375}
	}
	return &train.Report{
		Source: "simulated",
		Compute: train.ComputeReport{All: errs(1), Forward: errs(2), Backward: errs(3), MSE: .012345, KendallTau: .98765, Parts: []train.Part{
			{By: "shards", Name: "1-15", Errors: errs(4)}, {By: "optimizer", Name: "sgd", Errors: errs(5)},
		}},
		Large: train.ComputeReport{All: errs(6)},
		Comm:  train.CommReport{All: errs(7), Parts: []train.Part{{By: "ranks", Name: "2-8", Errors: errs(8)}}},
	}
}

func measuredManifest() modelfile.Manifest {
	m := manifest("measured")
	m.ID, m.Profile, m.Backend = "my-cpu-0123456789ab", "my-cpu", "neuroshard cpu meter, version 1"
	m.Card.LeftOut = 12
	m.Measured = modelfile.Measurement{
		Device: "EPYC 9654, 2 threads", Kernel: "neuroshard engine 1 avx2", Clocks: "not told by the system", Threads: 2,
		Cache: "flushed 256MiB", Warmup: 1, Repeats: 5,
	}
	m.CommMeasured = m.Measured
	return m
}

// measuredAccuracy has no large groups, which nobody measures.
func measuredAccuracy() *train.Report {
	r := accuracy()
	r.Source, r.Large = "measured", train.ComputeReport{}
	r.Compute.Noise = dataset.Noise{Repeats: 90, Mean: 2.5, Median: 2, P95: 7.5, Spread: 3.25}
	r.Compute.Spread = &train.Calibration{
		Members: 4, MeanPercent: 1.25, Within1: .514, Within2: .786, NoisePercent: 2.125, WithNoise1: .676, WithNoise2: .9449, KendallTau: .3125,
	}
	return r
}

func curve() []train.CurvePoint {
	return []train.CurvePoint{
		{Samples: 2000, Compute: modelfile.Errors{Mean: 4.5, P95: 12.25}, Large: modelfile.Errors{Samples: 500, Mean: 3.75, P95: 9.125}},
		{Samples: 100_000, Compute: modelfile.Errors{Mean: .5, P95: 1.25}, Large: modelfile.Errors{Samples: 500, Mean: .75, P95: 2.125}},
	}
}
