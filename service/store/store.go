// Package store keeps finished plans in one SQLite file, so that servers find a plan by its id
// and by the name of its model, also after a restart. Several servers may use one file.
//
//	Open            makes or opens the file plans.db of a folder; the usual entry point
//	Put, Touch      add a plan, or note that a plan was requested again
//	Get, Delete     read or delete the plan of an id
//	List, Names     list the history of a name, or the names, newest first
//	Check           checks that the file can be used
//	Close           closes the file
//
// A plan is on the disk when Put returns: the file has a write-ahead log, and SQLite syncs
// the log before a commit ends (synchronous=FULL). If a process is killed in the middle of a
// Put, the file is as it was before or after that Put. Several processes of one
// machine may use one file at the same time. A network file system does not share the
// memory that the processes need for their locks, so the folder must be on a local disk.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/neuroshard/neuroshard/unit"
)

// File is the name of the database in its folder. SQLite keeps two files beside it while
// the database is open: File + "-wal" and File + "-shm".
const File = "plans.db"

// Options are the limits of a store. The zero value takes the defaults.
type Options struct {
	Keep Keep

	unsynced bool // for tests that never lose power: nothing waits for the disk
}

// Keep limits the size of a store. If a Put exceeds a limit, it deletes the oldest entries of
// the histories until both limits hold, and the plans that are then in no history. The last
// plan of a name is deleted only if nothing else is left to delete. The entry of the Put always
// stays. One Put deletes at most 64 entries, so after the limits were lowered, several Puts are
// needed until they hold.
type Keep struct {
	// Plans is the most entries of all histories together; a plan that was put under two
	// names has two entries. 0 is 100,000.
	Plans int
	// Bytes is the most bytes of the database in use, without its log; 0 is 10 GiB. The log adds
	// up to 16 MiB. The space of deleted plans is used again, or goes back to the file system in
	// small steps.
	Bytes unit.Bytes
}

// Record is one finished plan with all that an answer about the plan needs.
type Record struct {
	// ID is the plan's id: the same request has the same id.
	ID string
	// Name is the name of the model that the plan is for, empty if none was stated.
	Name string
	// Digest is plan.Digest of the problem, Model the id of the cost model, and Tool the
	// version of the program that made the plan.
	Digest, Model, Tool string
	// Created is when the plan was made. It comes back in UTC.
	Created time.Time
	// Tables and Devices are the numbers of tables and devices of the problem.
	Tables, Devices int
	// Cost is the predicted cost of the plan.
	Cost unit.Millis
	// Plan, Problem and Result are JSON texts, which the store does not read.
	Plan, Problem, Result []byte
	// About is a short JSON text for the plan's Entry. Get does not return it.
	About []byte
}

// Entry says that a plan was put under a name. A name and a plan have one entry, however
// often the plan was put.
type Entry struct {
	// Seq is the number of the entry. An entry gets a new number, higher than all others, when its
	// plan is put or touched again.
	Seq int64
	// Name is empty for plans without a name.
	Name string
	// First and Last are when the plan was first and last put or touched under the name.
	First, Last time.Time
	// ID, Digest, Model, Tool, Tables, Devices and Cost are those of the plan's Record.
	ID, Digest, Model, Tool string
	Tables, Devices         int
	Cost                    unit.Millis
	// About is the Record's; empty if a program that knew no About put the plan.
	About []byte
}

// Name is a name of a model with its history in short: the number of its plans, and the newest entry.
type Name struct {
	Name  string
	Plans int
	Last  Entry
}

// Page is a part of a list whose entries come newest first.
type Page struct {
	// Limit is the most entries of the page, 100 if it is 0.
	Limit int
	// Before is the Seq of the last entry of the page before, 0 for the first page.
	Before int64
}

// Store is an open file of plans. It is safe for concurrent use. Several stores, of one
// process or of several, may have the same file open.
type Store struct {
	path  string
	file  os.FileInfo // of path when it was opened
	limit Keep

	reads, writes *sql.DB // reads has connections that only read, writes has one
	encoder       *zstd.Encoder
	decoder       *zstd.Decoder
}

// maxRecord is the most bytes of a text of a record: SQLite stores at most 1 GB in one row.
const maxRecord = 512 * unit.MiB

// Open opens the file of plans in folder, and makes the folder and the file if they do not
// exist. Both then belong to their owner alone, and an existing file loses the permissions
// of others. Open refuses a file that is no database of this package and a file of another
// version. The caller must close the store.
func Open(ctx context.Context, folder string, options Options) (*Store, error) {
	limit := options.Keep
	if limit.Plans <= 0 {
		limit.Plans = 100_000
	}
	if limit.Bytes <= 0 {
		limit.Bytes = 10 * unit.GiB
	}
	s := &Store{path: filepath.Join(folder, File), limit: limit}
	if err := s.open(ctx, folder, options.unsynced); err != nil {
		return nil, errors.Join(s.explain("open", err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, folder string, unsynced bool) (err error) {
	if s.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20)); err != nil {
		return err
	}
	if s.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(maxRecord)+1<<20)); err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	s.path = filepath.Join(folder, File)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	sync := "synchronous(full)"
	if unsynced {
		sync = "synchronous(off)"
	}
	if s.writes, err = sql.Open("sqlite", dsn(s.path, "auto_vacuum(incremental)", sync, "journal_size_limit(16777216)")); err != nil {
		return err
	}
	s.writes.SetMaxOpenConns(1)
	if s.reads, err = sql.Open("sqlite", dsn(s.path, "query_only(1)")); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(4)
	s.reads.SetMaxIdleConns(4)
	if err := s.writes.PingContext(ctx); err != nil { // it makes the file
		return err
	}
	for _, name := range []string{s.path, s.path + "-wal", s.path + "-shm"} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("others must not read it: %w", err)
		}
	}
	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	return s.prepare(ctx)
}

