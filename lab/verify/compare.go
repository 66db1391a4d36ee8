package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/unit"
)

// Outcome holds the predicted and the measured cost of one plan: the plan of a
// method for a task.
type Outcome struct {
	// Task and Method together identify the outcome.
	Task, Method string
	// Predicted and Measured are the costs of the plan. Spread is the range of the
	// measured costs over the repeats, as in Result.
	Predicted, Measured, Spread unit.Millis
}

// Comparison summarises measured plans.
type Comparison struct {
	// MeasuredBy states what measured the plans: the backend, its device and kernel, whether its
	// all-to-alls are simulated, and the runs of a plan. It may be empty.
	MeasuredBy string `json:"measured_by,omitempty"`
	// Plans is the number of plans, and Tasks the number of their tasks.
	Plans int `json:"plans"`
	Tasks int `json:"tasks"`
	// Tau is Kendall's rank correlation (tau-b) of predicted and measured cost over
	// all plans. TaskTau is the mean over the tasks of the correlation of the task's
	// own plans. TaskTau is usually lower, because tasks differ in size, so plans of
	// different tasks are easier to order.
	Tau     float64 `json:"tau"`
	TaskTau float64 `json:"tau_within_tasks"`
	// MeanError and P95Error are the mean and the 95th percentile of |predicted -
	// measured| / measured. Noise is the mean of Spread / Measured. All are shares,
	// not percent.
	MeanError float64 `json:"mean_error"`
	P95Error  float64 `json:"p95_error"`
	Noise     float64 `json:"noise"`
	// Method is the method that is compared with the others.
	Method string `json:"method"`
	// Methods has an entry for each method: Method itself first, then the others by
	// rising ratio.
	Methods []MethodCost `json:"methods"`
	// Best compares Method with the cheapest other plan of each task.
	Best MethodCost `json:"best_other"`
}

// MethodCost is a method's measured cost, compared with that of Comparison.Method.
type MethodCost struct {
	// Method is the name of the method, or empty for the cheapest of the other
	// methods.
	Method string `json:"method,omitempty"`
	// Tasks is the number of tasks for which both methods have a plan.
	Tasks int `json:"tasks"`
	// Mean is the mean measured cost over these tasks.
	Mean unit.Millis `json:"mean_ms"`
	// Ratio is the mean over the tasks of Comparison.Method's measured cost divided by
	// this method's: below 1 if Comparison.Method is better.
	Ratio float64 `json:"ratio"`
	// Wins counts the tasks on which Comparison.Method was measured cheaper, Losses
	// those on which it was more expensive.
	Wins   int `json:"wins"`
	Losses int `json:"losses"`
	// PValue is that of the one-sided test over the tasks that Comparison.Method is cheaper
	// (stats.Wilcoxon of the logarithms of the ratios); 1 for Comparison.Method itself.
	PValue float64 `json:"p_value"`
}

