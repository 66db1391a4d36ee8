package verify

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/rank"
	"github.com/neuroshard/neuroshard/unit"
)

// Outcome is the plan that a method made of a task, as it was measured.
type Outcome struct {
	// Task and Method together are unique.
	Task, Method string
	// Predicted and Measured are the plan's costs and Spread the range of the
	// measured one over repeats, as in Result.
	Predicted, Measured, Spread unit.Millis
}

// Comparison sums up measured plans.
type Comparison struct {
	// Plans is the number of plans, over Tasks tasks.
	Plans int `json:"plans"`
	Tasks int `json:"tasks"`
	// Tau is Kendall's rank correlation (tau-b) of predicted and measured cost over
	// all plans, and TaskTau the mean over tasks of that of the task's own plans.
	// Tasks differ in size, so all of them together are easier to order.
	Tau     float64 `json:"tau"`
	TaskTau float64 `json:"tau_within_tasks"`
	// MeanError and P95Error are of |predicted - measured| / measured, and Noise
	// is the mean of Spread / Measured: shares, not percent.
	MeanError float64 `json:"mean_error"`
	P95Error  float64 `json:"p95_error"`
	Noise     float64 `json:"noise"`
	// Method is the one that the others are compared with.
	Method string `json:"method"`
	// Methods has an entry for each method, Method itself first, the others by
	// rising ratio.
	Methods []MethodCost `json:"methods"`
	// Best compares Method with the cheapest other plan of each task.
	Best MethodCost `json:"best_other"`
}

// MethodCost is a method's measured cost, and how Method does beside it.
type MethodCost struct {
	// Method is empty for the best of the others.
	Method string `json:"method,omitempty"`
	// Tasks is the number of tasks of which both methods have a plan.
	Tasks int `json:"tasks"`
	// Mean is the mean measured cost over these tasks.
	Mean unit.Millis `json:"mean_ms"`
	// Ratio is the mean over tasks of the measured cost of Comparison.Method as a
	// share of this method's: below 1 where Comparison.Method is better.
	Ratio float64 `json:"ratio"`
	// Wins and Losses count the tasks on which Comparison.Method was measured
	// cheaper, and dearer.
	Wins   int `json:"wins"`
	Losses int `json:"losses"`
}

// Compare sums up the plans of several methods on several tasks, and compares
// the given method with the others. It fails where there is no plan of that
// method beside another's, where a task has two plans of one method, and where a
// measured cost is not above 0.
func Compare(outcomes []Outcome, method string) (*Comparison, error) {
	type key struct{ task, method string }
	known := map[key]*Outcome{}
	var tasks, methods []string
	var predicted, measured, errs, noise []float64
	for i := range outcomes {
		o := &outcomes[i]
		if !(o.Measured > 0 && time(o.Measured)) || !time(o.Predicted) || !time(o.Spread) {
			return nil, fmt.Errorf("task %q, method %q: predicted %v, measured %v, spread %v: not the costs of a plan", o.Task, o.Method, float64(o.Predicted), float64(o.Measured), float64(o.Spread))
		}
		if known[key{o.Task, o.Method}] != nil {
			return nil, fmt.Errorf("task %q has two plans of method %q", o.Task, o.Method)
		}
		known[key{o.Task, o.Method}] = o
		if !slices.Contains(tasks, o.Task) {
			tasks = append(tasks, o.Task)
		}
		if !slices.Contains(methods, o.Method) {
			methods = append(methods, o.Method)
		}
		predicted, measured = append(predicted, float64(o.Predicted)), append(measured, float64(o.Measured))
		errs = append(errs, math.Abs(float64(o.Predicted-o.Measured))/float64(o.Measured))
		noise = append(noise, float64(o.Spread/o.Measured))
	}
	if !slices.Contains(methods, method) {
		return nil, fmt.Errorf("there is no plan of method %q to compare with others: there are plans of %q", method, methods)
	}
	c := &Comparison{
		Plans: len(outcomes), Tasks: len(tasks), Method: method,
		Tau:       rank.Kendall(predicted, measured),
		MeanError: mean(errs), P95Error: quantile(errs, .95), Noise: mean(noise),
	}
	// Both loops go over lists, not maps: sums of floats depend on their order.
	taus := 0
	for _, task := range tasks {
		predicted, measured = predicted[:0], measured[:0]
		for _, m := range methods {
			if o := known[key{task, m}]; o != nil {
				predicted, measured = append(predicted, float64(o.Predicted)), append(measured, float64(o.Measured))
			}
		}
		if len(predicted) > 1 {
			c.TaskTau += rank.Kendall(predicted, measured)
			taus++
		}
	}
	if taus > 0 {
		c.TaskTau /= float64(taus)
	}
	for _, m := range methods {
		one := MethodCost{Method: m}
		for _, task := range tasks {
			one.add(known[key{task, method}], known[key{task, m}])
		}
		c.Methods = append(c.Methods, one.mean())
	}
	for _, task := range tasks {
		var best *Outcome
		for _, m := range methods {
			if o := known[key{task, m}]; m != method && o != nil && (best == nil || o.Measured < best.Measured) {
				best = o
			}
		}
		c.Best.add(known[key{task, method}], best)
	}
	c.Best = c.Best.mean()
	if c.Best.Tasks == 0 {
		return nil, errors.New("no task has a plan of method " + fmt.Sprintf("%q", method) + " and one of another method to compare it with")
	}
	slices.SortStableFunc(c.Methods, func(a, b MethodCost) int {
		if (a.Method == method) != (b.Method == method) {
			if a.Method == method {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Ratio, b.Ratio), cmp.Compare(a.Method, b.Method))
	})
	return c, nil
}

// add counts a task, with the plan of the method that is compared and another's.
// Either may be nil.
func (m *MethodCost) add(ours, other *Outcome) {
	if ours == nil || other == nil {
		return
	}
	m.Tasks++
	m.Mean += other.Measured
	m.Ratio += float64(ours.Measured / other.Measured)
	switch {
	case ours.Measured < other.Measured:
		m.Wins++
	case ours.Measured > other.Measured:
		m.Losses++
	}
}

// mean returns m with means instead of sums.
func (m MethodCost) mean() MethodCost {
	if m.Tasks > 0 {
		m.Mean /= unit.Millis(m.Tasks)
		m.Ratio /= float64(m.Tasks)
	}
	return m
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// quantile returns the least value that at least the share q of all do not
// exceed.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