// change runs f in a transaction, which has the file's write lock from its start and is on the
// disk when change returns nil. Otherwise nothing of it happened.
func (s *Store) change(ctx context.Context, f func(*sql.Tx) error) error {
	if err := s.samePath(); err != nil {
		return err
	}
	tx, err := s.writes.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Put stores a record and adds it to the history of its name. The record is on the disk when
// Put returns nil. If the store has a plan with this id already, that plan stays, the name's
// history notes the plan anew, and fresh is false: Get returns what is stored. If ctx ends
// before Put returns, the record may be stored or not.
func (s *Store) Put(ctx context.Context, r Record) (fresh bool, err error) {
	texts := [3][]byte{r.Plan, r.Problem, r.Result}
	for i, text := range texts {
		if unit.Bytes(len(text)) > maxRecord {
			return false, fmt.Errorf("store: put plan %q: a text has more than %v", r.ID, maxRecord)
		}
		texts[i] = s.encoder.EncodeAll(text, []byte{})
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "INSERT INTO plans VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
			r.ID, r.Digest, r.Model, r.Tool, r.Created.UnixNano(), r.Tables, r.Devices, float64(r.Cost), texts[0], texts[1], texts[2])
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return err
		}
		fresh = n > 0
		if len(r.About) > 0 {
			if _, err := tx.ExecContext(ctx, "INSERT INTO abouts VALUES (?, ?) ON CONFLICT (plan) DO NOTHING", r.ID, string(r.About)); err != nil {
				return err
			}
		}
		return s.note(ctx, tx, r.ID, r.Name, r.Created)
	})
	return fresh && err == nil, s.explain("write", err)
}

// Touch notes that the stored plan with an id was asked for under a name again: the plan
// becomes the last of the name's history, and it is deleted later than older plans when the
// store is full. A plan that is the last of its name already needs no write. Touch returns
// ErrNotFound if no plan has the id.
func (s *Store) Touch(ctx context.Context, id, name string, at time.Time) error {
	var last string
	err := s.reads.QueryRowContext(ctx, "SELECT plan FROM history WHERE name = ? AND name <> '' ORDER BY seq DESC LIMIT 1", name).Scan(&last)
	if err == nil && last == id {
		return nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s.explain("read", err)
	}
	return s.explain("write", s.change(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT id FROM plans WHERE id = ?", id).Scan(&id); err != nil {
			return notFound(id, err)
		}
		return s.note(ctx, tx, id, name, at)
	}))
}

// note makes a plan the last of a name's history, and deletes what is above the limits.
func (s *Store) note(ctx context.Context, tx *sql.Tx, id, name string, at time.Time) error {
	var seq int64
	now := at.UnixNano()
	err := tx.QueryRowContext(ctx, `INSERT OR REPLACE INTO history (name, plan, first, last)
		VALUES (?1, ?2, coalesce((SELECT first FROM history WHERE plan = ?2 AND name = ?1), ?3), ?3) RETURNING seq`, name, id, now).Scan(&seq)
	if err != nil {
		return err
	}
	return s.shorten(ctx, tx, seq)
}

// One change deletes at most deletions entries. A file gives space back if more than sparePages
// pages are free, and a quarter of all; one change then gives back at most shrinkPages.
const deletions, sparePages, shrinkPages = 64, 1024, 256

// oldest deletes the oldest entry but one: one that is not the last of its name, if there is any.
const oldest = `DELETE FROM history WHERE seq = coalesce(
	(SELECT seq FROM history h WHERE seq <> ?1 AND (name = '' OR EXISTS (SELECT 1 FROM history l WHERE l.name = h.name AND l.seq > h.seq)) ORDER BY seq LIMIT 1),
	(SELECT min(seq) FROM history WHERE seq <> ?1))`

// shorten deletes entries until the limits hold, apart from the entry with the number seq, and
// gives free space back.
func (s *Store) shorten(ctx context.Context, tx *sql.Tx, seq int64) error {
	var entries, pages, free, size int64
	for range deletions {
		err := tx.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM history), page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&entries, &pages, &free, &size)
		if err != nil {
			return err
		}
		if entries <= int64(s.limit.Plans) && (pages-free)*size <= int64(s.limit.Bytes) || entries == 1 {
			break
		}
		if _, err := tx.ExecContext(ctx, oldest, seq); err != nil {
			return err
		}
	}
	if free < sparePages || free < pages/4 {
		return nil
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages))
	return err
}

