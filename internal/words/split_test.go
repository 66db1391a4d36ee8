package words

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  \t ", nil},
		{"python3 -m  worker", []string{"python3", "-m", "worker"}},
		{`python3 -c "import sys; print(1)"`, []string{"python3", "-c", "import sys; print(1)"}},
		{`sh -c 'a "b" \ c'`, []string{"sh", "-c", `a "b" \ c`}},
		{`"a \"b\" \\ \n"`, []string{`a "b" \ \n`}},
		{`a\ b c`, []string{"a b", "c"}},
		{`a"b c"d'e f'`, []string{"ab cde f"}},
		{`a "" ''`, []string{"a", "", ""}},
		{"größe 'ü b'", []string{"größe", "ü b"}},
	} {
		got, err := Split(test.line)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q and %v, want %q", test.line, got, err, test.want)
		}
	}
	for _, line := range []string{`a "b`, `a 'b`, `a\`, `"a\"`} {
		if got, err := Split(line); err == nil {
			t.Errorf("%s: got %q, want an error", line, got)
		}
	}
}
