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
	Eps   float64 // keeps a step finite where the gradient is zero

	steps int
	m, v  []float32
}

// NewAdam returns Adam with the paper's defaults: beta 0.9 and 0.999, epsilon
// 1e-8.
func NewAdam(lr float64) *Adam {
	return &Adam{LR: lr, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
}

// Step moves the weights against the gradient. Every call must be given slices
// of the same length.
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

// LossFunc is the caller's loss. It is given the outputs of the items lo up to,
// not including, hi of the minibatch, (hi-lo) x Out; it sets dout, of the same
// shape, to the derivative of the loss by them, and returns the loss of these
// items. It is called by several goroutines at a time, for ranges that do not
// overlap. Losses and gradients of the ranges are added up, so a mean over the
// minibatch is the caller's division.
type LossFunc func(lo, hi int, out, dout []float32) float64

// SetTrainer computes gradients of a SetNet over minibatches. It is used by one
// goroutine at a time.
type SetTrainer struct {
	net    *SetNet
	chunks chunks
	work   []setWork
}

type setWork struct {
	ws        SetWorkspace
	out, dout []float32
}

// NewSetTrainer returns a trainer that cuts every minibatch into parts, whose
// gradients are computed by up to workers goroutines and added in the parts'
// order. The number of parts may change the last bits of a gradient, the number
// of workers does not. Both must be at least 1; 16 parts suit 512 sets.
func NewSetTrainer(net *SetNet, parts, workers int) *SetTrainer {
	t := &SetTrainer{net: net, chunks: newChunks(parts, workers, net.stack.size)}
	t.work = make([]setWork, t.chunks.workers)
	return t
}

// Gradient returns the loss of a minibatch and its gradient, which is laid out
// like the net's Weights and valid until the next call.
func (t *SetTrainer) Gradient(batch Sets, loss LossFunc) (float64, []float32) {
	t.net.check(batch)
	return t.chunks.run(batch.Len(), func(worker, lo, hi int, grad []float32) float64 {
		w := &t.work[worker]
		n := (hi - lo) * t.net.config.Out
		w.out, w.dout = grow(w.out, n), grow(w.dout, n)
		part := batch.Slice(lo, hi)
		t.net.Forward(&w.ws, part, w.out)
		value := loss(lo, hi, w.out, w.dout)
		t.net.Backward(&w.ws, part, w.dout, grad)
		return value
	})
}

// Step moves the net's weights by one step of Adam on a minibatch, and returns
// the loss before it.
func (t *SetTrainer) Step(batch Sets, adam *Adam, loss LossFunc) float64 {
	value, grad := t.Gradient(batch, loss)
	adam.Step(t.net.flat, grad)
	return value
}

// MLPTrainer is for an MLP what SetTrainer is for a SetNet.
type MLPTrainer struct {
	net    *MLP
	chunks chunks
	work   []mlpWork
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

// Gradient returns the loss of a minibatch x of n rows and its gradient, which
// is laid out like the net's Weights and valid until the next call.
func (t *MLPTrainer) Gradient(n int, x []float32, loss LossFunc) (float64, []float32) {
	in, out := t.net.In(), t.net.Out()
	need("x", len(x), n*in)
	return t.chunks.run(n, func(worker, lo, hi int, grad []float32) float64 {
		w := &t.work[worker]
		w.out, w.dout = grow(w.out, (hi-lo)*out), grow(w.dout, (hi-lo)*out)
		part := x[lo*in : hi*in]
		t.net.Forward(&w.ws, hi-lo, part, w.out)
		value := loss(lo, hi, w.out, w.dout)
		t.net.Backward(&w.ws, hi-lo, part, w.dout, grad)
		return value
	})
}

// Step moves the net's weights by one step of Adam on a minibatch of n rows,
// and returns the loss before it.
func (t *MLPTrainer) Step(n int, x []float32, adam *Adam, loss LossFunc) float64 {
	value, grad := t.Gradient(n, x, loss)
	adam.Step(t.net.flat, grad)
	return value
}

// chunks is a minibatch cut into parts. Each part has its own gradient, written
// by whichever worker takes it; they are then added in order, so that the sum
// does not depend on who was first.
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

// run calls compute once for every part that is not empty, and returns the sums
// of what it returned and of what it wrote to grad.
func (c *chunks) run(items int, compute func(worker, lo, hi int, grad []float32) float64) (float64, []float32) {
	parts := len(c.grads)
	var next atomic.Int64
	work := func(worker int) {
		for {
			part := int(next.Add(1)) - 1
			if part >= parts {
				return
			}
			clear(c.grads[part])
			c.losses[part] = 0
			if lo, hi := part*items/parts, (part+1)*items/parts; lo < hi {
				c.losses[part] = compute(worker, lo, hi, c.grads[part])
			}
		}
	}
	var group sync.WaitGroup
	for worker := 1; worker < c.workers; worker++ {
		group.Go(func() { work(worker) })
	}
	work(0)
	group.Wait()

	total, loss := c.grads[0], c.losses[0]
	for part := 1; part < parts; part++ {
		f32.Add(total, c.grads[part])
		loss += c.losses[part]
	}
	return loss, total
}
