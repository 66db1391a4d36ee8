package cost_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
)

// someHidden are amounts that hide nothing, a part or all of the exchanges of the problems.
var someHidden = []plan.Hidden{
	{}, {Forward: .05}, {Backward: .3}, {Forward: .4, Backward: .1}, {Replicas: true}, {Forward: .1, Backward: .2, Replicas: true}, {Forward: 1e5, Backward: 1e5},
}

// An exposed cost is computed here from the step times of the same placement with nothing
// hidden: a device waits in the forward exchange until the last device ends its compute.
func TestExposedCost(t *testing.T) {
	model, _ := load(t)
	for seed := range uint64(6) {
		p := mixed(t, seed, 10, 6, 2, false)
		p.Topology.HostMemory, p.Topology.ReserveShare = unit.TiB, hardware.NoReserve
		draw := rand.New(rand.NewPCG(seed, 9))
		forms := searchtest.Forms(p.Topology)
		if seed == 0 {
			forms = forms[:1]
		}
		type held struct {
			device, table, width int
			form                 problem.Form
		}
		var placed []held
		for i := range p.Tables {
			h := held{device: draw.IntN(6), table: i, width: p.Tables[i].Dim, form: forms[draw.IntN(len(forms))]}
			if h.form.ShardingType.ByRows() && !p.Tables[i].CutsByRows(6) {
				h.form = problem.Form{}
			}
			placed = append(placed, h)
		}
		scored := func(h plan.Hidden) (float64, plan.Breakdown) {
			estimates := newEstimates(t, model, p)
			must.Do(t, estimates.Hide(h))
			s := estimates.NewScorer(0)
			for _, h := range placed {
				s.Add(h.device, estimates.Item(h.table, h.width, h.form))
			}
			return s.Cost(), s.Breakdown()
		}
		_, full := scored(plan.Hidden{})
		replicas := newEstimates(t, model, p).NewScorer(0)
		for _, h := range placed {
			if h.form.ShardingType == problem.DataParallel {
				replicas.Add(0, replicas.Item(h.table, h.width, h.form))
			}
		}
		beside := replicas.Breakdown().Devices[0].Forward
		longest := unit.Millis(0)
		for _, d := range full.Devices {
			longest = max(longest, d.Forward+d.Backward)
		}
		for _, h := range someHidden {
			cost, b := scored(h)
			if h.Replicas {
				h.Forward += beside
			}
			want := unit.Millis(0)
			for r, d := range full.Devices {
				wait := longest - (d.Forward + d.Backward)
				forward, backward := min(d.ForwardComm-wait, h.Forward), min(d.BackwardComm, h.Backward)
				want = max(want, d.Total()-forward-backward)
				if got := b.Devices[r]; math.Abs(float64(got.ForwardHidden-forward)) > 1e-9 || math.Abs(float64(got.BackwardHidden-backward)) > 1e-9 {
					t.Errorf("seed %d, %+v, device %d: got %v and %v hidden, want %v and %v", seed, h, r, got.ForwardHidden, got.BackwardHidden, forward, backward)
				}
			}
			if math.Abs(float64(b.Cost-want)) > 1e-9*float64(want) || math.Abs(cost-float64(want)) > 1e-9*cost {
				t.Errorf("seed %d, %+v: got cost %v and %v, want %v", seed, h, cost, b.Cost, want)
			}
		}
	}
	if err := newEstimates(t, model, mixed(t, 1, 2, 2, 0, false)).Hide(plan.Hidden{Forward: -1}); err == nil {
		t.Error("got no error for -1 ms hidden")
	}
}
