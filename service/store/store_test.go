package store_test

import (
	"bytes"
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

	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/unit"
)

func open(t testing.TB, folder string, options store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), folder, options)
	if err != nil {
		t.Fatal(err)
	}
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
	fresh, err := s.Put(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return fresh
}

func ids(t testing.TB, s *store.Store, name string) (all []string) {
	t.Helper()
	entries, err := s.List(t.Context(), name, store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, strings.TrimLeft(e.ID, "0"))
	}
	return all
}

func TestPutGet(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data?of=#1 100%", "ü")
	s := open(t, folder, store.Options{})
	want := recordOf(7, "ranking-prod")
	if !put(t, s, want) {
		t.Error("got a plan that was there before, want a fresh one")
	}
	other := recordOf(7, "")
	other.Plan = []byte(`"another"`)
	if put(t, s, other) {
		t.Error("got a fresh plan, want the plan that was there before")
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), want); !errors.Is(err, store.ErrClosed) {
		t.Errorf("put into a closed store: got %v, want ErrClosed", err)
	}
	s = open(t, folder, store.Options{})
	got, err := s.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	want.Name = "" // it was put again without a name
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := s.Get(t.Context(), "ab"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if err := s.Delete(t.Context(), want.ID); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"delete": s.Delete(t.Context(), want.ID),
		"touch":  s.Touch(t.Context(), want.ID, "", want.Created),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of a plan that was deleted: got %v, want ErrNotFound", what, err)
		}
	}
}

func TestHistory(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	put(t, s, recordOf(1, "a"))
	put(t, s, recordOf(2, "b"))
	put(t, s, recordOf(3, "a"))
	put(t, s, recordOf(4, ""))
	put(t, s, recordOf(1, "b"))
	if err := s.Touch(t.Context(), recordOf(1, "").ID, "a", time.Unix(1_900_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "[1 1 4 3 2]", "a": "[1 3]", "b": "[1 2]", "c": "[]"} {
		if got := fmt.Sprint(ids(t, s, name)); got != want {
			t.Errorf("history of %q: got %s, want %s", name, got, want)
		}
	}
	page, err := s.List(t.Context(), "", store.Page{Limit: 2})
	if err != nil || len(page) != 2 {
		t.Fatalf("got %d entries, %v; want 2", len(page), err)
	}
	first := page[0]
	if !first.First.Equal(recordOf(1, "").Created) || !first.Last.Equal(time.Unix(1_900_000_000, 0)) || first.Cost != recordOf(1, "").Cost || first.Tables != 1 {
		t.Errorf("got entry %+v", first)
	}
	next, err := s.List(t.Context(), "", store.Page{Before: page[1].Seq})
	if err != nil || len(next) != 3 || next[0].Seq >= page[1].Seq {
		t.Errorf("got the next page %+v, %v; want the 3 older entries", next, err)
	}
	names, err := s.Names(t.Context(), store.Page{})
	if err != nil || len(names) != 2 || names[0].Name != "a" || names[0].Plans != 2 || names[0].Last != first || names[1].Name != "b" {
		t.Errorf("got names %+v, %v; want a, b", names, err)
	}
	if err := s.Delete(t.Context(), recordOf(1, "").ID); err != nil {
		t.Fatal(err)
	}
	names, err = s.Names(t.Context(), store.Page{})
	if err != nil || len(names) != 2 || names[0].Name != "a" || names[0].Last.Tables != 3 || names[1].Last.Tables != 2 {
		t.Errorf("after the newest plan of both names was deleted: got %+v, %v; want a with plan 3, b with plan 2", names, err)
	}
}

func TestKeep(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{Keep: store.Keep{Plans: 4}})
	put(t, s, recordOf(1, "a")) // the last of its name, and the oldest
	put(t, s, recordOf(2, "b"))
	put(t, s, recordOf(3, "b"))
	put(t, s, recordOf(4, ""))
	put(t, s, recordOf(5, ""))
	if got := fmt.Sprint(ids(t, s, "")); got != "[5 4 3 1]" {
		t.Errorf("got %s, want all but 2", got)
	}
	if err := s.Touch(t.Context(), recordOf(4, "").ID, "", time.Unix(1_900_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	for n, name := range []string{"c", "d", "e"} {
		put(t, s, recordOf(6+n, name))
	}
	if got := fmt.Sprint(ids(t, s, "")); got != "[8 7 6 3]" {
		t.Errorf("got %s, want the last plans of the newest names", got)
	}
	put(t, s, recordOf(9, ""))
	if got := fmt.Sprint(ids(t, s, "")); got != "[9 8 7 6]" {
		t.Errorf("got %s, want the plan that was put last, too", got)
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
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, folder, store.Options{Keep: store.Keep{Plans: 1}}.Unsynced())
	for n := range 16 {
		put(t, s, recordOf(10+n, ""))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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

func TestRefusedRecords(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{MaxRecord: 1000})
	r := recordOf(1, "")
	r.Plan = bytes.Repeat([]byte{'1'}, 1001)
	if _, err := s.Put(t.Context(), r); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	_, err := s.Put(t.Context(), store.Record{ID: "X", Name: "a\nb", Digest: strings.Repeat("d", 201), Model: "\xff", Cost: unit.Millis(nan())})
	for _, want := range []string{"an id has", `the name "a\nb"`, "the digest", "the model", "the time", "the cost is NaN", "the plan is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want all faults, with %q", err, want)
		}
	}
	if got := ids(t, s, ""); len(got) != 0 {
		t.Errorf("got plans %v, want none", got)
	}
	_, err = store.Open(t.Context(), t.TempDir(), store.Options{Keep: store.Keep{Plans: -1}, MaxRecord: unit.GiB})
	if err == nil || !strings.Contains(err.Error(), "negative") || !strings.Contains(err.Error(), "at most 512") {
		t.Errorf("got %v, want both wrong limits", err)
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

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
	if err := os.Chmod(s.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(s.Path(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPartsOfKilledStores starts beside the files of a store that was killed while it made its database.
func TestPartsOfKilledStores(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{".plans.db-123.part", ".plans.db-123.part-journal", "mine.part"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, folder, store.Options{})
	left, err := filepath.Glob(filepath.Join(folder, "*.part*"))
	if hidden, _ := filepath.Glob(filepath.Join(folder, ".*")); err != nil || len(left) != 1 || len(hidden) != 0 {
		t.Errorf("got %v and %v, %v, want mine.part alone", left, hidden, err)
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

// TestWaitsForTheDisk wants what the package promises of a Put: no test can cut the power.
func TestWaitsForTheDisk(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if level, err := s.Synchronous(t.Context()); err != nil || level != 2 {
		t.Errorf("got synchronous %d, %v, want 2, which is FULL", level, err)
	}
}
