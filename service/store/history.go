package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/neuroshard/neuroshard/unit"
)

// Entry says that a plan was put under a name. A name and a plan have one entry, however
// often the plan was put.
type Entry struct {
	// Seq is the number of the entry. A newer entry has a higher number, and an entry gets a
	// new number when its plan is put or touched again after another plan of the name.
	Seq int64
	// Name is empty for plans without a name.
	Name string
	// First and Last are when the plan was first and last put or touched under the name, as
	// the callers stated.
	First, Last time.Time
	// ID, Digest, Model, Tool, Tables, Devices and Cost are those of the plan's Record.
	ID, Digest, Model, Tool string
	Tables, Devices         int
	Cost                    unit.Millis
}

// Name is a name of a model with its history in short.
type Name struct {
	Name string
	// Plans is the number of the name's plans.
	Plans int
	// Last is the newest entry.
	Last Entry
}

// Page is a part of a list whose entries come newest first.
type Page struct {
	// Limit is the most entries of the page, 100 if it is 0.
	Limit int
	// Before is the Seq of the last entry of the page before, 0 for the first page.
	Before int64
}

// bounds returns the number below which entries lie, and the most entries.
func (p Page) bounds() (before int64, limit int) {
	before, limit = p.Before, p.Limit
	if before <= 0 {
		before = math.MaxInt64
	}
	if limit <= 0 {
		limit = 100
	}
	return before, limit
}

const (
	entryColumns = "h.seq, h.name, h.first, h.last, p.id, p.digest, p.model, p.tool, p.tables, p.devices, p.cost"
	listText     = "SELECT " + entryColumns + " FROM history h JOIN plans p ON p.id = h.plan WHERE h.seq < ? ORDER BY h.seq DESC LIMIT ?"
	listNameText = "SELECT " + entryColumns + " FROM history h JOIN plans p ON p.id = h.plan WHERE h.name = ? AND h.seq < ? ORDER BY h.seq DESC LIMIT ?"
	namesText    = "SELECT " + entryColumns + `, (SELECT count(*) FROM history c WHERE c.name = h.name)
	FROM history h JOIN plans p ON p.id = h.plan WHERE h.newest = 1 AND h.seq < ? ORDER BY h.seq DESC LIMIT ?`

	newestText     = "SELECT plan FROM history WHERE name = ? AND newest = 1"
	findText       = "SELECT seq, first, newest FROM history WHERE plan = ? AND name = ?"
	lastText       = "UPDATE history SET last = ? WHERE seq = ?"
	demoteText     = "UPDATE history SET newest = 0 WHERE name = ? AND newest = 1"
	promoteText    = "UPDATE history SET newest = 1 WHERE seq = (SELECT max(seq) FROM history WHERE name = ?)"
	noteText       = "INSERT INTO history (name, plan, first, last, newest) VALUES (?, ?, ?, ?, ?) RETURNING seq"
	forgetText     = "DELETE FROM history WHERE seq = ? RETURNING newest"
	ofPlanText     = "SELECT seq, plan, name FROM history WHERE plan = ? LIMIT 1"
	deleteLastText = "DELETE FROM plans WHERE id = ? AND NOT EXISTS (SELECT 1 FROM history WHERE plan = id)"
)

// scanEntry reads entryColumns and then more.
func scanEntry(rows *sql.Rows, more ...any) (e Entry, err error) {
	var first, last int64
	err = rows.Scan(append([]any{
		&e.Seq, &e.Name, &first, &last,
		&e.ID, &e.Digest, &e.Model, &e.Tool, &e.Tables, &e.Devices, (*float64)(&e.Cost),
	}, more...)...)
	e.First, e.Last = time.Unix(0, first).UTC(), time.Unix(0, last).UTC()
	return e, err
}

// entryKey is what tells an entry from others.
type entryKey struct {
	seq      int64
	id, name string
}

