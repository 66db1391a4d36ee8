package bound

import "testing"

// The shares of slices that together have at most the room add up to at most 1, in each limit.
func TestLargeSharesAreAtMostOne(t *testing.T) {
	for limit, shares := range largeShares {
		most := 0.0
		var add func(size, share float64, class int)
		add = func(size, share float64, class int) {
			if share > 1+1e-12 {
				t.Fatalf("limit %d: got shares of %v for slices of %v of the room", limit, share, size)
			}
			most = max(most, share)
			for c := class; c > 0; c-- {
				// A slice of class c is larger than its step.
				if more := size + largeSteps[c-1]; more < 1-1e-9 {
					add(more, share+shares[c], c)
				}
			}
		}
		add(0, 0, len(largeSteps))
		if most < 0.5 {
			t.Errorf("limit %d: got shares of at most %v, want some of 1/2 or more", limit, most)
		}
	}
}

// A larger slice has no smaller share, and the class of a slice is the number of steps below its size.
func TestLargeSharesRise(t *testing.T) {
	for i, shares := range largeShares {
		for c := 1; c < len(shares); c++ {
			if shares[c] < shares[c-1] {
				t.Errorf("limit %d: got a share of %v in class %d, and %v in the one before", i, shares[c], c, shares[c-1])
			}
		}
		if shares[0] != 0 || shares[len(shares)-1] != 1 {
			t.Errorf("limit %d: got shares from %v to %v, want 0 to 1", i, shares[0], shares[len(shares)-1])
		}
	}
	for _, at := range []struct {
		time  float64
		class int
	}{{0, 0}, {1. / 7, 0}, {0.15, 1}, {0.5, 6}, {0.51, 7}, {6. / 7, 12}, {0.99, 13}} {
		if got := largeClassOf(3*at.time, 3); got != at.class {
			t.Errorf("%v of the room: got class %d, want %d", at.time, got, at.class)
		}
	}
}
