package feature

import (
	"fmt"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"pgregory.net/rapid"
)

func ExampleVector() {
	hw, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	const rows, pooling, batch, dim = 1_000_000, 20, 65536, 64
	whole := problem.Table{
		Rows: rows, Dim: dim, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.1},
		Features: []problem.Feature{{PoolingFactor: pooling, LengthCV: 0.5}},
	}
	table := Describe(&whole, whole.Counts(batch))
	op := problem.Operation{Batch: batch, Optimizer: problem.SGD}
	vector := make([]float32, Width)
	scale := Vector(vector, &hw, op, table, dim, LanesOf(&hw, op, dim))
	fmt.Println(Names()[1], vector[1]) // the logarithm of 64
	fmt.Println(scale > 0.1, scale < 10)
	// Output:
	// log_dim 4.158883
	// true true
}

func profile(t testing.TB, name string) *hardware.Profile {
	t.Helper()
	p, err := hardware.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestNamesMatchTheVector(t *testing.T) {
	names := Names()
	if len(names) != Width {
		t.Fatalf("got %d names, want %d", len(names), Width)
	}
	seen := map[string]bool{}
	for _, name := range names {
		if name == "" || seen[name] {
			t.Errorf("name %q is empty or used twice", name)
		}
		seen[name] = true
	}
	if got := len(ScalarNames()); got != ScalarCount {
		t.Errorf("got %d names of scalars, want %d", got, ScalarCount)
	}
	if got, want := names[Width-1], "reuse_16"; got != want {
		t.Errorf("got last name %q, want %q", got, want)
	}
}

func TestLanesOf(t *testing.T) {
	for _, c := range []struct {
		warp, dim int
		op        problem.Operation
		want      Lanes
	}{
		{32, 4, problem.Operation{}, Lanes8},
		{32, 32, problem.Operation{}, Lanes8},
		{0, 32, problem.Operation{Weighted: true}, Lanes8},
		{32, 36, problem.Operation{}, Lanes16},
		{32, 64, problem.Operation{Optimizer: problem.RowwiseAdagrad}, Lanes16},
		{32, 68, problem.Operation{}, LanesFull},
		{32, 1024, problem.Operation{}, LanesFull},
		{32, 1028, problem.Operation{}, LanesWide},
		{32, 4, problem.Operation{LaneRule: problem.LanesByTable}, LanesOwn},
		{32, 2048, problem.Operation{LaneRule: problem.LanesByTable}, LanesOwn},
		{64, 4, problem.Operation{}, LanesFull},
		{64, 2048, problem.Operation{LaneRule: problem.LanesByTable}, LanesFull},
		{64, 128, problem.Operation{Optimizer: problem.RowwiseAdagrad}, LanesFull},
		{64, 132, problem.Operation{Optimizer: problem.RowwiseAdagrad}, LanesWide},
	} {
		if got := LanesOf(&hardware.Profile{WarpLanes: c.warp}, c.op, c.dim); got != c.want {
			t.Errorf("warps of %d lanes, dim %d, %+v: got class %v, want %v", c.warp, c.dim, c.op, got, c.want)
		}
	}
}

// The widest slice decides the class, so the class must not fall with the width.
func TestLanesOfNeverFalls(t *testing.T) {
	for _, hw := range hardware.Profiles() {
		for o := problem.SGD; o <= problem.Adam; o++ {
			for _, rule := range []problem.LaneRule{problem.LanesByWidest, problem.LanesByTable} {
				op := problem.Operation{Optimizer: o, LaneRule: rule}
				last := LanesOf(&hw, op, 4)
				for dim := 8; dim <= 2048; dim += 4 {
					l := LanesOf(&hw, op, dim)
					if l < last {
						t.Fatalf("%s, %+v, dim %d: got class %v after %v", hw.Name, op, dim, l, last)
					}
					last = l
				}
			}
		}
	}
}

// described returns the description of a table with the given bags a sample, and coefficient of
// variation of their lengths.
func described(rows int64, bags, lengthCV float64, counts access.Counts) Table {
	t := Describe(&problem.Table{Rows: rows}, counts)
	t.Bags, t.LengthCV = bags, lengthCV
	return t
}

// A description has the bags, the lengths and the pooling of the table.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		table    problem.Table
		bags, cv float64
	}{
		{problem.Table{Features: []problem.Feature{{PoolingFactor: 6, Bags: 3, LengthCV: .5}}}, 3, .5},
		{problem.Table{Features: []problem.Feature{{PoolingFactor: 4}, {PoolingFactor: 2}}}, 2, 0},
		{problem.Table{Features: []problem.Feature{{PoolingFactor: 6, LengthCV: .5}}, Pooling: problem.PoolingNone}, 6, 0},
	} {
		c.table.Rows = 1000
		got := Describe(&c.table, c.table.Counts(100))
		if got.Rows != 1000 || got.Bags != c.bags || got.LengthCV != c.cv || got.Pooling != c.table.Pooling || got.Counts != c.table.Counts(100) {
			t.Errorf("%+v: got %+v, want %v bags with lengths varying by %v", c.table, got, c.bags, c.cv)
		}
	}
}

