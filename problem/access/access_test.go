package access

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func ExampleDistribution_At() {
	table := Distribution{Kind: Zipf, Exponent: 1.05}
	c := table.At(10_000_000, 20, 65536)
	fmt.Printf("lookups %.0f, distinct rows %.0f, used once %.2f, highest class %d\n",
		c.Lookups, c.Unique, c.Reuse[0], c.Highest())
	// Output:
	// lookups 1310720, distinct rows 318569, used once 0.80, highest class 16
}

// skewed is the histogram of a table of dlrm_datasets, rounded.
var skewed = [Classes]float64{0: .62, 1: .17, 2: .11, 3: .05, 4: .025, 5: .013, 6: .006, 7: .003, 8: .002, 10: .0009, 12: .0001}

// enumerate adds up F(m, mean) over every rank, the definition of what zipf
// computes by windows.
func enumerate(rows, a, n float64) (used [Classes]float64) {
	sum := 0.0
	for i := rows; i >= 1; i-- {
		sum += math.Pow(i, -a)
	}
	for i := rows; i >= 1; i-- {
		add(&used, 1, n/sum*math.Pow(i, -a))
	}
	return used
}

// banded is the reference for tables too large to enumerate: 4,096 ranks one by
// one, then logarithmic bands, each at the mean of its middle.
func banded(rows, a, n float64) (used [Classes]float64) {
	const perDecade = 4096
	law := zipfLaw{rows: rows, a: a, scale: math.Log(n / harmonic(rows, a))}
	from := 4096.5
	for i := 1.0; i < from; i++ {
		add(&used, 1, law.mean(i))
	}
	step := math.Pow(10, 1.0/perDecade)
	for from < rows+0.5 {
		to := min(from*step, rows+0.5)
		add(&used, to-from, law.mean(math.Sqrt(from*to)))
		from = to
	}
	return used
}

func add(used *[Classes]float64, count, mean float64) {
	for j := range bounds {
		f := exceed(&bounds[j], mean)
		if f < 1e-18 {
			return
		}
		used[j] += count * f
	}
}

// checkLaw compares counts with the reference numbers of rows above each bound.
func checkLaw(t *testing.T, name string, got Counts, rows, n float64, used [Classes]float64, tolerance float64) {
	t.Helper()
	want := classes(n, rows, &used)
	if math.Abs(got.Unique-want.Unique) > tolerance*want.Unique {
		t.Errorf("%s: distinct rows: got %v, want %v", name, got.Unique, want.Unique)
	}
	for j := range want.Reuse {
		g, w := got.Reuse[j]*got.Unique, want.Reuse[j]*want.Unique
		if math.Abs(g-w) > tolerance*max(w, 1) {
			t.Errorf("%s: rows of class %d: got %v, want %v", name, j, g, w)
		}
	}
	if got.Lookups != n {
		t.Errorf("%s: lookups: got %v, want %v", name, got.Lookups, n)
	}
}

func TestZipfEqualsEnumeration(t *testing.T) { zipfEqualsEnumeration(t, 1, 2, 7, 100, 4097) }

func zipfEqualsEnumeration(t *testing.T, all ...int64) {
	for _, rows := range all {
		for _, a := range []float64{.01, .3, .7, 1, 1.05, 1.5, 2, 3, 10} {
			for _, batch := range []int{1, 512, 65536} {
				for _, pooling := range []float64{.01, 1, 300} {
					if rows == 40_000 && pooling == 1 {
						continue // keeps the test short; the others enclose it
					}
					n := pooling * float64(batch)
					got := Distribution{Kind: Zipf, Exponent: a}.At(rows, pooling, batch)
					name := fmt.Sprintf("%d rows, exponent %v, %v lookups", rows, a, n)
					// The promise is 0.1 %; what is reached is far better.
					checkLaw(t, name, got, float64(rows), n, enumerate(float64(rows), a, n), 2e-6)
				}
			}
		}
	}
}

