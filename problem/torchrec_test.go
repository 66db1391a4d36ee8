package problem_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// counted is a shard with the bytes that the real package counted:
// python/tests/torchrec_storages.py writes the file.
type counted struct {
	Case     int // its number, in the files of the older releases
	Topology struct {
		Pod int `json:"pod_size"`
	}
	Devices      int
	PerHost      int `json:"devices_per_host"`
	Batch        int `json:"batch_per_rank"`
	Rows         int64
	Dim          int
	Poolings     []float64
	Precision    problem.Precision
	Output       *problem.Precision `json:"output_dtype"`
	Weighted     bool
	ShardingType problem.ShardingType `json:"kind"`
	Kernel       string
	Cache        float64
	Shard        [2]int64 // rows, columns
	Optimizer    string
	Pooling      string
	Bags         []float64
	Batches      []float64 `json:"batch_sizes"` // of a rank, by feature
	HBM, DDR     unit.Bytes
}

// readCounted returns what a release counted: all of the newest release's file, and of another
// release the shards whose bytes differ.
func readCounted(t *testing.T, r problem.TorchRecRelease) []counted {
	t.Helper()
	var newest, other struct {
		Source string
		Shards []counted
	}
	readJSON(t, "testdata/storage.json", &newest)
	source := newest.Source
	if r != problem.NewestTorchRec() {
		readJSON(t, "testdata/storage-"+r.Name+".json", &other)
		for _, c := range other.Shards {
			newest.Shards[c.Case].HBM, newest.Shards[c.Case].DDR = c.HBM, c.DDR
		}
		source = other.Source
	}
	if !strings.Contains(source, "TorchRec "+r.Version+",") {
		t.Fatalf("the file is of another version than %s: %s", r.Version, source)
	}
	return newest.Shards
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	must.Do(t, json.Unmarshal(data, into))
}

// TestBytesAsTorchRec: each drawn shard takes exactly the bytes that each release of TorchRec
// counts.
func TestBytesAsTorchRec(t *testing.T) {
	for _, r := range problem.TorchRecReleases() {
		t.Run(r.Name, func(t *testing.T) { bytesAsTorchRec(t, r) })
	}
}

