// Package bench compares planning methods: it plans each task of a suite with each
// method, judges the plans, and sums up. The caller chooses the price list.
//
//	Task        a problem of a suite (suite.go, stress.go, workloads.go)
//	Contender   a method with its options, or a trained policy (contender.go)
//	Run, Score  one Record for each task and method (score.go, plans.go)
//	ReadGiven   plans to score, from files (given.go)
//	Keep        Run that writes Results, and keeps its records while it goes on (results.go)
//	Summarise   the records by setting and method, with intervals (interval.go); Plot
//	            draws them (plot.go)
//	Curves      cost against budgets of time (anytime.go)
//	Gains       the default method against the others, task by task (gains.go)
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// Task is one problem of a suite.
type Task struct {
	// Setting is the group of tasks that are summed up together. Name is unique among
	// all tasks.
	Setting, Name string
	Problem       problem.Problem
}

// Options steer a comparison. The zero value works.
type Options struct {
	// Prices estimates the costs of plans; nil takes neuroshard.Pretrained.
	Prices neuroshard.Prices
	// Methods defaults to all that need no policy, if there are no Contenders.
	Methods []search.Method
	// Contenders are compared with Methods, and stand in records under their names.
	Contenders []Contender
	// Budgets, if not nil, gives each contender, the Methods among them, each budget of time, for
	// Results.Curves. Search.Budget of the contenders must be 0. See Processor.
	Budgets []time.Duration
	// Processor, if not nil, returns the processor time of this process in seconds, or 0 if it is
	// not known. If Workers is 1, records have the processor time of their plans, and Budgets are
	// budgets of processor time. Otherwise it is not used.
	Processor func() float64
	// Predicted says that Results.Curves compare predicted costs, even if there are others.
	Predicted bool
	// Reference is the method that Summary.Against compares with; search.Paper by default.
	Reference search.Method
	// Workers is the number of tasks planned at a time (default: all processors);
	// each plan is searched by one goroutine. Costs do not depend on it, times do.
	Workers int
	Seed    uint64
	// TimeLimit, if above 0, ends a method's search for one plan after that time. The
	// best plan until then counts, with the status search.OutOfTime. If there is no plan
	// yet, the record is not valid and has the same status. Which searches end early
	// depends on the machine. A method looks at the clock between its steps, so it can
	// exceed the limit.
	TimeLimit time.Duration
	// Certificate adds, to each record of the default method that the simulated device
	// judges, a lower bound on the cost of any plan (package bound).
	Certificate bool
	// Measure, if not nil, judges plans: it runs the plans of a task in turns on a measurement
	// backend, as verify.InTurns does. Plans are then made one at a time, and those of a task
	// measured together, so that other load on the machine slows all of them. An error ends the
	// run, and so does a plan that the backend has no memory for.
	Measure func(ctx context.Context, p *problem.Problem, plans []verify.Placement) ([]verify.Turn, error)
	// MeasuredBy states what Measure measures with (verify.Comparison.MeasuredBy). A comparison that was
	// stopped does not go on with another one.
	MeasuredBy string
	// Choose runs the finalists of contenders with Contender.Finalists (neuroshard.Measure).
	Choose func(ctx context.Context, p *problem.Problem, finalists []neuroshard.Finalist) (*neuroshard.Measured, error)
	// Known are records of an earlier run of the same comparison. Their tasks are not
	// planned again with their methods.
	Known []Record
	// OnRecord, if not nil, is called with each new record, with the number of records
	// made until then, and with the number of all records; one call at a time. An error ends
	// the run.
	OnRecord func(r Record, done, of int) error

	// planner takes the place of chosen in tests.
	planner func(ctx context.Context, p *problem.Problem, opt neuroshard.Options, finalists int) (*neuroshard.Result, error)
}

func (o Options) withDefaults() Options {
	if len(o.Methods) == 0 && len(o.Contenders) == 0 {
		o.Methods = search.Untrained()
	}
	o.Reference = cmp.Or(o.Reference, search.Paper)
	if o.Prices == nil {
		o.Prices = neuroshard.Pretrained()
	}
	if o.planner == nil {
		o.planner = o.chosen
	}
	return o
}

