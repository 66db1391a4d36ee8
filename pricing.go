package neuroshard

import (
	"fmt"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/torchrec"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// ClosedForm is the ModelSource of plans that TorchRec's formulas priced
// (Options.TorchRec), and TorchRecModel their Model.
const (
	ClosedForm    = "closed_form"
	TorchRecModel = "torchrec-" + torchrec.Version
)

// pricing is one problem under what prices its plans: a model, or TorchRec's formulas.
type pricing struct {
	// scorers are the search's, and plain those for methods that know column slices in
	// HBM only.
	scorers, plain search.Factory
	price          func(shards [][]problem.Shard) plan.Breakdown
	// model and source are a plan's Model and ModelSource; measured says that they are
	// not of the simulated device.
	model, source string
	measured      bool
	// doubts are those about a placement's price, and labels what is said of every one.
	doubts func(shards [][]problem.Shard) []string
	labels []string
}

// pricing returns what the options price the problem by.
func (o Options) pricing(p *problem.Problem) (*pricing, error) {
	if o.TorchRec {
		pool := torchrec.NewPool(p)
		scorers := func() search.Scorer { return pool.NewScorer() }
		return &pricing{
			scorers: scorers, plain: scorers, price: pool.Price, model: TorchRecModel, source: ClosedForm,
			doubts: func([][]problem.Shard) []string { return nil },
			labels: []string{"times are those of the closed formulas of TorchRec's own planner, neither predicted by a trained model nor measured"},
		}, nil
	}
	model, err := o.CostModel(p.Topology.Profile)
	if err != nil {
		return nil, err
	}
	pool, err := cost.NewPool(model, p)
	if err != nil {
		return nil, err
	}
	manifest := model.Manifest()
	prices := &pricing{
		plain: func() search.Scorer { return pool.NewScorer(0) },
		price: pool.Price, model: manifest.ID, source: manifest.Source, measured: manifest.Source != string(dataset.Simulated),
		doubts: func(shards [][]problem.Shard) []string { return model.Doubts(p, shards) },
	}
	prices.scorers = func() search.Scorer { return pool.NewScorer(o.Caution) }
	switch simulated := string(dataset.Simulated); {
	case manifest.Source == simulated:
		prices.labels = []string{"times are predicted by a model trained on SIMULATED kernels, not on measured ones"}
	case manifest.CommSource == simulated:
		prices.labels = []string{"all-to-alls are predicted by a model trained on SIMULATED ones, not on measured ones"}
	}
	if prices.measured {
		doubts := prices.doubts
		prices.doubts = func(shards [][]problem.Shard) []string { return append(doubts(shards), unmeasured(p, shards)...) }
	}
	return prices, nil
}

// unmeasured says which tables of a placement have prices that no samples are behind.
func unmeasured(p *problem.Problem, shards [][]problem.Shard) []string {
	tables := map[int]bool{}
	for _, held := range shards {
		for _, s := range held {
			if p.Form(s) != (problem.Form{}) {
				tables[s.Table] = true
			}
		}
	}
	if len(tables) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d tables are cut by rows, replicated or in host memory: their exchanges and host links are SIMULATED, not measured", len(tables))}
}

// warnings joins what is doubtful of a placement's price, the input's warnings and
// those that come from how the plan was made.
func (p *pricing) warnings(status search.Status, shards [][]problem.Shard, input []string) []string {
	all := append([]string(nil), p.doubts(shards)...)
	all = append(append(all, input...), p.labels...)
	switch status {
	case search.Interrupted:
		all = append(all, "the search was interrupted: this is the best plan found until then")
	case search.OutOfTime:
		all = append(all, "the search was ended by its budget of time: another run may find another plan")
	}
	return all
}

// set writes the price of a placement into its plan.
func (p *pricing) set(pl *plan.Plan, shards [][]problem.Shard, input []string) {
	pl.SetBreakdown(p.price(shards))
	pl.Provenance.Model, pl.Provenance.ModelSource = p.model, p.source
	pl.Provenance.Warnings = p.warnings("", shards, input)
}
