//go:build release

package search_test

import (
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// TestThousandMemoryTight also counts the tasks without a plan that have none for
// certain.
func TestThousandMemoryTight(t *testing.T) {
	unsolved := memoryTight(t, 100, 10)
	open := 0
	for _, task := range unsolved {
		if !crowded(&task.Problem) && !hopeless(&task.Problem) {
			t.Logf("%s: no plan was found, and a plan may exist", task.Name)
			open++
		}
	}
	t.Logf("%d tasks without a plan, %d of them certainly without any", len(unsolved), len(unsolved)-open)
	if open > 10 {
		t.Errorf("got %d tasks without a plan that may have one, want at most 10", open)
	}
}

// hopeless reports whether it is certain that p has no placement. Give each table a
// price for its granules of columns, whatever it is, and find the most worth that a
// device can hold, a knapsack. If all tables are worth more than all devices can
// hold, there is no placement: the bound of linear programming, by Lagrange
// multipliers (Gilmore and Gomory, 1961). The prices are searched by subgradients,
// from what the tables take. Allowed devices are left out of account and bytes
// rounded down, which only make it easier to fit.
func hopeless(p *problem.Problem) bool {
	const steps = 200
	classes := classesOf(p)
	for step := range steps {
		held, value := knapsack(classes)
		worth := 0.0
		for i := range classes {
			worth += classes[i].price * classes[i].granules()
		}
		devices := float64(p.Topology.Devices)
		if worth > devices*value*(1+1e-9) {
			return true
		}
		for i := range classes {
			c := &classes[i]
			want := c.granules() / devices
			c.price *= 1 + .3/float64(step+2)*(want-held[i])/max(want, held[i])
		}
	}
	return false
}

// grains are what a device's bytes are counted in.
const grains = 4000

// class is tables that are alike.
type class struct {
	// sizes are the grains that a slice takes, by its width in granules; none where a
	// slice cannot be so wide.
	sizes []int
	count int
	price float64
}

const none = -1

func (c *class) granules() float64 { return float64(c.count * (len(c.sizes) - 1)) }

func classesOf(p *problem.Problem) (classes []class) {
	budget := int64(p.ShardBudget(0))
	index := map[string]int{}
	for _, g := range p.Colocations() {
		first := &p.Tables[g.Tables[0]]
		widths, least := first.Dim/4, first.MinWidth()/4
		bytes := func(width int) (sum int64) {
			for _, i := range g.Tables {
				s := p.Whole(i)
				if len(g.Tables) == 1 {
					s.Columns.End = int64(4 * width)
				}
				sum += int64(p.ShardMemory(s).Tables())
			}
			return sum
		}
		sizes := make([]int, widths+1)
		for w := range sizes {
			sizes[w] = none
			if w == widths || w >= least && widths-w >= least {
				sizes[w] = int(bytes(w) * grains / budget)
			}
		}
		key := fmt.Sprint(sizes)
		if at, ok := index[key]; ok {
			classes[at].count++
			continue
		}
		index[key] = len(classes)
		classes = append(classes, class{sizes, 1, float64(bytes(widths)) / float64(widths)})
	}
	return classes
}

// knapsack returns the most worth that a device can hold, and the granules of each
// class that it then holds.
func knapsack(classes []class) (held []float64, value float64) {
	type item struct {
		class  int
		chosen []int // the width, by the grains there are
	}
	var items []item
	values := make([]float64, grains+1)
	for i := range classes {
		c := &classes[i]
		for range c.count {
			chosen := make([]int, grains+1)
			for u := grains; u >= 0; u-- {
				best := values[u]
				for w, s := range c.sizes {
					if s != none && s <= u && values[u-s]+c.price*float64(w) > best {
						best, chosen[u] = values[u-s]+c.price*float64(w), w
					}
				}
				values[u] = best
			}
			items = append(items, item{i, chosen})
		}
	}
	held = make([]float64, len(classes))
	u := grains
	for i := len(items) - 1; i >= 0; i-- {
		if w := items[i].chosen[u]; w > 0 {
			u -= classes[items[i].class].sizes[w]
			held[items[i].class] += float64(w)
		}
	}
	return held, values[grains]
}

// crowded reports whether some table has no slice that fits a device, or all take
// more than there is in the fewest slices that do.
func crowded(p *problem.Problem) bool {
	budget, total := int64(p.ShardBudget(0)), int64(0)
	for i := range p.Tables {
		bytes := func(width int) int64 {
			s := p.Whole(i)
			s.Columns.End = int64(width)
			return int64(p.ShardMemory(s).Tables())
		}
		dim := p.Tables[i].Dim
		widest := dim
		for widest > 4 && bytes(widest) > budget {
			widest -= 4
		}
		if bytes(p.Tables[i].MinWidth()) > budget {
			return true
		}
		for left := dim; left > 0; left -= widest {
			total += bytes(min(left, widest))
		}
	}
	return total > budget*int64(p.Topology.Devices)
}
