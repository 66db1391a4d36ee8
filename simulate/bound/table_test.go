package bound

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"pgregory.net/rapid"
)

// drawOperator draws tables of one operator on one device of any profile.
func drawOperator(t *rapid.T) *problem.Problem {
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: rapid.SampledFrom(hardware.Profiles()).Draw(t, "profile"), Devices: 1, ReserveShare: hardware.NoReserve},
		Batch:    rapid.SampledFrom([]int{1, 512, 8192, 65536, 1 << 18}).Draw(t, "batch"),
		LaneRule: problem.LaneRule(rapid.IntRange(0, 1).Draw(t, "lane rule")),
	}
	like := problem.Table{
		Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
		Precision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision")),
		Weighted:  rapid.Bool().Draw(t, "weighted"),
	}
	bags := []float64{0, 0, 0.02, 3, 40.5}
	if !like.Weighted && rapid.IntRange(0, 2).Draw(t, "sequences") == 0 {
		like.Pooling, bags = problem.PoolingNone, []float64{0}
	}
	for range rapid.IntRange(1, 6).Draw(t, "tables") {
		table := like
		table.Rows = int64(math.Exp(rapid.Float64Range(0, 20).Draw(t, "ln rows")))
		table.Dim = 4 * rapid.IntRange(1, rapid.SampledFrom([]int{20, 80, 300}).Draw(t, "widest")).Draw(t, "granules")
		for range rapid.IntRange(1, 3).Draw(t, "features") {
			table.Features = append(table.Features, problem.Feature{
				PoolingFactor: math.Exp(rapid.Float64Range(-4, 5).Draw(t, "ln pooling")),
				LengthCV:      rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(t, "length cv"),
				Bags:          rapid.SampledFrom(bags).Draw(t, "bags"),
			})
		}
		table.Access = access.Distribution{Kind: access.Zipf, Exponent: rapid.Float64Range(0.1, 2).Draw(t, "exponent")}
		p.Tables = append(p.Tables, table)
	}
	return p
}

// columnsOf returns the shard of the first granules of table i.
func columnsOf(p *problem.Problem, i, granules int) problem.Shard {
	s := p.Whole(i)
	s.Columns.End = int64(granules * problem.ColumnGranule)
	return s
}

// A slice alone takes the time of the simulated device, in the narrowest lane class in
// which it may run.
func TestSlicesAloneAreThoseOfTheSimulatedDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawOperator(t)
		pricer, d := simulate.NewPricer(p), deviceOf(p)
		for i := range p.Tables {
			lanes := classesOf(p)
			table := newTable(&d, p, i, pricer.Counts(i), lanes)
			for g := 1; g <= p.Tables[i].Dim/problem.ColumnGranule; g++ {
				forward, backward := pricer.GroupCost([]problem.Shard{columnsOf(p, i, g)})
				want := float64(forward + backward)
				got := fixedMS + table.slices[min(g, len(table.slices))-1].alone[lanesOf(lanes, g)]
				if got > want*(1+1e-12) || g <= maxGranules && got < want*(1-1e-7) {
					t.Fatalf("table %d, %d granules: got %v ms, want %v", i, g, got, want)
				}
			}
		}
	})
}

