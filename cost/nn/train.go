package nn

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/internal/f32"
)

// Adam is the optimizer of Kingma and Ba (arXiv:1412.6980), without weight
// decay. It belongs to one net: it keeps two moments for every weight.
type Adam struct {
	LR    float64 // learning rate; the caller may change it between steps
	Beta1 float64 // decay of the gradient's mean
	Beta2 float64 // decay of the gradient's mean square
	Eps   float64 // keeps a step finite if the gradient is zero

	steps int
	m, v  []float32
}

// NewAdam returns Adam with the paper's defaults: beta 0.9 and 0.999, epsilon
// 1e-8.
func NewAdam(lr float64) *Adam {
	return &Adam{LR: lr, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
}

// Step moves the weights against the gradient. The slices of all calls must have
// the same length. Weights of one vector that are trained by turns, some of them in one
// loss and some in another, have an Adam each: an Adam then counts the steps of its weights
// only, as PyTorch's does for tensors without a gradient, which it skips.
func (a *Adam) Step(weights, grad []float32) {
	if a.m == nil {
		a.m, a.v = make([]float32, len(weights)), make([]float32, len(weights))
	}
	a.steps++
	t := float64(a.steps)
	f32.AdamStep{
		Beta1: float32(a.Beta1), Rest1: float32(1 - a.Beta1),
		Beta2: float32(a.Beta2), Rest2: float32(1 - a.Beta2),
		Step:      float32(a.LR / (1 - math.Pow(a.Beta1, t))),
		RootScale: float32(1 / math.Sqrt(1-math.Pow(a.Beta2, t))),
		Eps:       float32(a.Eps),
	}.Apply(weights, grad, a.m, a.v)
}

// LossFunc is the caller's loss. out holds the outputs of the items lo up to, not
// including, hi of the minibatch, (hi-lo) x Out. LossFunc sets dout, of the same
// shape, to the derivative of the loss by the outputs, and returns the loss of
// these items. Several goroutines call it at the same time, for ranges that do
// not overlap. The losses and gradients of all ranges are added up; for a mean
// over the minibatch, LossFunc divides by the number of items.
type LossFunc func(lo, hi int, out, dout []float32) float64

// SetTrainer computes gradients of a SetNet over minibatches. One goroutine at a
// time may use it.
type SetTrainer struct {
	net    *SetNet
	chunks chunks
	packs  setPacks
	work   []setWork
	flat   []float32
}

type setWork struct {
	ws        SetWorkspace
	out, dout []float32
}

// NewSetTrainer returns a trainer that cuts every minibatch into parts. Up to
// workers goroutines compute the gradients of the parts, which are added in the
// order of the parts. The number of parts may change the last bits of a
// gradient; the number of workers does not. Both must be at least 1; 16 parts
// suit 512 sets.
func NewSetTrainer(net *SetNet, parts, workers int) *SetTrainer {
	t := &SetTrainer{net: net, chunks: newChunks(parts, workers, net.stack.size)}
	t.work = make([]setWork, t.chunks.workers)
	return t
}

// Gradient returns the loss of a minibatch and the gradient of the loss. The
// gradient has the layout of the net's Weights and is valid until the next call.
func (t *SetTrainer) Gradient(batch Sets, loss LossFunc) (float64, []float32) {
	t.net.check(batch)
	t.packs.fitElements(t.net)
	t.packs.fitHead(t.net)
	t.packs.fitBack(t.net)
	t.chunks.round(batch.Len(), func(worker, part, lo, hi int) {
		w := &t.work[worker]
		w.out, w.dout = grow(w.out, (hi-lo)*t.net.config.Out), grow(w.dout, (hi-lo)*t.net.config.Out)
		in := batch.Slice(lo, hi)
		t.net.forward(&w.ws, &t.packs, in, w.out)
		t.chunks.losses[part] = loss(lo, hi, w.out, w.dout)
		t.net.backward(&w.ws, &t.packs, in, w.dout, t.chunks.grads[part])
	})
	total, grad := t.chunks.sum()
	t.flat = t.net.stack.straighten(grad, t.flat)
	return total, grad
}

// Step moves the net's weights by one step of Adam on a minibatch, and returns
// the loss before it.
func (t *SetTrainer) Step(batch Sets, adam *Adam, loss LossFunc) float64 {
	value, grad := t.Gradient(batch, loss)
	adam.Step(t.net.flat, grad)
	return value
}

// MLPTrainer computes gradients of an MLP over minibatches. One goroutine at a
// time may use it.
type MLPTrainer struct {
	net    *MLP
	chunks chunks
	packs  mlpPacks
	work   []mlpWork
	flat   []float32
}

type mlpWork struct {
	ws        MLPWorkspace
	out, dout []float32
}

// NewMLPTrainer returns a trainer that cuts every minibatch into parts, as
// NewSetTrainer does.
func NewMLPTrainer(net *MLP, parts, workers int) *MLPTrainer {
	t := &MLPTrainer{net: net, chunks: newChunks(parts, workers, net.stack.size)}
	t.work = make([]mlpWork, t.chunks.workers)
	return t
}

// Gradient returns the loss of a minibatch x of n rows and the gradient of the
// loss. The gradient has the layout of the net's Weights and is valid until the
// next call.
func (t *MLPTrainer) Gradient(n int, x []float32, loss LossFunc) (float64, []float32) {
	in, out := t.net.In(), t.net.Out()
	need("x", len(x), n*in)
	t.packs.fitForward(t.net)
	t.packs.fitBack(t.net)
	t.chunks.round(n, func(worker, part, lo, hi int) {
		w := &t.work[worker]
		w.out, w.dout = grow(w.out, (hi-lo)*out), grow(w.dout, (hi-lo)*out)
		rows := x[lo*in : hi*in]
		t.net.forward(&w.ws, &t.packs, hi-lo, rows, w.out)
		t.chunks.losses[part] = loss(lo, hi, w.out, w.dout)
		t.net.backward(&w.ws, &t.packs, hi-lo, rows, w.dout, t.chunks.grads[part])
	})
	total, grad := t.chunks.sum()
	t.flat = t.net.stack.straighten(grad, t.flat)
	return total, grad
}

// Step moves the net's weights by one step of Adam on a minibatch of n rows,
// and returns the loss before it.
func (t *MLPTrainer) Step(n int, x []float32, adam *Adam, loss LossFunc) float64 {
	value, grad := t.Gradient(n, x, loss)
	adam.Step(t.net.flat, grad)
	return value
}

// chunks is a minibatch cut into parts. Each part has its own gradient, written
// by the worker that takes the part. The gradients are then added in the order of
// the parts, so the sum does not depend on which worker is first.
type chunks struct {
	workers int
	grads   [][]float32
	losses  []float64
}

func newChunks(parts, workers, size int) chunks {
	if parts < 1 || workers < 1 {
		panic(fmt.Sprintf("nn: %d parts and %d workers: use at least 1 of each", parts, workers))
	}
	c := chunks{workers: min(parts, workers), grads: make([][]float32, parts), losses: make([]float64, parts)}
	for i := range c.grads {
		c.grads[i] = make([]float32, size)
	}
	return c
}

// round clears the losses and gradients of a minibatch, calls compute once for every part
// that is not empty, on several goroutines, and waits for the last call.
func (c *chunks) round(items int, compute func(worker, part, lo, hi int)) {
	for part := range c.grads {
		clear(c.grads[part])
		c.losses[part] = 0
	}
	parts := len(c.grads)
	var next atomic.Int64
	work := func(worker int) {
		for {
			part := int(next.Add(1)) - 1
			if part >= parts {
				return
			}
			if lo, hi := part*items/parts, (part+1)*items/parts; lo < hi {
				compute(worker, part, lo, hi)
			}
		}
	}
	var group sync.WaitGroup
	for worker := 1; worker < c.workers; worker++ {
		group.Go(func() { work(worker) })
	}
	work(0)
	group.Wait()
}

// sum returns the sums of all parts' losses and gradients.
func (c *chunks) sum() (float64, []float32) {
	total, loss := c.grads[0], c.losses[0]
	for part := 1; part < len(c.grads); part++ {
		f32.Add(total, c.grads[part])
		loss += c.losses[part]
	}
	return loss, total
}