// The times of each lane class by hand: 1000 bags with 20,000 lookups of 2,000 rows, or with
// 5,000 lookups, and a deviation of half the mean length.
func TestIssued(t *testing.T) {
	const bags, unique, cv = 1000.0, 2000.0, 0.5
	for _, c := range []struct {
		name              string
		warp, dim         int
		lanes             Lanes
		op                problem.Operation
		lookups           float64
		rows, bag, update float64 // of a row step, of a bag, and the factor on all steps of the backward
		longest           float64
	}{
		{"8 lanes", 32, 24, Lanes8, problem.Operation{}, 20000, 20000 * (1 + 1.0294*2.9*cv) / 4, bags * math.Pow(.25, .2), math.Pow(.25, .87), 1 + 1.0294*2.9*cv},
		{"16 lanes", 32, 68, Lanes16, problem.Operation{}, 20000, 2 * 20000 * (1 + .5642*2.9*cv) / 2, bags * math.Pow(.5, .2), 2 * math.Pow(.5, .87), 1 + .5642*2.9*cv},
		{"full", 32, 24, LanesFull, problem.Operation{Precision: problem.FP16}, 20000, 20000, bags, 1, 1},
		{"wide, many lookups", 32, 24, LanesWide, problem.Operation{}, 20000, 20000. / 4, bags, 1, 1},
		{"wide, few lookups", 32, 24, LanesWide, problem.Operation{}, 5000, 5000, bags, 1, 1},
		{"wide, weighted", 32, 24, LanesWide, problem.Operation{Weighted: true}, 20000, 20000, bags, 1, 1},
		{"wide, of its own width", 32, 1028, LanesWide, problem.Operation{}, 20000, 9 * 20000, bags, 9, 1},
		{"own, narrow", 32, 24, LanesOwn, problem.Operation{}, 20000, 20000 * (1 + 1.0294*2.9*cv) / 4, bags * math.Pow(.25, .2), math.Pow(.25, .87), 1 + 1.0294*2.9*cv},
		{"own, wide", 32, 256, LanesOwn, problem.Operation{}, 20000, 2 * 20000, bags, 2, 1},
		{"64 lanes", 64, 24, LanesFull, problem.Operation{Optimizer: problem.Adam}, 20000, 20000, bags, 1, 1},
		{"64 lanes, half for the hot rows", 64, 24, LanesFull, problem.Operation{Optimizer: problem.RowwiseAdagrad}, 20000, 20000, bags, 1, 1},
		{"64 lanes, wide", 64, 24, LanesWide, problem.Operation{Optimizer: problem.RowwiseAdagrad}, 20000, 20000, bags, 1, 1},
	} {
		hw := &hardware.Profile{WarpLanes: c.warp}
		times := hw.KernelTimes(true)
		counts := access.Counts{Lookups: c.lookups, Unique: unique}
		// Class 8 has 60 % of the uses.
		counts.Reuse[2], counts.Reuse[8] = .4/access.ClassMean(2), .6/access.ClassMean(8)
		table := described(1e5, 1, cv, counts)
		const misses = 3000
		got := table.issued(hw, c.op, c.dim, c.lanes, bags, misses)
		used := c.lookups
		if c.warp == 64 && c.op.Optimizer == problem.RowwiseAdagrad && c.lanes == LanesFull {
			used -= 12000 * (1 - math.Pow(.5, .76))
		}
		distinct := times.Update
		if c.op.Optimizer != problem.SGD {
			distinct += times.State
		}
		if c.op.Precision == problem.FP16 {
			distinct += times.Rounding
		}
		blocks := .6 / access.ClassMean(8) * unique
		for _, v := range []struct {
			name      string
			got, want float64
		}{
			{"rows", got.rows, c.rows*times.Row + c.rows/c.longest/c.lookups*misses*times.Miss},
			{"bags", got.bags, c.bag * times.Bag},
			{"backward", got.backward, c.update * (times.Use*used + distinct*unique + times.Block*blocks)},
			{"prepare", got.prepare, bags * times.Prepare},
			{"longest bag", got.longest, c.longest},
		} {
			if math.Abs(v.got/v.want-1) > 1e-12 {
				t.Errorf("%s: %s: got %v, want %v", c.name, v.name, v.got, v.want)
			}
		}
	}
}