// note makes a plan the last of a name's history and returns the number of its entry.
func (w *writer) note(ctx context.Context, id, name string, at time.Time) (seq int64, err error) {
	now := at.UnixNano()
	first, newest := now, 0
	err = w.row(ctx, findText, []any{id, name}, &seq, &first, &newest)
	switch {
	case err == nil && newest == 1:
		return seq, w.run(ctx, lastText, now, seq)
	case err == nil:
		if err := w.row(ctx, forgetText, []any{seq}, &newest); err != nil {
			return 0, err
		}
	case !isNone(err):
		return 0, err
	}
	newest = 0
	if name != "" {
		newest = 1
		if err := w.run(ctx, demoteText, name); err != nil {
			return 0, err
		}
	}
	err = w.row(ctx, noteText, []any{name, id, first, now, newest}, &seq)
	return seq, err
}

// forget deletes an entry, and its plan if the plan has no other entry.
func (w *writer) forget(ctx context.Context, e entryKey) error {
	var newest int
	if err := w.row(ctx, forgetText, []any{e.seq}, &newest); err != nil {
		return err
	}
	if newest == 1 {
		if err := w.run(ctx, promoteText, e.name); err != nil {
			return err
		}
	}
	return w.run(ctx, deleteLastText, e.id)
}

// forgetPlan deletes a plan with all its entries.
func (w *writer) forgetPlan(ctx context.Context, id string) error {
	for {
		var e entryKey
		err := w.row(ctx, ofPlanText, []any{id}, &e.seq, &e.id, &e.name)
		if isNone(err) {
			return w.run(ctx, deletePlanText, id)
		}
		if err != nil {
			return err
		}
		if err := w.forget(ctx, e); err != nil {
			return err
		}
	}
}

// deletions is the most entries that one change deletes to keep to the limits.
const deletions = 64

const (
	// The oldest entry that is not the last of its name, and then the oldest.
	oldText    = "SELECT seq, plan, name FROM history WHERE newest = 0 AND seq <> ? ORDER BY seq LIMIT 1"
	oldestText = "SELECT seq, plan, name FROM history WHERE seq <> ? ORDER BY seq LIMIT 1"
	pagesText  = "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
	totalText  = "SELECT entries FROM totals"
)

// A file gives space back if more than this many pages are free, and a quarter of all
// pages; one change then gives back at most shrinkPages.
const (
	sparePages  = 1024
	shrinkPages = 256
)

// keep deletes entries until the limits hold, apart from the entry with the number seq.
func (w *writer) keep(ctx context.Context, limit Keep, seq int64) error {
	for range deletions {
		above, err := w.above(ctx, limit)
		if err != nil || !above {
			return err
		}
		var old entryKey
		err = w.row(ctx, oldText, []any{seq}, &old.seq, &old.id, &old.name)
		if isNone(err) {
			err = w.row(ctx, oldestText, []any{seq}, &old.seq, &old.id, &old.name)
		}
		if isNone(err) {
			return nil // the entry of this change is the only one
		}
		if err != nil {
			return err
		}
		if err := w.forget(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

// above reports whether the file holds more than the limits.
func (w *writer) above(ctx context.Context, limit Keep) (bool, error) {
	var entries, pages, free, size int64
	if err := w.row(ctx, totalText, nil, &entries); err != nil {
		return false, err
	}
	if entries > int64(limit.Plans) {
		return true, nil
	}
	if err := w.row(ctx, pagesText, nil, &pages, &free, &size); err != nil {
		return false, err
	}
	return (pages-free)*size > int64(limit.Bytes), nil
}

// shrink gives free space of the file back to the file system, if there is much of it.
func (w *writer) shrink(ctx context.Context) error {
	var pages, free, size int64
	if err := w.row(ctx, pagesText, nil, &pages, &free, &size); err != nil {
		return err
	}
	if free < sparePages || free < pages/4 {
		return nil
	}
	_, err := w.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages))
	return err
}
