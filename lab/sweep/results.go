package sweep

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
)

// Mark is what is said of a cell beside others.
type Mark string

// The marks. Cells are compared with cells of the same scale only: with tables of another scale
// they are another model.
const (
	// Fastest marks the cell with the most samples a second, and AsFast the cells that are not
	// slower by more than the error bar.
	Fastest Mark = "fastest"
	AsFast  Mark = "as fast"
	// Cheapest marks the cell with the lowest price of samples, and AsCheap the cells that are
	// not more expensive by more than the error bar.
	Cheapest Mark = "cheapest"
	AsCheap  Mark = "as cheap"
	// Knee marks the last number of devices that doubling still paid for: up to there, twice
	// the devices give at least KneeGain times the samples a second, and the next number of
	// devices gives less. Cells are compared with those that differ in the devices alone.
	Knee Mark = "knee"
)

// KneeGain is how much faster twice the devices must be.
const KneeGain = 1.5

// By is what a sweep is for.
type By string

// The aims.
const (
	BySpeed By = "speed"
	ByCost  By = "cost"
)

// Results are the outcomes of a sweep with marks.
type Results struct {
	File
	// Marks are those of each outcome.
	Marks [][]Mark
	// Order holds the positions of the outcomes in the order in which they are listed: by cell,
	// or by speed or price, with the cells without a plan, or without a price, at the end.
	Order []int
}

// NewResults marks the outcomes. by may be empty.
func NewResults(file File, by By) *Results {
	r := &Results{File: file, Marks: make([][]Mark, len(file.Outcomes)), Order: make([]int, len(file.Outcomes))}
	for i := range r.Order {
		r.Order[i] = i
	}
	for _, cells := range r.divided(func(o *Outcome) any { return o.Scale }) {
		r.best(cells, Fastest, AsFast, func(p *Planned) float64 { return 1 / p.SamplesPerSecond })
		r.best(cells, Cheapest, AsCheap, func(p *Planned) float64 { return p.PricePerBillion })
	}
	for _, cells := range r.divided(r.series) {
		r.knee(cells)
	}
	if by != "" {
		slices.SortStableFunc(r.Order, func(a, b int) int {
			return cmp.Compare(r.value(a, by), r.value(b, by))
		})
	}
	return r
}

// value returns what outcomes are ordered by: less is better.
func (r *Results) value(i int, by By) float64 {
	p := r.Outcomes[i].Plan
	switch {
	case p == nil:
		return math.Inf(1)
	case by == BySpeed:
		return 1 / p.SamplesPerSecond
	case p.PricePerBillion == 0:
		return math.MaxFloat64
	}
	return p.PricePerBillion
}

// divided returns the positions of the outcomes with plans, those of equal keys together, in the
// order of the first of each key.
func (r *Results) divided(key func(o *Outcome) any) [][]int {
	var all [][]int
	at := map[any]int{}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Plan == nil {
			continue
		}
		k := key(o)
		if _, ok := at[k]; !ok {
			at[k] = len(all)
			all = append(all, nil)
		}
		all[at[k]] = append(all[at[k]], i)
	}
	return all
}

// series returns a key that is equal for cells that differ in the number of devices alone: that
// axis changes first.
func (r *Results) series(o *Outcome) any {
	if n := len(r.Axes); n > 0 && r.Axes[n-1].Name == axisDevices {
		return (o.Number - 1) / len(r.Axes[n-1].Values)
	}
	return o.Number
}

// best marks the cell of the least value, and those that differ from it by less than the error
// bar of either. A value of 0 is not known.
func (r *Results) best(cells []int, best, tie Mark, value func(p *Planned) float64) {
	first := -1
	for _, i := range cells {
		if v := value(r.Outcomes[i].Plan); v > 0 && (first < 0 || v < value(r.Outcomes[first].Plan)) {
			first = i
		}
	}
	if first < 0 {
		return
	}
	least := r.Outcomes[first].Plan
	for _, i := range cells {
		p := r.Outcomes[i].Plan
		switch bar := math.Max(p.ErrorPercent, least.ErrorPercent) / 100; {
		case i == first:
			r.Marks[i] = append(r.Marks[i], best)
		case value(p) > 0 && value(p) <= value(least)*(1+bar):
			r.Marks[i] = append(r.Marks[i], tie)
		}
	}
}

// knee marks the knee of cells that differ in the number of devices alone. If two neighbouring
// numbers of devices are not 1 : 2, the gain of a doubling is the one that, repeated, gives
// theirs.
func (r *Results) knee(cells []int) {
	slices.SortFunc(cells, func(a, b int) int { return r.Outcomes[a].Devices - r.Outcomes[b].Devices })
	for at := 1; at < len(cells); at++ {
		before, now := &r.Outcomes[cells[at-1]], &r.Outcomes[cells[at]]
		doublings := math.Log2(float64(now.Devices) / float64(before.Devices))
		if gain := now.Plan.SamplesPerSecond / before.Plan.SamplesPerSecond; math.Pow(gain, 1/doublings) < KneeGain {
			r.Marks[cells[at-1]] = append(r.Marks[cells[at-1]], Knee)
			return
		}
	}
}

// Varying returns the axes with more than one value.
func (h *Head) Varying() []Axis {
	return slices.DeleteFunc(slices.Clone(h.Axes), func(x Axis) bool { return len(x.Values) < 2 })
}

// Judge says what the times of the sweep come from.
func (r *Results) Judge() string {
	for i := range r.Outcomes {
		if p := r.Outcomes[i].Plan; p != nil && p.Simulated == 0 && !p.Whole {
			return "predicted"
		}
	}
	return "SIMULATED"
}

// MarshalJSON writes the results as one object: the head as in the file of the sweep, complete
// (false if cells of the part are missing), and outcomes, in the order in which they are listed:
// those of the file with marks.
func (r *Results) MarshalJSON() ([]byte, error) {
	type listed struct {
		Outcome
		Marks []Mark `json:"marks"`
	}
	cells := make([]listed, len(r.Order))
	for at, i := range r.Order {
		cells[at] = listed{r.Outcomes[i], append([]Mark{}, r.Marks[i]...)}
	}
	return json.Marshal(struct {
		Head
		Complete bool     `json:"complete"`
		Outcomes []listed `json:"outcomes"`
	}{r.Head, r.Missing() == 0, cells})
}
