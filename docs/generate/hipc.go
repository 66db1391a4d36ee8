package main

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// hipcModels are the tables of the three models of Lin et al. (HiPC 2022), as
// benchmark/dlrm_benchmark.sh of owensgroup/ml_perf_model states them. The rows of the
// second are assumed: the time of its one lookup for each table hardly depends on them.
var hipcModels = map[string]*equalTables{
	"hipc-dlrm-default": {count: 8, rows: 1_000_000, dim: 64, pooling: 100},
	"hipc-dlrm-mlperf":  {count: 26, rows: 1_000_000, dim: 128, pooling: 1},
	"hipc-dlrm-ddp":     {count: 8, rows: 80_000, dim: 128, pooling: 10},
}

// gpu is a GPU of the models: its profile and its rate of matrix products in fp32.
type gpu struct {
	profile hardware.Profile
	rates   step.Rates
}

// hipcGPUs returns the GPUs of the models. Memory, bandwidth, cache, multiprocessors, clock
// and rates are the data sheets'. The bandwidth of the cache is scaled from the V100's by
// multiprocessors and clock.
func hipcGPUs() map[string]gpu {
	v100 := must(hardware.ByName("v100-16"))
	xp, p100 := v100, v100
	xp.Name, xp.Memory, xp.HBMGBps, xp.L2, xp.SMs, xp.ClockGHz = "titan-xp", 12*unit.GiB, 547.7, 3*unit.MiB, 30, 1.58
	p100.Name, p100.Memory, p100.HBMGBps, p100.L2, p100.SMs, p100.ClockGHz = "p100-16", 16*unit.GiB, 732, 4*unit.MiB, 56, 1.3
	for _, p := range []*hardware.Profile{&xp, &p100} {
		p.L2GBps = v100.L2GBps * float64(p.SMs) * p.ClockGHz / (float64(v100.SMs) * v100.ClockGHz)
	}
	return map[string]gpu{
		"V100":     {v100, step.Rates{Half: 125, TF32: 15.7, Single: 15.7}},
		"TITAN Xp": {xp, step.Rates{Half: 12.15, TF32: 12.15, Single: 12.15}},
		"P100":     {p100, step.Rates{Half: 18.7, TF32: 9.3, Single: 9.3}},
	}
}

// hipcPoint is a measured step of one GPU.
type hipcPoint struct {
	model, gpu string
	batch      int
	// measured is the step, and active the predicted time of its kernels, in ms.
	measured, active float64
}

// hipcPoints reads the measured steps and predicts the times of their kernels.
func hipcPoints() []hipcPoint {
	gpus := hipcGPUs()
	stack := must(step.StackByName("torchrec-base"))
	stack.Constants.Launches, stack.Constants.Fixed = 0, 0
	stack.Overlaps.Input = true // steps of most lookups leave no time for copies
	var points []hipcPoint
	for _, f := range readFacts("hipc.csv") {
		p := hipcPoint{model: f.text("model"), gpu: f.text("gpu"), batch: f.count("batch"), measured: f.number("ms")}
		dense := must(step.DenseByName(p.model))
		one := gpus[p.gpu]
		problem := &problem.Problem{Batch: p.batch, Topology: cluster(one.profile, 1, 1), Tables: hipcModels[p.model].tables()}
		shards := deal(problem, cut(problem, math.Inf(1)))
		times := must(step.Price(step.Input{Problem: problem, Shards: shards, Dense: &dense, Stack: stack, Rates: one.rates}))
		p.active = float64(times.Step)
		points = append(points, p)
	}
	return points
}

// hostBound are the two constants of a GPU and its host, in ms: the fixed time of a step
// beside its kernels, and the time that the host needs to launch a step. They are Fixed and
// Launches of step.Constants.
type hostBound struct{ fixed, launches float64 }

// predict returns a step in ms.
func (h hostBound) predict(active float64) float64 { return max(h.launches, h.fixed+active) }

// fitHost finds the constants of the least sum of squared logarithms of predicted over
// measured times, on a grid of 0.05 ms.
func fitHost(points []hipcPoint) hostBound {
	best, least := hostBound{}, math.Inf(1)
	for fixed := 0.; fixed < 6; fixed += .05 {
		for launches := 2.; launches < 8; launches += .05 {
			sum := 0.
			for _, p := range points {
				off := math.Log(hostBound{fixed, launches}.predict(p.active) / p.measured)
				sum += off * off
			}
			if sum < least {
				best, least = hostBound{fixed, launches}, sum
			}
		}
	}
	return best
}

// hipc compares steps that the host's launches bound with two constants for each GPU, fitted
// without the model that is predicted.
func hipc() []*set {
	points := hipcPoints()
	s := sets{what: "steps of one GPU that the host bounds"}
	out := s.of("out of the fit, constants of the GPU's other models")
	for _, p := range points {
		others := slices.DeleteFunc(slices.Clone(points), func(q hipcPoint) bool { return q.gpu != p.gpu || q.model == p.model })
		out.add(fitHost(others).predict(p.active), p.measured)
	}
	return s.list
}
