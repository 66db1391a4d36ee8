//go:build release

package bound_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

var tasks = flag.Int("tasks", 1, "tasks of each setting of TestGapsByClass")

// TestGapsByClass plans problems of each class: no plan is below its bound. With -v it prints the gaps.
func TestGapsByClass(t *testing.T) {
	columns, all := []problem.ShardingType{problem.TableWise, problem.ColumnWise}, problem.ShardingTypes()
	paper := must.Get(bench.PaperTasks(must.Get(hardware.ByName("a100-80"))(t), *tasks, 1))(t)
	published := must.Get(bench.WorkloadTasks(workload.Names(), []string{bench.DefaultCluster, bench.OtherCluster}))(t)
	for _, class := range []struct {
		name  string
		types []problem.ShardingType
		tasks []bench.Task
	}{
		{"paper, slices", columns, paper},
		{"paper, all types", all, changed(paper, func(*problem.Problem, *rand.Rand) {})},
		{"workloads, slices", columns, published},
		{"workloads, all types", all, published},
		{"paper, pins", all, changed(paper, pinned)},
		{"paper, one type a table", all, changed(paper, oneType)},
		{"paper, several operators", all, changed(paper, severalOperators)},
		{"workloads, host memory", all, shortOfMemory(published)},
	} {
		sum, worst := 0.0, 0.0
		for _, task := range class.tasks {
			r, err := neuroshard.Plan(t.Context(), &task.Problem, neuroshard.Options{Search: search.Options{ShardingTypes: class.types}})
			if err != nil {
				t.Fatalf("%s, %s: %v", class.name, task.Name, err)
			}
			allowed := bound.Allowed{ShardingTypes: class.types, Host: true, Operators: (&search.Options{}).Divides(&task.Problem)}
			least, err := bound.Simulated(t.Context(), &task.Problem, allowed)
			if err != nil {
				t.Fatalf("%s, %s: %v", class.name, task.Name, err)
			}
			gap := bound.Gap(r.Simulated.Cost, least.Total)
			if gap < 0 {
				t.Errorf("%s, %s: got a plan of %v, below the bound %v", class.name, task.Name, r.Simulated.Cost, least.Total)
			}
			sum, worst = sum+gap, max(worst, gap)
			t.Logf("    %-34s %7.2f %%", task.Name, 100*gap)
		}
		t.Logf("%-28s %2d tasks: mean gap %6.2f %%, most %6.2f %%", class.name, len(class.tasks), 100*sum/float64(len(class.tasks)), 100*worst)
	}
}

// changed returns the tasks with other tables, on devices with all of their memory: the paper's count
// of bytes allows slices of columns alone.
func changed(tasks []bench.Task, change func(p *problem.Problem, r *rand.Rand)) []bench.Task {
	all := slices.Clone(tasks)
	for i := range all {
		all[i].Problem.Tables = slices.Clone(all[i].Problem.Tables)
		all[i].Problem.Accounting, all[i].Problem.Topology.Memory = problem.CountAll, 0
		change(&all[i].Problem, rand.New(rand.NewPCG(uint64(i), 1)))
	}
	return all
}

// pinned keeps half of the tables on single devices of the first half of the cluster.
func pinned(p *problem.Problem, r *rand.Rand) {
	for i := range p.Tables {
		if d := r.IntN(p.Topology.Devices / 2); r.IntN(2) == 0 {
			p.Tables[i].Constraint.Devices = []int{d}
		}
	}
}

// oneType states one sharding type for each of half of the tables.
func oneType(p *problem.Problem, r *rand.Rand) {
	for i := range p.Tables {
		k := []problem.ShardingType{problem.TableWise, problem.TableWise, problem.RowWise}[r.IntN(3)]
		if r.IntN(2) == 0 {
			p.Tables[i].Constraint.ShardingTypes = []problem.ShardingType{k}
		}
	}
}

// severalOperators gives tables optimizers and weights that keep them in different operators.
func severalOperators(p *problem.Problem, _ *rand.Rand) {
	for i := range p.Tables {
		p.Tables[i].Optimizer = []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad}[i%2]
		p.Tables[i].Weighted = i%3 == 0
	}
}

// shortOfMemory returns those tasks whose tables take 10 GiB or more, with HBM for 60 % of the tables
// and 2 TiB of memory on each host.
func shortOfMemory(tasks []bench.Task) (short []bench.Task) {
	for _, task := range tasks {
		p, bytes := task.Problem, unit.Bytes(0)
		for i := range p.Tables {
			m := p.ShardMemory(p.Whole(i))[problem.ForwardExchange]
			bytes += m.Weights + m.Optimizer
		}
		if bytes < 10*unit.GiB || p.Topology.Devices > 64 {
			continue
		}
		p.Topology.HostMemory = 2048 * unit.GiB
		p.Topology.Memory = unit.Bytes(0.6 * float64(bytes) / float64(p.Topology.Devices))
		short = append(short, bench.Task{Setting: task.Setting, Name: task.Name, Problem: p})
	}
	return short
}
