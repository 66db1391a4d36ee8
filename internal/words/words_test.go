package words_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/internal/words"
)

func TestWords(t *testing.T) {
	names := []string{"a", "b\n", "c"}
	for _, c := range []struct{ got, want string }{
		{words.Plural(0, "table"), "0 tables"},
		{words.Plural(1, "table"), "1 table"},
		{words.Plural(1234, "all-to-all"), "1234 all-to-alls"},
		{words.Plural(2, "bytes"), "2 bytes"},
		{words.List(nil, 2), ""},
		{words.List(names[:1], 2), "a"},
		{words.List([]string{"a", "b"}, 2), "a, b"},
		{words.List([]string{"a", "b", "c"}, 2), "a, b and 1 more"},
		{words.Quoted(nil, 2), ""},
		{words.Quoted(names, 3), `"a", "b\n", "c"`},
		{words.Quoted(names, 2), `"a", "b\n" and 1 more`},
		{words.More(" ", 0), ""},
		{words.More(" ", -1), ""},
		{words.More(": ", 2), ": and 2 more"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
