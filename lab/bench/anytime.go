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

// AnytimeBudgets are the budgets of a comparison at equal time.
func AnytimeBudgets() []time.Duration {
	return []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second}
}

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
	var given []search.Method
	for _, g := range opt.Given {
		name, _ := timed(g.Method)
		given = added(given, name)
	}
	var all []Curve
	for _, setting := range settings {
		of := func(name search.Method) []Record {
			return slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Setting != setting || r.Method != name })
		}
		for _, c := range opt.contenders() {
			curve := Curve{Setting: setting, Contender: c.Name, Judge: Predicted}
			for i, limited := range Anytime([]Contender{c}, opt.Budgets) {
				curve.Points = append(curve.Points, s.point(&curve, of(limited.Name)))
				curve.Points[i].BudgetMS = float64(opt.Budgets[i]) / float64(time.Millisecond)
			}
			all = append(all, curve)
		}
		for _, name := range given {
			curve := Curve{Setting: setting, Contender: name, Judge: Predicted}
			for _, g := range opt.Given {
				whose, budget := timed(g.Method)
				known := func(p Point) bool { return p.BudgetMS == budget }
				if own := of(g.Method); whose == name && len(own) > 0 && !slices.ContainsFunc(curve.Points, known) {
					p := s.point(&curve, own)
					p.BudgetMS = budget
					curve.Points = append(curve.Points, p)
				}
			}
			if len(curve.Points) > 0 {
				all = append(all, curve)
			}
		}
	}
	return all
}

// timed takes the name of a contender with a budget apart: "highs 10s" is contender "highs" with
// 10,000 ms. The budget of another name is 0.
func timed(name search.Method) (contender search.Method, budgetMS float64) {
	if at := strings.LastIndexByte(string(name), ' '); at > 0 {
		if budget, err := time.ParseDuration(string(name[at+1:])); err == nil {
			return name[:at], float64(budget) / float64(time.Millisecond)
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
}

// judged returns the cost of a valid record that curves compare, and what it is.
func (s *curves) judged(r *Record) (cost float64, judge string) {
	if s.predicted {
		return *r.CostMS, Predicted
	}
	return r.cost(), r.judge()
}

// point sums up the records of one contender, setting and budget, and sets the curve's judge.
func (s *curves) point(c *Curve, records []Record) Point {
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
	p := Point{Tasks: len(records), Solved: len(ratios), WallMS: quantile(walls, .5), CPUMS: quantile(cpus, .5)}
	if len(ratios) > 0 {
		interval := meanOf(ratios)
		p.Ratio = &interval
	}
	return p
}
