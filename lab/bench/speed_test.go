package bench_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
)

// The speed of planning, on the embedded model of the a100-80. A benchmark plans
// all problems of its suite once an operation, from tables to placement, and
// proves each plan valid outside the timer. ms/task is the median over the
// problems of the best time of each: what a quiet machine would take.

func BenchmarkSearch(b *testing.B) {
	for _, c := range []struct {
		name    string
		method  search.Method
		workers int
		tasks   func() []*problem.Problem
	}{
		{"paper/4", search.Paper, 1, func() []*problem.Problem { return paperTasks(b, 4) }},
		{"paper/8", search.Paper, 1, func() []*problem.Problem { return paperTasks(b, 8) }},
		{"default/4", search.NeuroShard, 1, func() []*problem.Problem { return paperTasks(b, 4) }},
		{"default/8", search.NeuroShard, 1, func() []*problem.Problem { return paperTasks(b, 8) }},
		{"default/8/workers=2", search.NeuroShard, 2, func() []*problem.Problem { return paperTasks(b, 8) }},
		{"default/mlperf", search.NeuroShard, 1, func() []*problem.Problem { return named(b, "mlperf-dlrm-dcnv2") }},
		{"default/1000x128", search.NeuroShard, 2, func() []*problem.Problem { return named(b, "dlrm-datasets-1000x128") }},
		{"default/10000x1024", search.NeuroShard, 2, func() []*problem.Problem { return named(b, "dlrm-datasets-10000x1024") }},
	} {
		b.Run(c.name, func(b *testing.B) { speed(b, c.method, c.workers, c.tasks()) })
	}
}

// BenchmarkLine10000x1024 is the whole line of the command: it also prices the
// plan device by device, simulates it and validates it.
func BenchmarkLine10000x1024(b *testing.B) {
	p := named(b, "dlrm-datasets-10000x1024")[0]
	for b.Loop() {
		if _, err := neuroshard.Plan(context.Background(), p, neuroshard.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// paperTasks draws ten tasks of each of the paper's settings on the given
// number of devices.
func paperTasks(b *testing.B, devices int) (tasks []*problem.Problem) {
	b.Helper()
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		b.Fatal(err)
	}
	pool := workload.Pool(1)
	for _, setting := range workload.PaperSettings() {
		if setting.Devices != devices {
			continue
		}
		for i := range 10 {
			task, err := workload.Draw(pool, setting, 1, i)
			if err != nil {
				b.Fatal(err)
			}
			p := task.Problem(profile)
			tasks = append(tasks, &p)
		}
	}
	return tasks
}

func named(b *testing.B, name string) []*problem.Problem {
	b.Helper()
	w, err := workload.ByName(name)
	if err != nil {
		b.Fatal(err)
	}
	p := w.Problem()
	return []*problem.Problem{&p}
}

func speed(b *testing.B, method search.Method, workers int, problems []*problem.Problem) {
	b.Helper()
	models := map[string]*cost.Model{}
	for _, p := range problems {
		name := p.Topology.Profile.Name
		file, err := pretrained.File(name)
		if err != nil {
			b.Fatal(err)
		}
		if models[name], err = cost.Load(file); err != nil {
			b.Fatal(err)
		}
	}
	best := make([]time.Duration, len(problems))
	found := make([][][]problem.Shard, len(problems))
	for b.Loop() {
		for i, p := range problems {
			start := time.Now()
			estimates, err := cost.NewEstimates(b.Context(), models[p.Topology.Profile.Name], p)
			if err != nil {
				b.Fatal(err)
			}
			r, err := search.Run(context.Background(), p, func() search.Scorer { return estimates.NewScorer(0) }, search.Options{Method: method, Workers: workers, ColumnsOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			if took := time.Since(start); best[i] == 0 || took < best[i] {
				best[i] = took
			}
			found[i] = r.Shards
		}
	}
	for i, p := range problems {
		if err := plan.New(p, found[i]).Validate(p); err != nil {
			b.Errorf("problem %d: the plan timed is not valid: %v", i, err)
		}
	}
	slices.Sort(best)
	b.ReportMetric(float64(best[len(best)/2].Microseconds())/1e3, "ms/task")
}
