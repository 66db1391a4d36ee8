package design_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

func ExampleDomain_Compute() {
	domain := design.CPU()
	domain.Batches = []int{1024}
	domain.MaxShards = 8
	set, err := domain.Compute(1, 100, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range set.Samples[:5] {
		fmt.Printf("%d: %v", g.ID, g.Operation.Optimizer)
		for _, m := range g.Members {
			t := set.Tables[m.Table]
			fmt.Printf(", %s %dx%d", t.Name, t.Rows, m.Dim)
		}
		fmt.Println()
	}
	// Output:
	// 0: rowwise_adagrad, t69 2223x4, t41 7165x16, t67 26765x32, t41 7165x4, t6 112787x116, t69 2223x8, t59 1112x16, t21 688162x8
	// 1: rowwise_adagrad, t79 389749x16
	// 2: sgd, t16 6550x124, t24 54128x124, t28 25346x124, t58 2472x124, t32 117067x124, t75 350496x124
	// 3: sgd, t26 105364x16
	// 4: sgd, t45 6738x64, t44 4512x64, t50 47552x64, t4 21012x64, t20 475906x64
}

// drawDomain draws bounds that allow some groups, or none.
func drawDomain(t *rapid.T) design.Domain {
	d := design.Domain{
		Batches:          rapid.SliceOfN(rapid.IntRange(1, 1<<17), 0, 4).Draw(t, "batches"),
		MinShards:        rapid.IntRange(1, 20).Draw(t, "min shards"),
		MaxDim:           4 * rapid.IntRange(1, 80).Draw(t, "max dim/4"),
		MinRows:          rapid.Int64Range(1, 1e6).Draw(t, "min rows"),
		MaxPoolingFactor: rapid.Float64Range(.05, 500).Draw(t, "max pooling"),
		Optimizers:       rapid.SliceOfN(rapid.SampledFrom([]problem.Optimizer{problem.SGD, problem.RowwiseAdagrad, problem.Adagrad, problem.Adam}), 0, 3).Draw(t, "optimizers"),
		Precisions:       rapid.SliceOfN(rapid.SampledFrom([]problem.Precision{problem.FP32, problem.FP16, problem.BF16}), 0, 2).Draw(t, "precisions"),
		WeightedShare:    rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "weighted share"),
		MaxBytes:         unit.Bytes(rapid.SampledFrom([]float64{0, 1e4, 1e6, 1e8, 1e10}).Draw(t, "max bytes")),
		MaxLookupBytes:   rapid.SampledFrom([]float64{0, 1e4, 1e6, 1e8}).Draw(t, "max lookup bytes"),
		Devices:          rapid.SliceOfN(rapid.IntRange(2, 70), 0, 3).Draw(t, "devices"),
		MaxDimSum:        rapid.SampledFrom([]int{0, 4, 130, 1000}).Draw(t, "max dim sum"),
	}
	d.MaxShards = d.MinShards + rapid.IntRange(0, 40).Draw(t, "more shards")
	d.MaxRows = d.MinRows + rapid.Int64Range(0, 1e8).Draw(t, "more rows")
	return d
}

// or returns the list, or the default if the list is empty.
func or[T any](list, otherwise []T) []T {
	if len(list) == 0 {
		return otherwise
	}
	return list
}

