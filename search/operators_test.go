package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// laned is a cost model in which operators have lanes: an operator takes a launch, and the
// lookups of its slices times the lanes of the widest of them. The slowest device is the cost.
type laned struct {
	p     *problem.Problem
	items *[]lanedItem
	held  []map[int]int // of each device, the number of each item
}

type lanedItem struct {
	table, width int
	form         problem.Form
}

const lanedLaunch = 40.0

func lanedFactory(p *problem.Problem) Factory {
	items := new([]lanedItem)
	return func() Scorer {
		s := &laned{p, items, make([]map[int]int, p.Topology.Devices)}
		s.Reset()
		return s
	}
}

func (s *laned) Numbered() bool { return true }

func (s *laned) Item(table, width int, form problem.Form) int {
	item := lanedItem{table, width, form}
	if i := slices.Index(*s.items, item); i >= 0 {
		return i
	}
	*s.items = append(*s.items, item)
	return len(*s.items) - 1
}

func (s *laned) Reset() {
	for d := range s.held {
		s.held[d] = map[int]int{}
	}
}

func (s *laned) Add(device, item int) { s.held[device][item]++ }

func (s *laned) Remove(device, item int) {
	if s.held[device][item]--; s.held[device][item] == 0 {
		delete(s.held[device], item)
	}
}

func (s *laned) Compute(device int) float64 {
	type operator struct{ lanes, work int }
	operators := map[problem.OperatorKey]operator{}
	for i, n := range s.held[device] {
		item := (*s.items)[i]
		key := s.p.OperatorKey(item.table, item.width, item.form)
		o := operators[key]
		lanes := s.p.Topology.Profile.Lanes(item.width)
		operators[key] = operator{max(o.lanes, lanes), o.work + n*int(s.p.Tables[item.table].PoolingFactor())}
	}
	total := 0.0
	for _, o := range operators {
		total += lanedLaunch + float64(o.lanes*o.work)
	}
	return total
}

func (s *laned) ComputeWith(item int, devices []int32, out []float64) {
	for i, d := range devices {
		s.Add(int(d), item)
		out[i] = s.Compute(int(d))
		s.Remove(int(d), item)
	}
}

func (s *laned) Cost() float64 {
	cost := 0.0
	for d := range s.held {
		cost = max(cost, s.Compute(d))
	}
	return cost
}

func (s *laned) Shared() float64 { return 0 }

// lanedProblem draws a tiny problem of two devices with tables of all lane classes.
func lanedProblem(draw *rand.Rand, dims []int) (*problem.Problem, *run) {
	p := handMade(1<<40, 2)
	for range 3 + draw.IntN(4) {
		p.Tables = append(p.Tables, problem.Table{
			Name: string(rune('A' + len(p.Tables))), Rows: 100, Dim: dims[draw.IntN(len(dims))],
			Features: []problem.Feature{{PoolingFactor: float64(1 + draw.IntN(12))}},
		})
	}
	r := newRun(context.Background(), p, lanedFactory(p), Options{Workers: 1, OnEvent: nil})
	return p, r
}

// TestNumberingAgainstBruteForce gives the tables of the plans of tiny problems all numbers that they can have. None are
// cheaper, but in one plan by at most 5 %. In a quarter of the plans or more, numbers save 5 %.
func TestNumberingAgainstBruteForce(t *testing.T) {
	const problems = 4
	best, pays := 0, 0
	for seed := range uint64(problems) {
		p, r := lanedProblem(rand.New(rand.NewPCG(seed, 1)), []int{8, 16, 48, 64, 128, 256})
		got := must.Get(Run(t.Context(), p, lanedFactory(p), Options{Workers: 1}))(t)
		var parts []placed
		for d, held := range got.Shards {
			for _, s := range held {
				parts = append(parts, placed{r.catalog.inForm(r.forms.whole[s.Table], s.Dim(), p.Form(s)), int32(d)})
			}
		}
		undivided, least := 0., math.Inf(1)
		var all func(table int)
		all = func(table int) {
			if table == len(p.Tables) {
				cost := r.offer(placement{}, parts).cost
				if math.IsInf(least, 1) {
					undivided = cost // all numbers are 0
				}
				least = min(least, cost)
				return
			}
			for number := range problem.Operator(problem.Operators) {
				for i, part := range parts {
					if int(r.catalog.pieces[part.piece].table) == table {
						parts[i].piece = r.catalog.numbered(part.piece, number)
					}
				}
				all(table + 1)
			}
		}
		all(0)
		if least < .95*undivided {
			pays++
		}
		switch {
		case got.Cost > 1.05*least:
			t.Errorf("seed %d: got cost %v, want at most 5 %% above %v", seed, got.Cost, least)
		case got.Cost <= least*(1+1e-9):
			best++
		}
	}
	t.Logf("%d of %d are the best, and in %d numbers save 5 %%", best, problems, pays)
	if pays < problems/4 {
		t.Errorf("numbers save 5 %% in %d problems, want at least a quarter of %d", pays, problems)
	}
	if best < problems-1 {
		t.Errorf("got the best numbers of %d problems, want at least %d of %d", best, problems-1, problems)
	}
}

