package dreamshard

import (
	"math"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/search/policy"
)

// The cost net learns from measured plans. An update takes a batch of whole plans, for the
// overall head, and a batch of what single devices hold, for the three heads of a device:
//
//	rows of the batch's tasks -> table MLP -> sums of devices -+-> three heads
//	                                                           +-> maximum -> overall head
//
// The loss is the sum of the four mean squared errors. The tasks of a batch share rows, so
// each table goes through the table MLP once, forward and back.

// Measured is a measured plan of a task.
type Measured struct {
	Task *Task
	// Devices lists the pieces of each device.
	Devices [][]int32
	// Times holds the three costs of each device in ms, and Overall the cost of the step.
	Times   [][Costs]float32
	Overall float32
}

// Held names what one device of a measured plan holds.
type Held struct{ Plan, Device int32 }

// CostLosses are mean squared errors, in ms^2.
type CostLosses struct {
	Overall float64
	Heads   [Costs]float64
}

// Total is the loss of an update.
func (l CostLosses) Total() float64 {
	total := l.Overall
	for _, head := range l.Heads {
		total += head
	}
	return total
}

// CostTrainer trains the cost net of a Net. One goroutine at a time may use it.
type CostTrainer struct {
	net   *Net
	adam  *policy.Optimizer
	grads [][]float32

	table, overall nn.MLPWorkspace
	heads          [Costs]nn.MLPWorkspace
	x, rows, drows []float32
	// first is the row at which the tables of a task begin; the empty device's table is row 0.
	first map[*Task]int
	// sums are the inputs of the heads; dsums their gradients.
	sums, dsums []float32
	// device holds the sums of the devices of one plan, and top the device of each maximum.
	device    []float32
	top       []int32
	out, dout []float32
}

// NewCostTrainer returns a trainer with a new optimizer.
func NewCostTrainer(n *Net) *CostTrainer {
	return &CostTrainer{net: n, adam: policy.NewOptimizer(n.costParts()), grads: n.costParts().Gradients()}
}

// Update changes the cost net by one step of Adam at the given rate, on the plans whose numbers
// are listed, and on what single devices hold. It returns the losses before the step.
func (t *CostTrainer) Update(all []Measured, plans []int32, groups []Held, rate float64) CostLosses {
	losses := t.gradient(all, plans, groups)
	t.adam.Step(rate, t.grads)
	return losses
}

// gradient computes the losses, and sets grads.
func (t *CostTrainer) gradient(all []Measured, plans []int32, groups []Held) CostLosses {
	for _, g := range t.grads {
		clear(g)
	}
	t.embed(all, plans, groups)
	var losses CostLosses
	// The heads of a device.
	t.sums, t.dsums = policy.Grow(t.sums, len(groups)*embed), policy.Grow(t.dsums, len(groups)*embed)
	t.out, t.dout = policy.Grow(t.out, len(groups)), policy.Grow(t.dout, len(groups))
	clear(t.sums)
	clear(t.dsums)
	for i, g := range groups {
		t.addUp(&all[g.Plan], all[g.Plan].Devices[g.Device], t.sums[i*embed:(i+1)*embed])
	}
	input := make([]float32, len(t.dsums))
	for h, head := range t.net.heads {
		head.Forward(&t.heads[h], len(groups), t.sums, t.out)
		losses.Heads[h] = squares(t.out, t.dout, func(i int) float32 { return all[groups[i].Plan].Times[groups[i].Device][h] })
		head.BackwardInput(&t.heads[h], len(groups), t.sums, t.dout, t.grads[1+h], input)
		for i, d := range input {
			t.dsums[i] += d
		}
	}
	for i, g := range groups {
		t.credit(&all[g.Plan], all[g.Plan].Devices[g.Device], t.dsums[i*embed:(i+1)*embed])
	}
	losses.Overall = t.overallGradient(all, plans)
	t.net.table.Backward(&t.table, len(t.x)/policy.Features, t.x, t.drows, t.grads[0])
	return losses
}

