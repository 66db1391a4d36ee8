package verify

import (
	"fmt"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
)

// Unmeasurable is the error of a plan with tables that no backend can run: they are
// split by rows, lie on every device, or lie in the memory of a host.
type Unmeasurable struct {
	// Tables holds the names of these tables by sharding type, or by memory tier if
	// the memory is the reason. Order holds the keys in the order of the plan.
	Tables map[string][]string
	Order  []string
}

// Error names each sharding type with its tables.
func (e *Unmeasurable) Error() string {
	var parts []string
	for _, what := range e.Order {
		list := e.Tables[what]
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(list), what, words.Quoted(list, 3)))
	}
	return "only table_wise and column_wise tables in hbm can be measured, and the plan has " + strings.Join(parts, ", ")
}

// Measurable returns nil, or an *Unmeasurable with the tables that no backend runs.
func Measurable(pl *plan.Plan) error {
	e := &Unmeasurable{Tables: map[string][]string{}}
	for i := range pl.Tables {
		t := &pl.Tables[i]
		what := ""
		if t.ShardingType != plan.TableWise && t.ShardingType != plan.ColumnWise {
			what = string(t.ShardingType)
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
