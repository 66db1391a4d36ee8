package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// correction.go asks the net that corrects the closed form of an exchange, and keeps each
// question within the samples of the training. The samples are all-to-alls, so an
// all-reduce, a ring or an exchange between hosts needs an all-to-all that stands for it.
// The time of an exchange depends on its bytes and on the cluster, not on how the bytes
// divide into samples and columns. So the question may have another batch:
//
//	all-to-all         its own batch, unless a device then has more columns than in any
//	                   sample; then the batch that moves the same bytes with mostColumns
//	other exchanges    the batch that moves the same bytes with typicalColumns
//	hosts of 1 device  the same number of hosts of 2 devices, with the bytes that take the
//	                   same share of the exchange's time
//
// Beyond the most bytes of the samples, the question has the most bytes: there the time of
// an exchange is that of the bytes alone, and the correction does not change any more.

// These are the pooled columns of a device in the all-to-alls that package design draws.
// Half of the samples have typicalColumns and more on their most loaded device, and none
// has mostColumns. Where all devices have the same number, few samples have more than
// mostEvenColumns (TestColumnsOfTheSamples).
const (
	typicalColumns  = 256
	mostEvenColumns = 1024
	mostColumns     = 6144
)

// minSampledBatch and maxSampledBatch are the batches of the samples of a model that does
// not state them: those that package design draws.
const (
	minSampledBatch = 512
	maxSampledBatch = 131072
)

// batches are the smallest and the largest batch of a model's samples.
type batches struct{ least, most float64 }

// batchesOf returns the batches that a domain states.
func batchesOf(d modelfile.Domain) batches {
	if d.MaxBatch == 0 {
		return batches{minSampledBatch, maxSampledBatch}
	}
	return batches{float64(d.MinBatch), float64(d.MaxBatch)}
}

// bytesOf returns the most bytes that a device of the given pooled columns sends in an
// all-to-all of a batch.
func bytesOf(batch, columns float64) float64 { return batch * columns * problem.OutputBytes }

// question is what the correcting net reads of an all-to-all.
type question struct {
	cluster Cluster
	// bytes is what the busiest device sends or receives, and skew is the most pooled
	// columns of a device divided by the mean.
	bytes, skew float64
}

// questionOf returns the question of an all-to-all as it is.
func questionOf(c Cluster, l CommLoad) question {
	return question{c, transfer(&simulate.Network{Cluster: c}, l), float64(l.Max) * float64(c.Devices) / math.Max(1, float64(l.Sum))}
}

// features writes the inputs of the net into dst. All are of about size one.
func (q *question) features(dst []float32) {
	c := &q.cluster
	hosts := float64(c.Domains()) // the samples' hosts are what links join
	dst[0] = float32(math.Log2(float64(c.Devices)) / 10)
	dst[1] = float32(math.Log2(hosts) / 7)
	dst[2] = float32(math.Log2(float64(c.Joined())) / 4)
	dst[3] = float32(math.Log2(1+q.bytes) / 30)
	dst[4] = float32(math.Log2(float64(c.Batch)) / 17)
	dst[5] = float32(q.skew / 4)
	dst[6] = float32(1 / hosts)
}

// allToAllQuestion returns the question for an all-to-all.
func (m *commModel) allToAllQuestion(n *simulate.Network, l CommLoad) question {
	q := questionOf(n.Cluster, l)
	m.pair(&q)
	batch := float64(q.cluster.Batch)
	if q.bytes > bytesOf(batch, mostColumns) {
		batch = max(batch, min(m.batches.most, math.Ceil(q.bytes/bytesOf(1, mostColumns))))
		q.cluster.Batch, q.bytes = int(batch), min(q.bytes, bytesOf(batch, mostColumns))
	}
	return q
}

// otherQuestion returns the question for another exchange over several hosts, in which the
// busiest device sends the given bytes to other hosts or receives them.
func (m *commModel) otherQuestion(n *simulate.Network, away float64) question {
	q := question{n.Cluster, away / n.Away(), 1}
	m.pair(&q)
	q.bytes = min(q.bytes, bytesOf(m.batches.most, mostEvenColumns))
	q.cluster.Batch = int(max(m.batches.least, min(m.batches.most, q.bytes/bytesOf(1, typicalColumns))))
	return q
}

// pair changes a question about hosts of one device, which no sample has, to one about
// hosts of two.
func (m *commModel) pair(q *question) {
	if q.cluster.Joined() > 1 || q.cluster.Devices == 1 {
		return
	}
	single := networkOf(m.constants, q.cluster)
	q.cluster.PerHost, q.cluster.Devices = 2, 2*q.cluster.Devices
	pairs := networkOf(m.constants, q.cluster)
	q.bytes *= single.Away() / pairs.Away() * float64(pairs.Fixed/single.Fixed)
}

// correction returns the factors of the closed form of a forward and of a backward
// exchange: exp of the mean answer of the nets.
func (w *commWork) correction(nets [][]denseLayer, q *question) (forward, backward float64) {
	q.features(w.in[:])
	var residual [commOutputs]float32
	for _, layers := range nets {
		for i, v := range w.run(layers) {
			residual[i] += v / float32(len(nets))
		}
	}
	return math.Exp(clamp(residual[0])), math.Exp(clamp(residual[1]))
}

// clamp limits a correction to a factor of e: beyond that, the closed form is more
// trustworthy.
func clamp(v float32) float64 { return math.Max(-1, math.Min(1, float64(v))) }

// otherExchange returns the time, in ms, of a collective on the links between hosts; 0 on
// one host. Inside a host or an NVLink domain, the closed form is equally good for all
// collectives, so no correction is needed. The memo keeps the corrections.
func (m *commModel) otherExchange(memo *commMemo, n *simulate.Network, c simulate.Collective) float64 {
	if n.Domains() == 1 {
		return float64(c.Time())
	}
	kept := &memo.others[math.Float64bits(c.Bytes)*0x9e3779b97f4a7c15>>58]
	if !kept.known || kept.bytes != c.Bytes {
		kept.bytes, kept.known, kept.factor = c.Bytes, true, m.otherFactor(&memo.work, n, c.Bytes, memo.penalty)
	}
	return float64(c.Fixed+unit.Millis(c.Bytes/n.NIC)) * kept.factor
}

// otherFactor returns the correction of a collective in which the busiest device sends the
// given bytes to other hosts, with the risk penalty.
func (m *commModel) otherFactor(work *commWork, n *simulate.Network, away, penalty float64) float64 {
	q := m.otherQuestion(n, away)
	_, factor := work.correction(m.residual, &q)
	if penalty == 0 {
		return factor
	}
	sum, squares := 0.0, 0.0
	for k := range m.residual {
		_, one := work.correction(m.residual[k:k+1], &q)
		sum, squares = sum+one, squares+one*one
	}
	return factor + penalty*deviation(sum, squares, float64(len(m.residual)))
}
