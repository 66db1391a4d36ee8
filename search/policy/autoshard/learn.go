package autoshard

import (
	"math"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/search/policy"
)

// The weights of the learner's losses, as published.
const (
	valueWeight   = 0.5
	entropyWeight = 0.001
)

// Unroll is what several actors saw and did: the input of one learner step.
type Unroll struct {
	// Frames holds one step more than there are actions: the state after the last
	// action gives the return that is expected from there.
	Frames Frames
	Start  nn.LSTMState // before the first frame; not modified

	// For each frame but those of the last step:
	Actions []int     // the device that was chosen
	Logits  []float32 // frames x Devices: the logits that the actor chose by
	Rewards []float32 // what followed the action
	Last    []bool    // the action was the last of an episode
}

// Losses are the terms of the learner's loss: sums over the actions, with their
// weights.
type Losses struct {
	Policy  float64 // of the actions' advantages
	Value   float64 // of the expected returns
	Entropy float64 // minus the entropy of the choices
}

// Total is the loss that the gradient belongs to.
func (l Losses) Total() float64 { return l.Policy + l.Value + l.Entropy }

// Gradient holds a gradient for each net of a Net, or nil for a net that the loss does
// not reach.
type Gradient [parts][]float32

// parts is the number of nets of a Net, in the order of its fields.
const parts = 7

const (
	table = iota
	share
	load
	recurrent
	choice
	value
	cost
)

// Learner computes the gradients of a Net. One goroutine at a time may use it. Its
// gradients are valid until its next call.
type Learner struct {
	net  *Net
	ws   Workspace
	grad Gradient

	vectors, dVectors []float32
	logits, values    []float32
	dLogits, dValues  []float32
	predicted, dCosts []float32
}

// NewLearner returns a learner of the net.
func NewLearner(net *Net) *Learner {
	l := &Learner{net: net}
	nets, _ := net.parts()
	for i, p := range nets {
		l.grad[i] = make([]float32, len(p.Weights()))
	}
	return l
}

// Policy returns the losses of an unroll and their gradient. x holds the features of
// the tables that the unroll's frames name by row. The gradient reaches all nets except
// Cost.
func (l *Learner) Policy(x []float32, u *Unroll) (Losses, Gradient) {
	l.begin(x)
	frames := &u.Frames
	n := frames.Len()
	l.logits, l.dLogits = grow(l.logits, n*frames.Devices), grow(l.dLogits, n*frames.Devices)
	l.values, l.dValues = grow(l.values, n), grow(l.dValues, n)
	state := nn.LSTMState{H: append([]float32(nil), u.Start.H...), C: append([]float32(nil), u.Start.C...)}
	l.net.Forward(&l.ws, l.vectors, frames, state, l.logits, l.values)
	losses := l.losses(u)
	l.net.backward(&l.ws, frames, l.dLogits, l.dValues, &l.grad, l.dVectors)
	l.embedBackward(x)
	grad := l.grad
	grad[cost] = nil
	return losses, grad
}

// begin embeds the tables and clears the gradients.
func (l *Learner) begin(x []float32) {
	l.vectors = l.net.Embed(&l.ws, x, l.vectors)
	l.dVectors = grow(l.dVectors, len(l.vectors))
	clear(l.dVectors)
	for _, grad := range l.grad {
		clear(grad)
	}
}

func (l *Learner) embedBackward(x []float32) {
	l.net.Table.Backward(&l.ws.table, len(x)/policy.Features, x, l.dVectors, l.grad[table])
}

