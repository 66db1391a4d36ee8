// Package assign solves the assignment problem: n rows and n columns, a gain for each pair of a
// row and a column, and each row takes a column of its own, so that the sum of the gains is the
// largest.
//
//	            column 0  1  2
//	row 0              7* 5  1
//	row 1              8  5* 0       the best: 7 + 5 + 3 = 15
//	row 2              2  1  3*
//
// Rows get their columns one after the other. Each row looks for the cheapest alternating path
// to a free column: the row takes a column, the row that had that column takes another one, and
// the last row takes the free one. Prices of rows and columns make all reduced costs at least
// 0, so that Dijkstra's search finds the path: R. Jonker and A. Volgenant, "A shortest augmenting
// path algorithm for dense and sparse linear assignment problems", Computing 38, 1987. A search
// is O(n^2), the whole O(n^3). All sums are integers, so the result is exact.
//
// The package is of our own because no maintained Go library was found: the Go module proxy
// serves none of the packages looked at (of oddg, dchapes, arthurkushman and charles-haynes), and
// the two whose dates were seen were last changed in 2017 and 2019.
package assign

import "math"

// Forbidden is the gain of a pair that no assignment may hold.
const Forbidden = math.MinInt64

// Limit is the largest sum, over all rows, of a row's largest gain without which Max counts
// exactly. Above it, gains are rounded down to multiples of a power of 2.
const Limit = 1 << 50

// Max returns the column of each row in an assignment with the largest sum of gains. gain(i, j)
// is the gain of row i with column j, at least 0, or Forbidden. ok is false if each assignment
// holds a forbidden pair. If a row may choose between columns that are equally good, it prefers
// the column of its own number. Max panics if a gain is negative; n is at most 2^12.
func Max(n int, gain func(i, j int) int64) (columns []int, ok bool) {
	columns, ok = make([]int, n), true
	for j, i := range solved(n, gain).row {
		columns[i] = j
		ok = ok && gain(i, j) != Forbidden
	}
	return columns, ok
}

// solved returns the solver with a column for each row.
func solved(n int, gain func(i, j int) int64) *solver {
	s := &solver{
		n: n, cost: costsOf(n, gain), u: make([]int64, n), v: make([]int64, n),
		row: make([]int, n), from: make([]int, n), dist: make([]int64, n), done: make([]bool, n),
	}
	for j := range s.row {
		s.row[j] = -1
	}
	for i := range n {
		s.add(i)
	}
	return s
}

// costsOf returns the cost of each pair, row by row: the row's largest gain less the pair's, and
// for a forbidden pair more than all rows together can lose.
func costsOf(n int, gain func(i, j int) int64) []int64 {
	cost := make([]int64, n*n)
	best := make([]int64, n)
	sum := 0.0
	for i := range n {
		for j := range n {
			g := gain(i, j)
			if g < 0 && g != Forbidden {
				panic("assign: a gain is negative")
			}
			cost[i*n+j] = g
			best[i] = max(best[i], g)
		}
		sum += float64(best[i])
	}
	shift := 0
	for sum > Limit {
		sum, shift = sum/2, shift+1
	}
	worst := int64(sum) + int64(n) + 1
	for i := range n {
		for k := i * n; k < (i+1)*n; k++ {
			if cost[k] == Forbidden {
				cost[k] = worst
			} else {
				cost[k] = (best[i] - cost[k]) >> shift
			}
		}
	}
	return cost
}

type solver struct {
	n    int
	cost []int64
	// u and v are the prices of rows and columns: cost - u - v is at least 0, and 0 for a row
	// with its column.
	u, v []int64
	// row is the row that has a column, or -1.
	row []int
	// from, dist and done are of one search: the column before on the path, the length of the
	// shortest path found, and whether that is final.
	from []int
	dist []int64
	done []bool
}

// add gives row i a column.
func (s *solver) add(i int) {
	for j := range s.n {
		s.dist[j], s.from[j], s.done[j] = math.MaxInt64, -1, false
	}
	reached := []int{} // the final columns that rows have
	at, last, length := i, -1, int64(0)
	for {
		next := s.relax(i, at, last, length)
		length, last = s.dist[next], next
		s.done[next] = true
		if s.row[next] < 0 {
			break
		}
		reached = append(reached, next)
		at = s.row[next]
	}
	s.u[i] += length
	for _, j := range reached {
		s.u[s.row[j]] += length - s.dist[j]
		s.v[j] -= length - s.dist[j]
	}
	for j := last; ; j = s.from[j] {
		if s.from[j] < 0 {
			s.row[j] = i
			return
		}
		s.row[j] = s.row[s.from[j]]
	}
}

// relax goes on from row at, which is reached by column last at the given length, and returns the
// nearest column that is not final. Of equally near columns it takes a free one, and then the
// first from column i on.
func (s *solver) relax(i, at, last int, length int64) int {
	costs, u := s.cost[at*s.n:(at+1)*s.n], s.u[at]
	next := -1
	scan := func(from, to int) {
		for j := from; j < to; j++ {
			if s.done[j] {
				continue
			}
			if d := length + costs[j] - u - s.v[j]; d < s.dist[j] {
				s.dist[j], s.from[j] = d, last
			}
			if next < 0 || s.dist[j] < s.dist[next] || s.dist[j] == s.dist[next] && s.row[j] < 0 && s.row[next] >= 0 {
				next = j
			}
		}
	}
	scan(i, s.n)
	scan(0, i)
	return next
}
