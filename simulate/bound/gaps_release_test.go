//go:build release

package bound_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate/bound"
	"github.com/neuroshard/neuroshard/unit"
)

var tasks = flag.Int("tasks", 1, "tasks of each setting of TestGapsByClass")

// gapClass is a class of problems whose gaps TestGapsByClass prints.
type gapClass struct {
	name  string
	types []problem.ShardingType
	tasks []bench.Task
}

// TestGapsByClass plans problems of each class and compares the plans with their bounds. With -v it
// prints the gaps, and the gaps to bounds of plans in which each table has the sharding type that
// it has in the plan: the difference is what the bound loses by mixing the types of a table.
func TestGapsByClass(t *testing.T) {
	for _, class := range gapClasses(t) {
		var sum, own, worst float64
		var wall time.Duration
		most := ""
		for _, task := range class.tasks {
			cost, types := planned(t, class, &task)
			allowed := bound.Allowed{ShardingTypes: class.types, Host: true, Operators: (&search.Options{}).Divides(&task.Problem)}
			start := time.Now()
			least, err := bound.Simulated(context.Background(), &task.Problem, allowed)
			if err != nil {
				t.Fatalf("%s, %s: %v", class.name, task.Name, err)
			}
			wall += time.Since(start)
			gap := bound.Gap(cost, least.Total)
			if gap < 0 {
				t.Errorf("%s, %s: got a plan of %v, below the bound %v", class.name, task.Name, cost, least.Total)
			}
			if sum += gap; gap > worst {
				worst, most = gap, task.Name
			}
			kept := task.Problem
			kept.Tables = slices.Clone(kept.Tables)
			for i := range kept.Tables {
				kept.Tables[i].Constraint.ShardingTypes = types[i : i+1]
			}
			fixed, err := bound.Simulated(context.Background(), &kept, allowed)
			if err != nil {
				t.Fatalf("%s, %s, sharding types of the plan: %v", class.name, task.Name, err)
			}
			own += bound.Gap(cost, fixed.Total)
			t.Logf("    %-34s %7.2f %%, types of the plan %7.2f %%", task.Name, 100*gap, 100*bound.Gap(cost, fixed.Total))
		}
		n := float64(len(class.tasks))
		t.Logf("%-28s %2d tasks: mean gap %6.2f %%, most %6.2f %% (%s); with the sharding types of the plan %6.2f %%; %.0f ms a bound",
			class.name, len(class.tasks), 100*sum/n, 100*worst, most, 100*own/n, wall.Seconds()*1000/n)
	}
}

// planned returns the cost of the plan of a task, and the sharding type of each table in it.
func planned(t *testing.T, class gapClass, task *bench.Task) (unit.Millis, []problem.ShardingType) {
	t.Helper()
	opt := neuroshard.Options{Search: search.Options{ShardingTypes: class.types}}
	r, err := neuroshard.Plan(context.Background(), &task.Problem, opt)
	if err != nil {
		t.Fatalf("%s, %s: %v", class.name, task.Name, err)
	}
	of := map[string]problem.ShardingType{}
	for i := range r.Plan.Tables {
		of[r.Plan.Tables[i].Name] = r.Plan.Tables[i].ShardingType
	}
	types := make([]problem.ShardingType, len(task.Problem.Tables))
	for i := range types {
		types[i] = of[task.Problem.Tables[i].Name]
	}
	return r.Simulated.Cost, types
}

// gapClasses returns the classes, with tasks whose draws are fixed.
func gapClasses(t *testing.T) []gapClass {
	t.Helper()
	columns, all := []problem.ShardingType{problem.TableWise, problem.ColumnWise}, problem.ShardingTypes()
	paper, err := bench.PaperTasks(profile(t, "a100-80"), *tasks, 1)
	if err != nil {
		t.Fatal(err)
	}
	published, err := bench.WorkloadTasks(workload.Names(), []string{bench.DefaultCluster, bench.OtherCluster})
	if err != nil {
		t.Fatal(err)
	}
	return []gapClass{
		{"paper, slices", columns, paper},
		{"paper, all types", all, changed(paper, func(*problem.Problem, *rand.Rand) {})},
		{"workloads, slices", columns, published},
		{"workloads, all types", all, published},
		{"paper, pins", all, changed(paper, pinned)},
		{"paper, one type a table", all, changed(paper, oneType)},
		{"paper, several operators", all, changed(paper, severalOperators)},
		{"workloads, host memory", all, shortOfMemory(published)},
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
			m := p.ShardMemory(p.Whole(i))
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
