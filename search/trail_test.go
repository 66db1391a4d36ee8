package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/unit"
)

// TestPropertyResumedRunsAreWhole compares every resumed run of a grid, choice
// by choice and in the work counted, with one from an empty worker.
func TestPropertyResumedRunsAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.SampledFrom([]int{1, 2, 4, 8, shortlist + 4}).Draw(t, "devices")
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
		resumed, whole := s.workers[0], newWorker(s.catalog, scorers())
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

// TestRanksAgainstASortedList puts devices in and takes them out, and compares
// every look-up with a scan of all.
func TestRanksAgainstASortedList(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 17, 300} {
		devices := make([]holding, n)
		var r deviceOrder
		r.fill(devices)
		for step := range 4 * n {
			d := int32(random.IntN(n))
			h := &devices[d]
			r.remove(d, *h)
			*h = holding{load: float64(random.IntN(9)), used: int64(random.IntN(20)), dims: int64(random.IntN(20)), class: uint8(random.IntN(3))}
			r.insert(d, *h)
			if step%50 == 49 {
				r.fill(devices)
			}
			class, used, dims := random.IntN(3), int64(random.IntN(20)), int64(random.IntN(20))
			device, passed := r.first(class, used, dims)
			wantDevice, wantPassed := scan(devices, uint8(class), used, dims)
			if device != wantDevice || passed != wantPassed {
				t.Fatalf("%d devices, step %d: first(%d, %d, %d): got device %d after %d others, want %d after %d",
					n, step, class, used, dims, device, passed, wantDevice, wantPassed)
			}
		}
	}
}

func scan(devices []holding, class uint8, used, dims int64) (device int32, passed int) {
	var order []int32
	for d := range devices {
		if devices[d].class == class {
			order = append(order, int32(d))
		}
	}
	key := func(d int32) [3]float64 {
		return [3]float64{devices[d].load, float64(devices[d].used), float64(d)}
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := key(a), key(b)
		return slices.Compare(x[:], y[:])
	})
	for i, d := range order {
		if devices[d].used <= used && devices[d].dims <= dims {
			return d, i
		}
	}
	return none, len(order)
}

// TestLeastSumIsFill compares the ranked placement of baselines on many devices
// with the scan.
func TestLeastSumIsFill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tables []table
		for range rapid.IntRange(1, 60).Draw(t, "tables") {
			tables = append(tables, table{
				rows:    int64(rapid.IntRange(1, 50).Draw(t, "rows")),
				dim:     4 << rapid.IntRange(0, 3).Draw(t, "dim"),
				pooling: float64(rapid.IntRange(0, 3).Draw(t, "pooling")),
			})
		}
		p := handMade(unit.Bytes(rapid.IntRange(2_000, 20_000).Draw(t, "memory")), shortlist+3, tables...)
		c := newCatalog(p, nil)
		pieces := c.whole()
		key, order := make([]float64, len(pieces)), make([]int32, len(pieces))
		for i, k := range pieces {
			order[i] = int32(i)
			key[i] = tables[i].pooling * float64(c.pieces[k].dims)
		}
		got, gotFailed := leastSum(c, pieces, order, key)
		sum := make([]float64, len(c.all))
		want, wantFailed := placeInOrder(c, pieces, order, func(i int32, used []int64, room []int32) int32 {
			best := room[0]
			for _, d := range room {
				if sum[d] < sum[best] || sum[d] == sum[best] && used[d] < used[best] {
					best = d
				}
			}
			sum[best] += key[i]
			return best
		})
		if diff := cmp.Diff(want, got); diff != "" || gotFailed != wantFailed {
			t.Errorf("first failed: got %d, want %d; devices (-want +got):\n%s", gotFailed, wantFailed, diff)
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
