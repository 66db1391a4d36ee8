package design_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Every draw is in the domain that the package promises.
func TestComputeStaysInItsDomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		tables := rapid.IntRange(10, 200).Draw(t, "tables")
		samples := rapid.IntRange(0, 60).Draw(t, "samples")
		fewest := rapid.IntRange(1, design.MaxShards).Draw(t, "fewest shards")
		most := rapid.IntRange(fewest, design.MaxShards).Draw(t, "most shards")
		set := design.Compute(seed, tables, samples, fewest, most)
		if len(set.Tables) != tables || len(set.Samples) != samples || set.Provenance.Seed != seed {
			t.Fatalf("got %d tables, %d samples, seed %d, want %d, %d, %d", len(set.Tables), len(set.Samples), set.Provenance.Seed, tables, samples, seed)
		}
		for i, table := range set.Tables {
			if table.Rows < 10 || float64(table.Rows) > 1e10 {
				t.Errorf("table %d: got %d rows, want 10 to 1e10", i, table.Rows)
			}
			if l := table.PoolingFactor(); l < .05*(1-1e-12) || l > design.MaxPoolingFactor*(1+1e-12) {
				t.Errorf("table %d: got pooling factor %v, want 0.05 to %d", i, l, design.MaxPoolingFactor)
			}
			if cv := table.LengthCV(); cv < 0 || cv > design.MaxLengthCV*(1+1e-12) {
				t.Errorf("table %d: got a coefficient of variation of %v, want 0 to %d", i, cv, design.MaxLengthCV)
			}
		}
		for i, g := range set.Samples {
			if n := len(g.Members); n < fewest || n > most {
				t.Errorf("sample %d: got %d shards, want %d to %d", i, n, fewest, most)
			}
			if b := g.Operation.Batch; b < design.MinBatch || b > design.MaxBatch {
				t.Errorf("sample %d: got batch %d, want %d to %d", i, b, design.MinBatch, design.MaxBatch)
			}
			wide := 0
			for _, m := range g.Members {
				if m.Dim < problem.ColumnGranule || m.Dim > design.MaxWideDim || m.Dim%problem.ColumnGranule != 0 {
					t.Errorf("sample %d: got dim %d, want a multiple of %d, at most %d", i, m.Dim, problem.ColumnGranule, design.MaxWideDim)
				}
				if m.Dim > design.MaxDim {
					wide++
				}
				apart := set.Tables[m.Table].Pooling == problem.PoolingNone
				if apart != (set.Tables[g.Members[0].Table].Pooling == problem.PoolingNone) || apart && g.Operation.Weighted {
					t.Errorf("sample %d: got sequences beside tables that pool, or with weights", i)
				}
				if m.Table < 0 || int(m.Table) >= tables {
					t.Errorf("sample %d: got table %d of %d", i, m.Table, tables)
				}
			}
			if wide > 3 {
				t.Errorf("sample %d: got %d shards of more than %d columns, want at most 3", i, wide, design.MaxDim)
			}
			if g.Forward != 0 || g.Backward != 0 {
				t.Errorf("sample %d: got times %v and %v, want none: nothing was run", i, g.Forward, g.Backward)
			}
		}
	})
}

// Tables differ in all properties that the time of a kernel depends on.
func TestTablesCoverTheDomain(t *testing.T) {
	set := design.Compute(5, 4000, 0, 1, 1)
	share := map[string]float64{}
	for i := range set.Tables {
		table := &set.Tables[i]
		count := func(what string, is bool) {
			if is {
				share[what] += 1. / float64(len(set.Tables))
			}
		}
		count("uniform", table.Access.Kind == access.Uniform)
		count("zipf", table.Access.Kind == access.Zipf)
		count("histogram", table.Access.Kind == access.Histogram)
		count("pooling 1", table.PoolingFactor() == 1)
		count("pooling above 50", table.PoolingFactor() > 50)
		count("bags of one length", table.LengthCV() == 0)
		count("normal and Poisson lengths", table.LengthCV() > .05 && table.LengthCV() < .5)
		count("exponential lengths and wider", table.LengthCV() >= 1)
		// A block of a table with equal bags has a product of sqrt(1 - part).
		product := table.LengthCV() * math.Sqrt(table.Features[0].PoolingFactor)
		count("lengths as in blocks of rows", product > .7 && product < 1.01 && table.LengthCV() < design.MaxLengthCV)
		count("lookups apart", table.Pooling == problem.PoolingNone)
		count("bags other than one a feature", table.Features[0].Bags != 0)
		count("several features", len(table.Features) > 1)
		count("below 1000 rows", table.Rows < 1000)
		count("above 1e8 rows", table.Rows > 1e8)
	}
	for _, want := range []struct {
		what        string
		least, most float64
	}{
		{"uniform", .05, .11},
		{"zipf", .35, .51},
		{"histogram", .42, .55},
		{"pooling 1", .16, .21},
		{"pooling above 50", .03, .09},
		{"bags of one length", .42, .47},
		{"normal and Poisson lengths", .20, .25},
		{"exponential lengths and wider", .21, .26},
		{"lengths as in blocks of rows", .12, .17},
		{"lookups apart", .105, .145},
		{"bags other than one a feature", .105, .145},
		{"several features", .17, .23},
		{"below 1000 rows", .20, .26},
		{"above 1e8 rows", .17, .23},
	} {
		if got := share[want.what]; got < want.least || got > want.most {
			t.Errorf("share of tables with %s: got %.3f, want %v to %v", want.what, got, want.least, want.most)
		}
	}
}

