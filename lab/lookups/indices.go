// Package lookups makes up the lookups of one batch from the statistics of a table,
// and counts the statistics of given lookups. Lookup files store the lookups of a
// trace.
//
//	Synthesise   a table's statistics -> Bags, and what was realised (synthesise.go);
//	             lengths.go makes bags of a stated spread of lengths
//	Count        Bags -> Realised, the other way (indices.go)
//	LengthCV     the spread of the lengths of bags
//	WriteFile    Bags -> a file that another process reads with ReadFile (file.go)
package lookups

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/neuroshard/neuroshard/problem/access"
)

// These are the limits of one batch in one table: of its lookups, of its bags, and
// of the table's rows. A batch beyond them would not fit a device's memory. They
// keep a wrong number from taking all memory of this machine.
const (
	MaxLookups = 1 << 28
	MaxBags    = 1 << 28
	MaxRows    = 1 << 40
)

// Bags is the lookups of one batch in one table, bag by bag: bag b reads the
// rows Indices[Offsets[b]:Offsets[b+1]]. A table read by F features has F times
// the batch's samples, all samples of the first feature first.
type Bags struct {
	// Indices are row numbers.
	Indices []int64
	// Offsets has one entry more than there are bags; it starts with 0 and ends
	// with len(Indices).
	Offsets []int64
}

// Len returns the number of bags.
func (b Bags) Len() int { return max(0, len(b.Offsets)-1) }

// Check returns an error that names the first wrong bag or lookup: offsets that do
// not start with 0, fall, or do not end with the number of lookups, or a row number
// that is not below rows. If rows is 0 or less, every row number of at least 0 is
// allowed.
func (b Bags) Check(rows int64) error {
	if err := b.checkOffsets(); err != nil {
		return err
	}
	if rows <= 0 {
		rows = math.MaxInt64
	}
	for i, row := range b.Indices {
		if row < 0 || row >= rows {
			return fmt.Errorf("lookup %d: row %d, want one from 0 to %d", i, row, rows-1)
		}
	}
	return nil
}

func (b Bags) checkOffsets() error {
	if len(b.Offsets) == 0 {
		return fmt.Errorf("no offsets: a batch of no bags has one, 0")
	}
	if b.Offsets[0] != 0 {
		return fmt.Errorf("the first offset is %d, want 0", b.Offsets[0])
	}
	for i := 1; i < len(b.Offsets); i++ {
		if b.Offsets[i] < b.Offsets[i-1] {
			return fmt.Errorf("bag %d: it ends at offset %d, before its start at %d", i-1, b.Offsets[i], b.Offsets[i-1])
		}
	}
	if last := b.Offsets[len(b.Offsets)-1]; last != int64(len(b.Indices)) {
		return fmt.Errorf("the last offset is %d, want %d, the number of lookups", last, len(b.Indices))
	}
	return nil
}

// Cut returns a copy of the lookups of the first batch samples, for each of the
// features that read the table. It fails if the number of bags is not a multiple of
// features, or if the bags are of fewer samples.
func (b Bags) Cut(features, batch int) (Bags, error) {
	if err := b.checkOffsets(); err != nil {
		return Bags{}, err
	}
	if features < 1 || b.Len()%features != 0 {
		return Bags{}, fmt.Errorf("%d bags cannot be those of %d features", b.Len(), features)
	}
	have := b.Len() / features
	if batch < 0 || batch > have {
		return Bags{}, fmt.Errorf("a batch of %d samples is asked for, and the lookups are of %d", batch, have)
	}
	out := Bags{Offsets: make([]int64, 1, features*batch+1)}
	total := int64(0)
	for f := range features {
		total += b.Offsets[f*have+batch] - b.Offsets[f*have]
	}
	out.Indices = make([]int64, 0, total)
	for f := range features {
		start, shift := b.Offsets[f*have], int64(len(out.Indices))
		out.Indices = append(out.Indices, b.Indices[start:b.Offsets[f*have+batch]]...)
		for _, end := range b.Offsets[f*have+1 : f*have+batch+1] {
			out.Offsets = append(out.Offsets, end-start+shift)
		}
	}
	return out, nil
}

// Realised holds the statistics of lookups that were made or read.
type Realised struct {
	Lookups, Unique int64
	// Reuse is the share of the distinct rows in each use-count class.
	Reuse [access.Classes]float64
}

// Tolerance is the largest Distance at which lookups are close enough to the asked
// ones.
const Tolerance = 0.05

