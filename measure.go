package neuroshard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/internal/assign"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// A cost model has errors, and a search finds placements whose cost the model underestimates. So
// Planner.Measure has some finalists run on hardware, and takes the fastest:
//
//	found              the placement of the search
//	best greedy        the cheapest placement of the greedy baselines, as predicted
//	paper              the placement of the published search
//	risk penalties     the same search with other risk penalties, if the model is an ensemble
//	next seeds         the same search with other seeds
//
// The first three are finalists in this order, the others by rising predicted cost. A finalist
// that does nearly the same work on the same devices as one before it is left out: a measurement
// could not tell the two apart.

const (
	// leastDifferent is the least share of the work that two finalists do on different devices.
	leastDifferent = .05
	// searchesPerFinalist bounds the searches for finalists.
	searchesPerFinalist = 3
)

// triedPenalties are the risk penalties of the searches for finalists.
var triedPenalties = []float64{0, 1, 2}

// Measure has finalists run on a measurement backend. See Planner.Measure.
type Measure struct {
	// Finalists is the most placements that are run, at least 2. There are fewer if the
	// searches find fewer that differ.
	Finalists int
	// Run runs the finalists of a problem, and says which one is the plan. The first is the
	// placement of the search. The finalists must not be modified.
	Run func(ctx context.Context, p *problem.Problem, finalists []Finalist) (*Measured, error)
}

// Finalist is a placement that may become the plan.
type Finalist struct {
	// Method, Seed and RiskPenalty are those of the search that found the placement.
	Method      search.Method
	Seed        uint64
	RiskPenalty float64
	// Shards are the placement by device, and Predicted is its estimate, without a risk penalty.
	Shards    [][]problem.Shard
	Predicted plan.Breakdown

	found search.Result
}

// Name names the search that found the finalist: the method, and the seed and the risk penalty
// where they differ from those of the first finalist.
func (f *Finalist) Name(first *Finalist) string {
	name := string(f.Method)
	if f.Seed != first.Seed {
		name += fmt.Sprintf(", seed %d", f.Seed)
	}
	if f.RiskPenalty != first.RiskPenalty {
		name += fmt.Sprintf(", risk penalty %v", f.RiskPenalty)
	}
	return name
}

// Measured is the outcome of a measurement of finalists.
type Measured struct {
	// Finalists are the finalists in the order of Measure.Run. Plan sets the field.
	Finalists []Finalist
	// Trials has the measured times of each finalist.
	Trials []Trial
	// Kept is the number of the finalist that is the plan, and Why says in a sentence without a
	// full stop why.
	Kept int
	Why  string
	// Simulated is true if the times come from the simulated device, not from hardware.
	Simulated bool
	// Profile, Device, Kernel and Backend say what the times were taken on, as a dataset's
	// provenance does; empty where that is not known.
	Profile, Device, Kernel, Backend string
	// Rounds is the number of times that each finalist ran, in turns with the others.
	Rounds int
}

// Trial holds the measured times of one finalist.
type Trial struct {
	// Refused says why the finalist was not run; empty if it was.
	Refused string
	// Cost is the measured cost, Range the largest less the least cost of the rounds, and Runs those
	// costs, one of each round.
	Cost, Range unit.Millis
	Runs        []unit.Millis
	// Difference is the median over the rounds, or over blocks of rounds, of the difference of the
	// finalist's cost from that of the first finalist, as a share of the latter; below 0 if this
	// finalist is faster.
	// PValue is that of the test that it is faster, and Faster the outcome of the test. They are
	// 0 and false for the first finalist.
	Difference, PValue float64
	Faster             bool
}

// MeasureError is the error of a problem whose finalists cannot be measured.
type MeasureError struct {
	// Message says why not, and Hint what to change.
	Message, Hint string
}

// Error returns the message.
func (e *MeasureError) Error() string { return e.Message }