func TestZipfOfHugeTables(t *testing.T) {
	for _, rows := range []int64{40_000_000, 5_000_000_000, 1 << 40} {
		for _, a := range []float64{.3, 1, 1.05, 3} {
			n := 20.0 * 65536
			got := Distribution{Kind: Zipf, Exponent: a}.At(rows, 20, 65536)
			checkLaw(t, fmt.Sprintf("%d rows, exponent %v", rows, a), got, float64(rows), n, banded(float64(rows), a, n), 1e-4)
		}
	}
}

func TestHarmonic(t *testing.T) {
	for _, rows := range []float64{1, 63, 64, 65, 1000, 200_000} {
		for _, a := range []float64{0.01, .3, .999999, 1, 1.000001, 2, 3, 10} {
			want := 0.0
			for i := rows; i >= 1; i-- {
				want += math.Pow(i, -a)
			}
			if got := harmonic(rows, a); math.Abs(got-want) > 1e-12*want {
				t.Errorf("sum of i^-%v to %v: got %v, want %v", a, rows, got, want)
			}
		}
	}
	// ln R + Euler's constant, to 1/2R.
	if got, want := harmonic(5e9, 1), math.Log(5e9)+0.57721566490153286+1e-10; math.Abs(got-want) > 1e-12*want {
		t.Errorf("sum of 1/i to 5e9: got %v, want %v", got, want)
	}
}

func TestUnstatedIsZipfOfTheDefault(t *testing.T) {
	got := Distribution{}.At(1_000_000, 10, 4096)
	want := Distribution{Kind: Zipf, Exponent: DefaultExponent}.At(1_000_000, 10, 4096)
	if got != want {
		t.Errorf("unstated accesses: got %v, want %v", got, want)
	}
}

// TestUniform adds up Poisson's law term by term.
func TestUniform(t *testing.T) {
	for _, test := range []struct {
		rows    int64
		pooling float64
		batch   int
	}{{1, 1, 1}, {1000, .001, 1}, {1_000_000, 1, 1000}, {1000, 3, 1000}, {100, 500, 1000}, {3, 4, 65536}, {1 << 40, 20, 65536}} {
		mean := test.pooling * float64(test.batch) / float64(test.rows)
		var want [Classes]float64
		class, sum := 0, 0.0
		for k := 1; float64(k) < mean+50*math.Sqrt(mean)+100; k++ {
			for class < Classes-1 && k > 1<<class {
				class++
			}
			lgamma, _ := math.Lgamma(float64(k) + 1)
			p := math.Exp(float64(k)*math.Log(mean) - mean - lgamma)
			want[class] += p
			sum += p
		}
		got := Distribution{Kind: Uniform}.At(test.rows, test.pooling, test.batch)
		if u := sum * float64(test.rows); math.Abs(got.Unique-u) > 1e-9*u {
			t.Errorf("%+v: distinct rows: got %v, want %v", test, got.Unique, u)
		}
		for j := range want {
			if math.Abs(got.Reuse[j]-want[j]/sum) > 1e-9 {
				t.Errorf("%+v: share of class %d: got %v, want %v", test, j, got.Reuse[j], want[j]/sum)
			}
		}
	}
}

func TestHistogramAtItsOwnBatch(t *testing.T) {
	d := Distribution{Kind: Histogram, Reuse: skewed, Batch: 65536}
	got := d.At(10_000_000, 20, 65536)
	n := 20.0 * 65536
	if want := (Counts{Lookups: n, Unique: n / meanUse(&skewed), Reuse: skewed}); got != want {
		t.Errorf("at its own batch: got %v, want %v", got, want)
	}
	if got := d.At(1000, 20, 65536).Unique; got != 1000 {
		t.Errorf("distinct rows of a table of 1000: got %v, want 1000", got)
	}
	d.UniqueRows = 123456
	if got := d.At(10_000_000, 20, 65536).Unique; got != 123456 {
		t.Errorf("stated distinct rows: got %v, want 123456", got)
	}
}

