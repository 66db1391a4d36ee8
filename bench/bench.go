// Package bench compares planning methods: it runs the whole line over a suite
// of tasks with each method, judges every plan on the simulated device, and
// sums up. ranking.go judges the cost models themselves: do they put plans in
// the right order?
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/workload"
)

// Task is one problem of a suite.
type Task struct {
	// Setting groups tasks that are summed up together, and Name is unique among
	// them.
	Setting, Name string
	Problem       problem.Problem
}

// PaperTasks draws tasks as the NeuroShard paper does: perSetting for each of
// six settings of devices and largest dim, from one pool, on devices of the
// profile.
func PaperTasks(profile hardware.Profile, perSetting int, seed uint64) ([]Task, error) {
	pool := workload.Pool(seed)
	var tasks []Task
	for _, setting := range workload.PaperSettings() {
		for i := range perSetting {
			drawn, err := workload.Draw(pool, setting, seed, i)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, Task{setting.Name, fmt.Sprintf("%s/%d", setting.Name, i), drawn.Problem(profile)})
		}
	}
	return tasks, nil
}

// Options steer a comparison. The zero value works.
type Options struct {
	// Methods defaults to all.
	Methods []search.Method
	// Workers is the number of tasks planned at a time (default: all processors);
	// each plan is searched by one goroutine. Costs do not depend on it, times do.
	Workers int
	Seed    uint64
	// OnRecord, where not nil, is called after each task and method, by one
	// goroutine at a time.
	OnRecord func(done, of int)
}

// Record is what one method made of one task.
type Record struct {
	Setting string        `json:"setting"`
	Task    string        `json:"task"`
	Method  search.Method `json:"method"`
	// Valid is false where the method found no plan that fits; the costs are null
	// then.
	Valid bool `json:"valid"`
	// CostMS is what the model predicts and SimulatedCostMS what the simulated
	// device takes for the plan.
	CostMS          *float64 `json:"cost_ms"`
	SimulatedCostMS *float64 `json:"simulated_cost_ms"`
	// WallMS is the time of planning, validation and judging included.
	WallMS float64       `json:"wall_ms"`
	Status search.Status `json:"status,omitempty"`
}

// Run plans every task with every method. Records are in the order of the
// tasks, then of the methods.
func Run(ctx context.Context, tasks []Task, opt Options) ([]Record, error) {
	if len(opt.Methods) == 0 {
		opt.Methods = search.Methods()
	}
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	records := make([]Record, len(tasks)*len(opt.Methods))
	var group sync.WaitGroup
	var lock sync.Mutex
	var failed error
	done := 0
	next := make(chan int)
	for range opt.Workers {
		group.Go(func() {
			for i := range next {
				task, method := &tasks[i/len(opt.Methods)], opt.Methods[i%len(opt.Methods)]
				record, err := run(ctx, task, method, opt.Seed)
				lock.Lock()
				records[i] = record
				if err != nil && failed == nil {
					failed = fmt.Errorf("task %s, method %s: %w", task.Name, method, err)
				}
				if done++; opt.OnRecord != nil {
					opt.OnRecord(done, len(records))
				}
				lock.Unlock()
			}
		})
	}
	for i := range records {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	group.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return records, failed
}

func run(ctx context.Context, task *Task, method search.Method, seed uint64) (Record, error) {
	record := Record{Setting: task.Setting, Task: task.Name, Method: method}
	start := time.Now()
	result, err := neuroshard.Plan(ctx, &task.Problem, neuroshard.Options{Search: search.Options{Method: method, Seed: seed, Workers: 1}})
	record.WallMS = float64(time.Since(start)) / float64(time.Millisecond)
	var infeasible *search.Infeasible
	if errors.As(err, &infeasible) {
		return record, nil
	}
	if err != nil {
		return record, err
	}
	predicted, simulated := float64(result.Predicted.Cost), float64(result.Simulated.Cost)
	record.Valid, record.CostMS, record.SimulatedCostMS, record.Status = true, &predicted, &simulated, result.Status
	return record, nil
}

// Summary is what one method made of one setting.
type Summary struct {
	Setting string        `json:"setting"`
	Method  search.Method `json:"method"`
	Tasks   int           `json:"tasks"`
	Solved  int           `json:"solved"`
	// MeanMS and MedianMS are of the simulated costs of the tasks that this method
	// solved; CommonMS is the mean over the Common tasks that every method solved.
	MeanMS   float64 `json:"mean_simulated_ms"`
	MedianMS float64 `json:"median_simulated_ms"`
	CommonMS float64 `json:"common_mean_simulated_ms"`
	Common   int     `json:"common_tasks"`
	// Ratio is the mean, over the tasks that both solved, of this method's
	// simulated cost to that of search.Paper; 0 without such tasks.
	Ratio float64 `json:"ratio_to_paper"`
	// BiasPercent is the mean of predicted over simulated cost, less one.
	BiasPercent  float64 `json:"bias_percent"`
	WallMedianMS float64 `json:"wall_median_ms"`
	WallP95MS    float64 `json:"wall_p95_ms"`
}

// Summarise sums up the records by setting and method, in their order.
func Summarise(records []Record) []Summary {
	type key struct {
		task   string
		method search.Method
	}
	costs := map[key]float64{}
	var settings []string
	var methods []search.Method
	failed := map[string]bool{}
	for _, r := range records {
		if !slices.Contains(settings, r.Setting) {
			settings = append(settings, r.Setting)
		}
		if !slices.Contains(methods, r.Method) {
			methods = append(methods, r.Method)
		}
		if r.Valid {
			costs[key{r.Task, r.Method}] = *r.SimulatedCostMS
		} else {
			failed[r.Task] = true
		}
	}
	var all []Summary
	for _, setting := range settings {
		for _, method := range methods {
			s := Summary{Setting: setting, Method: method}
			var own, common, ratios, bias, walls []float64
			for _, r := range records {
				if r.Setting != setting || r.Method != method {
					continue
				}
				s.Tasks++
				walls = append(walls, r.WallMS)
				if !r.Valid {
					continue
				}
				own = append(own, *r.SimulatedCostMS)
				bias = append(bias, *r.CostMS / *r.SimulatedCostMS - 1)
				if !failed[r.Task] {
					common = append(common, *r.SimulatedCostMS)
				}
				if paper, ok := costs[key{r.Task, search.Paper}]; ok {
					ratios = append(ratios, *r.SimulatedCostMS/paper)
				}
			}
			s.Solved, s.Common = len(own), len(common)
			s.MeanMS, s.MedianMS, s.CommonMS = mean(own), quantile(own, .5), mean(common)
			s.Ratio, s.BiasPercent = mean(ratios), 100*mean(bias)
			s.WallMedianMS, s.WallP95MS = quantile(walls, .5), quantile(walls, .95)
			all = append(all, s)
		}
	}
	return all
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// quantile returns the value at the share q of the sorted values; 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[int(q*float64(len(sorted)-1)+.5)]
}

// MaxTasks is the largest number of tasks of a setting that a command offers.
const MaxTasks = 100_000