// Compare summarises the plans of several methods for several tasks, and compares
// the given method with the others. It fails if no task has a plan of that method
// and of another one, if a task has two plans of one method, and if a measured cost
// is not above 0.
func Compare(list []Outcome, method string) (*Comparison, error) {
	known, err := newOutcomes(list)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known.methods, method) {
		return nil, fmt.Errorf("there is no plan of method %q to compare with others: there are plans of %q", method, known.methods)
	}
	var predicted, measured, errs, noise []float64
	for _, o := range list {
		predicted, measured = append(predicted, float64(o.Predicted)), append(measured, float64(o.Measured))
		errs = append(errs, math.Abs(float64(o.Predicted-o.Measured))/float64(o.Measured))
		noise = append(noise, float64(o.Spread/o.Measured))
	}
	c := &Comparison{
		Plans: len(list), Tasks: len(known.tasks), Method: method,
		Tau: stats.Kendall(predicted, measured), TaskTau: known.taskTau(),
		MeanError: mean(errs), P95Error: stat.Quantile(.95, stat.Empirical, slices.Sorted(slices.Values(errs)), nil), Noise: mean(noise),
	}
	for _, m := range known.methods {
		one := known.against(method, func(task string) *Outcome { return known.of(task, m) })
		one.Method = m
		c.Methods = append(c.Methods, one)
	}
	c.Best = known.against(method, func(task string) *Outcome { return known.bestOther(task, method) })
	if c.Best.Tasks == 0 {
		return nil, fmt.Errorf("no task has a plan of method %q and one of another method to compare it with", method)
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

// outcomes holds the outcomes by task and method. tasks and methods list both in
// the order in which they first occur, because sums of floats depend on their
// order.
type outcomes struct {
	known          map[[2]string]*Outcome
	tasks, methods []string
}

// newOutcomes fails if a cost is not possible for a plan, and if a task has two
// plans of one method.
func newOutcomes(list []Outcome) (*outcomes, error) {
	all := &outcomes{known: map[[2]string]*Outcome{}}
	for i := range list {
		o := &list[i]
		if !(o.Measured > 0) {
			return nil, fmt.Errorf("task %q, method %q: a measured cost of %v", o.Task, o.Method, float64(o.Measured))
		}
		if all.of(o.Task, o.Method) != nil {
			return nil, fmt.Errorf("task %q has two plans of method %q", o.Task, o.Method)
		}
		all.known[[2]string{o.Task, o.Method}] = o
		if !slices.Contains(all.tasks, o.Task) {
			all.tasks = append(all.tasks, o.Task)
		}
		if !slices.Contains(all.methods, o.Method) {
			all.methods = append(all.methods, o.Method)
		}
	}
	return all, nil
}

// of returns the outcome of a method's plan for a task, or nil without a plan.
func (a *outcomes) of(task, method string) *Outcome { return a.known[[2]string{task, method}] }

// taskTau returns the mean of Kendall's tau over the tasks with more than one plan,
// or 0 without such tasks.
func (a *outcomes) taskTau() float64 {
	var taus []float64
	for _, task := range a.tasks {
		var predicted, measured []float64
		for _, m := range a.methods {
			if o := a.of(task, m); o != nil {
				predicted, measured = append(predicted, float64(o.Predicted)), append(measured, float64(o.Measured))
			}
		}
		if len(predicted) > 1 {
			taus = append(taus, stats.Kendall(predicted, measured))
		}
	}
	if len(taus) == 0 {
		return 0
	}
	return mean(taus)
}

// bestOther returns, of all methods but the given one, the outcome for a task with
// the lowest measured cost, or nil without one.
func (a *outcomes) bestOther(task, method string) *Outcome {
	var best *Outcome
	for _, m := range a.methods {
		if o := a.of(task, m); m != method && o != nil && (best == nil || o.Measured < best.Measured) {
			best = o
		}
	}
	return best
}

// against compares the costs of a method with other outcomes of the tasks.
func (a *outcomes) against(method string, other func(task string) *Outcome) MethodCost {
	var m MethodCost
	var costs, ratios, logs []float64
	for _, task := range a.tasks {
		ours, theirs := a.of(task, method), other(task)
		if ours == nil || theirs == nil {
			continue
		}
		ratio := float64(ours.Measured / theirs.Measured)
		costs, ratios, logs = append(costs, float64(theirs.Measured)), append(ratios, ratio), append(logs, math.Log(ratio))
		switch {
		case ours.Measured < theirs.Measured:
			m.Wins++
		case ours.Measured > theirs.Measured:
			m.Losses++
		}
	}
	if m.Tasks = len(costs); m.Tasks > 0 {
		m.Mean, m.Ratio = unit.Millis(mean(costs)), mean(ratios)
	}
	m.PValue = stats.Wilcoxon(logs)
	return m
}

func mean(values []float64) float64 { return stat.Mean(values, nil) }
