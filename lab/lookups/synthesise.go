package lookups

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem/access"
)

// synthesise.go makes lookups whose histogram is the asked one:
//
//	Counts --> quotas: whole rows in each class, their sum exactly U
//	       --> hottest: if they stand for fewer lookups than n, the classes that
//	           lost less than a row to rounding get one row
//	       --> uses: each row's uses inside its class, their sum exactly n; if no uses
//	           inside the classes add up to n, all change by one factor
//	       --> a row number for each, all different
//	       --> all uses in random order, cut into bags; where ids own rows (Counts.RowsPerID),
//	           the rows of an id come together
//
// Inside a class, uses are spread evenly on a logarithmic scale, like the mean of a
// class in package access. One level moves all uses to reach n. Below the neutral
// level, all uses shrink by a factor, down to the lowest of their class. Above it
// they grow, up to the highest of their class. If the last class (more than 32768
// uses), which has no highest, has rows, only these rows grow, the hottest most:
// the other classes could take few lookups more.
//
// Counts of access.Distribution.At may contradict themselves: a table too small for
// its histogram has fewer distinct rows than the histogram stands for, so each row
// must be used more often than its class allows. All uses then grow by one factor, as in
// a real small table. To change as few rows as possible was rejected: it would put all
// missing lookups on one row, the worst case of the backward kernels.
//
// The algorithm takes O(n) time, and 8n bytes of memory in addition to the result,
// for any number of rows.

// Spec states which lookups to make up.
type Spec struct {
	// Rows is the table's height, from 1 to MaxRows.
	Rows int64
	// Batch is the number of samples, and Features the bags of each, at least 1.
	Batch, Features int
	// Counts holds the asked lookups, distinct rows and use counts, of all features
	// together. Lookups and distinct rows are rounded to whole numbers. The shares may
	// miss the sum 1 by 2 % and are taken relative to their sum.
	Counts access.Counts
	// LengthCV is the coefficient of variation of the lengths of the bags, from 0 to
	// MaxLengthCV. 0 asks for no spread.
	LengthCV float64
	// Seed decides the rows, their order and the lengths of the bags.
	Seed uint64
}

// SpecOf returns the made-up lookups of a table of the protocol, which states its batch and its
// features. They depend only on the table, its number and the seed.
func SpecOf(t *protocol.Table, seed uint64) Spec {
	counts := access.Counts{Lookups: t.PoolingFactor * float64(t.Batch), Unique: t.UniqueRows, Reuse: t.Reuse}
	if t.UniqueRows == 0 {
		counts = access.Distribution{Kind: access.Histogram, Reuse: t.Reuse, Batch: t.Batch}.At(t.Rows, t.PoolingFactor, t.Batch)
	}
	counts.RowsPerID = t.RowsPerID
	return Spec{Rows: t.Rows, Batch: t.Batch, Features: t.Features, Counts: counts, LengthCV: t.LengthCV, Seed: Mix(seed ^ Mix(uint64(t.T)))}
}

// Mix is the finaliser of SplitMix64: neighbouring numbers become unrelated ones.
func Mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// Synthesise makes up the lookups of one batch, and returns what was realised: the asked number of
// lookups, of the asked number of distinct rows, chosen at random from the whole table, with the asked
// share of each use-count class. If use counts inside their classes cannot add up to the lookups, as
// for a table too small for its histogram, rows have the uses of neighbouring classes.
//
// The lookups are in random order and cut into Features*Batch bags of equal lengths, of lengths 0
// and 1, or of random lengths around the pooling factor; with Spec.LengthCV above 0 of that spread, or
// the nearest (lengths.go). The rows of an id (Counts.RowsPerID) come one after the other.
//
// More distinct rows than there are lookups or rows are an error. Equal specs give equal lookups.
func Synthesise(s Spec) (Bags, Realised, error) {
	n, unique, err := s.totals()
	if err != nil {
		return Bags{}, Realised{}, err
	}
	random := rand.New(rand.NewPCG(s.Seed, 0x6c6f6f6b757073))
	b := Bags{Indices: make([]int64, 0, n)}
	realised := Realised{Lookups: n, Unique: unique}
	if n > 0 {
		in := quotas(&s.Counts.Reuse, unique)
		hottest(&in, &s.Counts.Reuse, unique, n)
		strata := uses(&in, n)
		in = [access.Classes]int64{}
		for _, g := range strata {
			in[classOf(g.uses)] += g.rows
		}
		realised.Reuse = shares(&in, unique)
		pick := newPermutation(s.Rows, random)
		b.Indices = draw(b.Indices, strata, pick, int(math.Round(s.Counts.RowsPerID)), random)
	}
	if s.LengthCV > 0 {
		b.Offsets = unequalOffsets(n, s.Features*s.Batch, s.LengthCV, random)
	} else {
		b.Offsets = offsets(n, s.Features*s.Batch, random)
	}
	return b, realised, nil
}

