package bench

import (
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// GivenPlan returns a plan for Score, under a name for its method. The plan's task is the
// first task with the plan's cluster and tables. If no task has these, that is an error.
func GivenPlan(tasks []Task, method search.Method, pl *plan.Plan) (Given, error) {
	if len(tasks) == 0 {
		return Given{}, errors.New("there are no tasks that it could be a plan for")
	}
	var why *plan.Violation
	for i := range tasks {
		v := stranger(pl, &tasks[i].Problem)
		if v == nil {
			return Given{Task: tasks[i].Name, Method: method, Place: func(*problem.Problem) ([][]problem.Shard, error) {
				return pl.ByDevice(), nil
			}}, nil
		}
		if why == nil {
			why = v
		}
	}
	if len(tasks) == 1 {
		return Given{}, fmt.Errorf("it is not a plan for task %q: %v", tasks[0].Name, why)
	}
	return Given{}, fmt.Errorf("it is a plan for none of the %d tasks; for %q: %v", len(tasks), tasks[0].Name, why)
}

// stranger returns a violation that shows that the plan is for another problem or is no
// placement, and nil if the plan is for this problem.
func stranger(pl *plan.Plan, p *problem.Problem) *plan.Violation {
	var invalid *plan.Invalid
	if !errors.As(pl.Validate(p), &invalid) {
		return nil
	}
	for i, v := range invalid.Violations {
		switch v.Rule {
		case plan.RuleCluster, plan.RuleTables, plan.RuleCover, plan.RuleShardingType:
			return &invalid.Violations[i]
		case plan.RuleDevice:
			if v.Device >= p.Topology.Devices {
				return &invalid.Violations[i]
			}
		}
	}
	return nil
}
