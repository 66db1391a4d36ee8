package input

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// stepParts returns the parts of a problem of two tables of 16 columns on 8 devices, with a
// topology file of this content.
func stepParts(t *testing.T, content string) *Parts {
	t.Helper()
	file := must.Get(Topology("cluster.yaml", strings.NewReader("devices: 8\ndevice: a100-80\n"+content)))(t)
	tables := []problem.Table{
		{Name: "a", Rows: 1000, Dim: 16, Features: []problem.Feature{{Name: "a", PoolingFactor: 1}}},
		{Name: "b", Rows: 1000, Dim: 16, Features: []problem.Feature{{Name: "b", PoolingFactor: 1}}},
	}
	return &Parts{Tables: TableFile{Tables: tables, Batch: 8192}, Topology: &file}
}

// layers is a dense part that fits the tables of stepParts.
const layers = "dense:\n  bottom: [13, 512, 16]\n  interaction: dot\n  top: [1024, 1]\n  precision: bf16\n  optimizer: adam\n"

// TestDenseForms reads one dense part in YAML and in JSON, and presets with other values.
func TestDenseForms(t *testing.T) {
	want := step.Dense{
		Bottom: []int{13, 512, 16}, Interaction: step.DCN, CrossLayers: 3, Inner: 512, Top: []int{1024, 1},
		Precision: step.BF16, ActivationBytes: 250e3, Parallel: step.FSDP, OptimizerBytes: 8,
	}
	for name, content := range map[string]string{
		"dense.yaml": "top: [1024, 1]\nbottom: [13, 512, 16]\ninteraction: {dcn: {layers: 3, rank: 512}}\nprecision: bf16\nactivations: 250kB\nparallel: fsdp\noptimizer: adam\n",
		"dense.json": `{"top": [1024, 1], "bottom": [13, 512, 16], "interaction": {"dcn": {"layers": 3, "rank": 512}}, "precision": "bf16", "activations": "250kB", "parallel": "fsdp", "optimizer": "adam"}`,
	} {
		got := must.Get(Dense(name, strings.NewReader(content)))(t)
		if diff := cmp.Diff(want, got.Dense); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	preset, err := step.DenseByName("mlperf-dlrm-dcnv2")
	if err != nil {
		t.Fatal(err)
	}
	got := must.Get(Dense("dense.yaml", strings.NewReader("parallel: fsdp\npreset: mlperf-dlrm-dcnv2\n")))(t)
	preset.Parallel = step.FSDP
	if diff := cmp.Diff(preset, got.Dense); diff != "" {
		t.Errorf("a preset with another value (-want +got):\n%s", diff)
	}
	given := must.Get(Dense("dense.yaml", strings.NewReader("interaction: {flops: 638e6, parameters: 320e6, layers: 20}\n")))(t)
	if d := given.Dense; d.Interaction != step.Given || d.GivenFLOPs != 638e6 || d.GivenParameters != 320e6 || d.CrossLayers != 20 {
		t.Errorf("got %+v, want the stated FLOP, parameters and layers", d)
	}
	given, err = Dense("dense.yaml", strings.NewReader("preset: mlperf-dlrm-dcnv2\ninteraction: {flops: 638e6, parameters: 0}\ntop: []\n"))
	if err != nil || given.Dense.Interaction != step.Given || given.Dense.GivenFLOPs != 638e6 {
		t.Errorf("in place of a preset's interaction: got %+v and %v, want the stated FLOP", given.Dense, err)
	}
}

// TestStackForms wants a stack with other parts than its preset to have constants that are
// not known, and one with SHARP alone to keep those of its preset.
func TestStackForms(t *testing.T) {
	s, err := Stack("stack.yaml", strings.NewReader("preset: hugectr\nsharp: True\n"))
	if err != nil || !s.SHARP || !s.Known || s.Exchange != step.Uniform {
		t.Errorf("got %+v and error %v, want hugectr with SHARP", s, err)
	}
	s, err = Stack("stack.json", strings.NewReader(`{"preset": "hugectr", "exchange": "flat", "forward": "bf16", "overlap": ["sort"], "launch": "eager"}`))
	if err != nil || s.Known || !reflect.DeepEqual(s.Error, step.UnknownError()) || s.Exchange != step.Flat || *s.Forward != problem.BF16 ||
		*s.Backward != problem.FP16 || s.Overlaps != (step.Overlaps{Sort: true}) || !(s.Constants.Launches > 0) {
		t.Errorf("got %+v and error %v, want the stated parts and unknown constants", s, err)
	}
	if got, want := s.Title(), "hugectr changed in forward, exchange, overlap, launch"; got != want {
		t.Errorf("got title %q, want %q", got, want)
	}
	s, err = Stack("stack.yaml", strings.NewReader("preset: hugectr\nexchange: uniform\nbackward: fp16\nlaunch: graph\n"))
	if err != nil || !s.Known || s.Error.OneHost == 0 || s.Title() != "hugectr" {
		t.Errorf("got %+v and error %v, want hugectr, whose parts the file repeats", s, err)
	}
}

// TestStepOfParts composes the step of files and flags.
func TestStepOfParts(t *testing.T) {
	p := stepParts(t, layers+"engine: hugectr\nstack: hugectr\nstep: 3.9ms\nloader: 20GB/s\nprice: 2.95\n")
	composed, warnings, err := p.Problem()
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got error %v and warnings %q", err, warnings)
	}
	if composed.CommPrecision != problem.FP16 {
		t.Errorf("got exchanges in %v, want the stack's fp16", composed.CommPrecision)
	}
	in := p.Step()
	if in.Stack.Name != "hugectr" || in.Measured.Step != 3.9 || in.Loader != 20e9 || in.PricePerHour != 2.95 || in.Dense.Top[0] != 1024 {
		t.Errorf("got %+v, want what the file states", in)
	}

	if in.Samples != 0 {
		t.Errorf("got %d samples of an epoch, want none, as nobody states them", in.Samples)
	}
	p.Tables.Samples = 4195197692
	if got := p.Step().Samples; got != p.Tables.Samples {
		t.Errorf("got %d samples of an epoch, want the %d of the tables' file", got, p.Tables.Samples)
	}

	// Flags override the file, and a stated number format the stack's.
	p.Overrides = Overrides{"comm_precision": "bf16", "stack": "hugectr-hierarchical", "step": "4ms", "loader": "1GB/s", "price": "$3"}
	if composed, _, err = p.Problem(); err != nil || composed.CommPrecision != problem.BF16 {
		t.Fatalf("got error %v and exchanges in %v, want bf16", err, composed.CommPrecision)
	}
	in = p.Step()
	if in.Stack.Name != "hugectr-hierarchical" || in.Measured.Step != 4 || in.Loader != 1e9 || in.PricePerHour != 3 {
		t.Errorf("got %+v, want what the flags state", in)
	}

	// Nothing stated: no step, and nothing changes.
	p = stepParts(t, "")
	if composed, warnings, err = p.Problem(); err != nil || p.Step() != nil || len(warnings) > 0 || composed.Topology.ReserveShare != 0 || composed.CommPrecision != problem.FP32 {
		t.Errorf("without a step: got %+v, warnings %q, error %v", composed.Topology, warnings, err)
	}
	// A file may state facts of its cluster without a step; flags may not.
	p = stepParts(t, "stack: hugectr\nprice: 2.95\n")
	if _, warnings, err = p.Problem(); err != nil || p.Step() != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "stack, price") {
		t.Errorf("got step %+v, warnings %q and error %v, want a warning", p.Step(), warnings, err)
	}
	p.Overrides = Overrides{"price": "$3"}
	if _, _, err = p.Problem(); err == nil || !strings.Contains(err.Error(), "price: neither a dense part nor a measured step") {
		t.Errorf("got error %v, want one about price alone", err)
	}
}

