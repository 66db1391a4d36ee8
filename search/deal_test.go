package search

import (
	"context"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// dealtTables is a problem of many tables in two lane classes, with few rows and with many.
func dealtTables(memory unit.Bytes) *problem.Problem {
	var tables []table
	for i := range 420 {
		switch {
		case i%3 == 0:
			tables = append(tables, table{60_000_000, 128, 4})
		case i%3 == 1:
			tables = append(tables, table{10_000, 192, 30})
		default:
			tables = append(tables, table{1_000, 16, 1})
		}
	}
	return handMade(memory, 8, tables...)
}

// Dealt tables have all of their columns, the numbers of their rows and slices of the widths that the
// dealing asks for, and keep to the memory of each device.
func TestDealing(t *testing.T) {
	for _, how := range dealings {
		p := dealtTables(800 * unit.GiB)
		r := newRun(context.Background(), p, lanedFactory(p, nil), Options{Workers: 1, Method: NeuroShard})
		c := r.catalog
		parts := deal(c, how.cut(c, c.whole()))
		if parts == nil {
			t.Fatalf("%+v: got no placement", how)
		}
		columns, used := make([]int, len(p.Tables)), make([]int64, len(c.all))
		held := make([]int, len(c.all))
		for _, part := range parts {
			k := &c.pieces[part.piece]
			m := k.members[0]
			few := p.Tables[m.table].Rows < 60_000_000
			columns[m.table] += m.width
			used[part.device] += k.bytes
			held[part.device]++
			if want := map[bool]problem.Operator{true: 1}[few]; k.form.Operator != want {
				t.Errorf("%+v: table %d: got number %d, want %d", how, m.table, k.form.Operator, want)
			}
			if cuts := few && how.few || !few && how.many; cuts && m.width > dealtWidth || !cuts && m.width < p.Tables[m.table].Dim {
				t.Errorf("%+v: table %d: got a slice of %d columns of %d", how, m.table, m.width, p.Tables[m.table].Dim)
			}
		}
		for i, n := range columns {
			if n != p.Tables[i].Dim {
				t.Errorf("%+v: table %d: got %d columns, want %d", how, i, n, p.Tables[i].Dim)
			}
		}
		for d := range used {
			if used[d] > c.free(int32(d)) {
				t.Errorf("%+v: device %d: got %d bytes, want at most %d", how, d, used[d], c.free(int32(d)))
			}
			if mean := len(parts) / len(c.all); held[d] < mean/2 || held[d] > 2*mean {
				t.Errorf("%+v: device %d: got %d slices, want about %d", how, d, held[d], mean)
			}
		}
	}
}

// Tables for which the devices have no room are not dealt.
func TestDealingWithoutRoom(t *testing.T) {
	p := dealtTables(400 * unit.GiB)
	r := newRun(context.Background(), p, lanedFactory(p, nil), Options{Workers: 1, Method: NeuroShard})
	if parts := deal(r.catalog, r.catalog.whole()); parts != nil {
		t.Errorf("got %d parts, want none: the tables take more than all devices have", len(parts))
	}
}

// Tables are dealt in the same way whatever the Scorer held before.
func TestDealingFromAnyScorer(t *testing.T) {
	var first []placed
	for _, held := range []int{0, 50} {
		p := dealtTables(800 * unit.GiB)
		r := newRun(context.Background(), p, lanedFactory(p, nil), Options{Workers: 1, Method: NeuroShard})
		for _, k := range r.catalog.whole()[:held] {
			r.catalog.register(&r.catalog.pieces[k])
			r.scorer().Add(0, r.catalog.pieces[k].members[0].item)
		}
		parts := deal(r.catalog, dealings[3].cut(r.catalog, r.catalog.whole()))
		if first == nil {
			first = parts
		}
		if !slices.Equal(parts, first) {
			t.Errorf("got other places with %d slices in the Scorer than with an empty one", held)
		}
	}
}