// One vector by hand: every entry from the sizes alone. 2 features, 4 lookups a
// sample, 1000 samples; 500 distinct rows, half used once (mean 1) and half in
// class 4, 9 to 16 times (mean 8/ln 2).
func TestVectorByHand(t *testing.T) {
	hw := &hardware.Profile{
		Name: "test", HBMGBps: 1000, HBMEfficiency: 0.5, L2: 32000, L2GBps: 2000, SMs: 10, Granule: 64,
	}
	counts := access.Counts{Lookups: 4000, Unique: 500}
	counts.Reuse[0], counts.Reuse[4] = 0.5, 0.5
	op := problem.Operation{Batch: 1000, Optimizer: problem.Adagrad, Precision: problem.FP16, Weighted: true}
	// 20 columns of 2 bytes: a row of 40 bytes, 64 in sectors and in granules.
	// Pooled vectors are 80 bytes, 96 in sectors.
	const n, unique, bags = 4000.0, 500.0, 2000.0
	const memory, cache, issue = 0.5e9, 2e9, 1e7 // a ms
	// The cache holds 32000/64 = 500 rows, so all 250 of class 4 are read once.
	misses := unique
	metadata := (n+bags)*8 + 4*n
	output := bags * 96
	times := hw.KernelTimes(true)
	const moved = 64 + 82 // a row in memory, with its overhead
	forward := [3]float64{(misses*moved + metadata + output) / memory, (n*64 + metadata + output) / cache, (n*times.Row + misses*times.Miss + bags*times.Bag) / issue}
	resident := 32000.0 / (500 * 64)
	gradientResident := 32000.0 / (2000 * 96)
	const state = 2 * 128 // two of ceil64(80)
	backward := [3]float64{
		(2000*96 + 2000*96*(1-gradientResident) + unique*(2*moved+state) + 4*n) / memory,
		(n*96 + unique*(2*64+state)) / cache,
		(n*times.Use + unique*(times.Update+times.State+times.Rounding)) / issue,
	}
	sort := n*160/memory + bags*times.Prepare/issue
	// The issue rate binds both ways.
	wantScale := forward[2] + backward[2] + sort
	want := map[string]float64{
		"log_rows": math.Log(5000), "log_dim": math.Log(20), "log_pooling": math.Log(5), "log_features": math.Log(2),
		"log_lookups": math.Log(4000), "log_unique_rows": math.Log(500), "log_lookups_per_unique": math.Log(8), "log_occupancy": math.Log(0.1),
		"log_row_bytes": math.Log(40), "granule_waste": 40. / 64, "sector_waste": 40. / 64, "lane_waste": 20. / 128, "log_steps": 0,
		"log_lanes": math.Log(32), "log_longest_bag": 0,
		"log_working_set_per_l2": 0, "log_lookup_bytes_per_l2": math.Log(8), "log_gradient_bytes_per_l2": math.Log(6),
		"resident_share": resident, "miss_share": misses / n, "gradient_resident_share": gradientResident,
		"log_batch": math.Log(1000), "log_waves": 0, "half_precision": 1, "weighted": 1,
		"sgd": 0, "rowwise_adagrad": 0, "adagrad": 1, "adam": 0,
		"lanes_full":           1,
		"forward_memory_share": forward[0] / wantScale, "forward_l2_share": forward[1] / wantScale, "forward_issue_share": forward[2] / wantScale,
		"backward_memory_share": backward[0] / wantScale, "backward_l2_share": backward[1] / wantScale, "backward_issue_share": backward[2] / wantScale,
		"sort_share": sort / wantScale, "state_share": unique * state / memory / wantScale,
		"output_share": output / memory / wantScale, "metadata_share": metadata / memory / wantScale,
		"bag_share": bags * times.Bag / issue / wantScale,
		"reuse_0":   0.5, "reuse_4": 0.5,
	}
	got := make([]float32, Width)
	scale := Vector(got, hw, op, described(5000, 2, 3, counts), 20, LanesFull)
	if math.Abs(scale/wantScale-1) > 1e-12 {
		t.Errorf("got scale %v, want %v", scale, wantScale)
	}
	for i, name := range Names() {
		if math.Abs(float64(got[i])-want[name]) > 1e-6*math.Max(1, math.Abs(want[name])) {
			t.Errorf("%s: got %v, want %v", name, got[i], want[name])
		}
	}
}

