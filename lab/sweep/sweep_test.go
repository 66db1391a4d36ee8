package sweep

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// all are the sharding types of the command's default.
var all = Types{"all", problem.ShardingTypes()}

// tiny returns a sweep over the drawn workload's tables.
func tiny(t testing.TB, axes Axes, change func(*Definition)) *Sweep {
	t.Helper()
	w := must.Get(workload.ByName("paper-d4_m64-0"))(t)
	p := w.Problem()
	p.Topology.Memory, p.Topology.ReserveShare = 0, 0
	def := Definition{Name: "tiny", Axes: axes, Types: all, MaxEvaluations: 300, Parts: input.Parts{
		Tables:   input.TableFile{Name: "tiny", Tables: p.Tables[:8], Batch: p.Batch},
		Workload: &input.Cluster{Problem: problem.Problem{Topology: p.Topology, Batch: p.Batch, CommPrecision: p.CommPrecision}},
	}}
	if change != nil {
		change(&def)
	}
	s := must.Get(New(def))(t)
	return s
}

func planned(t testing.TB, s *Sweep, opt Options) []Outcome {
	t.Helper()
	outcomes := must.Get(s.Run(t.Context(), opt))(t)
	return outcomes
}

// Every cell is the plan that neuroshard.Plan finds for its problem.
func TestCellsArePlans(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{2, 4}, Hosts: []int{2}, Devices: []string{"a100-80", "h100-80"}, Batches: []int{8192, 16384}}, func(d *Definition) {
		d.Tariff = &Tariff{flat: 2}
	})
	outcomes := planned(t, s, Options{})
	if len(outcomes) != 8 {
		t.Fatalf("got %d outcomes, want 8", len(outcomes))
	}
	for i, o := range outcomes {
		p := &problem.Problem{Tables: s.def.Parts.Tables.Tables, Batch: []int{8192, 16384}[i/4]}
		profile := must.Get(hardware.ByName([]string{"a100-80", "h100-80"}[i/2%2]))(t)
		p.Topology = hardware.Topology{Profile: profile, Devices: []int{2, 4}[i%2], DevicesPerHost: 2}
		r := must.Get(neuroshard.Plan(t.Context(), p, neuroshard.Options{Search: search.Options{Workers: 1, ShardingTypes: all.Allowed, MaxEvaluations: 300}}))(t)
		n := o.Plan
		if o.Number != i+1 || o.Status != Fits || o.Devices != p.Topology.Devices || o.Device != profile.Name || o.Batch != p.Batch {
			t.Errorf("got outcome %+v, want cell %d of %d x %s, batch %d", o, i+1, p.Topology.Devices, profile.Name, p.Batch)
		}
		if n.Predicted != float64(r.Predicted.Cost) || n.Simulated != float64(r.Simulated.Cost) || n.Step != n.Simulated || n.Whole {
			t.Errorf("cell %d: got costs %v, %v and step %v, want %v and %v", o.Number, n.Predicted, n.Simulated, n.Step, r.Predicted.Cost, r.Simulated.Cost)
		}
		if want := float64(p.Batch) / n.Simulated * 1e3; n.SamplesPerSecond != want {
			t.Errorf("cell %d: got %v samples/s, want %v", o.Number, n.SamplesPerSecond, want)
		}
		hours := 1e9 / n.SamplesPerSecond / 3600
		if want := hours * 2 * float64(p.Topology.Devices); math.Abs(n.PricePerBillion/want-1) > 1e-12 {
			t.Errorf("cell %d: got a price of %v, want %v", o.Number, n.PricePerBillion, want)
		}
		var most unit.Bytes
		for _, held := range r.Shards {
			sum := p.DeviceMemory(0)
			for _, shards := range r.Shards {
				for _, shard := range shards {
					sum = sum.Add(p.SharedMemory(shard))
				}
			}
			for _, shard := range held {
				sum = sum.Add(p.ShardMemory(shard))
			}
			_, peak := sum.Peak()
			most = max(most, peak.Used())
		}
		if n.Memory != most || n.Budget != p.Topology.Budget(0) {
			t.Errorf("cell %d: got %v of %v, want %v of %v", o.Number, n.Memory, n.Budget, most, p.Topology.Budget(0))
		}
	}
}