// draw appends the rows of the strata, each as often as it is used. All uses are in random
// order, or, if perID is above 1, in random order of bags of perID rows that come together.
func draw(list []int64, strata []stratum, pick *permutation, perID int, random *rand.Rand) []int64 {
	next := uint64(0)
	if perID > 1 {
		return together(list, strata, pick, perID, random)
	}
	for _, g := range strata {
		for range g.rows {
			row := int64(pick.at(next))
			next++
			for range g.uses {
				list = append(list, row)
			}
		}
	}
	shuffle(list, random)
	return list
}

func shuffle(list []int64, random *rand.Rand) {
	for i := len(list) - 1; i > 0; i-- {
		j := random.Uint64N(uint64(i) + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// together appends the rows of the strata by ids: perID neighbouring rows, which are used
// equally often but at the ends of strata, are the rows of an id and come together each time
// it is drawn. The uses that rows have beyond the least of their id are in random order.
func together(list []int64, strata []stratum, pick *permutation, perID int, random *rand.Rand) []int64 {
	var bags, left, id, uses []int64
	finish := func() {
		common := int64(0)
		if len(id) == perID {
			common = slices.Min(uses)
		}
		for range common {
			bags = append(bags, id...)
		}
		for k, row := range id {
			for range uses[k] - common {
				left = append(left, row)
			}
		}
		id, uses = id[:0], uses[:0]
	}
	next := uint64(0)
	for _, g := range strata {
		for range g.rows {
			id, uses = append(id, int64(pick.at(next))), append(uses, g.uses)
			next++
			if len(id) == perID {
				finish()
			}
		}
	}
	finish()
	shuffle(left, random)
	bags = append(bags, left...)
	order := make([]int64, len(bags)/perID)
	for i := range order {
		order[i] = int64(i)
	}
	shuffle(order, random)
	for _, bag := range order {
		list = append(list, bags[int(bag)*perID:][:perID]...)
	}
	return append(list, bags[len(order)*perID:]...)
}

// totals checks the spec and returns the lookups and distinct rows as whole
// numbers.
func (s *Spec) totals() (n, unique int64, err error) {
	c := &s.Counts
	switch {
	case s.Rows < 1 || s.Rows > MaxRows:
		return 0, 0, fmt.Errorf("rows: %d, want from 1 to %d", s.Rows, int64(MaxRows))
	case s.Batch < 1 || s.Batch > MaxBags:
		return 0, 0, fmt.Errorf("batch: %d, want from 1 to %d", s.Batch, MaxBags)
	case s.Features < 1 || s.Features > MaxBags/s.Batch:
		return 0, 0, fmt.Errorf("features: %d, want from 1 to %d at a batch of %d", s.Features, MaxBags/s.Batch, s.Batch)
	case !(c.Lookups >= 0 && c.Lookups <= MaxLookups):
		return 0, 0, fmt.Errorf("lookups: %v, want from 0 to %d", c.Lookups, MaxLookups)
	case !(c.Unique >= 0) || math.IsInf(c.Unique, 1):
		return 0, 0, fmt.Errorf("distinct rows: %v, want a finite number of at least 0", c.Unique)
	}
	if err := checkLengthCV(s.LengthCV); err != nil {
		return 0, 0, err
	}
	n = int64(math.Round(c.Lookups))
	if n == 0 {
		return 0, 0, nil
	}
	if err := checkShares(&c.Reuse); err != nil {
		return 0, 0, err
	}
	if err := s.checkRows(); err != nil {
		return 0, 0, err
	}
	unique = min(max(1, int64(math.Round(c.Unique))), n, s.Rows)
	return n, unique, nil
}

// checkRows returns an error if the table has too few rows for the distinct rows,
// or if the lookups are too few to read them. It allows for rounding: half a row,
// and half a lookup. It refuses a number of rows of an id that no id has.
func (s *Spec) checkRows() error {
	c := &s.Counts
	switch most := c.Unique - 0.5; {
	case !(c.RowsPerID >= 0 && c.RowsPerID <= MaxLookups):
		return fmt.Errorf("rows of an id: %v, want from 0 to %d", c.RowsPerID, MaxLookups)
	case most > float64(s.Rows):
		return fmt.Errorf("%v distinct rows are asked for, but the table has %d", c.Unique, s.Rows)
	case most > c.Lookups:
		return fmt.Errorf("%v distinct rows are asked for, but %v lookups cannot read more rows than lookups", c.Unique, c.Lookups)
	case c.Unique == 0:
		return fmt.Errorf("%v lookups of no distinct rows are asked for", c.Lookups)
	}
	return nil
}

// checkShares returns an error unless the shares of the use-count classes add up to
// 1.
func checkShares(reuse *[access.Classes]float64) error {
	sum := 0.0
	for j, share := range reuse {
		if !(share >= 0 && share <= 2) {
			return fmt.Errorf("share of use-count class %d: %v, want from 0 to 1", j, share)
		}
		sum += share
	}
	if math.Abs(sum-1) > 0.02 {
		return fmt.Errorf("the shares of the use-count classes add up to %v, want 1", sum)
	}
	return nil
}

// quotas rounds the rows of each class to whole numbers with the exact sum, by the
// largest remainders. Among equal remainders, the lower class gets the row.
func quotas(reuse *[access.Classes]float64, unique int64) (in [access.Classes]int64) {
	sum := 0.0
	for _, share := range reuse {
		sum += share
	}
	var rest [access.Classes]float64
	var order [access.Classes]int
	left := unique
	for j, share := range reuse {
		exact := share / sum * float64(unique)
		in[j] = min(int64(exact), left)
		rest[j] = exact - float64(in[j])
		left -= in[j]
		order[j] = j
	}
	slices.SortStableFunc(order[:], func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, j := range order {
		if left == 0 {
			break
		}
		in[j]++
		left--
	}
	return in
}

// hottest gives one row to each high class that lost a part of a row to rounding,
// as long as the rows stand for fewer lookups than n: among a few thousand distinct
// rows, a part of one row may stand for a tenth of all lookups. The rows are taken
// from the lowest class.
func hottest(in *[access.Classes]int64, reuse *[access.Classes]float64, unique, n int64) {
	sum := 0.0
	for _, share := range reuse {
		sum += share
	}
	for j := access.Classes - 1; j > 0; j-- {
		lowest := slices.IndexFunc(in[:], func(rows int64) bool { return rows > 0 })
		if _, high := bracket(in); high >= n || lowest >= j {
			return
		}
		if float64(in[j]) >= reuse[j]/sum*float64(unique) {
			continue
		}
		more := *in
		more[lowest]--
		more[j]++
		if low, _ := bracket(&more); low <= n {
			*in = more
		}
	}
}

// bracket returns the fewest and the most lookups that rows in these classes can
// take. The last class has no upper bound; MaxLookups for each row stands for it.
func bracket(in *[access.Classes]int64) (low, high int64) {
	for j, rows := range in {
		low += rows * classLow(j)
		if j < access.Classes-1 {
			high += rows * classHigh(j)
		} else if rows > 0 {
			high += MaxLookups
		}
	}
	return low, high
}

// stratum is a number of rows with equal uses.
type stratum struct {
	rows, uses int64
	class      int
	// place is where in its class the stratum lies, from 0 to 1.
	place float64
}

// strataPerClass is the number of strata that the rows of a class are divided into.
const strataPerClass = 64

// uses returns the uses of the rows of each class, with the exact sum n, which is at least the
// number of rows: inside the class, if the classes allow n.
func uses(in *[access.Classes]int64, n int64) []stratum {
	var strata []stratum
	for j, rows := range in {
		parts := min(rows, strataPerClass)
		if j < 2 {
			parts = min(rows, 1)
		}
		for k := range parts {
			strata = append(strata, stratum{
				rows:  rows*(k+1)/parts - rows*k/parts,
				class: j,
				place: (float64(k) + 0.5) / float64(parts),
			})
		}
	}
	const last = access.Classes - 1
	hot := in[last] > 0
	least, most := bracket(in)
	inside := least <= n && n <= most
	set := func(level float64) (sum int64) {
		for i := range strata {
			strata[i].set(level, hot, inside)
			sum += strata[i].rows * strata[i].uses
			if sum > n {
				return sum
			}
		}
		return sum
	}
	// At level -1 all uses are the lowest of their class. At level 1 all are the
	// highest, except in the last class: there each further level doubles the uses of
	// the hottest rows once more.
	low, high := -1.0, 2*float64(bits.Len64(uint64(n)))
	if !inside {
		low = -64 // all uses are 1
	}
	for range 64 {
		middle := (low + high) / 2
		if set(middle) <= n {
			low = middle
		} else {
			high = middle
		}
	}
	left := n - set(low)
	return fill(strata, left, inside)
}

// set sets the stratum's uses for a level; 0 is neutral. If they stay inside the class, level is
// at least -1.
func (g *stratum) set(level float64, hot, inside bool) {
	if !inside {
		g.set(0, hot, true)
		g.uses = max(1, int64(math.Round(min(MaxLookups, float64(g.uses)*math.Exp2(level)))))
		return
	}
	low, high := classLow(g.class), classHigh(g.class)
	power := float64(g.class-1) + g.place
	switch {
	case level <= 0 || !hot:
		power += level
	case g.class == access.Classes-1:
		power += level * g.place
	}
	g.uses = low
	if power >= float64(g.class-1) {
		g.uses = min(max(low, int64(math.Round(math.Exp2(min(power, 40))))), high)
	}
}

// fill adds one use to a row for each use that rounding left over, the most used
// rows first.
func fill(strata []stratum, left int64, inside bool) []stratum {
	for left > 0 {
		before := left
		for i := len(strata) - 1; i >= 0 && left > 0; i-- {
			g := strata[i]
			if inside && g.uses >= classHigh(g.class) {
				continue
			}
			if g.rows > left {
				strata[i].rows -= left
				g.rows = left
				g.uses++
				strata = append(strata, g)
				return strata
			}
			strata[i].uses++
			left -= g.rows
		}
		if left == before {
			break
		}
	}
	return strata
}

// offsets divides n lookups into bags.
func offsets(n int64, bags int, random *rand.Rand) []int64 {
	list := make([]int64, bags+1)
	lengths := list[1:]
	switch length := n / int64(bags); {
	case length*int64(bags) == n:
		for b := range lengths {
			lengths[b] = length
		}
	case length == 0:
		// Knuth's selection sampling: each bag is chosen with the probability that makes
		// all choices equally likely.
		left := n
		for b := range lengths {
			if random.Int64N(int64(bags-b)) < left {
				lengths[b] = 1
				left--
			}
		}
	default:
		for range n {
			lengths[random.Uint64N(uint64(bags))]++
		}
	}
	sum := int64(0)
	for b, length := range lengths {
		sum += length
		lengths[b] = sum
	}
	return list
}

// permutation is a random order of the numbers below rows that needs no memory: a
// chain of one-to-one steps on numbers of some bits. The chain is repeated until
// the result is below rows, fewer than two times on average.
type permutation struct {
	rows, mask uint64
	shift      int
	factors    [4]uint64
	added      [4]uint64
}

func newPermutation(rows int64, random *rand.Rand) *permutation {
	width := bits.Len64(uint64(rows - 1))
	p := &permutation{rows: uint64(rows), mask: 1<<width - 1, shift: max(1, (width+1)/2)}
	for i := range p.factors {
		p.factors[i] = random.Uint64() | 1
		p.added[i] = random.Uint64()
	}
	return p
}

// at returns the i-th number of the order, for i below rows.
func (p *permutation) at(i uint64) uint64 {
	for {
		for round := range p.factors {
			i = (i*p.factors[round] + p.added[round]) & p.mask
			i ^= i >> p.shift
		}
		if i < p.rows {
			return i
		}
	}
}
