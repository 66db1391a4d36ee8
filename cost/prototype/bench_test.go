package prototype_test

import (
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem"
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