// Distance returns how far the lookups are from the asked ones: the greatest of the share of
// distinct rows in another use-count class than asked (the total variation distance) and the relative
// differences of the distinct rows and of the lookups. Lookups have whole rows only, so a difference of
// one row in each class, and of half a row or lookup in the totals, counts as 0. Shares are taken
// relative to their sum. The distance is infinite if there are lookups although none are asked for,
// and if a number is NaN.
func (r Realised) Distance(c access.Counts) float64 {
	total := 0.0
	for _, share := range c.Reuse {
		total += share
	}
	apart := 0.0
	if rows := float64(r.Unique); rows > 0 {
		for j, share := range r.Reuse {
			if total != 0 {
				share -= c.Reuse[j] / total
			}
			apart += max(0, math.Abs(share)-(1+1e-9)/rows)
		}
	}
	relative := func(got int64, want float64) float64 {
		off := max(0, math.Abs(float64(got)-want)-0.5-1e-9)
		if off == 0 {
			return 0
		}
		return off / want
	}
	distance := max(apart/2, relative(r.Unique, c.Unique), relative(r.Lookups, c.Lookups))
	if math.IsNaN(distance) {
		return math.Inf(1)
	}
	return distance
}

// LengthCV returns the coefficient of variation of the lengths of bags, their standard
// deviation over their mean; 0 if there are no lookups. offsets are those of the bags, as in
// Bags, or a part of them: they must not fall, and may start with any number. Lookups and
// bags must be within MaxLookups and MaxBags. The sums are of whole numbers, so bags of one
// length have exactly 0.
func LengthCV(offsets []int64) float64 {
	if len(offsets) < 2 {
		return 0
	}
	bags, sum := uint64(len(offsets)-1), uint64(offsets[len(offsets)-1]-offsets[0])
	squares := uint64(0) // at most the square of sum, below 2^56
	for i, end := range offsets[1:] {
		length := uint64(end - offsets[i])
		squares += length * length
	}
	return cvOf(bags, sum, squares)
}

// cvOf returns the coefficient of variation of n numbers from their sum, below 2^32, and the
// sum of their squares: the root of n squares - sum^2, over the sum.
func cvOf(n, sum, squares uint64) float64 {
	if sum == 0 {
		return 0
	}
	high, low := bits.Mul64(n, squares)
	low, borrow := bits.Sub64(low, sum*sum, 0)
	high -= borrow
	return math.Sqrt(math.Ldexp(float64(high), 64)+float64(low)) / float64(sum)
}

// Count returns the statistics of the lookups of the given rows. Its time is
// proportional to their number. It takes the memory of the rows once more, or half
// of it if all rows are below 2^32.
func Count(rows []int64) Realised {
	top := uint64(0)
	for _, row := range rows {
		top |= uint64(row)
	}
	if top <= math.MaxUint32 {
		return count[uint32](rows, top)
	}
	return count[uint64](rows, top)
}

// count sorts copies of the rows, so that equal ones are neighbours: digit by
// digit from the lowest, each pass stable, one pass for each digit of top.
func count[T uint32 | uint64](rows []int64, top uint64) Realised {
	const digit = 11
	from, to := make([]T, len(rows)), make([]T, len(rows))
	for i, row := range rows {
		from[i] = T(row)
	}
	for shift := 0; shift < bits.Len64(top); shift += digit {
		var next [1 << digit]int
		for _, row := range from {
			next[row>>shift&(1<<digit-1)]++
		}
		sum := 0
		for i, many := range next {
			next[i] = sum
			sum += many
		}
		for _, row := range from {
			place := &next[row>>shift&(1<<digit-1)]
			to[*place] = row
			*place++
		}
		from, to = to, from
	}
	r := Realised{Lookups: int64(len(rows))}
	var in [access.Classes]int64
	for len(from) > 0 {
		uses := 1
		for uses < len(from) && from[uses] == from[0] {
			uses++
		}
		in[classOf(int64(uses))]++
		r.Unique++
		from = from[uses:]
	}
	r.Reuse = shares(&in, r.Unique)
	return r
}

// shares divides the rows of each class by their sum.
func shares(in *[access.Classes]int64, sum int64) (reuse [access.Classes]float64) {
	if sum > 0 {
		for j, many := range in {
			reuse[j] = float64(many) / float64(sum)
		}
	}
	return reuse
}

// classOf returns the class of a row that is used the given times, at least 1.
func classOf(uses int64) int {
	return min(bits.Len64(uint64(uses-1)), access.Classes-1)
}

// classLow and classHigh are the fewest and the most uses of a row in class j.
// The last class has no highest: MaxLookups stands for it.
func classLow(j int) int64 {
	if j == 0 {
		return 1
	}
	return 1<<(j-1) + 1
}

func classHigh(j int) int64 {
	if j == access.Classes-1 {
		return MaxLookups
	}
	return 1 << j
}
