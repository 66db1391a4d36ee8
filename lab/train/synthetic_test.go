package train_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Synthetic data looks measured: its times follow a law other than the simulated
// device's, with noise. The law without the noise is known, so that a model can be
// judged against it.

// desk is a device that package hardware does not know.
func desk() hardware.Profile {
	return hardware.Profile{
		Name: "desk-cpu", Memory: 8 * unit.GiB, HBMGBps: 20, HBMEfficiency: .8, L2: 32 * unit.MiB, L2GBps: 120,
		SMs: 2, ClockGHz: 2.7, Granule: 64, AllToAllLatencyUS: 200, IntraGBps: 3,
	}
}

// law computes the times of a made-up device, in ms.
type law struct {
	group    func(set *dataset.Compute, g *dataset.Group) (forward, backward float64)
	exchange func(e *dataset.Exchange) (forward, backward float64)
}

// cpuLaw is a device without lanes: its times are sums over the shards of work per
// lookup, per byte and per row that misses the cache. The whole group shares the
// cache. An all-to-all goes through memory, and all its bytes share one bandwidth.
func cpuLaw(hw hardware.Profile) law {
	return law{
		group: func(set *dataset.Compute, g *dataset.Group) (forward, backward float64) {
			const ns = 1e-6
			working := 0.
			for _, m := range g.Members {
				t := &set.Tables[m.Table]
				working += t.Counts(g.Operation.Batch).Unique * math.Ceil(float64(m.Dim)/16) * 64
			}
			missed := 1 / (1 + float64(hw.L2)/working)
			for _, m := range g.Members {
				t := &set.Tables[m.Table]
				c := t.Counts(g.Operation.Batch)
				dim, n := float64(m.Dim), c.Lookups
				line := math.Ceil(dim/16) * 64
				bags := float64(g.Operation.Batch * len(t.Features))
				forward += ns * (n*(6+.12*dim) + c.Unique*missed*(45+line/8) + bags*(4+.3*dim))
				state := 0.
				switch g.Operation.Optimizer {
				case problem.RowwiseAdagrad:
					state = 30
				case problem.Adagrad, problem.Adam:
					state = 60 + dim
				}
				backward += ns * (n*math.Log2(n+2)*1.6 + n*.25*dim + c.Unique*(30+state+missed*(60+line/4)))
			}
			return .03 + forward/2, .06 + backward/2
		},
		exchange: func(e *dataset.Exchange) (forward, backward float64) {
			bytes := 0.
			for _, d := range e.DimSums {
				bytes += 4 * float64(e.Batch) * float64(d)
			}
			forward = .2 + .02*float64(e.Devices) + bytes/2.2e6
			return forward, 1.15 * forward
		},
	}
}

// warpedLaw is the simulated device of the profile with three changes: the backward
// takes 2.5 times as long, narrow tables take as long as those of 16 columns, and
// the exchanges are those of cpuLaw.
func warpedLaw(hw hardware.Profile) law {
	return law{
		group: func(set *dataset.Compute, g *dataset.Group) (forward, backward float64) {
			wide := *g
			wide.Members = slices.Clone(g.Members)
			for i := range wide.Members {
				wide.Members[i].Dim = (wide.Members[i].Dim + 15) / 16 * 16
			}
			one := &dataset.Compute{Tables: set.Tables, Samples: []dataset.Group{wide}}
			if err := collect.SimulateCompute(context.Background(), one, hw, 1); err != nil {
				panic(err)
			}
			return float64(one.Samples[0].Forward), 2.5 * float64(one.Samples[0].Backward)
		},
		exchange: cpuLaw(hw).exchange,
	}
}

// synthetic draws groups and exchanges, and computes their times by the law with
// lognormal noise of the given deviation. The second result is the same data
// without noise.
func synthetic(hw hardware.Profile, law law, tables, groups, exchanges int, noise float64, seed uint64) (noisy, truth train.Data) {
	draw := rand.New(rand.NewPCG(seed, 1))
	from := dataset.Provenance{
		Source: dataset.Measured, Profile: hw.Name, Backend: "synthetic 1", Seed: seed, Design: "d1", Tool: "test",
		Device: "a desk", Kernel: "law 1", Clocks: "none", Threads: 2, Cache: "cold", Lookups: "a log", Warmup: 1, Repeats: 5,
	}
	if !hardware.Known(hw.Name) {
		from.Hardware = hw
	}
	set := design.Compute(seed, tables, groups, 1, 30)
	set.Provenance = from
	for i := range set.Tables {
		t := &set.Tables[i]
		t.Rows = min(t.Rows, 1e6)
		for f := range t.Features {
			t.Features[f].PoolingFactor = min(t.Features[f].PoolingFactor, 60)
		}
	}
	exact := *set
	exact.Samples = slices.Clone(set.Samples)
	for i := range set.Samples {
		g := &set.Samples[i]
		g.ID = i
		g.Operation.Batch = 256 << draw.IntN(6)
		g.Operation.Weighted = false
		g.Operation.Precision = problem.FP32
		g.Operation.Optimizer = problem.Optimizer(draw.IntN(2))
		f, b := law.group(set, g)
		exact.Samples[i] = *g
		exact.Samples[i].Forward, exact.Samples[i].Backward = unit.Millis(f), unit.Millis(b)
		g.Forward, g.Backward = times(draw, f, noise), times(draw, b, noise)
		// The deviation of a median of five is 0.56 of one time's, whose
		// interquartile range is 1.35 of it.
		g.ForwardSpread, g.BackwardSpread = g.Forward*unit.Millis(1.35*noise/.56), g.Backward*unit.Millis(1.35*noise/.56)
		if i%50 == 0 {
			set.Repeats = append(set.Repeats, dataset.Repeat{ID: i, Forward: times(draw, f, noise), Backward: times(draw, b, noise)})
		}
	}
	comm := design.Comm(seed, exchanges, hardware.Profile{Name: hw.Name})
	comm.Provenance = from
	clean := *comm
	clean.Samples = nil
	for i := range comm.Samples {
		e := &comm.Samples[i]
		e.ID = i
		e.Devices = 2 + draw.IntN(3)
		e.DevicesPerHost, e.Batch = e.Devices, 256<<draw.IntN(6)
		e.DimSums, e.Start = nil, nil
		even := draw.Float64()
		for range e.Devices {
			e.DimSums = append(e.DimSums, 4*int(math.Round(40+200*(even+(1-even)*draw.Float64()*3))))
		}
		if draw.IntN(4) == 0 {
			e.DimSums[draw.IntN(e.Devices)] = 0
		}
		latest := 0.
		for range e.Devices {
			start := 5 * draw.Float64()
			latest = max(latest, start)
			e.Start = append(e.Start, unit.Millis(start))
		}
		f, b := law.exchange(e)
		right := *e
		for r := range e.Devices {
			wait := unit.Millis(latest) - e.Start[r]
			right.Forward, right.Backward = append(right.Forward, unit.Millis(f)+wait), append(right.Backward, unit.Millis(b))
		}
		tf, tb := times(draw, f, noise), times(draw, b, noise)
		e.Forward, e.Backward = nil, nil
		for r := range e.Devices {
			e.Forward, e.Backward = append(e.Forward, tf+unit.Millis(latest)-e.Start[r]), append(e.Backward, tb)
		}
		clean.Samples = append(clean.Samples, right)
	}
	return train.Data{Compute: set, Comm: comm}, train.Data{Compute: &exact, Comm: &clean}
}

func times(draw *rand.Rand, ms, noise float64) unit.Millis {
	return unit.Millis(ms * math.Exp(noise*draw.NormFloat64()))
}
