package neuroshard

import (
	"cmp"
	"context"
	"time"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

// A search takes as given whether the indices of a table are deduplicated. So if tables have
// problem.Table.ChooseDedup, there is a search for each of problem.DedupChoices, and the placement with
// the shortest step, or else the least cost, is the plan. The searches share the limits of one.

// DedupChoice is one of the problems of problem.DedupChoices that Planner.Plan tried.
type DedupChoice struct {
	// Tables is the number of tables with ChooseDedup whose indices are deduplicated.
	Tables int
	// Fits is false if the search found no plan that fits; Time is then 0.
	Fits bool
	// Time is what the choices are compared by: the estimated cost, or the whole step if Options.Step
	// states one.
	Time unit.Millis
}

// chooseDedup finds a placement for the best choice of the deduplicated tables. l becomes the Planner of that
// choice.
func (l *Planner) chooseDedup(ctx context.Context, choices []*problem.Problem) (found search.Result, tried []DedupChoice, err error) {
	var first error
	var best *Planner
	var least float64
	var stats search.Stats
	started, all, optimal := time.Now(), make([]*Planner, len(choices)), true
	for i, p := range choices {
		if all[i], err = NewPlanner(context.WithoutCancel(ctx), p, l.stated); err != nil {
			return search.Result{}, nil, err
		}
		one := DedupChoice{Tables: chosenDedup(p)}
		other, err := all[i].Search(ctx, part(l.opt.Search, len(choices)-i, time.Since(started), stats.Evaluations))
		if err != nil {
			first, optimal = cmp.Or(first, err), false
		} else {
			stats, optimal = together(stats, other.Stats), optimal && other.Optimal
			time, err := worth(all[i], other)
			if err != nil {
				return search.Result{}, nil, err
			}
			if one.Fits, one.Time = true, unit.Millis(time); best == nil || time < least {
				best, found, least = all[i], other, time
			}
		}
		if err != nil && ctx.Err() != nil {
			break // nobody knows whether it fits
		}
		if tried = append(tried, one); ctx.Err() != nil {
			break
		}
	}
	if best == nil {
		return search.Result{}, nil, cmp.Or(ctx.Err(), first)
	}
	if ctx.Err() != nil {
		found.Status = search.Interrupted
	}
	*l, l.choices = *best, all[:len(tried)]
	found.Stats, found.Optimal = stats, optimal && len(tried) == len(choices) && len(choices) == 2
	return found, tried, nil
}

// part returns the options of the next of some searches, which share what is left of the limits.
func part(opt search.Options, searches int, spent time.Duration, evaluations int64) search.Options {
	if opt.Budget > 0 {
		opt.Budget = max(time.Nanosecond, (opt.Budget-spent)/time.Duration(searches))
	}
	if opt.MaxEvaluations > 0 {
		opt.MaxEvaluations = max(1, (opt.MaxEvaluations-evaluations)/int64(searches))
	}
	return opt
}

// chosenDedup returns the number of tables whose indices are deduplicated by choice.
func chosenDedup(p *problem.Problem) (n int) {
	for i := range p.Tables {
		if p.Tables[i].ChooseDedup && p.Tables[i].IndexDedup {
			n++
		}
	}
	return n
}

// lowest returns the least bound of all choices of the deduplicated tables that were tried.
func (l *Planner) lowest(ctx context.Context, allowed bound.Allowed) (bound.Bound, error) {
	least, err := bound.Simulated(ctx, l.priced, allowed)
	for _, other := range l.choices {
		if err != nil || other.priced == l.priced {
			continue
		}
		b, fault := bound.Simulated(ctx, other.priced, allowed)
		if err = ctx.Err(); fault == nil && b.Total < least.Total {
			least = b
		}
	}
	return least, err
}