// overallGradient is the part of gradient that trains the overall head.
func (t *CostTrainer) overallGradient(all []Measured, plans []int32) float64 {
	n := len(plans) * embed
	t.sums, t.dsums, t.top = policy.Grow(t.sums, n), policy.Grow(t.dsums, n), append(t.top[:0], make([]int32, n)...)
	t.out, t.dout = policy.Grow(t.out, len(plans)), policy.Grow(t.dout, len(plans))
	for i, number := range plans {
		m, row, top := &all[number], t.sums[i*embed:(i+1)*embed], t.top[i*embed:(i+1)*embed]
		for d, held := range m.Devices {
			t.device = policy.Grow(t.device, embed)
			clear(t.device)
			t.addUp(m, held, t.device)
			for k, v := range t.device {
				if d == 0 || v > row[k] {
					row[k], top[k] = v, int32(d)
				}
			}
		}
	}
	net := t.net.overall
	net.Forward(&t.overall, len(plans), t.sums, t.out)
	loss := squares(t.out, t.dout, func(i int) float32 { return all[plans[i]].Overall })
	net.BackwardInput(&t.overall, len(plans), t.sums, t.dout, t.grads[1+Costs], t.dsums)
	for i, number := range plans {
		m := &all[number]
		for d, held := range m.Devices {
			clear(t.device)
			for k, top := range t.top[i*embed : (i+1)*embed] {
				if top == int32(d) {
					t.device[k] = t.dsums[i*embed+k]
				}
			}
			t.credit(m, held, t.device)
		}
	}
	return loss
}

// embed runs the table MLP on the rows of all tasks of a batch.
func (t *CostTrainer) embed(all []Measured, plans []int32, groups []Held) {
	t.first = map[*Task]int{}
	t.x = append(t.x[:0], make([]float32, policy.Features)...)
	add := func(task *Task) {
		if _, ok := t.first[task]; !ok {
			t.first[task] = len(t.x) / policy.Features
			t.x = append(t.x, task.x[(emptyRow+1)*policy.Features:]...)
		}
	}
	for _, number := range plans {
		add(all[number].Task)
	}
	for _, g := range groups {
		add(all[g.Plan].Task)
	}
	n := len(t.x) / policy.Features * embed
	t.rows, t.drows = policy.Grow(t.rows, n), policy.Grow(t.drows, n)
	clear(t.drows)
	t.net.table.Forward(&t.table, len(t.x)/policy.Features, t.x, t.rows)
}

// addUp adds the embedded tables of a device to a sum.
func (t *CostTrainer) addUp(m *Measured, held []int32, sum []float32) {
	t.each(m, held, func(row int) {
		for i, v := range t.rows[row*embed : (row+1)*embed] {
			sum[i] += v
		}
	})
}

// credit adds the gradient of a device's sum to the gradients of its tables.
func (t *CostTrainer) credit(m *Measured, held []int32, dsum []float32) {
	t.each(m, held, func(row int) {
		for i, d := range dsum {
			t.drows[row*embed+i] += d
		}
	})
}

// each calls visit for the row of each table of a device.
func (t *CostTrainer) each(m *Measured, held []int32, visit func(row int)) {
	if len(held) == 0 {
		visit(emptyRow)
		return
	}
	first := t.first[m.Task]
	for _, piece := range held {
		for _, row := range m.Task.of(piece) {
			visit(first + int(row) - (emptyRow + 1))
		}
	}
}

// squares returns the mean squared error, and sets its gradient by the outputs.
func squares(out, dout []float32, target func(i int) float32) float64 {
	var loss float64
	n := float32(len(out))
	for i, y := range out {
		d := y - target(i)
		loss += float64(d) * float64(d)
		dout[i] = 2 * d / n
	}
	return loss / math.Max(1, float64(n))
}
