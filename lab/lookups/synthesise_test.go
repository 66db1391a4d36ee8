package lookups

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/access"
)

// counted counts with a map: the definition of Count.
func counted(rows []int64) Realised {
	uses := map[int64]int64{}
	for _, row := range rows {
		uses[row]++
	}
	var in [access.Classes]int64
	for _, many := range uses {
		j := 0
		for j < access.Classes-1 && many > classHigh(j) {
			j++
		}
		in[j]++
	}
	return Realised{Lookups: int64(len(rows)), Unique: int64(len(uses)), Reuse: shares(&in, int64(len(uses)))}
}

func mustMake(t testing.TB, s Spec) (Bags, Realised) {
	t.Helper()
	b, r, err := Synthesise(s)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	if err := b.Check(s.Rows); err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	if b.Len() != s.Batch*s.Features {
		t.Fatalf("%+v: got %d bags, want %d", s, b.Len(), s.Batch*s.Features)
	}
	return b, r
}

// distributions are where Counts come from in practice.
func distributions() map[string]access.Distribution {
	skewed := access.Distribution{Kind: access.Histogram, Batch: 65536}
	for j := range skewed.Reuse {
		skewed.Reuse[j] = math.Exp2(-float64(j) - 1)
	}
	skewed.Reuse[0] += math.Exp2(-access.Classes)
	flat := skewed
	for j := range flat.Reuse {
		flat.Reuse[j] = 1.0 / access.Classes
	}
	return map[string]access.Distribution{
		"zipf-1.05": {Kind: access.Zipf, Exponent: 1.05},
		"zipf-0.6":  {Kind: access.Zipf, Exponent: 0.6},
		"zipf-2":    {Kind: access.Zipf, Exponent: 2},
		"uniform":   {Kind: access.Uniform},
		"histogram": skewed,
		"flat":      flat,
	}
}

func TestSynthesiseIsWhatWasAsked(t *testing.T) {
	for name, d := range distributions() {
		for _, rows := range []int64{1_000_000, 1 << 40} {
			c := d.At(rows, 12.3, 4096)
			b, r := mustMake(t, Spec{Rows: rows, Batch: 4096, Features: 1, Counts: c, Seed: 7})
			if want := counted(b.Indices); r != want {
				t.Errorf("%s: Synthesise returned %+v, counted %+v", name, r, want)
			}
			if r.Lookups != int64(math.Round(c.Lookups)) {
				t.Errorf("%s: got %d lookups, want %v", name, r.Lookups, c.Lookups)
			}
			if got := r.Distance(c); got > Tolerance {
				t.Errorf("%s of %d rows: distance %v, want at most %v", name, rows, got, Tolerance)
			}
		}
	}
}

// TestSynthesiseAnyCounts draws counts within the limits that may contradict each
// other.
func TestSynthesiseAnyCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := int64(math.Exp(rapid.Float64Range(0, math.Log(1<<40)).Draw(t, "ln rows")))
		n := rapid.Int64Range(1, 20_000).Draw(t, "lookups")
		c := access.Counts{Lookups: float64(n), Unique: float64(rapid.Int64Range(1, min(n, rows)).Draw(t, "unique"))}
		sum := 0.0
		for j := range c.Reuse {
			if rapid.Bool().Draw(t, "class") {
				c.Reuse[j] = rapid.Float64Range(0, 1).Draw(t, "share") * math.Exp2(-float64(rapid.IntRange(0, 20).Draw(t, "scale")))
			}
			sum += c.Reuse[j]
		}
		if sum == 0 {
			c.Reuse[rapid.IntRange(0, access.Classes-1).Draw(t, "only")], sum = 1, 1
		}
		for j := range c.Reuse {
			c.Reuse[j] /= sum
		}
		s := Spec{
			Rows: rows, Batch: rapid.IntRange(1, 500).Draw(t, "batch"), Features: rapid.IntRange(1, 3).Draw(t, "features"),
			Counts: c, Seed: rapid.Uint64().Draw(t, "seed"),
			LengthCV: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 3), rapid.Float64Range(0, MaxLengthCV)).Draw(t, "length cv"),
		}
		b, r := must.Get2(Synthesise(s))(t)
		must.Do(t, b.Check(rows))
		if want := counted(b.Indices); r != want {
			t.Fatalf("Synthesise returned %+v, counted %+v", r, want)
		}
		if r.Lookups != n || r.Unique != int64(c.Unique) {
			t.Fatalf("got %d lookups of %d rows, want %v of %v", r.Lookups, r.Unique, c.Lookups, c.Unique)
		}
		if b.Len() != s.Batch*s.Features {
			t.Fatalf("got %d bags, want %d of %d", b.Len(), s.Batch, s.Features)
		}
		// If the classes themselves allow n, only rounding differs.
		in := quotas(&c.Reuse, r.Unique)
		if low, high := bracket(&in); low <= n && n <= high && r.Distance(c) != 0 {
			t.Fatalf("distance %v, want 0 as the classes allow from %d to %d lookups", r.Distance(c), low, high)
		}
	})
}

