package main

import (
	"math"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/step"
)

// The error bar of a stack is the worst error of its systems, in the fit or not, rounded up to
// a multiple of 10 %, because equal systems of several makers differ by some percent. Systems
// that the table leaves out do not count. A stack without such systems has no error bar.
func TestErrorBars(t *testing.T) {
	want := map[string]step.ErrorBar{}
	add := func(s *system, name string) {
		t.Helper()
		bar, worst := want[name], 10*math.Ceil(10*math.Abs(s.own()/s.ms-1))
		if s.hosts == 1 {
			bar.OneHost = max(bar.OneHost, worst)
		} else {
			bar.Hosts = max(bar.Hosts, worst)
		}
		want[name] = bar
	}
	for _, s := range mlperfSystems() {
		if s.use == "" {
			add(s, "hugectr")
		}
	}
	want["hugectr-hierarchical"] = want["hugectr"]
	for _, s := range oneHotSystems() {
		add(s, hybrid)
	}
	for _, name := range step.StackNames() {
		stack := must(step.StackByName(name))
		if got := stack.Error; got.OneHost != want[name].OneHost || got.Hosts != want[name].Hosts {
			t.Errorf("%s: got error bars of %v %% on one host and %v %% on several, want %v and %v", name, got.OneHost, got.Hosts, want[name].OneHost, want[name].Hosts)
		}
	}
}

// The fixed time and the launches of PyTorch's stacks are the medians of those of the three
// GPUs of HiPC 2022.
func TestHostConstants(t *testing.T) {
	points := hipcPoints()
	var fixed, launches []float64
	for _, gpu := range []string{"V100", "TITAN Xp", "P100"} {
		h := fitHost(slices.DeleteFunc(slices.Clone(points), func(p hipcPoint) bool { return p.gpu != gpu }))
		fixed, launches = append(fixed, h.fixed), append(launches, h.launches)
	}
	slices.Sort(fixed)
	slices.Sort(launches)
	stack := must(step.StackByName("torchrec-base"))
	if got := stack.Constants; len(fixed) != 3 || math.Abs(float64(got.Fixed)-fixed[1]) > 1e-9 || math.Abs(float64(got.Launches)-launches[1]) > 1e-9 {
		t.Errorf("got a fixed time of %v and launches of %v, want the medians of %v and %v", got.Fixed, got.Launches, fixed, launches)
	}
}

// The error bars of calibrated steps are the worst errors of the sets of measured steps,
// rounded up to a multiple of 10 %.
func TestCalibratedErrorBars(t *testing.T) {
	bars := map[string]float64{}
	for _, compare := range []func() []*set{oneMeasured, stacks} {
		for _, one := range compare() {
			bars[one.rows] = 10 * math.Ceil(10*math.Abs(one.worst()))
		}
	}
	known := must(step.StackByName("hugectr"))
	unknown := step.UnknownError()
	for _, c := range []struct {
		set string
		got float64
	}{
		{"the same number of hosts", known.Error.Calibrated},
		{"another number of hosts", known.Error.Carried},
		{carriedRows, unknown.Calibrated},
		{carriedRows, unknown.Carried},
	} {
		if want, ok := bars[c.set]; !ok || c.got != want {
			t.Errorf("%s: got an error bar of %v %%, want %v", c.set, c.got, want)
		}
	}
}