// narrowBesideWide is a problem that a device with one wide table and many narrow ones makes
// cheaper by dividing its operator: one device only, so nothing else helps but cutting.
func narrowBesideWide() *problem.Problem {
	p := handMade(1<<40, 1)
	p.Tables = []problem.Table{{Name: "wide", Rows: 100, Dim: 256, Features: []problem.Feature{{PoolingFactor: 1}}, Constraint: problem.Constraint{NoSplit: true}}}
	for _, name := range []string{"a", "b", "c"} {
		p.Tables = append(p.Tables, problem.Table{Name: name, Rows: 100, Dim: 8, Features: []problem.Feature{{PoolingFactor: 10}}, Constraint: problem.Constraint{NoSplit: true}})
	}
	return p
}

// TestWhoDividesOperators runs the whole search where dividing pays, and where it is not
// allowed. The numbers are in the shards, and the cost is that of the divided operators.
func TestWhoDividesOperators(t *testing.T) {
	const one, divided = lanedLaunch + 32*31, 2*lanedLaunch + 32*1 + 8*30
	for _, c := range []struct {
		name   string
		change func(p *problem.Problem, opt *Options)
		want   float64
	}{
		{"default", func(*problem.Problem, *Options) {}, divided},
		{"budget of evaluations", func(_ *problem.Problem, opt *Options) { opt.MaxEvaluations = 20_000 }, divided},
		{"torchrec", func(p *problem.Problem, _ *Options) { p.Engine = problem.TorchRec }, divided},
		{"hugectr", func(p *problem.Problem, _ *Options) { p.Engine = problem.HugeCTR }, one},
		{"one operator", func(_ *problem.Problem, opt *Options) { opt.OneOperator = true }, one},
		{"columns only", func(_ *problem.Problem, opt *Options) { opt.ColumnsOnly = true }, one},
		{"lanes by table", func(p *problem.Problem, _ *Options) { p.LaneRule = problem.LanesByTable }, one},
		{"paper", func(_ *problem.Problem, opt *Options) { opt.Method = Paper }, one},
		{"a baseline", func(_ *problem.Problem, opt *Options) { opt.Method = Dim }, one},
	} {
		p, opt := narrowBesideWide(), Options{}
		c.change(p, &opt)
		got, err := Run(context.Background(), p, lanedFactory(p), opt)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Cost != c.want {
			t.Errorf("%s: got cost %v, want %v", c.name, got.Cost, c.want)
		}
		operators := map[problem.Operator]int{}
		for _, s := range got.Shards[0] {
			operators[s.Operator]++
		}
		want := map[problem.Operator]int{0: 4}
		if c.want == divided {
			want = map[problem.Operator]int{0: 3, 1: 1} // the lower number has more tables
		}
		if len(operators) != len(want) || operators[0] != want[0] {
			t.Errorf("%s: got tables by operator %v, want %v", c.name, operators, want)
		}
	}
}

// TestOperatorsKeepTheirTables runs whole searches of problems whose tables are cut: the
// shards of each table have one number, results do not depend on the workers, and no plan is
// more expensive than the one without numbers.
func TestOperatorsKeepTheirTables(t *testing.T) {
	for seed := range uint64(2) {
		p, _ := lanedProblem(rand.New(rand.NewPCG(seed, 3)), []int{8, 64, 256})
		p.Topology.Profile = hardware.Profiles()[0]
		if seed%2 == 1 {
			p.Engine = problem.TorchRec
		}
		var costs [3]float64
		var shards [3][][]problem.Shard
		for i, opt := range []Options{{OneOperator: true}, {Workers: 1, MaxEvaluations: 30_000}, {Workers: 3, MaxEvaluations: 30_000}} {
			got := must.Get(Run(context.Background(), p, lanedFactory(p), opt))(t)
			costs[i], shards[i] = got.Cost, got.Shards
		}
		if costs[1] > costs[0] || costs[1] != costs[2] {
			t.Errorf("seed %d: got costs %v with numbers, %v with three workers; want the same, and at most %v", seed, costs[1], costs[2], costs[0])
		}
		number := map[int]problem.Operator{}
		for d, held := range shards[1] {
			if !slices.Equal(held, shards[2][d]) {
				t.Errorf("seed %d: device %d holds other shards with three workers", seed, d)
			}
			for _, s := range held {
				if other, ok := number[s.Table]; ok && other != s.Operator {
					t.Errorf("seed %d: table %d has operators %d and %d", seed, s.Table, other, s.Operator)
				}
				number[s.Table] = s.Operator
			}
		}
	}
}