// TestHotRowsTakeTheExcess checks that a table with rows in the last class keeps
// the means of the other classes.
func TestHotRowsTakeTheExcess(t *testing.T) {
	var in [access.Classes]int64
	in[5], in[16] = 1000, 3
	n := int64(1000*access.ClassMean(5)) + 3_000_000
	groups := uses(&in, n)
	cool, hot := int64(0), []int64(nil)
	for _, g := range groups {
		if g.class == 5 {
			cool += g.rows * g.uses
		} else {
			hot = append(hot, g.uses)
		}
	}
	if want := 1000 * access.ClassMean(5); math.Abs(float64(cool)-want) > .03*want {
		t.Errorf("uses of the other rows: got %d, want %.0f", cool, want)
	}
	if slices.Sort(hot); hot[2] < 2*hot[1] || hot[1] < 2*hot[0] {
		t.Errorf("uses of the hot rows: got %d, want each at least double", hot)
	}
}

func TestSynthesiseRefuses(t *testing.T) {
	good := func() Spec {
		s := Spec{Rows: 100, Batch: 10, Features: 1, Counts: access.Counts{Lookups: 50, Unique: 20}}
		s.Counts.Reuse[0], s.Counts.Reuse[2] = .5, .5
		return s
	}
	for _, test := range []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { s.Rows = 0 }, "rows: 0"},
		{func(s *Spec) { s.Rows = MaxRows + 1 }, "rows: 1099511627777"},
		{func(s *Spec) { s.Batch = 0 }, "batch: 0"},
		{func(s *Spec) { s.Batch = math.MaxInt }, "batch: 9223372036854775807"},
		{func(s *Spec) { s.Features = 0 }, "features: 0"},
		{func(s *Spec) { s.Features = math.MaxInt }, "features: 9223372036854775807"},
		{func(s *Spec) { s.Counts.Lookups = math.NaN() }, "lookups: NaN"},
		{func(s *Spec) { s.Counts.Lookups = -1 }, "lookups: -1"},
		{func(s *Spec) { s.Counts.Lookups = 1e18 }, "lookups: 1e+18"},
		{func(s *Spec) { s.Counts.Unique = math.NaN() }, "distinct rows: NaN"},
		{func(s *Spec) { s.Counts.Unique = math.Inf(1) }, "distinct rows: +Inf"},
		{func(s *Spec) { s.Counts.Reuse[3] = math.NaN() }, "class 3: NaN"},
		{func(s *Spec) { s.Counts.Reuse[3] = -.1 }, "class 3: -0.1"},
		{func(s *Spec) { s.Counts.Reuse[3] = .1 }, "add up to 1.1"},
		{func(s *Spec) { s.Counts.Reuse = [17]float64{} }, "add up to 0"},
		{func(s *Spec) { s.Counts.Unique = 0 }, "50 lookups of no distinct rows"},
		{func(s *Spec) { s.Counts.Unique = 51 }, "51 distinct rows are asked for, but 50 lookups"},
		{func(s *Spec) { s.Rows = 19 }, "20 distinct rows are asked for, but the table has 19"},
	} {
		s := good()
		test.change(&s)
		b, _, err := Synthesise(s)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
		if b.Indices != nil || b.Offsets != nil {
			t.Errorf("%v: got lookups and the error", err)
		}
	}
}