func TestSplitsShareNoTable(t *testing.T) {
	for _, tables := range []int{10, 57, 400} {
		t.Run(fmt.Sprint(tables), func(t *testing.T) {
			set := design.Compute(3, tables, 2000, 1, 20)
			held := map[dataset.Split]map[int32]bool{dataset.Train: {}, dataset.Validation: {}, dataset.Test: {}}
			samples := map[dataset.Split]int{}
			owner := map[int32]dataset.Split{}
			for i, g := range set.Samples {
				samples[g.Split]++
				for _, m := range g.Members {
					if first, ok := owner[m.Table]; ok && first != g.Split {
						t.Fatalf("sample %d of split %d: table %d belongs to split %d", i, g.Split, m.Table, first)
					}
					owner[m.Table] = g.Split
					held[g.Split][m.Table] = true
				}
			}
			want := map[dataset.Split]int{dataset.Train: 1600, dataset.Validation: 200, dataset.Test: 200}
			if diff := cmp.Diff(want, samples); diff != "" {
				t.Errorf("samples by split (-want +got):\n%s", diff)
			}
			if got := len(held[dataset.Train]) + len(held[dataset.Validation]) + len(held[dataset.Test]); got != tables {
				t.Errorf("got %d tables in use, want all %d", got, tables)
			}
		})
	}
}

func TestCommStaysInItsDomain(t *testing.T) {
	// One profile has no network, the other one has.
	for _, name := range []string{"rtx2080ti", "mi300x"} {
		t.Run(name, func(t *testing.T) {
			profile := must.Get(hardware.ByName(name))(t)
			set := design.Comm(1, 400, profile)
			if len(set.Samples) != 400 || set.Provenance.Seed != 1 || set.Provenance.Profile != profile.Name {
				t.Fatalf("got %d samples of %+v, want 400 of seed 1 and the profile", len(set.Samples), set.Provenance)
			}
			device := simulate.NewDevice(profile)
			hosts := map[int]int{}
			splits := map[dataset.Split]int{}
			balanced, skewed, light := 0, 0, 0
			for i, e := range set.Samples {
				splits[e.Split]++
				if e.Devices < 2 || e.Devices > design.MaxDevices || e.DevicesPerHost < 2 || e.DevicesPerHost > 16 {
					t.Errorf("sample %d: got %d devices, %d a host, want 2 to %d and 2 to 16", i, e.Devices, e.DevicesPerHost, design.MaxDevices)
				}
				hosts[min(6, (e.Devices+e.DevicesPerHost-1)/e.DevicesPerHost)]++
				if e.Batch < design.MinBatch || e.Batch > design.MaxBatch {
					t.Errorf("sample %d: got batch %d, want %d to %d", i, e.Batch, design.MinBatch, design.MaxBatch)
				}
				if len(e.DimSums) != e.Devices || len(e.Start) != e.Devices {
					t.Fatalf("sample %d: got %d dim sums and %d starts for %d devices", i, len(e.DimSums), len(e.Start), e.Devices)
				}
				if bytes := 4 * e.Batch * slices.Max(e.DimSums); bytes < 300_000 {
					light++
				}
				if first, last := slices.Min(e.Start), slices.Max(e.Start); first != 0 || last > unit.Millis(20) {
					t.Errorf("sample %d: got starts from %v to %v, want from 0 to at most 20 ms", i, first, last)
				}
				sum := 0
				for _, d := range e.DimSums {
					sum += d
					if d < 0 || d%problem.ColumnGranule != 0 {
						t.Errorf("sample %d: got dim sum %d, want a multiple of %d", i, d, problem.ColumnGranule)
					}
				}
				switch ratio := float64(slices.Max(e.DimSums)*e.Devices) / float64(sum); {
				case sum == 0:
					t.Errorf("sample %d: no dims at all", i)
				case ratio < 1.1:
					balanced++
				case ratio > 1.6:
					skewed++
				}
				if _, _, err := device.Comm(simulate.Comm{PerHost: e.DevicesPerHost, Batch: e.Batch, DimSums: e.DimSums, Start: e.Start}); err != nil {
					t.Errorf("sample %d: the simulated device refuses it: %v", i, err)
				}
			}
			if diff := cmp.Diff(map[dataset.Split]int{dataset.Train: 320, dataset.Validation: 40, dataset.Test: 40}, splits); diff != "" {
				t.Errorf("samples by split (-want +got):\n%s", diff)
			}
			if light < 50 {
				t.Errorf("got %d samples in which no device sends 300 kB, want at least 50", light)
			}
			if balanced < 20 || skewed < 20 {
				t.Errorf("got %d balanced and %d skewed samples, want at least 20 of each", balanced, skewed)
			}
			if profile.NICGBps == 0 {
				if len(hosts) != 1 || hosts[1] == 0 {
					t.Errorf("got samples by hosts %v, want one host: the profile has no network", hosts)
				}
				return
			}
			// The draws contain one host and each small number of hosts often enough.
			for h := 1; h <= 6; h++ {
				if hosts[h] < 15 {
					t.Errorf("got %d samples on %d hosts, want at least 15 of 400", hosts[h], h)
				}
			}
		})
	}
}
