package cost_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// held is a slice on a device.
type held struct{ device, slice int }

// Tables without lookups take no time and do not widen the lanes of the narrow
// tables beside them; but their pooled vectors, of zeros, are exchanged.
func TestTablesWithoutLookups(t *testing.T) {
	model, _ := load(t)
	one := []problem.Feature{{PoolingFactor: 20}}
	p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 65536, Tables: []problem.Table{
		{Name: "narrow", Rows: 1e5, Dim: 16, Features: one},
		{Name: "unread", Rows: 1e5, Dim: 128, Features: []problem.Feature{{PoolingFactor: 0}}},
		{Name: "wide", Rows: 1e5, Dim: 128, Features: one},
	}}
	estimates := newEstimates(t, model, p)
	s := estimates.NewScorer(0)
	narrow, unread, wide := s.Item(0, 16, problem.Form{}), s.Item(1, 128, problem.Form{}), s.Item(2, 128, problem.Form{})
	s.Add(1, unread)
	if got := s.Compute(1); got != 0 {
		t.Errorf("a table without lookups alone: got %v ms, want 0", got)
	}
	s.Add(0, narrow)
	want := s.Compute(0)
	before := s.Cost()
	var with [1]float64
	s.ComputeWith(unread, []int32{0}, with[:])
	if with[0] != want {
		t.Errorf("with a table without lookups: got %v ms, want %v", with[0], want)
	}
	s.Add(0, unread)
	if got := s.Compute(0); got != want {
		t.Errorf("beside a table without lookups: got %v ms, want %v", got, want)
	}
	if got := s.Cost(); !(got > before) {
		t.Errorf("128 more columns to exchange: got cost %v, want above %v", got, before)
	}
	// The lanes do count where the wide table is read: the two together take more
	// than the narrow one at its own lanes and the wide one.
	s.Reset()
	s.Add(0, wide)
	alone := s.Compute(0)
	s.Add(0, narrow)
	if got := s.Compute(0); !(got > alone) {
		t.Errorf("a narrow table beside a wide one: got %v ms, want above the wide one's %v", got, alone)
	}
}

// Only the lane classes that a problem's operators can have are computed. Whatever its
// widest tables, lane rule, warps and modules: the times are Group's.
func TestPriceAgreesWithGroupInEveryLaneClass(t *testing.T) {
	shipped, _ := load(t)
	ensemble, _ := three(t)
	file := must.Get(pretrained.File("mi300x"))(t)
	for name, model := range map[string]*cost.Model{profileName: shipped, "an ensemble": ensemble, "mi300x": must.Get(cost.Load(file))(t)} {
		for _, widest := range []int{16, 128, 2048} {
			for _, rule := range []problem.LaneRule{problem.LanesByWidest, problem.LanesByTable} {
				for _, engine := range []problem.Engine{"", problem.TorchRec} {
					p := mixed(t, uint64(widest), 30, 4, 0, false)
					p.LaneRule, p.Engine, p.Topology.Profile = rule, engine, model.Hardware()
					for i := range p.Tables {
						// Equal tables in modules of narrow and of wide tables share embeddings.
						twin := &p.Tables[i]
						if i%2 == 1 {
							was := twin.Name
							*twin = p.Tables[i-1]
							twin.Name = was
						}
						twin.Optimizer, twin.Module = problem.Optimizer(i/2%2), fmt.Sprint(i%2)
						twin.Dim = min(twin.Dim, widest)
					}
					p.Tables[29].Dim = widest
					shards := placement(p, rand.New(rand.NewPCG(uint64(widest), 3)))
					for d, device := range newEstimates(t, model, p).Price(shards).Devices {
						forward, backward := group(model, p, shards[d])
						if !near(float64(device.Forward), forward, 1e-4) || !near(float64(device.Backward), backward, 1e-4) {
							t.Errorf("%s, up to %d columns, lanes %v, engine %q, device %d: got %v and %v, want %v and %v",
								name, widest, rule, engine, d, float64(device.Forward), float64(device.Backward), forward, backward)
						}
					}
				}
			}
		}
	}
}