// TestStackIsAssumed wants a warning if nobody states the stack.
func TestStackIsAssumed(t *testing.T) {
	for engine, want := range map[string]string{"": "torchrec-sparse", "engine: torchrec\n": "torchrec-sparse", "engine: hugectr\n": "hugectr"} {
		p := stepParts(t, engine+"step: 3.9ms\n")
		_, warnings, err := p.Problem()
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], want+" is assumed") || p.Step().Stack.Name != want {
			t.Errorf("%q: got stack %q, warnings %q and error %v, want %s", engine, p.Step().Stack.Name, warnings, err, want)
		}
	}
	p := stepParts(t, "engine: torchrec\nstack: hugectr\nstep: 3.9ms\n")
	if _, warnings, err := p.Problem(); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "priced as hugectr runs it") {
		t.Errorf("got warnings %q and error %v, want one about another engine", warnings, err)
	}
	p = stepParts(t, "stack: hugectr\nstep: 3.9ms\n")
	if _, warnings, err := p.Problem(); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "does not keep to the rules") {
		t.Errorf("got warnings %q and error %v, want one about the engine's rules", warnings, err)
	}
	p = stepParts(t, "stack: hugectr\nstep: 3.9ms\nhost_memory: 1TiB\n")
	if _, _, err := p.Problem(); err == nil || !strings.Contains(err.Error(), "holds no table in host memory") {
		t.Errorf("got error %v, want one about host memory", err)
	}
}