// For all bounds, either every draw is within them, or the error names the bound
// that allows nothing.
func TestDomainBoundsHold(t *testing.T) {
	failed, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawDomain(t)
		if faults := d.Problems(); len(faults) > 0 {
			t.Fatalf("got faults %q, want none", faults)
		}
		tables := rapid.IntRange(10, 60).Draw(t, "tables")
		seed := rapid.Uint64().Draw(t, "seed")
		set, err := d.Compute(seed, tables, 80)
		if err != nil {
			failed++
			message := err.Error()
			if !(d.MaxBytes > 0 && strings.Contains(message, "max bytes") || d.MaxLookupBytes > 0 && strings.Contains(message, "max lookup bytes") ||
				strings.Contains(message, "has a lookup")) {
				t.Fatalf("got error %q, want one that names a bound", message)
			}
			return
		}
		drawn++
		if len(set.Tables) != tables || len(set.Samples) != 80 || set.Provenance.Seed != seed {
			t.Fatalf("got %d tables, %d samples, seed %d, want %d, 80, %d", len(set.Tables), len(set.Samples), set.Provenance.Seed, tables, seed)
		}
		for i := range set.Tables {
			table := &set.Tables[i]
			if table.Rows < d.MinRows || table.Rows > d.MaxRows {
				t.Errorf("table %d: got %d rows, want %d to %d", i, table.Rows, d.MinRows, d.MaxRows)
			}
			if l := table.PoolingFactor(); l > d.MaxPoolingFactor*(1+1e-9) || l < .05*(1-1e-9) {
				t.Errorf("table %d: got pooling factor %v, want at most %v", i, l, d.MaxPoolingFactor)
			}
		}
		for i := range set.Samples {
			g := &set.Samples[i]
			if g.ID != i {
				t.Errorf("sample %d: got id %d", i, g.ID)
			}
			if n := len(g.Members); n < d.MinShards || n > d.MaxShards {
				t.Errorf("sample %d: got %d shards, want %d to %d", i, n, d.MinShards, d.MaxShards)
			}
			if !slices.Contains(or(d.Batches, design.Batches()), g.Operation.Batch) {
				t.Errorf("sample %d: got batch %d, want one of %d", i, g.Operation.Batch, d.Batches)
			}
			if len(d.Optimizers) > 0 && !slices.Contains(d.Optimizers, g.Operation.Optimizer) {
				t.Errorf("sample %d: got %v, want one of %v", i, g.Operation.Optimizer, d.Optimizers)
			}
			if !slices.Contains(or(d.Precisions, []problem.Precision{problem.FP32, problem.FP16}), g.Operation.Precision) {
				t.Errorf("sample %d: got %v, want one of %v", i, g.Operation.Precision, d.Precisions)
			}
			if d.WeightedShare == 0 && g.Operation.Weighted || d.WeightedShare == 1 && !g.Operation.Weighted {
				t.Errorf("sample %d: got weighted %v of a share of %v", i, g.Operation.Weighted, d.WeightedShare)
			}
			first, end := design.TablesOf(g.Split, tables)
			// Both sums are computed by hand.
			bytes, lookups := 0., 0.
			for _, m := range g.Members {
				if int(m.Table) < first || int(m.Table) >= end {
					t.Errorf("sample %d: table %d is not of split %d", i, m.Table, g.Split)
				}
				if m.Dim < 4 || int(m.Dim) > d.MaxDim || m.Dim%4 != 0 {
					t.Errorf("sample %d: got dim %d, want a multiple of 4 up to %d", i, m.Dim, d.MaxDim)
				}
				table := &set.Tables[m.Table]
				elements := float64(table.Rows) * float64(m.Dim)
				bytes += elements*float64(g.Operation.Precision.Bytes()) + float64(g.Operation.Optimizer.StateBytes(table.Rows, int(m.Dim)))
				lookups += float64(g.Operation.Batch) * table.PoolingFactor() * math.Max(float64(m.Dim)*4, 64)
			}
			if d.MaxBytes > 0 && bytes > float64(d.MaxBytes)*(1+1e-9) {
				t.Errorf("sample %d: got %g bytes, want at most %d", i, bytes, d.MaxBytes)
			}
			if d.MaxLookupBytes > 0 && lookups > d.MaxLookupBytes*(1+1e-9) {
				t.Errorf("sample %d: got %g bytes looked up, want at most %g", i, lookups, d.MaxLookupBytes)
			}
			if !(lookups > 0) {
				t.Errorf("sample %d looks up nothing", i)
			}
		}
		// The same seed gives the same samples again, and fewer samples are the first
		// ones.
		again, err := d.Compute(seed, tables, 33)
		if err != nil || !reflect.DeepEqual(again.Tables, set.Tables) || !reflect.DeepEqual(again.Samples, set.Samples[:33]) {
			t.Errorf("got other draws (error %v), want the first 33 of the same", err)
		}
	})
	if (failed == 0 || drawn == 0) && !testing.Short() {
		t.Errorf("got %d domains that allow nothing and %d others, want some of both", failed, drawn)
	}
}

func TestDomainCommBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDomain(t)
		seed := rapid.Uint64().Draw(t, "seed")
		set := must.Get(d.Comm(seed, 40))(t)
		for i, e := range set.Samples {
			if e.ID != i || !slices.Contains(or(d.Devices, []int{2, 4, 8}), e.Devices) || e.DevicesPerHost != e.Devices {
				t.Errorf("sample %d: got id %d, %d devices, %d a host, want one host of %d", i, e.ID, e.Devices, e.DevicesPerHost, d.Devices)
			}
			if !slices.Contains(or(d.Batches, design.Batches()), e.Batch) {
				t.Errorf("sample %d: got batch %d, want one of %d", i, e.Batch, d.Batches)
			}
			if len(e.DimSums) != e.Devices || len(e.Start) != e.Devices {
				t.Fatalf("sample %d: got %d dim sums and %d starts of %d devices", i, len(e.DimSums), len(e.Start), e.Devices)
			}
			if slices.Min(e.Start) != 0 || slices.Max(e.Start) > 20 {
				t.Errorf("sample %d: got starts %v, want 0 to 20 ms", i, e.Start)
			}
			for _, sum := range e.DimSums {
				if sum < 0 || sum%4 != 0 || d.MaxDimSum > 0 && sum > d.MaxDimSum {
					t.Errorf("sample %d: got dim sum %d, want a multiple of 4 up to %d", i, sum, d.MaxDimSum)
				}
			}
			if slices.Max(e.DimSums) == 0 {
				t.Errorf("sample %d exchanges nothing", i)
			}
		}
		if again, err := d.Comm(seed, 17); err != nil || !reflect.DeepEqual(again.Samples, set.Samples[:17]) {
			t.Errorf("got other draws (error %v), want the first 17 of the same", err)
		}
	})
}

