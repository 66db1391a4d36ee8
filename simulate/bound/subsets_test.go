package bound_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/simulate/bound"
)

// constrained returns the problem with constraints that the placement keeps: tables that may lie
// on their devices, and on some more, co-locations of whole tables that are on one device, and
// tables of some sharding types and tiers, or that may not be split.
func constrained(p *problem.Problem, shards [][]problem.Shard, random *rand.Rand) *problem.Problem {
	q := *p
	q.Tables = slices.Clone(p.Tables)
	on := make([][]int, len(p.Tables))
	together := make([]bool, len(p.Tables))
	for i := range together {
		together[i] = random.IntN(2) == 0
	}
	for d, held := range shards {
		for _, s := range held {
			if !slices.Contains(on[s.Table], d) {
				on[s.Table] = append(on[s.Table], d)
			}
			if s.Columns.Len() < int64(p.Tables[s.Table].Dim) || s.ShardingType.Joint() || s.Rows.Len() < p.Tables[s.Table].Rows || s.Tier.OnHost() {
				together[s.Table] = false
			}
		}
	}
	for i := range q.Tables {
		c := &q.Tables[i].Constraint
		if random.IntN(3) > 0 {
			c.Devices = slices.Clone(on[i])
			for d := range p.Topology.Devices {
				if random.IntN(6) == 0 && !slices.Contains(c.Devices, d) {
					c.Devices = append(c.Devices, d)
				}
			}
		}
		if together[i] && len(on[i]) == 1 {
			c.Colocation = fmt.Sprint("on ", on[i][0])
		}
	}
	for _, held := range shards {
		for _, s := range held {
			typed(&q.Tables[s.Table], &s, random)
		}
	}
	return &q
}

// typed gives a table with the shard constraints on its sharding type, its tiers and its cuts, if
// the table has none and the draws say so.
func typed(t *problem.Table, s *problem.Shard, random *rand.Rand) {
	c, kind := &t.Constraint, s.ShardingType
	cut := s.Columns.Len() < int64(t.Dim)
	if kind == "" && cut {
		kind = problem.ColumnWise
	} else if kind == "" {
		kind = problem.TableWise
	}
	if len(c.ShardingTypes) == 0 && random.IntN(3) == 0 {
		c.ShardingTypes = []problem.ShardingType{kind, problem.ShardingTypes()[random.IntN(6)]}[:1+random.IntN(2)]
	}
	if kind == problem.TableWise || kind == problem.DataParallel {
		c.NoSplit = c.NoSplit || random.IntN(4) == 0
	}
	if kind == problem.TableWise && len(c.Tiers) == 0 && random.IntN(3) == 0 {
		c.Tiers = []problem.Tier{s.Tier}
		if s.Tier == "" {
			c.Tiers[0] = problem.HBM
		}
	}
}

// Two tables on one of eight devices are all that matters: the bound is that of the two tables
// on this device, whether a list of devices or a co-location keeps them there.
func TestTablesKeptTogetherHaveABoundOfTheirOwn(t *testing.T) {
	for _, allowed := range []bound.Allowed{{}, {ShardingTypes: problem.ShardingTypes()}} {
		p := &problem.Problem{
			Tables:   []problem.Table{once("a", 1_000_000, 32, 20, 16384), once("b", 1_000_000, 32, 20, 16384), once("c", 1000, 8, 1, 16384)},
			Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 8, DevicesPerHost: 8, ReserveShare: hardware.NoReserve},
			Batch:    16384,
		}
		shards := make([][]problem.Shard, 8)
		shards[3], shards[5] = []problem.Shard{p.Whole(0), p.Whole(1)}, []problem.Shard{p.Whole(2)}
		cost := price(t, simulate.NewPricer(p), shards)
		gap := func(what string, set func(c *problem.Constraint)) float64 {
			for i := range 2 {
				p.Tables[i].Constraint = problem.Constraint{}
				set(&p.Tables[i].Constraint)
			}
			least, err := bound.Simulated(context.Background(), p, allowed)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			t.Logf("%v, %s: a gap of %.1f %%", allowed.ShardingTypes, what, 100*bound.Gap(cost, least.Total))
			return bound.Gap(cost, least.Total)
		}
		free := gap("free", func(*problem.Constraint) {})
		if free < .5 {
			t.Errorf("%v: free tables: got a gap of %.2f, want a problem in which the constraints matter", allowed, free)
		}
		for what, set := range map[string]func(*problem.Constraint){
			"one device":    func(c *problem.Constraint) { c.Devices = []int{3} },
			"a co-location": func(c *problem.Constraint) { c.Colocation = "x" },
		} {
			if got := gap(what, set); got < 0 || got > .03 {
				t.Errorf("%v: %s: got a gap of %.3f, want 0 to 0.03 (free: %.2f)", allowed, what, got, free)
			}
		}
		// On two devices, each takes one of the tables.
		two := gap("two devices", func(c *problem.Constraint) { c.Devices = []int{3, 4} })
		if two < .3 || two > free-.2 {
			t.Errorf("%v: two devices: got a gap of %.2f, want one between", allowed, two)
		}
	}
}

// Constraints do not lower the bound, also if there are many of them.
func TestManySubsets(t *testing.T) {
	p := drawn(t, 48, 16)
	free := must.Get(bound.Simulated(context.Background(), p, bound.Allowed{}))(t)
	random := rand.New(rand.NewPCG(5, 5))
	for i := range p.Tables {
		from := random.IntN(14)
		p.Tables[i].Constraint.Devices = []int{from, from + 1, from + 2}[:1+random.IntN(3)]
	}
	kept := must.Get(bound.Simulated(context.Background(), p, bound.Allowed{}))(t)
	if float64(kept.Total) < float64(free.Total) || math.IsInf(float64(kept.Total), 0) {
		t.Errorf("got a bound of %v with constraints and %v without, want no less with them", kept.Total, free.Total)
	}
}