// TestReserveOfDense wants the dense part's memory to take the place of the default reserve,
// and a stated reserve to stay.
func TestReserveOfDense(t *testing.T) {
	p := stepParts(t, layers+"stack: hugectr\n")
	composed, _, err := p.Problem()
	if err != nil {
		t.Fatal(err)
	}
	dense := p.Step().Dense.Of(composed)
	memory := float64(composed.Topology.DeviceMemory(0))
	held, activations := dense.Memory(8, 8192)
	want := held + unit.Bytes(math.Ceil(RuntimeShare*memory))
	if got := composed.Topology; got.Reserve(0) != want || got.Activations != activations {
		t.Errorf("got a reserve of %v and activations of %v, want %v, the dense part and %v of the memory, and %v", got.Reserve(0), got.Activations, want, RuntimeShare, activations)
	}
	ddp := composed.Topology.Reserve(0)

	p = stepParts(t, layers+"  parallel: fsdp\nstack: hugectr\n")
	if composed, _, err = p.Problem(); err != nil || composed.Topology.Reserve(0) >= ddp {
		t.Errorf("with fsdp: got a reserve of %v and error %v, want less than %v", composed.Topology.Reserve(0), err, ddp)
	}

	// The user's reserve wins, in the file and as a flag.
	p = stepParts(t, layers+"reserve_share: 0.3\n")
	if composed, _, err = p.Problem(); err != nil || composed.Topology.ReserveShare != 0.3 || composed.Topology.ReserveFixed != 0 {
		t.Errorf("got %+v and error %v, want the stated share alone", composed.Topology, err)
	}
	fixed := 8 * unit.GiB
	p = stepParts(t, layers)
	p.Overrides = Overrides{"reserve_fixed": "8GiB"}
	if composed, _, err = p.Problem(); err != nil || composed.Topology.KeptShare() != hardware.DefaultReserveShare || composed.Topology.ReserveFixed != fixed {
		t.Errorf("got %+v and error %v, want the stated part and the default share", composed.Topology, err)
	}
	// It must hold the dense part.
	p = stepParts(t, layers)
	p.Overrides = Overrides{"reserve_share": "0"}
	if _, _, err = p.Problem(); err == nil || !strings.Contains(err.Error(), "the stated reserve is 0 B") {
		t.Errorf("got error %v, want one about a reserve without the dense part", err)
	}

	// The cluster of a plan keeps its reserve, its exchanges' format, and needs no room.
	p = stepParts(t, "")
	p.Topology = nil
	d := must.Get(Dense("dense.yaml", strings.NewReader("bottom: [13, 512, 16]\ninteraction: dot\ntop: [1024, 1]\n")))(t)
	p.Dense = &d
	profile := must.Get(hardware.ByName("a100-80"))(t)
	p.Fallback = &Cluster{Problem: problem.Problem{Topology: hardware.Topology{Profile: profile, Devices: 8, ReserveShare: hardware.NoReserve, ReserveFixed: 1}, Batch: 8192}}
	var warnings []string
	if composed, warnings, err = p.Problem(); err != nil || composed.Topology.Reserve(0) != 1 || !strings.Contains(strings.Join(warnings, "\n"), "a step may not fit") || composed.CommPrecision != problem.FP32 {
		t.Errorf("got a reserve of %v, exchanges in %v and error %v, want those of the plan", composed.Topology.Reserve(0), composed.CommPrecision, err)
	}
}

// TestAllStepErrors wants the errors of every flag, of the dense part and of the tables at
// once.
func TestAllStepErrors(t *testing.T) {
	p := stepParts(t, "dense:\n  bottom: [13, 0]\n  interaction: dot\n  top: [1]\n")
	p.Overrides = Overrides{"stack": "hugctr", "step": "3.9", "loader": "20", "price": "much"}
	p.Tables.Tables[1].Rows = 0
	_, _, err := p.Problem()
	for _, want := range []string{
		`stack: stack "hugctr" is unknown`, `did you mean "hugectr"?`, `step: time "3.9" has no unit`, `loader: bandwidth "20" has no unit`,
		`price: "much" is not a price`, "cluster.yaml:4: dense: bottom: width 0", `table "b": rows: 0`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}

func FuzzDense(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"preset": "mlperf-dlrm-v1"}`, "bottom: [1, 2]\ninteraction: cat\ntop: [1]", "interaction: {flops: 1e9}", "interaction: [[[", `{"top": [1e99], "interaction": {"cat": {"stride": -1}}}`} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	p := &problem.Problem{Batch: 8, Tables: []problem.Table{{Name: "a", Rows: 8, Dim: 4, Features: make([]problem.Feature, 1)}}}
	f.Fuzz(func(t *testing.T, content string, yaml bool) {
		name := "dense.json"
		if yaml {
			name = "dense.yaml"
		}
		d, err := Dense(name, strings.NewReader(content))
		if err != nil || d.check(p, false) != nil {
			return
		}
		if held, activations := d.Dense.Of(p).Memory(8, 8); held < 0 || activations < 0 {
			t.Errorf("%q: got %v and %v of memory", content, held, activations)
		}
	})
}
