package bench

import (
	"slices"

	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// Gains compares the default method with the published search and with the best
// baseline of each task. A gain is the share of the other's cost that the default
// method's plan saves, in percent: 5 if the plan costs 0.95 times the other's cost. Costs
// are measured if they can be, else simulated, else predicted.
type Gains struct {
	// Tasks holds one entry for each task, in the order of the tasks' first records.
	Tasks []Gain `json:"tasks"`
	// OverPaper and OverBaseline sum up the gains, in percent, over the tasks with both
	// plans. Gap sums up the optimality gaps. WallMS sums up the times of the default
	// method, tasks without a plan included.
	OverPaper    Stat `json:"gain_over_paper_percent"`
	OverBaseline Stat `json:"gain_over_best_baseline_percent"`
	Gap          Stat `json:"optimality_gap"`
	WallMS       Stat `json:"wall_ms"`
}

// Stat is the mean and the median of a figure over the tasks that have the figure, and the
// number of these tasks.
type Stat struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Tasks  int     `json:"tasks"`
}

// Gain is one task of Gains.
type Gain struct {
	Setting string  `json:"setting"`
	Task    string  `json:"task"`
	Tables  int     `json:"tables"`
	Cluster Cluster `json:"cluster"`
	// Judge says which costs are compared, as in Summary.
	Judge string `json:"judge"`
	// Default, Paper and Baseline are the results of the default method, of the published
	// search and of the baseline with the cheapest plan; nil if the method was not tried.
	// If no baseline has a plan, Baseline has no method and no cost.
	Default  *Entry `json:"neuroshard"`
	Paper    *Entry `json:"paper"`
	Baseline *Entry `json:"best_baseline"`
	// Baselines is the number of baselines tried, and BaselinesSolved the number of those
	// that found a plan.
	Baselines       int `json:"baselines"`
	BaselinesSolved int `json:"baselines_solved"`
	// OverPaper and OverBaseline are the gains in percent; null if there is no plan
	// on either side.
	OverPaper    *float64 `json:"gain_over_paper_percent"`
	OverBaseline *float64 `json:"gain_over_best_baseline_percent"`
	// BoundMS is a lower bound on the simulated cost of any plan, and Gap the share by
	// which the default method's simulated cost is above it; null if there is none.
	BoundMS *float64 `json:"lower_bound_ms"`
	Gap     *float64 `json:"optimality_gap"`
}

// Entry is one method's record of a task, in short.
type Entry struct {
	Method search.Method `json:"method,omitempty"`
	// CostMS is null if the method found no plan.
	CostMS *float64 `json:"cost_ms"`
	// Shards is the number of shards of the plan.
	Shards int `json:"shards"`
	// WallMS and Status are those of the Record.
	WallMS float64       `json:"wall_ms"`
	Status search.Status `json:"status,omitempty"`
}

// TimedOut reports whether Options.TimeLimit ended the search.
func (e *Entry) TimedOut() bool { return e.Status == search.OutOfTime }

// NewGains compares the default method's records with the others. It is nil if the default
// method has no records, or no other method has.
func NewGains(records []Record) *Gains {
	at := map[string]int{}
	var g Gains
	for i := range records {
		r := &records[i]
		n, ok := at[r.Task]
		if !ok {
			n = len(g.Tasks)
			at[r.Task] = n
			g.Tasks = append(g.Tasks, Gain{Setting: r.Setting, Task: r.Task, Tables: r.Tables, Cluster: r.Cluster, Judge: Predicted})
		}
		g.Tasks[n].add(r)
	}
	compared := func(t Gain) bool { return t.Default != nil && (t.Paper != nil || t.Baseline != nil) }
	if !slices.ContainsFunc(g.Tasks, compared) {
		return nil
	}
	var paper, baseline, gaps, walls []float64
	for i := range g.Tasks {
		t := &g.Tasks[i]
		t.OverPaper, t.OverBaseline = gain(t.Default, t.Paper), gain(t.Default, t.Baseline)
		paper, baseline, gaps = known(paper, t.OverPaper), known(baseline, t.OverBaseline), known(gaps, t.Gap)
		if t.Default != nil {
			walls = append(walls, t.Default.WallMS)
		}
	}
	g.OverPaper, g.OverBaseline, g.Gap, g.WallMS = statOf(paper), statOf(baseline), statOf(gaps), statOf(walls)
	return &g
}

// add adds a record of the task.
func (g *Gain) add(r *Record) {
	e := &Entry{Method: r.Method, Shards: len(r.Plan), WallMS: r.WallMS, Status: r.Status}
	if r.Valid {
		cost, judge := r.judged()
		e.CostMS, g.Judge = &cost, judge
	}
	switch {
	case r.Method == search.Default:
		g.Default = e
		if r.BoundMS != nil {
			gap := bound.Gap(unit.Millis(*r.SimulatedCostMS), unit.Millis(*r.BoundMS))
			g.BoundMS, g.Gap = r.BoundMS, &gap
		}
	case r.Method == search.Paper:
		g.Paper = e
	case slices.Contains(search.Baselines(), r.Method):
		g.Baselines++
		if g.Baseline == nil {
			g.Baseline = &Entry{}
		}
		if !r.Valid {
			return
		}
		g.BaselinesSolved++
		if g.Baseline.CostMS == nil || *e.CostMS < *g.Baseline.CostMS {
			g.Baseline = e
		}
	}
}

// gain returns by how many percent own is cheaper than other; nil without both.
func gain(own, other *Entry) *float64 {
	if own == nil || other == nil || own.CostMS == nil || other.CostMS == nil {
		return nil
	}
	percent := 100 * (1 - *own.CostMS / *other.CostMS)
	return &percent
}

func known(values []float64, v *float64) []float64 {
	if v == nil {
		return values
	}
	return append(values, *v)
}

func statOf(values []float64) Stat { return Stat{mean(values), quantile(values, .5), len(values)} }
