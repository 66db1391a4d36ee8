package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

// names lists what is in a folder.
func names(t testing.TB, folder string) string {
	t.Helper()
	entries := must.Get(os.ReadDir(folder))(t)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestWrite(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	for _, want := range []string{"new", "newer"} {
		must.Do(t, Write(path, text(want)))
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got := names(t, folder); got != "a" {
		t.Errorf("got files %q, want a alone", got)
	}
}

// TestWriteFails has each step fail: the old file stays and no other is left.
func TestWriteFails(t *testing.T) {
	broken := errors.New("disk full")
	for name, write := range map[string]func(io.Writer) error{
		"at once": func(io.Writer) error { return broken },
		"half-way": func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte("x"), 1<<16))
			return errors.Join(err, broken)
		},
		"in the sync": func(w io.Writer) error { return w.(*File).Close() },
		"with a file that is gone": func(w io.Writer) error {
			return os.Remove(w.(*File).Name())
		},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, "a")
		must.Do(t, os.WriteFile(path, []byte("old"), 0o666))
		if err := Write(path, write); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if got, _ := os.ReadFile(path); string(got) != "old" {
			t.Errorf("%s: got %q in the file, want old", name, got)
		}
		if got := names(t, folder); got != "a" {
			t.Errorf("%s: got files %q, want a alone", name, got)
		}
	}
}

// TestStale writes a file beside what killed writers left, and beside a file that is being written.
func TestStale(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	held := must.Get(Create(path))(t)
	must.Do(t, errors.Join(text("held")(held), held.Finish()))
	const others = ".a-b-01234567.part .a-0123456.part .a-0123456z.part .b-01234567.part a.part"
	for _, name := range append(strings.Fields(others), ".a-01234567.part") {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte("half"), 0o666))
	}
	must.Do(t, Write(path, text("new")))
	want := append(strings.Fields(others), "a", filepath.Base(held.Name()))
	slices.Sort(want)
	if got := names(t, folder); got != strings.Join(want, " ") {
		t.Errorf("got files %q, want %q", got, want)
	}
	must.Do(t, held.Place())
	if got, err := os.ReadFile(path); err != nil || string(got) != "held" {
		t.Errorf("got %q, %v, want held", got, err)
	}
}

// TestWritersOfOneFile has several writers write one file at once: each succeeds, and the file is whole.
func TestWritersOfOneFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	var all sync.WaitGroup
	for writer := range 4 {
		content := strings.Repeat(string(rune('0'+writer)), 1<<12)
		all.Go(func() {
			for range 25 {
				if err := Write(path, text(content)); err != nil {
					t.Error(err)
				}
				got, err := os.ReadFile(path)
				if err != nil || len(got) != len(content) || strings.Trim(string(got), string(got[:1])) != "" {
					t.Errorf("got %d bytes of several writers, %v", len(got), err)
				}
			}
		})
	}
	all.Wait()
	if got := names(t, folder); got != "a" {
		t.Errorf("got files %q, want a alone", got)
	}
}

// TestPlaceTogether places two files after both are finished.
func TestPlaceTogether(t *testing.T) {
	folder := t.TempDir()
	var files []*File
	for _, name := range []string{"a", "b"} {
		f := must.Get(Create(filepath.Join(folder, name)))(t)
		must.Do(t, errors.Join(text(name)(f), f.Finish()))
		files = append(files, f)
	}
	for _, name := range strings.Fields(names(t, folder)) {
		if !strings.HasPrefix(name, ".") || !strings.HasSuffix(name, Suffix) {
			t.Errorf("got %s before a file is placed, want hidden names that end in %s", name, Suffix)
		}
	}
	for _, f := range files {
		must.Do(t, f.Place())
	}
	if err := SyncFolder(folder); err != nil {
		t.Error(err)
	}
	if got := names(t, folder); got != "a b" {
		t.Errorf("got files %q, want a and b", got)
	}
	if err := SyncFolder(filepath.Join(folder, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: got %v, want %v", err, os.ErrNotExist)
	}
}

// FuzzWrite writes any content in two parts, and fails after the first where
// told to.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("new"), []byte("old"), false)
	f.Add([]byte(""), []byte("old"), true)
	f.Fuzz(func(t *testing.T, content, old []byte, fail bool) {
		folder := t.TempDir()
		path := filepath.Join(folder, "a")
		must.Do(t, os.WriteFile(path, old, 0o666))
		broken := errors.New("broken")
		err := Write(path, func(w io.Writer) error {
			if _, err := w.Write(content[:len(content)/2]); err != nil || fail {
				return errors.Join(err, broken)
			}
			_, err := w.Write(content[len(content)/2:])
			return err
		})
		want := content
		if fail {
			want = old
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, want) || (err != nil) != fail || names(t, folder) != "a" {
			t.Errorf("got %q, error %v, files %s; want %q and a alone", got, err, names(t, folder), want)
		}
	})
}

// TestWriteThroughLinks writes to links, whether or not they lead to a file: a link stays a
// link, and where it leads is the new content.
func TestWriteThroughLinks(t *testing.T) {
	for name, link := range map[string]func(folder string) string{
		"to a file":            func(folder string) string { return filepath.Join(folder, "there", "old") },
		"to no file yet":       func(folder string) string { return filepath.Join(folder, "there", "new") },
		"relative, to no file": func(string) string { return filepath.Join("there", "new") },
		"to a link to no file": func(folder string) string {
			must.Do(t, os.Symlink("new", filepath.Join(folder, "there", "hop")))
			return filepath.Join("there", "hop")
		},
	} {
		folder := t.TempDir()
		must.Do(t, os.Mkdir(filepath.Join(folder, "there"), 0o777))
		must.Do(t, os.WriteFile(filepath.Join(folder, "there", "old"), []byte("old"), 0o666))
		path := filepath.Join(folder, "link")
		to := link(folder)
		must.Do(t, os.Symlink(to, path))
		if err := Write(path, text("content")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := os.Readlink(path); err != nil || got != to {
			t.Errorf("%s: got link %q, %v, want %q as before", name, got, err, to)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "content" {
			t.Errorf("%s: got %q, %v through the link, want content", name, got, err)
		}
	}
}

// TestWriteToLinkWithoutEnd refuses a link that leads to itself.
func TestWriteToLinkWithoutEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(path, path))
	if err := Write(path, text("content")); err == nil {
		t.Error("got no error")
	}
	if _, err := os.Readlink(path); err != nil {
		t.Errorf("the link is gone: %v", err)
	}
}

// TestWriteThroughLinkedFolder writes to a relative link in a folder that is a link itself:
// ".." in the link leads out of the real folder.
func TestWriteThroughLinkedFolder(t *testing.T) {
	folder := t.TempDir()
	real := filepath.Join(folder, "there", "real")
	must.Do(t, os.MkdirAll(real, 0o777))
	for link, to := range map[string]string{filepath.Join(folder, "alias"): real, filepath.Join(real, "link"): filepath.Join("..", "new")} {
		must.Do(t, os.Symlink(to, link))
	}
	must.Do(t, Write(filepath.Join(folder, "alias", "link"), text("content")))
	if got, err := os.ReadFile(filepath.Join(folder, "there", "new")); err != nil || string(got) != "content" {
		t.Errorf("got %q, %v, want content in the file that the link leads to", got, err)
	}
}
