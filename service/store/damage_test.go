package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service/store"
)

// TestOtherFiles opens files that are no stores of this version.
func TestOtherFiles(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"text":   {func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("plan ", 3000)), 0o644) }, "move the file away"},
		"folder": {func(path string) error { return os.Mkdir(path, 0o755) }, "cannot be written"},
		"of another program": {func(path string) error {
			return statements(path, "CREATE TABLE people (name TEXT)")
		}, "the database of another program"},
		"of another program with a version": {func(path string) error {
			return statements(path, "PRAGMA user_version = 1")
		}, "the database of another program"},
		"of a newer version": {func(path string) error {
			return statements(path, fmt.Sprintf("PRAGMA application_id = %d", 0x6e657572), "PRAGMA user_version = 1000")
		}, "version 1000, and this program knows version 2"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, store.File)
			must.Do(t, c.make(path))
			before, _ := os.ReadFile(path)
			_, err := store.Open(t.Context(), folder, store.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), folder) {
				t.Errorf("got %v, want the path and %q", err, c.want)
			}
			if after, _ := os.ReadFile(path); string(before) != string(after) {
				t.Error("the file of somebody else was changed")
			}
		})
	}
}

// statements runs SQL on a database file.
func statements(path string, texts ...string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, err := db.Exec(text); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

// TestDamage changes bytes of a store's file and cuts the file: the store gives an error or
// what was put, and never something else.
func TestDamage(t *testing.T) {
	draws := 60
	if testing.Short() {
		draws = 20
	}
	good := t.TempDir()
	s := open(t, good, store.Options{})
	const plans = 12
	for n := range plans {
		put(t, s, large(n))
	}
	must.Do(t, s.Close())
	content := must.Get(os.ReadFile(filepath.Join(good, store.File)))(t)
	rng := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for draw := range draws {
		damaged := damage(rng, content, draw)
		folder := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(folder, store.File), damaged, 0o600))
		if err := useDamaged(t, folder, plans); err != nil {
			failed++
		}
	}
	if failed < draws/2 {
		t.Errorf("got errors for %d of %d damaged files, want more", failed, draws)
	}
}

// damage returns a changed copy of content: cut, or with a changed range, or with many
// changed bytes.
func damage(rng *rand.Rand, content []byte, draw int) []byte {
	b := append([]byte(nil), content...)
	switch draw % 3 {
	case 0:
		return b[:rng.IntN(len(b))]
	case 1:
		from := rng.IntN(len(b) - 1)
		for i := from; i < min(from+1+rng.IntN(5000), len(b)); i++ {
			b[i] = byte(rng.Uint32())
		}
	case 2:
		for range 1 + rng.IntN(400) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
	}
	return b
}

// useDamaged calls all methods and returns their errors.
func useDamaged(t *testing.T, folder string, plans int) error {
	ctx := context.Background()
	s, err := store.Open(ctx, folder, store.Options{}.Unsynced())
	if err != nil {
		return err
	}
	var errs []error
	_, err = s.List(ctx, "", store.Page{})
	errs = append(errs, err)
	_, err = s.Names(ctx, store.Page{})
	_, wrong := s.Pragma(ctx, "integrity_check(1)")
	errs = append(errs, err, s.Check(ctx), wrong)
	for n := range plans {
		want := large(n)
		got, err := s.Get(ctx, want.ID)
		errs = append(errs, err)
		// The numbers beside the texts have no checksum.
		if err == nil && !slices.EqualFunc([][]byte{got.Plan, got.Problem, got.Result}, [][]byte{want.Plan, want.Problem, want.Result}, bytes.Equal) {
			t.Errorf("got plan %d without an error, but not as it was put", n)
		}
	}
	_, err = s.Put(ctx, large(99))
	errs = append(errs, err, s.Delete(ctx, large(3).ID), s.Touch(ctx, large(4).ID, "b", recordOf(1, "").Created))
	_ = s.Close()
	return errors.Join(errs...)
}

// TestFull limits the pages of a file, which SQLite reports as a full disk: the Put fails,
// and what was stored before stays.
func TestFull(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder, store.Options{})
	put(t, s, large(0))
	must.Get(s.Pragma(t.Context(), "max_page_count(40)"))(t)
	full := 0
	for n := 1; n < 10; n++ {
		if _, err := s.Put(t.Context(), large(n)); err != nil {
			if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "nothing that was stored is lost") || !strings.Contains(err.Error(), folder) {
				t.Fatalf("got %v, want ErrFull with the path and what to do", err)
			}
			full = n
			break
		}
	}
	if full == 0 {
		t.Fatal("got no error, want ErrFull")
	}
	holds(t, s, 0, full)
	must.Do(t, s.Delete(t.Context(), large(0).ID))
	put(t, s, large(full))
	holds(t, s, 1, full+1)
}

// TestNotWritable has a file that cannot be written: the error says so, and what was stored
// before is read.
func TestNotWritable(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	put(t, s, large(0))
	_, _ = s.Pragma(t.Context(), "query_only(1)") // it has no value
	if _, err := s.Put(t.Context(), large(1)); !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), "make the folder and its files writable") {
		t.Errorf("got %v, want ErrReadOnly with what to do", err)
	}
	holds(t, s, 0, 1)
}
