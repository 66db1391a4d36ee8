package dreamshard

import (
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/cost/nn"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search/policy"
)

// A rollout places the pieces of one task. A logit depends only on what its device holds, so
// after each placement the nets run for one device:
//
//	pieces -> both table MLPs once -> order: falling predicted cost of the piece alone
//	piece -> the device with the highest logit -> its sums, costs and logit again
//
// A rollout of P pieces on D devices costs P runs of the small nets and O(P D) comparisons.

// Predictor predicts costs in the place of the cost net, for the ablation of package
// lab/reinforce. It serves one rollout after the other.
type Predictor interface {
	// Alone returns the three costs of a device that holds only the piece.
	Alone(piece int32) [Costs]float32
	// Reset empties the devices; Put puts a piece on a device.
	Reset()
	Put(piece, device int32)
	// Device returns the three costs of a device, and Overall the cost of the whole step.
	Device(device int32) [Costs]float32
	Overall() float64
}

// Policy places slices as a trained Net says: it is a search.Policy. Goroutines may share it.
type Policy struct {
	net    *Net
	id     string
	frozen frozen
	// predictor makes the Predictor of a problem; nil if the cost net predicts.
	predictor func(p *problem.Problem, pieces [][]problem.Shard) Predictor
}

// NewPolicy returns the policy of a net, which must not be trained any more. predictor is nil,
// unless the policy was trained with a Predictor in the place of its cost net.
func NewPolicy(n *Net, predictor func(p *problem.Problem, pieces [][]problem.Shard) Predictor) *Policy {
	return &Policy{net: n, frozen: n.freeze(), predictor: predictor}
}

// Named sets the id that plans by the policy state, and returns the policy.
func (p *Policy) Named(id string) *Policy {
	p.id = id
	return p
}

// ID returns the id of the folder that the policy is from; empty if it is from none.
func (p *Policy) ID() string { return p.id }

// Method returns policy.DreamShard.
func (p *Policy) Method() string { return policy.DreamShard }

// Begin starts a rollout (search.Policy).
func (p *Policy) Begin(of *problem.Problem, pieces [][]problem.Shard, random *rand.Rand) (order []int32, choose func(piece int32, room []int32) int32) {
	var predictor Predictor
	if p.predictor != nil {
		predictor = p.predictor(of, pieces)
	}
	task := NewTask(policy.Describe(of, pieces))
	r := p.frozen.rollout(p.net, task, of.Topology.Devices, predictor)
	return r.order(), func(piece int32, room []int32) int32 {
		d := policy.Choose(r.logits, room, random)
		r.put(piece, d)
		return d
	}
}

// frozen are the packed weights of a Net.
type frozen struct {
	table, own, costs, logit, overall nn.MLPWorkspace
	heads                             [Costs]nn.MLPWorkspace
}

func (n *Net) freeze() frozen {
	var f frozen
	n.table.Freeze(&f.table)
	n.own.Freeze(&f.own)
	n.costs.Freeze(&f.costs)
	n.logit.Freeze(&f.logit)
	n.overall.Freeze(&f.overall)
	for i := range f.heads {
		n.heads[i].Freeze(&f.heads[i])
	}
	return f
}

// share returns workspaces that use the same packed weights.
func (f *frozen) share() *frozen {
	s := &frozen{}
	s.table.Share(&f.table)
	s.own.Share(&f.own)
	s.costs.Share(&f.costs)
	s.logit.Share(&f.logit)
	s.overall.Share(&f.overall)
	for i := range s.heads {
		s.heads[i].Share(&f.heads[i])
	}
	return s
}

// rollout is the state of a placement: what each device holds, as the nets see it.
type rollout struct {
	net       *Net
	ws        *frozen
	task      *Task
	predictor Predictor
	devices   int
	// table and own hold the embedded rows of the task, of the cost net and of the policy.
	table, own []float32
	// held counts the pieces of each device. sums and ownSums are the sums of the devices'
	// embedded tables, costs their three costs, logits their logits.
	held          []int
	sums, ownSums []float32
	costs         []float32
	logits        []float32
	// joined is an input of the logit's net: the policy's sum of a device and its embedded costs.
	joined []float32
}

