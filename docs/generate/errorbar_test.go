package main

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/step"
)

// The error bar of a stack is the worst error of its systems, in the fit or not, rounded up to
// a multiple of 10 %, because equal systems of several makers differ by some percent. Systems
// that the table leaves out do not count. A stack without such systems has no error bar. That of other
// GPUs is the worst error of any GPU that is predicted from others.
func TestErrorBars(t *testing.T) {
	want := map[string]step.ErrorBar{}
	up := func(share float64) float64 { return 10 * math.Ceil(10*math.Abs(share)) }
	add := func(s *system, name string) {
		bar, chip, worst := want[name], strings.Split(s.gpu(), "-")[0], up(s.own()/s.ms-1)
		gpus, most := &bar.OneHostGPUs, &bar.OneHost
		if s.hosts > 1 {
			gpus, most = &bar.HostsGPUs, &bar.Hosts
		}
		if !slices.Contains(*gpus, chip) {
			*gpus = append(*gpus, chip)
			slices.Sort(*gpus)
		}
		*most = max(*most, worst)
		want[name] = bar
	}
	for _, s := range mlperfSystems() {
		if s.use == "" {
			add(s, "hugectr")
		}
	}
	for _, s := range oneHotSystems() {
		add(s, hybrid)
	}
	for name, bar := range want {
		for _, s := range unseen() {
			switch {
			case strings.HasPrefix(s.rows, "one host"):
				bar.UnseenOneHost = max(bar.UnseenOneHost, up(s.worst()))
			case strings.HasPrefix(s.rows, "several hosts"):
				bar.UnseenHosts = max(bar.UnseenHosts, up(s.worst()))
			}
		}
		want[name] = bar
	}
	want["hugectr-hierarchical"] = want["hugectr"]
	for _, name := range step.StackNames() {
		got := must(step.StackByName(name)).Error
		got.Calibrated, got.Carried = 0, 0 // of another test
		if !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s: got error bars %+v, want %+v", name, got, want[name])
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

// The error bar of simulated costs is the worst error of the plans that ran, rounded up to 1 %.
func TestSimulatedError(t *testing.T) {
	worst := 0.0
	for _, ratio := range planRow(folder).ratios {
		worst = max(worst, math.Abs(ratio-1))
	}
	if want := int(math.Ceil(100 * worst)); report.SimulatedError != want {
		t.Errorf("got an error bar of %d %%, want %d", report.SimulatedError, want)
	}
}
