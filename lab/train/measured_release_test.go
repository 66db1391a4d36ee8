//go:build release

package train_test

import (
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The defaults for measured data are tested on laws that are known without noise:
// the test reports the errors against the noisy test samples and against the law.
func TestMeasuredDataWithDefaults(t *testing.T) {
	for _, c := range []struct {
		name                     string
		law                      func(hardware.Profile) law
		tables, groups, ensemble int
		noise                    float64
		// most is the largest mean error allowed against the law, in percent.
		most float64
	}{
		{"cpu", cpuLaw, 600, 3000, 1, .03, 5},
		{"warped", warpedLaw, 600, 3000, 1, .03, 1.7},
		// A quarter of the tables are blocks of rows, so few tables cover the others less.
		{"cpu", cpuLaw, 200, 5000, 1, .03, 9.5},
		{"cpu", cpuLaw, 1500, 5000, 1, .03, 3.5},
		{"cpu", cpuLaw, 600, 5000, 1, .1, 7},
		{"cpu", cpuLaw, 600, 2000, 1, .03, 6.5},
		{"cpu", cpuLaw, 1500, 5000, 4, .03, 3.3},
		{"warped", warpedLaw, 1500, 5000, 4, .03, 1.3},
	} {
		hw := desk()
		data, truth := synthetic(hw, c.law(hw), c.tables, c.groups, 600, c.noise, 1)
		began := time.Now()
		m, noisy := fit(t, data, hw, train.Options{Seed: 1, Ensemble: c.ensemble})
		took := time.Since(began)
		exact := must.Get(train.Judge(m, truth, 2))(t)
		t.Logf("%s, %d tables, %d samples, %d nets, noise %v: data %.2f / %.2f %%, law %.2f / %.2f %%, tau %.4f, exchanges %.2f and %.2f %%, %v",
			c.name, c.tables, c.groups, c.ensemble, c.noise, noisy.Compute.All.Mean, noisy.Compute.All.P95, exact.Compute.All.Mean, exact.Compute.All.P95,
			exact.Compute.KendallTau, noisy.Comm.All.Mean, exact.Comm.All.Mean, took.Round(time.Second))
		if s := noisy.Compute.Spread; s != nil {
			t.Logf("spread against the data %+v", *s)
			t.Logf("spread against the law %+v", *exact.Compute.Spread)
		}
		if got := exact.Compute.All.Mean; !(got < c.most) {
			t.Errorf("%s, %d tables, %d samples, %d nets, noise %v: got %.2f %%, want below %v", c.name, c.tables, c.groups, c.ensemble, c.noise, got, c.most)
		}
	}
}