func TestSynthesiseIsDeterministic(t *testing.T) {
	s := Spec{Rows: 5000, Batch: 100, Features: 2, Counts: access.Distribution{}.At(5000, 7.5, 100), Seed: 3}
	first, _ := mustMake(t, s)
	again, _ := mustMake(t, s)
	if !equal(first, again) {
		t.Error("two runs of one seed differ")
	}
	s.Seed++
	if other, _ := mustMake(t, s); slices.Equal(first.Indices, other.Indices) || slices.Equal(first.Offsets, other.Offsets) {
		t.Error("another seed gives the same rows or the same bags")
	}
}

func TestBagLengths(t *testing.T) {
	for _, test := range []struct {
		pooling                 float64
		features                int
		shortest, longest, bags int64
	}{
		{1, 1, 1, 1, 1000},
		{20, 1, 20, 20, 1000},
		{20, 4, 5, 5, 4000},
		{.25, 1, 0, 1, 1000},
	} {
		b, _ := mustMake(t, Spec{Rows: 1 << 30, Batch: 1000, Features: test.features, Counts: access.Distribution{}.At(1<<30, test.pooling, 1000)})
		for i := range b.Len() {
			if length := b.Offsets[i+1] - b.Offsets[i]; length < test.shortest || length > test.longest {
				t.Errorf("pooling factor %v: bag %d has %d lookups, want from %d to %d", test.pooling, i, length, test.shortest, test.longest)
			}
		}
	}
	// Otherwise the variance of a length is that of the multinomial distribution,
	// about the mean.
	b, r := mustMake(t, Spec{Rows: 1 << 30, Batch: 10_000, Features: 1, Counts: access.Distribution{}.At(1<<30, 12.3, 10_000)})
	mean, variance := float64(r.Lookups)/10_000, 0.0
	for i := range b.Len() {
		d := float64(b.Offsets[i+1]-b.Offsets[i]) - mean
		variance += d * d / 10_000
	}
	if variance < .9*mean || variance > 1.1*mean {
		t.Errorf("variance of the lengths: got %v, want about %v", variance, mean)
	}
}

// TestRowsAreSpread checks, by the chi-square statistic over 16 parts, that the
// rows and also the hot rows come from all of the table.
func TestRowsAreSpread(t *testing.T) {
	for _, rows := range []int64{20_000, 3_000_000, 1 << 40} {
		c := access.Counts{Lookups: 30_000, Unique: 10_000}
		c.Reuse[0], c.Reuse[3] = 5.0/7, 2.0/7
		b, _ := mustMake(t, Spec{Rows: rows, Batch: 100, Features: 1, Counts: c, Seed: 5})
		for _, least := range []int{1, 5} {
			uses := map[int64]int{}
			for _, row := range b.Indices {
				uses[row]++
			}
			var parts [16]float64
			total := 0.0
			for row, many := range uses {
				if many >= least {
					parts[row*16/rows]++
					total++
				}
			}
			chi := 0.0
			for _, part := range parts {
				chi += (part - total/16) * (part - total/16) / (total / 16)
			}
			// 15 degrees of freedom: above 37.7 once in a thousand.
			if chi > 37.7 {
				t.Errorf("%d rows, used %d times or more: chi-square %v over %v", rows, least, chi, parts)
			}
		}
	}
}

// TestOrderIsRandom checks that equal rows are not next to each other, and that no
// bag is preferred.
func TestOrderIsRandom(t *testing.T) {
	c := access.Counts{Lookups: 40_000, Unique: 10_000}
	c.Reuse[2] = 1
	b, _ := mustMake(t, Spec{Rows: 1 << 20, Batch: 100, Features: 1, Counts: c, Seed: 5})
	pairs := 0
	for i := 1; i < len(b.Indices); i++ {
		if b.Indices[i] == b.Indices[i-1] {
			pairs++
		}
	}
	if pairs > 20 { // 3 are expected
		t.Errorf("%d neighbours are equal, want few", pairs)
	}
	// Groups are laid out hottest last: the first half must have half of them.
	c.Reuse[2], c.Reuse[0], c.Reuse[7] = 0, .98, .02
	c.Lookups = 9800 + 200*90
	b, _ = mustMake(t, Spec{Rows: 1 << 20, Batch: 100, Features: 1, Counts: c, Seed: 5})
	half := counted(b.Indices[:len(b.Indices)/2])
	if want := .5 * 9800; math.Abs(half.Reuse[0]*float64(half.Unique)-want) > 300 {
		t.Errorf("rows used once in the first half: got %v, want about %v", half.Reuse[0]*float64(half.Unique), want)
	}
}

