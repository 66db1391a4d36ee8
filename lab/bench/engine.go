package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Engine plans and prices under some cost models.
type Engine interface {
	// Plan searches for a plan and proves it valid.
	Plan(ctx context.Context, p *problem.Problem, opt search.Options) (*Outcome, error)
	// Score prices a given placement, shards by device, and proves it valid.
	Score(p *problem.Problem, shards [][]problem.Shard) (*Outcome, error)
	// Check fails where the models cannot price the tasks.
	Check(tasks []Task) error
	// ID names the models, for results to be told apart by.
	ID() string
}

// Outcome is a plan and its price.
type Outcome struct {
	Shards    [][]problem.Shard
	Status    search.Status
	Predicted unit.Millis
	// Simulated is the cost on the simulated device; nil where the engine's models
	// are not of it.
	Simulated *unit.Millis
	// Priced is the predicted price, device by device, and Devices the same with
	// what each device holds.
	Priced  plan.Breakdown
	Devices []Device
}

// Models plans with our cost models and judges on the simulated device.
type Models struct {
	// Model is the model to ask; nil takes the embedded one of a task's profile.
	Model *cost.Model
	// Caution is that of neuroshard.Options.
	Caution float64
}

// ID names the model.
func (m Models) ID() string {
	if m.Model == nil {
		return "embedded"
	}
	if m.Caution > 0 {
		return fmt.Sprintf("%s, caution %v", m.Model.Manifest().ID, m.Caution)
	}
	return m.Model.Manifest().ID
}

// Check fails where the model is of another profile than a task.
func (m Models) Check(tasks []Task) error {
	for i := range tasks {
		profile := tasks[i].Problem.Topology.Profile.Name
		if m.Model != nil && m.Model.Manifest().Profile != profile {
			return fmt.Errorf("task %s: it is on %s, but model %s predicts for %s", tasks[i].Name, profile, m.ID(), m.Model.Manifest().Profile)
		}
	}
	return nil
}

// Plan plans as neuroshard.Plan does.
func (m Models) Plan(ctx context.Context, p *problem.Problem, opt search.Options) (*Outcome, error) {
	result, err := neuroshard.Plan(ctx, p, neuroshard.Options{Search: opt, Model: m.Model, Caution: m.Caution})
	if err != nil {
		return nil, err
	}
	outcome := &Outcome{
		Shards: result.Shards, Status: result.Status,
		Predicted: result.Predicted.Cost, Priced: result.Predicted,
		Devices: describe(p, result.Shards, result.Predicted),
	}
	if result.Judged() {
		outcome.Simulated = &result.Simulated.Cost
	}
	return outcome, nil
}

// Score prices a placement with the model and on the simulated device.
func (m Models) Score(p *problem.Problem, shards [][]problem.Shard) (*Outcome, error) {
	if err := prove(p, shards); err != nil {
		return nil, err
	}
	model, err := neuroshard.Options{Model: m.Model}.CostModel(p.Topology.Profile)
	if err != nil {
		return nil, err
	}
	pool, err := cost.NewPool(model, p)
	if err != nil {
		return nil, err
	}
	predicted := pool.Price(shards)
	outcome := &Outcome{Shards: shards, Predicted: predicted.Cost, Priced: predicted, Devices: describe(p, shards, predicted)}
	if hardware.Known(p.Topology.Profile.Name) {
		simulated, err := simulate.NewPricer(p).Price(shards)
		if err != nil {
			return nil, err
		}
		outcome.Simulated = &simulated.Cost
	}
	return outcome, nil
}

// Prototype plans with the published prototype's nets. They were not trained on
// the simulated device, so nothing but the prediction judges its plans.
type Prototype struct{ Models *prototype.Models }

// ID names the nets by where they come from, with a digest of their numbers.
func (e Prototype) ID() string {
	hash := sha256.New()
	// Numbers that are finite always encode, and a hash takes all that is written.
	_ = json.NewEncoder(hash).Encode(e.Models)
	return "prototype-" + hex.EncodeToString(hash.Sum(nil))[:12]
}

// Check fails where the nets cannot price the tasks: they are for one number of
// devices.
func (e Prototype) Check(tasks []Task) error {
	for i := range tasks {
		if got, want := tasks[i].Problem.Topology.Devices, e.Models.Devices(); got != want {
			return fmt.Errorf("task %s: %d devices, but the comm nets are for %d", tasks[i].Name, got, want)
		}
	}
	return nil
}

// Plan searches with the nets.
func (e Prototype) Plan(ctx context.Context, p *problem.Problem, opt search.Options) (*Outcome, error) {
	pool, err := e.Models.NewPool(p)
	if err != nil {
		return nil, err
	}
	opt.ColumnsOnly = true // the nets know nothing else
	found, err := search.Run(ctx, p, func() search.Scorer { return pool.NewScorer() }, opt)
	if err != nil {
		return nil, err
	}
	outcome, err := e.price(p, pool, found.Shards)
	if err == nil {
		outcome.Status = found.Status
	}
	return outcome, err
}

// Score prices a placement with the nets.
func (e Prototype) Score(p *problem.Problem, shards [][]problem.Shard) (*Outcome, error) {
	pool, err := e.Models.NewPool(p)
	if err != nil {
		return nil, err
	}
	return e.price(p, pool, shards)
}

func (e Prototype) price(p *problem.Problem, pool *prototype.Pool, shards [][]problem.Shard) (*Outcome, error) {
	if err := prove(p, shards); err != nil {
		return nil, err
	}
	predicted := pool.Price(shards)
	return &Outcome{Shards: shards, Predicted: predicted.Cost, Priced: predicted, Devices: describe(p, shards, predicted)}, nil
}

// prove reports what is wrong with a placement: tables not covered, too many
// bytes on a device, a constraint broken.
func prove(p *problem.Problem, shards [][]problem.Shard) error {
	return plan.New(p, shards).Validate(p)
}

func describe(p *problem.Problem, shards [][]problem.Shard, b plan.Breakdown) []Device {
	devices := make([]Device, len(b.Devices))
	for i, d := range b.Devices {
		out := &devices[i]
		for _, s := range shards[i] {
			out.Shards++
			out.DimSum += p.DimSum(s)
			out.Bytes += int64(p.ShardMemory(s).Tables())
		}
		out.ComputeMS = float64(d.Forward + d.Backward)
		out.BackwardCommMS, out.ForwardCommMS, out.TotalMS = float64(d.BackwardComm), float64(d.ForwardComm), float64(d.Total())
	}
	return devices
}
