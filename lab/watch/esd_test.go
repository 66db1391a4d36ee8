package watch_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/lab/watch"
)

// rosner are the data of Rosner's paper, as the NIST/SEMATECH e-Handbook of Statistical Methods
// has them in section 1.3.5.17.3.
var rosner = []float64{
	-0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56, 1.58, 1.65, 1.69, 1.70,
	1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10, 2.14, 2.15, 2.23, 2.24, 2.26, 2.35, 2.37, 2.40,
	2.47, 2.54, 2.62, 2.64, 2.90, 2.92, 2.92, 2.93, 3.21, 3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
}

// TestOutliersRosner compares the classic test with the table of that section.
func TestOutliersRosner(t *testing.T) {
	wantR := []float64{3.118, 2.942, 3.179, 2.810, 2.815, 2.848, 2.279, 2.310, 2.101, 2.067}
	wantLambda := []float64{3.158, 3.151, 3.143, 3.136, 3.128, 3.120, 3.111, 3.103, 3.094, 3.085}
	outliers, r, lambda := watch.ESD{Most: 10, Alpha: 0.05, Classic: true}.Outliers(rosner)
	for i := range wantR {
		if math.Abs(r[i]-wantR[i]) > 0.0011 || math.Abs(lambda[i]-wantLambda[i]) > 0.0011 {
			t.Errorf("removal %d: got R %.4f and lambda %.4f, want %v and %v", i+1, r[i], lambda[i], wantR[i], wantLambda[i])
		}
	}
	if want := []int{53, 52, 51}; len(outliers) != 3 || outliers[0] != want[0] || outliers[1] != want[1] || outliers[2] != want[2] {
		t.Errorf("got outliers %v, want %v", outliers, want)
	}
}

// TestOutliersHybrid is computed by hand. Of 1, 2, 3, 4, 5, 6, 20: median 4, distances 3, 2, 1,
// 0, 1, 2, 16 with median 2, so R(1) = 16 / (1.4826 x 2) = 5.3959. Without 20: median 3.5,
// distances 2.5, 1.5, 0.5, 0.5, 1.5, 2.5 with median 1.5, so R(2) = 2.5 / (1.4826 x 1.5) =
// 1.1242. lambda(1) has the quantile of Student's t at 1 - 0.05/7 with 5 degrees of freedom,
// 3.6805: 3.6805 x 6 / sqrt((5 + 3.6805^2) x 7) = 1.9381.
func TestOutliersHybrid(t *testing.T) {
	values := []float64{5, 20, 1, 3, 2, 6, 4}
	outliers, r, lambda := watch.ESD{Most: 2, Alpha: 0.05}.Outliers(values)
	if len(outliers) != 1 || outliers[0] != 1 {
		t.Errorf("got outliers %v, want [1]", outliers)
	}
	if len(r) != 2 || math.Abs(r[0]-5.3959) > 1e-4 || math.Abs(r[1]-1.1242) > 1e-4 {
		t.Errorf("got R %.4f, want 5.3959 and 1.1242", r)
	}
	if len(lambda) != 2 || math.Abs(lambda[0]-1.9381) > 1e-4 || math.Abs(lambda[1]-1.8221) > 1e-4 {
		t.Errorf("got lambda %.4f, want 1.9381 and 1.8221", lambda)
	}
}

// TestOutliersOf wants nothing of values that the test cannot judge.
func TestOutliersOf(t *testing.T) {
	for _, values := range [][]float64{nil, {1}, {1, 2}, {1, 1, 1, 1, 1, 9}} {
		if outliers, _, _ := (watch.ESD{Most: 3, Alpha: 0.05}).Outliers(values); len(outliers) > 0 {
			t.Errorf("%v: got outliers %v, want none", values, outliers)
		}
	}
}
