package stats

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// tauOfPairs is Kendall's tau-b by its definition.
func tauOfPairs(a, b []float64) float64 {
	var agree, tiesA, tiesB, pairs float64
	for i := range a {
		for j := range i {
			x, y := float64(cmp.Compare(a[i], a[j])), float64(cmp.Compare(b[i], b[j]))
			pairs++
			agree += x * y
			if x == 0 {
				tiesA++
			}
			if y == 0 {
				tiesB++
			}
		}
	}
	switch {
	case pairs == tiesA && pairs == tiesB:
		return 1
	case pairs == tiesA || pairs == tiesB:
		return 0
	}
	return agree / math.Sqrt((pairs-tiesA)*(pairs-tiesB))
}

func TestKendall(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{nil, nil, 1},
		{[]float64{1}, []float64{2}, 1},
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1},
		{[]float64{1, 2, 3}, []float64{30, 20, 10}, -1},
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 4, 3}, 4. / 6},
		{[]float64{1, 1}, []float64{1, 2}, 0},
	} {
		if got := Kendall(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v and %v: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 12).Draw(t, "v")) }), n, n)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		if got, want := Kendall(a, b), tauOfPairs(a, b); math.Abs(got-want) > 1e-12 {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestTauProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 30).Draw(t, "n")
		value := rapid.Float64Range(0, 5)
		a, b := make([]float64, n), make([]float64, n)
		raised, turned := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = math.Round(value.Draw(t, "a")), math.Round(value.Draw(t, "b"))
			raised[i], turned[i] = math.Exp(a[i]), -a[i]
		}
		got := Kendall(a, b)
		if !(got >= -1-1e-12 && got <= 1+1e-12) {
			t.Errorf("got %v, want -1 to 1", got)
		}
		if other := Kendall(b, a); math.Abs(got-other) > 1e-12 {
			t.Errorf("swapped: got %v, want %v", other, got)
		}
		if other := Kendall(raised, b); math.Abs(got-other) > 1e-12 {
			t.Errorf("on a rising function of the values: got %v, want %v", other, got)
		}
		tied := slices.Min(a) == slices.Max(a) && slices.Min(b) == slices.Max(b)
		if other := Kendall(turned, b); !tied && math.Abs(got+other) > 1e-12 {
			t.Errorf("turned round: got %v, want %v", other, -got)
		}
	})
}
