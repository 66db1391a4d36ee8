package search

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Method names a way to search.
type Method string

// The methods. Default is NeuroShard.
const (
	// NeuroShard is a search by simulated annealing: see race.go. Its plan is never more
	// expensive, under the Scorer, than the plan of any baseline or of first fit; with
	// Options.Beside it may cost up to 0.5 % more. It finds a plan whenever first fit by
	// falling bytes finds one, and whenever the packing is proven to succeed (pack.go).
	NeuroShard Method = "neuroshard"
	// Paper is the search as published: see published.go.
	Paper Method = "paper"
	// The baselines place tables greedily by rows times dim, by dim, by dim times pooling
	// factor, and by dim times pooling factor times log10 rows; Random places them at
	// random.
	Size       Method = "size"
	Dim        Method = "dim"
	Lookup     Method = "lookup"
	SizeLookup Method = "size-lookup"
	Random     Method = "random"
	// HugeCTR is the rule of the planner of HugeCTR's MLPerf submissions: see hugectr.go.
	HugeCTR Method = "hugectr"
	// DreamShard and AutoShard place tables as a policy says that was trained for them
	// (Options.Policy): see rollout.go.
	DreamShard Method = "dreamshard"
	AutoShard  Method = "autoshard"

	Default = NeuroShard
)

// Options steer a search; the zero value works. Numbers must not be negative. The methods refuse options that they do not take.
type Options struct {
	// Method defaults to NeuroShard.
	Method Method
	// Policy is what methods DreamShard and AutoShard place with. It must have been trained for the method.
	Policy Policy
	// Samples is the number of rollouts that methods DreamShard and AutoShard draw beside the greedy one; 0 by default. The
	// cheapest placement of all is the result.
	Samples int
	// Candidates, Beam, Steps and Grid belong to method Paper, and are its N, K, L and M: in each of at most Steps steps, the
	// largest and the most expensive Candidates pieces are split, and the best Beam sets of splits survive; Grid limits on dim
	// sums lie evenly from 1 to 1.5 times the mean dim sum. They are 10, 3, 10 and 11 by default.
	Candidates, Beam, Steps, Grid int
	// Seed seeds the random draws of the annealing, of method Random and of Samples.
	Seed uint64
	// Workers is the number of goroutines; GOMAXPROCS by default. It does not change the result.
	Workers int
	// MaxEvaluations limits the work, counted as in Stats.Evaluations; there is no limit by default. A first placement is always
	// tried, and a step that has begun is completed. Method NeuroShard searches again by other draws until it has used them.
	MaxEvaluations int64
	// Budget, if above 0, ends the search after that time. Method NeuroShard does what it does without a budget, and then
	// searches again by other draws. The placement depends on the speed of the machine.
	Budget time.Duration
	// Clock, if set, returns the time that Budget limits, such as the processor time of the process, since any moment; the wall
	// clock by default. Goroutines call it at the same time, and it must go on while they work.
	Clock func() time.Duration
	// ShardingTypes are the sharding types allowed; table_wise and column_wise by default. Only method NeuroShard tries others,
	// and host memory. ColumnWise allows TableWise, too, and Grid allows TableRowWise. Without ColumnWise, tables are not cut
	// by columns. A type that the search does not place tables by is an error, unless the list holds all of
	// problem.ShardingTypes.
	ShardingTypes []problem.ShardingType
	// ColumnsOnly says that the Scorers estimate only the zero form, slices of columns in HBM. The search tries no other form
	// then. By default the Scorers must estimate every form.
	ColumnsOnly bool
	// ChosenRows says that the Scorers estimate rows on chosen devices (problem.Form.Blocks). Method NeuroShard then cuts tables
	// so, too, if the problem's engine runs such plans (Chooses).
	ChosenRows bool
	// OneOperator says that all tables keep operator number 0. By default method NeuroShard gives tables other numbers where
	// that makes the plan cheaper and the problem and the Scorers allow it (Divides).
	OneOperator bool
	// Beside, if set, makes Scorers of a second estimate of the same placements. Method NeuroShard then returns, among placements
	// that cost at most 0.5 % more than the cheapest one, the one with the least sum of both estimates; or the cheapest one if
	// it tries all placements or a budget ends it.
	Beside Factory
	// Apart, if set, returns a Factory whose Scorers give the same estimates as those of the search and share nothing with them;
	// or nil. With it and several Workers, method NeuroShard makes independent runs of annealing at the same time, with the
	// same result. It is not used with MaxEvaluations or From.
	Apart func() Factory
	// From, if set, is an old placement that method NeuroShard begins from and changes little. Beside then does not count.
	From *From
	// Brief leaves DevicesNeeded and its reason out of *Infeasible: on a large cluster, computing DevicesNeeded takes longer than
	// a simple method.
	Brief bool
	// FromScratch says that method NeuroShard anneals a simple placement, over all of the budget, in the place of the race.
	FromScratch bool
	// OnEvent, if set, is called from the goroutine of Run as the search proceeds; the events are the same for any number of
	// workers.
	OnEvent func(Event)
}

// Columns returns the sharding types of slices of columns, the default of Options.ShardingTypes.
func Columns() []problem.ShardingType {
	return []problem.ShardingType{problem.TableWise, problem.ColumnWise}
}

// Allowing returns Options.ShardingTypes for a list of allowed types: Columns, if the list holds
// column_wise and no type that cuts rows or replicates.
func Allowing(types []problem.ShardingType) []problem.ShardingType {
	if slices.ContainsFunc(types, problem.ShardingType.Joint) || !slices.Contains(types, problem.ColumnWise) {
		return types
	}
	return Columns()
}

