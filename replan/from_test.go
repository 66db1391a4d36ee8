package replan_test

import (
	"context"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// BenchmarkFrom searches from the plan of all tables but one, with the embedded models, under
// several budgets of moved bytes.
func BenchmarkFrom(b *testing.B) {
	for _, name := range []string{"dlrm-datasets-40x16", "dlrm-datasets-1000x128", "dlrm-datasets-10000x1024"} {
		w, err := workload.ByName(name)
		if err != nil {
			b.Fatal(err)
		}
		p := w.Problem()
		fewer := p
		fewer.Tables = p.Tables[:len(p.Tables)-1]
		find := func(p *problem.Problem, opt search.Options) search.Result {
			list, err := neuroshard.Pretrained().List(context.Background(), p)
			if err != nil {
				b.Fatal(err)
			}
			opt.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.ColumnWise}
			r, err := search.Run(context.Background(), p, list.NewScorer, opt)
			if err != nil {
				b.Fatal(err)
			}
			return r
		}
		old := find(&fewer, search.Options{})
		total := unit.Bytes(0)
		for i := range p.Tables {
			m := p.ShardMemory(p.Whole(i))
			total += m.Weights + m.Optimizer
		}
		for _, run := range []struct {
			name string
			from search.From
		}{
			{"nothing", search.From{Limited: true}},
			{"1%", search.From{Limited: true, Most: total / 100}},
			{"20%", search.From{Limited: true, Most: total / 5}},
			{"free", search.From{}},
		} {
			b.Run(name+"/"+run.name, func(b *testing.B) {
				run.from.Shards = old.Shards
				var r search.Result
				for b.Loop() {
					r = find(&p, search.Options{From: &run.from})
				}
				b.ReportMetric(r.Cost, "cost-ms")
				b.ReportMetric(old.Cost, "old-cost-ms")
				b.ReportMetric(float64(r.Moved)/float64(total)*100, "moved-%")
				b.ReportMetric(float64(r.Stats.Evaluations), "evaluations")
			})
		}
	}
}
