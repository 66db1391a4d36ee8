package prototype_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// placements fills a scorer of each of 16 tasks at random, so that branches
// depending on the nets' inputs are not learnt from one case.
func placements(b *testing.B, m *prototype.Models) (scorers []*prototype.Scorer, items [][]int) {
	tables := pool(b)
	random := rand.New(rand.NewPCG(7, 7))
	for _, p := range problems(b, tables, "d4_m16")[:16] {
		estimates, err := m.NewEstimates(p)
		if err != nil {
			b.Fatal(err)
		}
		s := estimates.NewScorer()
		var list []int
		for t := range p.Tables {
			item := s.Item(t, p.Tables[t].Dim, problem.Form{})
			list = append(list, item)
			s.Add(random.IntN(4), item)
		}
		scorers, items = append(scorers, s), append(items, list)
	}
	return scorers, items
}

// BenchmarkScorer measures the steps of a search at 4 devices.
func BenchmarkScorer(b *testing.B) {
	scorers, items := placements(b, models(b, ".pt"))
	b.Run("add+compute", func(b *testing.B) {
		i := 0
		for b.Loop() {
			s, list := scorers[i%16], items[i%16]
			item := list[i%len(list)]
			s.Add(i%4, item)
			s.Compute(i % 4)
			s.Remove(i%4, item)
			i++
		}
	})
	b.Run("compute-with/4", func(b *testing.B) {
		devices, out := []int32{0, 1, 2, 3}, make([]float64, 4)
		i := 0
		for b.Loop() {
			list := items[i%16]
			scorers[i%16].ComputeWith(list[i%len(list)], devices, out)
			i++
		}
	})
	b.Run("cost", func(b *testing.B) { // both comm nets; the compute is known
		i := 0
		for b.Loop() {
			scorers[i%16].Cost()
			i++
		}
	})
}

// BenchmarkSearch plans the reference tasks, nets prepared anew for each; the
// median is of single tasks.
func BenchmarkSearch(b *testing.B) {
	m, tables := models(b, ".pt"), pool(b)
	for _, setting := range settings {
		tasks := problems(b, tables, setting)
		for _, method := range []search.Method{search.Paper, search.Default} {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%s/workers=%d", setting, method, workers), func(b *testing.B) {
					var times []time.Duration
					for b.Loop() {
						for _, p := range tasks {
							start := time.Now()
							planned(b, m, p, method, workers)
							times = append(times, time.Since(start))
						}
					}
					slices.Sort(times)
					b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "median-ms")
					b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1000, "p95-ms")
				})
			}
		}
	}
}

func planned(b *testing.B, m *prototype.Models, p *problem.Problem, method search.Method, workers int) {
	estimates, err := m.NewEstimates(p)
	if err != nil {
		b.Fatal(err)
	}
	result, err := search.Run(context.Background(), p, func() search.Scorer { return estimates.NewScorer() }, search.Options{Method: method, Workers: workers, ColumnsOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, held := range result.Shards {
		bytes := int64(0)
		for _, s := range held {
			bytes += int64(p.ShardMemory(s).Tables())
		}
		if bytes > int64(p.ShardBudget(0)) {
			b.Fatalf("a device holds %d bytes, want at most %d", bytes, p.ShardBudget(0))
		}
	}
}

// BenchmarkEstimates prepares the nets for a task and embeds its tables.
func BenchmarkEstimates(b *testing.B) {
	m := models(b, ".pt")
	p := problems(b, pool(b), "d4_m16")[0]
	for b.Loop() {
		if _, err := m.NewEstimates(p); err != nil {
			b.Fatal(err)
		}
	}
}
