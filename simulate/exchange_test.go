package simulate

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

// TestOverlap: the time that is left of a collective falls with the lead of the other
// devices, by at most the lead, and never below the share of the Rest devices.
func TestOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Overlap{Rest: rapid.Float64Range(1, 5).Draw(t, "rest"), Rate: rapid.Float64Range(.01, 1).Draw(t, "rate")}
		devices := rapid.IntRange(1, 16).Draw(t, "devices")
		time := unit.Millis(rapid.Float64Range(.01, 100).Draw(t, "time"))
		lead := unit.Millis(rapid.Float64Range(0, 200).Draw(t, "lead"))
		got := o.Left(devices, time, lead)
		if least := time * unit.Millis(min(1, o.Rest/float64(devices))); got > time || got < least*(1-1e-12) || got < (time-lead)*(1-1e-12) {
			t.Fatalf("got %v, want between %v and %v", got, least, time)
		}
		if none := (Overlap{}).Left(devices, time, lead); none != time {
			t.Fatalf("without overlap: got %v, want %v", none, time)
		}
	})
	// By hand: 4 devices and a rest of 2, so half may be over: 10 (1/2 + 1/2 exp(-1)).
	if got, want := float64(Overlap{Rest: 2, Rate: 1}.Left(4, 10, 5)), 10*(.5+.5*math.Exp(-1)); math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCollectivesGrow: each collective takes longer for a larger load, and its moving time
// is proportional to the load.
func TestCollectivesGrow(t *testing.T) {
	n, err := NewDevice(a100(t)).Network(Cluster{Devices: 12, PerHost: 4, Batch: 1000})
	if err != nil {
		t.Fatal(err)
	}
	inHosts := func(elements float64) Collective { c, _ := n.AllReduce(elements); return c }
	between := func(elements float64) Collective { _, c := n.AllReduce(elements); return c }
	for what, of := range map[string]func(float64) Collective{
		"all-to-all": n.AllToAll, "ring": n.Ring, "inside hosts": n.InHosts,
		"between hosts":            func(x float64) Collective { return n.BetweenHosts(x, x, 3*x) },
		"all-reduce inside hosts":  inHosts,
		"all-reduce between hosts": between,
	} {
		none, some, twice := of(0), of(64), of(128)
		if none.Time() != none.Fixed || none.Fixed != some.Fixed || !(none.Fixed > 0) {
			t.Errorf("%s of nothing: got %+v, want its fixed time", what, none)
		}
		if !(some.Moving() > 0) || twice.Moving() != 2*some.Moving() || twice.Bytes != 2*some.Bytes {
			t.Errorf("%s: got %+v, and %+v of twice the load", what, some, twice)
		}
	}
}