// Measure runs r's plan and other finalists on a measurement backend, and returns the fastest as
// the plan, with Result.Measured. Searches for finalists have the options of the Planner's search,
// its budget among them. Measure fails with *MeasureError if the finalists cannot be measured: it
// needs method NeuroShard and prices of tables that backends run. If r's search was interrupted, or
// ctx ends, r stays the plan, with status search.Interrupted.
func (l *Planner) Measure(ctx context.Context, r *Result, m *Measure) (*Result, error) {
	if err := l.CheckMeasure(m); err != nil || r.Status == search.Interrupted {
		return r, err
	}
	l.begin("finalists to measure")
	all, err := toMeasure(ctx, l, r, m.Finalists)
	if err == nil && ctx.Err() == nil {
		l.begin(fmt.Sprintf("the measurement of %d finalists", len(all)))
		var measured *Measured
		if measured, err = m.Run(ctx, l.problem, all); err == nil {
			measured.Finalists = all
			kept := all[measured.Kept].found
			kept.Optimal = kept.Optimal && measured.Kept == 0
			if r, err = l.instead(ctx, r, kept); err == nil {
				measured.describe(r)
			}
			return r, err
		}
	}
	if ctx.Err() == nil {
		return r, err
	}
	r.Status = search.Interrupted
	r.Plan.Provenance.Status = string(r.Status)
	r.Plan.Provenance.Warnings = append(r.Plan.Provenance.Warnings, "the measurement of the finalists was interrupted: this is the first choice of the cost model")
	return r, nil
}

// CheckMeasure returns a *MeasureError if the finalists of the problem cannot be measured.
func (l *Planner) CheckMeasure(m *Measure) error {
	switch {
	case m.Finalists < 2 || m.Run == nil:
		return &MeasureError{fmt.Sprintf("%d finalists are fewer than 2, or nothing runs them", m.Finalists), "choose between 2 or more"}
	case l.opt.Search.Method != search.NeuroShard:
		return &MeasureError{fmt.Sprintf("method %s has no finalists", l.opt.Search.Method), fmt.Sprintf("plan with method %s", search.NeuroShard)}
	case l.opt.Hidden != (plan.Hidden{}) || l.priced.Hierarchy.On():
		return &MeasureError{"a backend runs flat exchanges with nothing beside them, and the training system hides exchanges or reduces vectors inside hosts", "leave the dense part and the stack out"}
	case l.problem.Topology.ReplicaCount() > 1:
		return &MeasureError{"a backend runs the devices of one sharding group", "leave the replicas out"}
	}
	return nil
}

// describe writes into the result which finalist its plan is.
func (m *Measured) describe(r *Result) {
	r.Measured = m
	kept, by := &m.Finalists[m.Kept], &r.Plan.Provenance
	by.Method, by.Seed = string(kept.Method), kept.Seed
	on := cmp.Or(m.Profile, "a backend")
	if m.Simulated {
		on = "the SIMULATED device of " + on
	}
	by.Warnings = append(by.Warnings, fmt.Sprintf("the plan was chosen among %d finalists by their times on %s: another measurement may choose another one", len(m.Finalists), on))
}

// toMeasure returns the finalists, the placement found first.
func toMeasure(ctx context.Context, l *Planner, r *Result, most int) ([]Finalist, error) {
	found := search.Result{Shards: r.Shards, Cost: float64(r.Predicted.Cost), Optimal: r.Optimal, Status: r.Status, Stats: r.Stats}
	certain := []Finalist{finalist(l, l, found)}
	var greedy []Finalist
	for _, method := range search.Baselines() {
		one, err := finalistOf(ctx, l, func(other *Planner) { other.opt.Search.Method = method })
		if err != nil {
			return nil, err
		}
		if method != search.Random && len(one) > 0 && (len(greedy) == 0 || one[0].Predicted.Cost < greedy[0].Predicted.Cost) {
			greedy = one
		}
	}
	published, err := finalistOf(ctx, l, func(other *Planner) { other.opt.Search.Method = search.Paper })
	if err != nil {
		return nil, err
	}
	certain = different(l, certain, append(greedy, published...))
	further, err := variants(ctx, l, certain, most)
	if err != nil {
		return nil, err
	}
	all := different(l, certain, further)
	return all[:min(len(all), most)], nil
}

