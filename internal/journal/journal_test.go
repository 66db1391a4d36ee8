package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
)

type entry struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

func entries(n int) (list []entry) {
	for i := range n {
		list = append(list, entry{i, "a \"b\" \u00e9 <&>\n"[:i%12]})
	}
	return list
}

// opened opens a journal that the test closes.
func opened(t *testing.T, path string) (*Journal[entry], []entry) {
	t.Helper()
	j, records := must.Get2(Open[entry](path))(t)
	return j, records
}

// whole returns a journal of n entries, as bytes.
func whole(t *testing.T, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whole")
	j, _ := opened(t, path)
	for _, e := range entries(n) {
		must.Do(t, j.Append(e))
	}
	must.Do(t, j.Close())
	return must.Get(os.ReadFile(path))(t)
}

// A journal that is cut at any byte has all whole lines, and goes on to the same bytes.
func TestCutAnywhere(t *testing.T) {
	const n = 6
	content := whole(t, n)
	path := filepath.Join(t.TempDir(), "cut")
	for size := range len(content) + 1 {
		must.Do(t, os.WriteFile(path, content[:size], 0o666))
		j, got := opened(t, path)
		if lines := bytes.Count(content[:size], []byte("\n")); !slices.Equal(got, entries(lines)) {
			t.Fatalf("cut at %d: got %v, want the entries of %d lines", size, got, lines)
		}
		for _, e := range entries(n)[len(got):] {
			must.Do(t, j.Append(e))
		}
		must.Do(t, j.Close())
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, content) {
			t.Fatalf("cut at %d and continued: %v, got\n%s\nwant\n%s", size, err, again, content)
		}
	}
}

// A file that no Journal wrote, or that was changed before its last line, is refused and stays.
func TestRefused(t *testing.T) {
	lines := bytes.SplitAfter(whole(t, 6), []byte("\n"))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, content := range map[string][]byte{
		"notes":        []byte("my notes\nline 2\n"),
		"one line":     []byte("my notes"),
		"null":         []byte("null\n"),
		"random":       {0xff, 0, 3, '\n', 7},
		"lost start":   join(lines[1:]...),
		"lost line":    join(lines[0], lines[2], lines[3]),
		"a line twice": join(lines[0], lines[1], lines[1], lines[2]),
		"swapped":      join(lines[0], lines[2], lines[1], lines[3]),
		"a digit":      join(lines[0], bytes.Replace(lines[1], []byte(`"n":1`), []byte(`"n":7`), 1), lines[2]),
	} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, content, 0o666))
		_, _, err := Open[entry](path)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "begin anew") {
			t.Errorf("%s: got error %v, want one that names the file", name, err)
		}
		if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, content) {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
}

var errFull = errors.New("no space left on device")

// small is a file with room for a number of bytes. A write that does not fit is written in part.
type small struct {
	file
	room  int
	stuck bool // it cannot be truncated either
}

func (s *small) Write(p []byte) (int, error) {
	n, err := s.file.Write(p[:min(len(p), s.room)])
	if s.room -= n; n < len(p) {
		err = errors.Join(err, errFull)
	}
	return n, err
}

func (s *small) Truncate(size int64) error {
	if s.stuck {
		return errFull
	}
	return s.file.Truncate(size)
}

// If the disk is full at any point, the entries before are kept.
func TestFullDisk(t *testing.T) {
	size := len(whole(t, 6))
	for room := range size {
		path := filepath.Join(t.TempDir(), "full")
		j, _ := opened(t, path)
		j.file = &small{j.file, room, room%2 == 0}
		kept := 0
		for _, e := range entries(6) {
			err := j.Append(e)
			if err == nil {
				kept++
			} else if !errors.Is(err, errFull) {
				t.Fatalf("room for %d bytes: got error %v", room, err)
			}
		}
		if err := j.Close(); err != nil || kept == 6 {
			t.Fatalf("room for %d bytes: %d entries fit; closing: %v", room, kept, err)
		}
		j, got := opened(t, path)
		if !slices.Equal(got, entries(kept)) {
			t.Fatalf("room for %d bytes: got %v, want %d entries", room, got, kept)
		}
		must.Do(t, j.Remove())
	}
}

type counting struct {
	file
	syncs *int
}

func (c counting) Sync() error { *c.syncs++; return nil }

// Slow lines are synced at once, fast ones once a second.
func TestSyncs(t *testing.T) {
	for pause, want := range map[time.Duration]int{quickLine: 100, 10 * time.Millisecond: 1, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			j, _ := opened(t, filepath.Join(t.TempDir(), "syncs"))
			syncs := 0
			j.file = counting{j.file, &syncs}
			for range 100 {
				time.Sleep(pause)
				must.Do(t, j.Append(entry{}))
			}
			if syncs != want {
				t.Errorf("100 lines every %v: synced %d times, want %d", pause, syncs, want)
			}
			must.Do(t, j.Close())
		})
	}
}

// One process at a time has a journal. The file of a lock that a killed process left locks
// nothing, and a closed journal leaves no file but one with entries.
func TestOneAtATime(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	must.Do(t, os.WriteFile(path+".lock", nil, 0o666))
	j, _ := opened(t, path)
	if _, _, err := Open[entry](path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: got error %v", err)
	}
	must.Do(t, j.Close())
	j, _ = opened(t, path)
	must.Do(t, errors.Join(j.Append(entry{}), j.Remove()))
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("got %v left over, %v", left, err)
	}
	if _, _, err := Open[entry](filepath.Join(folder, "none", "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: got error %v", err)
	}
}

// A run goes on from what an earlier one of the same identity has kept, and from nothing else.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "run")
	stop := errors.New("stop")
	// made keeps entries up to a number, and fails there unless it is 5.
	made := func(identity string, to int) error {
		return Run(path, identity, func(known []entry, keep func(entry) error) error {
			for _, e := range entries(to)[len(known):] {
				if err := keep(e); err != nil {
					return err
				}
			}
			if to < 5 {
				return stop
			}
			return nil
		})
	}
	for _, to := range []int{0, 2, 3} {
		if err := made("a", to); !errors.Is(err, stop) {
			t.Fatalf("up to %d: got error %v", to, err)
		}
	}
	var refused *Refused
	if err := made("b", 5); !errors.As(err, &refused) || !strings.Contains(err.Error(), "another run") {
		t.Errorf("another run: got error %v", err)
	}
	if err := made("a", 5); err != nil {
		t.Errorf("got error %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("got %v left over, %v", left, err)
	}
}