// Record is the result of one method on one task.
type Record struct {
	Setting string        `json:"setting"`
	Task    string        `json:"task"`
	Method  search.Method `json:"method"`
	// Tables counts the task's tables, and Cluster is what they are placed on.
	Tables  int     `json:"tables,omitempty"`
	Cluster Cluster `json:"cluster,omitzero"`
	// Valid is false if the method found no plan that fits. Then the costs are null, and the
	// status is search.OutOfTime if Options.TimeLimit ended the search.
	Valid bool `json:"valid"`
	// CostMS is the predicted cost, and SimulatedCostMS the cost on the simulated device;
	// null if the simulated device does not judge the plan.
	CostMS          *float64 `json:"cost_ms"`
	SimulatedCostMS *float64 `json:"simulated_cost_ms"`
	// MeasuredCostMS is the measured cost, and MeasuredSpreadMS its range over repeats;
	// null if plans were not measured.
	MeasuredCostMS   *float64 `json:"measured_cost_ms,omitempty"`
	MeasuredSpreadMS *float64 `json:"measured_spread_ms,omitempty"`
	// WallMS is the time to find, validate and judge the plan; 0 for a scored plan.
	WallMS float64 `json:"wall_ms"`
	// CPUMS is the processor time of the same work, or 0 if it is not known.
	CPUMS float64 `json:"cpu_ms,omitempty"`
	// Evaluations is the work of the search: search.Stats.Evaluations and Repeated. It is 0 for
	// a scored plan.
	Evaluations int64 `json:"evaluations,omitempty"`
	// BoundMS is the lower bound on the simulated cost of any plan, or null. BoundWallMS is
	// the time to compute it, which WallMS does not include.
	BoundMS     *float64      `json:"lower_bound_ms,omitempty"`
	BoundWallMS float64       `json:"lower_bound_wall_ms,omitempty"`
	Status      search.Status `json:"status,omitempty"`
	Devices     []Device      `json:"devices,omitempty"`
	Plan        []Placed      `json:"plan,omitempty"`
}

// Cluster is the cluster of a task, in short.
type Cluster struct {
	Profile string `json:"profile"`
	Devices int    `json:"devices"`
	Hosts   int    `json:"hosts"`
}

// Device is one device of a plan: what it holds, and the predicted times.
type Device struct {
	Shards         int     `json:"shards"`
	DimSum         int     `json:"dim_sum"`
	Bytes          int64   `json:"bytes"`
	ComputeMS      float64 `json:"compute_ms"`
	BackwardCommMS float64 `json:"backward_comm_ms"`
	ForwardCommMS  float64 `json:"forward_comm_ms"`
	TotalMS        float64 `json:"total_ms"`
}

// Placed is a column slice on a device. Columns are those from the first to
// before the second.
type Placed struct {
	Table   string   `json:"table"`
	Columns [2]int64 `json:"columns"`
	Device  int      `json:"device"`
	// Operator is that of the slice's Form; 0 if the plan does not divide operators.
	Operator problem.Operator `json:"operator,omitempty"`
}

// cost returns the cost that records are compared by: the measured cost if there is one,
// else the simulated, else the predicted cost.
func (r *Record) cost() float64 {
	cost, _ := r.judged()
	return cost
}

// judged returns that cost, and which one it is: Measured, Simulated or Predicted.
func (r *Record) judged() (cost float64, judge string) {
	switch {
	case r.MeasuredCostMS != nil:
		return *r.MeasuredCostMS, Measured
	case r.SimulatedCostMS != nil:
		return *r.SimulatedCostMS, Simulated
	}
	return *r.CostMS, Predicted
}

// Check returns an error if the prices do not support the cluster of a task.
func Check(tasks []Task, prices neuroshard.Prices) error {
	for i := range tasks {
		if _, err := prices.Model(tasks[i].Problem.Topology); err != nil {
			return fmt.Errorf("task %s: %w", tasks[i].Name, err)
		}
	}
	return nil
}