// With a smaller cache the most used rows are held first.
func TestMisses(t *testing.T) {
	counts := access.Counts{Lookups: 4000, Unique: 500}
	counts.Reuse[0], counts.Reuse[1], counts.Reuse[4] = 0.5, 0.3, 0.2 // 250, 150 and 100 rows
	table := described(5000, 1, 0, counts)
	again := 8/math.Ln2 - 1 // uses after the first, of a row of class 4
	for _, c := range []struct{ room, want float64 }{
		{1e9, 500},
		{250, 500}, // all rows used twice or more
		{200, 500 + 50},
		{100, 500 + 150},
		{60, 500 + 150 + 40*again},
		{0, 500 + 150 + 100*again},
	} {
		if got := table.misses(c.room); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("room for %v rows: got %v misses, want %v", c.room, got, c.want)
		}
	}
	counts.Lookups = 900 // fewer lookups than the classes stand for
	table = described(5000, 1, 0, counts)
	if got := table.misses(0); got != 900 {
		t.Errorf("got %v misses, want at most 900 lookups", got)
	}
}

func TestVectorWithoutLookups(t *testing.T) {
	dst := make([]float32, Width)
	for i := range dst {
		dst[i] = 7
	}
	table := described(1000, 1, 0, access.Distribution{}.At(1000, 0, 65536))
	if got := Vector(dst, profile(t, "a100-80"), problem.Operation{Batch: 65536}, table, 64, Lanes16); got != 0 {
		t.Errorf("got scale %v, want 0", got)
	}
	for i, v := range dst {
		if v != 0 {
			t.Fatalf("entry %d: got %v, want 0", i, v)
		}
	}
	part := table.Part(0)
	if !part.Empty() {
		t.Errorf("got part %+v, want it empty", part)
	}
}

func drawDistribution(t *rapid.T) access.Distribution {
	d := access.Distribution{Kind: access.Kind(rapid.IntRange(0, 3).Draw(t, "access"))}
	switch d.Kind {
	case access.Zipf:
		d.Exponent = rapid.Float64Range(0.3, 3).Draw(t, "exponent")
	case access.Histogram:
		d.Batch = rapid.IntRange(1, 1<<17).Draw(t, "counted on")
		sum := 0.0
		for j := range d.Reuse {
			d.Reuse[j] = rapid.Float64Range(0, 1).Draw(t, "share")
			sum += d.Reuse[j]
		}
		if sum == 0 {
			d.Reuse[0], sum = 1, 1
		}
		for j := range d.Reuse {
			d.Reuse[j] /= sum
		}
	}
	return d
}

func drawOperation(t *rapid.T) problem.Operation {
	return problem.Operation{
		Batch:     rapid.IntRange(1, 131072).Draw(t, "batch"),
		Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
		Precision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision")),
		Weighted:  rapid.Bool().Draw(t, "weighted"),
		LaneRule:  problem.LaneRule(rapid.IntRange(0, 1).Draw(t, "lane rule")),
	}
}