func TestHistogramIsContinuousAtItsBatch(t *testing.T) {
	rounded := skewed
	rounded[0] += .003 // shares as given, not adding up to one
	const batch = 1 << 24
	for _, d := range []Distribution{
		{Kind: Histogram, Reuse: skewed, Batch: batch},
		{Kind: Histogram, Reuse: rounded, Batch: batch},
		{Kind: Histogram, Reuse: rounded, Batch: batch, UniqueRows: 7e6},
	} {
		for _, rows := range []int64{500, 3_000_000, 1e9} {
			at := d.At(rows, 20, batch)
			for _, near := range []Counts{d.At(rows, 20, batch-1), d.At(rows, 20, batch+1)} {
				// One sample more or less is 6e-8 of the batch.
				if math.Abs(near.Unique-at.Unique) > 1e-5*at.Unique {
					t.Errorf("%d rows: distinct rows jump from %v to %v", rows, at.Unique, near.Unique)
				}
				for j := range at.Reuse {
					if math.Abs(near.Reuse[j]-at.Reuse[j]) > 1e-5 {
						t.Errorf("%d rows: share of class %d jumps from %v to %v", rows, j, at.Reuse[j], near.Reuse[j])
					}
				}
			}
		}
	}
}

// TestHistogramOfHalf works the formula for a batch of half the size by hand.
func TestHistogramOfHalf(t *testing.T) {
	d := Distribution{Kind: Histogram, Batch: 1000}
	d.Reuse[0], d.Reuse[1] = .5, .5 // 1000 lookups: 333.3 rows once, 333.3 twice
	got := d.At(1e6, 1, 500)
	// Half of the rows used once stay, used once; three quarters of those used
	// twice stay, used 4/3 times.
	up := math.Log(4.0/3) / math.Log(2)
	once, twice := 1000.0/3*(.5+.75*(1-up)), 1000.0/3*.75*up
	if want := once + twice; math.Abs(got.Unique-want) > 1e-9*want {
		t.Errorf("distinct rows: got %v, want %v", got.Unique, want)
	}
	if want := twice / (once + twice); math.Abs(got.Reuse[1]-want) > 1e-12 {
		t.Errorf("share used twice: got %v, want %v", got.Reuse[1], want)
	}
}

// TestHistogramOfDouble does the same for twice the size.
func TestHistogramOfDouble(t *testing.T) {
	d := Distribution{Kind: Histogram, Batch: 1000}
	d.Reuse[0] = 1
	got := d.At(1500, 1, 2000)
	// 1000 rows are used twice now; 1000 new ones are due, and 500 exist.
	if got.Unique != 1500 || math.Abs(got.Reuse[0]-1.0/3) > 1e-12 || math.Abs(got.Reuse[1]-2.0/3) > 1e-12 {
		t.Errorf("got %v, want 1500 distinct rows, a third of them used once, the others twice", got)
	}
}

func TestNoLookups(t *testing.T) {
	for _, kind := range []Kind{Unstated, Histogram, Zipf, Uniform} {
		d := Distribution{Kind: kind, Reuse: skewed, Batch: 10, Exponent: 1}
		for _, got := range []Counts{d.At(100, 0, 512), d.At(100, 3, 0), d.At(0, 3, 512), d.At(100, math.NaN(), 512)} {
			if got != (Counts{}) {
				t.Errorf("%v: got %v, want nothing", kind, got)
			}
		}
	}
}

func TestHighest(t *testing.T) {
	for _, test := range []struct {
		unique float64
		want   int
	}{{0, -1}, {.4, -1}, {1, 0}, {100, 6}, {10_000, 12}} {
		if got := (Counts{Unique: test.unique, Reuse: skewed}).Highest(); got != test.want {
			t.Errorf("highest class of %v rows: got %d, want %d", test.unique, got, test.want)
		}
	}
}