// Files do not depend on the number of workers, and joined parts are the file of one run.
func TestDeterministicAndJoined(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{1, 2, 4}, Devices: []string{"a100-80", "h100-80"}, Precisions: []problem.Precision{problem.FP32, problem.FP16}}, nil)
	whole := File{s.Head(Part{}), planned(t, s, Options{Workers: 1})}
	if again := (&File{s.Head(Part{}), planned(t, s, Options{Workers: 7})}); !bytes.Equal(again.bytes(), whole.bytes()) {
		t.Error("got other bytes with 7 workers than with 1")
	}
	for _, n := range []int{1, 2, 5, 12} {
		var names []string
		var files []*File
		for i := n; i >= 1; i-- {
			part := Part{i, n}
			f := File{s.Head(part), planned(t, s, Options{Part: part})}
			if got := f.Missing(); got != 0 {
				t.Errorf("part %v: got %d missing cells, want 0", part, got)
			}
			read := must.Get(Read("part", bytes.NewReader(f.bytes())))(t)
			if diff := cmp.Diff(f.Outcomes, read.Outcomes); diff != "" {
				t.Fatalf("part %v: the file holds other outcomes: %s", part, diff)
			}
			names, files = append(names, part.String()), append(files, read)
		}
		joined := must.Get(Join(names, files))(t)
		if !bytes.Equal(joined.bytes(), whole.bytes()) {
			t.Errorf("%d parts: got other bytes than from one run", n)
		}
	}
}

// A cell without a plan is an outcome with its reason; only if no cell can be composed, New
// fails.
func TestCellsWithoutPlans(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{1, 4}, Devices: []string{"a100-80", "rtx2080ti"}, Hosts: []int{1}}, func(d *Definition) {
		d.Axes.Scales = []Scale{{}, {Rows: 1000}}
	})
	outcomes := planned(t, s, Options{Explain: func(err error) (string, string) { return "why: " + err.Error(), "a change" }})
	var got []string
	for _, o := range outcomes {
		got = append(got, o.Scale+" "+o.Device+" "+string(o.Status))
		if (o.Plan == nil) != (o.Status != Fits) || (o.Reason == "") != (o.Status == Fits) {
			t.Errorf("got outcome %+v, want a plan or a reason", o)
		}
		if o.Status != Fits && (o.Remedy != "a change" || !strings.HasPrefix(o.Reason, "why: ")) {
			t.Errorf("got reason %q and remedy %q, want those of Explain", o.Reason, o.Remedy)
		}
	}
	want := []string{
		"none a100-80 fits", "none a100-80 fits", "none rtx2080ti fits", "none rtx2080ti not possible",
		"rows=1000 a100-80 does not fit", "rows=1000 a100-80 does not fit", "rows=1000 rtx2080ti does not fit", "rows=1000 rtx2080ti not possible",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got): %s", diff)
	}
	_, err := New(Definition{Axes: Axes{Counts: []int{4}, Hosts: []int{1}, Devices: []string{"rtx2080ti"}}, Parts: s.def.Parts, Types: all})
	if err == nil || !strings.Contains(err.Error(), "rtx2080ti") {
		t.Errorf("got error %v, want that rtx2080ti has no network", err)
	}
}

