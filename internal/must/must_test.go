package must_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

// stopped is a test that notes why it was stopped, and goes on.
type stopped struct{ why []any }

func (s *stopped) Helper() {}

func (s *stopped) Fatal(args ...any) { s.why = append(s.why, args...) }

func TestMust(t *testing.T) {
	var s stopped
	if got := must.Get(strconv.Atoi("7"))(&s); got != 7 || s.why != nil {
		t.Errorf("got %d and stopped by %v, want 7", got, s.why)
	}
	failed := errors.New("it failed")
	must.Get(7, failed)(&s)
	must.Do(&s, failed)
	if must.Do(&s, nil); len(s.why) != 2 || s.why[0] != failed || s.why[1] != failed {
		t.Errorf("got stopped by %v, want the error twice", s.why)
	}
}

// failed is a test that notes whether it failed.
type failed struct {
	testing.TB
	failed bool
}

func (f *failed) Errorf(string, ...any) { f.failed = true }

func TestMatch(t *testing.T) {
	golden := filepath.Join(t.TempDir(), "golden")
	must.Do(t, os.WriteFile(golden, []byte("a\n"), 0o666))
	for _, text := range []string{"a\n", "b\n"} {
		f := failed{TB: t}
		if must.Match(&f, golden, []byte(text)); f.failed != (text == "b\n") && !*must.Update {
			t.Errorf("%q: failed is %v", text, f.failed)
		}
	}
}
