package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/unit"
)

// The speed of the device changes with the number of measurements. Without drift
// the measurements are: 0-2 the anchor, then blocks of 10 samples, each followed by
// the anchor: 3-12, 13; 14-23, 24; 25-34, 35; ... 58-67, 68; then 69-70 two repeats, 71 the anchor.
const driftBlock = 10

func drifting(slow func(call int) float64) *script {
	backend := newScript()
	backend.compute = func(call int, g *dataset.Group) (Timing, error) {
		t := steadyTiming(g)
		f := unit.Millis(slow(call))
		t.Forward, t.Backward = t.Forward*f, t.Backward*f
		return t, nil
	}
	return backend
}

func between(first, last int, factor float64) func(int) float64 {
	return func(call int) float64 {
		if call >= first && call <= last {
			return factor
		}
		return 1
	}
}

func TestDrift(t *testing.T) {
	const groups = 60 // six blocks
	for _, c := range []struct {
		name string
		slow func(call int) float64
		// calls is the number of all measurements, and again the number of those made a
		// second time because of drift.
		calls, again int
		// quarantined holds the quarantined places in the order, by block.
		quarantined []int
	}{
		{"steady", between(0, -1, 1), 0, 0, nil},
		{"within the limit", func(call int) float64 { return 1 + .01*float64(call%3) }, 0, 0, nil},
		// The second block is slow at its end: its closing anchor is measured three
		// times, and so is that of the third block, whose first anchor is the same slow
		// one. Both blocks are measured again after all others.
		{"passing", between(20, 26, 1.2), 2 + 22, 20, nil},
		// One slow measurement of an anchor causes two more of that anchor.
		{"hiccup", between(24, 24, 1.5), 2, 0, nil},
		// All three measurements of an anchor are slow: the blocks before and after it
		// are measured again.
		{"bad anchor", between(24, 26, 1.5), 2 + 22, 20, nil},
		// The first anchor is slow: only its block is measured again. The two anchors
		// after it are measured three times.
		{"bad start", between(0, 2, 1.5), 2*2 + 11, 10, nil},
		// The device stays slow from the last block on: it is measured again, and then
		// quarantined, because its speed is the rarer one.
		{"slower at the end", between(60, 1<<30, 1.2), 17, 10, []int{5}},
		// The device is fast for the first two blocks only. While they were measured,
		// they were steady, and the three blocks after them were not; in the end the speed
		// of the first two is the rarer one.
		{"faster at the start", between(0, 24, .8), 41, 30, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			design := drawn(t, groups, 0)
			order := begun(t, design).kinds[0].ids
			backend := drifting(c.slow)
			var last Progress
			got := must.Get(collect(context.Background(), design, backend, t.TempDir(), Options{
				AnchorEvery: driftBlock, OnProgress: func(p Progress) { last = p },
			}))(t)
			counts := make(map[int]int)
			for _, id := range backend.ids {
				counts[id]++
			}
			var quarantined []int
			for _, g := range got.Compute.Samples {
				place := slices.Index(order, g.ID)
				if g.Quarantined {
					quarantined = append(quarantined, place)
				}
				// Samples that are not quarantined have the times of a device that does not
				// drift.
				if want := steadyTiming(&g); !g.Quarantined && (g.Forward < want.Forward || g.Forward > 1.03*want.Forward) {
					t.Errorf("sample %d, place %d: got forward %v, want %v", g.ID, place, g.Forward, want.Forward)
				}
			}
			var want []int
			for _, b := range c.quarantined {
				for i := range driftBlock {
					want = append(want, b*driftBlock+i)
				}
			}
			slices.Sort(quarantined)
			if !slices.Equal(quarantined, want) {
				t.Errorf("got places %v quarantined, want %v", quarantined, want)
			}
			if want := 70 + repeats(groups-len(want)) + c.calls; backend.calls != want {
				t.Errorf("got %d measurements, want %d", backend.calls, want)
			}
			if done := groups + repeats(groups-len(want)) + c.again; last.Done != done || last.Total != done {
				t.Errorf("got last progress %+v, want %d done", last, done)
			}
			if len(got.Compute.Samples) != groups {
				t.Errorf("got %d samples, want %d", len(got.Compute.Samples), groups)
			}
		})
	}
}

