package store_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/neuroshard/neuroshard/internal/fixedseed"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service/store"
)

// model is what a store is to do, with maps and loops.
type model struct {
	limit   int
	records map[string]store.Record
	entries []store.Entry // oldest first; Seq is not set
}

func (m *model) find(id, name string) int {
	return slices.IndexFunc(m.entries, func(e store.Entry) bool { return e.ID == id && e.Name == name })
}

// newest returns whether the entry at i is the last of its name.
func (m *model) newest(i int) bool {
	name := m.entries[i].Name
	return name != "" && !slices.ContainsFunc(m.entries[i+1:], func(e store.Entry) bool { return e.Name == name })
}

func (m *model) note(id, name string, at time.Time) {
	r := m.records[id]
	e := store.Entry{
		Name: name, First: at, Last: at, ID: id, Digest: r.Digest, Model: r.Model, Tool: r.Tool,
		Tables: r.Tables, Devices: r.Devices, Cost: r.Cost,
	}
	if i := m.find(id, name); i >= 0 {
		e.First = m.entries[i].First
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	m.entries = append(m.entries, e)
}

func (m *model) put(r store.Record) (fresh bool) {
	if _, found := m.records[r.ID]; !found {
		m.records[r.ID], fresh = r, true
	}
	m.note(r.ID, r.Name, r.Created)
	m.keep(r.ID, r.Name)
	return fresh
}

func (m *model) touch(id, name string, at time.Time) error {
	if i := m.find(id, name); i >= 0 && m.newest(i) {
		return nil
	}
	if _, found := m.records[id]; !found {
		return store.ErrNotFound
	}
	m.note(id, name, at)
	m.keep(id, name)
	return nil
}

// keep deletes the oldest entries above the limit, apart from one: those that are not the
// last of their name first.
func (m *model) keep(id, name string) {
	for len(m.entries) > m.limit {
		old := -1
		for i, e := range m.entries {
			if e.ID == id && e.Name == name {
				continue
			}
			if !m.newest(i) {
				old = i
				break
			}
			if old < 0 {
				old = i
			}
		}
		gone := m.entries[old].ID
		m.entries = slices.Delete(m.entries, old, old+1)
		if !slices.ContainsFunc(m.entries, func(e store.Entry) bool { return e.ID == gone }) {
			delete(m.records, gone)
		}
	}
}

func (m *model) delete(id string) error {
	if _, found := m.records[id]; !found {
		return store.ErrNotFound
	}
	delete(m.records, id)
	m.entries = slices.DeleteFunc(m.entries, func(e store.Entry) bool { return e.ID == id })
	return nil
}

// list returns the entries of a name, newest first.
func (m *model) list(name string) (all []store.Entry) {
	for _, e := range slices.Backward(m.entries) {
		if name == "" || e.Name == name {
			all = append(all, e)
		}
	}
	return all
}

func (m *model) names() (all []store.Name) {
	for i, e := range slices.Backward(m.entries) {
		if m.newest(i) {
			all = append(all, store.Name{Name: e.Name, Plans: len(m.list(e.Name)), Last: e})
		}
	}
	return all
}

// TestModel runs drawn calls on a store and on the model, and closes and opens the store
// between calls.
func TestModel(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue && !testing.Short() {
		// Thousands of small transactions are slow on a busy disk.
		must.Do(t, f.Value.Set("30"))
		defer func() { _ = f.Value.Set(f.DefValue) }()
	}
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		folder := must.Get(os.MkdirTemp("", "store"))(t)
		defer func() { _ = os.RemoveAll(folder) }()
		m := &model{limit: rapid.IntRange(1, 8).Draw(t, "limit"), records: map[string]store.Record{}}
		opened := func() *store.Store {
			return must.Get(store.Open(ctx, folder, store.Options{Keep: store.Keep{Plans: m.limit}}.Unsynced()))(t)
		}
		s := opened()
		defer func() { _ = s.Close() }()
		number := rapid.IntRange(0, 9)
		name := rapid.SampledFrom([]string{"", "", "a", "b", "c"})
		clock := 0
		now := func() time.Time { clock++; return time.Unix(int64(clock), 0).UTC() }
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				r := recordOf(number.Draw(t, "n"), name.Draw(t, "name"))
				r.Created = now()
				fresh, err := s.Put(ctx, r)
				if want := m.put(r); err != nil || fresh != want {
					t.Fatalf("put: got fresh %v, %v; want %v", fresh, err, want)
				}
			},
			"touch": func(t *rapid.T) {
				id, name, at := recordOf(number.Draw(t, "n"), "").ID, name.Draw(t, "name"), now()
				if err, want := s.Touch(ctx, id, name, at), m.touch(id, name, at); !errors.Is(err, want) {
					t.Fatalf("touch: got %v, want %v", err, want)
				}
			},
			"delete": func(t *rapid.T) {
				id := recordOf(number.Draw(t, "n"), "").ID
				if err, want := s.Delete(ctx, id), m.delete(id); !errors.Is(err, want) {
					t.Fatalf("delete: got %v, want %v", err, want)
				}
			},
			"open again": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "of five") > 0 {
					return // it costs more than all others
				}
				must.Do(t, s.Close())
				s = opened()
			},
			"": func(t *rapid.T) { compare(t, s, m) },
		})
	})
}

// compare fails unless the store gives what the model has.
func compare(t *rapid.T, s *store.Store, m *model) {
	ctx := context.Background()
	for n := range 10 {
		id := recordOf(n, "").ID
		got, err := s.Get(ctx, id)
		want, found := m.records[id]
		if !found {
			if !errors.Is(err, store.ErrNotFound) {
				t.Fatalf("get %d: got %v, want ErrNotFound", n, err)
			}
			continue
		}
		for _, e := range m.entries {
			if e.ID == id {
				want.Name = e.Name
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("get %d: got %+v, %v; want %+v", n, got, err, want)
		}
	}
	for _, name := range []string{"", "a", "b", "c"} {
		var got []store.Entry
		for page := (store.Page{Limit: 2}); ; { // three pages of two see all that one page sees
			entries := must.Get(s.List(ctx, name, page))(t)
			got = append(got, entries...)
			if len(entries) < page.Limit {
				break
			}
			page.Before = entries[len(entries)-1].Seq
		}
		if !slices.IsSortedFunc(got, func(a, b store.Entry) int { return cmp.Compare(b.Seq, a.Seq) }) {
			t.Fatalf("list %q: got %+v, want falling numbers", name, got)
		}
		for i := range got {
			got[i].Seq = 0
		}
		if want := m.list(name); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("list %q:\ngot  %+v\nwant %+v", name, got, want)
		}
	}
	got, err := s.Names(ctx, store.Page{})
	for i := range got {
		got[i].Last.Seq = 0
	}
	if want := m.names(); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("names: got %+v, %v; want %+v", got, err, want)
	}
}