// Estimable returns the tasks on whose clusters prices can be estimated, in their order.
// Check fails on the others. If there are none, all tasks are returned, so that Check says
// why.
func Estimable(tasks []Task, prices neuroshard.Prices) []Task {
	var some []Task
	for i := range tasks {
		if _, err := prices.Model(tasks[i].Problem.Topology); err == nil {
			some = append(some, tasks[i])
		}
	}
	if len(some) == 0 {
		return tasks
	}
	return some
}

// Run plans every task with every method. Records are in the order of the
// tasks, then of the methods. When ctx ends, the records made until then are
// returned with its error. A search that ctx ended makes no record. Two tasks of one name
// are an error.
func Run(ctx context.Context, tasks []Task, opt Options) ([]Record, error) {
	opt = opt.withDefaults()
	if _, err := index(tasks); err != nil {
		return nil, err
	}
	known := map[string]Record{}
	for _, r := range opt.Known {
		known[key(r.Task, r.Method)] = r
	}
	contenders, err := opt.all()
	if err != nil {
		return nil, err
	}
	jobs := make([]job, 0, len(tasks)*len(contenders))
	for i := range tasks {
		for _, c := range contenders {
			record, done := known[key(tasks[i].Name, c.Name)]
			jobs = append(jobs, job{task: &tasks[i], method: c.Name, search: c.Search, finalists: c.Finalists, record: record, done: done})
		}
	}
	return opt.each(ctx, jobs, func(j *job) made {
		start, used := time.Now(), opt.processor()
		result, err := opt.plan(ctx, j)
		return made{result, err, time.Since(start), 1000 * (opt.processor() - used)}
	})
}

// processor returns the processor time in seconds, or 0 if it is not that of one plan.
func (o *Options) processor() float64 {
	if o.Processor == nil || o.Workers != 1 {
		return 0
	}
	return o.Processor()
}

// errOutOfTime says that Options.TimeLimit ended a search that had no plan yet.
var errOutOfTime = errors.New("no plan within the time limit")

// plan plans a task, within the limit of time.
func (o Options) plan(ctx context.Context, j *job) (*neuroshard.Result, error) {
	limited := ctx
	if o.TimeLimit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.TimeLimit)
		defer cancel()
	}
	opt := j.search
	opt.Seed, opt.Workers, opt.Brief = o.Seed, 1, true
	if o.Budgets != nil && o.processor() > 0 {
		opt.Clock = func() time.Duration { return time.Duration(o.processor() * float64(time.Second)) }
	}
	if opt.ShardingTypes == nil {
		opt.ShardingTypes = search.Columns()
	}
	options := neuroshard.Options{Prices: o.Prices, Search: opt}
	result, err := o.planner(limited, &j.task.Problem, options, j.finalists)
	late := limited.Err() != nil && ctx.Err() == nil
	interrupted := err == nil && result.Status == search.Interrupted
	switch {
	case errors.Is(err, search.ErrOutOfTime) && ctx.Err() == nil:
		return nil, errOutOfTime
	case late && errors.Is(err, context.DeadlineExceeded):
		return nil, errOutOfTime
	case late && interrupted:
		result.Status = search.OutOfTime
	case interrupted:
		return nil, context.Canceled
	}
	return result, err
}