// Get returns the plan with an id, under the name that it was last put or touched under. It
// returns ErrNotFound if there is none, and ErrDamaged if the stored texts are not what was put.
func (s *Store) Get(ctx context.Context, id string) (Record, error) {
	r := Record{ID: id}
	var created int64
	err := s.reads.QueryRowContext(ctx, `SELECT digest, model, tool, created, tables, devices, cost, plan, problem, result,
		(SELECT name FROM history WHERE plan = id ORDER BY seq DESC LIMIT 1) FROM plans WHERE id = ?`, id).Scan(
		&r.Digest, &r.Model, &r.Tool, &created, &r.Tables, &r.Devices, (*float64)(&r.Cost), &r.Plan, &r.Problem, &r.Result, &r.Name)
	if err != nil {
		return Record{}, s.explain("read", notFound(id, err))
	}
	r.Created = time.Unix(0, created).UTC()
	for _, text := range []*[]byte{&r.Plan, &r.Problem, &r.Result} {
		if *text, err = s.decoder.DecodeAll(*text, nil); err != nil {
			return Record{}, s.explain("read", fmt.Errorf("plan %q: %w (%w): %s", id, ErrDamaged, err, advice[ErrDamaged]))
		}
	}
	return r, nil
}

// Delete removes the plan with an id from the store and from all histories. It returns
// ErrNotFound if there is none.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.explain("write", s.change(ctx, func(tx *sql.Tx) error {
		var seq int64
		// The last row takes the plan with it.
		return notFound(id, tx.QueryRowContext(ctx, "DELETE FROM history WHERE plan = ? RETURNING seq", id).Scan(&seq))
	}))
}

// notFound returns ErrNotFound with the id if err means that no plan has the id, and else err.
func notFound(id string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("plan %q: %w", id, ErrNotFound)
	}
	return err
}

// List returns the entries of a name, newest first; the entries of all names and of plans
// without a name if name is empty.
func (s *Store) List(ctx context.Context, name string, page Page) (all []Entry, err error) {
	where := ""
	if name != "" {
		where = "h.name = ?3 AND"
	}
	err = s.entries(ctx, where, name, page, func(e Entry, _ int) { all = append(all, e) })
	return all, err
}

// Names returns the names that plans were put under, those with the newest entries first.
// The page's Before is the Seq of Name.Last.
func (s *Store) Names(ctx context.Context, page Page) (all []Name, err error) {
	const last = "h.name <> '' AND NOT EXISTS (SELECT 1 FROM history l WHERE l.name = h.name AND l.seq > h.seq) AND"
	err = s.entries(ctx, last, "", page, func(e Entry, plans int) { all = append(all, Name{e.Name, plans, e}) })
	return all, err
}

// entries calls each for the entries that match a condition, newest first, with the number of
// plans of the entry's name.
func (s *Store) entries(ctx context.Context, where, name string, page Page, each func(e Entry, plans int)) error {
	if page.Limit <= 0 {
		page.Limit = 100
	}
	rows, err := s.reads.QueryContext(ctx, `SELECT h.seq, h.name, h.first, h.last, p.id, p.digest, p.model, p.tool, p.tables, p.devices, p.cost, coalesce(a.about, ''),
		(SELECT count(*) FROM history c WHERE c.name = h.name AND h.name <> '')
		FROM history h JOIN plans p ON p.id = h.plan LEFT JOIN abouts a ON a.plan = p.id WHERE `+where+" (?1 <= 0 OR h.seq < ?1) ORDER BY h.seq DESC LIMIT ?2", page.Before, page.Limit, name)
	if err != nil {
		return s.explain("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		var first, last int64
		var plans int
		if err := rows.Scan(&e.Seq, &e.Name, &first, &last, &e.ID, &e.Digest, &e.Model, &e.Tool, &e.Tables, &e.Devices, (*float64)(&e.Cost), &e.About, &plans); err != nil {
			return s.explain("read", err)
		}
		e.First, e.Last = time.Unix(0, first).UTC(), time.Unix(0, last).UTC()
		each(e, plans)
	}
	return s.explain("read", rows.Err())
}

// Path returns the path of the database.
func (s *Store) Path() string { return s.path }

// Check returns an error if the file can no longer be read, or if the path no longer leads
// to the file that was opened. It does little work: a server may call it every second.
func (s *Store) Check(ctx context.Context) error {
	if err := s.samePath(); err != nil {
		return s.explain("read", err)
	}
	var last int64
	return s.explain("read", s.reads.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM history").Scan(&last))
}

// samePath returns an error if another file, or no file, is at the path of the store: what
// is written to the opened file would be lost.
func (s *Store) samePath() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("the database was removed while it was open: %w", err)
	}
	if !os.SameFile(info, s.file) {
		return errors.New("another file was put in the place of the database while it was open: restart the server")
	}
	return nil
}

// Close ends the store: SQLite brings the log into the database and removes the log if no
// other store has the file open. Calls after Close fail, apart from Close.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.reads, s.writes} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return s.explain("close", errors.Join(errs...))
}
