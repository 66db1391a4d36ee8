package input

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

const composedTables = `{"format": "neuroshard-tables", "version": 1, "batch": 2048, "tables": [{"name": "a", "rows": 1000, "dim": 8}]}`

// composed returns parts with one table and, if text is not empty, a topology file.
func composed(t *testing.T, text string, o Overrides) *Parts {
	t.Helper()
	p := &Parts{Overrides: o}
	p.Tables, p.TablesErr = Tables("tables.json", strings.NewReader(composedTables), o.Options())
	if text != "" {
		file, err := Topology("cluster.yaml", strings.NewReader(text))
		p.Topology, p.TopologyErr = &file, err
	}
	return p
}

// TestComposed has each source of a cluster stand alone, then before the next one.
func TestComposed(t *testing.T) {
	const file = "devices: 4\ndevice: h100-80\nbatch: 512\ncomm_precision: fp16\nlanes: own\n"
	workload := &Cluster{Problem: problem.Problem{Topology: hardware.Topology{Devices: 8, Profile: must.Get(hardware.ByName("v100-16"))(t)}, Batch: 1024, Accounting: problem.CountWeights}}
	fallback := &Cluster{Problem: problem.Problem{Topology: hardware.Topology{Devices: 2, Profile: must.Get(hardware.ByName("b200"))(t)}, Batch: 256, CommPrecision: problem.BF16, LaneRule: problem.LanesByTable}}
	own := must.Get(hardware.ByName("h200"))(t)
	own.Name = "mine"
	for _, tt := range []struct {
		name   string
		file   string
		flags  Overrides
		change func(*Parts)

		devices    int
		device     string
		batch      int
		precision  problem.Precision
		lanes      problem.LaneRule
		accounting problem.Accounting
		warning    string
	}{
		{name: "flags alone", flags: Overrides{"devices": "16", "device": "a100-80"}, devices: 16, device: "a100-80", batch: 2048},
		{name: "a topology file", file: file, devices: 4, device: "h100-80", batch: 512, precision: problem.FP16, lanes: problem.LanesByTable},
		{name: "flags over a file", file: file, flags: Overrides{"devices": "16", "device": "a100-80", "batch": "64", "comm_precision": "fp32", "lanes": "widest"}, devices: 16, device: "a100-80", batch: 64},
		{name: "a file without a batch", file: "devices: 4\ndevice: h100-80\n", devices: 4, device: "h100-80", batch: 2048},
		{name: "a workload", change: func(p *Parts) { p.Workload = workload }, devices: 8, device: "v100-16", batch: 1024, accounting: problem.CountWeights},
		{name: "flags over a workload", flags: Overrides{"devices": "16"}, change: func(p *Parts) { p.Workload = workload }, devices: 16, device: "v100-16", batch: 1024, accounting: problem.CountWeights},
		{
			name: "a fallback over a workload", change: func(p *Parts) { p.Workload, p.Fallback = workload, fallback }, devices: 2, device: "b200", batch: 256, precision: problem.BF16, lanes: problem.LanesByTable,
			warning: "the tables state a batch of 2048 samples, but the batch of the old plan's cluster counts, 256: state the batch (--batch) to change it",
		},
		{name: "a batch over a fallback", flags: Overrides{"batch": "2048"}, change: func(p *Parts) { p.Fallback = fallback }, devices: 2, device: "b200", batch: 2048, precision: problem.BF16, lanes: problem.LanesByTable},
		{name: "a file over both", file: file, change: func(p *Parts) { p.Workload, p.Fallback = workload, fallback }, devices: 4, device: "h100-80", batch: 512, precision: problem.FP16, lanes: problem.LanesByTable},
		{name: "the model's own device", flags: Overrides{"devices": "16"}, change: func(p *Parts) { p.Own = []hardware.Profile{own} }, devices: 16, device: "mine", batch: 2048},
		{name: "the model's own device by name", flags: Overrides{"devices": "16", "device": "mine"}, change: func(p *Parts) { p.Own, p.Workload = []hardware.Profile{own}, workload }, devices: 16, device: "mine", batch: 1024, accounting: problem.CountWeights},
		{name: "a file's device over the model's", file: file, change: func(p *Parts) { p.Own = []hardware.Profile{own} }, devices: 4, device: "h100-80", batch: 512, precision: problem.FP16, lanes: problem.LanesByTable},
	} {
		parts := composed(t, tt.file, tt.flags)
		if tt.change != nil {
			tt.change(parts)
		}
		p, warnings, err := parts.Problem()
		want := parts.Tables.Warnings
		if tt.warning != "" {
			want = append(slices.Clip(want), tt.warning)
		}
		if err != nil || !slices.Equal(warnings, want) {
			t.Errorf("%s: got error %v and warnings %q", tt.name, err, warnings)
			continue
		}
		if p.Topology.Devices != tt.devices || p.Topology.Profile.Name != tt.device || p.Batch != tt.batch || p.CommPrecision != tt.precision || p.Accounting != tt.accounting || p.LaneRule != tt.lanes {
			t.Errorf("%s: got %d x %s, batch %d, %v, accounting %v, lanes %v; want %d x %s, %d, %v, %v, %v", tt.name, p.Topology.Devices, p.Topology.Profile.Name, p.Batch, p.CommPrecision, p.Accounting, p.LaneRule,
				tt.devices, tt.device, tt.batch, tt.precision, tt.accounting, tt.lanes)
		}
	}
	if workload.Topology.Devices != 8 || fallback.Topology.Devices != 2 {
		t.Errorf("got a workload of %d devices and a fallback of %d: the caller's values changed", workload.Topology.Devices, fallback.Topology.Devices)
	}
}

