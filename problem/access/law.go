package access

import (
	"fmt"
	"math"
	"strconv"
)

// law.go counts the rows that one-hot ids own. The data of MLPerf's DLRM-DCNv2 is made so
// (facebookresearch/dlrm, torchrec_dlrm/multi_hot.py): each id of the Criteo logs owns a
// fixed list of L rows, its own row and L-1 rows drawn once from the whole table, and a
// sample that has the id looks up all L rows.
//
//	sample    id         rows looked up
//	  0       7    -->   7  91  15      the same three rows each time id 7 comes
//	  1       4    -->   4  15  60
//	  2       7    -->   7  91  15
//
// So a batch of n samples draws n ids, and not n*L rows: D distinct ids bring L*D distinct
// rows, less the rows that several of the ids own, and a row is used as often as its id.
// Independent draws of n*L rows from the same law find fewer distinct rows, because the
// head of the law is drawn L times as often.
//
// The ids follow the distribution, one id for each row of the table. A row has its own id
// and is owned by Poisson((L-1) n / rows) of any n other ids, so the uses of a row are those
// of its own id plus a compound Poisson sum Y. A row is not used if neither its own id nor
// another id that owns the row is drawn. So rows - (rows-D) exp(-(L-1) D / rows) rows are
// distinct: never more than the table has.
//
// For the bounds m above 0 of the use-count classes, Y is counted on a grid of steps of uses,
// from 0 to m, by Panjer's recursion (ASTIN Bulletin 12, 1981): with e[k] the expected
// owners of k steps,
//
//	P(Y = 0) = exp(-all owners)      P(Y = n) = 1/n * sum over k of k e[k] P(Y = n-k)
//
// The step is one use for bounds up to gridSteps, where only the split of a class into use
// counts is assumed (a power law through the numbers of ids at the class's bounds), and
// m/gridSteps for higher bounds. Ids below half a step are joined to fewer ids of one step,
// so that their uses add up. All grids together take two to three times as long as the
// counts of the ids.

// Law says how the indices of a bag come about.
type Law uint8

const (
	// Independent draws: each lookup draws its row by the distribution. The zero value.
	Independent Law = iota
	// MultiHot ids: each bag draws one one-hot id by the distribution, which has an id for
	// each row of the table, and looks up the fixed list of rows that the id owns. The
	// list is as long as the pooling factor. A histogram counts rows under either law.
	MultiHot
)

// Laws returns all laws, the usual one first.
func Laws() []Law { return []Law{Independent, MultiHot} }

// String returns the law's name as used in files.
func (l Law) String() string {
	switch l {
	case Independent:
		return "independent"
	case MultiHot:
		return "multi_hot"
	}
	return "Law(" + strconv.Itoa(int(l)) + ")"
}

// ParseLaw returns the law of the given name.
func ParseLaw(name string) (Law, error) {
	for _, l := range Laws() {
		if l.String() == name {
			return l, nil
		}
	}
	return 0, fmt.Errorf("unknown index law %q", name)
}

// gridSteps is the number of steps of a grid of uses, a power of two.
const gridSteps = 64

// owned returns the counts of the rows of a table if each id owns perID > 1 of them, from
// the counts of the ids.
func owned(ids *Counts, rows, perID float64) Counts {
	var above [Classes]float64 // ids used more often than the bounds
	sum := 0.0
	for j := Classes - 1; j >= 0; j-- {
		sum += ids.Reuse[j] * ids.Unique
		above[j] = sum
	}
	share := (perID - 1) / rows // of the ids, those that own a row as one of their others
	var used [Classes]float64
	var g grid
	for j := range used {
		step := max(1, bounds[j].m/gridSteps)
		if j == 0 || step > 1 {
			g = newGrid(ids, &above, step, rows, share)
		}
		used[j] = above[j] + g.exceed(int(bounds[j].m/step), rows, above[0])
		if j > 0 {
			used[j] = min(used[j], used[j-1])
		}
	}
	c := classes(ids.Lookups*perID, rows, &used)
	c.RowsPerID, c.Most = perID, ids.Most+share*ids.Lookups
	return c
}

// grid counts uses in steps, from 0 to gridSteps of them.
type grid struct {
	// own[k] is the number of ids of k steps; own[0] those of the lowest half a step that
	// own[1] does not count.
	own [gridSteps + 1]float64
	// more[k] is the probability that other ids bring a row more than k steps.
	more [gridSteps + 1]float64
}

// newGrid returns the grid of the given step: 1, or an even power of two of uses.
func newGrid(ids *Counts, above *[Classes]float64, step, rows, share float64) (g grid) {
	low := 0.0 // the uses that lie below the step k
	if step > 1 {
		low = step / 2
		in, uses := 0.0, 0.0
		for j := 0; bounds[j].m < low; j++ {
			in += ids.Reuse[j] * ids.Unique
			uses += ids.Reuse[j] * ids.Unique * classMeans[j]
		}
		g.own[1] = uses / step
		g.own[0] = in - g.own[1]
	}
	before := survivors(above, low)
	for k := 1; k <= gridSteps; k++ {
		high := float64(k)*step + low
		if k == gridSteps {
			high = gridSteps * step
		}
		after := survivors(above, high)
		g.own[k] += before - after
		before = after
	}
	owners := before
	for _, in := range g.own[1:] {
		owners += in
	}
	var at [gridSteps + 1]float64
	at[0] = math.Exp(-share * owners)
	g.more[0] = -math.Expm1(-share * owners)
	for n := 1; n <= gridSteps; n++ {
		for k := 1; k <= n; k++ {
			at[n] += float64(k) * g.own[k] * at[n-k]
		}
		at[n] *= share / float64(n)
		g.more[n] = max(0, g.more[n-1]-at[n])
	}
	return g
}

// exceed returns the number of rows that are used more than m steps, but whose own id alone
// is used at most m steps, or not at all. distinct is the number of distinct ids.
func (g *grid) exceed(m int, rows, distinct float64) float64 {
	sum := (rows - distinct) * g.more[m]
	for k, in := range g.own[:m+1] {
		sum += in * g.more[m-k]
	}
	return sum
}

// survivors returns the number of ids that are used more than x times, x at most the last
// bound: between the bounds of a class by the power law through both ends.
func survivors(above *[Classes]float64, x float64) float64 {
	if x < 1 {
		return above[0]
	}
	j := min(1+math.Ilogb(x), Classes-1)
	if x == bounds[j].m || !(above[j] > 0) {
		return above[j]
	}
	part := math.Log2(x / bounds[j].m)
	if !(above[j+1] > 0) {
		return above[j] * (1 - part)
	}
	return above[j] * math.Pow(above[j+1]/above[j], part)
}
