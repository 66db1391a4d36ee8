package dataset

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/unit"
)

// scaled is a dataset of the same samples whose times are f times as long.
func scaled(d Dataset, f unit.Millis) Dataset {
	compute, comm := *d.Compute, *d.Comm
	compute.Samples, comm.Samples = slices.Clone(compute.Samples), slices.Clone(comm.Samples)
	compute.Repeats = slices.Clone(compute.Repeats)
	for i := range compute.Samples {
		compute.Samples[i].Forward *= f
		compute.Samples[i].Backward *= f
	}
	for i := range compute.Repeats {
		compute.Repeats[i].Forward *= f
		compute.Repeats[i].Backward *= f
	}
	for i := range comm.Samples {
		e := &comm.Samples[i]
		times := func(list []unit.Millis) []unit.Millis {
			return each1(list, func(t unit.Millis) unit.Millis { return f * t })
		}
		e.Forward, e.Backward = times(e.Forward), times(e.Backward)
	}
	return Dataset{Compute: &compute, Comm: &comm}
}

// joinable is sample with times that doubling and halving keep exact and valid.
func joinable() Dataset {
	d := sample()
	d.Compute.Samples[2].Backward = 3e5
	d.Compute.Repeats[1].Backward = 3.1e5
	return d
}

func TestJoin(t *testing.T) {
	d := joinable()
	passes := []Dataset{scaled(d, 4), scaled(d, 1), scaled(d, 2)}
	for _, c := range []struct {
		fastest bool
		passes  []Dataset
		factor  unit.Millis
	}{{false, passes, 2}, {true, passes, 1}, {false, passes[:2], 2.5}, {true, passes[:1], 4}} {
		got := must.Get(Join(c.fastest, c.passes...))(t)
		want := scaled(d, c.factor)
		want.Compute.Anchors = nil
		for k := range c.passes {
			for _, a := range d.Compute.Anchors {
				a.After += k * len(d.Compute.Samples)
				want.Compute.Anchors = append(want.Compute.Anchors, a)
			}
		}
		want.Compute.Provenance.Passes, want.Compute.Provenance.Fastest = len(c.passes), c.fastest
		want.Comm.Provenance.Passes, want.Comm.Provenance.Fastest = len(c.passes), c.fastest
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b unit.Millis) bool { return a-b < 1e-9*a && b-a < 1e-9*b || a == b })); diff != "" {
			t.Errorf("%d passes, fastest %v (-want +got):\n%s", len(c.passes), c.fastest, diff)
		}
	}
}

func TestJoinCountsWhatIsNotQuarantined(t *testing.T) {
	d := joinable()
	passes := []Dataset{scaled(d, 8), scaled(d, 1), scaled(d, 2)}
	passes[1].Compute.Samples[0].Quarantined = true
	passes[2].Comm.Samples[0].Quarantined = true
	got := must.Get(Join(true, passes...))(t)
	if g, want := got.Compute.Samples[0], 2*d.Compute.Samples[0].Forward; g.Quarantined || g.Forward != want {
		t.Errorf("quarantined once: got %v, quarantined %v, want %v", g.Forward, g.Quarantined, want)
	}
	if g, want := got.Compute.Samples[1], d.Compute.Samples[1].Forward; !g.Quarantined || g.Forward != want {
		t.Errorf("quarantined in all: got %v, quarantined %v, want %v, true", g.Forward, g.Quarantined, want)
	}
	if e, want := got.Comm.Samples[0], d.Comm.Samples[0].Backward; e.Quarantined || !slices.Equal(e.Backward, want) {
		t.Errorf("exchange quarantined once: got %v, quarantined %v, want %v", e.Backward, e.Quarantined, want)
	}
}

// What failed in one pass is taken from the others; a second measurement that a
// pass lacks would be of fewer than the first.
func TestJoinOfWhatIsMissing(t *testing.T) {
	d := joinable()
	passes := []Dataset{scaled(d, 2), scaled(d, 1)}
	passes[1].Compute.Samples = passes[1].Compute.Samples[1:]
	passes[1].Compute.Repeats = passes[1].Compute.Repeats[1:]
	passes[1].Comm = nil
	got := must.Get(Join(true, passes...))(t)
	if g, want := got.Compute.Samples[0], 2*d.Compute.Samples[0].Forward; g.ID != 0 || g.Forward != want {
		t.Errorf("got %v of sample %d, want %v of 0", g.Forward, g.ID, want)
	}
	if len(got.Compute.Samples) != 3 || len(got.Compute.Repeats) != 1 || got.Compute.Repeats[0].ID != 4 || len(got.Comm.Samples) != 3 {
		t.Errorf("got %d groups, repeats %v, %d exchanges", len(got.Compute.Samples), got.Compute.Repeats, len(got.Comm.Samples))
	}
}

