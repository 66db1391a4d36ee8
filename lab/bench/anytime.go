package bench

import (
	"fmt"
	"slices"
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
	BudgetMS float64 `json:"budget_ms"`
	Tasks    int     `json:"tasks"`
	Solved   int     `json:"solved"`
	// Ratio is the mean, over the solved tasks, of the cost to the least cost that any
	// contender reached with any budget; nil if none was solved.
	Ratio *Interval `json:"ratio"`
	// WallMS is the median of the times from the tables to the judged plan. A contender looks
	// at the clock between its steps, so it can exceed its budget.
	WallMS float64 `json:"wall_ms"`
}

// Curves sums up the records of Anytime(contenders, budgets), by setting and contender.
func Curves(records []Record, contenders []Contender, budgets []time.Duration) []Curve {
	least := map[string]float64{}
	var settings []string
	for i := range records {
		r := &records[i]
		if !slices.Contains(settings, r.Setting) {
			settings = append(settings, r.Setting)
		}
		if best, ok := least[r.Task]; r.Valid && (!ok || r.cost() < best) {
			least[r.Task] = r.cost()
		}
	}
	var all []Curve
	for _, setting := range settings {
		for _, c := range contenders {
			curve := Curve{Setting: setting, Contender: c.Name, Judge: Predicted}
			for i, timed := range Anytime([]Contender{c}, budgets) {
				own := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Setting != setting || r.Method != timed.Name })
				curve.Points = append(curve.Points, curve.point(own, least))
				curve.Points[i].BudgetMS = float64(budgets[i]) / float64(time.Millisecond)
			}
			all = append(all, curve)
		}
	}
	return all
}

// point sums up the records of one contender, setting and budget.
func (c *Curve) point(records []Record, least map[string]float64) Point {
	var ratios, walls []float64
	for i := range records {
		r := &records[i]
		walls = append(walls, r.WallMS)
		if !r.Valid {
			continue
		}
		ratios = append(ratios, r.cost()/least[r.Task])
		c.Judge = r.judge()
	}
	p := Point{Tasks: len(records), Solved: len(ratios), WallMS: quantile(walls, .5)}
	if len(ratios) > 0 {
		interval := meanOf(ratios)
		p.Ratio = &interval
	}
	return p
}
