package assign

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// best returns the largest sum over all assignments; ok is false if all hold a forbidden pair.
func best(n int, gain func(i, j int) int64) (most int64, ok bool) {
	taken := make([]bool, n)
	var place func(i int, sum int64)
	place = func(i int, sum int64) {
		if i == n {
			most, ok = max(most, sum), true
			return
		}
		for j := range n {
			if g := gain(i, j); !taken[j] && g != Forbidden {
				taken[j] = true
				place(i+1, sum+g)
				taken[j] = false
			}
		}
	}
	place(0, 0)
	return most, ok
}

// drawn returns gains of n rows: few different ones, many of them 0, some forbidden.
func drawn(r *rand.Rand, n int) func(i, j int) int64 {
	gains := make([]int64, n*n)
	most := []int64{2, 10, 1 << 40}[r.IntN(3)]
	for k := range gains {
		switch r.IntN(6) {
		case 0:
			gains[k] = Forbidden
		case 1, 2:
		default:
			gains[k] = r.Int64N(most)
		}
	}
	return func(i, j int) int64 { return gains[i*n+j] }
}

// Max finds what trying all assignments finds.
func TestMax(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	for n := range 7 {
		for range 200 {
			gain := drawn(r, n)
			want, possible := best(n, gain)
			columns, ok := Max(n, gain)
			got := int64(0)
			for i, j := range columns {
				if ok {
					got += gain(i, j)
				}
			}
			sorted := slices.Sorted(slices.Values(columns))
			for i := range sorted {
				if sorted[i] != i {
					t.Fatalf("got columns %v, want each of 0 to %d once", columns, n-1)
				}
			}
			if ok != possible || ok && got != want {
				t.Fatalf("n %d: got %d, %v with %v; want %d, %v", n, got, ok, columns, want, possible)
			}
		}
	}
}

// The prices prove that no assignment is better, at sizes that cannot be tried.
func TestMaxIsProven(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 0))
	for _, n := range []int{40, 128, 200} {
		gain := drawn(r, n)
		if n == 128 {
			gain = func(i, j int) int64 { return int64(i+1) * int64(j+1) << 36 } // above Limit: rounded
		}
		s := solved(n, gain)
		sum, bound := int64(0), int64(0)
		for j, i := range s.row {
			sum += s.cost[i*n+j]
			bound += s.u[i] + s.v[j]
		}
		for i := range n {
			for j := range n {
				if s.cost[i*n+j]-s.u[i]-s.v[j] < 0 {
					t.Fatalf("n %d: row %d and column %d have a reduced cost of %d", n, i, j, s.cost[i*n+j]-s.u[i]-s.v[j])
				}
			}
		}
		if sum != bound {
			t.Errorf("n %d: got a cost of %d, the prices prove %d", n, sum, bound)
		}
	}
}

// Rows keep their own columns if nothing is gained by others.
func TestMaxOfEqualGains(t *testing.T) {
	columns, ok := Max(9, func(_, _ int) int64 { return 5 })
	if !ok || !slices.IsSorted(columns) {
		t.Errorf("got %v, %v; want 0 to 8", columns, ok)
	}
}

func TestMaxRefusesNegativeGains(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a gain of -1 is accepted")
		}
	}()
	Max(1, func(_, _ int) int64 { return -1 })
}