func TestJoinErrors(t *testing.T) {
	for name, c := range map[string]struct {
		break1 func(d *Dataset)
		want   string
	}{
		"device":   {func(d *Dataset) { d.Compute.Provenance.Device = "another" }, `device is "Some CPU @ 2.45GHz" in pass 1 and "another" in pass 2`},
		"design":   {func(d *Dataset) { d.Comm.Provenance.Design = "another" }, `all-to-alls: mixed provenance: design`},
		"tables":   {func(d *Dataset) { d.Compute.Tables = slices.Clone(d.Compute.Tables); d.Compute.Tables[1].Rows++ }, "the tables of pass 2 are not those of pass 1: table 1"},
		"members":  {func(d *Dataset) { d.Compute.Samples[0].Members = []Member{{0, 32}} }, "fused lookups: sample 0 of pass 2"},
		"split":    {func(d *Dataset) { d.Compute.Samples[2].Split = Train }, "fused lookups: sample 4 of pass 2"},
		"dims":     {func(d *Dataset) { d.Comm.Samples[0].DimSums = []int{4, 4} }, "all-to-alls: sample 0 of pass 2"},
		"starts":   {func(d *Dataset) { d.Comm.Samples[0].Start = []unit.Millis{0, 1} }, "all-to-alls: sample 0 of pass 2"},
		"no times": {func(d *Dataset) { d.Comm.Samples[0].Forward = nil }, "pass 2: all-to-alls"},
		"empty":    {func(d *Dataset) { *d = Dataset{} }, "pass 2: the dataset is empty"},
	} {
		d, other := joinable(), joinable()
		c.break1(&other)
		got, err := Join(false, d, other)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
		if got.Compute != nil || got.Comm != nil {
			t.Errorf("%s: got a dataset with the error", name)
		}
	}
	if _, err := Join(false); err == nil {
		t.Error("no passes: got no error")
	}
}

// One pass, or the same pass again, changes no time.
func TestJoinOfTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDataset(t)
		passes := slices.Repeat([]Dataset{d}, rapid.IntRange(1, 4).Draw(t, "passes"))
		got := must.Get(Join(rapid.Bool().Draw(t, "fastest"), passes...))(t)
		times := func(d Dataset) (all []Group, comm []Exchange) {
			if d.Compute != nil {
				all = d.Compute.Samples
			}
			if d.Comm != nil {
				comm = d.Comm.Samples
			}
			return all, comm
		}
		wantGroups, wantComm := times(d)
		gotGroups, gotComm := times(got)
		near := cmp.Comparer(func(a, b unit.Millis) bool { return a == b || a-b < 1e-12*a && b-a < 1e-12*b })
		if diff := cmp.Diff(wantGroups, gotGroups, near); diff != "" {
			t.Fatalf("groups (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantComm, gotComm, near); diff != "" {
			t.Fatalf("exchanges (-want +got):\n%s", diff)
		}
	})
}

// Both parts of a joined dataset have the same measured facts where those of each
// pass had, and their own where those of a pass did not.
func TestJoinedHardware(t *testing.T) {
	first, second := joinable(), joinable()
	first.Comm = nil
	other := cpu
	other.HBMGBps, other.IntraGBps = other.HBMGBps+1, other.IntraGBps+1
	second.Compute.Provenance.Hardware, second.Comm.Provenance.Hardware = other, other
	got, err := Join(false, first, second)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got.Compute.Provenance.Hardware, got.Comm.Provenance.Hardware; a != cpu || b != cpu {
		t.Errorf("got hardware %+v and %+v, want that of the first pass twice", a, b)
	}
	second.Compute.Provenance.Hardware = cpu
	if got, err = Join(false, first, second); err != nil {
		t.Fatal(err)
	}
	if a, b := got.Compute.Provenance.Hardware, got.Comm.Provenance.Hardware; a != cpu || b != other {
		t.Errorf("passes of several devices: got hardware %+v and %+v, want each part's own", a, b)
	}
}
