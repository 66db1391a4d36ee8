package words_test

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/words"
)

func TestClosest(t *testing.T) {
	known := []string{"rows", "dim", "pooling_factor", "features"}
	for word, want := range map[string]string{
		"row": "rows", "rosw": "rows", "dims": "dim", "pooling": "pooling_factor", "feature": "features",
		"x": "", "completely": "", strings.Repeat("rows", 20): "",
	} {
		if got := words.Closest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"kitten", "sitting", 3},
		{"flaw", "lawn", 2},
		{"ab", "ba", 1},
		{"abc", "cab", 2},
	} {
		if got := words.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func FuzzClosest(f *testing.F) {
	f.Add("row", "rows")
	f.Fuzz(func(t *testing.T, word, known string) {
		if got := words.Closest(word, []string{known}); got != "" && got != known {
			t.Errorf("got %q, want %q or nothing", got, known)
		}
	})
}