// A run whose samples are all set aside fails, also when the finished dataset is found.
// One usable sample is enough.
func TestAllSetAside(t *testing.T) {
	set := func(quarantined ...bool) dataset.Dataset {
		var d dataset.Dataset
		d.Compute = &dataset.Compute{}
		for _, q := range quarantined {
			d.Compute.Samples = append(d.Compute.Samples, dataset.Group{Quarantined: q})
		}
		return d
	}
	comm := dataset.Dataset{Comm: &dataset.Comm{Samples: []dataset.Exchange{{Quarantined: true}, {Quarantined: true}}}}
	for _, c := range []struct {
		name string
		set  dataset.Dataset
		want string
	}{
		{"nothing", dataset.Dataset{}, ""},
		{"usable", set(true, false), ""},
		{"groups", set(true, true, true), "all 3 groups are set aside"},
		{"one group", set(true), "all 1 group are set aside"},
		{"all-to-alls", comm, "all 2 all-to-alls are set aside"},
	} {
		err := setAside(c.set)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrSetAside) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
	}

	// Each measurement takes 15 % longer than the last: no block has two like anchors.
	slower := func() *script { return drifting(func(call int) float64 { return math.Pow(1.15, float64(call)) }) }
	folder := t.TempDir()
	for range 2 {
		got, err := Run(context.Background(), drawn(t, 20, 0), slower(), folder, Options{AnchorEvery: 10})
		if !errors.Is(err, ErrSetAside) || got.Compute == nil || len(got.Compute.Samples) != 20 {
			t.Errorf("got error %v and dataset %+v, want %v and 20 groups", err, got.Compute, ErrSetAside)
		}
	}
}

// Exchanges have their own anchor, with three times the limit.
func TestCommDrift(t *testing.T) {
	for _, c := range []struct {
		factor unit.Millis
		want   int
	}{{1.08, 0}, {1.12, 20}} {
		backend := newScript()
		backend.comm = func(call int, e *dataset.Exchange) (CommTiming, error) {
			timing := steadyComm(e)
			if call >= 13 && call <= 15 {
				for i := range timing.Backward {
					timing.Backward[i] *= c.factor
				}
			}
			return timing, nil
		}
		done := 0
		must.Get(collect(context.Background(), drawn(t, 0, 40), backend, t.TempDir(), Options{AnchorEvery: 10, OnProgress: func(p Progress) { done = p.Done }}))(t)
		if again := done - 40; again != c.want {
			t.Errorf("an anchor %v times as slow: %d measured again, want %d", float64(c.factor), again, c.want)
		}
	}
}

// The anchor has median work and is the same for every shard. If it cannot be
// measured, another sample is the anchor.
func TestAnchorChoice(t *testing.T) {
	design := drawn(t, 101, 0)
	work := func(id int) (w float64) {
		g := design.Compute.Samples[id]
		for _, m := range g.Members {
			w += float64(g.Operation.Batch) * design.Compute.Tables[m.Table].PoolingFactor() * float64(m.Dim)
		}
		return w
	}
	candidates := begun(t, design).kinds[0].candidates
	less := 0
	for id := range 101 {
		if work(id) < work(candidates[0]) {
			less++
		}
	}
	if less != 50 || len(candidates) != maxAnchors {
		t.Errorf("%d of 101 samples have less work than the anchor, want 50; %d candidates", less, len(candidates))
	}
	backend := newScript()
	backend.compute = func(_ int, g *dataset.Group) (Timing, error) {
		if g.ID == candidates[0] || g.ID == candidates[1] {
			return Timing{}, fmt.Errorf("it broke")
		}
		return steadyTiming(g), nil
	}
	got := must.Get(collect(context.Background(), design, backend, t.TempDir(), Options{Shard: Shard{2, 3}}))(t)
	want := steadyTiming(&design.Compute.Samples[candidates[2]])
	for _, a := range got.Compute.Anchors {
		if a.Forward != want.Forward || a.Backward != want.Backward {
			t.Errorf("got anchor %+v, want the third candidate's times %+v", a, want)
		}
	}
	// With few samples there are fewer candidates, and none occurs twice.
	for n := 1; n < 8; n++ {
		var some []*sample
		for i := range n {
			some = append(some, &sample{id: i, work: float64(i)})
		}
		got := anchors(some)
		if slices.Sort(got); len(got) != min(n, maxAnchors) || len(slices.Compact(got)) != len(got) {
			t.Errorf("%d samples: got candidates %v", n, got)
		}
	}
}

// An exchange with a late device is not the anchor if there are others.
func TestExchangeAnchorIsAligned(t *testing.T) {
	var all []*sample
	for i := range 9 {
		e := dataset.Exchange{ID: i, Devices: 2, Batch: 512, DimSums: []int{i, i}, Start: []unit.Millis{0, 0}}
		if i != 7 {
			e.Start[1] = 3
		}
		all = append(all, exchangeSample(e, nil))
	}
	if got := anchors(all); !slices.Equal(got, []int{7}) {
		t.Errorf("got candidates %v, want the aligned one, 7", got)
	}
	all[7].waits = true
	if got := anchors(all); len(got) != maxAnchors || got[0] != 4 {
		t.Errorf("none aligned: got candidates %v, want those around 4", got)
	}
}
