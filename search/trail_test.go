package search

import (
	"context"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/unit"
)

// TestPropertyResumedRunsAreWhole compares every resumed run of a grid, choice
// by choice and in the work counted, with one from an empty worker.
func TestPropertyResumedRunsAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.SampledFrom([]int{1, 2, 4, 8, 20}).Draw(t, "devices")
		var tables []table
		bytes := int64(0)
		for range rapid.IntRange(1, 6*devices).Draw(t, "tables") {
			tables = append(tables, table{
				rows:    int64(rapid.IntRange(1, 100).Draw(t, "rows")),
				dim:     4 << rapid.IntRange(0, 4).Draw(t, "dim"),
				pooling: float64(rapid.IntRange(0, 20).Draw(t, "pooling")),
			})
			bytes += tables[len(tables)-1].rows * int64(4*tables[len(tables)-1].dim)
		}
		slack := rapid.Float64Range(1, 3).Draw(t, "slack")
		p := handMade(unit.Bytes(float64(bytes)*slack/float64(devices)), devices, tables...)
		p.Tables[0].Constraint.Devices = []int{devices - 1}
		scorers := additiveFactory(p)
		s := newRun(context.Background(), p, scorers, Options{Workers: 1})
		division := s.catalog.divide(s.catalog.whole())
		resumed, whole := newWorker(s.catalog, s.scorer()), newWorker(s.catalog, scorers())
		resumed.clear(len(division.entries))
		for _, threshold := range append([]float64{math.Inf(1)}, thresholds(9)...) {
			limit := columns(threshold * float64(division.dims) / float64(devices))
			resumed.rewind(division.entries, limit)
			evaluations := resumed.evaluations
			complete := resumed.place(division.entries, limit)
			evaluations = resumed.evaluations - evaluations

			whole.evaluations = 0
			whole.clear(len(division.entries))
			wholeComplete := whole.place(division.entries, limit)
			if diff := cmp.Diff(whole.assigned, resumed.assigned); diff != "" {
				t.Fatalf("threshold %v: devices (-whole +resumed):\n%s", threshold, diff)
			}
			if complete != wholeComplete || evaluations != whole.evaluations || resumed.trail.totals().peak != whole.trail.totals().peak {
				t.Errorf("threshold %v: resumed, got complete %v, %d evaluations, peak %d; want %v, %d, %d",
					threshold, complete, evaluations, resumed.trail.totals().peak, wholeComplete, whole.evaluations, whole.trail.totals().peak)
			}
			if got, want := resumed.scorer.Cost(), whole.scorer.Cost(); got != want {
				t.Errorf("threshold %v: got cost %v, want %v", threshold, got, want)
			}
		}
	})
}

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		limit float64
		want  int64
	}{{12, 12}, {12.9, 12}, {0.5, 0}, {math.Inf(1), noLimit}} {
		if got := columns(c.limit); got != c.want {
			t.Errorf("columns(%v): got %d, want %d", c.limit, got, c.want)
		}
	}
}
