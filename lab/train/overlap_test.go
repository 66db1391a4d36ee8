package train

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/unit"
)

// whole is the inverse of cost.Overlapped.
func TestWholeOfWhatIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := cost.CommConstants{OverlapRest: rapid.Float64Range(1, 4).Draw(t, "rest"), OverlapRate: rapid.Float64Range(.01, .99).Draw(t, "rate")}
		e := exchange{cluster: cost.Cluster{Devices: rapid.IntRange(2, 16).Draw(t, "devices")}, early: rapid.Float64Range(0, 20).Draw(t, "early")}
		want := rapid.Float64Range(.1, 100).Draw(t, "time")
		left := cost.Overlapped(k, e.cluster.Devices, want, e.early)
		if got := cost.Overlapped(k, e.cluster.Devices, e.whole(k, left), e.early); math.Abs(got-left) > 1e-9*left {
			t.Fatalf("of %v ms %v are left, of the inverse %v", want, left, got)
		}
	})
}

// A measured exchange ends when its last device has all data, and its devices are
// ready before the last one like those of a plan (cost.Scorer.Cost).
func TestNewExchange(t *testing.T) {
	s := dataset.Exchange{
		Devices: 4, DevicesPerHost: 4, Batch: 1024, DimSums: []int{64, 32, 16, 8}, Start: []unit.Millis{0, 3, 6, 1},
		Forward: []unit.Millis{8, 6, 2, 7}, Backward: []unit.Millis{1, 2, 4, 1},
	}
	e, err := newExchange(&s, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := (6. + 3 + 0 + 5) / 3; math.Abs(e.early-want) > 1e-12 {
		t.Errorf("early: got %v, want %v", e.early, want)
	}
	if e.backward != 4 || !e.last {
		t.Errorf("backward: got %v of the last %v, want 4", e.backward, e.last)
	}
	if e, err = newExchange(&s, false); err != nil || e.backward != 2 {
		t.Errorf("simulated: backward: got %v, want the mean, 2, error %v", e.backward, err)
	}
}
