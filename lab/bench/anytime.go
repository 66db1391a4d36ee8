package bench

import (
	"fmt"
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

// Curves sums up the records of a comparison with Options.Budgets, by setting and contender.
func Curves(records []Record, opt Options) []Curve {
	judged := func(r *Record) (cost float64, judge string) {
		if opt.Predicted {
			return *r.CostMS, Predicted
		}
		return r.judged()
	}
	least := map[string]float64{}
	var settings []string
	for i := range records {
		r := &records[i]
		settings = added(settings, r.Setting)
		if !r.Valid {
			continue
		}
		cost, _ := judged(r)
		if best, ok := least[r.Task]; !ok || cost < best {
			least[r.Task] = cost
		}
	}
	var all []Curve
	for _, setting := range settings {
		for _, c := range opt.contenders() {
			curve := Curve{Setting: setting, Contender: c.Name, Judge: Predicted}
			for i, limited := range Anytime([]Contender{c}, opt.Budgets) {
				p := Point{BudgetMS: float64(opt.Budgets[i]) / float64(time.Millisecond)}
				var ratios, walls, cpus []float64
				for k := range records {
					r := &records[k]
					if r.Setting != setting || r.Method != limited.Name {
						continue
					}
					walls, cpus = append(walls, r.WallMS), append(cpus, r.CPUMS)
					if r.Valid {
						cost, judge := judged(r)
						curve.Judge, ratios = judge, append(ratios, cost/least[r.Task])
					}
				}
				p.Tasks, p.Solved, p.WallMS, p.CPUMS = len(walls), len(ratios), quantile(walls, .5), quantile(cpus, .5)
				if len(ratios) > 0 {
					interval := meanOf(ratios)
					p.Ratio = &interval
				}
				curve.Points = append(curve.Points, p)
			}
			all = append(all, curve)
		}
	}
	return all
}