// Slices of different numbers are in different operators: each number has a launch and
// lanes of its own, in each class, also where the first slice of a number is registered
// while others are placed. Breakdown and Price say the same as Compute.
func TestOperatorsOfNumbersAddUp(t *testing.T) {
	model, _ := load(t)
	one := []problem.Feature{{PoolingFactor: 20}}
	p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 65536, Tables: []problem.Table{
		{Name: "narrow", Rows: 1e6, Dim: 16, Features: one},
		{Name: "wide", Rows: 1e6, Dim: 128, Features: one},
		{Name: "adam", Rows: 1e6, Dim: 64, Features: one, Optimizer: problem.Adam},
	}}
	p.Topology.HostMemory = unit.TiB
	for _, form := range []problem.Form{{}, {Tier: problem.Host}, {ShardingType: problem.RowWise}} {
		estimates := newEstimates(t, model, p)
		s := estimates.NewScorer(0)
		in := func(table int, number problem.Operator) int {
			f := form
			f.Operator = number
			return s.Item(table, p.Tables[table].Dim, f)
		}
		operators := func() float64 { return s.Compute(0) + s.Shared() }
		alone := func(table int) float64 {
			s.Reset()
			s.Add(0, in(table, 0))
			return operators() - exchanges(p, s, form)
		}
		narrow, wide, adam := alone(0), alone(1), alone(2)
		s.Reset()
		s.Add(0, in(1, 0))
		s.Add(0, in(2, 0))
		for number := problem.Operator(1); number < problem.Operators; number++ {
			var with [1]float64
			item := in(0, number)
			s.ComputeWith(item, []int32{0}, with[:])
			s.Add(0, item)
			if got := s.Compute(0); got != with[0] {
				t.Errorf("%+v, number %d: got %v ms after adding, want %v as with it", form, number, got, with[0])
			}
			if got := operators() - exchanges(p, s, form); !near(got, narrow+wide+adam, 1e-9) {
				t.Errorf("%+v, number %d: got %v ms, want %v + %v + %v", form, number, got, narrow, wide, adam)
			}
			s.Remove(0, item)
		}
		s.Add(0, in(0, 0))
		if got := operators() - exchanges(p, s, form); near(got, narrow+wide+adam, 1e-5) {
			t.Errorf("%+v: got %v ms fused, want another time than the sum of the operators", form, got)
		}
		s.Remove(0, in(0, 0))
		s.Add(0, in(0, 2))
		b := s.Breakdown().Devices[0]
		if got, want := float64(b.Forward+b.Backward), operators()-exchanges(p, s, form); !near(got, want, 1e-9) {
			t.Errorf("%+v: got %v ms forward and backward in the breakdown, want %v", form, got, want)
		}
	}
}

// exchanges returns the part of Shared that is exchanges: all exchanges of Breakdown except
// the all-to-alls of slices on single devices. If devices hold the form together, there are
// no such slices.
func exchanges(p *problem.Problem, s *cost.Scorer, form problem.Form) float64 {
	if form.ShardingType == "" || p.Topology.Devices == 1 {
		return 0
	}
	d := s.Breakdown().Devices[0]
	return float64(d.ForwardComm + d.BackwardComm)
}

// A table of 256 columns cut as finely as can be, all on one device: the sums
// are the largest that can come up, and must not wrap around.
func TestFinestSlicesDoNotOverflow(t *testing.T) {
	model, _ := load(t)
	for _, pooling := range []float64{1, 20, 300} {
		for o := problem.SGD; o <= problem.Adam; o++ {
			p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 65536, Tables: []problem.Table{{
				Name: "t", Rows: 1e7, Dim: 256, Features: []problem.Feature{{PoolingFactor: pooling}}, Optimizer: o,
				Access: access.Distribution{Kind: access.Uniform},
			}}}
			shards := make([][]problem.Shard, 2)
			for c := int64(0); c < 256; c += 4 {
				s := p.Whole(0)
				s.Columns = problem.Range{Start: c, End: c + 4}
				shards[1] = append(shards[1], s)
			}
			device := newEstimates(t, model, p).Price(shards).Devices[1]
			forward, backward := group(model, p, shards[1])
			if !near(float64(device.Forward), forward, 1e-4) || !near(float64(device.Backward), backward, 1e-4) {
				t.Errorf("pooling %v, %v: got %v and %v, want %v and %v", pooling, o, float64(device.Forward), float64(device.Backward), forward, backward)
			}
		}
	}
}

// Tables alike but in name share their vectors; those that differ in anything
// that costs time do not.
func TestAlikeTables(t *testing.T) {
	model, _ := load(t)
	base := problem.Table{Rows: 1e6, Dim: 64, Features: []problem.Feature{{PoolingFactor: 20}}, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.1}}
	for _, c := range []struct {
		name   string
		change func(*problem.Table)
		alike  bool
	}{
		{"constraint", func(t *problem.Table) { t.Constraint.NoSplit = true }, true},
		{"feature name", func(t *problem.Table) { t.Features = []problem.Feature{{Name: "f", PoolingFactor: 20}} }, true},
		{"rows", func(t *problem.Table) { t.Rows *= 2 }, false},
		{"spread of lengths", func(t *problem.Table) { t.Features = []problem.Feature{{PoolingFactor: 20, LengthCV: 1}} }, false},
		{"pooling", func(t *problem.Table) { t.Features = []problem.Feature{{PoolingFactor: 21}} }, false},
		{"features", func(t *problem.Table) { t.Features = []problem.Feature{{PoolingFactor: 10}, {PoolingFactor: 10}} }, false},
		{"access", func(t *problem.Table) { t.Access.Exponent = 1.2 }, false},
		{"optimizer", func(t *problem.Table) { t.Optimizer = problem.Adam }, false},
		{"precision", func(t *problem.Table) { t.Precision = problem.FP16 }, false},
		{"weighted", func(t *problem.Table) { t.Weighted = true }, false},
	} {
		first, second := base, base
		first.Name, second.Name = "first", "second"
		c.change(&second)
		p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 65536, Tables: []problem.Table{first, second}}
		s := newEstimates(t, model, p).NewScorer(0)
		s.Add(0, s.Item(0, 64, problem.Form{}))
		s.Add(1, s.Item(1, 64, problem.Form{}))
		if got := s.Compute(0) == s.Compute(1); got != c.alike {
			t.Errorf("another %s: got %v and %v, want equal: %v", c.name, s.Compute(0), s.Compute(1), c.alike)
		}
	}
}
