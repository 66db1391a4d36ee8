package bench

import (
	"cmp"
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// Given is a plan whose cost Score estimates.
type Given struct {
	// Task is the name of the plan's task, and Method names what made the plan.
	Task   string
	Method search.Method
	// Place returns the plan as shards by device; nil if there is no plan.
	Place func(p *problem.Problem) ([][]problem.Shard, error)
}

// GivenResults returns the plans of earlier results.
func GivenResults(results *Results) []Given {
	var all []Given
	for i := range results.Records {
		r := &results.Records[i]
		all = append(all, Given{r.Task, r.Method, func(p *problem.Problem) ([][]problem.Shard, error) { return placementOf(r, p) }})
	}
	return all
}

// placementOf finds the record's tables in the problem, by name.
func placementOf(r *Record, p *problem.Problem) ([][]problem.Shard, error) {
	if !r.Valid {
		return nil, nil
	}
	index := make(map[string]int, len(p.Tables))
	for i := range p.Tables {
		index[p.Tables[i].Name] = i
	}
	shards := make([][]problem.Shard, p.Topology.Devices)
	for _, s := range r.Plan {
		i, ok := index[s.Table]
		if !ok {
			return nil, fmt.Errorf("the plan places table %q, which the task does not have", s.Table)
		}
		if s.Device < 0 || s.Device >= len(shards) {
			return nil, fmt.Errorf("the plan places table %q on device %d of %d", s.Table, s.Device, len(shards))
		}
		shard := p.Whole(i)
		shard.Columns, shard.Operator = problem.Range{Start: s.Columns[0], End: s.Columns[1]}, s.Operator
		shards[s.Device] = append(shards[s.Device], shard)
	}
	return shards, nil
}

// prototypeNames are our names of the prototype's methods. Its "neuroshard" is
// the search that its paper publishes.
var prototypeNames = map[string]search.Method{
	"neuroshard": search.Paper, "size_greedy": search.Size, "dim_greedy": search.Dim,
	"lookup_greedy": search.Lookup, "size_lookup_greedy": search.SizeLookup,
}

// GivenPrototype returns the plans of a prototype's results file, under our names of its methods, for
// the tasks of the setting that a record states, or else of the given one. Plans that the file marks as
// not valid stay not valid.
func GivenPrototype(setting string, results []prototype.Result) []Given {
	var all []Given
	for i := range results {
		r := &results[i]
		method, ok := prototypeNames[r.Method]
		if !ok {
			method = search.Method(r.Method)
		}
		all = append(all, Given{
			Task: fmt.Sprintf("%s/%d", cmp.Or(r.Setting, setting), r.Task), Method: method,
			Place: func(p *problem.Problem) ([][]problem.Shard, error) {
				if !r.Valid {
					return nil, nil
				}
				return r.Placement(p)
			},
		})
	}
	return all
}

// Score estimates the costs of given plans, and measures them if Options.Measure is not
// nil. A plan of an unknown task is an error, and so is a plan that is not valid.
func Score(ctx context.Context, tasks []Task, given []Given, opt Options) ([]Record, error) {
	opt = opt.withDefaults()
	byName, err := index(tasks)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	jobs := make([]job, 0, len(given))
	for i := range given {
		g := &given[i]
		task, ok := byName[g.Task]
		if !ok {
			return nil, fmt.Errorf("a plan is for task %q, which is not among the %d tasks", g.Task, len(tasks))
		}
		if name := key(g.Task, g.Method); seen[name] {
			return nil, fmt.Errorf("task %q has two plans by method %q", g.Task, g.Method)
		} else {
			seen[name] = true
		}
		jobs = append(jobs, job{task: task, method: g.Method, given: g})
	}
	return opt.each(ctx, jobs, func(j *job) (m made) {
		shards, err := j.given.Place(&j.task.Problem)
		switch {
		case err != nil:
			m.err = err
		case shards == nil:
			m.err = &search.Infeasible{}
		default:
			m.result, m.err = neuroshard.Evaluate(ctx, &j.task.Problem, shards, neuroshard.Options{Prices: opt.Prices})
		}
		return m
	})
}