// TestUsualHosts: hosts have eight devices unless a flag, a file or a plan states them.
func TestUsualHosts(t *testing.T) {
	own := must.Get(hardware.ByName("h200"))(t)
	own.Name = "mine"
	old := func(devices, perHost int) *Cluster {
		return &Cluster{Problem: problem.Problem{Topology: hardware.Topology{Devices: devices, DevicesPerHost: perHost, Profile: must.Get(hardware.ByName("h100-80"))(t)}, Batch: 2048}}
	}
	for _, tt := range []struct {
		name   string
		file   string
		flags  Overrides
		change func(*Parts)
		want   int // devices of a host
		domain int // Topology.NVLinkDomain
	}{
		{name: "flags", flags: Overrides{"devices": "16", "device": "h100-80"}, want: 8},
		{name: "a last host of fewer", flags: Overrides{"devices": "20", "device": "h100-80"}, want: 8},
		{name: "few devices", flags: Overrides{"devices": "6", "device": "h100-80"}, want: 6},
		{name: "a file", file: "devices: 16\ndevice: a100-80\n", want: 8},
		{name: "a file that states them", file: "devices: 16\ndevices_per_host: 4\ndevice: a100-80\n", want: 4},
		{name: "one host that is stated", flags: Overrides{"devices": "16", "devices_per_host": "16", "device": "h100-80"}, want: 16},
		{name: "one host that a file states", file: "devices: 16\ndevices_per_host: 0\ndevice: a100-80\n", want: 16},
		{name: "no network", flags: Overrides{"devices": "16", "device": "rtx2080ti"}, want: 16},
		{name: "a network that is stated", flags: Overrides{"devices": "16", "device": "rtx2080ti", "network_bandwidth": "5GB/s"}, want: 8},
		{name: "a model's own device", flags: Overrides{"devices": "16"}, change: func(p *Parts) { p.Own = []hardware.Profile{own} }, want: 16},
		{name: "racks", flags: Overrides{"devices": "16", "device": "gb200"}, want: 4, domain: 72},
		{name: "trays by their number", flags: Overrides{"hosts": "3", "device": "gb300"}, want: 4, domain: 72},
		{name: "racks of other hosts", file: "devices: 160\ndevices_per_host: 16\ndevice: gb200\n", want: 16, domain: 64},
		{name: "racks in smaller domains", flags: Overrides{"devices": "16", "device": "gb200", "nvlink_domain": "8"}, want: 4, domain: 8},
		{name: "an old plan on racks", flags: Overrides{"device": "gb200"}, change: func(p *Parts) { p.Fallback = old(16, 8) }, want: 4, domain: 72},
		{name: "hosts of an old plan on racks", flags: Overrides{"device": "gb200", "hosts": "2"}, change: func(p *Parts) { p.Fallback = old(16, 8) }, want: 4, domain: 72},
		{name: "an old plan on one host", change: func(p *Parts) { p.Fallback = old(16, 16) }, want: 16},
		{name: "more devices than an old plan has on one host", flags: Overrides{"devices": "16"}, change: func(p *Parts) { p.Fallback = old(4, 4) }, want: 8},
		{name: "more devices than an old plan has on several", flags: Overrides{"devices": "16"}, change: func(p *Parts) { p.Fallback = old(4, 2) }, want: 2},
	} {
		parts := composed(t, tt.file, tt.flags)
		if tt.change != nil {
			tt.change(parts)
		}
		p, _, err := parts.Problem()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := p.Topology.PerHost(); got != tt.want {
			t.Errorf("%s: got %d devices a host, want %d", tt.name, got, tt.want)
		}
		if got := p.Topology.NVLinkDomain; got != tt.domain {
			t.Errorf("%s: got an NVLink domain of %d, want %d", tt.name, got, tt.domain)
		}
	}
}

// TestComposedSizes wants each of the other flags in its own field.
func TestComposedSizes(t *testing.T) {
	p, _ := must.Get2(composed(t, "", Overrides{"devices": "8", "devices_per_host": "4", "device": "a100-80", "memory": "40GiB", "reserve_share": ".25", "reserve_fixed": "1GiB", "host_memory": "64GiB"}).Problem())(t)
	got := p.Topology
	if got.DevicesPerHost != 4 || got.Memory != 40*unit.GiB || got.ReserveShare != .25 || got.ReserveFixed != unit.GiB || got.HostMemory != 64*unit.GiB {
		t.Errorf("got %+v", got)
	}
}

