package step

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// dlrm returns MLPerf's tables on devices of a profile.
func dlrm(t testing.TB, profile string, devices, perHost, batch int) *problem.Problem {
	t.Helper()
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	if p.Topology.Profile, err = hardware.ByName(profile); err != nil {
		t.Fatal(err)
	}
	p.Topology.Devices, p.Topology.DevicesPerHost, p.Batch = devices, perHost, batch
	p.Engine = problem.HugeCTR
	return &p
}

// Parameters and FLOP of the presets, worked by hand from their layers.
func TestPresetSizes(t *testing.T) {
	for _, c := range []struct {
		name                   string
		parameters, flops, off float64
	}{
		// Bottom 171,392; cross 3 (2 x 3,456 x 512 + 3,456); top 5,245,953.
		{"mlperf-dlrm-dcnv2", 16_044_545, 96.2e6 / 3, 1e-3},
		// The dot of 27 vectors of 128 gives 351 products, joined with 128: the top gets 479.
		{"mlperf-dlrm-v1", 2_368_897, 14.8e6 / 3, 5e-3},
		{"madmax-dlrm-a", 319e6, 638e6, 1e-9},
		// 512 x 512 + 512 x 64 below; 9 vectors of 64 give 36 products, joined with 64.
		{"hipc-dlrm-default", 262_656 + 32_832 + (100*1024 + 1024) + 2*(1024*1024+1024) + 1025, 2 * (262_144 + 32_768 + 81*64 + 102_400 + 2*1024*1024 + 1024), 1e-9},
		// 672 columns and 10 dense features: 682.
		{"nvidia-synthetic-tiny", (682*256 + 256) + (256*128 + 128) + 129, 2 * (682*256 + 256*128 + 128), 1e-9},
		// 17,280 columns, averaged by 7: 2,469, and 25 dense features.
		{"nvidia-synthetic-medium", (2494*1024 + 1024) + (1024*512 + 512) + (512*256 + 256) + (256*128 + 128) + 129, 2 * (2494*1024 + 1024*512 + 512*256 + 256*128 + 128), 1e-9},
	} {
		d := must.Get(DenseByName(c.name))(t)
		if got := d.Parameters(); got != c.parameters {
			t.Errorf("%s: got %v parameters, want %v", c.name, got, c.parameters)
		}
		if got := d.FLOPs(); math.Abs(got/c.flops-1) > c.off {
			t.Errorf("%s: got %v FLOP a sample, want %v", c.name, got, c.flops)
		}
	}
}

// Every preset of a published workload fits that workload's tables, and no other's.
func TestPresetsFitTheirTables(t *testing.T) {
	for _, name := range DenseNames() {
		d, err := DenseByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if d.Source == "" || d.Name != name {
			t.Errorf("%s: got the name %q and the source %q, want both", name, d.Name, d.Source)
		}
		w, err := workload.ByName(name)
		if err != nil {
			continue
		}
		p := w.Problem()
		if err := d.Check(&p); err != nil {
			t.Errorf("%s: got %v with its own tables, want none", name, err)
		}
		p.Tables = p.Tables[1:]
		if err := d.Check(&p); err == nil || !strings.Contains(err.Error(), "choose the tables that it belongs to") {
			t.Errorf("%s: got %v with a table less, want an error about the tables", name, err)
		}
	}
}

func TestCheckReportsAllFaults(t *testing.T) {
	p := dlrm(t, "h100-80", 8, 8, 55296)
	for _, c := range []struct {
		what string
		d    Dense
		want []string
	}{
		{"nothing", Dense{}, []string{"precision", "interaction", "top: no layers"}},
		{
			"absurd widths",
			Dense{Bottom: []int{13, -1}, Interaction: Cat, Top: []int{1 << 30}, Precision: FP16, OptimizerBytes: -1},
			[]string{"bottom: width -1", "top: width 1073741824", "optimizer bytes: -1"},
		},
		{"a dot of other widths", Dense{Bottom: []int{13, 64}, Interaction: Dot, Top: []int{1}, Precision: FP16}, []string{"dim 128, and the bottom MLP ends with 64"}},
		{"a dot without a bottom", Dense{Interaction: Dot, Top: []int{1}, Precision: FP16}, []string{"the bottom MLP is missing"}},
		{"no cross layers", Dense{Interaction: DCN, Inner: -3, Top: []int{1}, Precision: FP32}, []string{"layers 0", "rank -3"}},
		{
			"given and a top",
			Dense{Interaction: Given, GivenFLOPs: math.NaN(), GivenParameters: -1, Top: []int{1}, Precision: FP32},
			[]string{"NaN FLOP", "-1 parameters", "leave top out"},
		},
		{
			"another parallel",
			Dense{Interaction: Given, GivenFLOPs: 1, Precision: FP32, Parallel: "pipeline", ActivationBytes: math.Inf(1)},
			[]string{`parallel "pipeline"`, "activation bytes"},
		},
	} {
		err := c.d.Check(p)
		var invalid *InvalidDense
		if !errors.As(err, &invalid) || len(invalid.Faults) != len(c.want) {
			t.Errorf("%s: got %v, want %d faults", c.what, err, len(c.want))
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", c.what, err, want)
			}
		}
	}
}

// DDP holds all on each device; FSDP a part of it and one layer.
func TestDenseMemory(t *testing.T) {
	d := Dense{Interaction: Given, GivenFLOPs: 2e6, GivenParameters: 1e6, Precision: FP32, OptimizerBytes: 8, ActivationBytes: 1000}
	if held, activations := d.Memory(4, 400); held != 16_000_000 || activations != 100*1000 {
		t.Errorf("DDP: got %d bytes and %d of activations, want 16000000 and 100000", held, activations)
	}
	d.Parallel = FSDP
	if held, activations := d.Memory(4, 400); held != 4_000_000+8_000_000 || activations != 100*1000 {
		t.Errorf("FSDP: got %d bytes and %d of activations, want 12000000 and 100000", held, activations)
	}
}

// The FLOP of DLRMv4's dense part are those of its source's formula: 2 a product, backward twice
// the forward of weights, and 2.5 times that of causal attention.
func TestDLRMv4(t *testing.T) {
	d := must.Get(DenseByName("mlperf-dlrmv4"))(t)
	flops := func(positions float64) float64 {
		const layers, width, heads, head = 3, 512, 4, 128
		weights := positions * width * heads * (4*head + 3*head)
		attention := positions * positions / 2 * heads * 2 * head
		return layers * 2 * (3*weights + 3.5*attention)
	}
	if got := flops(4096) / 1e9; math.Abs(got-315.7) > .05 {
		t.Errorf("got %.1f GFLOP at 4,096 positions, and the source states 315.7", got)
	}
	if got, want := 3*d.FLOPs(), flops(2663+8+1); math.Abs(got/want-1) > 1e-3 {
		t.Errorf("got %v FLOP, want %v", got, want)
	}
}