// Over the whole domain the vector is finite, shares are shares, and the scale
// is a time.
func TestVectorIsFinite(t *testing.T) {
	shares := []string{
		"granule_waste", "sector_waste", "lane_waste", "resident_share", "miss_share", "gradient_resident_share",
		"forward_memory_share", "forward_l2_share", "forward_issue_share",
		"backward_memory_share", "backward_l2_share", "backward_issue_share", "sort_share",
	}
	index := map[string]int{}
	for i, name := range Names() {
		index[name] = i
	}
	profiles := hardware.Profiles()
	rapid.Check(t, func(t *rapid.T) {
		hw := rapid.SampledFrom(profiles).Draw(t, "profile")
		op := drawOperation(t)
		dim := 4 * rapid.IntRange(1, 256).Draw(t, "dim/4")
		rows := max(1, rapid.Int64Range(1, 1<<40).Draw(t, "rows")>>rapid.IntRange(0, 40).Draw(t, "shift"))
		features := rapid.OneOf(rapid.SampledFrom([]float64{1, 2, 8}), rapid.Float64Range(1e-3, 300)).Draw(t, "bags")
		pooling := rapid.Float64Range(0, 300).Draw(t, "pooling")
		counts := drawDistribution(t).At(rows, pooling, op.Batch)
		table := described(rows, features, rapid.SampledFrom([]float64{0, .3, 1, 1000}).Draw(t, "length cv"), counts)
		got := make([]float32, Width)
		for l := LanesOf(&hw, op, dim); l < LaneClasses; l++ {
			scale := Vector(got, &hw, op, table, dim, l)
			if !(scale >= 0) || math.IsInf(scale, 0) || (scale == 0) != (counts.Lookups == 0 || counts.Unique == 0) {
				t.Fatalf("lanes %d: got scale %v of %+v, want a finite time, 0 without lookups alone", l, scale, counts)
			}
			for i, v := range got {
				if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
					t.Fatalf("lanes %d: %s is %v", l, Names()[i], v)
				}
			}
			for _, name := range shares {
				if v := got[index[name]]; v < 0 || v > 1.0001 {
					t.Fatalf("lanes %d: %s is %v, want 0 to 1", l, name, v)
				}
			}
			if scale == 0 {
				continue
			}
			part := table.Part(scale)
			var sums Sums
			var scalars [ScalarCount]float32
			rates := NewRates(&hw, op)
			sums.Scalars(&scalars, &rates, l, &part)
			for k, v := range scalars {
				if !(v >= 0) || math.IsInf(float64(v), 0) {
					t.Fatalf("lanes %d: %s is %v", l, ScalarNames()[k], v)
				}
			}
		}
	})
}

// A wider slice, more lookups or a larger batch takes more time.
func TestScaleGrows(t *testing.T) {
	dst := make([]float32, Width)
	profiles := hardware.Profiles()
	rapid.Check(t, func(t *rapid.T) {
		hw := rapid.SampledFrom(profiles).Draw(t, "profile")
		op := drawOperation(t)
		op.Batch = rapid.IntRange(512, 65536).Draw(t, "batch")
		dim := 4 * rapid.IntRange(1, 128).Draw(t, "dim/4")
		rows := rapid.Int64Range(1, 1<<32).Draw(t, "rows")
		pooling := rapid.Float64Range(0.1, 150).Draw(t, "pooling")
		d := access.Distribution{Kind: access.Zipf, Exponent: rapid.Float64Range(0.5, 2).Draw(t, "exponent")}
		scale := func(dim int, pooling float64, batch int) float64 {
			op := op
			op.Batch = batch
			return Vector(dst, &hw, op, described(rows, 1, 1, d.At(rows, pooling, batch)), dim, LanesFull)
		}
		base := scale(dim, pooling, op.Batch)
		if got := scale(dim+4, pooling, op.Batch); got < base {
			t.Fatalf("four columns more: got %v, want at least %v", got, base)
		}
		if got := scale(2*dim, 2*pooling, 2*op.Batch); !(got > 1.5*base) {
			t.Fatalf("twice the columns, pooling and batch: got %v, want well above %v", got, base)
		}
		if got := scale(dim, 2*pooling, op.Batch); !(got > base) {
			t.Fatalf("twice the pooling: got %v, want above %v", got, base)
		}
		if got := scale(dim, pooling, 2*op.Batch); !(got > base) {
			t.Fatalf("twice the batch: got %v, want above %v", got, base)
		}
	})
}
