package autoshard

import (
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/search/policy"
)

// The widths of AutoShard's nets.
const (
	embed = 32        // of the vector of a table
	core  = 2 * embed // of the LSTM's input and output, and of a device's vector
)

// Net holds the nets of AutoShard. The table net is shared: the policy's losses and
// the cost net's loss train it. Many goroutines may use a Net at the same time, each
// with its own Workspace, while none writes to the weights.
type Net struct {
	// Table maps the features of a table to a vector of 32 numbers, with a ReLU after
	// both layers.
	Table *nn.MLP
	// Share maps the share of tables that are placed to 32 numbers, with a ReLU.
	Share *nn.MLP
	// Load maps a device's predicted cost and the GiB that the device holds to 32
	// numbers, with a ReLU.
	Load *nn.MLP
	// Core reads, table after table, the vector of the table to be placed and the output
	// of Share.
	Core *nn.LSTM
	// Choice maps Core's output, a device's vector and their product to the logit of the
	// device.
	Choice *nn.MLP
	// Value maps Core's output to the return that Core expects.
	Value *nn.MLP
	// Cost maps the sum of the vectors of a device's tables to the device's predicted
	// cost.
	Cost *nn.MLP
}

// New returns a net whose weights are zero.
func New() *Net {
	return &Net{
		Table:  policy.MLP(policy.Features, 128, embed).RectifyLast(),
		Share:  policy.MLP(1, embed).RectifyLast(),
		Load:   policy.MLP(2, embed).RectifyLast(),
		Core:   lstm(),
		Choice: policy.MLP(3*core, 128, 128, 64, 1),
		Value:  policy.MLP(core, 64, 1),
		Cost:   policy.MLP(embed, 64, 1),
	}
}

func lstm() *nn.LSTM {
	net, err := nn.NewLSTM(core, core, 2)
	if err != nil {
		panic(fmt.Sprintf("autoshard: %v", err))
	}
	return net
}

// Nets are all nets, in the order of the constants table to cost.
func (net *Net) Nets() policy.Nets {
	return policy.Nets{
		{Name: "table", Net: net.Table},
		{Name: "share", Net: net.Share},
		{Name: "load", Net: net.Load},
		{Name: "core", Net: net.Core},
		{Name: "choice", Net: net.Choice},
		{Name: "value", Net: net.Value},
		{Name: "cost", Net: net.Cost},
	}
}

// Init draws the weights as PyTorch draws those of new layers, as the published
// prototype does. The same seed gives the same weights.
func (net *Net) Init(seed uint64) {
	all := net.Nets()
	for i, p := range all {
		p.Net.InitUniform(seed*uint64(len(all)) + uint64(i))
	}
}

// Copy sets the weights to those of from.
func (net *Net) Copy(from *Net) {
	sources := from.Nets()
	for i, p := range net.Nets() {
		copy(p.Net.Weights(), sources[i].Net.Weights())
	}
}

// Lists are lists of rows: list i holds Rows[Offsets[i]:Offsets[i+1]].
type Lists struct {
	Offsets []int32 // one more than there are lists; never falling, from 0
	Rows    []int32
}

// Add appends a list.
func (l *Lists) Add(rows ...int32) {
	if len(l.Offsets) == 0 {
		l.Offsets = append(l.Offsets, 0)
	}
	l.Rows = append(l.Rows, rows...)
	l.Offsets = append(l.Offsets, int32(len(l.Rows)))
}

// Len is the number of lists.
func (l *Lists) Len() int { return max(0, len(l.Offsets)-1) }

// Clear removes all lists and keeps their memory.
func (l *Lists) Clear() { l.Offsets, l.Rows = l.Offsets[:0], l.Rows[:0] }

// Frames are what the policy sees, decision after decision, in several sequences at
// the same time. Frame step x Sequences + sequence is one decision. Lists of rows name
// rows of the tables' vectors; see Net.Embed.
type Frames struct {
	Steps, Sequences, Devices int

	Current Lists     // the tables to be placed: a list for each frame
	Held    Lists     // what each device holds, with the zero row: frames x Devices lists
	Share   []float32 // share of the pieces that are placed, for each frame
	Load    []float32 // predicted cost and GiB: frames x Devices x 2
	Reset   []bool    // for each frame: the frame is the first of an episode
}

// Len is the number of frames.
func (f *Frames) Len() int { return f.Steps * f.Sequences }

// Append adds the steps of more, which has the same sequences and devices.
func (f *Frames) Append(more *Frames) {
	if f.Steps == 0 {
		f.Sequences, f.Devices = more.Sequences, more.Devices
	}
	if f.Sequences != more.Sequences || f.Devices != more.Devices {
		panic("autoshard: frames of other sequences or devices")
	}
	f.Steps += more.Steps
	f.Current.append(&more.Current)
	f.Held.append(&more.Held)
	f.Share = append(f.Share, more.Share...)
	f.Load = append(f.Load, more.Load...)
	f.Reset = append(f.Reset, more.Reset...)
}

func (l *Lists) append(more *Lists) {
	for i := range more.Len() {
		l.Add(more.Rows[more.Offsets[i]:more.Offsets[i+1]]...)
	}
}