// chosen plans a problem, and chooses among finalists by their times if there are any.
func (o Options) chosen(ctx context.Context, p *problem.Problem, opt neuroshard.Options, finalists int) (*neuroshard.Result, error) {
	planner, err := neuroshard.NewPlanner(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	result, err := planner.Plan(ctx)
	if err == nil && finalists > 0 {
		result, err = planner.Measure(ctx, result, &neuroshard.Measure{Finalists: finalists, Run: o.Choose})
	}
	return result, err
}

// made is what a method found for a task: a result, or the error of its search, and the wall time
// and the processor time in milliseconds that it took.
type made struct {
	result *neuroshard.Result
	err    error
	wall   time.Duration
	cpuMS  float64
}

// judge makes a record of what was found, without a measured cost. It adds the bound if the
// options ask for it.
func (o Options) judge(j *job, m made) (Record, error) {
	r, err := record(j.task, j.method, m.result, m.err, m.wall)
	r.CPUMS = m.cpuMS
	if err != nil || !r.Valid {
		return r, err
	}
	if o.Certificate && j.method == search.Default && r.SimulatedCostMS != nil {
		if err := r.bound(&j.task.Problem, search.Options{Method: j.method}); err != nil {
			return r, err
		}
	}
	return r, nil
}

// complete makes the records of jobs of one task. If there is a backend, it runs the plans of all of them
// in turns.
func (o Options) complete(ctx context.Context, jobs []*job, find func(*job) made) error {
	of := func(j *job, err error) error { return fmt.Errorf("task %s, method %s: %w", j.task.Name, j.method, err) }
	var ran []*job
	var plans []verify.Placement
	for _, j := range jobs {
		m := find(j)
		var err error
		if j.record, err = o.judge(j, m); err != nil {
			return of(j, err)
		}
		if j.record.Valid && o.Measure != nil {
			ran, plans = append(ran, j), append(plans, verify.Placement{Shards: m.result.Shards, Predicted: m.result.Predicted})
		}
	}
	if len(plans) == 0 {
		return nil
	}
	turns, err := o.Measure(ctx, &ran[0].task.Problem, plans)
	if err != nil {
		return of(ran[0], err)
	}
	for i, j := range ran {
		if err := turns[i].Err; err != nil {
			return of(j, err)
		}
		took, spread := float64(turns[i].Result.Measured), float64(turns[i].Result.Spread)
		j.record.MeasuredCostMS, j.record.MeasuredSpreadMS = &took, &spread
	}
	return nil
}

// bound adds a lower bound on the simulated cost of what a search with the options tries.
func (r *Record) bound(p *problem.Problem, o search.Options) error {
	start := time.Now()
	b, err := bound.Simulated(context.Background(), p, bound.Allowed{Operators: o.Divides(p)})
	if err != nil {
		return err
	}
	least := float64(b.Total)
	r.BoundMS, r.BoundWallMS = &least, float64(time.Since(start))/float64(time.Millisecond)
	return nil
}

// index returns the tasks by name.
func index(tasks []Task) (map[string]*Task, error) {
	byName := make(map[string]*Task, len(tasks))
	for i := range tasks {
		if byName[tasks[i].Name] != nil {
			return nil, fmt.Errorf("two tasks are named %q", tasks[i].Name)
		}
		byName[tasks[i].Name] = &tasks[i]
	}
	return byName, nil
}

func key(task string, method search.Method) string { return task + "\x00" + string(method) }

// job is a record to make, or a record that is known.
type job struct {
	task   *Task
	method search.Method
	search search.Options
	// finalists is that of the Contender.
	finalists int
	// given is the plan to judge; nil if the job is a search.
	given  *Given
	record Record
	done   bool
}

// units divides the jobs that are not done into those that are made together: each alone, or all of a
// task if there is a backend.
func (o Options) units(jobs []job) (all [][]*job) {
	at := map[*Task]int{}
	for i := range jobs {
		j := &jobs[i]
		if j.done {
			continue
		}
		unit, known := at[j.task]
		if o.Measure == nil || !known {
			unit = len(all)
			at[j.task], all = unit, append(all, nil)
		}
		all[unit] = append(all[unit], j)
	}
	return all
}

// each makes the records that are not done, several at a time, and returns all
// in the order of the jobs.
func (o Options) each(ctx context.Context, jobs []job, find func(*job) made) ([]Record, error) {
	workers := cmp.Or(max(0, o.Workers), runtime.GOMAXPROCS(0))
	if o.Measure != nil {
		workers = 1 // a search would disturb the plan that is measured
	}
	var group errgroup.Group
	group.SetLimit(workers)
	var lock sync.Mutex
	units := o.units(jobs)
	// The error is that of the first failed unit in their order, not in time.
	errs := make([]error, len(units))
	// Units behind a failed one are passed over; those before it run, because one may fail, too.
	var failed atomic.Int64
	failed.Store(int64(len(units)))
	done := len(recordsOf(jobs))
	// kept takes over the records of a unit.
	kept := func(unit []*job) error {
		lock.Lock()
		defer lock.Unlock()
		for _, j := range unit {
			j.done = true
			if done++; o.OnRecord == nil {
				continue
			}
			if err := o.OnRecord(j.record, done, len(jobs)); err != nil {
				return err
			}
		}
		return nil
	}
	for i, unit := range units {
		group.Go(func() error {
			if int64(i) > failed.Load() || ctx.Err() != nil {
				return nil
			}
			if errs[i] = o.complete(ctx, unit, find); errs[i] == nil {
				errs[i] = kept(unit)
			}
			for first := failed.Load(); errs[i] != nil && int64(i) < first; first = failed.Load() {
				failed.CompareAndSwap(first, int64(i))
			}
			return nil
		})
	}
	_ = group.Wait() // of errs
	return recordsOf(jobs), cmp.Or(append([]error{ctx.Err()}, errs...)...)
}

// recordsOf returns the records of the jobs that are done, in the order of the jobs.
func recordsOf(jobs []job) []Record {
	var records []Record
	for _, j := range jobs {
		if j.done {
			records = append(records, j.record)
		}
	}
	return records
}

// record turns a result into a record. If no plan fits, or none was found in time, that is
// a record, not an error.
func record(task *Task, method search.Method, result *neuroshard.Result, err error, wall time.Duration) (Record, error) {
	t := &task.Problem.Topology
	r := Record{
		Setting: task.Setting, Task: task.Name, Method: method, WallMS: float64(wall) / float64(time.Millisecond),
		Tables: len(task.Problem.Tables), Cluster: Cluster{t.Profile.Name, t.Devices, t.Hosts()},
	}
	if errors.Is(err, errOutOfTime) {
		r.Status = search.OutOfTime
		return r, nil
	}
	var infeasible *search.Infeasible
	if errors.As(err, &infeasible) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	predicted := float64(result.Predicted.Cost)
	r.Valid, r.CostMS, r.Status = true, &predicted, result.Status
	r.Evaluations = result.Stats.Evaluations
	r.Devices = devicesOf(&task.Problem, result.Shards, result.Predicted)
	if result.Judged() {
		simulated := float64(result.Simulated.Cost)
		r.SimulatedCostMS = &simulated
	}
	for d, held := range result.Shards {
		for _, s := range held {
			r.Plan = append(r.Plan, Placed{task.Problem.Tables[s.Table].Name, [2]int64{s.Columns.Start, s.Columns.End}, d, s.Operator})
		}
	}
	return r, nil
}

// devicesOf returns what the devices of a placement hold, and their predicted times.
func devicesOf(p *problem.Problem, shards [][]problem.Shard, b plan.Breakdown) []Device {
	devices := make([]Device, len(b.Devices))
	for i, d := range b.Devices {
		out := &devices[i]
		for _, s := range shards[i] {
			out.Shards++
			out.DimSum += p.DimSum(s)
			out.Bytes += int64(p.ShardMemory(s)[problem.ForwardExchange].Used())
		}
		out.ComputeMS = float64(d.Forward + d.Backward)
		out.BackwardCommMS, out.ForwardCommMS, out.TotalMS = float64(d.BackwardComm), float64(d.ForwardComm), float64(d.Total())
	}
	return devices
}

// Summary sums up the records of one method on the tasks of one setting.
type Summary struct {
	Setting string        `json:"setting"`
	Method  search.Method `json:"method"`
	Tasks   int           `json:"tasks"`
	Solved  int           `json:"solved"`
	// Judge says which cost the figures below are computed from: "measured", "simulated",
	// or "predicted" if nothing else is known.
	Judge string `json:"judge"`
	// MeanMS and MedianMS are over the costs of the Solved tasks, those that this method
	// solved. CommonMS is the mean over the Common tasks, those that every method solved.
	MeanMS   float64 `json:"mean_ms"`
	MedianMS float64 `json:"median_ms"`
	CommonMS float64 `json:"common_mean_ms"`
	Common   int     `json:"common_tasks"`
	// Against compares this method with Options.Reference; nil if that was not tried, or no
	// task was solved by every method.
	Against *Against `json:"against,omitempty"`
	// Ratio is the mean, over the tasks that both solved, of this method's
	// cost to that of search.Paper; 0 without such tasks.
	Ratio float64 `json:"ratio_to_paper"`
	// BiasPercent is the mean of predicted over measured or simulated cost, less
	// one; 0 if only the prediction is known.
	BiasPercent  float64 `json:"bias_percent"`
	WallMedianMS float64 `json:"wall_median_ms"`
	WallP95MS    float64 `json:"wall_p95_ms"`
}

// The values of Summary.Judge.
const (
	Measured  = "measured"
	Simulated = "simulated"
	Predicted = "predicted"
)

// Verified compares the predicted and the measured costs of the records that
// have both, and the default method with the others. It is nil if no plans were measured,
// or plans of one method only.
func Verified(records []Record) *verify.Comparison {
	method := search.Default
	var outcomes []verify.Outcome
	for _, r := range records {
		if !r.Valid || r.MeasuredCostMS == nil {
			continue
		}
		o := verify.Outcome{Task: r.Task, Method: string(r.Method), Predicted: unit.Millis(*r.CostMS), Measured: unit.Millis(*r.MeasuredCostMS)}
		if r.MeasuredSpreadMS != nil {
			o.Spread = unit.Millis(*r.MeasuredSpreadMS)
		}
		outcomes = append(outcomes, o)
		if r.Method == OfMeasured {
			method = OfMeasured
		}
	}
	c, err := verify.Compare(outcomes, string(method))
	if err != nil {
		return nil
	}
	return c
}

// Summarise sums up the records by setting and method, in their order, and compares each
// method with the reference.
func Summarise(records []Record, reference search.Method) []Summary {
	costs := map[string]float64{}
	var settings []string
	var methods []search.Method
	failed := map[string]bool{}
	for _, r := range records {
		settings, methods = added(settings, r.Setting), added(methods, r.Method)
		if r.Valid {
			costs[key(r.Task, r.Method)] = r.cost()
		} else {
			failed[r.Task] = true
		}
	}
	var all []Summary
	for _, setting := range settings {
		for _, method := range methods {
			own := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Setting != setting || r.Method != method })
			if len(own) > 0 { // tasks can have given plans of different methods
				all = append(all, summary(own, costs, failed, reference))
			}
		}
	}
	return all
}