// TestComposedWithoutBatch wants the default batch, with a warning.
func TestComposedWithoutBatch(t *testing.T) {
	parts := composed(t, "", Overrides{"devices": "2", "device": "a100-80"})
	parts.Tables.Batch = 0
	p, warnings, err := parts.Problem()
	if err != nil || p.Batch != DefaultBatch || len(warnings) != 4 || !strings.Contains(warnings[3], "65536 samples is assumed") {
		t.Errorf("got batch %v, warnings %q, error %v", p.Batch, warnings, err)
	}
}

// TestUneven wants a warning of a host that is not full, and of a batch that the devices
// cannot share.
func TestUneven(t *testing.T) {
	for _, tt := range []struct {
		devices, perHost, batch int
		want                    []string
	}{
		{8, 4, 2048, nil},
		{8, 0, 8, nil},
		{4, 8, 2048, nil}, // one host, as full as the cluster
		{12, 8, 1200, []string{"the last of 2 hosts has only 4 of 8 devices"}},
		{8, 8, 100, []string{"the batch of 100 samples does not divide by 8 devices", "state 96 or 104"}},
		{8, 3, 1, []string{"the last of 3 hosts has only 2 of 3 devices", "the batch of 1 sample does not divide by 8 devices", "state 8 or 16"}},
	} {
		parts := composed(t, "", Overrides{"devices": strconv.Itoa(tt.devices), "devices_per_host": strconv.Itoa(tt.perHost), "device": "a100-80", "batch": strconv.Itoa(tt.batch)})
		_, warnings := must.Get2(parts.Problem())(t)
		got := strings.Join(warnings[len(parts.Tables.Warnings):], "\n")
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%d devices, %d a host, batch %d: got %q, want %q in it", tt.devices, tt.perHost, tt.batch, got, want)
			}
		}
		if tt.want == nil && got != "" {
			t.Errorf("%d devices, %d a host, batch %d: got %q, want no warning", tt.devices, tt.perHost, tt.batch, got)
		}
	}
}

// TestComposedErrors wants all that is wrong at once, and nothing that follows from it.
func TestComposedErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		file  string
		flags Overrides
		want  []string
	}{
		{"nothing is stated", "", Overrides{}, []string{"the number of devices is missing", "the device profile is missing"}},
		{"half of a file", "devices: 4\n", Overrides{}, []string{"the device profile is missing"}},
		{"a file that cannot be read", "devices: [\n", Overrides{}, []string{"cluster.yaml"}},
		{
			"wrong flags", "",
			Overrides{"devices": "4", "device": "a1", "comm_precision": "fp1", "lanes": "all", "pipeline": "TrainPipelineSemiSync", "dim": "6", "memory": "0"},
			[]string{"--gpu: ", "--memory: 0 is no memory", "comm_precision: ", `lanes: "all" is unknown`, `pipeline: "TrainPipelineSemiSync" is unknown`, "dim: 6 is not a multiple of 4"},
		},
		{"no device", "", Overrides{"devices": "0", "device": "a100-80"}, []string{"devices"}},
	} {
		_, _, err := composed(t, tt.file, tt.flags).Problem()
		list, ok := err.(*Errors)
		if !ok || len(list.List) != len(tt.want) {
			t.Errorf("%s: got error %v, want %d errors", tt.name, err, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if got := list.List[i].String(); !strings.Contains(got, want) {
				t.Errorf("%s: error %d: got %q, want %q", tt.name, i, got, want)
			}
		}
	}
}

// TestCheckDim takes multiples of the granule up to the most columns.
func TestCheckDim(t *testing.T) {
	for dim, want := range map[int]string{4: "", problem.MaxDim: "", 0: "not between", -4: "not between", 6: "not a multiple of 4", problem.MaxDim + 4: "not between"} {
		if err := CheckDim(dim); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("dim %d: got error %v, want %q", dim, err, want)
		}
	}
}

// TestSet states keys as --set has them, with the errors of a file.
func TestSet(t *testing.T) {
	p := stepParts(t, "")
	p.Overrides = Overrides{}
	for _, text := range []string{"devices=16", "host_memory = 1TiB", "dense=mlperf-dlrm-v1", "step=3ms"} {
		must.Do(t, p.Overrides.Set(text))
	}
	if _, _, err := p.Problem(); err == nil || !strings.Contains(err.Error(), "dense: mlperf-dlrm-v1 takes 26 pooled vectors") {
		t.Errorf("got error %v, want one about the dense part", err)
	}
	delete(p.Overrides, "dense")
	if composed, _, err := p.Problem(); err != nil || composed.Topology.Devices != 16 || composed.Topology.HostMemory != unit.TiB || p.Step().Measured.Step != 3 {
		t.Errorf("got %+v and error %v, want what the texts state", composed.Topology, err)
	}
	for text, want := range map[string]string{"devices": "states no value", "device_per_host=8": `did you mean "devices_per_host"?`} {
		if err := p.Overrides.Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}