// Chooses reports whether a search of the problem may cut tables by rows over chosen devices.
func (o *Options) Chooses(p *problem.Problem) bool {
	return (o.Method == "" || o.Method == NeuroShard) && o.ChosenRows && !o.ColumnsOnly && p.Accounting != problem.CountWeights &&
		p.Engine.Rules().AnyDevices && p.Topology.Devices > 2 && slices.Contains(o.ShardingTypes, problem.RowWise)
}

// Divides reports whether a search of the problem may give tables numbers of operators, if its Scorers are Numbered: not with
// OneOperator or ColumnsOnly, for an engine whose plans cannot divide operators, or if each table has the lanes of its own width.
func (o *Options) Divides(p *problem.Problem) bool {
	return (o.Method == "" || o.Method == NeuroShard) && !o.OneOperator && !o.ColumnsOnly &&
		!p.Engine.Rules().Undivided && p.LaneRule == problem.LanesByWidest
}

// Event reports the progress of a search.
type Event struct {
	// Phase is "start" at first, and then "beam" in method Paper. In method NeuroShard it is
	// "forms" while tables are placed in other forms than slices of columns, and "anneal"
	// during the race.
	Phase string
	// Level counts the steps of the beam search of method Paper, or of the first race of method NeuroShard, of at most
	// Levels in all.
	Level, Levels int
	// Evaluations is the work so far, and Limit the largest number of evaluations allowed;
	// 0 means that there is no limit.
	Evaluations, Limit int64
	// Best is the predicted cost of the best placement so far, in ms, or +Inf if no
	// placement was found yet.
	Best float64
}

// Status says why a search ended.
type Status string

// The statuses. Each comes with a valid placement.
const (
	// Complete: all steps were done, or nothing was left to split.
	Complete Status = "complete"
	// OutOfBudget: Options.MaxEvaluations ended the search or thinned it out.
	OutOfBudget Status = "budget"
	// OutOfTime: Options.Budget ended the search.
	OutOfTime Status = "time"
	// Interrupted: the context ended first.
	Interrupted Status = "interrupted"
)

// Stats counts the work of a search.
type Stats struct {
	// Evaluations counts the estimates of one device's time; 128 scans of devices count as
	// one. Work that the search resumes, copies or remembers counts as if it were done
	// again, so that the count depends on the problem only.
	Evaluations int64
	// Placements is the number of placements whose cost the search estimated.
	Placements int
	// States is the number of divisions tried by method Paper, each a set of column splits, and
	// Levels the number of steps that its beam search took.
	States, Levels int
}

// add adds the work of another search.
func (s *Stats) add(o Stats) {
	s.Evaluations += o.Evaluations
	s.Placements += o.Placements
	s.States += o.States
	s.Levels += o.Levels
}

// Result is what a search found.
type Result struct {
	// Shards is what each device holds, ordered by table, then by first column. The shards
	// cover every table exactly. The slices are the caller's.
	Shards [][]problem.Shard
	// Cost is the predicted cost in ms.
	Cost   float64
	Status Status
	// Optimal says that the search tried all placements of the problem with undivided
	// operators (Form.Operator is 0 for all tables), and without rows on chosen devices
	// (Options.ChosenRows), except placements that differ only by
	// the order of devices or columns. None of them is cheaper under the Scorer. The placement
	// found may be cheaper than all of them, because the search may have divided its
	// operators.
	Optimal bool
	// Moved is the number of bytes of weights and optimizer state that devices must receive
	// from other devices, if the search began from an old placement (Options.From).
	Moved unit.Bytes
	Stats Stats
}

// withDefaults returns the options with the default of each field that is zero. It
// fails if a number is negative, or if the method does not take an option.
func (o Options) withDefaults() (Options, error) {
	if o.Method == "" {
		o.Method = Default
	}
	if o.Workers < 0 {
		return o, fmt.Errorf("search option workers: %d is negative", o.Workers)
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if err := o.beamDefaults(); err != nil {
		return o, err
	}
	if o.Samples < 0 {
		return o, fmt.Errorf("search option samples: %d is negative", o.Samples)
	}
	if o.Budget < 0 {
		return o, fmt.Errorf("search option budget: %v is negative", o.Budget)
	}
	if o.FromScratch && (o.Method != NeuroShard || o.From != nil) {
		return o, fmt.Errorf("search option from scratch: method %q does not take it, nor a search from an old placement", o.Method)
	}
	if o.MaxEvaluations < 0 {
		return o, fmt.Errorf("search option max evaluations: %d is negative", o.MaxEvaluations)
	}
	return o, nil
}

// beamDefaults is withDefaults for the fields of the beam search, which method Paper alone runs.
func (o *Options) beamDefaults() error {
	for _, f := range []struct {
		name     string
		value    *int
		fallback int
	}{
		{"candidates", &o.Candidates, 10},
		{"beam", &o.Beam, 3},
		{"steps", &o.Steps, 10},
		{"grid", &o.Grid, 11},
	} {
		switch {
		case *f.value < 0:
			return fmt.Errorf("search option %s: %d is negative", f.name, *f.value)
		case o.Method != Paper && *f.value > 0:
			return fmt.Errorf("search option %s: method %q runs no beam search, only method %q does", f.name, o.Method, Paper)
		case o.Method == Paper && *f.value == 0:
			*f.value = f.fallback
		}
	}
	return nil
}
