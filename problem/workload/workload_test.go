package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func TestNames(t *testing.T) {
	want := []string{
		"mlperf-dlrm-dcnv2", "mlperf-dlrmv4", "criteo-1tb-uncapped", "criteo-kaggle",
		"nvidia-synthetic-tiny", "nvidia-synthetic-small", "nvidia-synthetic-medium",
		"nvidia-synthetic-large", "nvidia-synthetic-jumbo", "nvidia-synthetic-colossal",
		"hugectr-180", "hugectr-7", "hugectr-510", "hugectr-200",
	}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
}

// The tables that a specification spells out add up to what it states.
func TestTotalsEqualStated(t *testing.T) {
	for _, w := range All() {
		got := w.Totals()
		if got.Tables != w.Stated.Tables {
			t.Errorf("%s: got %d tables, want %d", w.Name, got.Tables, w.Stated.Tables)
		}
		if difference := math.Abs(got.Weights.GiB() - w.Stated.Weights.GiB()); difference > 0.0501 {
			t.Errorf("%s: got %.2f GiB of weights, want %.1f", w.Name, got.Weights.GiB(), w.Stated.Weights.GiB())
		}
		if got.LookupsPerSample != w.Stated.LookupsPerSample {
			t.Errorf("%s: got %v lookups a sample, want %v", w.Name, got.LookupsPerSample, w.Stated.LookupsPerSample)
		}
	}
}

// TestSamples wants the samples of an epoch only of workloads whose source states them.
func TestSamples(t *testing.T) {
	for _, w := range All() {
		var want int64
		if w.Name == "mlperf-dlrm-dcnv2" {
			want = 4195197692
		}
		if w.Samples != want {
			t.Errorf("%s: got %d samples, want %d", w.Name, w.Samples, want)
		}
	}
}

func TestSharedTables(t *testing.T) {
	w := must.Get(ByName("nvidia-synthetic-tiny"))(t)
	tables := w.Tables()
	shared := 0
	for _, table := range tables {
		if len(table.Features) == 2 {
			shared++
			if a, b := table.Features[0].PoolingFactor, table.Features[1].PoolingFactor; a != 1 || b != 10 {
				t.Errorf("table %s: got pooling factors %v and %v, want 1 and 10", table.Name, a, b)
			}
		}
	}
	if shared != 3 {
		t.Errorf("got %d tables with two features, want 3", shared)
	}
	if got := tables[3].Features[0].Name; got != "f006" {
		t.Errorf("got %q as the first feature of the fourth table, want f006", got)
	}
}

func TestUnsharedFeaturesReadTablesOfTheirOwn(t *testing.T) {
	w := Workload{sets: []tableSet{{Count: 2, Rows: 10, Dim: 8, Pooling: []float64{1, 5}}}}
	var got []float64
	for _, table := range w.Tables() {
		if len(table.Features) != 1 {
			t.Fatalf("table %s: got %d features, want 1", table.Name, len(table.Features))
		}
		got = append(got, table.Features[0].PoolingFactor)
	}
	if want := []float64{1, 1, 5, 5}; !slices.Equal(got, want) {
		t.Errorf("got pooling factors %v, want %v", got, want)
	}
}

func TestDistributions(t *testing.T) {
	for _, w := range All() {
		exponent := 0.0 // not stated
		switch {
		case strings.HasPrefix(w.Name, "nvidia-"):
			exponent = 1.05
		case strings.HasPrefix(w.Name, "hugectr-"):
			exponent = 1.1
		}
		want := access.Distribution{}
		if exponent > 0 {
			want = access.Distribution{Kind: access.Zipf, Exponent: exponent}
			if text := fmt.Sprintf("alpha %v", exponent); !strings.HasSuffix(w.IndexDistribution, text) {
				t.Errorf("%s: exponent %v does not agree with the source's %q", w.Name, exponent, w.IndexDistribution)
			}
		}
		if w.Name == "mlperf-dlrm-dcnv2" {
			want.Law = access.MultiHot
		}
		if w.Access != want {
			t.Errorf("%s: got access %+v, want %+v", w.Name, w.Access, want)
		}
		if got, want := w.AssumedDistribution, exponent == 0 && w.Name != "mlperf-dlrmv4"; got != want {
			t.Errorf("%s: AssumedDistribution = %v, want %v", w.Name, got, want)
		}
		for _, table := range w.Tables() {
			stated := w.Name == "mlperf-dlrmv4" && slices.Contains([]string{"item_id", "artist_id", "album_id"}, table.Name)
			if stated != (table.Access.Kind == access.Histogram) || !stated && table.Access != want {
				t.Errorf("%s, table %s: got access %+v, want %+v", w.Name, table.Name, table.Access, want)
			}
		}
	}
}

