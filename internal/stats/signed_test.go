package stats

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func ExampleWilcoxon() {
	// Of eight pairs, the second plan took longer in one, and by little.
	fmt.Printf("%.4f\n", Wilcoxon([]float64{-3, -2.5, -4, 0.5, -1, -2, -3.5, -5}))
	// Output: 0.0078
}

// bySigns is the p-value by its definition: all choices of signs, one after the other.
func bySigns(differences []float64) float64 {
	var sizes []float64
	observed := 0.
	for _, d := range differences {
		if d != 0 {
			sizes = append(sizes, math.Abs(d))
		}
	}
	ranks := make([]float64, len(sizes))
	for i, a := range sizes {
		for _, b := range sizes {
			switch {
			case b < a:
				ranks[i]++
			case b == a:
				ranks[i] += .5
			}
		}
		ranks[i] += .5
	}
	i := 0
	for _, d := range differences {
		if d > 0 {
			observed += ranks[i]
		}
		if d != 0 {
			i++
		}
	}
	atMost := 0
	for signs := range 1 << len(ranks) {
		sum := 0.
		for i, r := range ranks {
			if signs>>i&1 == 1 {
				sum += r
			}
		}
		if sum <= observed {
			atMost++
		}
	}
	return float64(atMost) / float64(int(1)<<len(ranks))
}

func TestWilcoxonIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few values, so that there are ties and zeros.
		differences := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(-6, 6).Draw(t, "difference")) / 4
		}), 0, 10).Draw(t, "differences")
		got, want := Wilcoxon(differences), bySigns(differences)
		if math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v: got p-value %v, want %v", differences, got, want)
		}
	})
}

// From exactPairs on the normal distribution takes the place of the exact one.
func TestWilcoxonIsNearlyNormalForManyPairs(t *testing.T) {
	for _, below := range []int{0, 5, 10, 15, 20, 25} {
		differences := make([]float64, exactPairs)
		twice := make([]int, exactPairs)
		positive, all := 0, 0
		for i := range differences {
			differences[i] = float64(i + 1)
			twice[i] = 2 * (i + 1)
			all += twice[i]
			if (i*7)%exactPairs < exactPairs-2*below {
				differences[i] = -differences[i]
			} else {
				positive += twice[i]
			}
		}
		exact, normal := Wilcoxon(differences), belowNormally(twice, positive, all)
		if math.Abs(exact-normal) > 2e-3 {
			t.Errorf("%d above: got %v by the normal distribution, want %v", 2*below, normal, exact)
		}
	}
	many := make([]float64, 2*exactPairs)
	for i := range many {
		many[i] = -float64(i + 1)
	}
	if p := Wilcoxon(many); !(p > 0 && p < 1e-12) {
		t.Errorf("100 differences below 0: got p-value %v, want nearly 0", p)
	}
}
