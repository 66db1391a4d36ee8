package dreamshard

import (
	"math"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/search/policy"
)

// The policy learns by REINFORCE (Williams, Machine Learning 8, 1992). An episode is a drawn
// rollout. Its reward, minus the predicted cost of the step, is the return of each of its
// steps; returns are standardised over the steps of a batch:
//
//	loss = mean over steps of -log p(device) return + entropy weight mean of sum p log p
//
// Between two steps only one device changes. So the nets run once for what a device holds after
// each step, forward and back, and once for an empty device.

// EntropyWeight is the published weight of the entropy in the loss.
const EntropyWeight = 0.001

// Episode is a rollout that the policy learns from.
type Episode struct {
	// Pieces are the pieces in the order in which they were placed, Devices their devices.
	Pieces, Devices []int32
	// Rooms lists, for each step, the devices that had room. If it is nil, all devices had.
	Rooms [][]int32
	// Reward is minus the predicted cost of the step in ms.
	Reward float64
	// empty holds the costs of an empty device, and costs those of the device of each step,
	// after it.
	empty [Costs]float32
	costs []float32
}

// Actor runs episodes of one task. One goroutine at a time may use it.
type Actor struct {
	rollout *rollout
	order   []int32
}

// Actor returns an actor for a task on devices, which has the weights of the time when the policy
// was made. predictor is nil if the cost net predicts.
func (p *Policy) Actor(task *Task, devices int, predictor Predictor) *Actor {
	r := p.frozen.rollout(p.net, task, devices, predictor)
	return &Actor{rollout: r, order: r.order()}
}

// Episode runs one episode on devices with budget bytes each; a nil random takes the best
// choice everywhere. ok is false if a piece found no room: the episode then ends there.
func (a *Actor) Episode(budget int64, random *rand.Rand) (e Episode, ok bool) {
	r := a.rollout
	r.reset()
	e.Pieces = a.order
	copy(e.empty[:], r.cost(0))
	used := make([]int64, r.devices)
	masked := false
	for _, piece := range a.order {
		bytes := r.task.bytes[piece]
		room := make([]int32, 0, r.devices)
		for d := range used {
			if used[d]+bytes <= budget {
				room = append(room, int32(d))
			}
		}
		if len(room) == 0 {
			return e, false
		}
		masked = masked || len(room) < r.devices
		d := policy.Choose(r.logits, room, random)
		used[d] += bytes
		r.put(piece, d)
		e.Devices, e.Rooms = append(e.Devices, d), append(e.Rooms, room)
		e.costs = append(e.costs, r.cost(int(d))...)
	}
	if !masked {
		e.Rooms = nil
	}
	e.Reward = -r.overall()
	return e, true
}

// Placement returns the pieces of each device.
func (e *Episode) Placement(devices int) [][]int32 {
	held := make([][]int32, devices)
	for i, d := range e.Devices {
		held[d] = append(held[d], e.Pieces[i])
	}
	return held
}

// PolicyTrainer trains the policy of a Net. One goroutine at a time may use it.
type PolicyTrainer struct {
	net   *Net
	adam  *policy.Optimizer
	grads [][]float32

	own, costs, logit      nn.MLPWorkspace
	rows, drows            []float32
	inputs, embedded       []float32 // of the MLP on costs
	joined, djoined, above []float32
	logits, dlogits        []float32
}

// NewPolicyTrainer returns a trainer with a new optimizer.
func NewPolicyTrainer(n *Net) *PolicyTrainer {
	return &PolicyTrainer{net: n, adam: policy.NewOptimizer(n.policyParts()), grads: n.policyParts().Gradients()}
}

// Update changes the policy by one step of Adam at the given rate, on episodes of one task. It
// returns the loss before the step. There must be at least two steps.
func (t *PolicyTrainer) Update(task *Task, devices int, episodes []Episode, entropy, rate float64) float64 {
	loss := t.gradient(task, devices, episodes, entropy)
	t.adam.Step(rate, t.grads)
	return loss
}

// returns standardises the rewards over the steps of all episodes, by the sample's deviation.
func returns(episodes []Episode) []float64 {
	var n, mean, squared float64
	for _, e := range episodes {
		n += float64(len(e.Devices))
		mean += e.Reward * float64(len(e.Devices))
	}
	mean /= n
	for _, e := range episodes {
		squared += (e.Reward - mean) * (e.Reward - mean) * float64(len(e.Devices))
	}
	deviation := math.Sqrt(squared / (n - 1))
	all := make([]float64, len(episodes))
	for i, e := range episodes {
		all[i] = (e.Reward - mean) / (deviation + 1e-8)
	}
	return all
}

