package dataset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// splitUp deals the samples of a dataset to n parts, with their repeats; the
// anchors go to one.
func splitUp(d Dataset, n, anchors int, to func() int) []Dataset {
	parts := make([]Dataset, n)
	if c := d.Compute; c != nil {
		for i := range parts {
			parts[i].Compute = &Compute{Provenance: c.Provenance, Tables: c.Tables}
		}
		owner := map[int]int{}
		for _, g := range c.Samples {
			k := to()
			owner[g.ID] = k
			parts[k].Compute.Samples = append(parts[k].Compute.Samples, g)
		}
		for _, r := range c.Repeats {
			p := parts[owner[r.ID]].Compute
			p.Repeats = append(p.Repeats, r)
		}
		parts[anchors].Compute.Anchors = c.Anchors
	}
	if c := d.Comm; c != nil {
		for i := range parts {
			parts[i].Comm = &Comm{Provenance: c.Provenance}
		}
		for _, e := range c.Samples {
			p := parts[to()].Comm
			p.Samples = append(p.Samples, e)
		}
	}
	return parts
}

func TestMergeIsSplitUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDataset(t)
		n := rapid.IntRange(1, 4).Draw(t, "parts")
		parts := splitUp(d, n, rapid.IntRange(0, n-1).Draw(t, "anchors' part"), func() int { return rapid.IntRange(0, n-1).Draw(t, "part") })
		for i, p := range parts {
			if err := p.Validate(); err != nil {
				t.Fatalf("part %d: %v", i, err)
			}
		}
		draw := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		draw.Shuffle(n, func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		got := must.Get(Merge(parts...))(t)
		if diff := cmp.Diff(d, got); diff != "" {
			t.Fatalf("merged (-want +got):\n%s", diff)
		}
		// In two steps, too.
		if n > 2 {
			first, err := Merge(parts[:2]...)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = Merge(append(parts[2:], first)...); err != nil || !cmp.Equal(d, got) {
				t.Fatalf("merged in two steps: error %v, (-want +got):\n%s", err, cmp.Diff(d, got))
			}
		}
	})
}

// Parts merge to the same bytes in any order, though machines differ in what
// they measured of themselves.
func TestMergeInAnyOrder(t *testing.T) {
	parts := parts()
	var first map[string]string
	for i, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		d := must.Get(Merge(parts[order[0]], parts[order[1]], parts[order[2]]))(t)
		if got, want := d.Compute.Provenance.Clocks, "governor performance | locked 2.4 GHz"; got != want {
			t.Errorf("clocks: got %q, want %q", got, want)
		}
		if got := d.Compute.Provenance.Hardware; got != cpu || d.Comm.Provenance.Hardware != cpu {
			t.Errorf("hardware: got %+v and %+v, want that of the part with the lowest id", got, d.Comm.Provenance.Hardware)
		}
		folder := t.TempDir()
		must.Do(t, Write(folder, d))
		if got := contents(t, folder); i == 0 {
			first = got
		} else if !cmp.Equal(first, got) {
			t.Errorf("order %v: other bytes", order)
		}
	}
}

// parts returns the sample in three parts that merge, measured on machines that
// differ in clocks and bandwidths. The all-to-all of the lowest id is not in the
// part with the lookups of the lowest id.
func parts() []Dataset {
	next := -1
	parts := splitUp(clone(sample()), 3, 1, func() int { next++; return []int{0, 1, 2, 2, 1, 0}[next] })
	for i := range parts {
		for _, p := range []*Provenance{&parts[i].Compute.Provenance, &parts[i].Comm.Provenance} {
			h := &p.Hardware
			h.HBMGBps += float64(i)
			h.HBMEfficiency -= .1 * float64(i)
			h.L2GBps += float64(i)
			h.ClockGHz += float64(i)
			h.AllToAllLatencyUS += float64(i)
			h.IntraGBps += float64(i)
			if i == 2 {
				p.Clocks = "locked 2.4 GHz"
			}
		}
	}
	return parts
}

func TestMergeErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(parts []Dataset)
		want   []string
	}{
		{"source", func(p []Dataset) { p[1].Compute.Provenance.Source = Simulated }, []string{`fused lookups: mixed provenance: source is "measured" in part 1 and "simulated" in part 2`}},
		{"profile", func(p []Dataset) {
			for _, from := range []*Provenance{&p[1].Compute.Provenance, &p[1].Comm.Provenance} {
				from.Profile, from.Hardware = "gpu", hardware.Profile{}
			}
		}, []string{`fused lookups: mixed provenance: profile is "cpu" in part 1 and "gpu" in part 2`, "hardware is stated", "all-to-alls: mixed provenance: profile", "hardware is"}},
		{"several", func(p []Dataset) {
			a, b := &p[1].Compute.Provenance, &p[2].Comm.Provenance
			a.Backend, a.Seed, a.Design = "other", 8, "x"
			b.Tool, b.Device, b.Kernel = "v9", "Other CPU", "other"
		}, []string{
			`fused lookups: mixed provenance: meter is "worker, protocol 1" in part 1 and "other" in part 2`,
			`seed is 9223372036854775815 in part 1 and 8 in part 2`, `design is "9f1c" in part 1 and "x" in part 2`,
			`all-to-alls: mixed provenance: tool is "v0.3.0" in part 1 and "v9" in part 3`,
			`device is "Some CPU @ 2.45GHz" in part 1 and "Other CPU" in part 3`, `kernel is `,
		}},
		{"measuring", func(p []Dataset) {
			a := &p[2].Compute.Provenance
			a.Threads, a.Cache, a.Warmup, a.Repeats = 4, "warm", 2, 5
		}, []string{`threads is 2 in part 1 and 4 in part 3`, `cache is "flushed 128MiB" in part 1 and "warm" in part 3`, "warmup is 1 in part 1 and 2 in part 3", "repeats is 3 in part 1 and 5 in part 3"}},
		{"no hardware", func(p []Dataset) { p[1].Compute.Provenance.Hardware = hardware.Profile{} }, []string{"hardware is stated in part 1 and not stated in part 2"}},
		{"hardware", func(p []Dataset) {
			h := &p[1].Compute.Provenance.Hardware
			h.Memory, h.L2, h.SMs, h.Granule = 1<<30, 2, 3, 128
		}, []string{"hardware memory_bytes is 8589934592 in part 1 and 1073741824 in part 2", "hardware l2_bytes is 33554432 in part 1 and 2", "hardware sms is 2 in part 1 and 3", "hardware granule_bytes is 64 in part 1 and 128"}},
		{"doubled", func(p []Dataset) {
			p[2].Compute.Samples = append(p[2].Compute.Samples, p[0].Compute.Samples...)
			p[0].Comm.Samples = append(p[0].Comm.Samples, p[1].Comm.Samples...)
		}, []string{"fused lookups: sample 0 is in part 1 and in part 3"}},
		{"the same part twice", func(p []Dataset) { p[1] = p[0] }, []string{"fused lookups: sample 0 is in part 1 and in part 2"}},
		{"doubled within", func(p []Dataset) { p[0].Compute.Samples = append(p[0].Compute.Samples, p[0].Compute.Samples[0]) }, []string{"part 1: fused lookups: sample 0: the id is used twice"}},
		{"table", func(p []Dataset) {
			p[2].Compute.Tables = slices.Clone(p[2].Compute.Tables)
			p[2].Compute.Tables[1].Rows++
		}, []string{`the tables of part 3 are not those of part 1: table 1, "item" and "item"`}},
		{"tables", func(p []Dataset) { p[2].Compute.Tables = p[2].Compute.Tables[:3] }, []string{"the tables of part 3 are not those of part 1: 3 and 4 of them"}},
		{"empty", func(p []Dataset) { p[1] = Dataset{} }, []string{"part 2: the dataset is empty"}},
		{"invalid", func(p []Dataset) { p[1].Compute.Samples[0].Forward = -1 }, []string{"sample 1: -1 ms"}},
		{"splits", func(p []Dataset) { p[1].Compute.Samples[0].Members[0].Table = 0 }, []string{"table 0 is in samples of the splits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts := parts()
			c.change(parts)
			_, err := Merge(parts...)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want one with %q", err, want)
				}
			}
			if n := strings.Count(fmt.Sprint(err), "\n") + 1; n != len(c.want) {
				t.Errorf("got %d faults, want %d: %v", n, len(c.want), err)
			}
		})
	}
	if _, err := Merge(); err == nil {
		t.Error("no parts: got no error")
	}
}

func TestNoise(t *testing.T) {
	c := &Compute{Tables: []problem.Table{{}}}
	for i := range 5 {
		c.Samples = append(c.Samples, Group{ID: i, Forward: 4, Backward: 6, ForwardSpread: .1 * 10 / 2, Quarantined: i == 4})
	}
	c.Samples[3].BackwardSpread = 1
	c.Repeats = []Repeat{{0, 5, 6}, {1, 3, 5}, {2, 4, 6}, {4, 400, 600}} // 10 %, 20 %, 0 %, and one that is quarantined
	c.Anchors = []Anchor{{0, 1, 1}, {100, 1, 1.5}, {200, 1, 1}}
	got := c.Noise()
	want := Noise{Repeats: 3, Mean: 10, Median: 10, P95: 19, Anchors: 3, Drift: 25, Spread: 5}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
		t.Errorf("noise (-want +got):\n%s", diff)
	}
	if got := (&Compute{Samples: []Group{{Forward: 1, Backward: 1}}}).Noise(); got != (Noise{}) {
		t.Errorf("simulated samples: got %+v, want nothing", got)
	}
	if n := len(c.Usable()); n != 4 || len(c.Samples) != 5 {
		t.Errorf("got %d usable samples, want 4", n)
	}
	e := &Comm{Samples: []Exchange{{ID: 1, Quarantined: true}, {ID: 2}}}
	if u := e.Usable(); len(u) != 1 || u[0].ID != 2 || !e.Samples[0].Quarantined {
		t.Errorf("got %+v", u)
	}
}
