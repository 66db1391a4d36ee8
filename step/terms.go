package step

import (
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// terms.go holds the formulas of a step's terms. With B the global batch, G devices, l of
// them on a host, h hosts, b = B/G samples a device:
//
//	products      for each layer, forward and twice backward (once for the bottom's first,
//	              which needs no gradient of its input): the larger of
//	              2 b K N / (GEMM share x best product's rate) and its bytes / (stream share x HBM)
//	activations   passes x bytes of all activations x b / (stream share x HBM)
//	input         the exchange of indices, and b x bytes of a sample / the host's link; both
//	              are hidden unless the stack copies inputs within the step
//	all-reduce    of g bytes: 2 g (l-1)/l / inside + 2 g/l (h-1)/h / between, the second
//	              halved with SHARP; the exposed share of both, and the latency
//	sync          the all-reduce of the replicas (simulate.SyncOf) / steps between two
//	optimizer     bytes of weights, gradients and state of each parameter, read and written,
//	              / (0.85 x HBM)

const (
	// optimizerStream is the share of the HBM's bandwidth that the dense update reaches.
	optimizerStream = 0.85
	// denseFeatureBytes is the size of a dense feature in the input, and labelBytes that of
	// a sample's label.
	denseFeatureBytes, labelBytes = 4, 4
)

// termsOf returns the terms of a checked input; those of the dense part are 0 without one.
func termsOf(in *Input, e *Embeddings) Terms {
	t := Terms{
		LookupForward: e.Forward, LookupBackward: e.Backward, Replicas: e.ReplicaForward + e.ReplicaBackward,
		ExchangeForward: e.ExchangeForward, ExchangeBackward: e.ExchangeBackward,
		Input: e.Input + copies(in, e),
		Sync:  syncTime(in),
	}
	longest := in.longest()
	t.Replicas *= longest
	t.Input *= longest
	vectors := 1 + (longest-1)*unit.Millis(sequenceShare(in.Problem))
	t.ExchangeForward *= vectors
	t.ExchangeBackward *= vectors
	overlaps := in.Stack.Overlaps
	if overlaps.Input {
		t.Input = 0
	}
	if in.Dense != nil {
		d := denseTimes(in, e)
		d.lengthen(longest)
		t.GEMM, t.Activations, t.Bottom = d.gemm, d.activations, d.bottomForward+d.bottomBackward
		t.AllReduce, t.Optimizer, t.Fixed = d.allReduce, d.optimizer, in.Stack.Constants.Fixed
		if overlaps.Optimizer {
			t.Optimizer -= min(t.Optimizer, t.LookupForward)
		}
		if overlaps.Forward {
			t.BesideForward = d.bottomForward + e.ReplicaForward
		}
		if overlaps.Backward {
			t.BesideBackward = d.bottomBackward + e.ReplicaBackward
		}
		if overlaps.Stale {
			dense := d.gemm + d.activations
			t.BesideForward, t.BesideBackward = dense/3, dense*2/3
		}
	}
	t.HiddenForward = min(t.ExchangeForward, t.BesideForward)
	t.HiddenBackward = min(t.ExchangeBackward, t.BesideBackward)
	return t
}

// syncTime returns the time of the replicas' all-reduce that falls on one step; 0 if there is one
// sharding group, or no placement yet.
func syncTime(in *Input) unit.Millis {
	t := &in.Problem.Topology
	sync, err := simulate.SyncOf(in.Problem, in.Shards)
	if err != nil {
		return 0 // the embeddings have reported it
	}
	return sync.Time / unit.Millis(t.Interval())
}

// copies returns the time of the copies of a device's samples from its host.
func copies(in *Input, e *Embeddings) unit.Millis {
	topology := &in.Problem.Topology
	samples := float64(in.Problem.Batch) / float64(topology.Devices)
	return unit.Millis(samples * in.sampleBytes(e) / (topology.Profile.HostLinkGBps() * 1e6))
}

// denseWork is the times of a device's dense part.
type denseWork struct {
	gemm, activations, bottomForward, bottomBackward, allReduce, optimizer unit.Millis
}

func denseTimes(in *Input, e *Embeddings) (w denseWork) {
	topology, constants := &in.Problem.Topology, &in.Stack.Constants
	samples := float64(in.Problem.Batch) / float64(topology.Devices)
	stream := topology.Profile.HBMGBps * 1e6 // bytes a millisecond
	rate := in.Rates.Of(in.Dense.Precision) * in.Rates.best(in.Dense.Precision) * constants.GEMM
	size := in.Dense.Precision.Bytes()
	for i, l := range in.Dense.Layers() {
		k, n := float64(l.In), float64(l.Out)
		one := unit.Millis(max(2*samples*k*n/rate, (samples*(k+n)+k*n)*size/(stream*constants.Stream)))
		backward := 2 * one
		if i == 0 && l.Bottom {
			backward = one
		}
		w.gemm += one + backward
		if l.Bottom {
			w.bottomForward += one
			w.bottomBackward += backward
		}
	}
	w.gemm += unit.Millis(3 * in.Dense.dotFLOPs() * samples / rate)
	all, bottom := in.Dense.Activations()
	each := constants.Passes * samples / (stream * constants.Stream)
	w.activations = unit.Millis(all * each)
	w.bottomForward += unit.Millis(bottom * each / 3)
	w.bottomBackward += unit.Millis(bottom * each * 2 / 3)

	numbers := in.Dense.Parameters() + e.Replicated
	w.allReduce = allReduce(in, numbers*size)
	moved := 12 + 2*in.Dense.OptimizerBytes // gradient, weight twice, state twice
	if in.Dense.Parallel == FSDP {
		numbers = in.Dense.Parameters()/float64(topology.Whole().Devices) + e.Replicated
	}
	w.optimizer = unit.Millis(numbers * moved / (stream * optimizerStream))
	return w
}

// leastProducts returns the time of all products at the peak rate of the device.
func leastProducts(in *Input) unit.Millis {
	flops := 3 * in.Dense.FLOPs()
	if layers := in.Dense.Layers(); len(layers) > 0 && layers[0].Bottom {
		flops -= 2 * float64(layers[0].In) * float64(layers[0].Out) // its input needs no gradient
	}
	samples := float64(in.Problem.Batch) / float64(in.Problem.Topology.Devices)
	return unit.Millis(samples * flops / in.Rates.Of(in.Dense.Precision))
}

// allReduce returns the exposed time of the all-reduce of a number of bytes. FSDP moves half
// again the bytes of DDP.
func allReduce(in *Input, bytes float64) unit.Millis {
	topology, constants := in.Problem.Topology.Whole(), &in.Stack.Constants
	if topology.Devices == 1 {
		return 0
	}
	if in.Dense.Parallel == FSDP {
		bytes *= 1.5
	}
	whole := *in.Problem
	whole.Topology = topology
	net, err := networkOf(&whole)
	if err != nil {
		return 0 // the embeddings have reported it
	}
	perHost, hosts := float64(topology.LinkDomain()), float64(topology.LinkDomains())
	time := unit.Millis(2 * bytes * (perHost - 1) / perHost / (net.Intra * constants.Inside))
	if hosts > 1 {
		between := unit.Millis(2 * bytes / perHost * (hosts - 1) / hosts / (net.NIC * constants.Between))
		if in.Stack.SHARP {
			between /= 2
		}
		time += between + constants.Latency
	}
	return time * unit.Millis(constants.Exposed)
}
