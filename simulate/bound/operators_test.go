package bound

import (
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// hotProblem returns drawn tables, and lookups of the first two are many more than of the others.
func hotProblem(random *rand.Rand, devices int) *problem.Problem {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: profile, Devices: devices, ReserveShare: hardware.NoReserve}}
	for i := range 12 {
		t := problem.Table{
			Name: string(rune('a' + i)), Dim: 4 * (1 + random.IntN(16)), Rows: 1000 + random.Int64N(20_000_000),
			Optimizer: problem.SGD, Features: []problem.Feature{{PoolingFactor: 1 + 3*random.Float64()}},
		}
		if i < 2 {
			t.Features[0].PoolingFactor = 60 + 100*random.Float64()
		}
		p.Tables = append(p.Tables, t)
	}
	return p
}

// A device has at least the number of operators that its loads say, and takes at least its
// times with the fixed times of launches.
func TestOperatorsOfADevice(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		p := hotProblem(random, 4)
		judge := simulate.NewPricer(p)
		r := newRelaxation(p, judge, 4, Allowed{Operators: true})
		several := &r.modes[len(r.modes)-1]
		var held []problem.Shard
		loads := make([]load, len(r.operators))
		var rowsOf, widest [problem.Operators]float64
		numbers := make([]problem.Operator, len(p.Tables))
		columnsOf, used := 0.0, map[problem.Operator]bool{}
		for i := range p.Tables {
			s := p.Whole(i)
			s.Columns.End = 4 * (1 + random.Int64N(s.Columns.End/4))
			s.Operator = problem.Operator(random.IntN(problem.Operators))
			numbers[i], used[s.Operator] = s.Operator, true
			rowsOf[s.Operator] += float64(s.Rows.Len())
			widest[s.Operator] = max(widest[s.Operator], float64(s.Columns.End/4))
			columnsOf += float64(s.Columns.End)
			held = append(held, s)
		}
		if len(used) < 2 {
			continue
		}
		// Each slice is in the operator of its number's lane class and passes.
		for i := range r.tables {
			g, n := &r.tables[i], numbers[r.tables[i].index]
			for j := several.first; j < several.end; j++ {
				o := &r.operators[j]
				if o.passes == sortPasses(rowsOf[n]) && float64(o.widest) >= widest[n] && (o.lanes == 0 || float64(r.lanes[0][o.lanes-1].widest) < widest[n]) {
					l := g.load(&g.slices[held[g.index].Columns.End/4-1], o)
					accumulate(&loads[j], &l, 1)
				}
			}
		}
		least, time := 0.0, 0.0
		for j := several.first; j < several.end; j++ {
			o := &r.operators[j]
			least += several.numberOf(o, &loads[j], columnsOf)
			time += o.time(&loads[j], loads[j].sizes())
		}
		if least > float64(len(used)) {
			t.Fatalf("got at least %v operators, want at most %d", least, len(used))
		}
		forward, backward := judge.GroupCost(held)
		longest := float64(forward+backward) - fixedMS
		for _, u := range []float64{longest, max(longest, shortMS)} {
			each, more := several.launches(u)
			if got := time + each*least - more; got > u*(1+rounding) {
				t.Fatalf("got at least %v ms, want at most %v", got, u)
			}
		}
	}
}