// rollout starts a rollout of a task on empty devices.
func (f *frozen) rollout(n *Net, task *Task, devices int, predictor Predictor) *rollout {
	r := &rollout{
		net: n, ws: f.share(), task: task, predictor: predictor, devices: devices,
		table: make([]float32, task.count()*embed), own: make([]float32, task.count()*embed),
		held: make([]int, devices),
		sums: make([]float32, devices*embed), ownSums: make([]float32, devices*embed),
		costs: make([]float32, devices*Costs), logits: make([]float32, devices),
		joined: make([]float32, embed+costsOut),
	}
	n.table.Forward(&r.ws.table, task.count(), task.x, r.table)
	n.own.Forward(&r.ws.own, task.count(), task.x, r.own)
	r.reset()
	return r
}

// reset empties the devices.
func (r *rollout) reset() {
	clear(r.held)
	if r.predictor != nil {
		r.predictor.Reset()
	}
	for d := range r.devices {
		copy(r.sum(d), r.table[emptyRow*embed:(emptyRow+1)*embed])
		copy(r.ownSum(d), r.own[emptyRow*embed:(emptyRow+1)*embed])
		if d == 0 {
			r.refresh(0)
			continue
		}
		copy(r.cost(d), r.cost(0))
		r.logits[d] = r.logits[0]
	}
}

func (r *rollout) sum(d int) []float32    { return r.sums[d*embed : (d+1)*embed] }
func (r *rollout) ownSum(d int) []float32 { return r.ownSums[d*embed : (d+1)*embed] }
func (r *rollout) cost(d int) []float32   { return r.costs[d*Costs : (d+1)*Costs] }

// refresh computes the costs and the logit of a device again.
func (r *rollout) refresh(d int) {
	if r.predictor != nil {
		costs := r.predictor.Device(int32(d))
		copy(r.cost(d), costs[:])
	} else {
		for h, head := range r.net.heads {
			head.Forward(&r.ws.heads[h], 1, r.sum(d), r.cost(d)[h:h+1])
		}
	}
	copy(r.joined, r.ownSum(d))
	r.net.costs.Forward(&r.ws.costs, 1, r.cost(d), r.joined[embed:])
	r.net.logit.Forward(&r.ws.logit, 1, r.joined, r.logits[d:d+1])
}

// alone returns the three predicted costs of each piece alone on a device.
func (r *rollout) alone() []float32 {
	pieces := r.task.Pieces()
	costs := make([]float32, pieces*Costs)
	if r.predictor != nil {
		for i := range pieces {
			c := r.predictor.Alone(int32(i))
			copy(costs[i*Costs:], c[:])
		}
		return costs
	}
	// Pieces of one table are predicted once for each row, so that equal tables are alike to
	// the last bit: the order leaves equal pieces in their order.
	sums := slices.Clone(r.table)
	at := make([]int, pieces)
	for i := range pieces {
		rows := r.task.of(int32(i))
		if at[i] = int(rows[0]); len(rows) == 1 {
			continue
		}
		at[i] = len(sums) / embed
		sums = append(sums, make([]float32, embed)...)
		r.task.sum(int32(i), r.table, sums[at[i]*embed:])
	}
	n := len(sums) / embed
	out := make([]float32, n)
	for h, head := range r.net.heads {
		head.Forward(&r.ws.heads[h], n, sums, out)
		for i := range pieces {
			costs[i*Costs+h] = out[at[i]]
		}
	}
	return costs
}

// order returns the pieces in descending order of the sum of their predicted costs alone.
// Equal pieces stay in their order.
func (r *rollout) order() []int32 {
	costs := r.alone()
	sums := make([]float64, r.task.Pieces())
	for i := range sums {
		for _, c := range costs[i*Costs : (i+1)*Costs] {
			sums[i] += float64(c)
		}
	}
	return policy.Falling(sums)
}

// put puts a piece on a device.
func (r *rollout) put(piece, device int32) {
	d := int(device)
	if r.held[d] == 0 { // the table of an empty device is gone
		clear(r.sum(d))
		clear(r.ownSum(d))
	}
	r.held[d]++
	r.task.sum(piece, r.table, r.sum(d))
	r.task.sum(piece, r.own, r.ownSum(d))
	if r.predictor != nil {
		r.predictor.Put(piece, device)
	}
	r.refresh(d)
}

// overall returns the predicted cost of the whole step.
func (r *rollout) overall() float64 {
	if r.predictor != nil {
		return r.predictor.Overall()
	}
	top := slices.Clone(r.sum(0))
	for d := range r.devices {
		for i, v := range r.sum(d) {
			top[i] = max(top[i], v)
		}
	}
	out := make([]float32, 1)
	r.net.overall.Forward(&r.ws.overall, 1, top, out)
	return float64(out[0])
}
