package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
)

// manyTables is a CSV file of two times the tables that a plan may have.
type manyTables struct {
	lines int
	rest  []byte
}

func (e *manyTables) Read(p []byte) (int, error) {
	for len(e.rest) < len(p) && e.lines <= 2*neuroshard.MaxPlanned {
		if e.lines == 0 {
			e.rest = append(e.rest, "name,rows,dim\n"...)
		} else {
			e.rest = fmt.Appendf(e.rest, "t%d,1000,16\n", e.lines)
		}
		e.lines++
	}
	if len(e.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// The commands plan and replan stop reading a file that has more tables than a plan may have.
func TestReadingEndsAtTheMostTables(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old.json")
	if code := run(t.Context(), strings.NewReader(""), io.Discard, io.Discard, []string{"plan", "workload:criteo-kaggle", "--gpus", "2", "--gpu", "a100-80", "--set", "method=size", "--set", "baselines=false", "-o", old}, quiet()); code != exitOK {
		t.Fatalf("got exit code %d for a small plan, want %d", code, exitOK)
	}
	for _, args := range [][]string{
		{"plan", "-", "--gpus", "2", "--gpu", "a100-80"},
		{"replan", old, "-"},
	} {
		if args[0] == "replan" && testing.Short() {
			continue
		}
		var stderr bytes.Buffer
		in := &manyTables{}
		code := run(t.Context(), in, io.Discard, &stderr, args, quiet())
		if want := fmt.Sprintf("the file has more than %d tables", neuroshard.MaxPlanned); code != exitBad || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: got exit code %d and %.300q, want %d and %q", args, code, stderr.String(), exitBad, want)
		}
		// The reader fills a buffer, so it reads some lines more than it needs.
		if most := neuroshard.MaxPlanned + 10_000; in.lines > most {
			t.Errorf("%v: got %d lines read, want at most %d", args, in.lines, most)
		}
	}
}

// blanks is a file without an end.
type blanks struct{ read int }

func (b *blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	b.read += len(p)
	return len(p), nil
}

// What show is given is read to the size of the largest plan, whatever it is.
func TestShowEndsAtTheLargestPlan(t *testing.T) {
	var stderr bytes.Buffer
	in := &blanks{}
	code := run(t.Context(), in, io.Discard, &stderr, []string{"show", "-"}, quiet())
	if code != exitBad || !strings.Contains(stderr.String(), "larger than") || in.read > 2*plan.MaxFile {
		t.Errorf("got exit code %d, %d bytes read and %q", code, in.read, stderr.String())
	}
}