// The rows that a rank of MLPerf's DLRMv4 reads are distinct, and uneven over row_wise ranks, as the source says.
func TestStatedAccesses(t *testing.T) {
	w := must.Get(ByName("mlperf-dlrmv4"))(t)
	p := w.Problem()
	ranks := p // the public run on 32 ranks
	ranks.Topology.Devices, ranks.Batch = 32, 32*1024
	for i, c := range []struct {
		table          string
		distinct, load float64
	}{{"item_id", .024, 1}, {"artist_id", .006, 1.3}, {"album_id", .015, 2.8}} {
		table := &p.Tables[i]
		if counts := table.Counts(1024); table.Name != c.table || table.Pooling != problem.PoolingNone || math.Abs(counts.Unique/counts.Lookups-c.distinct) > 1e-6 {
			t.Errorf("%s: got %v distinct of %v lookups, want %v of them in %s", table.Name, counts.Unique, counts.Lookups, c.distinct, c.table)
		}
		block := problem.BlockOf(&ranks, i, 32)
		if load := block.PoolingFactor() / table.PoolingFactor() * 32; math.Abs(load-c.load) > .05*c.load {
			t.Errorf("%s: the rank with the most used row has %.2f times the mean lookups, want %v", c.table, load, c.load)
		}
	}
	if got := p.Tables[0].PoolingFactor() * 1024 * 512 * 4 * 3 * 7 / 8 / 1e9; math.Abs(got-14.7) > .1 {
		t.Errorf("an all-to-all of a rank of eight moves %.1f GB, and the source states about 14.5", got)
	}
}

func TestSteps(t *testing.T) {
	counts := map[string]string{
		"nvidia-synthetic-tiny": "[1 8 16]", "nvidia-synthetic-small": "[1 8 16 32]",
		"nvidia-synthetic-medium": "[8 16 32 128]", "nvidia-synthetic-large": "[32 128]",
		"nvidia-synthetic-jumbo": "[128]",
	}
	for _, w := range All() {
		var devices []int
		for _, s := range w.Steps {
			devices = append(devices, s.Devices)
		}
		want := counts[w.Name]
		if want == "" {
			want = "[]"
		}
		if got := fmt.Sprint(devices); got != want {
			t.Errorf("%s: got steps on %s devices, want %s", w.Name, got, want)
		}
		for i := 1; i < len(w.Steps); i++ {
			if w.Steps[i].Time >= w.Steps[i-1].Time {
				t.Errorf("%s: got %v on %d devices, want less than %v", w.Name, w.Steps[i].Time, w.Steps[i].Devices, w.Steps[i-1].Time)
			}
		}
		if len(devices) > 0 && !slices.Contains(devices, w.Cluster.Devices) {
			t.Errorf("%s: got a default cluster of %d devices, want one of the published %v", w.Name, w.Cluster.Devices, devices)
		}
	}
}

// Every default cluster holds its workload: first-fit decreasing places all
// slices, with every byte counted.
func TestDefaultClusterHoldsWorkload(t *testing.T) {
	for _, w := range All() {
		t.Run(w.Name, func(t *testing.T) {
			p := w.Problem()
			if err := p.Validate(); err != nil {
				t.Fatalf("got an invalid problem, want a valid one: %v", err)
			}
			if got := p.Topology.KeptShare(); got != hardware.DefaultReserveShare {
				t.Errorf("got reserve share %v, want %v", got, hardware.DefaultReserveShare)
			}
			if got := p.Topology.PerHost(); got != devicesPerHost {
				t.Errorf("got %d devices per host, want %d", got, devicesPerHost)
			}
			used := must.Get(firstFit(&p))(t)
			t.Logf("%d x %s: %v of %v a device used on average", p.Topology.Devices, p.Topology.Profile.Name,
				used/unit.Bytes(p.Topology.Devices), p.ShardBudget(0))
		})
	}
}

// hugectr-7 does not fit devices of 80 GiB, however many: that is why its
// cluster differs.
func TestHugeCTR7NeedsLargeDevices(t *testing.T) {
	w, err := ByName("hugectr-7")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	if p.Topology.Profile, err = hardware.ByName("a100-80"); err != nil {
		t.Fatal(err)
	}
	p.Topology.Devices = 1024
	if _, err := firstFit(&p); err == nil {
		t.Error("got a placement on a100-80, want none: a slice of 4 columns of the 5e9-row table takes 74.5 GiB")
	}
}

