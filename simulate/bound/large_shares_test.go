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