// Clear removes all frames and keeps their memory.
func (f *Frames) Clear() {
	f.Steps = 0
	f.Current.Clear()
	f.Held.Clear()
	f.Share, f.Load, f.Reset = f.Share[:0], f.Load[:0], f.Reset[:0]
}

// Workspace is the memory that the methods of a Net work in. It also keeps what the
// gradients need. The zero value is ready to use. One goroutine at a time may use it.
type Workspace struct {
	table, share, load, choice, value, cost nn.MLPWorkspace
	core                                    nn.LSTMWorkspace

	one Lists // the tables of one device

	input   []float32 // of Core: frames x core
	output  []float32 // of Core: frames x core
	shares  []float32 // outputs of Share
	loads   []float32 // outputs of Load
	devices []float32 // vectors of devices: frames x Devices x core
	joined  []float32 // inputs of Choice: frames x Devices x 3 core
	sums    []float32 // inputs of Cost

	dJoined, dInput, dOutput, dShares, dLoads, dSums []float32
}

// Embed returns the vectors of tables, 32 numbers each, in the memory of out if that is
// large enough. x holds policy.Features numbers for each table.
func (net *Net) Embed(ws *Workspace, x, out []float32) []float32 {
	n := len(x) / policy.Features
	out = policy.Grow(out, n*embed)
	net.Table.Forward(&ws.table, n, x, out)
	return out
}

// Costs predicts the cost of devices from the vectors of tables that each list names,
// and overwrites out, which has one number for each list. For an empty list, Cost reads
// zeros; the policy takes the cost of an empty device as 0.
func (net *Net) Costs(ws *Workspace, vectors []float32, held *Lists, out []float32) {
	n := held.Len()
	ws.sums = policy.Grow(ws.sums, n*embed)
	f32.PickSums(embed, held.Offsets, held.Rows, vectors, embed, ws.sums, embed)
	net.Cost.Forward(&ws.cost, n, ws.sums, out)
}

// Forward computes the logits of all devices, frames x Devices, and the expected
// return of each frame, and overwrites logits and values with them. If values is nil, no
// returns are computed. state holds what Core remembers of each sequence; Forward replaces
// it by the state after the last step.
func (net *Net) Forward(ws *Workspace, vectors []float32, frames *Frames, state nn.LSTMState, logits, values []float32) {
	n, devices := frames.Len(), frames.Devices
	ws.makeRoom(n, devices)

	net.Share.Forward(&ws.share, n, frames.Share, ws.shares)
	f32.PickSums(embed, frames.Current.Offsets, frames.Current.Rows, vectors, embed, ws.input, core)
	for i := range n {
		copy(ws.input[i*core+embed:(i+1)*core], ws.shares[i*embed:])
	}
	net.Core.Forward(&ws.core, frames.Steps, frames.Sequences, ws.input, frames.Reset, state, ws.output)
	if values != nil {
		net.Value.Forward(&ws.value, n, ws.output, values)
	}

	net.Load.Forward(&ws.load, n*devices, frames.Load, ws.loads)
	f32.PickSums(embed, frames.Held.Offsets, frames.Held.Rows, vectors, embed, ws.devices, core)
	for i := range n * devices {
		device := ws.devices[i*core : (i+1)*core]
		copy(device[embed:], ws.loads[i*embed:(i+1)*embed])
		output, joined := ws.output[i/devices*core:(i/devices+1)*core], ws.joined[i*3*core:(i+1)*3*core]
		copy(joined, output)
		copy(joined[core:], device)
		for j, v := range device {
			joined[2*core+j] = output[j] * v
		}
	}
	net.Choice.Forward(&ws.choice, n*devices, ws.joined, logits)
}

// Freeze packs the weights once, so that Costs and Forward need less work. After a change
// of the weights, the caller calls Freeze again before the next Forward or Costs.
func (net *Net) Freeze(ws *Workspace) {
	net.Table.Freeze(&ws.table)
	net.Share.Freeze(&ws.share)
	net.Load.Freeze(&ws.load)
	net.Core.Freeze(&ws.core)
	net.Choice.Freeze(&ws.choice)
	net.Value.Freeze(&ws.value)
	net.Cost.Freeze(&ws.cost)
}

func (ws *Workspace) makeRoom(frames, devices int) {
	ws.input, ws.output = policy.Grow(ws.input, frames*core), policy.Grow(ws.output, frames*core)
	ws.shares, ws.loads = policy.Grow(ws.shares, frames*embed), policy.Grow(ws.loads, frames*devices*embed)
	ws.devices, ws.joined = policy.Grow(ws.devices, frames*devices*core), policy.Grow(ws.joined, frames*devices*3*core)
}

// logProbabilities overwrites logits with the logarithms of their softmax.
func logProbabilities(logits []float64) {
	most := math.Inf(-1)
	for _, v := range logits {
		most = max(most, v)
	}
	var sum float64
	for _, v := range logits {
		sum += math.Exp(v - most)
	}
	shift := most + math.Log(sum)
	for i := range logits {
		logits[i] -= shift
	}
}