// losses sets the derivatives by logits and values. Targets and advantages are
// constants to the gradient.
func (l *Learner) losses(u *Unroll) Losses {
	count, devices := u.Frames.Sequences, u.Frames.Devices
	n := len(u.Actions)
	clear(l.dLogits)
	clear(l.dValues)
	logs := make([]float64, n*devices)
	trace := Trace{
		Sequences: count, ClipRho: 1, ClipPG: 1,
		LogRhos: make([]float64, n), Rewards: widen(u.Rewards), Discounts: make([]float64, n),
		Values: widen(l.values[:n]), Bootstrap: widen(l.values[n : n+count]),
	}
	for i, action := range u.Actions {
		row := logs[i*devices : (i+1)*devices]
		copy(row, widen(u.Logits[i*devices:(i+1)*devices]))
		logProbabilities(row)
		actor := row[action]
		copy(row, widen(l.logits[i*devices:(i+1)*devices]))
		logProbabilities(row)
		trace.LogRhos[i] = row[action] - actor
		if !u.Last[i] {
			trace.Discounts[i] = 1
		}
	}
	vs, advantages := trace.Targets()
	var losses Losses
	for i, action := range u.Actions {
		row := logs[i*devices : (i+1)*devices]
		losses.Policy -= row[action] * advantages[i]
		gap := trace.Values[i] - vs[i]
		losses.Value += valueWeight * gap * gap / 2
		l.dValues[i] = float32(valueWeight * gap)
		var negative float64 // minus the entropy
		for _, v := range row {
			negative += math.Exp(v) * v
		}
		losses.Entropy += entropyWeight * negative
		for d, v := range row {
			p := math.Exp(v)
			l.dLogits[i*devices+d] = float32(p*advantages[i] + entropyWeight*p*(v-negative))
		}
		l.dLogits[i*devices+action] -= float32(advantages[i])
	}
	return losses
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// backward adds the gradient of a loss to grad, and the derivative by the tables'
// vectors to dVectors. dLogits and dValues are the derivatives by the outputs of
// Forward, which the caller called before.
func (net *Net) backward(ws *Workspace, frames *Frames, dLogits, dValues []float32, grad *Gradient, dVectors []float32) {
	n, devices := frames.Len(), frames.Devices
	ws.dJoined, ws.dOutput = grow(ws.dJoined, n*devices*3*core), grow(ws.dOutput, n*core)
	ws.dShares, ws.dLoads = grow(ws.dShares, n*embed), grow(ws.dLoads, n*devices*embed)
	ws.dInput = grow(ws.dInput, n*core)
	net.Choice.BackwardInput(&ws.choice, n*devices, ws.joined, dLogits, grad[choice], ws.dJoined)
	net.Value.BackwardInput(&ws.value, n, ws.output, dValues, grad[value], ws.dOutput)
	for i := range n * devices {
		dJoined, device := ws.dJoined[i*3*core:(i+1)*3*core], ws.devices[i*core:(i+1)*core]
		at := i / devices * core
		output, dOutput := ws.output[at:at+core], ws.dOutput[at:at+core]
		dDevice := dJoined[core : 2*core]
		for j, d := range dJoined[2*core:] {
			dOutput[j] += dJoined[j] + d*device[j]
			dDevice[j] += d * output[j]
		}
		copy(ws.dLoads[i*embed:(i+1)*embed], dDevice[embed:])
		for _, row := range frames.Held.Rows[frames.Held.Offsets[i]:frames.Held.Offsets[i+1]] {
			f32.Add(dVectors[row*embed:(row+1)*embed], dDevice[:embed])
		}
	}
	net.Load.Backward(&ws.load, n*devices, frames.Load, ws.dLoads, grad[load])

	net.Core.Backward(&ws.core, frames.Steps, frames.Sequences, ws.input, frames.Reset, ws.dOutput, grad[recurrent], ws.dInput)
	for i := range n {
		dInput := ws.dInput[i*core : (i+1)*core]
		copy(ws.dShares[i*embed:(i+1)*embed], dInput[embed:])
		for _, row := range frames.Current.Rows[frames.Current.Offsets[i]:frames.Current.Offsets[i+1]] {
			f32.Add(dVectors[row*embed:(row+1)*embed], dInput[:embed])
		}
	}
	net.Share.Backward(&ws.share, n, frames.Share, ws.dShares, grad[share])
}

// Cost returns the mean squared error of the predicted costs of devices and the
// error's gradient, which reaches the nets Table and Cost. x holds the features of the
// tables, held the tables of each device by row, and measured the device's cost.
func (l *Learner) Cost(x []float32, held *Lists, measured []float32) (float64, Gradient) {
	l.begin(x)
	n := held.Len()
	l.predicted, l.dCosts = grow(l.predicted, n), grow(l.dCosts, n)
	l.net.Costs(&l.ws, l.vectors, held, l.predicted)
	var loss float64
	for i, got := range l.predicted {
		gap := float64(got) - float64(measured[i])
		loss += gap * gap / float64(n)
		l.dCosts[i] = float32(2 * gap / float64(n))
	}
	l.ws.dSums = grow(l.ws.dSums, n*embed)
	l.net.Cost.BackwardInput(&l.ws.cost, n, l.ws.sums, l.dCosts, l.grad[cost], l.ws.dSums)
	for i := range n {
		for _, row := range held.Rows[held.Offsets[i]:held.Offsets[i+1]] {
			f32.Add(l.dVectors[row*embed:(row+1)*embed], l.ws.dSums[i*embed:(i+1)*embed])
		}
	}
	l.embedBackward(x)
	return loss, Gradient{table: l.grad[table], cost: l.grad[cost]}
}

// Clip scales a gradient down to a norm of at most limit, over all nets, and returns
// the norm before.
func (g *Gradient) Clip(limit float64) float64 { return nn.ClipNorm(limit, g[:]...) }

// Optimizer moves the weights of a Net by Adam. A net that a gradient does not reach
// stays, and so do its moments, as in PyTorch.
type Optimizer struct {
	net  *Net
	adam [parts]*nn.Adam
}

// NewOptimizer returns an optimizer with the published learning rate of Adam, 1e-3.
func NewOptimizer(net *Net) *Optimizer {
	o := &Optimizer{net: net}
	for i := range o.adam {
		o.adam[i] = nn.NewAdam(LearningRate)
	}
	return o
}

// LearningRate is the published learning rate of the first step.
const LearningRate = 1e-3

// Step moves the weights against a gradient, at the given learning rate.
func (o *Optimizer) Step(rate float64, grad Gradient) {
	nets, _ := o.net.parts()
	for i, g := range grad {
		if g != nil {
			o.adam[i].LR = rate
			o.adam[i].Step(nets[i].Weights(), g)
		}
	}
}
