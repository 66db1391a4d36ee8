package must_test

import (
	"errors"
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
