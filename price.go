package neuroshard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
)

// Unmeasurable is the error of a plan with tables that no meter runs: they are split
// by rows, lie on every device, or lie in the memory of a host.
type Unmeasurable struct {
	// Tables holds the names of these tables by kind, or by tier where it is their
	// memory; Order has the keys in the order of the plan.
	Tables map[string][]string
	Order  []string
}

// Error names each kind with its tables.
func (e *Unmeasurable) Error() string {
	var parts []string
	for _, what := range e.Order {
		list := e.Tables[what]
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(list), what, words.Quoted(list, 3)))
	}
	return "only table_wise and column_wise tables in hbm can be measured, and the plan has " + strings.Join(parts, ", ")
}

// Measurable returns nil, or an *Unmeasurable with the tables that meters do not run.
func Measurable(pl *plan.Plan) error {
	e := &Unmeasurable{Tables: map[string][]string{}}
	for i := range pl.Tables {
		t := &pl.Tables[i]
		what := ""
		if t.Kind != plan.TableWise && t.Kind != plan.ColumnWise {
			what = string(t.Kind)
		}
		for _, s := range t.Shards {
			if s.Tier != plan.HBM {
				what = "in " + string(s.Tier) + " memory"
			}
		}
		if what == "" {
			continue
		}
		if e.Tables[what] == nil {
			e.Order = append(e.Order, what)
		}
		e.Tables[what] = append(e.Tables[what], t.Name)
	}
	if len(e.Order) == 0 {
		return nil
	}
	return e
}

// Unpriceable is the error of a plan with tables that are cut by rows and lie, or whose
// replicas lie, in host memory: no model prices both at once.
type Unpriceable struct {
	// Tables are their names, in the plan's order.
	Tables []string
}

// Error names the first of the tables.
func (e *Unpriceable) Error() string {
	return "no model prices tables that are cut by rows or replicated and in host memory, too: " + words.Quoted(e.Tables, 3)
}

// priceable returns nil, or an *Unpriceable.
func priceable(pl *plan.Plan) error {
	e := &Unpriceable{}
	for i := range pl.Tables {
		t := &pl.Tables[i]
		if t.Kind.Spread() && slices.ContainsFunc(t.Shards, func(s plan.Shard) bool { return s.Tier.OnHost() }) {
			e.Tables = append(e.Tables, t.Name)
		}
	}
	if len(e.Tables) == 0 {
		return nil
	}
	return e
}

// Price fills in what a plan for p costs, which some other tool may have made: its
// predicted times, the model that predicted them, and the doubts about both. Each
// table must be placed, on devices that exist, and p must be valid; that the plan
// fits or keeps to constraints is not asked. It fails with *Unpriceable on tables that
// nothing prices, and leaves the plan as it was.
//
// Of opt it takes Model, TorchRec and Warnings.
func Price(pl *plan.Plan, p *problem.Problem, opt Options) error {
	if !opt.TorchRec {
		if err := priceable(pl); err != nil {
			return err
		}
	}
	prices, err := opt.pricing(p)
	if err != nil {
		return err
	}
	prices.set(pl, pl.ByDevice(), opt.Warnings)
	return nil
}
