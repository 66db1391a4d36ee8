// Package reinforce trains the learned policies, DreamShard and AutoShard, on drawn tasks: it
// has the loops over tasks and plans, which packages search/policy/dreamshard and search/policy/autoshard
// leave out.
//
//	Train            a policy with its card, from nothing but options (train.go)
//	Load             a policy for a search
//	Tasks.Draw       training tasks and test tasks, of tables that are not the same (tasks.go)
//	trainDreamShard  the loop of DreamShard (dreamshard.go)
//	Predict          a cost model of ours in the place of DreamShard's cost net (predict.go)
//	trainAutoShard   the loop of AutoShard (autoshard.go)
//	Compare          plans of the test tasks, by the policy and by simple methods (compare.go)
//
// Plans are measured by a function of the caller: Simulated, or a measurement backend.
package reinforce

import (
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy/dreamshard"
	"github.com/neuroshard/neuroshard/simulate"
)

// Measure returns the step times of a plan; shards[d] are those of device d.
type Measure func(p *problem.Problem, shards [][]problem.Shard) (plan.Breakdown, error)

// Simulated returns a Measure by the simulated device. It keeps the counts of the tasks that
// it has seen, by the problem's address, so a problem must not change. Goroutines may share it.
func Simulated() Measure {
	var lock sync.Mutex
	pricers := map[*problem.Problem]*simulate.Pricer{}
	return func(p *problem.Problem, shards [][]problem.Shard) (plan.Breakdown, error) {
		lock.Lock()
		pricer := pricers[p]
		if pricer == nil {
			pricer = simulate.NewPricer(p)
			pricers[p] = pricer
		}
		lock.Unlock()
		return pricer.Price(shards)
	}
}

// each calls do for 0 up to, not including, n on the given number of goroutines, and waits.
// Each call writes to its own index, so the result does not depend on the goroutines. worker
// is the number of the goroutine. After an error no further call starts; each returns the
// error of the smallest number.
func each(workers, n int, do func(worker, i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	var running sync.WaitGroup
	errs := make([]error, n)
	work := func(worker int) {
		for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
			if errs[i] = do(worker, i); errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	for worker := 1; worker < min(workers, n); worker++ {
		running.Go(func() { work(worker) })
	}
	work(0)
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Control returns the control of a policy of DreamShard, which places greedily on the same
// cost net; ok is false if the policy has no cost net of its own, or is another method's.
func Control(p search.Policy) (control search.Policy, ok bool) {
	trained, ok := p.(*dreamshard.Policy)
	if !ok {
		return nil, false
	}
	return trained.Greedy()
}
