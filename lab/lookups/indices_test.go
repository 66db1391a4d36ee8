package lookups

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func equal(a, b Bags) bool {
	return slices.Equal(a.Indices, b.Indices) && slices.Equal(a.Offsets, b.Offsets)
}

// TestLengthCV: bags of one length have exactly 0, any part of a list of offsets is that of its
// bags, and the largest sums that a table may have do not overflow.
func TestLengthCV(t *testing.T) {
	for _, c := range []struct {
		offsets []int64
		want    float64
	}{
		{nil, 0},
		{[]int64{0}, 0},
		{[]int64{0, 0, 0}, 0},
		{[]int64{0, 7}, 0},
		{[]int64{0, 7, 14, 21}, 0},
		{[]int64{5, 6, 6}, 1},
		{[]int64{0, 1, 3, 6}, math.Sqrt(2./3) / 2},
		{[]int64{0, 0, 0, 0, 12}, math.Sqrt(3)},
		{[]int64{0, MaxLookups}, 0},
		{[]int64{0, MaxLookups, MaxLookups}, 1},
	} {
		if got := LengthCV(c.offsets); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%v: got %v, want %v", c.offsets, got, c.want)
		}
	}
	if got, want := cvOf(MaxBags, MaxLookups, MaxLookups*MaxLookups), math.Sqrt(MaxBags-1); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("all lookups in one of the most bags: got %v, want %v", got, want)
	}
	random := rand.New(rand.NewPCG(3, 1))
	for range 20 {
		offsets := []int64{random.Int64N(100)}
		sum, squares, n := 0.0, 0.0, 1+random.IntN(50)
		for i := range n {
			length := random.Int64N(20)
			offsets = append(offsets, offsets[i]+length)
			sum, squares = sum+float64(length), squares+float64(length*length)
		}
		mean := sum / float64(n)
		want := 0.0
		if mean > 0 {
			want = math.Sqrt(max(0, squares/float64(n)-mean*mean)) / mean
		}
		if got := LengthCV(offsets); math.Abs(got-want) > 1e-6 {
			t.Errorf("%v: got %v, want %v", offsets, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	good := Bags{Indices: []int64{5, 6, 7}, Offsets: []int64{0, 2, 2, 3}}
	if err := good.Check(8); err != nil {
		t.Error(err)
	}
	if err := good.Check(0); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		bags Bags
		want string
	}{
		{Bags{}, "no offsets"},
		{Bags{Offsets: []int64{1}}, "the first offset is 1"},
		{Bags{Indices: []int64{1, 2}, Offsets: []int64{0, 2, 1, 2}}, "bag 1: it ends at offset 1, before its start at 2"},
		{Bags{Indices: []int64{1, 2}, Offsets: []int64{0, 1}}, "the last offset is 1, want 2"},
		{Bags{Indices: []int64{1}, Offsets: []int64{0, 1 << 60}}, "the last offset is 1152921504606846976, want 1"},
		{Bags{Indices: []int64{1, -1}, Offsets: []int64{0, 2}}, "lookup 1: row -1"},
		{Bags{Indices: []int64{8}, Offsets: []int64{0, 1}}, "lookup 0: row 8, want one from 0 to 7"},
	} {
		if err := test.bags.Check(8); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q", test.bags, err, test.want)
		}
	}
}

func TestCut(t *testing.T) {
	b := Bags{Indices: []int64{1, 2, 3, 4, 5, 6, 7}, Offsets: []int64{0, 2, 3, 3, 5, 5, 7}} // 2 features, 3 samples
	for _, test := range []struct {
		features, batch int
		want            Bags
	}{
		{2, 3, b},
		{2, 2, Bags{Indices: []int64{1, 2, 3, 4, 5}, Offsets: []int64{0, 2, 3, 5, 5}}},
		{2, 1, Bags{Indices: []int64{1, 2, 4, 5}, Offsets: []int64{0, 2, 4}}},
		{2, 0, Bags{Offsets: []int64{0}}},
		{1, 4, Bags{Indices: []int64{1, 2, 3, 4, 5}, Offsets: []int64{0, 2, 3, 3, 5}}},
	} {
		got, err := b.Cut(test.features, test.batch)
		if err != nil || !equal(got, test.want) {
			t.Errorf("%d features, %d samples: got %v and %v, want %v", test.features, test.batch, got, err, test.want)
		}
	}
	for _, test := range []struct {
		bags            Bags
		features, batch int
		want            string
	}{
		{b, 4, 1, "6 bags cannot be those of 4 features"},
		{b, 0, 1, "6 bags cannot be those of 0 features"},
		{b, 2, 4, "a batch of 4 samples is asked for, and the lookups are of 3"},
		{b, 2, -1, "a batch of -1"},
		{Bags{Offsets: []int64{0, 9}}, 1, 1, "the last offset is 9"},
	} {
		if _, err := test.bags.Cut(test.features, test.batch); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

func ExampleCount() {
	r := Count([]int64{7, 3, 7, 9, 7, 3})
	fmt.Printf("%d lookups of %d rows\n", r.Lookups, r.Unique)
	fmt.Printf("used once %.2f, twice %.2f, three or four times %.2f\n", r.Reuse[0], r.Reuse[1], r.Reuse[2])
	// Output:
	// 6 lookups of 3 rows
	// used once 0.33, twice 0.33, three or four times 0.33
}
