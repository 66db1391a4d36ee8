package bench

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// GivenPlan returns a plan for Score, under a name for its method. The plan's task is the
// first task that the plan is valid for. If there is none, that is an error.
func GivenPlan(tasks []Task, method search.Method, pl *plan.Plan) (Given, error) {
	if len(tasks) == 0 {
		return Given{}, errors.New("there are no tasks that it could be a plan for")
	}
	var why error
	for i := range tasks {
		err := pl.Validate(&tasks[i].Problem)
		if err == nil {
			return Given{tasks[i].Name, method, func(*problem.Problem) ([][]problem.Shard, error) { return pl.ByDevice(), nil }}, nil
		}
		why = cmp.Or(why, err)
	}
	if len(tasks) == 1 {
		return Given{}, fmt.Errorf("it is not a plan for task %q: %w", tasks[0].Name, why)
	}
	return Given{}, fmt.Errorf("it is a plan for none of the %d tasks; for %q: %w", len(tasks), tasks[0].Name, why)
}