func TestDistance(t *testing.T) {
	asked := access.Counts{Lookups: 1500, Unique: 1000}
	asked.Reuse[0], asked.Reuse[1] = .5, .5
	at := func(lookups, unique int64, once float64) Realised {
		r := Realised{Lookups: lookups, Unique: unique}
		r.Reuse[0], r.Reuse[1] = once, 1-once
		return r
	}
	for _, test := range []struct {
		got  Realised
		want float64
	}{
		{at(1500, 1000, .5), 0},
		{at(1500, 1000, .501), 0},
		{at(1500, 1000, .6), .099},
		{at(1500, 900, .5), .0995},
		{at(1200, 1000, .5), 299.5 / 1500},
		{Realised{}, 1499.5 / 1500},
	} {
		if got := test.got.Distance(asked); math.Abs(got-test.want) > 1e-6 {
			t.Errorf("%+v: got %v, want %v", test.got, got, test.want)
		}
	}
	nan := asked
	nan.Reuse[0] = math.NaN()
	for _, c := range []access.Counts{{}, nan} {
		if got := at(1500, 1000, .5).Distance(c); !math.IsInf(got, 1) {
			t.Errorf("from %+v: got %v, want +Inf", c, got)
		}
	}
}

func ExampleSynthesise() {
	counts := access.Distribution{Kind: access.Zipf, Exponent: 1.05}.At(1_000_000, 12.5, 4096)
	bags, realised, err := Synthesise(Spec{Rows: 1_000_000, Batch: 4096, Features: 1, Counts: counts, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d bags, %d lookups of %d rows\n", bags.Len(), realised.Lookups, realised.Unique)
	fmt.Printf("asked: %.1f %% used once, got %.1f %%\n", 100*counts.Reuse[0], 100*realised.Reuse[0])
	// Output:
	// 4096 bags, 51200 lookups of 17655 rows
	// asked: 82.1 % used once, got 82.1 %
}

// TestSynthesiseByIndexLaw: the rows of an id come in one bag each time the id is drawn, and
// the counts are those that a cost model of the law has: more distinct rows than by
// independent draws.
func TestSynthesiseByIndexLaw(t *testing.T) {
	const rows, perID, batch = 1_000_000, 8, 4096
	d := access.Distribution{Kind: access.Zipf, Exponent: 1.05, Law: access.MultiHot}
	counts := d.At(rows, perID, batch)
	b, r := mustMake(t, Spec{Rows: rows, Batch: batch, Features: 1, Counts: counts, Seed: 5})
	if apart := r.Distance(counts); apart > Tolerance {
		t.Errorf("the lookups are %.3f from the asked counts, want at most %v", apart, Tolerance)
	}
	if got := Count(b.Indices); got != r {
		t.Errorf("got %+v, want what was realised, %+v", got, r)
	}
	d.Law = access.Independent
	if alone := d.At(rows, perID, batch).Unique; float64(r.Unique) < 1.3*alone {
		t.Errorf("got %d distinct rows, want many more than the %.0f of independent draws", r.Unique, alone)
	}
	// The rows of a bag are those of the first bag that has its first row.
	first := map[int64][]int64{}
	same := 0
	for i := range batch {
		bag := slices.Clone(b.Indices[b.Offsets[i]:b.Offsets[i+1]])
		slices.Sort(bag)
		if len(bag) != perID {
			t.Fatalf("bag %d has %d lookups, want %d", i, len(bag), perID)
		}
		known, ok := first[bag[0]]
		if !ok {
			first[bag[0]] = bag
		}
		if !ok || slices.Equal(known, bag) {
			same++
		}
	}
	if same < batch*9/10 {
		t.Errorf("%d of %d bags have the rows of one id, want nearly all", same, batch)
	}
}
