package autoshard

import (
	"math"
	"slices"

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

// The nets of a Net, in the order of Nets.
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
	grad [][]float32

	vectors, dVectors []float32
	logits, values    []float32
	dLogits, dValues  []float32
	predicted, dCosts []float32
}

// NewLearner returns a learner of the net.
func NewLearner(net *Net) *Learner {
	return &Learner{net: net, grad: net.Nets().Gradients()}
}

// Policy returns the losses of an unroll and their gradient. x holds the features of
// the tables that the unroll's frames name by row. The gradient reaches all nets except
// Cost, whose gradient is nil.
func (l *Learner) Policy(x []float32, u *Unroll) (Losses, [][]float32) {
	l.begin(x)
	frames := &u.Frames
	n := frames.Len()
	l.logits, l.dLogits = policy.Grow(l.logits, n*frames.Devices), policy.Grow(l.dLogits, n*frames.Devices)
	l.values, l.dValues = policy.Grow(l.values, n), policy.Grow(l.dValues, n)
	state := nn.LSTMState{H: append([]float32(nil), u.Start.H...), C: append([]float32(nil), u.Start.C...)}
	l.net.Forward(&l.ws, l.vectors, frames, state, l.logits, l.values)
	losses := l.losses(u)
	l.net.backward(&l.ws, frames, l.dLogits, l.dValues, l.grad, l.dVectors)
	l.embedBackward(x)
	grad := slices.Clone(l.grad)
	grad[cost] = nil
	return losses, grad
}

// begin embeds the tables and clears the gradients.
func (l *Learner) begin(x []float32) {
	l.vectors = l.net.Embed(&l.ws, x, l.vectors)
	l.dVectors = policy.Grow(l.dVectors, len(l.vectors))
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
func (net *Net) backward(ws *Workspace, frames *Frames, dLogits, dValues []float32, grad [][]float32, dVectors []float32) {
	n, devices := frames.Len(), frames.Devices
	ws.dJoined, ws.dOutput = policy.Grow(ws.dJoined, n*devices*3*core), policy.Grow(ws.dOutput, n*core)
	ws.dShares, ws.dLoads = policy.Grow(ws.dShares, n*embed), policy.Grow(ws.dLoads, n*devices*embed)
	ws.dInput = policy.Grow(ws.dInput, n*core)
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
func (l *Learner) Cost(x []float32, held *Lists, measured []float32) (float64, [][]float32) {
	l.begin(x)
	n := held.Len()
	l.predicted, l.dCosts = policy.Grow(l.predicted, n), policy.Grow(l.dCosts, n)
	l.net.Costs(&l.ws, l.vectors, held, l.predicted)
	var loss float64
	for i, got := range l.predicted {
		gap := float64(got) - float64(measured[i])
		loss += gap * gap / float64(n)
		l.dCosts[i] = float32(2 * gap / float64(n))
	}
	l.ws.dSums = policy.Grow(l.ws.dSums, n*embed)
	l.net.Cost.BackwardInput(&l.ws.cost, n, l.ws.sums, l.dCosts, l.grad[cost], l.ws.dSums)
	for i := range n {
		for _, row := range held.Rows[held.Offsets[i]:held.Offsets[i+1]] {
			f32.Add(l.dVectors[row*embed:(row+1)*embed], l.ws.dSums[i*embed:(i+1)*embed])
		}
	}
	l.embedBackward(x)
	return loss, [][]float32{table: l.grad[table], cost: l.grad[cost]}
}

// LearningRate is the published learning rate of the first step.
const LearningRate = 1e-3
