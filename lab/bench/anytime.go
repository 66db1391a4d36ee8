package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/neuroshard/neuroshard/search"
)

// anytimeSamples is the number of rollouts that a policy may draw: more than any budget of
// time allows.
const anytimeSamples = 1 << 30

// Anytime returns each contender once for each budget of time, named "dim 10ms". A policy draws
// rollouts until its budget ends.
func Anytime(contenders []Contender, budgets []time.Duration) []Contender {
	var all []Contender
	for _, c := range contenders {
		for _, b := range budgets {
			timed := c
			timed.Name, timed.Search.Budget = search.Method(fmt.Sprintf("%s %v", c.Name, b)), b
			if c.Search.Method.Learned() {
				timed.Search.Samples = anytimeSamples
			}
			all = append(all, timed)
		}
	}
	return all
}

// Curve is the cost of one contender's plans against its budget of time, in one setting.
type Curve struct {
	Setting   string        `json:"setting"`
	Contender search.Method `json:"contender"`
	// Judge says which costs are compared, as in Summary.
	Judge  string  `json:"judge"`
	Points []Point `json:"points"`
}

// Point is one budget of a Curve.
type Point struct {
	// BudgetMS is 0 for a given plan (Options.Given) whose name ends in no budget.
	BudgetMS float64 `json:"budget_ms"`
	Tasks    int     `json:"tasks"`
	Solved   int     `json:"solved"`
	// Ratio is the mean, over the solved tasks, of the cost to the least cost that any
	// contender reached with any budget; nil if none was solved.
	Ratio *Interval `json:"ratio"`
	// WallMS is the median of the times from the tables to the judged plan. A contender looks
	// at the clock between its steps, so it can exceed its budget.
	WallMS float64 `json:"wall_ms"`
	// CPUMS is the median of the processor times of the same work; 0 if they are not known.
	CPUMS float64 `json:"cpu_ms,omitempty"`
}

// Curves sums up the records of a comparison with Options.Budgets, by setting and contender. Given
// plans come last.
func Curves(records []Record, opt Options) []Curve {
	s := curves{least: map[string]float64{}, predicted: opt.Predicted}
	var settings []string
	for i := range records {
		r := &records[i]
		settings = added(settings, r.Setting)
		if !r.Valid {
			continue
		}
		cost, _ := s.judged(r)
		if best, ok := s.least[r.Task]; !ok || cost < best {
			s.least[r.Task] = cost
		}
	}
	var all []Curve
	for _, setting := range settings {
		s.records = map[search.Method][]Record{}
		for _, r := range records {
			if r.Setting == setting {
				s.records[r.Method] = append(s.records[r.Method], r)
			}
		}
		for _, c := range opt.contenders() {
			curve := Curve{Setting: setting, Contender: c.Name, Judge: Predicted}
			for i, limited := range Anytime([]Contender{c}, opt.Budgets) {
				s.point(&curve, limited.Name, opt.Budgets[i])
			}
			all = append(all, curve)
		}
		all = append(all, s.given(setting, opt.Given)...)
	}
	return all
}

// given returns the curves of given plans in a setting.
func (s *curves) given(setting string, given []Given) (all []Curve) {
	seen := map[search.Method]bool{}
	for _, g := range given {
		if seen[g.Method] || len(s.records[g.Method]) == 0 {
			continue
		}
		seen[g.Method] = true
		name, budget := timed(g.Method)
		at := slices.IndexFunc(all, func(c Curve) bool { return c.Contender == name })
		if at < 0 {
			at, all = len(all), append(all, Curve{Setting: setting, Contender: name, Judge: Predicted})
		}
		s.point(&all[at], g.Method, budget)
	}
	return all
}

// timed takes the name of a contender with a budget apart: "highs 10s" is contender "highs" with
// 10 s. The budget of another name is 0.
func timed(name search.Method) (contender search.Method, budget time.Duration) {
	if at := strings.LastIndexByte(string(name), ' '); at > 0 {
		if budget, err := time.ParseDuration(string(name[at+1:])); err == nil {
			return name[:at], budget
		}
	}
	return name, 0
}

// curves is what the points of all curves are made with.
type curves struct {
	// least is the least cost of each task.
	least map[string]float64
	// predicted is Options.Predicted.
	predicted bool
	// records are those of one setting, by method.
	records map[search.Method][]Record
}

// judged returns the cost of a valid record that curves compare, and what it is.
func (s *curves) judged(r *Record) (cost float64, judge string) {
	if s.predicted {
		return *r.CostMS, Predicted
	}
	return r.cost(), r.judge()
}

// point sums up the records of a method, which has the budget, as a point of the curve, and sets
// the curve's judge.
func (s *curves) point(c *Curve, method search.Method, budget time.Duration) {
	records := s.records[method]
	var ratios, walls, cpus []float64
	for i := range records {
		r := &records[i]
		walls, cpus = append(walls, r.WallMS), append(cpus, r.CPUMS)
		if !r.Valid {
			continue
		}
		var cost float64
		cost, c.Judge = s.judged(r)
		ratios = append(ratios, cost/s.least[r.Task])
	}
	p := Point{BudgetMS: float64(budget) / float64(time.Millisecond), Tasks: len(records), Solved: len(ratios), WallMS: quantile(walls, .5), CPUMS: quantile(cpus, .5)}
	if len(ratios) > 0 {
		interval := meanOf(ratios)
		p.Ratio = &interval
	}
	c.Points = append(c.Points, p)
}