// The loads of slices give the time of their group if the cache serves one table at a
// time, and at most that time otherwise.
func TestLoadsAddUpToTheSimulatedDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawOperator(t)
		pricer, d := simulate.NewPricer(p), deviceOf(p)
		lanes := classesOf(p)
		var group []problem.Shard
		var tables []table
		var slices []int
		most, total := 0, 0.0
		for i := range p.Tables {
			g := rapid.IntRange(1, min(maxGranules, p.Tables[i].Dim/problem.ColumnGranule)).Draw(t, "slice")
			group = append(group, columnsOf(p, i, g))
			tables, slices = append(tables, newTable(&d, p, i, pricer.Counts(i), lanes)), append(slices, g)
			most = max(most, g)
			total += float64(p.Tables[i].Rows)
		}
		k := operator{lanes: lanesOf(lanes, most), passes: sortPasses(total), forwards: lanes[0].forwards}
		var sum load
		for i := range tables {
			l := tables[i].load(&tables[i].slices[slices[i]-1], &k)
			accumulate(&sum, &l, 1)
		}
		if got, want := sum[bytes], memoryOf(p, group); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("bytes: got %v, want %v", got, want)
		}
		forward, backward := pricer.GroupCost(group)
		got, want := fixedMS+k.time(&sum, sum.sizes()), float64(forward+backward)
		if got > want*(1+1e-12) {
			t.Fatalf("got %v ms, want at most %v", got, want)
		}
		profile := &p.Topology.Profile
		bags := float64(profile.SMs) * 45 * float64(profile.Lanes(math.MaxInt)/profile.Lanes(problem.ColumnGranule))
		if bags <= float64(p.Batch) && got < want*(1-1e-7) {
			t.Fatalf("one table in flight: got %v ms, want %v", got, want)
		}
	})
}

// classesOf returns the lane classes of a problem with one operation.
func classesOf(p *problem.Problem) []laneClass {
	widest := 0
	for i := range p.Tables {
		widest = max(widest, p.Tables[i].Dim/problem.ColumnGranule)
	}
	return laneClassesOf(p.Topology.Profile, p.Operation(0), widest)
}

// lanesOf returns the lane class of operators whose widest slice has the given granules.
func lanesOf(lanes []laneClass, granules int) int {
	l := 0
	for granules > lanes[l].widest {
		l++
	}
	return l
}

func memoryOf(p *problem.Problem, shards []problem.Shard) float64 {
	sum := 0.0
	for _, s := range shards {
		sum += float64(p.ShardMemory(s)[problem.ForwardExchange].Used())
	}
	return sum
}

// No cut is cheaper than the cheapest one, at any prices.
func TestChooseIsTheCheapestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawOperator(t)
		p.Tables = p.Tables[:1]
		p.Tables[0].Dim = 4 * rapid.IntRange(1, 90).Draw(t, "dim")
		p.Tables[0].Constraint.MinWidth = 4 * rapid.IntRange(0, 20).Draw(t, "least width")
		r := newRelaxation(p, simulate.NewPricer(p), p.Topology.Devices, Allowed{Operators: rapid.Bool().Draw(t, "operators")})
		for k := range r.open {
			r.open[k] = true
		}
		for k := range r.operators {
			for j := range r.prices[k] {
				r.prices[k][j] = rapid.Float64Range(0, 1).Draw(t, "price")
			}
			// About the size of milliseconds.
			r.prices[k][rows] /= float64(p.Tables[0].Rows)
			r.prices[k][bytes] /= memoryOf(p, []problem.Shard{p.Whole(0)})
		}
		r.longest = math.Inf(1)
		table := &r.tables[0]
		got := r.choose(table)
		// A random cut, each slice in its cheapest mode.
		cost, left := 0.0, table.granules
		d, pricer := deviceOf(p), simulate.NewPricer(p)
		w := newWidths(&d, p, 0, pricer.Counts(0), classesOf(p))
		for left > 0 {
			g := left
			if left >= 2*table.least {
				g = rapid.IntRange(table.least, left-table.least).Draw(t, "slice")
			}
			left -= g
			s, least := w.slice(g), math.Inf(1)
			for k := range r.operators {
				if g > r.operators[k].widest {
					continue
				}
				price, l := 0.0, table.load(&s, &r.operators[k])
				for j := range l {
					price += l[j] * r.prices[k][j]
				}
				least = min(least, price)
			}
			cost += least
		}
		if got > cost*(1+1e-9) {
			t.Fatalf("got %v, want at most %v", got, cost)
		}
	})
}

// deviceOf returns the simulated device of a problem.
func deviceOf(p *problem.Problem) simulate.Device {
	return simulate.NewDevice(p.Topology.Profile)
}
