package replan

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// point returns a point of a hand-made curve.
func point(label string, cost unit.Millis, gb float64, time unit.Millis) Point {
	return Point{Label: label, Cost: cost, Limit: -1, Transfer: &plan.Transfer{Bytes: unit.Bytes(gb * 1e9), Total: 100e9, Between: time}}
}

// TestChoose gives hand-made curves, and wants the point that the options ask for.
func TestChoose(t *testing.T) {
	curve := func(points ...Point) []Point { return points }
	typical := curve(point("keep", 4, 0, 0), point("0", 3.98, 0, 0), point("1 %", 3.7, 1, 100), point("5 %", 3.5, 5, 500), point("free", 3.49, 60, 6000))
	forced := curve(point("0", 4, 10, 1000), point("1 %", 3.7, 11, 1100), point("free", 3.69, 60, 6000))
	for _, test := range []struct {
		name  string
		curve []Point
		opt   Options
		must  unit.Bytes
		want  string
	}{
		{"the fewest bytes within the tie band", typical, Options{}, 0, "5 %"},
		{"a tie is no reason to move", curve(point("keep", 4, 0, 0), point("0", 3.99, 0, 0), point("5 %", 3.97, 5, 500)), Options{}, 0, "keep"},
		{"a gain without bytes beyond the band", curve(point("keep", 4, 0, 0), point("0", 3.9, 0, 0), point("5 %", 3.9, 5, 500)), Options{}, 0, "0"},
		{"within the budget", typical, Options{Most: &MovedBytes{Bytes: 2e9}}, 0, "1 %"},
		{"within a share", typical, Options{Most: &MovedBytes{Share: 0.01}}, 0, "1 %"},
		{"no bytes at all", typical, Options{Most: &MovedBytes{}}, 0, "keep"},
		{"beyond what must move", forced, Options{Most: &MovedBytes{Bytes: 2e9}}, 10e9, "1 %"},
		{"only what must move", forced, Options{Most: &MovedBytes{}}, 10e9, "0"},
		{"a low price", typical, Options{Price: 0.001}, 0, "5 %"},
		{"a price between", typical, Options{Price: 0.1}, 0, "1 %"},
		{"a high price", typical, Options{Price: 10}, 0, "keep"},
		{"what must move costs every point its price", forced, Options{Price: 10}, 10e9, "0"},
		{"nothing pays back in time", typical, Options{Horizon: 10}, 0, "keep"},
		{"some pay back in time", typical, Options{Horizon: 400}, 0, "1 %"},
		{"a price does not widen the band", curve(point("0", 4, 10, 0), point("1 %", 3.9, 10.05, 0)), Options{Price: 1}, 10e9, "1 %"},
		{"one point", curve(point("free", 4, 100, 0)), Options{Horizon: 1}, 0, "free"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := replanner{curve: test.curve}
			r.paybacks()
			if got := test.curve[choose(test.curve, &test.opt, test.must, 100e9)].Label; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A move pays back when the steps have saved the time of the transfer.
func TestPaysBack(t *testing.T) {
	for _, test := range []struct {
		time, gain unit.Millis
		want       int64
	}{{0, 0, 0}, {0, -1, 0}, {-5, 1, 0}, {10, 0, -1}, {10, -1, -1}, {10, 1, 10}, {10, 3, 4}, {1e300, 1e-300, -1}} {
		if got := paysBack(test.time, test.gain); got != test.want {
			t.Errorf("%v ms, %v ms a step: got %d steps, want %d", float64(test.time), float64(test.gain), got, test.want)
		}
	}
}

// A point is the cheapest plan that keeps to its limit, whatever limit it was found under.
func TestCurveFalls(t *testing.T) {
	r := replanner{total: 100e9, must: 1e9, counted: true, adapted: &adapted{}, opt: &Options{Most: &MovedBytes{Bytes: 3e9}, Price: 1}}
	r.found = []Point{point("", 4, 1, 0), point("", 4.1, 1.5, 0), point("", 3.5, 7, 0), point("", 3.6, 20, 0), point("", 3.5, 6.5, 0), point("", 3, 60, 0), point("", 3.45, 5, 0)}
	for _, b := range r.limits() {
		r.join(b)
	}
	want := []struct {
		label string
		cost  unit.Millis
		bytes unit.Bytes
	}{{"0", 4, 1e9}, {"1 %", 4, 1e9}, {"budget", 4, 1e9}, {"5 %", 3.45, 5e9}, {"20 %", 3.45, 5e9}, {"price", 4, 1e9}, {"free", 3, 60e9}}
	if len(r.curve) != len(want) {
		t.Fatalf("got %d points, want %d", len(r.curve), len(want))
	}
	for i, w := range want {
		if got := r.curve[i]; got.Label != w.label || got.Cost != w.cost || got.Transfer.Bytes != w.bytes {
			t.Errorf("got %s: %v ms, %d bytes, want %s: %v ms, %d bytes", got.Label, float64(got.Cost), got.Transfer.Bytes, w.label, float64(w.cost), w.bytes)
		}
	}
}

// Options that contradict each other are all reported.
func TestOptions(t *testing.T) {
	opt := Options{Most: &MovedBytes{Share: 2}, Price: -1, Horizon: -1, Options: neuroshard.Options{Search: search.Options{Method: search.Size, Budget: 1}}}
	err := opt.check()
	for _, want := range []string{"both a limit", "not a share of at most 1", "price -1", "horizon -1", "method size", "no budget of time"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if err := (&Options{Most: &MovedBytes{Bytes: 5}, Horizon: 3}).check(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// A share limits the same bytes on every point of the curve, also if a plan has fewer copies of the
// tables than the old one: 4 copies of a, one of b, and c, which is added, are 6 x 64,000 bytes.
func TestSharesAreOfTheOldPlan(t *testing.T) {
	p := handMade(t, 4, 2, table("a", 1000, 16), table("b", 1000, 16))
	old := placedAs(t, p, "a@* b@0")
	p = handMade(t, 4, 2, table("a", 1000, 16), table("b", 1000, 16), table("c", 1000, 16))
	r := must.Get(Plan(t.Context(), p, old, Options{Options: neuroshard.Options{Search: search.Options{ShardingTypes: []problem.ShardingType{problem.TableWise, problem.ColumnWise}, MaxEvaluations: 2_000}}}))(t)
	if want := unit.Bytes(6 * 64_000); r.Total != want {
		t.Errorf("got a total of %d bytes, want %d", r.Total, want)
	}
	must := unit.Bytes(-1)
	for _, point := range r.Curve {
		if point.Label == "0" {
			must = point.Transfer.Bytes
		}
		if point.Label == "5 %" && point.Limit != must+6*64_000/20 {
			t.Errorf("got a limit of %d bytes at 5 %%, want %d and %d", point.Limit, must, 6*64_000/20)
		}
	}
	if must < 0 {
		t.Errorf("got no point of what must move: %+v", r.Curve)
	}
}