// gradient computes the loss, and sets grads. Row 0 is an empty device, and the further rows
// are the devices of the steps after the steps, episode by episode.
func (t *PolicyTrainer) gradient(task *Task, devices int, episodes []Episode, entropy float64) float64 {
	for _, g := range t.grads {
		clear(g)
	}
	n := t.forward(task, devices, episodes)
	loss := t.loss(devices, episodes, entropy)
	// Back through the nets.
	const width = embed + costsOut
	t.djoined, t.above = policy.Grow(t.djoined, n*width), policy.Grow(t.above, n*costsOut)
	t.net.logit.BackwardInput(&t.logit, n, t.joined, t.dlogits, t.grads[2], t.djoined)
	for row := range n {
		copy(t.above[row*costsOut:(row+1)*costsOut], t.djoined[row*width+embed:(row+1)*width])
	}
	t.net.costs.Backward(&t.costs, n, t.inputs, t.above, t.grads[1])
	t.credit(task, devices, episodes)
	t.net.own.Backward(&t.own, task.count(), task.x, t.drows, t.grads[0])
	return loss
}

// forward computes the logit of each row, and returns the number of rows.
func (t *PolicyTrainer) forward(task *Task, devices int, episodes []Episode) int {
	n := 1
	for i := range episodes {
		n += len(episodes[i].Devices)
	}
	const width = embed + costsOut
	t.rows = policy.Grow(t.rows, task.count()*embed)
	t.inputs, t.embedded = policy.Grow(t.inputs, n*Costs), policy.Grow(t.embedded, n*costsOut)
	t.joined = policy.Grow(t.joined, n*width)
	t.logits, t.dlogits = policy.Grow(t.logits, n), policy.Grow(t.dlogits, n)
	clear(t.dlogits)
	t.net.own.Forward(&t.own, task.count(), task.x, t.rows)
	copy(t.inputs, episodes[0].empty[:])
	copy(t.joined[:embed], t.rows[emptyRow*embed:(emptyRow+1)*embed])
	row := 1
	for i := range episodes {
		e := &episodes[i]
		last := make([]int, devices) // the row of each device; 0 if it is empty
		for step, d := range e.Devices {
			sum := t.joined[row*width : row*width+embed]
			clear(sum)
			if last[d] > 0 {
				copy(sum, t.joined[last[d]*width:last[d]*width+embed])
			}
			task.sum(e.Pieces[step], t.rows, sum)
			copy(t.inputs[row*Costs:(row+1)*Costs], e.costs[step*Costs:])
			last[d] = row
			row++
		}
	}
	t.net.costs.Forward(&t.costs, n, t.inputs, t.embedded)
	for row := range n {
		copy(t.joined[row*width+embed:(row+1)*width], t.embedded[row*costsOut:])
	}
	t.net.logit.Forward(&t.logit, n, t.joined, t.logits)
	return n
}

// loss returns the loss, and sets its gradient by the logits.
func (t *PolicyTrainer) loss(devices int, episodes []Episode, entropy float64) float64 {
	everywhere := make([]int32, devices)
	for d := range everywhere {
		everywhere[d] = int32(d)
	}
	steps := float64(len(t.logits) - 1)
	gains, chance := returns(episodes), make([]float64, devices)
	loss, row := 0.0, 1
	for i := range episodes {
		e := &episodes[i]
		last := make([]int, devices)
		for step, chosen := range e.Devices {
			room := everywhere
			if e.Rooms != nil {
				room = e.Rooms[step]
			}
			most, sum := math.Inf(-1), 0.0
			for _, d := range room {
				most = max(most, float64(t.logits[last[d]]))
			}
			for _, d := range room {
				sum += math.Exp(float64(t.logits[last[d]]) - most)
			}
			mixed := 0.0 // sum p log p
			for _, d := range room {
				chance[d] = float64(t.logits[last[d]]) - most - math.Log(sum)
				mixed += math.Exp(chance[d]) * chance[d]
			}
			loss += (entropy*mixed - chance[chosen]*gains[i]) / steps
			for _, d := range room {
				p := math.Exp(chance[d])
				slope := gains[i]*p + entropy*p*(chance[d]-mixed)
				if d == chosen {
					slope -= gains[i]
				}
				t.dlogits[last[d]] += float32(slope / steps)
			}
			last[chosen] = row
			row++
		}
	}
	return loss
}

// credit adds the gradients of the devices' sums to those of their tables: a table counts in
// the sum of its device after its own step and after each later one.
func (t *PolicyTrainer) credit(task *Task, devices int, episodes []Episode) {
	const width = embed + costsOut
	t.drows = policy.Grow(t.drows, task.count()*embed)
	clear(t.drows)
	copy(t.drows[emptyRow*embed:(emptyRow+1)*embed], t.djoined[:embed])
	row := 1
	for i := range episodes {
		e := &episodes[i]
		later := make([]float32, devices*embed)
		for step := len(e.Devices) - 1; step >= 0; step-- {
			d := int(e.Devices[step])
			sum := later[d*embed : (d+1)*embed]
			for k, v := range t.djoined[(row+step)*width : (row+step)*width+embed] {
				sum[k] += v
			}
			for _, at := range task.of(e.Pieces[step]) {
				for k, v := range sum {
					t.drows[int(at)*embed+k] += v
				}
			}
		}
		row += len(e.Devices)
	}
}