// variants returns the finalists of the same search with other risk penalties and seeds, by
// rising predicted cost. It makes searches until there are enough finalists that differ.
func variants(ctx context.Context, l *Planner, certain []Finalist, finalists int) ([]Finalist, error) {
	penalties := []float64{riskPenalty(l)}
	t, ok := l.opt.Prices.(trained)
	for _, p := range triedPenalties {
		if ok && t.model.Members() > 1 && p != t.riskPenalty {
			penalties = append(penalties, p)
		}
	}
	var all []Finalist
	for i := 1; i <= searchesPerFinalist*finalists && ctx.Err() == nil; i++ {
		penalty, failed := penalties[i%len(penalties)], error(nil)
		one, err := finalistOf(ctx, l, func(other *Planner) {
			other.opt.Search.Seed += uint64(i / len(penalties))
			if penalty != riskPenalty(l) {
				other.opt.Prices, other.besideKnown = Trained(t.model, penalty), false
				if other.prices, failed = other.opt.list(ctx, l.priced); failed != nil {
					other.prices = l.prices // ctx ended: there is no search
				}
			}
		})
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
		slices.SortStableFunc(all, func(a, b Finalist) int {
			return cmp.Or(cmp.Compare(a.Predicted.Cost, b.Predicted.Cost), cmp.Compare(a.RiskPenalty, b.RiskPenalty), cmp.Compare(a.Seed, b.Seed))
		})
		if failed != nil || len(different(l, certain, all)) >= finalists {
			break
		}
	}
	return all, nil
}

// riskPenalty returns the risk penalty of the planner's prices; 0 if they have none.
func riskPenalty(l *Planner) float64 {
	t, _ := l.opt.Prices.(trained)
	return t.riskPenalty
}

// finalistOf returns the finalist of a variant of the planner; none if that has no placement, or one that
// breaks a rule of the engine.
func finalistOf(ctx context.Context, l *Planner, change func(other *Planner)) ([]Finalist, error) {
	by, found, err := l.variant(ctx, change)
	if err != nil || found == nil || plan.New(l.problem, found.Shards).Validate(l.problem) != nil {
		return nil, err
	}
	return []Finalist{finalist(l, by, *found)}, nil
}

// finalist returns a placement that a variant found, with the planner's estimate.
func finalist(l *Planner, by *Planner, found search.Result) Finalist {
	return Finalist{
		Method: by.opt.Search.Method, Seed: by.opt.Search.Seed, RiskPenalty: riskPenalty(by),
		Shards: found.Shards, Predicted: l.prices.Price(found.Shards), found: found,
	}
}

// different returns the finalists and those of further that differ from all before them.
func different(l *Planner, finalists, further []Finalist) []Finalist {
	all := slices.Clone(finalists)
	for _, f := range further {
		if !slices.ContainsFunc(all, func(other Finalist) bool {
			return moved(l.problem, f.Shards, other.Shards) < leastDifferent
		}) {
			all = append(all, f)
		}
	}
	return all
}

// moved returns the share of the work, in looked up columns, that two placements of column
// slices do on different devices, if the devices of one are renamed so that the share is the least.
// Devices of other memory count as any others, because only times matter here.
func moved(p *problem.Problem, a, b [][]problem.Shard) float64 {
	type slice struct {
		device int
		problem.Shard
	}
	byTable := make([][]slice, len(p.Tables))
	for d, held := range b {
		for _, s := range held {
			byTable[s.Table] = append(byTable[s.Table], slice{d, s})
		}
	}
	n := len(a)
	common, total := make([]int64, n*n), int64(0)
	for d, held := range a {
		for _, s := range held {
			t := &p.Tables[s.Table]
			// Tables without a lookup count a little, too.
			column := 1 + int64(float64(p.Batch)*t.PoolingFactor())
			total += column * (s.Columns.End - s.Columns.Start)
			for _, other := range byTable[s.Table] {
				if width := min(s.Columns.End, other.Columns.End) - max(s.Columns.Start, other.Columns.Start); width > 0 {
					common[d*n+other.device] += column * width
				}
			}
		}
	}
	columns, _ := assign.Max(n, func(i, j int) int64 { return common[i*n+j] })
	same := int64(0)
	for i, j := range columns {
		same += common[i*n+j]
	}
	return 1 - float64(same)/float64(max(1, total))
}