// given returns n tables t0, t1, ..., ordered by falling rows as in many files.
func given(n int) []problem.Table {
	tables := make([]problem.Table, n)
	for i := range tables {
		tables[i] = problem.Table{
			Name: fmt.Sprint("t", i), Rows: int64(1000 * (n - i)), Dim: 64, Features: []problem.Feature{{PoolingFactor: 3}},
			Access: access.Distribution{Kind: access.Uniform},
		}
	}
	return tables
}

func TestDomainProblems(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		domain design.Domain
		want   []string
	}{
		{"zero", design.Domain{}, nil},
		{"cpu", design.CPU(), nil},
		{"more shards than the default's most", design.Domain{MinShards: 100}, nil},
		{"more rows than the default's most", design.Domain{MinRows: 1e11}, nil},
		{"batches", design.Domain{Batches: []int{512, 0, -1}}, []string{"batches: 0 is not between 1 and 16777216", "batches: -1 is not between 1 and 16777216"}},
		{"shards", design.Domain{MinShards: 5, MaxShards: 4}, []string{"min shards: 5 is not between 1 and 4"}},
		{"negative shards", design.Domain{MinShards: -1}, []string{"min shards: -1 is not between 1 and 60"}},
		{"odd dim", design.Domain{MaxDim: 6}, []string{"max dim: 6 is not a multiple of 4"}},
		{"rows", design.Domain{MinRows: 100, MaxRows: 10}, []string{"min rows: 100 is not between 1 and 10"}},
		{"pooling", design.Domain{MaxPoolingFactor: nan}, []string{"max pooling factor: NaN is not between 0.05 and 1048576"}},
		{"kinds", design.Domain{Optimizers: []problem.Optimizer{9}, Precisions: []problem.Precision{7}}, []string{"optimizers: 9 is not between 0 and 3", "precisions: 7 is not between 0 and 2"}},
		{"weighted", design.Domain{WeightedShare: 1.5}, []string{"weighted share: 1.5 is not between 0 and 1"}},
		{"bytes", design.Domain{MaxBytes: -1, MaxLookupBytes: nan}, []string{"max bytes: -1 is not between 0 and 1000000000000000000", "max lookup bytes: NaN is not between 0 and 1000000000000000000"}},
		{"infinite", design.Domain{MaxLookupBytes: math.Inf(1)}, []string{"max lookup bytes: +Inf is not between 0 and 1000000000000000000"}},
		{"devices", design.Domain{Devices: []int{1, 2, 2000}}, []string{"devices: 1 is not between 2 and 1024", "devices: 2000 is not between 2 and 1024"}},
		{"dim sum", design.Domain{MaxDimSum: 3}, []string{"max dim sum: 3 is not between 4 and 2147483647"}},
		{"few tables", design.Domain{Tables: given(9)}, []string{"tables: 9 are too few: training, validation and test need 10 for one of their own each"}},
		{"wrong tables", design.Domain{Tables: append(given(9), problem.Table{Name: "t1", Rows: 1, Dim: 4, Features: make([]problem.Feature, 1)}, problem.Table{Name: "x", Dim: 4, Features: make([]problem.Feature, 1)})}, []string{
			`table "t1": the name is used twice, by tables #1 and #9`, `table "x": rows: 0 is not between 1 and 1099511627776`,
		}},
	} {
		got := c.domain.Problems()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if len(c.want) == 0 {
			continue
		}
		for _, draw := range []func() error{
			func() error { _, err := c.domain.Compute(1, 10, 1); return err },
			func() error { _, err := c.domain.Comm(1, 1); return err },
		} {
			if err := draw(); err == nil || !strings.Contains(err.Error(), strings.Join(c.want, "\n")) {
				t.Errorf("%s: got error %v, want all of %q", c.name, err, c.want)
			}
		}
	}
}

