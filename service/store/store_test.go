package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/unit"
)

func open(t testing.TB, folder string, options store.Options) *store.Store {
	t.Helper()
	s := must.Get(store.Open(t.Context(), folder, options))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// recordOf returns a record whose fields all depend on n.
func recordOf(n int, name string) store.Record {
	return store.Record{
		ID: fmt.Sprintf("%032x", n), Name: name, Digest: fmt.Sprintf("sha256:%d", n), Model: "a100", Tool: "v0.1.0",
		Created: time.Unix(1_800_000_000+int64(n), int64(n)).UTC(), Tables: n, Devices: 8, Cost: unit.Millis(n) / 3,
		Plan:    fmt.Appendf(nil, `{"plan":%d,"shards":"%s"}`, n, strings.Repeat("shard ", n%100)),
		Problem: fmt.Appendf(nil, `{"tables":%d}`, n), Result: fmt.Appendf(nil, `{"cost":%d}`, n),
	}
}

func put(t testing.TB, s *store.Store, r store.Record) (fresh bool) {
	t.Helper()
	fresh = must.Get(s.Put(t.Context(), r))(t)
	return fresh
}

func ids(t testing.TB, s *store.Store, name string) (all []string) {
	t.Helper()
	entries := must.Get(s.List(t.Context(), name, store.Page{Limit: 1000}))(t)
	for _, e := range entries {
		all = append(all, strings.TrimLeft(e.ID, "0"))
	}
	return all
}

func TestPutGet(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data?of=#1 100%", "ü")
	s := open(t, folder, store.Options{})
	if level, err := s.Pragma(t.Context(), "synchronous"); err != nil || level != "2" {
		t.Errorf("got synchronous %s, %v, want 2, which waits for the disk", level, err)
	}
	want := recordOf(7, "ranking-prod")
	put(t, s, want)
	other := recordOf(7, "") // it stays as it was put first
	other.Plan = []byte(`"another"`)
	put(t, s, other)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	must.Do(t, s.Close())
	if _, err := s.Put(t.Context(), want); err == nil {
		t.Error("put into a closed store: got no error")
	}
	s = open(t, folder, store.Options{})
	got, err := s.Get(t.Context(), want.ID)
	want.Name = "" // it was put again without a name
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestKeepBytes(t *testing.T) {
	const limit = 256 * unit.KiB
	folder := t.TempDir()
	s := open(t, folder, store.Options{Keep: store.Keep{Bytes: limit}}.Unsynced())
	for n := range 100 {
		r := recordOf(n, "")
		r.Plan = incompressible(n, 10_000)
		put(t, s, r)
	}
	kept := ids(t, s, "")
	if len(kept) < 10 || len(kept) > 26 || kept[0] != fmt.Sprintf("%x", 99) {
		t.Errorf("got %d plans %v, want the newest that fit into %v", len(kept), kept, limit)
	}
	if info, err := os.Stat(s.Path()); err != nil || info.Size() > int64(limit)+64<<10 {
		t.Errorf("got a file of %d bytes, %v; want at most %v and one record", info.Size(), err, limit)
	}
}

// TestShrink lowers the limit of a store: the file becomes smaller change by change.
func TestShrink(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, store.Options{})
	for n := range 8 {
		r := recordOf(n, "")
		r.Plan = incompressible(n, 2_000_000)
		put(t, s, r)
	}
	must.Do(t, s.Close())
	before, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, folder, store.Options{Keep: store.Keep{Plans: 1}}.Unsynced())
	for n := range 16 {
		put(t, s, recordOf(10+n, ""))
	}
	must.Do(t, s.Close())
	after, err := os.Stat(s.Path())
	if err != nil || after.Size() > before.Size()/2 {
		t.Errorf("got a file of %d bytes, %v; want less than half of %d", after.Size(), err, before.Size())
	}
}

// incompressible returns bytes without a pattern that depend on n.
func incompressible(n, length int) []byte {
	b := make([]byte, length)
	x := uint64(n)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions come from the folder")
	}
	folder := filepath.Join(t.TempDir(), "new", "data")
	s := open(t, folder, store.Options{})
	put(t, s, recordOf(1, ""))
	check := func() {
		t.Helper()
		for _, name := range []string{"", store.File, store.File + "-wal", store.File + "-shm"} {
			info, err := os.Stat(filepath.Join(folder, name))
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: got %v, %v; want nothing for others", name, info, err)
			}
		}
	}
	check()
	must.Do(t, os.Chmod(s.Path(), 0o644))
	open(t, folder, store.Options{})
	check()
}

func TestReplacedFile(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, store.Options{})
	moved := s.Path() + ".moved"
	if err := os.Rename(s.Path(), moved); err != nil {
		t.Skip("an open file cannot be renamed here:", err)
	}
	for range 2 { // no file, another file
		_, err := s.Put(t.Context(), recordOf(1, ""))
		if check := s.Check(t.Context()); err == nil || check == nil {
			t.Errorf("got %v, %v; want errors of Put and Check", err, check)
		}
		must.Do(t, os.WriteFile(s.Path(), nil, 0o600))
	}
}

func TestCanceled(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, recordOf(1, "")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context was canceled", err)
	}
	put(t, s, recordOf(1, ""))
}
