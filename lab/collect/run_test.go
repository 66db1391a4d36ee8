package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/journal"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/unit"
)

// sameSamples compares the samples of two collections of one design. The numbers of
// anchors differ with the number of starts.
func sameSamples(t *testing.T, got, want dataset.Dataset) {
	t.Helper()
	a, b := *got.Compute, *want.Compute
	if a.Anchors, b.Anchors = nil, nil; reflect.DeepEqual(a, b) && reflect.DeepEqual(got.Comm, want.Comm) {
		return // the fast comparison
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(dataset.Compute{}, "Anchors"), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestRunMeasuresAll(t *testing.T) {
	design := drawn(t, 120, 30)
	backend := newScript()
	folder := filepath.Join(t.TempDir(), "a", "samples")
	var last Progress
	opt := Options{AnchorEvery: 25, Tool: "v1", OnProgress: func(p Progress) {
		if p.Done != last.Done+1 || p.Total != 153 || p.Before != 0 {
			t.Fatalf("got progress %+v after %+v", p, last)
		}
		last = p
	}}
	got, err := Run(context.Background(), design, backend, folder, opt)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Progress{Phase: PhaseRepeats, Done: 153, Total: 153}); last != want {
		t.Errorf("got last progress %+v, want %+v", last, want)
	}
	by := backend.provenance
	by.Seed, by.Tool, by.Design = 3, "v1", Digest(design)
	if diff := cmp.Diff(by, got.Compute.Provenance); diff != "" {
		t.Errorf("provenance (-want +got):\n%s", diff)
	}
	for i, g := range got.Compute.Samples {
		want := design.Compute.Samples[i]
		timing := steadyTiming(&want)
		want.Forward, want.Backward, want.ForwardSpread, want.BackwardSpread = timing.Forward, timing.Backward, timing.ForwardSpread, timing.BackwardSpread
		if diff := cmp.Diff(want, g); diff != "" {
			t.Fatalf("group %d (-want +got):\n%s", i, diff)
		}
	}
	for i, e := range got.Comm.Samples {
		want := design.Comm.Samples[i]
		timing := steadyComm(&want)
		want.Forward, want.Backward, want.Spread = timing.Forward, timing.Backward, timing.Spread
		if diff := cmp.Diff(want, e); diff != "" {
			t.Fatalf("exchange %d (-want +got):\n%s", i, diff)
		}
	}
	if len(got.Compute.Samples) != 120 || len(got.Comm.Samples) != 30 || len(got.Compute.Repeats) != 3 {
		t.Errorf("got %d groups, %d exchanges, %d repeats", len(got.Compute.Samples), len(got.Comm.Samples), len(got.Compute.Repeats))
	}
	// 3 anchors at the start, one after each 25 samples and after the last 20, one at
	// the end.
	if n := len(got.Compute.Anchors); n != 3+5+1 {
		t.Errorf("got %d anchors, want 9", n)
	}
	if noise := got.Compute.Noise(); noise.Mean != 0 || noise.Repeats != 3 || noise.Drift != 0 {
		t.Errorf("got noise %+v, want none", noise)
	}
	read := must.Get(dataset.Read(folder))(t)
	if diff := cmp.Diff(got, read, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("written (-returned +read):\n%s", diff)
	}
	names := must.Get(os.ReadDir(folder))(t)
	for _, n := range names {
		if strings.HasPrefix(n.Name(), journalName) {
			t.Errorf("%s is left over", n.Name())
		}
	}

	// The second Run says that it is finished.
	idle := newScript()
	again, err := Run(context.Background(), design, idle, folder, opt)
	if !errors.Is(err, ErrFinished) || idle.calls != 0 {
		t.Errorf("again: got error %v and %d measurements, want ErrFinished and none", err, idle.calls)
	}
	sameSamples(t, again, got)
	if _, err := Run(context.Background(), drawn(t, 121, 30), idle, folder, opt); err == nil || errors.Is(err, ErrFinished) || idle.calls != 0 {
		t.Errorf("another design: got error %v, want one that is not ErrFinished", err)
	}
	opt.Shard = Shard{1, 2}
	if _, err := Run(context.Background(), design, idle, folder, opt); err == nil || errors.Is(err, ErrFinished) || !strings.Contains(err.Error(), "shard") {
		t.Errorf("another shard: got error %v, want one that names the shard", err)
	}
}

// A run that is killed at random moments and continued loses and doubles nothing.
func TestKilled(t *testing.T) {
	folder := t.TempDir()
	draw := rand.New(rand.NewPCG(1, 2))
	lines := func() int {
		content, _ := os.ReadFile(filepath.Join(folder, journalName))
		return bytes.Count(content, []byte("\n"))
	}
	begin := func(arguments ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], append([]string{"collector", folder}, arguments...)...)
		cmd.Stderr = os.Stderr
		must.Do(t, cmd.Start())
		return cmd
	}
	const kills = 4
	for range kills {
		before, more := lines(), 1+draw.IntN(14)
		// However late the kill comes, the worker has not measured much more by then. The
		// number leaves room for the anchors.
		cmd := begin(fmt.Sprintf("groups=%d", more+2*anchorTries+6))
		for start := time.Now(); lines() < before+more; time.Sleep(time.Millisecond) {
			if time.Since(start) > hanging {
				t.Fatal("the collector does not get on")
			}
		}
		time.Sleep(time.Duration(draw.IntN(3000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil {
			t.Fatalf("the collector was finished before it was killed %d times", kills)
		}
	}
	cmd := begin()
	must.Do(t, cmd.Wait())
	got := must.Get(dataset.Read(folder))(t)

	w := startFake(t, fakeOptions("work"))
	want := must.Get(collect(context.Background(), drawn(t, killGroups, killExchanges), w, t.TempDir(), killOptions()))(t)
	if len(want.Compute.Samples) != killGroups || len(want.Comm.Samples) != killExchanges || len(want.Compute.Repeats) != 5 {
		t.Fatalf("without kills: got %d groups, %d exchanges, %d repeats", len(want.Compute.Samples), len(want.Comm.Samples), len(want.Compute.Repeats))
	}
	sameSamples(t, got, want)
}

// A damaged journal, one of another program and one that is in use are refused before anything
// is measured.
func TestOtherFiles(t *testing.T) {
	design := drawn(t, 8, 0)
	folder := t.TempDir()
	damaged := bytes.Replace(unwritten(t, design, newScript(), folder, Options{}), []byte(`"fwd":[`), []byte(`"fwd":[1`), 1)
	path := filepath.Join(folder, journalName)
	refused := func(want string) {
		t.Helper()
		backend := newScript()
		if _, err := collect(context.Background(), design, backend, folder, Options{}); err == nil || !strings.Contains(err.Error(), want) || backend.calls != 0 {
			t.Errorf("got error %v and %d measurements, want %q and none", err, backend.calls, want)
		}
	}
	must.Do(t, os.WriteFile(path, damaged, 0o666))
	refused("is damaged")
	if !bytes.Equal(journalOf(t, folder), damaged) {
		t.Error("the damaged journal was changed")
	}
	must.Do(t, os.Remove(path))
	other, _, err := journal.Open[map[string]int](path)
	if err == nil {
		err = other.Append(map[string]int{"other": 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("another process")
	must.Do(t, other.Close())
	refused("of another run")
}

// A journal of another run is refused, and the error names the difference.
func TestOtherJournal(t *testing.T) {
	design := drawn(t, 12, 3)
	begin := func(t *testing.T) string {
		folder := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		backend := newScript()
		backend.compute = func(call int, g *dataset.Group) (Timing, error) {
			if call == 6 {
				cancel()
			}
			return steadyTiming(g), nil
		}
		if _, err := collect(ctx, design, backend, folder, Options{Tool: "v1"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("got error %v, want %v", err, context.Canceled)
		}
		return folder
	}
	for _, c := range []struct {
		name   string
		change func(*script, *dataset.Dataset, *Options)
		want   []string
	}{
		{"device", func(s *script, _ *dataset.Dataset, _ *Options) { s.provenance.Device = "a machine" }, []string{"device", `"a script"`, `"a machine"`}},
		{"profile", func(s *script, _ *dataset.Dataset, _ *Options) { s.provenance.Profile = "b200" }, []string{"profile", `"h200"`, `"b200"`}},
		{"kernel", func(s *script, _ *dataset.Dataset, _ *Options) { s.provenance.Kernel = "script 2" }, []string{"kernel", `"script 2"`}},
		{"source", func(s *script, _ *dataset.Dataset, _ *Options) { s.provenance.Source = dataset.Simulated }, []string{"source", `"simulated"`}},
		{"repeats", func(s *script, _ *dataset.Dataset, _ *Options) { s.provenance.Repeats = 7 }, []string{"repeats", "of repeats 3", "has 7"}},
		{"cache", func(s *script, _ *dataset.Dataset, _ *Options) { s.provenance.Cache = "cold" }, []string{"cache", `"warm"`, `"cold"`}},
		{"tool", func(_ *script, _ *dataset.Dataset, o *Options) { o.Tool = "v2" }, []string{"tool", `"v1"`, `"v2"`, "use the version that began it"}},
		{"passes", func(_ *script, _ *dataset.Dataset, o *Options) { o.Passes = 2 }, []string{"passes"}},
		{"shard", func(_ *script, _ *dataset.Dataset, o *Options) { o.Shard = Shard{1, 2} }, []string{"shard", "1/1", "1/2"}},
		{"seed", func(_ *script, d *dataset.Dataset, _ *Options) { d.Compute.Provenance.Seed = 4 }, []string{"seed", "of seed 3", "has 4", "draw the same samples"}},
		{"design", func(_ *script, d *dataset.Dataset, _ *Options) { d.Compute.Samples = d.Compute.Samples[1:] }, []string{"design"}},
		{"no all-to-alls", func(_ *script, d *dataset.Dataset, _ *Options) { d.Comm = nil }, []string{"design"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := begin(t)
			before := journalOf(t, folder)
			backend, opt, other := newScript(), Options{Tool: "v1"}, drawn(t, 12, 3)
			c.change(backend, &other, &opt)
			_, err := collect(context.Background(), other, backend, folder, opt)
			if err == nil || backend.calls != 0 {
				t.Fatalf("got error %v and %d measurements, want a refusal", err, backend.calls)
			}
			for _, want := range append(c.want, folder, "another folder") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			}
			if !bytes.Equal(before, journalOf(t, folder)) {
				t.Error("the journal was changed")
			}
		})
	}
}

// If each run measures the facts about the hardware again, those of the first run
// are kept.
func TestFirstHardwareStands(t *testing.T) {
	design, folder := drawn(t, 12, 0), t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	backend := newScript()
	backend.provenance.Profile, backend.provenance.Hardware = "cpu", fakeProfile
	backend.compute = func(call int, g *dataset.Group) (Timing, error) {
		if call == 6 {
			cancel()
		}
		return steadyTiming(g), nil
	}
	if _, err := collect(ctx, design, backend, folder, Options{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	backend.compute = nil
	backend.provenance.Hardware.HBMGBps *= 1.01
	var seen []Progress
	got := must.Get(collect(context.Background(), design, backend, folder, Options{OnProgress: func(p Progress) { seen = append(seen, p) }}))(t)
	if first := seen[0]; first.Before != 4 || first.Done != 5 || first.Total != 13 {
		t.Errorf("got first progress %+v, want 5 of 13 done, 4 of them before", first)
	}
	if got.Compute.Provenance.Hardware != fakeProfile {
		t.Errorf("got hardware %+v, want the first run's %+v", got.Compute.Provenance.Hardware, fakeProfile)
	}
}

// Every sample is in one shard, and the order is a permutation.
func TestShards(t *testing.T) {
	design := begun(t, drawn(t, 700, 50))
	rapid.Check(t, func(t *rapid.T) {
		count, seed := rapid.IntRange(1, 9).Draw(t, "count"), rapid.Uint64().Draw(t, "seed")
		var groups, exchanges []int
		for i := range count {
			shard := Shard{i + 1, count}
			ids := order(design.kinds[0].samples, shard, seed)
			if again := order(design.kinds[0].samples, shard, seed); !slices.Equal(ids, again) {
				t.Fatal("the order differs from one time to the next")
			}
			// Runs of one batch are divided only if they are longer than runLength.
			switches := 0
			batches := make(map[int]int)
			for j, id := range ids {
				batch := design.kinds[0].byID[id].batch
				batches[batch]++
				if j > 0 && design.kinds[0].byID[ids[j-1]].batch != batch {
					switches++
				}
			}
			runs := 0
			for _, n := range batches {
				runs += (n + runLength - 1) / runLength
			}
			if switches >= runs {
				t.Fatalf("%d changes of batch in %d runs", switches, runs)
			}
			groups = append(groups, ids...)
			exchanges = append(exchanges, order(design.kinds[1].samples, shard, seed)...)
		}
		for what, ids := range map[int][]int{700: groups, 50: exchanges} {
			slices.Sort(ids)
			if len(ids) != what || ids[0] != 0 || ids[what-1] != what-1 || len(slices.Compact(ids)) != what {
				t.Fatalf("got %d samples in the shards, want each of %d once", len(ids), what)
			}
		}
	})
}

func TestBadOptionsAndDesigns(t *testing.T) {
	twice := drawn(t, 12, 0)
	twice.Compute.Samples[5].ID = 4
	wide := drawn(t, 12, 0)
	wide.Compute.Samples[7].Members[0].Dim = 6
	beyond := drawn(t, 12, 0)
	beyond.Compute.Samples[7].Members[0].Table = 20
	short := drawn(t, 0, 5)
	short.Comm.Samples[2].DimSums = []int{4}
	for _, c := range []struct {
		name   string
		design dataset.Dataset
		opt    Options
		want   string
	}{
		{"nothing", dataset.Dataset{}, Options{}, "the design has no samples"},
		{"empty parts", dataset.Dataset{Compute: &dataset.Compute{}}, Options{}, "the design has no samples"},
		{"shard", drawn(t, 12, 0), Options{Shard: Shard{3, 2}}, "shard 3/2"},
		{"shard 0", drawn(t, 12, 0), Options{Shard: Shard{0, 2}}, "shard 0/2"},
		{"empty shard", drawn(t, 12, 0), Options{Shard: Shard{14, 20}}, "is empty"},
		{"drift", drawn(t, 12, 0), Options{DriftLimit: math.NaN()}, "drift limit"},
		{"twice", twice, Options{}, "sample 4: the id is used twice"},
		{"dim", wide, Options{}, "dim 6"},
		{"table", beyond, Options{}, "table 20: there are 20"},
		{"dim sums", short, Options{}, "dim sums"},
	} {
		backend := newScript()
		folder := filepath.Join(t.TempDir(), "new")
		_, err := collect(context.Background(), c.design, backend, folder, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
		}
		if _, err := os.Stat(folder); err == nil || backend.calls != 0 {
			t.Errorf("%s: the folder was made, or %d samples were measured", c.name, backend.calls)
		}
	}
}

// Failures of a sample are kept and reported, and the sample is tried again if it
// may succeed.
func TestFailures(t *testing.T) {
	design := drawn(t, 60, 10)
	broken := errors.New("it broke")
	times := make(map[int]int)
	backend := newScript()
	backend.compute = func(_ int, g *dataset.Group) (Timing, error) {
		times[g.ID]++
		good := steadyTiming(g)
		switch g.ID {
		case 3:
			return good, &protocol.Error{Code: protocol.CodeMemory, Message: "too large"}
		case 5:
			return good, broken
		case 7:
			if times[g.ID] == 1 {
				return good, broken
			}
		case 9:
			good.Backward = unit.Millis(math.NaN())
		case 11:
			good.Forward = 0
		case 13:
			good.Forward = -1
		case 15:
			good.ForwardSpread = unit.Millis(math.Inf(1))
		case 17:
			return good, &protocol.Error{Code: protocol.CodeInternal, Message: "sticky"}
		}
		return good, nil
	}
	backend.comm = func(_ int, e *dataset.Exchange) (CommTiming, error) {
		t := steadyComm(e)
		if e.ID == 4 {
			t.Forward = t.Forward[1:]
		}
		return t, nil
	}
	told := make(map[string]string)
	folder := t.TempDir()
	opt := Options{OnFailure: func(f Failure) { told[fmt.Sprint(f.Part, f.ID)] = f.Code }}
	unwritten(t, design, backend, folder, opt)
	want := map[string]string{
		"groups3": "oom", "groups5": "crash", "groups9": "times", "groups11": "times", "groups13": "times", "groups15": "times",
		"groups17": "internal", "exchanges4": "times",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	for id, n := range map[int]int{3: 1, 5: 2, 7: 2, 9: 1, 17: 2} {
		if times[id] != n {
			t.Errorf("sample %d was tried %d times, want %d", id, times[id], n)
		}
	}

	// A later run tries again the samples whose failure may have been the backend's
	// fault.
	clear(times)
	clear(told)
	backend.compute = func(_ int, g *dataset.Group) (Timing, error) { times[g.ID]++; return steadyTiming(g), nil }
	got := must.Get(collect(context.Background(), design, backend, folder, opt))(t)
	if times[3] != 0 || times[5] != 1 || times[17] != 1 || len(told) != 1 || told["exchanges4"] != "times" {
		t.Errorf("the later run: tried %v, failed %v", times, told)
	}
	if len(got.Compute.Samples) != 59 || len(got.Comm.Samples) != 9 {
		t.Errorf("got %d groups and %d exchanges, want 59 and 9", len(got.Compute.Samples), len(got.Comm.Samples))
	}
}

func TestTooManyFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func(n int) bool // by the number of the sample that is measured
		want  string
	}{
		{"in a row", func(n int) bool { return n >= 30 }, "20 samples in a row failed"},
		{"in all", func(n int) bool { return n%3 == 0 }, "21 of 300 samples failed"},
	} {
		backend := newScript()
		order := make(map[int]int)
		anchor := -1
		backend.compute = func(call int, g *dataset.Group) (Timing, error) {
			if call == 0 {
				anchor = g.ID
			}
			if _, seen := order[g.ID]; !seen {
				order[g.ID] = len(order)
			}
			if g.ID != anchor && c.fails(order[g.ID]) {
				return Timing{}, errors.New("it broke")
			}
			return steadyTiming(g), nil
		}
		folder := t.TempDir()
		_, err := collect(context.Background(), drawn(t, 300, 0), backend, folder, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "it broke") {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
		}
		// The measurements so far are kept.
		backend.compute = nil
		got, err := collect(context.Background(), drawn(t, 300, 0), backend, folder, Options{})
		if err != nil || len(got.Compute.Samples) != 300 {
			t.Errorf("%s: then: got error %v", c.name, err)
		}
	}
}

func TestAllFail(t *testing.T) {
	backend := newScript()
	backend.compute = func(int, *dataset.Group) (Timing, error) { return Timing{}, errors.New("it broke") }
	if _, err := collect(context.Background(), drawn(t, 12, 0), backend, t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "anchor") {
		t.Errorf("got error %v, want one that there is no anchor", err)
	}
}

// limited is a backend with few capabilities.
type limited struct {
	*script
	caps []string
}

func (l limited) Supports(c string) bool { return slices.Contains(l.caps, c) }

func TestUnsupportedIsToldFirst(t *testing.T) {
	backend := limited{newScript(), []string{protocol.CapCompute, "sgd", "fp32"}}
	_, err := collect(context.Background(), drawn(t, 30, 4), backend, t.TempDir(), Options{})
	if err == nil || backend.calls != 0 {
		t.Fatalf("got error %v and %d measurements", err, backend.calls)
	}
	for _, want := range []string{"rowwise_adagrad", "all-to-alls (4 of 34 samples)", "leave them out"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %q, want %q in it", err, want)
		}
	}
	unequal := drawn(t, 30, 4)
	for i := range unequal.Compute.Tables {
		unequal.Compute.Tables[i].Features[0].LengthCV = .5
	}
	_, err = collect(context.Background(), unequal, backend, t.TempDir(), Options{})
	if want := `bags of unequal length, "length_cv" (30 of 34 samples)`; err == nil || !strings.Contains(err.Error(), want) || backend.calls != 0 {
		t.Errorf("got error %v and %d measurements, want %q and none", err, backend.calls, want)
	}
	backend.caps = append(backend.caps, "rowwise_adagrad", protocol.CapComm)
	if _, err := collect(context.Background(), drawn(t, 30, 4), backend, t.TempDir(), Options{}); err != nil {
		t.Error(err)
	}
}

// A run that has enough writes what it measured, and ends the last block with an anchor.
func TestEnough(t *testing.T) {
	design := drawn(t, 60, 0)
	backend := newScript()
	left := 25
	folder := t.TempDir()
	set := must.Get(Run(context.Background(), design, backend, folder, Options{
		AnchorEvery: 10,
		Enough:      func() bool { return left <= 0 },
		OnProgress:  func(Progress) { left-- },
	}))(t)
	if n := len(set.Compute.Samples); n != 25 || len(set.Compute.Repeats) != 0 {
		t.Errorf("got %d samples and %d repeats, want 25 and none", n, len(set.Compute.Repeats))
	}
	if anchors := set.Compute.Anchors; anchors[len(anchors)-1].After != 25 {
		t.Errorf("got the last anchor after %d samples, want 25", anchors[len(anchors)-1].After)
	}
	whole := must.Get(Run(context.Background(), design, newScript(), t.TempDir(), Options{AnchorEvery: 10}))(t)
	for _, g := range set.Compute.Samples {
		at := slices.IndexFunc(whole.Compute.Samples, func(w dataset.Group) bool { return w.ID == g.ID })
		if diff := cmp.Diff(whole.Compute.Samples[at], g); diff != "" {
			t.Errorf("group %d (-whole +part):\n%s", g.ID, diff)
		}
	}
	if read, err := dataset.Read(folder); err != nil || len(read.Compute.Samples) != 25 {
		t.Errorf("read: %v", err)
	}
	if _, err := Run(context.Background(), design, newScript(), t.TempDir(), Options{Passes: 2, Enough: func() bool { return false }}); err == nil {
		t.Error("two passes and a run that may stop early: got no error")
	}
}

// A run that has enough while the device drifts keeps the samples of the block, in quarantine,
// and measures nothing else: no other anchor and no repeats.
func TestEnoughWhileDrifting(t *testing.T) {
	backend := newScript()
	left := 25
	backend.compute = func(_ int, g *dataset.Group) (Timing, error) {
		timing := steadyTiming(g)
		if left <= 0 {
			timing.Forward *= 1.5
			timing.Backward *= 1.5
		}
		return timing, nil
	}
	set, err := Run(context.Background(), drawn(t, 60, 8), backend, t.TempDir(), Options{
		AnchorEvery: 100,
		Enough:      func() bool { return left <= 0 },
		OnProgress:  func(Progress) { left-- },
	})
	if !errors.Is(err, ErrSetAside) {
		t.Fatalf("got error %v, want %v", err, ErrSetAside)
	}
	if n := len(set.Compute.Samples); n != 25 || set.Comm != nil {
		t.Errorf("got %d samples and all-to-alls %v, want 25 and none", n, set.Comm)
	}
}
