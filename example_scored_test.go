package neuroshard_test

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// lookups is a cost model: a device's time is its number of looked-up values, in millions,
// and all devices exchange in no time.
type lookups struct {
	problem *problem.Problem
	// values has an entry for each item, which all Scorers share; items finds an item.
	values *[]float64
	items  map[[2]int]int
	held   [][]int
}

func newLookups(p *problem.Problem) (search.Factory, error) {
	values, items := new([]float64), map[[2]int]int{}
	return func() search.Scorer {
		return &lookups{p, values, items, make([][]int, p.Topology.Devices)}
	}, nil
}

func (l *lookups) Item(table, width int, _ problem.Form) int {
	key := [2]int{table, width}
	if i, ok := l.items[key]; ok {
		return i
	}
	looked := float64(l.problem.Batch) * l.problem.Tables[table].PoolingFactor() * float64(width)
	l.items[key] = len(*l.values)
	*l.values = append(*l.values, looked/1e6)
	return l.items[key]
}

func (l *lookups) Reset() { l.held = make([][]int, len(l.held)) }

func (l *lookups) Add(device, item int) { l.held[device] = append(l.held[device], item) }

func (l *lookups) Remove(device, item int) {
	held := l.held[device]
	for i := range held {
		if held[i] == item {
			held[i] = held[len(held)-1]
			l.held[device] = held[:len(held)-1]
			return
		}
	}
}

func (l *lookups) Compute(device int) float64 {
	sum := 0.0
	for _, item := range l.held[device] {
		sum += (*l.values)[item]
	}
	return sum
}

func (l *lookups) ComputeWith(item int, devices []int32, out []float64) {
	for i, d := range devices {
		out[i] = l.Compute(int(d)) + (*l.values)[item]
	}
}

func (l *lookups) Shared() float64 { return 0 }

func (l *lookups) Cost() float64 {
	longest := 0.0
	for d := range l.held {
		longest = max(longest, l.Compute(d))
	}
	return longest
}

// Scored plans with a cost model of the caller's own. Table finds a table in the plan.
func ExampleScored() {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		fmt.Println(err)
		return
	}
	p := problem.Problem{Batch: 1000, Topology: hardware.Topology{Profile: profile, Devices: 2}}
	for _, t := range []struct {
		name    string
		lookups float64
	}{{"user", 30}, {"item", 20}, {"shop", 10}} {
		p.Tables = append(p.Tables, problem.Table{
			Name: t.name, Rows: 1000, Dim: 16, Features: []problem.Feature{{Name: t.name, PoolingFactor: t.lookups}},
			Optimizer: problem.SGD, Constraint: problem.Constraint{NoSplit: true},
		})
	}
	result, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{Prices: neuroshard.Scored("lookups", newLookups)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("cost:", result.Plan.Predicted, "by", result.Plan.Provenance.Model)
	user, item, shop := result.Plan.Table("user"), result.Plan.Table("item"), result.Plan.Table("shop")
	fmt.Println("item and shop together:", item.Shards[0].Device == shop.Shards[0].Device)
	fmt.Println("user beside them:", user.Shards[0].Device == item.Shards[0].Device)
	fmt.Println("table ad:", result.Plan.Table("ad"))
	// Output:
	// cost: 0.480 ms by lookups
	// item and shop together: true
	// user beside them: false
	// table ad: <nil>
}