// The error of a domain that allows nothing names the bound and the sample that
// exceeds it.
func TestImpossibleDomains(t *testing.T) {
	small := given(10)
	for _, c := range []struct {
		name            string
		domain          design.Domain
		tables, samples int
		want            string
	}{
		{"few tables", design.Domain{}, 9, 1, "tables: 9 are too few: training, validation and test need 10 for one of their own each"},
		{"negative samples", design.Domain{}, 10, -1, "samples: -1 is negative"},
		{"no room for a row", design.Domain{MinRows: 1000, MaxBytes: 7999}, 10, 1, "max bytes: 7.81 KiB cannot hold 1 shard of 4 columns and 1000 rows: raise max bytes or lower min rows"},
		// Three shards of the smallest table take 48,000 bytes, and that table is in one
		// split only.
		{
			"no room for three",
			design.Domain{MinShards: 3, MaxBytes: 47 * unit.KB, Precisions: []problem.Precision{problem.FP32}, Tables: small},
			0, 1,
			"max bytes is 45.9 KiB: raise it or take smaller tables",
		},
		{
			"too many lookups",
			design.Domain{MaxLookupBytes: 3*64*64 - 1, Batches: []int{128, 64}, Tables: small},
			0, 1,
			"look up 12.0 KiB at a batch of 64, and max lookup bytes is 12.0 KiB: raise it or draw smaller batches",
		},
		{"unread tables", design.Domain{Batches: []int{2}, MaxPoolingFactor: .05}, 10, 1, "tables has a lookup in a batch of 2: draw larger batches or other tables"},
	} {
		set, err := c.domain.Compute(1, c.tables, c.samples)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
		}
		if set != nil {
			t.Errorf("%s: got a dataset and an error", c.name)
		}
	}
	if _, err := (design.Domain{}).Comm(1, -1); err == nil || err.Error() != "samples: -1 is negative" {
		t.Errorf("got error %v, want that samples are negative", err)
	}
	// These bounds are just large enough.
	enough := design.Domain{MinShards: 3, MaxBytes: 10 * 48 * unit.KB, MaxLookupBytes: 3 * 3 * 64 * 64, Batches: []int{128, 64}, Optimizers: []problem.Optimizer{problem.Adam, problem.SGD}, Tables: small, Precisions: []problem.Precision{problem.FP32}}
	set := must.Get(enough.Compute(1, 0, 100))(t)
	for i := range set.Samples {
		if g := &set.Samples[i]; len(g.Members) != 3 || g.Operation.Batch != 64 || !enough.Allows(set.Tables, g) {
			t.Errorf("sample %d: got %+v, want three shards at the smaller batch", i, g)
		}
	}
}

// Plain draws only samples that the prototype's files can express.
func TestPaper(t *testing.T) {
	set := must.Get(design.Paper().Compute(3, 50, 400))(t)
	widest := int32(0)
	for i, g := range set.Samples {
		if g.Operation != (problem.Operation{Batch: 65536}) || len(g.Members) > 15 {
			t.Errorf("sample %d: got %+v of %d members", i, g.Operation, len(g.Members))
		}
		for _, m := range g.Members {
			widest = max(widest, m.Dim)
			if m.Dim < 4 || m.Dim > 128 || m.Dim&(m.Dim-1) != 0 {
				t.Errorf("sample %d: got dim %d, want a power of two from 4 to 128", i, m.Dim)
			}
		}
	}
	for _, table := range set.Tables {
		if len(table.Features) != 1 {
			t.Errorf("table %s: got %d features, want 1", table.Name, len(table.Features))
		}
	}
	if widest != 128 {
		t.Errorf("got %d columns at most, want 128", widest)
	}
}

// The lookups of every table in the draws can be made up with the asked statistics.
func TestCPULookupsCanBeMade(t *testing.T) {
	set := must.Get(design.CPU().Compute(5, 60, 150))(t)
	type drawn struct {
		table int32
		batch int
	}
	seen := map[drawn]bool{}
	for _, g := range set.Samples {
		for _, m := range g.Members {
			at := drawn{m.Table, g.Operation.Batch}
			if seen[at] {
				continue
			}
			seen[at] = true
			table := &set.Tables[m.Table]
			counts := table.Access.At(table.Rows, table.PoolingFactor(), at.batch)
			_, realised, err := lookups.Synthesise(lookups.Spec{Rows: table.Rows, Batch: at.batch, Features: len(table.Features), Counts: counts, Seed: 1})
			if err != nil {
				t.Fatalf("%s at a batch of %d: %v", table.Name, at.batch, err)
			}
			if apart := realised.Distance(counts); apart > lookups.Tolerance {
				t.Errorf("%s of %d rows at a batch of %d: realised to %.1f %%, want at most %.0f %%", table.Name, table.Rows, at.batch, 100*apart, 100*lookups.Tolerance)
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("got %d tables, want many", len(seen))
	}
}
