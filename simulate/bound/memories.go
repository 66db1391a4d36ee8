package bound

import (
	"cmp"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// memories.go divides devices that differ in memory into memory classes:
//
//	device        0      1      2      3
//	may hold      10 GB  70 GB  34 GB  70 GB
//	class         2      0      1      0
//
// Each class has modes of its own, in which the budget of bytes is that of the class. A device
// is in one of the modes of its class. So the argument of the package comment holds with more
// modes: the shares of a device add up to at most 1 with the device's own budget, and all slices
// together are worth at most the sum, over the classes, of the highest worth of the devices of a
// class in its modes. The cheapest way of a table is found over the modes of all classes.
//
// If there are more than mostMemories budgets, classes of close budgets are joined, and the largest
// budget of a class counts for all its devices: a larger budget allows more placements, so the bound
// stays a bound. A device whose budget is not above 0 holds no
// slice and is in no class.

// memoryClass is devices that count as having one budget of bytes.
type memoryClass struct {
	devices int
	budget  float64
	// guest is the number of the guest whose slices the devices hold, from 1; 0 means none (guests.go).
	guest int
}

// counted is the phase of the step whose bytes the bound counts. A plan exceeds the memory in no phase, so that of
// any phase makes a bound; in this one most problems hold the most.
const counted = problem.ForwardExchange

// budgetsOf returns the bytes that the shards of the given devices may take.
func budgetsOf(p *problem.Problem, devices ...int) []float64 {
	t, budgets := &p.Topology, make([]float64, len(devices))
	largest := p.LargestBudget()[counted]
	for i, d := range devices {
		budgets[i] = float64(largest + t.Usable(d) - t.Usable(t.Largest()))
	}
	return budgets
}

// largestBudget returns that of the device with the most memory.
func largestBudget(p *problem.Problem) float64 { return float64(p.LargestBudget()[counted]) }

// bytesOf returns the bytes of HBM of a shard.
func bytesOf(p *problem.Problem, s problem.Shard) float64 {
	return float64(p.ShardMemory(s)[counted].Used())
}

// mostMemories is the most memory classes.
const mostMemories = 4

// memoriesOf returns the memory classes of the given devices, from the largest budget; none if the
// cluster's devices do not differ in memory.
func memoriesOf(p *problem.Problem, devices []int) (all []memoryClass) {
	if !p.Topology.UnevenMemory() {
		return nil
	}
	for _, budget := range budgetsOf(p, devices...) {
		if budget > 0 {
			all = append(all, memoryClass{devices: 1, budget: budget})
		}
	}
	slices.SortFunc(all, func(a, b memoryClass) int { return cmp.Compare(b.budget, a.budget) })
	join := func(i int) { // the class after class i is joined to it
		all[i].devices += all[i+1].devices
		all = slices.Delete(all, i+1, i+2)
	}
	for i := len(all) - 2; i >= 0; i-- {
		if all[i].budget == all[i+1].budget {
			join(i)
		}
	}
	for len(all) > mostMemories {
		least, at := math.Inf(1), 0
		for i := range len(all) - 1 {
			if gained := (all[i].budget - all[i+1].budget) * float64(all[i+1].devices); gained < least {
				least, at = gained, i
			}
		}
		join(at)
	}
	return all
}

// everyDevice returns the numbers of all devices of the cluster.
func everyDevice(p *problem.Problem) []int {
	all := make([]int, p.Topology.Devices)
	for d := range all {
		all[d] = d
	}
	return all
}

// shortOf returns by how much the mean budget of the devices is less than the largest one.
func shortOf(p *problem.Problem) float64 {
	sum, largest := 0.0, largestBudget(p)
	for _, budget := range budgetsOf(p, everyDevice(p)...) {
		sum += max(budget, 0)
	}
	return max(largest-sum/float64(p.Topology.Devices), 0)
}

// byMemory returns the tables of r with modes for each of the memory classes; nil if the classes say
// no more than that all devices have the budget of r.
func byMemory(r *relaxation, memories []memoryClass) *relaxation {
	if len(memories) == 0 || len(memories) == 1 && memories[0] == r.memories[0] {
		return nil
	}
	u := &relaxation{devices: r.devices, tables: r.tables, lanes: r.lanes, budget: memories[0].budget, memories: memories}
	u.addModes(r.divided)
	return u
}