// TestCountsAreSound draws distributions and checks what every Counts keeps:
// finite shares, no more distinct rows than rows or lookups, and never fewer of
// them in a larger batch.
func TestCountsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		rows := int64(math.Exp(rapid.Float64Range(0, math.Log(1<<40)).Draw(t, "ln rows")))
		pooling := math.Exp(rapid.Float64Range(-7, 7).Draw(t, "ln pooling"))
		batch := rapid.IntRange(1, 1<<20).Draw(t, "batch")
		more := batch + rapid.IntRange(1, 1<<20).Draw(t, "more")
		small, large := d.At(rows, pooling, batch), d.At(rows, pooling, more)
		for _, c := range []Counts{small, large} {
			if !(c.Unique > 0 && c.Unique <= c.Lookups && c.Unique <= float64(rows)) {
				t.Fatalf("distinct rows: got %v, want above 0 and at most %v lookups and %d rows", c.Unique, c.Lookups, rows)
			}
			sum := 0.0
			for _, share := range c.Reuse {
				if !(share >= 0 && share <= 1.01) {
					t.Fatalf("shares: got %v, want each between 0 and 1", c.Reuse)
				}
				sum += share
			}
			if math.Abs(sum-1) > 0.01 {
				t.Fatalf("shares: got %v with the sum %v, want 1", c.Reuse, sum)
			}
		}
		if large.Unique < small.Unique*(1-1e-9) {
			t.Fatalf("distinct rows fall from %v at a batch of %d to %v at %d", small.Unique, batch, large.Unique, more)
		}
	})
}

// TestUncachedByHand: of 100 distinct rows, 60 are used once, 30 twice and 10 often, of
// a table of 1000.
func TestUncachedByHand(t *testing.T) {
	c := Counts{Lookups: 200, Unique: 100}
	c.Reuse[0], c.Reuse[1], c.Reuse[4] = .6, .3, .1
	for _, test := range []struct {
		cached int64
		want   float64
	}{
		{0, 100},
		{5, 90 + 5},
		{10, 90},
		{25, 60 + 15},
		{40, 60},
		// 960 rows may be those used once, and 480 of them are cached.
		{520, 30},
		{999, 60 * (1 - 959.0/960)},
		{1000, 0},
		{5000, 0},
	} {
		if got := c.Uncached(1000, test.cached); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("a cache of %d rows misses %v of 100, want %v", test.cached, got, test.want)
		}
	}
	if got := (Counts{}).Uncached(1000, 10); got != 0 {
		t.Errorf("without lookups: got %v, want 0", got)
	}
}

// TestUncachedIsSound: a larger cache never misses more, and none misses everything.
func TestUncachedIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := int64(math.Exp(rapid.Float64Range(0, math.Log(1<<40)).Draw(t, "ln rows")))
		c := draw(t).At(rows, math.Exp(rapid.Float64Range(-7, 7).Draw(t, "ln pooling")), rapid.IntRange(1, 1<<20).Draw(t, "batch"))
		small := rapid.Int64Range(0, rows).Draw(t, "small")
		large := rapid.Int64Range(small, rows).Draw(t, "large")
		most, least := c.Uncached(rows, small), c.Uncached(rows, large)
		if !(least >= 0 && least <= most && most <= c.Unique*(1+1e-12)) {
			t.Fatalf("caches of %d and %d of %d rows miss %v and %v of %v", small, large, rows, most, least, c.Unique)
		}
		if got := c.Uncached(rows, 0); math.Abs(got-c.Unique) > 1e-3*c.Unique {
			t.Fatalf("no cache: misses %v of %v", got, c.Unique)
		}
	})
}

func draw(t *rapid.T) Distribution {
	d := Distribution{
		Kind:     Kind(rapid.IntRange(0, 3).Draw(t, "kind")),
		Batch:    rapid.IntRange(1, 1<<20).Draw(t, "counted batch"),
		Exponent: rapid.Float64Range(0.01, 10).Draw(t, "exponent"),
		Law:      rapid.SampledFrom(Laws()).Draw(t, "law"),
	}
	sum := 0.0
	for j := range d.Reuse {
		d.Reuse[j] = rapid.Float64Range(0.001, 1).Draw(t, "share")
		sum += d.Reuse[j]
	}
	for j := range d.Reuse {
		d.Reuse[j] /= sum
	}
	return d
}