// firstFit halves every table into slices of at most a third of a device's
// budget, or of the least width, and places them in descending order of bytes,
// each on the first device with room. It returns the bytes placed.
func firstFit(p *problem.Problem) (unit.Bytes, error) {
	budget := p.ShardBudget(0)[problem.ForwardExchange]
	var slicesBytes []unit.Bytes
	for i := range p.Tables {
		shard := p.Whole(i)
		pieces := 1
		for p.ShardMemory(shard)[problem.ForwardExchange].Used() > budget/3 && shard.Dim()%(2*problem.ColumnGranule) == 0 {
			shard.Columns.End /= 2
			pieces *= 2
		}
		for range pieces {
			slicesBytes = append(slicesBytes, p.ShardMemory(shard)[problem.ForwardExchange].Used())
		}
	}
	slices.SortFunc(slicesBytes, func(a, b unit.Bytes) int { return int(b - a) })
	free := make([]unit.Bytes, p.Topology.Devices)
	for i := range free {
		free[i] = budget
	}
	total := unit.Bytes(0)
	for _, size := range slicesBytes {
		device := slices.IndexFunc(free, func(f unit.Bytes) bool { return f >= size })
		if device < 0 {
			return 0, fmt.Errorf("got no device with room for a slice of %v after %v were placed, want one", size, total)
		}
		free[device] -= size
		total += size
	}
	return total, nil
}

func TestByNameErrors(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"mlperf-dlrm-dcn2", `did you mean "mlperf-dlrm-dcnv2" or "mlperf-dlrmv4"?`},
		{"workload:MLPERF-DLRM-DCNV2", `did you mean "mlperf-dlrm-dcnv2" or`},
		{"colossal", `did you mean "nvidia-synthetic-colossal"?`},
		{"hugectr-100", `did you mean "hugectr-180" or`},
		{"criteo", `did you mean "criteo-1tb-uncapped" or "criteo-kaggle"?`},
		{"", `choose one of mlperf-dlrm-dcnv2, mlperf-dlrmv4,`},
		{"xyz", `choose one of mlperf-dlrm-dcnv2,`},
		{"xyz", `; or draw one: dlrm-datasets[-TABLESxDEVICES][@SEED], paper-SETTING-NUMBER[@SEED]`},
		{"dlrm-datasets-10000", `workload "dlrm-datasets-10000" is unknown: draw one: dlrm-datasets[-TABLESxDEVICES][@SEED], `},
		{"workload:paper-d4-3", `paper-SETTING-NUMBER[@SEED]; the settings are d4_m16, d4_m64, d4_m128, d8_m16, d8_m64, d8_m128`},
	} {
		_, err := ByName(c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ByName(%q): got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// The patterns of drawn names are those of names that work.
func TestDrawnNames(t *testing.T) {
	fill := strings.NewReplacer("[", "", "]", "", "TABLES", "12", "DEVICES", "2", "SEED", "7", "SETTING", PaperSettings()[0].Name, "NUMBER", "3")
	for _, pattern := range DrawnNames() {
		if w, err := ByName(fill.Replace(pattern)); err != nil || !w.IsDrawn() {
			t.Errorf("%s: got %v (drawn: %v), want a drawn workload", fill.Replace(pattern), err, w.IsDrawn())
		}
	}
}

func TestByNameTakesPrefix(t *testing.T) {
	for _, name := range Names() {
		for _, given := range []string{name, Prefix + name} {
			if w, err := ByName(given); err != nil || w.Name != name {
				t.Errorf("ByName(%q): got %q, %v, want %q", given, w.Name, err, name)
			}
		}
	}
}

func TestParseRefusesBadData(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"truncated", `{"workloads": [`, "unexpected EOF"},
		{"unknown key", `{"workloads": [{"nmae": "a"}]}`, `unknown field "nmae"`},
		{"optimizer", `{"workloads": [{"name": "a", "optimizer": "lion"}]}`, `workload "a": optimizer "lion" is unknown`},
		{"precision", `{"workloads": [{"name": "a", "optimizer": "sgd", "precision": "fp8"}]}`, `precision "fp8" is unknown`},
		{"profile", `{"workloads": [{"name": "a", "optimizer": "sgd", "precision": "fp32", "cluster": {"profile": "tpu"}}]}`, `device profile "tpu" is unknown`},
	} {
		if _, err := parse([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func FuzzByName(f *testing.F) {
	for _, name := range append(Names(), "", "workload:", "HUGECTR", "\xff\x00", strings.Repeat("a", 100)) {
		f.Add(name)
	}
	names := Names()
	f.Fuzz(func(t *testing.T, name string) {
		w, err := ByName(name)
		known := slices.Contains(names, strings.TrimPrefix(name, Prefix))
		if known != (err == nil) || known && w.Name != strings.TrimPrefix(name, Prefix) {
			t.Errorf("ByName(%q): got %q, %v, want it found: %v", name, w.Name, err, known)
		}
	})
}
