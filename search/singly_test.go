package search

import (
	"context"
	"errors"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// noted is a search that finds nothing and counts its calls, and the calls with forms in which several
// devices hold a table.
type noted struct{ calls, shared *int }

func (n noted) apply(r *run, s state) (state, error) {
	if *n.calls++; r.forms.shared() {
		*n.shared++
	}
	return s, errors.New("nothing found")
}

// summing is a Scorer whose times add up.
type summing struct{ *additive }

func (summing) Additive() bool { return true }

// TestWhenSinglySearches wants stage singly to search again if hosts have memory and HBM is short, and
// otherwise not. The placement stays if the search finds none.
func TestWhenSinglySearches(t *testing.T) {
	const each = 64 * unit.MiB // of a table
	for _, c := range []struct {
		name   string
		want   int
		tables int
		change func(p *problem.Problem, opt *Options)
		status Status
		addsUp bool
		hosted bool // the best placement has table 0 in host memory
	}{
		{name: "short", want: 1, tables: 8},
		{name: "a table in host memory", want: 1, tables: 3, hosted: true},
		{name: "ample", tables: 3},
		{name: "no host memory", tables: 8, change: func(p *problem.Problem, _ *Options) { p.Topology.HostMemory = 0 }},
		{name: "slices of columns only", tables: 8, change: func(_ *problem.Problem, o *Options) {
			o.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.ColumnWise}
		}},
		{name: "a budget of evaluations", tables: 8, change: func(_ *problem.Problem, o *Options) { o.MaxEvaluations = 1000 }},
		{name: "ended", tables: 8, status: OutOfTime},
		{name: "times add up", tables: 8, addsUp: true},
		{name: "2,001 slices", tables: 2001, change: func(p *problem.Problem, _ *Options) {
			p.Topology.Memory = p.DeviceMemory(0).Total() + 1100*p.ShardMemory(p.Whole(0)).Total()
		}},
		{name: "2,000 slices", want: 1, tables: 2000, change: func(p *problem.Problem, _ *Options) {
			p.Topology.Memory = p.DeviceMemory(0).Total() + 1100*p.ShardMemory(p.Whole(0)).Total()
		}},
		{name: "a table by rows only", tables: 8, change: func(p *problem.Problem, _ *Options) {
			p.Tables[7].Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tables []table
			for range c.tables {
				tables = append(tables, table{int64(each) / (4 * 16), 16, 2})
			}
			p := handMade(unit.GiB, 2, tables...)
			p.Accounting, p.Topology.HostMemory = problem.CountAll, unit.TiB
			bytes := p.ShardMemory(p.Whole(0)).Total()
			p.Topology.Memory = p.DeviceMemory(0).Total() + 4*bytes + bytes/2
			opt := Options{Workers: 1, ShardingTypes: problem.ShardingTypes()}
			if c.change != nil {
				c.change(p, &opt)
			}
			opt, err := opt.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			newScorer := func() Scorer {
				a := replicating{additiveFactory(p)().(*additive), 1, new(float64)}
				if c.addsUp {
					return summing{a.additive}
				}
				return hosting{a}
			}
			r := newRun(context.Background(), p, newScorer, opt)
			var parts []placed
			for i, k := range r.catalog.whole() {
				if c.hosted && i == 0 {
					k = r.catalog.inForm(k, 16, problem.Form{Tier: problem.Host})
				}
				parts = append(parts, placed{k, int32(i % 2)})
			}
			s := state{best: r.offerPlaced(placement{}, parts)}
			if c.status != "" {
				r.status = c.status
			}
			calls, shared := 0, 0
			after, err := singly{noted{&calls, &shared}}.apply(r, s)
			if err != nil || after.best.cost != s.best.cost || after.best.division == nil {
				t.Errorf("got cost %v and error %v, want %v", after.best.cost, err, s.best.cost)
			}
			if calls != c.want || shared > 0 {
				t.Errorf("got %d searches, %d of them with forms of several devices, want %d and none", calls, shared, c.want)
			}
			if !r.forms.shared() && c.name != "slices of columns only" {
				t.Error("the forms of the run are not what they were")
			}
		})
	}
}

// hosting is replicating with tables in host memory, which cost nothing there.
type hosting struct{ replicating }

const hostedItem = 10_000

func (h hosting) Item(table, width int, form problem.Form) int {
	if form.Tier.OnHost() {
		return hostedItem
	}
	return h.replicating.Item(table, width, form)
}

func (h hosting) Add(device, item int) {
	if item != hostedItem {
		h.replicating.Add(device, item)
	}
}

func (h hosting) Remove(device, item int) {
	if item != hostedItem {
		h.replicating.Remove(device, item)
	}
}