// summary sums up the records of one method for one setting, at least one record.
// costs holds the cost of each task and method with a plan, and failed the tasks that a
// method has no plan for.
func summary(records []Record, costs map[string]float64, failed map[string]bool, reference search.Method) Summary {
	s := Summary{Setting: records[0].Setting, Method: records[0].Method, Tasks: len(records), Judge: Predicted}
	var own, common, ratios, against, bias, walls []float64
	for _, r := range records {
		walls = append(walls, r.WallMS)
		if !r.Valid {
			continue
		}
		cost, judge := r.judged()
		s.Judge, own, bias = judge, append(own, cost), append(bias, *r.CostMS/cost-1)
		if !failed[r.Task] {
			common = append(common, cost)
			if other, ok := costs[key(r.Task, reference)]; ok {
				against = append(against, cost/other)
			}
		}
		if paper, ok := costs[key(r.Task, search.Paper)]; ok {
			ratios = append(ratios, cost/paper)
		}
	}
	s.Solved, s.Common = len(own), len(common)
	s.MeanMS, s.MedianMS, s.CommonMS = mean(own), quantile(own, .5), mean(common)
	s.Ratio, s.BiasPercent = mean(ratios), 100*mean(bias)
	if len(against) > 0 {
		s.Against = &Against{reference, meanOf(against)}
	}
	s.WallMedianMS, s.WallP95MS = quantile(walls, .5), quantile(walls, .95)
	return s
}

// mean returns the mean of the values; 0 of none.
func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return stat.Mean(values, nil)
}

// quantile returns the least value that is not below the share q of the values; 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return stat.Quantile(q, stat.Empirical, slices.Sorted(slices.Values(values)), nil)
}
