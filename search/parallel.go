package search

import (
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/problem"
)

// Runs of annealing that begin at different placements do not depend on each other, so the
// search makes them at the same time, on all of its threads:
//
//	            task 0        task 2
//	run  -----+------------+------------+---- results, in the order of the tasks
//	twin      | task 1     | task 3     |
//
// A catalog and a Scorer serve one goroutine. So each further thread has a twin of the run,
// with a catalog and Scorers of its own (Options.Apart). Placements go to a twin and come back
// as described pieces, because two catalogs give a piece different numbers. A task knows
// neither its thread nor what the other tasks of its batch find, so the result of the search is
// the same for any number of threads. A budget of evaluations is used up task by task, on one
// thread.

// described is a piece on a device, without the number of the piece in a catalog. table is the
// first table of a co-location.
type described struct {
	table, width int
	form         problem.Form
	device       int32
}

// describe returns placed pieces as described ones.
func describe(c *catalog, parts []placed) []described {
	list := make([]described, len(parts))
	for i, p := range parts {
		k := &c.pieces[p.piece]
		list[i] = described{k.members[0].table, k.members[0].width, *k.form, p.device}
	}
	return list
}

// find returns described pieces as pieces of the run's catalog.
func find(r *run, list []described) []placed {
	parts := make([]placed, len(list))
	for i, p := range list {
		whole := r.forms.whole[p.table]
		if len(r.catalog.pieces[whole].members) > 1 {
			parts[i] = placed{r.catalog.numbered(whole, p.form.Operator), p.device}
		} else {
			parts[i] = placed{r.catalog.inForm(whole, p.width, p.form), p.device}
		}
	}
	return parts
}

// mostTwins is the largest number of twins: each has estimates of all slices of its own, and batches
// have about eight tasks.
const mostTwins = 3

// twin returns a run of the same search with a catalog and Scorers of its own, or nil if
// Options.Apart makes none.
func twin(r *run) *run {
	newScorer := r.opt.Apart()
	if newScorer == nil {
		return nil
	}
	scorer := newScorer()
	t := &run{ctx: r.ctx, opt: r.opt, newScorer: newScorer, own: scorer, catalog: newCatalog(r.catalog.problem, scorer)}
	t.forms = newForms(t.catalog, r.opt)
	timeChoices(t)
	return t
}

// crewOf returns the runs that n tasks can take place on: the run itself, and twins of it.
func crewOf(r *run, n int) []*run {
	crew := []*run{r}
	if r.opt.Apart == nil || r.opt.From != nil || r.most > 0 {
		return crew
	}
	for len(crew) < min(n, r.opt.Workers, 1+mostTwins) {
		if at := len(crew) - 1; at == len(*r.twins) {
			t := twin(r)
			if t == nil {
				break
			}
			*r.twins = append(*r.twins, t)
		}
		crew = append(crew, (*r.twins)[len(crew)-1])
	}
	return crew
}

// taskOn returns a copy of a run for one task of a search, with counts of its own and with the part
// of the caller's budget of evaluations that used leaves.
func taskOn(own, of *run, used int64) *run {
	task := *own
	task.ctx, task.opt, task.status, task.stats = of.ctx, of.opt, Complete, Stats{}
	task.opt.OnEvent, task.opt.Beside, task.opt.Apart, task.finalists = nil, nil, nil, nil
	if task.most = 0; of.most > 0 {
		task.most = of.most - used
	}
	return &task
}

// inParallel does a task from each base, several at the same time if the search has several threads, and returns the placements
// that each found. on is a run that the task has for itself: neither its catalog nor its Scorer is used elsewhere until the
// task ends.
//
// One thread leaves out the tasks that remain once the budget is used up or the status is no longer
// Complete. Several threads have no budget of evaluations (crewOf), and start all tasks even after
// the context has ended: a long task checks the context itself.
func inParallel(r *run, bases [][]placed, do func(on *run, i int, base []placed) []placement) [][]placement {
	n := len(bases)
	found, done := make([][]placement, n), make([]*run, n)
	crew := crewOf(r, n)
	if len(crew) == 1 {
		for i, base := range bases {
			if r.status != Complete || r.most > 0 && r.stats.Evaluations >= r.most {
				break
			}
			task := taskOn(r, r, r.stats.Evaluations)
			found[i] = do(task, i, base)
			count(r, task)
		}
		return found
	}
	inputs := make([][]described, n)
	for i, base := range bases {
		inputs[i] = describe(r.catalog, base)
	}
	var next atomic.Int64
	work := func(own *run) {
		for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
			done[i] = taskOn(own, r, 0)
			found[i] = do(done[i], i, find(done[i], inputs[i]))
		}
	}
	var group sync.WaitGroup
	for _, own := range crew[1:] {
		group.Go(func() { work(own) })
	}
	work(crew[0])
	group.Wait()
	for i, task := range done {
		count(r, task)
		for j := range found[i] {
			found[i][j].parts = find(r, describe(task.catalog, found[i][j].parts))
		}
	}
	return found
}

// count adds the work of a task to that of the run.
func count(r, task *run) {
	r.stats.add(task.stats)
	if task.status != Complete && r.status == Complete {
		r.status = task.status
	}
}