func BenchmarkAt(b *testing.B) {
	histogram := Distribution{Kind: Histogram, Reuse: skewed, Batch: 65536}
	for _, bench := range []struct {
		name string
		d    Distribution
	}{
		{"zipf-0.3", Distribution{Kind: Zipf, Exponent: .3}},
		{"zipf-1.05", Distribution{Kind: Zipf, Exponent: 1.05}},
		{"zipf-3", Distribution{Kind: Zipf, Exponent: 3}},
		{"uniform", Distribution{Kind: Uniform}},
		{"histogram", histogram},
		{"multi_hot-1.05", Distribution{Kind: Zipf, Exponent: 1.05, Law: MultiHot}},
	} {
		for _, rows := range []int64{100_000, 5_000_000_000} {
			b.Run(fmt.Sprintf("%s/%.0g", bench.name, float64(rows)), func(b *testing.B) {
				for b.Loop() {
					bench.d.At(rows, 20, 32768)
				}
			})
		}
	}
}

// TestPart: a part has its share of every class, and the most used row whole.
func TestPart(t *testing.T) {
	// 8 rows used once and 2 used twice: half of it is 4 rows and 1 + 1/2, of 7 uses.
	c := Counts{Lookups: 12, Unique: 10, Reuse: [Classes]float64{.8, .2}}
	got := c.Part(.5)
	if want := (Counts{Lookups: 7, Unique: 5.5, Reuse: [Classes]float64{4 / 5.5, 1.5 / 5.5}}); math.Abs(got.Lookups-want.Lookups) > 1e-12 || got.Unique != want.Unique || got.Reuse != want.Reuse {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := c.Part(1); got != c {
		t.Errorf("all of it: got %+v", got)
	}
	// The most used row of a Zipf law is in the part: by the law itself, so much of it.
	const rows, exponent, share = 1_000_000, 1.2, .125
	sum := 0.0
	for i := 1; i <= rows; i++ {
		sum += math.Pow(float64(i), -exponent)
	}
	law := Distribution{Kind: Zipf, Exponent: exponent}.At(rows, 20, 65536)
	want := 1/sum + (1-1/sum)*share
	if got := law.Part(share).Lookups / law.Lookups; math.Abs(got/want-1) > .1 {
		t.Errorf("Zipf: the part has %.3f of the lookups, want about %.3f", got, want)
	}
}

// TestPartIsBetween wants a part to have at least its share of the counts and at most all
// of them, and a larger part to have more.
func TestPartIsBetween(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Distribution{Kind: rapid.SampledFrom([]Kind{Uniform, Zipf}).Draw(t, "kind"), Exponent: rapid.Float64Range(.3, 2).Draw(t, "exponent"), Law: rapid.SampledFrom(Laws()).Draw(t, "law")}
		c := d.At(rapid.Int64Range(1, 1e9).Draw(t, "rows"), rapid.Float64Range(.01, 100).Draw(t, "pooling"), rapid.IntRange(1, 1<<17).Draw(t, "batch"))
		share := rapid.Float64Range(1e-4, 1).Draw(t, "share")
		got, more := c.Part(share), c.Part(min(1, share*1.5))
		const slack = 1e-9
		if got.Lookups < share*c.Lookups*(1-slack) || got.Lookups > c.Lookups || got.Unique < share*c.Unique*(1-slack) || got.Unique > c.Unique*(1+slack) {
			t.Fatalf("%v of %+v is %+v", share, c, got)
		}
		if more.Lookups < got.Lookups*(1-slack) || more.Unique < got.Unique*(1-slack) {
			t.Fatalf("more of %+v is less: %+v after %+v", c, more, got)
		}
	})
}
