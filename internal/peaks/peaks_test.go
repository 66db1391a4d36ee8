package peaks

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMax compares with the largest of a plain slice, after any changes.
func TestMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3*size+1).Draw(t, "numbers")
		list, want := New[int](n), make([]int, n)
		for range rapid.IntRange(0, 200).Draw(t, "changes") {
			if rapid.IntRange(0, 50).Draw(t, "fill") == 0 {
				value := rapid.IntRange(-3, 3).Draw(t, "value of all")
				list.Fill(value)
				for i := range want {
					want[i] = value
				}
			}
			i, value := rapid.IntRange(0, n-1).Draw(t, "place"), rapid.IntRange(-5, 5).Draw(t, "value")
			list.Set(i, value)
			want[i] = value
			if rapid.Bool().Draw(t, "look") && list.Max() != slices.Max(want) {
				t.Fatalf("got %d, want the largest of %v", list.Max(), want)
			}
		}
		if list.Max() != slices.Max(want) || !slices.Equal(list.Values(), want) {
			t.Errorf("got %d of %v, want the largest of %v", list.Max(), list.Values(), want)
		}
	})
}