func TestAxesAreChecked(t *testing.T) {
	many := make([]int, 400)
	for i := range many {
		many[i] = i + 1
	}
	for want, axes := range map[string]Axes{
		"--gpus: the value 4 is given twice":                         {Counts: []int{4, 8, 4}},
		"--batch and batch_per_device contradict each other":         {Batches: []int{1}, PerDevice: []int{1}},
		"--gpus: 0 is not between 1 and 65536":                       {Counts: []int{0}},
		"--batch: -1 is not between 1 and 16777216":                  {Batches: []int{-1}},
		`--gpu: device profile "a100" is unknown`:                    {Devices: []string{"a100"}},
		"the axes have 160000 cells: the most of a sweep are 100000": {Counts: many, Hosts: many},
		"--engine: the value any is given twice":                     {Engines: []problem.Engine{"", ""}},
		"batch_per_device: 0 is not between 1 and 16777216":          {PerDevice: []int{0}},
		"scale: the value rows=2,dims=3 is given twice":              {Scales: []Scale{{Rows: 2, Dims: 3}, {Dims: 3, Rows: 2, Pooling: 1}}},
	} {
		if _, err := New(Definition{Axes: axes}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

func TestScale(t *testing.T) {
	for text, want := range map[string]string{
		"none": "none", "rows=1": "none", "rows=2": "rows=2", "dims=1.5,rows=2": "rows=2,dims=1.5", "tables=0.5, pooling=3": "pooling=3,tables=0.5",
		"": "is not of the form", "rows": "is not of the form", "cols=2": "is not of the form", "rows=0": "not a number between", "rows=NaN": "not a number between",
		"rows=-1": "not a number between", "rows=2,rows=3": "gives rows twice", "rows=1e9": "not a number between",
	} {
		s, err := ParseScale(text)
		got := s.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("ParseScale(%q): got %q, want %q", text, got, want)
		}
		if again, err2 := ParseScale(s.String()); err == nil && (err2 != nil || again.String() != s.String()) {
			t.Errorf("ParseScale(%q): got %v and error %v when its text is read again", text, again, err2)
		}
	}
	tables := []problem.Table{
		{Name: "a", Rows: 10, Dim: 12, Features: []problem.Feature{{Name: "f", PoolingFactor: 2}}, Constraint: problem.Constraint{Colocation: "c", MinWidth: 12}},
		{Name: "b", Rows: 3, Dim: 64, Features: []problem.Feature{{Name: "g", PoolingFactor: 1}}, Constraint: problem.Constraint{Colocation: "c"}},
	}
	scaled := must.Get(Scale{Rows: .5, Dims: .5, Pooling: 2, Tables: 1.5}.Of(tables))(t)
	want := []problem.Table{
		{Name: "a", Rows: 5, Dim: 8, Features: []problem.Feature{{Name: "f", PoolingFactor: 4}}, Constraint: problem.Constraint{Colocation: "c", MinWidth: 8}},
		{Name: "a#2", Rows: 5, Dim: 8, Features: []problem.Feature{{Name: "f#2", PoolingFactor: 4}}, Constraint: problem.Constraint{Colocation: "c#2", MinWidth: 8}},
		{Name: "b", Rows: 2, Dim: 32, Features: []problem.Feature{{Name: "g", PoolingFactor: 2}}, Constraint: problem.Constraint{Colocation: "c"}},
	}
	if diff := cmp.Diff(want, scaled); diff != "" {
		t.Errorf("scaled tables (-want +got): %s", diff)
	}
	if tables[0].Rows != 10 || tables[0].Features[0] != (problem.Feature{Name: "f", PoolingFactor: 2}) {
		t.Errorf("got changed tables %+v, want them as they were", tables)
	}
	if half, err := (Scale{Tables: .5}).Of(tables); err != nil || len(half) != 1 || half[0].Name != "a" {
		t.Errorf("got %v and error %v, want the first of two tables", half, err)
	}
	for _, s := range []Scale{{Rows: 1e6}, {Dims: 1e6}, {Tables: 1e6}} {
		large := []problem.Table{{Rows: problem.MaxRows / 2, Dim: problem.MaxDim / 2}, {}, {}}
		if _, err := s.Of(large); err == nil {
			t.Errorf("scale %v: got no error, want one of the limits", s)
		}
	}
}

func TestTariff(t *testing.T) {
	flat, ok, err := ParseFlat("2.5")
	if !ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	h100, _ := hardware.ByName("h100-80")
	a100, _ := hardware.ByName("a100-80")
	on := func(p hardware.Profile, devices, host int) hardware.Topology {
		return hardware.Topology{Profile: p, Devices: devices, DevicesPerHost: host}
	}
	if price, _, ok := flat.Hourly(on(h100, 6, 4)); !ok || price != 15 {
		t.Errorf("got a price of %v, want 15", price)
	}
	for text, want := range map[string]string{"0": "not above 0", "-1": "not above 0", "NaN": "not a number", "Inf": "above 1000000", "1e999": "above 1000000"} {
		if _, ok, err := ParseFlat(text); !ok || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFlat(%q): got %v, %v, want %q", text, ok, err, want)
		}
	}
	if _, ok, _ := ParseFlat("catalog.csv"); ok {
		t.Error("got a number of catalog.csv, want none")
	}
	const header = "Region,InstanceType,AcceleratorName,AcceleratorCount,vCPUs,Price,SpotPrice\n"
	catalog := "\ufeff" + header +
		"here,cpu,,,8,1,\n" +
		"here,eight,H100,8.0,8,20,9\n" +
		"there,eight,H100,8.0,8,19,\n" +
		"here,four,H100-SXM,4,8,11,4\n" +
		"here,half,H100,0.5,8,1,1\n" +
		"here,own,a100-80,8,8,7,\n"
	read := func(spot bool) *Tariff {
		tariff := must.Get(ReadCatalog("catalog.csv", strings.NewReader(catalog), spot))(t)
		return tariff
	}
	for _, c := range []struct {
		on     hardware.Topology
		spot   bool
		price  float64
		source string
	}{
		{on(h100, 16, 8), false, 38, "2 x eight (8 x H100) in there"},
		{on(h100, 4, 8), false, 11, "1 x four (4 x H100-SXM) in here"},
		{on(h100, 6, 4), false, 22, "2 x four (4 x H100-SXM) in here"},
		{on(h100, 5, 0), false, 19, "1 x eight (8 x H100) in there"},
		{on(h100, 16, 8), true, 18, "2 x eight (8 x H100) in here"},
		{on(a100, 8, 8), false, 7, "1 x own (8 x a100-80) in here"},
		{on(h100, 16, 0), false, 0, ""},
		{on(a100, 8, 8), true, 0, ""},
	} {
		price, source, ok := read(c.spot).Hourly(c.on)
		if price != c.price || source != c.source || ok != (c.source != "") {
			t.Errorf("%d x %s, %d a host, spot %v: got %v, %q, want %v, %q", c.on.Devices, c.on.Profile.Name, c.on.PerHost(), c.spot, price, source, c.price, c.source)
		}
	}
	for want, text := range map[string]string{
		"column InstanceType is missing":            "gpu,usd\nH100,3\n",
		"catalog.csv:2: Price: 0 is not above 0":    header + "a,b,H100,8,,0,\n",
		"catalog.csv:2: Price: NaN is not a number": header + "a,b,H100,8,,NaN,\n",
		`catalog.csv:2: Price: "x" is not a number`: header + "a,b,H100,8,,x,\n",
		"catalog.csv:2: Price: -3 is not above 0":   header + "a,b,H100,8,,-3,\n",
		`AcceleratorCount: "" is no number`:         header + "a,b,H100,,,3,\n",
		`AcceleratorCount: "NaN" is no number`:      header + "a,b,H100,NaN,,3,\n",
		"no row has an accelerator and a price":     header,
		"it is no CSV file with a header":           "",
		"wrong number of fields":                    header + "a,b\n",
	} {
		if _, err := ReadCatalog("catalog.csv", strings.NewReader(text), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

// outcome returns an outcome with a plan.
func outcome(number int, scale string, devices int, speed, price, bar float64) Outcome {
	return Outcome{Cell: Cell{Number: number, Scale: scale, Batch: 8, Device: "h200", Devices: devices}, Status: Fits, Plan: &Planned{SamplesPerSecond: speed, PricePerBillion: price, ErrorPercent: bar, Predicted: 1, Step: 1}}
}

// A loader, a dense part and host memory bind where they should.
func TestBinds(t *testing.T) {
	a100, _ := hardware.ByName("a100-80")
	for _, c := range []struct {
		topology hardware.Topology
		want     Bind
	}{
		{hardware.Topology{Profile: a100, Devices: 8}, NVLink},
		{hardware.Topology{Profile: a100, Devices: 16, DevicesPerHost: 8}, Network},
		{hardware.Topology{Profile: a100, Devices: 16, DevicesPerHost: 8, NVLinkDomain: 16}, NVLink},
		{hardware.Topology{Profile: a100, Devices: 16, DevicesPerHost: 8, NetworkBandwidth: 10 * unit.Bandwidth(unit.TB)}, NVLink},
	} {
		if got := linkOf(c.topology); got != c.want {
			t.Errorf("%+v: got %v, want %v", c.topology, got, c.want)
		}
	}
	for _, c := range []struct {
		bound step.Bound
		want  Bind
	}{{step.BoundLoader, Loader}, {step.BoundHost, Host}} {
		n := Planned{Step: 10, Lookups: 8}
		n.wholeStep(&step.Times{Bound: c.bound})
		if got := n.binds(nil, nil, 0); got != c.want {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
	p := &problem.Problem{Topology: hardware.Topology{Profile: a100, Devices: 8}}
	r := &neuroshard.Result{Shards: make([][]problem.Shard, 8)}
	for want, n := range map[Bind]Planned{
		HBM: {Lookups: 3, Exchanges: 2, Dense: 1}, NVLink: {Lookups: 1, Exchanges: 2, Dense: 1}, Dense: {Lookups: 1, Exchanges: 2, Dense: 3},
	} {
		if got := n.binds(p, r, 0); got != want {
			t.Errorf("%+v: got %v, want %v", n, got, want)
		}
	}
	table := problem.Table{Name: "t", Rows: 1e6, Dim: 64, Features: []problem.Feature{{PoolingFactor: 10}}, Precision: problem.FP32}
	p.Tables, p.Batch = []problem.Table{table}, 65536
	shard := p.Whole(0)
	shard.Tier = problem.Host
	r.Shards[0] = []problem.Shard{shard}
	if got := (&Planned{Lookups: linked(p, r.Shards[0]) * 1.5}).binds(p, r, 0); got != HostMemory {
		t.Errorf("got %v, want %v", got, HostMemory)
	}
}

// A sweep that was stopped anywhere goes on from what it kept, and ends with the file of one run.
func TestKeep(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{1, 2, 4}, Devices: []string{"a100-80", "h100-80"}}, nil)
	want := (&File{s.Head(Part{}), planned(t, s, Options{})}).bytes()
	stop := errors.New("stop")
	path := filepath.Join(t.TempDir(), "sweep.jsonl")
	for kept := range 7 {
		for _, run := range []struct{ from, to int }{{0, kept}, {kept, 6}, {6, 6}} {
			made := run.from
			_, err := s.Keep(t.Context(), path, Options{Workers: 1, OnOutcome: func(_ Outcome, done, of int) error {
				if done != made+1 || of != 6 {
					t.Errorf("got %d of %d done, want %d of 6", done, of, made+1)
				}
				if made == run.to {
					return stop
				}
				made++
				return nil
			}})
			if made != run.to || (err != nil) != (run.to < 6) || err != nil && !errors.Is(err, stop) {
				t.Fatalf("%+v: got %d outcomes and error %v", run, made, err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("after %d cells: got another file than from one run, error %v", kept, err)
		}
		if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
			t.Errorf("got files %v, want the sweep alone", left)
		}
		must.Do(t, os.Remove(path))
	}
}

// Ctrl-C keeps the finished cells, and no half of one.
func TestInterrupted(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{1, 2, 3, 4}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	outcomes, err := s.Run(ctx, Options{Workers: 1, OnOutcome: func(_ Outcome, done, _ int) error {
		if done == 2 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) || len(outcomes) != 2 {
		t.Errorf("got %d outcomes and error %v, want 2 and the context's", len(outcomes), err)
	}
	full := errors.New("disk full")
	if _, err := s.Run(t.Context(), Options{OnOutcome: func(Outcome, int, int) error { return full }}); !errors.Is(err, full) {
		t.Errorf("got error %v, want %v", err, full)
	}
}

// Files of other sweeps, versions and parts, and edited ones, are refused and stay as they are.
func TestRefused(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{1, 2, 4}}, nil)
	other := tiny(t, Axes{Counts: []int{1, 2, 4}}, func(d *Definition) { d.Seed = 1 })
	path := filepath.Join(t.TempDir(), "sweep.jsonl")
	text := (&File{s.Head(Part{}), planned(t, s, Options{})}).bytes()
	lines := strings.SplitAfter(string(text), "\n")
	edit := func(old, now string) string { return strings.Replace(string(text), old, now, 1) }
	for want, c := range map[string]struct {
		text string
		by   *Sweep
		part Part
	}{
		"it is another sweep (tiny, 3 cells)":                           {string(text), other, Part{}},
		"it is part 1/1 of the sweep, not 1/2":                          {string(text), s, Part{1, 2}},
		"it is a sweep by neuroshard 0.0.9":                             {edit(neuroshard.Version, "0.0.9"), s, Part{}},
		"it is a file of format version 2":                              {edit(`"version":1`, `"version":2`), s, Part{}},
		"it is not the file of a sweep":                                 {"{}\n", s, Part{}},
		"line 3: it is not one that neuroshard writes: cell 1 is twice": {lines[0] + lines[1] + lines[1], s, Part{}},
		"cell 9 is twice, of another part":                              {edit(`"cell":1,`, `"cell":9,`), s, Part{}},
		`"not possible" with or without a plan`:                         {edit(`"status":"fits"`, `"status":"not possible"`), s, Part{}},
		"line 1: part 0/1 of 3 cells":                                   {edit(`"index":1`, `"index":0`), s, Part{}},
		"line 1: the axes do not have 3 cells":                          {edit(`["1","2","4"]`, `["1","2"]`), s, Part{}},
		"line 2: it is not one that neuroshard writes: cell 1 has no":   {edit(`"device":`, `"was":`), s, Part{}},
		"there are more than 100000 elements":                           {edit(`"status":"fits"`, `"status":"fits","plan":{"warnings":[""`+strings.Repeat(`,""`, MaxCells)+`]}`), s, Part{}},
	} {
		must.Do(t, os.WriteFile(path, []byte(c.text), 0o666))
		_, err := c.by.Keep(t.Context(), path, Options{Part: c.part})
		if refused := (*NotSweep)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != c.text {
			t.Errorf("%s: got a changed file, want it as it was", want)
		}
	}
}

func TestJoinRefuses(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{1, 2, 3, 4}}, nil)
	whole := planned(t, s, Options{})
	part := func(i, n int) *File {
		f := &File{Head: s.Head(Part{i, n})}
		for _, o := range whole {
			if f.Part.has(o.Number - 1) {
				f.Outcomes = append(f.Outcomes, o)
			}
		}
		return f
	}
	cut := part(2, 2)
	cut.Outcomes = cut.Outcomes[:1]
	foreign := part(2, 2)
	foreign.Identity = "0"
	for want, files := range map[string][]*File{
		"missing: part 1/4, 3/4":                        {part(2, 4), part(4, 4)},
		"f1: it is part 1/2, and so is f0: give each":   {part(1, 2), part(1, 2)},
		"f1: it is of another sweep or version than f0": {part(1, 2), foreign},
		"f1: it is part 3/4, and f0 is part 1/2":        {part(1, 2), part(3, 4)},
		"f0: part 2/2 has 1 of its 2 cells":             {cut},
	} {
		if _, err := Join([]string{"f0", "f1"}[:len(files)], files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// The same definition has the same identity, and a change of anything that outcomes depend on
// has another one.
func TestIdentity(t *testing.T) {
	axes := Axes{Counts: []int{2, 4}}
	same := tiny(t, axes, nil).identity
	if got := tiny(t, axes, nil).identity; got != same {
		t.Errorf("got identity %s, want %s again", got, same)
	}
	for name, change := range map[string]func(*Definition){
		"seed": func(d *Definition) { d.Seed = 1 }, "evaluations": func(d *Definition) { d.MaxEvaluations = 7 },
		"tariff": func(d *Definition) { d.Tariff = &Tariff{flat: 1} }, "types": func(d *Definition) { d.Types = Types{"table_wise", []problem.ShardingType{problem.TableWise}} },
		"prices": func(d *Definition) { d.Prices = neuroshard.TorchRec() }, "axes": func(d *Definition) { d.Axes.Counts = []int{4, 2} },
		"tables": func(d *Definition) { d.Parts.Tables.Tables = d.Parts.Tables.Tables[1:] },
		"memory": func(d *Definition) { d.Parts.Overrides = input.Overrides{"memory": "20GiB"} },
		"step": func(d *Definition) {
			d.Parts.Overrides = input.Overrides{"loader": "20GB/s", "step": "3ms"}
		},
	} {
		if tiny(t, axes, change).identity == same {
			t.Errorf("%s: got the same identity, want another one", name)
		}
	}
}

// The CSV has a cell on each line, and the plot is drawn with and without prices.
func TestWritten(t *testing.T) {
	s := tiny(t, Axes{Counts: []int{1, 2}, Devices: []string{"a100-80", "h100-80"}}, func(d *Definition) { d.Tariff = &Tariff{flat: 1} })
	file := File{s.Head(Part{}), planned(t, s, Options{})}
	file.Outcomes[3] = Outcome{Cell: file.Outcomes[3].Cell, Status: Infeasible, Reason: "too large, \"x\""}
	var text bytes.Buffer
	must.Do(t, WriteCSV(&text, NewResults(file, ByCost)))
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "cell,scale,batch,") || !strings.HasSuffix(lines[4], `"too large, ""x""",`) {
		t.Errorf("got CSV %s", text.String())
	}
	for _, line := range lines[:4] {
		if got, want := strings.Count(line, ","), strings.Count(lines[0], ","); got != want {
			t.Errorf("got %d columns, want %d: %s", got, want, line)
		}
	}
	for _, prices := range []string{"", "given"} {
		file.Prices = prices
		var svg bytes.Buffer
		must.Do(t, Plot(&svg, NewResults(file, "")))
		if got := strings.Contains(svg.String(), "price of 10^9 samples"); got != (prices != "") || !strings.Contains(svg.String(), "h100-80") {
			t.Errorf("prices %q: got a panel of prices: %v", prices, got)
		}
	}
	for i := range file.Outcomes {
		file.Outcomes[i] = Outcome{Cell: file.Outcomes[i].Cell, Status: Infeasible, Reason: "x"}
	}
	if err := Plot(&bytes.Buffer{}, NewResults(file, "")); err != nil {
		t.Errorf("without plans: %v", err)
	}
}
