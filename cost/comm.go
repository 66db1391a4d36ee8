package cost

import (
	"errors"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// comm.go predicts the all-to-alls of one step. The wait for the slowest device is
// exact, since it follows from the predicted compute. The collective itself is the
// closed form of package simulate (exchange.go) with fitted constants, times exp of a
// small net of the cluster and the load. Device r has d_r of the D pooled columns:
//
//	M         max over r of what the device sends and what it receives
//	one host  T = alpha + M / intra
//	more      T = base + hop log2 n + max(M (1-f) / intra, M f / nic)
//	forward   wait_r + overlapped(T exp(residual)) + packing of d_r
//	backward  T exp(residual) + packing of D / n
//
// f is the share of a device's peers that are on other hosts. Processes on a CPU pack
// and send as soon as they are ready, so part of the forward collective is over when
// the last device is ready (Overlapped): the earlier the other devices are ready, the
// less time is left. Collectives that begin when all devices are ready, such as NCCL's,
// have no overlap.

// Cluster describes the devices of an exchange and the sizes of the vectors: see
// simulate.Cluster.
type Cluster = simulate.Cluster

// CommConstants are the constants of the closed form and of its overlap, fitted to samples.
type CommConstants = modelfile.CommSpec

// commModel predicts the all-to-alls.
type commModel struct {
	constants CommConstants
	// residual holds the layers of one net for each member of an ensemble.
	residual [][]denseLayer
	// batches are those of the samples.
	batches batches
}

type denseLayer struct {
	weight, bias []float32
	in, out      int
}

// The names of the residual net's tensors, and the numbers of its inputs and outputs.
// The two outputs correct the forward and the backward collective.
const (
	TensorCommWeight = "comm.residual.%d.weight"
	TensorCommBias   = "comm.residual.%d.bias"
	// CommInputs is the length of CommFeatures.
	CommInputs  = 7
	commOutputs = 2
	commLayers  = 3
)

func loadComm(file *modelfile.Model) (commModel, error) {
	c := commModel{constants: file.Manifest.Comm, batches: batchesOf(file.Manifest.Domain)}
	if err := checkComm(c.constants); err != nil {
		return c, fmt.Errorf("model %q: comm constants %+v: %w", file.Manifest.ID, c.constants, err)
	}
	members := max(1, file.Manifest.Compute.Members)
	for member := range members {
		layers, err := loadResidual(file, MemberPrefix(member, members))
		if err != nil {
			return c, err
		}
		c.residual = append(c.residual, layers)
	}
	return c, nil
}

// checkComm refuses constants that are not latencies, bandwidths or overlaps.
func checkComm(k modelfile.CommSpec) error {
	for _, v := range []float64{k.AlphaMS, k.IntraGBps, k.CopyGBps} {
		if !(v > 0) || math.IsInf(v, 0) {
			return errors.New("a latency or bandwidth is not positive")
		}
	}
	for _, v := range []float64{k.BaseMS, k.HopMS, k.NICGBps} { // 0 if there is one host only
		if !(v >= 0) || math.IsInf(v, 0) {
			return errors.New("a latency or bandwidth between hosts is negative or not finite")
		}
	}
	if k.OverlapRest == 0 && k.OverlapRate == 0 {
		return nil
	}
	if !(k.OverlapRest >= 1 && k.OverlapRate > 0 && k.OverlapRate <= 1) || math.IsInf(k.OverlapRest, 1) {
		return errors.New("want an overlap rest of at least 1, and a rate above 0 and at most 1")
	}
	return nil
}

// loadResidual returns the layers of one member's correction of all-to-alls.
func loadResidual(file *modelfile.Model, prefix string) ([]denseLayer, error) {
	hidden := file.Manifest.Comm.Hidden
	widths := []int{CommInputs, hidden, hidden, commOutputs}
	var layers []denseLayer
	for i := range commLayers {
		weight, err := file.Tensor(prefix+fmt.Sprintf(TensorCommWeight, i), widths[i+1], widths[i])
		if err != nil {
			return nil, err
		}
		bias, err := file.Tensor(prefix+fmt.Sprintf(TensorCommBias, i), widths[i+1])
		if err != nil {
			return nil, err
		}
		layers = append(layers, denseLayer{weight, bias, widths[i], widths[i+1]})
	}
	return layers, nil
}

// Overlapped returns how long a forward collective takes after the last of n devices is
// ready, in ms. time is the collective's time in ms, and lead is how long the other
// devices were ready before, in ms, in the mean. It is simulate.Overlap with the fitted
// constants.
func Overlapped(k CommConstants, n int, time, lead float64) float64 {
	overlap := simulate.Overlap{Rest: k.OverlapRest, Rate: k.OverlapRate}
	return float64(overlap.Left(n, unit.Millis(time), unit.Millis(lead)))
}

// lead returns how long the other devices are ready before the last, in ms, in the
// mean, if each is ready at the end of its compute. computes is the sum of all
// computes.
func lead(computes float64, longest float64, n int) float64 {
	return max(0, (float64(n)*longest-computes)/float64(max(1, n-1)))
}

// CommLoad is the load of the all-to-alls in a placement: the largest, the smallest and
// the sum of the devices' numbers of pooled columns.
type CommLoad struct{ Max, Min, Sum int }

// CommFeatures writes the inputs of the residual net for an all-to-all into dst, whose
// length is CommInputs.
func CommFeatures(dst []float32, c Cluster, l CommLoad) {
	q := questionOf(c, l)
	q.features(dst)
}

// transfer returns M: the bytes that the busiest device sends or receives.
func transfer(n *simulate.Network, l CommLoad) float64 {
	return n.Transfer(float64(l.Max), float64(l.Min), float64(l.Sum))
}

// AllToAll returns the closed form's time of one all-to-all in ms, without the wait for
// other devices and without copies.
func AllToAll(k CommConstants, c Cluster, l CommLoad) float64 {
	n := networkOf(k, c)
	return allToAll(&n, l)
}

func allToAll(n *simulate.Network, l CommLoad) float64 {
	return float64(n.AllToAll(transfer(n, l)).Time())
}

// bytesPerMS is the number of bytes that 1 GB/s moves in a millisecond.
const bytesPerMS = 1e6

// networkOf returns the cluster with the links that the constants state.
func networkOf(k CommConstants, c Cluster) simulate.Network {
	n := simulate.Network{Cluster: c, Links: simulate.Links{
		Fixed: unit.Millis(k.AlphaMS), FixedInHost: unit.Millis(k.AlphaMS),
		Intra: k.IntraGBps * bytesPerMS, NIC: k.NICGBps * bytesPerMS, Copy: k.CopyGBps * bytesPerMS,
	}}
	if c.Domains() > 1 {
		n.Fixed = unit.Millis(k.BaseMS + k.HopMS*math.Log2(float64(c.Devices)))
	}
	n.FixedWhole, n.NICWhole = unit.Millis(k.BaseMS+k.HopMS*math.Log2(float64(c.Whole().Devices))), n.NIC
	return n
}

// commTimes are the times in ms of the collectives of one step, with the copies that
// all devices share. backward is the whole backward exchange of any device; forward is
// the forward exchange of a device without its wait and its own packing (pack).
type commTimes struct{ forward, backward float64 }

func (m *commModel) times(n *simulate.Network, l CommLoad, work *commWork) commTimes {
	return m.timesOf(n, l, work, m.residual)
}

// timesOf is times with the mean correction of the given nets.
func (m *commModel) timesOf(n *simulate.Network, l CommLoad, work *commWork, nets [][]denseLayer) commTimes {
	if n.Devices == 1 {
		return commTimes{}
	}
	q := m.allToAllQuestion(n, l)
	forward, backward := work.correction(nets, &q)
	base, unpack := allToAll(n, l), float64(n.PackOwn(float64(l.Sum)))
	return commTimes{forward: base * forward, backward: base*backward + unpack}
}

// pack returns the time, in ms, that a device needs to pack and unpack its own pooled
// columns in the forward exchange.
func pack(n *simulate.Network, columns int) float64 {
	if n.Devices == 1 {
		return 0
	}
	return float64(n.Pack(float64(columns)))
}

// commWork holds the activations of the residual net.
type commWork struct {
	in      [CommInputs]float32
	a, b    []float32
	results [commOutputs]float32
}

func (w *commWork) run(layers []denseLayer) [commOutputs]float32 {
	in := w.in[:]
	for i, l := range layers {
		if cap(w.a) < l.out {
			w.a = make([]float32, l.out)
		}
		out := w.a[:l.out]
		for j := range out {
			out[j] = l.bias[j] + f32.Dot(l.weight[j*l.in:][:l.in], in)
		}
		if i+1 < len(layers) {
			f32.ReLU(out)
		}
		in = out
		w.a, w.b = w.b, w.a
	}
	copy(w.results[:], in)
	return w.results
}

// commMemo keeps the times of recent loads: the inner searches of a grid, and those of
// divisions that differ in one table, end with the same few loads.
type commMemo struct {
	work commWork
	// penalty is the risk penalty, as in operators.
	penalty float64
	loads   [256]struct {
		load  CommLoad
		known bool
		times commTimes
	}
	// others holds the corrections of recent exchanges other than all-to-alls.
	others [64]struct {
		bytes  float64
		known  bool
		factor float64
	}
}

func (c *commMemo) times(m *commModel, n *simulate.Network, l CommLoad) commTimes {
	spread := uint64(l.Max)*0x9e3779b97f4a7c15 + uint64(l.Min)*0xbf58476d1ce4e5b9 + uint64(l.Sum)*0x94d049bb133111eb
	kept := &c.loads[spread>>56]
	if !kept.known || kept.load != l {
		kept.load, kept.known, kept.times = l, true, m.times(n, l, &c.work)
		if c.penalty > 0 {
			kept.times = c.penalised(m, n, l, kept.times)
		}
	}
	return kept.times
}

// networkFor returns the network of the problem. A network bandwidth that the topology
// states scales the fitted one, because the profile's bandwidth is that of the samples.
func networkFor(m *Model, p *problem.Problem) simulate.Network {
	n := networkOf(m.comm.constants, clusterOf(p))
	if b := p.Topology.NetworkBandwidth; b > 0 && m.hardware.NICGBps > 0 {
		n.NIC *= b.GBps() / m.hardware.NICGBps
		n.NICWhole = n.NIC
	}
	return n
}

// clusterOf returns the cluster and batch of a problem.
func clusterOf(p *problem.Problem) Cluster {
	return Cluster{Devices: p.Topology.Devices, PerHost: p.Topology.PerHost(), Domain: p.Topology.NVLinkDomain, Replicas: p.Topology.Replicas, ReplicasPerDomain: p.Topology.ReplicasPerDomain, Batch: p.Batch, ElementBytes: p.CommBytes()}
}