func bytesAsTorchRec(t *testing.T, r problem.TorchRecRelease) {
	seen := map[string]int{}
	for i, c := range readCounted(t, r) {
		optimizer := must.Get(problem.ParseOptimizer(c.Optimizer))(t)
		pooling := must.Get(problem.ParsePooling(cmp.Or(c.Pooling, problem.Pooling(0).String())))(t)
		table := problem.Table{Rows: c.Rows, Dim: c.Dim, Weighted: c.Weighted, Precision: c.Precision, Optimizer: optimizer, Pooling: pooling}
		if c.Output != nil {
			table.OutputPrecision = problem.OutputIn(*c.Output)
			seen["output_dtype"]++
		}
		for i, length := range c.Poolings {
			f := problem.Feature{PoolingFactor: length}
			if c.Bags != nil {
				f.Bags = c.Bags[i]
				f.PoolingFactor *= f.Bags
			}
			if c.Batches != nil { // as neuroshard_torchrec does
				f.Bags = cmp.Or(f.Bags, 1) * c.Batches[i] / float64(c.Batch)
				f.PoolingFactor = f.PoolingFactor * c.Batches[i] / float64(c.Batch)
			}
			if pooling == problem.PoolingNone {
				f.Bags = 0
			}
			table.Features = append(table.Features, f)
		}
		p := problem.Problem{
			Tables: []problem.Table{table}, Batch: c.Batch * c.Devices, Accounting: problem.CountTorchRec(r),
			Topology: hardware.Topology{Devices: c.Devices, DevicesPerHost: c.PerHost, NVLinkDomain: c.Topology.Pod * c.PerHost},
		}
		s := problem.Shard{Rows: problem.Range{End: c.Shard[0]}, Columns: problem.Range{End: c.Shard[1]}, ShardingType: c.ShardingType, Cache: c.Cache}
		switch c.Kernel {
		case "fused_uvm":
			s.Tier = problem.Host
		case "fused_uvm_caching":
			s.Tier = problem.HostCached
		}
		m := p.ShardMemory(s)[problem.ForwardExchange]
		if m.Used() != c.HBM || m.Host != c.DDR {
			t.Errorf("shard %d: got %d bytes of device memory and %d of host memory, want %d and %d\n%+v\n%+v", i, m.Used(), m.Host, c.HBM, c.DDR, c, m)
		}
		if got := p.DeviceMemory(0).Add(p.SharedMemory(s)).Used(); got != [problem.Phases]unit.Bytes{} {
			t.Errorf("shard %d: got %d bytes beside those of shards, want none", i, got)
		}
		seen[fmt.Sprint(c.ShardingType, " ", c.Kernel)]++
		seen[c.Optimizer]++
		seen[fmt.Sprint(c.Pooling, " ", c.Bags != nil)]++
		if c.Batches != nil {
			seen[c.Pooling+" of batches"]++
		}
		seen[c.Precision.String()]++
	}
	for _, shardingType := range problem.ShardingTypes() {
		kernels := []string{"fused", "fused_uvm", "fused_uvm_caching"}
		if shardingType == problem.DataParallel {
			kernels = []string{"dense"}
		}
		for _, kernel := range kernels {
			if seen[fmt.Sprint(shardingType, " ", kernel)] == 0 {
				t.Errorf("got no %s shard with kernel %s in the file, want one at least", shardingType, kernel)
			}
		}
	}
	for _, name := range append(problem.Optimizers(), "sum true", "sum false", "none true", "none false",
		"sum of batches", "none of batches", "fp32", "fp16", "bf16", "output_dtype") {
		if seen[name] == 0 {
			t.Errorf("got no shard with %s in the file, want one at least", name)
		}
	}
}

func TestAccountingNames(t *testing.T) {
	all := []problem.Accounting{problem.CountAll, problem.CountWeights}
	for _, r := range problem.TorchRecReleases() {
		all = append(all, problem.CountTorchRec(r))
	}
	for _, a := range all {
		text, _ := a.MarshalText()
		var back problem.Accounting
		if err := back.UnmarshalText(text); err != nil || back != a {
			t.Errorf("%s: got %v and %v back, want %v", text, back, err, a)
		}
		chosen, err := problem.ParseAccounting(a.String())
		if known := slices.Contains(problem.ChosenAccountings(), a.String()); known != (err == nil) || known && chosen != a {
			t.Errorf("%s: got %v and %v, want that a user may choose all and those of TorchRec only", a, chosen, err)
		}
	}
}

func TestNamesOfReleases(t *testing.T) {
	for name, want := range map[string]string{
		"torchrec": "1.9.2", "torchrec-1.5": "1.5.1", "torchrec-1.6": "1.6.1", "torchrec-1.6.1": "1.6.1", "torchrec-1.9": "1.9.2",
		"": "", "torchrec-": "", "torchrec-1.4": "", "torchrec-1.6.0": "", "1.6": "", "TorchRec": "",
	} {
		if got, ok := problem.ParseTorchRec(name); got.Version != want || ok != (want != "") {
			t.Errorf("%q: got version %q and %v, want %q", name, got.Version, ok, want)
		}
	}
	want := `accounting "torchrec-1.4" is unknown: choose one of all, torchrec, torchrec-1.5, torchrec-1.6, torchrec-1.7, torchrec-1.8, torchrec-1.9`
	if _, err := problem.ParseAccounting("torchrec-1.4"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	newest, err := problem.ParseAccounting("torchrec")
	if r, ok := newest.TorchRec(); err != nil || !ok || r != problem.NewestTorchRec() {
		t.Errorf("torchrec: got %v and %v, want the newest release", newest, err)
	}
}
